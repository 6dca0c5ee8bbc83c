#include "see/expose.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/own_user.h"
#include "base/world.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

/* `lock` guards all but what the thread alone uses. It is held while jobs are looked at. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
    larder__exposed *first;
    uint64_t numbers; /* given so far, */
    uint64_t below;   /* beginning here */
    int listener, stop;
    bool running;
    pthread_t thread;
    char *text; /* the last answer */
    size_t size;
    double made;
} see = {.listener = -1, .stop = -1};

static bool switched_off(void) {
    const char *v = getenv("LARDER_SEE");
    return v && strcmp(v, "0") == 0;
}

/* ---- answering ------------------------------------------------------------------------------- */

/* A fresh answer for everybody who asks within the next moment; the lock is held. */
static void make_answer(void) {
    size_t count = 0, shown = 0;
    double now = larder__now();
    if (see.text && now - see.made < LARDER__SEE_FRESH)
        return;
    free(see.text); /* of open_memstream */
    see.text = NULL;
    larder__job *job = larder__malloc(sizeof *job);
    FILE *to = job ? open_memstream(&see.text, &see.size) : NULL;
    for (const larder__exposed *e = see.first; e; e = e->next)
        count++;
    if (to)
        larder__jobs_head(to, count < LARDER__JOBS_AT_ONCE ? count : LARDER__JOBS_AT_ONCE);
    for (const larder__exposed *e = see.first; to && e && shown < LARDER__JOBS_AT_ONCE;
         e = e->next, shown++) {
        memset(job, 0, sizeof *job);
        job->pid = (uint64_t)getpid();
        job->number = e->number;
        e->look(e->arg, job);
        larder__job_write(to, job);
    }
    if (to)
        larder__jobs_tail(to);
    if (!to || fclose(to) != 0) {
        free(see.text);
        see.text = NULL;
    }
    see.made = now;
    larder__free(job);
}

static bool same_user(int fd) {
    struct ucred who;
    socklen_t n = sizeof who;
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &n) == 0 && larder__is_own_user(who.uid);
}

/* A copy, so that a job's end does not wait for a slow reader. */
static char *answer(size_t *size) {
    char *copy = NULL;
    pthread_mutex_lock(&lock);
    make_answer();
    if (see.text && (copy = larder__malloc(see.size + 1))) {
        memcpy(copy, see.text, see.size);
        *size = see.size;
    }
    pthread_mutex_unlock(&lock);
    return copy;
}

static void serve(int fd) {
    const struct timeval second = {.tv_sec = 1};
    size_t size = 0, sent = 0;
    char *text = same_user(fd) ? answer(&size) : NULL;
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &second, sizeof second);
    double until = larder__now() + 1;
    for (bool late = false; text && sent < size && !late; late = larder__now() > until) {
        ssize_t n = send(fd, text + sent, size - sent, MSG_NOSIGNAL);
        if (n <= 0 && errno != EINTR)
            break;
        sent += n > 0 ? (size_t)n : 0;
    }
    shutdown(fd, SHUT_RDWR); /* also where a forked child has it too */
    close(fd);
    larder__free(text);
}

static void *run(void *arg) {
    int listener = ((int *)arg)[0], stop = ((int *)arg)[1];
    larder__free(arg);
    for (;;) {
        struct pollfd p[2] = {{.fd = listener, .events = POLLIN}, {.fd = stop, .events = POLLIN}};
        int n = poll(p, 2, -1);
        if ((n < 0 && errno != EINTR) || p[1].revents)
            return NULL;
        int fd = n > 0 ? accept4(listener, NULL, NULL, SOCK_CLOEXEC) : -1;
        if (fd >= 0)
            serve(fd);
        else if (n > 0 && (errno == EMFILE || errno == ENFILE || errno == ENOMEM))
            usleep(100000); /* it will not get better at once */
    }
}

/* ---- beginning and end ----------------------------------------------------------------------- */

/* The child must not hold the parent's socket open, nor believe that somebody answers. */
static void after_fork(void) {
    if (see.listener >= 0)
        close(see.listener);
    if (see.stop >= 0)
        close(see.stop);
    see.listener = see.stop = -1;
    see.running = false;
    see.first = NULL;
    see.text = NULL; /* may be half-made: left behind */
    pthread_mutex_init(&lock, NULL);
}

