#include "disk/disk_read.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/world.h"
#include "disk/disk_io.h"

#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#if LARDER_HAVE_URING
#include "base/uring_late.h"
#endif

enum { THREADS = 4, ENTRIES = 256, CLOSED_AFTER = 4096 };

struct larder__disk_reader {
    int file;
    pthread_mutex_t lock;
    pthread_cond_t some; /* a job is over, or a thread has ended */
    pthread_cond_t work;
    size_t under_way;
    unsigned refs; /* the owner's and the threads' */
    bool stopped;
    pthread_t threads[THREADS];
    int started;
    larder__disk_job *first, **last; /* not yet begun; of the threads */
#if LARDER_HAVE_URING
    struct io_uring ring;
    bool has_ring, waited_on; /* waited_on: somebody waits in the kernel for all */
    size_t waiting;           /* who wait for that one */
#endif
};

/* With the lock. */
static void over(larder__disk_reader *r, larder__disk_job *j, ssize_t got) {
    j->got = got;
    j->over = true;
    r->under_way--;
    j->done(j);
}

static void free_reader(larder__disk_reader *r) {
    if (r->file >= 0)
        close(r->file);
    pthread_cond_destroy(&r->some);
    pthread_cond_destroy(&r->work);
    pthread_mutex_destroy(&r->lock);
    larder__free(r);
}

/* ---- threads --------------------------------------------------------------------------------- */

static ssize_t read_once(int file, const larder__disk_job *j) {
    ssize_t n;
    do
        n = larder__disk_io_now()->read(file, j->into, j->bytes, j->at);
    while (n < 0 && errno == EINTR);
    return n < 0 ? -errno : n;
}

static void *work(void *arg) {
    larder__disk_reader *r = arg;
    pthread_mutex_lock(&r->lock);
    for (;;) {
        while (!r->first && !r->stopped)
            pthread_cond_wait(&r->work, &r->lock);
        larder__disk_job *j = r->first;
        if (!j || r->stopped)
            break;
        r->first = j->next;
        if (!r->first)
            r->last = &r->first;
        pthread_mutex_unlock(&r->lock);
        ssize_t got = read_once(r->file, j);
        pthread_mutex_lock(&r->lock);
        over(r, j, got);
        pthread_cond_broadcast(&r->some);
    }
    bool last = --r->refs == 0;
    pthread_cond_broadcast(&r->some);
    pthread_mutex_unlock(&r->lock);
    if (last)
        free_reader(r);
    return NULL;
}

static int start_threads(larder__disk_reader *r) {
    int rc = 0;
    pthread_mutex_lock(&r->lock);
    while (r->started < THREADS && rc == 0) {
        rc = pthread_create(&r->threads[r->started], NULL, work, r);
        r->started += rc == 0;
    }
    r->refs += (unsigned)r->started;
    pthread_mutex_unlock(&r->lock);
    return r->started ? 0 : larder__fail(LARDER_E_NOMEM, "no thread to be had: %s", strerror(rc));
}

/* ---- io_uring -------------------------------------------------------------------------------- */

#if LARDER_HAVE_URING

static void open_ring(larder__disk_reader *r) {
    struct io_uring_params p = {.flags = IORING_SETUP_CQSIZE, .cq_entries = CLOSED_AFTER};
    if (!larder__disk_io_real() || larder__uring_open() < 0 ||
        io_uring_queue_init_params(ENTRIES, &r->ring, &p) != 0)
        return;
    /* Without the first, waiting with an end would take a place in the queue of others' jobs. */
    r->has_ring = (p.features & IORING_FEAT_EXT_ARG) && (p.features & IORING_FEAT_NODROP) &&
                  io_uring_register_files(&r->ring, &r->file, 1) == 0;
    if (!r->has_ring)
        io_uring_queue_exit(&r->ring);
}

/* With the lock. */
static void reap(larder__disk_reader *r) {
    struct io_uring_cqe *some[64];
    unsigned n;
    while ((n = io_uring_peek_batch_cqe(&r->ring, some, 64)) > 0) {
        for (unsigned i = 0; i < n; i++)
            over(r, io_uring_cqe_get_data(some[i]), some[i]->res);
        io_uring_cq_advance(&r->ring, n);
    }
}

static void send_by_ring(larder__disk_reader *r, larder__disk_job *const *jobs, size_t n) {
    for (size_t i = 0; i < n; i++) {
        larder__disk_job *j = jobs[i];
        struct io_uring_sqe *s = io_uring_get_sqe(&r->ring);
        if (!s && io_uring_submit(&r->ring) >= 0)
            s = io_uring_get_sqe(&r->ring);
        if (!s) { /* the system is short of something: then at once, and by hand */
            over(r, j, read_once(r->file, j));
            continue;
        }
        io_uring_prep_read(s, 0, j->into, (unsigned)j->bytes, (uint64_t)j->at);
        s->flags |= IOSQE_FIXED_FILE;
        io_uring_sqe_set_data(s, j);
    }
    io_uring_submit(&r->ring); /* what it leaves goes with the next, or before somebody waits */
}

