/* The loader's side of a crew: a thread takes a worker that has nothing to do, lays down what it
 * asks for, waits, and copies the answer. */
#include "base/buf.h"
#include "base/err.h"
#include "base/hash.h"
#include "base/mem.h"
#include "crew/answer_of_worker.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { TRACES = 16, LENT_FROM = 64 << 10 /* bytes */ };

typedef struct worker {
    larder_crew *crew;
    larder_crew_worker ends;
    unsigned char *in, *out; /* mapped */
    size_t in_size, out_size;
    uint64_t number; /* of its last request */
    size_t asked;    /* answers that it owes: of a request nobody waits for any more */
    bool busy;
    _Atomic uint32_t lent; /* who asked, and buffers of its memory that are still in use */
} worker;

typedef struct trace {
    uint64_t id;
    char *text;
} trace;

struct larder_crew {
    pthread_mutex_t lock;
    pthread_cond_t idle;
    worker *workers;
    uint32_t count;
    int wake; /* readable while nobody is to wait */
    bool interrupted;
    int failed; /* a worker has ended: why, for all that follows */
    char why[512];
    uint64_t samples, seed;
    _Atomic uint32_t *reads; /* of each sample so far */
    _Atomic bool draws;
    trace traces[TRACES];
    size_t traced;
    pid_t owner;
};

/* ---- life ------------------------------------------------------------------------------------ */

static void shut(int *fd) {
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

void larder_crew_close(larder_crew **pc) {
    larder_crew *c = *pc;
    *pc = NULL;
    if (!c)
        return;
    for (uint32_t i = 0; c->workers && i < c->count; i++) {
        worker *w = &c->workers[i];
        if (w->in)
            munmap(w->in, w->in_size);
        if (w->out)
            munmap(w->out, w->out_size);
        if (c->owner == getpid()) /* others that were forked may have it too */
            shutdown(w->ends.socket, SHUT_RDWR);
        shut(&w->ends.socket);
        shut(&w->ends.in);
        shut(&w->ends.out);
    }
    for (size_t i = 0; i < c->traced; i++)
        larder__free(c->traces[i].text);
    shut(&c->wake);
    pthread_cond_destroy(&c->idle);
    pthread_mutex_destroy(&c->lock);
    larder__free((void *)c->reads);
    larder__free(c->workers);
    larder__free(c);
}

int larder_crew_open(larder_crew **out, const larder_crew_worker *given, uint32_t count,
                     uint64_t samples, uint64_t seed) {
    *out = NULL;
    larder_crew *c = larder__calloc(1, sizeof *c);
    worker *workers = larder__calloc(count, sizeof *workers);
    if (!c || !workers || count == 0) {
        for (uint32_t i = 0; i < count; i++) {
            larder_crew_worker ends = given[i];
            shut(&ends.socket);
            shut(&ends.in);
            shut(&ends.out);
        }
        larder__free(c);
        larder__free(workers);
        return count ? LARDER_E_NOMEM : larder__fail(LARDER_E_ARGS, "a crew of nobody");
    }
    for (uint32_t i = 0; i < count; i++)
        workers[i] = (worker){.crew = c, .ends = given[i]};
    c->workers = workers;
    c->count = count;
    c->samples = samples;
    c->seed = seed;
    c->owner = getpid();
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->idle, NULL);
    c->reads = larder__calloc(samples + 1, sizeof *c->reads);
    c->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int rc = !c->reads ? LARDER_E_NOMEM : 0;
    if (rc == 0 && c->wake < 0)
        rc = larder__fail(LARDER_E_IO, "eventfd: %s", strerror(errno));
    if (rc < 0)
        larder_crew_close(&c);
    *out = c;
    return rc;
}