static void watch_forks(void) { pthread_atfork(NULL, NULL, after_fork); }

/* 0, or errno. */
static int listen_as(int fd, uint32_t k) {
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    int n = snprintf(a.sun_path + 1, sizeof a.sun_path - 1, LARDER__SEE_NAME "%ld.%ld.%lu",
                     (long)geteuid(), (long)getpid(), (unsigned long)k);
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
    return bind(fd, (struct sockaddr *)&a, size) == 0 && listen(fd, 64) == 0 ? 0 : errno;
}

/* The name may be taken by another copy of the library in this process, which numbers its jobs too;
 * or by another user, who so takes them before the process is there. Nobody can take all that
 * chance may choose. */
static int listen_somewhere(void) {
    enum { NUMBERS = 1000000, FIRST = 16, TRIES = 32 };
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int err = fd < 0 ? errno : EADDRINUSE;
    for (uint32_t i = 0; fd >= 0 && err == EADDRINUSE && i < TRIES; i++) {
        uint32_t k = i;
        if (i >= FIRST && larder__world_chance(&k, sizeof k) < 0)
            break;
        err = listen_as(fd, k);
        if (err == 0) {
            see.below = (uint64_t)k * NUMBERS;
            return fd;
        }
    }
    if (fd >= 0)
        close(fd);
    return larder__fail(LARDER_E_IO, "%s",
                        err == EADDRINUSE ? "somebody has taken its names" : strerror(err));
}

static void close_fds(void) {
    if (see.listener >= 0)
        close(see.listener);
    if (see.stop >= 0)
        close(see.stop);
    see.listener = see.stop = -1;
}

/* Signals are for the program's own threads. */
static bool start_thread(void) {
    enum { STACK = 256 << 10 };
    sigset_t all, old;
    pthread_attr_t attr;
    int *fds = larder__malloc(2 * sizeof *fds);
    if (!fds || pthread_attr_init(&attr) != 0) {
        larder__free(fds);
        return false;
    }
    fds[0] = see.listener, fds[1] = see.stop;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int err = pthread_attr_setstacksize(&attr, STACK);
    if (err == 0)
        err = pthread_create(&see.thread, &attr, run, fds);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    pthread_attr_destroy(&attr);
    if (err)
        larder__free(fds);
    return err == 0;
}

static int start(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_forks);
    see.listener = listen_somewhere();
    if (see.listener < 0)
        return see.listener;
    see.stop = eventfd(0, EFD_CLOEXEC);
    see.running = see.stop >= 0 && start_thread();
    if (see.running)
        return 0;
    close_fds();
    return larder__fail(LARDER_E_IO, "there is no thread or descriptor left for it");
}

int larder__expose(larder__exposed *e, larder__look_fn look, void *arg) {
    *e = (larder__exposed){.look = look, .arg = arg};
    if (switched_off())
        return 0;
    pthread_mutex_lock(&lock);
    int rc = see.running ? 0 : start();
    if (rc == 0) {
        e->number = see.below + ++see.numbers;
        larder__exposed **last = &see.first;
        while (*last)
            last = &(*last)->next;
        *last = e;
        see.made = 0; /* whoever asks next hears of it */
    }
    pthread_mutex_unlock(&lock);
    return rc;
}

void larder__expose_end(larder__exposed *e) {
    pthread_t thread;
    bool last = false;
    if (!e->number)
        return;
    pthread_mutex_lock(&lock);
    for (larder__exposed **at = &see.first; *at; at = &(*at)->next)
        if (*at == e) {
            *at = e->next;
            break;
        }
    e->number = 0;
    see.made = 0;
    if (!see.first && see.running) {
        const uint64_t one = 1;
        last = write(see.stop, &one, sizeof one) == sizeof one;
        thread = see.thread;
        see.running = false;
    }
    int listener = see.listener, stop = see.stop;
    if (last)
        see.listener = see.stop = -1;
    pthread_mutex_unlock(&lock);
    if (!last)
        return;
    pthread_join(thread, NULL); /* it may be at its last answer, which needs the lock */
    close(listener);
    close(stop);
    pthread_mutex_lock(&lock);
    if (!see.running) {
        free(see.text);
        see.text = NULL;
    }
    pthread_mutex_unlock(&lock);
}