/* With the lock, which is let go meanwhile. Who comes first waits for all. */
static void wait_by_ring(larder__disk_reader *r, double seconds) {
    struct io_uring_cqe *one;
    struct timespec t = larder__timespec_of(seconds);
    struct __kernel_timespec bound = {.tv_sec = t.tv_sec, .tv_nsec = t.tv_nsec};
    if (io_uring_sq_ready(&r->ring))
        io_uring_submit(&r->ring);
    r->waited_on = true;
    pthread_mutex_unlock(&r->lock);
    io_uring_wait_cqe_timeout(&r->ring, &one, &bound);
    pthread_mutex_lock(&r->lock);
    r->waited_on = false;
    reap(r);
    if (r->waiting)
        pthread_cond_broadcast(&r->some);
}

#endif

/* ---- both ------------------------------------------------------------------------------------ */

int larder__disk_reader_open(larder__disk_reader **out, int file) {
    *out = NULL;
    larder__disk_reader *r = larder__calloc(1, sizeof *r);
    if (!r)
        return LARDER_E_NOMEM;
    r->refs = 1;
    r->last = &r->first;
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->some, &monotonic);
    pthread_cond_init(&r->work, &monotonic);
    pthread_condattr_destroy(&monotonic);
    r->file = fcntl(file, F_DUPFD_CLOEXEC, 3); /* stays open for a late read */
    int rc = r->file < 0 ? larder__fail(LARDER_E_IO, "no file to be had: %s", strerror(errno)) : 0;
    bool ring = false;
#if LARDER_HAVE_URING
    if (rc == 0)
        open_ring(r);
    ring = r->has_ring;
#endif
    if (rc == 0 && !ring)
        rc = start_threads(r);
    if (rc < 0)
        free_reader(r);
    else
        *out = r;
    return rc;
}

void larder__disk_reader_send(larder__disk_reader *r, larder__disk_job *const *jobs, size_t n) {
    pthread_mutex_lock(&r->lock);
    r->under_way += n;
    for (size_t i = 0; i < n; i++) {
        jobs[i]->over = false;
        jobs[i]->next = NULL;
    }
#if LARDER_HAVE_URING
    if (r->has_ring) {
        send_by_ring(r, jobs, n);
        pthread_mutex_unlock(&r->lock);
        return;
    }
#endif
    for (size_t i = 0; i < n; i++) {
        *r->last = jobs[i];
        r->last = &jobs[i]->next;
    }
    pthread_cond_broadcast(&r->work);
    pthread_mutex_unlock(&r->lock);
}

/* With the lock: until something has happened, or `until`. */
static void wait_some(larder__disk_reader *r, double until, double now) {
    struct timespec t = larder__timespec_of(until);
#if LARDER_HAVE_URING
    if (r->has_ring && !r->waited_on) {
        wait_by_ring(r, until - now);
        return;
    }
    r->waiting++;
#endif
    (void)now;
    pthread_cond_timedwait(&r->some, &r->lock, &t);
#if LARDER_HAVE_URING
    r->waiting--;
#endif
}

static size_t first_over(larder__disk_job *const *jobs, size_t n) {
    size_t i = 0;
    while (i < n && !jobs[i]->over)
        i++;
    return i;
}

size_t larder__disk_reader_wait_any(larder__disk_reader *r, larder__disk_job *const *jobs, size_t n,
                                    double until) {
    size_t i;
    pthread_mutex_lock(&r->lock);
    while ((i = first_over(jobs, n)) == n) {
#if LARDER_HAVE_URING
        if (r->has_ring && !r->waited_on) {
            reap(r);
            if ((i = first_over(jobs, n)) < n)
                break;
        }
#endif
        double now = larder__world_now();
        if (now >= until)
            break;
        wait_some(r, until, now);
    }
    pthread_mutex_unlock(&r->lock);
    return i;
}

bool larder__disk_reader_wait(larder__disk_reader *r, larder__disk_job *j, double until) {
    return larder__disk_reader_wait_any(r, &j, 1, until) == 0;
}

/* With the lock. */
static void cancel_waiting(larder__disk_reader *r) {
    while (r->first) {
        larder__disk_job *j = r->first;
        r->first = j->next;
        over(r, j, -ECANCELED);
    }
    r->last = &r->first;
}

void larder__disk_reader_close(larder__disk_reader **pr, double patience) {
    larder__disk_reader *r = *pr;
    *pr = NULL;
    if (!r)
        return;
    double until = larder__world_now() + patience;
    pthread_mutex_lock(&r->lock);
    r->stopped = true;
    cancel_waiting(r);
    pthread_cond_broadcast(&r->work);
    for (double now; (r->under_way || r->refs > 1) && (now = larder__world_now()) < until;)
        wait_some(r, until, now);
    bool last = --r->refs == 0 && r->under_way == 0;
    for (int i = 0; !last && i < r->started; i++)
        pthread_detach(r->threads[i]);
    pthread_mutex_unlock(&r->lock);
    if (!last)
        return; /* a thread frees it, or nobody: the system still writes to that memory */
    for (int i = 0; i < r->started; i++)
        pthread_join(r->threads[i], NULL);
#if LARDER_HAVE_URING
    if (r->has_ring)
        io_uring_queue_exit(&r->ring);
#endif
    free_reader(r);
}