void larder_crew_interrupt(void *crew, bool on) {
    larder_crew *c = crew;
    uint64_t one = 1;
    pthread_mutex_lock(&c->lock);
    ssize_t n = on == c->interrupted ? 0
                : on                 ? write(c->wake, &one, sizeof one)
                                     : read(c->wake, &one, sizeof one);
    (void)n; /* a counter of ours alone: it takes one, and gives it back */
    c->interrupted = on;
    pthread_cond_broadcast(&c->idle);
    pthread_mutex_unlock(&c->lock);
}

/* ---- how a worker ended ---------------------------------------------------------------------- */

/* Its socket ends a moment before it can be asked how. It stays for whoever started it to reap. */
static void how_it_ended(int64_t process, char *out, size_t cap) {
    siginfo_t info = {0};
    snprintf(out, cap, "has ended");
    for (int tries = 0; process > 0 && tries < 500; tries++) {
        info.si_pid = 0;
        if (waitid(P_PID, (id_t)process, &info, WEXITED | WNOWAIT | WNOHANG) != 0)
            return; /* not our child */
        if (info.si_pid) {
            if (info.si_code == CLD_EXITED)
                snprintf(out, cap, "has ended with exit status %d", info.si_status);
            else
                snprintf(out, cap, "was ended by signal %d (%s)%s", info.si_status,
                         strsignal(info.si_status),
                         info.si_status == SIGKILL ? ", as where memory runs out" : "");
            return;
        }
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    }
}

/* ---- one worker ------------------------------------------------------------------------------ */

static int map_again(unsigned char **at, size_t *size, int fd, size_t want) {
    void *fresh = mmap(NULL, want, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (fresh == MAP_FAILED)
        return larder__fail(LARDER_E_NOMEM, "%zu bytes of a worker's memory cannot be mapped: %s",
                            want, strerror(errno));
    if (*at)
        munmap(*at, *size);
    *at = fresh;
    *size = want;
    return 0;
}

/* Room for a request of so many bytes. */
static int make_room(worker *w, size_t need) {
    size_t size = w->in_size ? w->in_size : 64 << 10;
    while (size < need)
        size *= 2;
    if (size == w->in_size)
        return 0;
    if (ftruncate(w->ends.in, (off_t)size) != 0)
        return larder__fail(LARDER_E_NOMEM, "%zu bytes for a worker: %s", size, strerror(errno));
    return map_again(&w->in, &w->in_size, w->ends.in, size);
}

/* What the worker says it has: the memory must be that large, and cannot get smaller. */
static int see_memory(worker *w, uint64_t size) {
    struct stat st;
    if (size <= w->out_size)
        return 0;
    if (fstat(w->ends.out, &st) != 0 || st.st_size < 0 || size > (uint64_t)st.st_size)
        return larder__fail(LARDER_E_FORMAT, "a worker's memory is smaller than it says");
    return map_again(&w->out, &w->out_size, w->ends.out, (size_t)size);
}

static size_t up(size_t n) { return (n + 63) / 64 * 64; }

static int lay_request(worker *w, larder_crew_task task, const uint64_t *ids,
                       const uint64_t *chances, larder_buf *const *in, size_t n) {
    size_t at = up(n * sizeof(larder__crew_asked)), need = at;
    for (size_t i = 0; in && i < n; i++)
        need = up(need + larder_buf_size(in[i]));
    int rc = make_room(w, need);
    if (rc < 0)
        return rc;
    for (size_t i = 0; i < n; i++) {
        larder__crew_asked a = {.id = ids[i], .chance = chances[i]};
        if (in) {
            a.offset = at;
            a.bytes = larder_buf_size(in[i]);
            memcpy(w->in + at, larder_buf_data(in[i]), a.bytes);
            at = up(at + a.bytes);
        }
        memcpy(w->in + i * sizeof a, &a, sizeof a);
    }
    larder__crew_request m = {.magic = LARDER_CREW_ASKS,
                              .task = task,
                              .number = ++w->number,
                              .n = (uint32_t)n,
                              .used = need,
                              .size = w->in_size};
    w->asked = task == LARDER_CREW_JOIN ? 1 : n;
    if (send(w->ends.socket, &m, sizeof m, MSG_NOSIGNAL) == sizeof m)
        return 0;
    return LARDER_E_STATE;
}

/* Waits for the answer to the last request. E_STATE without a sentence of its own: it has ended. */
static int hear(larder_crew *c, worker *w, larder__crew_answer *a) {
    struct pollfd fds[2] = {{.fd = w->ends.socket, .events = POLLIN},
                            {.fd = c->wake, .events = POLLIN}};
    for (;;) {
        if (poll(fds, 2, -1) < 0 && errno != EINTR)
            return larder__fail(LARDER_E_IO, "poll: %s", strerror(errno));
        if (fds[0].revents)
            break;
        if (fds[1].revents)
            return larder__fail(LARDER_E_CANCELLED, "cancelled");
    }
    unsigned char message[sizeof *a + 1];
    ssize_t n = recv(w->ends.socket, message, sizeof message, 0);
    if (n <= 0)
        return LARDER_E_STATE;
    int rc = larder__crew_message(a, message, (size_t)n, w->number, w->asked);
    w->asked = 0;
    return rc < 0 ? rc : see_memory(w, a->size);
}

/* The crew is of no use any more: results must not depend on who is left. */
static int worker_ended(larder_crew *c, worker *w, const uint64_t *ids, size_t n) {
    char how[120];
    uint32_t at = 0;
    struct stat st;
    if (fstat(w->ends.out, &st) == 0 && st.st_size >= (off_t)sizeof at &&
        see_memory(w, (uint64_t)st.st_size) == 0)
        memcpy(&at, w->out, sizeof at);
    at = at < n ? at : 0;
    how_it_ended(w->ends.process, how, sizeof how);
    pthread_mutex_lock(&c->lock);
    if (!c->failed) {
        c->failed = LARDER_E_STATE;
        snprintf(c->why, sizeof c->why,
                 "sample %llu: worker %u (process %lld), which was at it, %s",
                 (unsigned long long)ids[at], (unsigned)(w - c->workers),
                 (long long)w->ends.process, how);
    }
    pthread_cond_broadcast(&c->idle);
    pthread_mutex_unlock(&c->lock);
    return larder__fail(LARDER_E_STATE, "%s", c->why);
}

/* ---- the crew -------------------------------------------------------------------------------- */

/* A worker of one's own; or NULL, and *rc says why there will be none. */
static worker *take_worker(larder_crew *c, int *rc) {
    pthread_mutex_lock(&c->lock);
    worker *w = NULL;
    while (!c->failed && !c->interrupted && !w) {
        for (uint32_t i = 0; i < c->count && !w; i++)
            w = c->workers[i].busy ? NULL : &c->workers[i];
        if (!w)
            pthread_cond_wait(&c->idle, &c->lock);
    }
    if (w) {
        w->busy = true;
        atomic_store(&w->lent, 1);
    }
    *rc = w           ? 0
          : c->failed ? larder__fail(c->failed, "%s", c->why)
                      : larder__fail(LARDER_E_CANCELLED, "cancelled");
    pthread_mutex_unlock(&c->lock);
    return w;
}

/* By whoever is the last to need what it answered. */
static void let_go(void *of, uint64_t tag) {
    worker *w = of;
    larder_crew *c = w->crew;
    (void)tag;
    if (atomic_fetch_sub(&w->lent, 1) > 1)
        return;
    pthread_mutex_lock(&c->lock);
    w->busy = false;
    pthread_cond_signal(&c->idle);
    pthread_mutex_unlock(&c->lock);
}

/* What is made of a sample is copied once more, into a batch: large ones from where they lie. The
 * worker has nothing to do until they are let go, so nobody writes there. */
static larder_buf *lend(void *of, unsigned char *at, uint32_t bytes) {
    worker *w = of;
    if (bytes < LENT_FROM)
        return NULL;
    larder_buf *b = larder__buf_outside(at, bytes, let_go, w, 0);
    if (b)
        atomic_fetch_add(&w->lent, 1);
    return b;
}

static void keep_trace(void *of, uint64_t id, const char *text, size_t bytes) {
    larder_crew *c = ((worker *)of)->crew;
    pthread_mutex_lock(&c->lock);
    char *copy = c->traced < TRACES ? larder__malloc(bytes + 1) : NULL;
    if (copy) {
        memcpy(copy, text, bytes);
        copy[bytes] = 0;
        c->traces[c->traced++] = (trace){id, copy};
    }
    pthread_mutex_unlock(&c->lock);
}

static int ask(larder_crew *c, larder_crew_task task, const uint64_t *ids, const uint64_t *chances,
               larder_buf *const *in, size_t n, larder_read *out) {
    int rc;
    larder__crew_answer a;
    if (c->owner != getpid())
        return larder__fail(LARDER_E_STATE, "a forked child has no crew: its parent has");
    worker *w = take_worker(c, &rc);
    if (!w)
        return rc;
    if (w->asked) /* somebody gave up waiting: what it makes of that is not wanted */
        rc = hear(c, w, &a);
    bool sent = rc == 0;
    if (rc == 0)
        rc = lay_request(w, task, ids, chances, in, n);
    if (rc == 0)
        rc = hear(c, w, &a);
    larder__crew_taker taker = {keep_trace, task == LARDER_CREW_MAKE ? lend : NULL, w};
    if (rc == 0)
        rc = larder__crew_take(&a, w->out, w->out_size, ids, out, &taker);
    if (rc == 0 && task == LARDER_CREW_READ && a.flags & 1)
        atomic_store(&c->draws, true);
    if (rc == LARDER_E_STATE)
        rc = worker_ended(c, w, ids, sent ? n : 0);
    let_go(w, 0);
    return rc;
}

/* The k-th read of a sample has the same chance, whoever does it. */
static uint64_t read_chance(larder_crew *c, uint64_t id) {
    uint32_t k = atomic_fetch_add(&c->reads[id], 1);
    return larder__mix64(c->seed ^ larder__mix64(id ^ larder__mix64(k + 1))) >> 1;
}

int larder_crew_read(void *crew, const uint64_t *ids, size_t n, larder_read *out) {
    larder_crew *c = crew;
    uint64_t *chances = larder__malloc((n + 1) * sizeof *chances);
    if (!chances)
        return LARDER_E_NOMEM;
    for (size_t i = 0; i < n; i++)
        chances[i] = ids[i] < c->samples ? read_chance(c, ids[i]) : 0;
    int rc = ask(c, LARDER_CREW_READ, ids, chances, NULL, n, out);
    larder__free(chances);
    return rc;
}

int larder_crew_make(void *crew, const uint64_t *ids, const uint64_t *chances,
                     larder_buf *const *in, size_t n, larder_read *out) {
    return ask(crew, LARDER_CREW_MAKE, ids, chances, in, n, out);
}

int larder_crew_join(void *crew, const uint64_t *ids, const uint64_t *chances,
                     larder_buf *const *in, size_t n, larder_read *out) {
    return ask(crew, LARDER_CREW_JOIN, ids, chances, in, n, out);
}

bool larder_crew_draws(larder_crew *c) { return atomic_load(&c->draws); }

int larder_crew_traced(larder_crew *c, uint64_t id, char *out, size_t cap) {
    if (cap == 0)
        return 0;
    out[0] = 0;
    pthread_mutex_lock(&c->lock);
    for (size_t i = 0; i < c->traced; i++)
        if (c->traces[i].id == id)
            snprintf(out, cap, "%s", c->traces[i].text);
    pthread_mutex_unlock(&c->lock);
    return 0;
}
