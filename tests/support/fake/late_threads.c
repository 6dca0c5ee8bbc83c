/* For LD_PRELOAD: threads that come late, as on a machine with other work. LATE is a seed; by
 * chance a thread is one that naps often, seldom or for long, where it begins, is woken, or takes
 * or gives back a lock. What is right by an order that nobody promised is wrong here soon (make
 * shake). */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

typedef struct habit {
    unsigned begins_us, wakes_in, locks_in, naps_us; /* at most; one time in so many */
} habit;

static const habit habits[] = {{0, 32, 2048, 3000},
                               {0, 32, 2048, 3000},
                               {0, 32, 2048, 3000},
                               {3000, 4, 128, 1500},
                               {30000, 4, 256, 20000}};
enum { HABITS = sizeof habits / sizeof *habits };

static _Atomic uint64_t threads;
static _Thread_local uint64_t chance;
static _Thread_local const habit *mine;

static uint64_t next(void) {
    chance ^= chance << 13;
    chance ^= chance >> 7;
    chance ^= chance << 17;
    return chance;
}

static uint64_t seed;
__attribute__((constructor)) static void read_seed(void) {
    const char *said = getenv("LATE");
    seed = (said ? strtoull(said, NULL, 10) : 1) * 0x9e3779b97f4a7c15u;
}

static const habit *habit_of(void) {
    if (!mine) {
        uint64_t process = (uint64_t)getpid() * 0xbf58476d1ce4e5b9u;
        chance = (seed + process + ++threads * 0x94d049bb133111ebu) | 1;
        for (int i = 0; i < 16; i++)
            next();
        mine = &habits[next() % HABITS];
    }
    return mine;
}

static void nap(unsigned most_us) {
    int was = errno;
    if (most_us)
        clock_nanosleep(CLOCK_MONOTONIC, 0,
                        &(struct timespec){.tv_nsec = (long)(next() % most_us) * 1000}, NULL);
    errno = was;
}

static void maybe_nap(unsigned one_in) {
    if (next() % one_in == 0)
        nap(habit_of()->naps_us);
}

/* Of a function that has an older version, too, which dlsym would find. */
static void *real(const char *name) {
    void *f = dlvsym(RTLD_NEXT, name, "GLIBC_2.3.2");
    return f ? f : dlsym(RTLD_NEXT, name);
}

#define REAL(f)                                                                                    \
    static __typeof__(f) *there;                                                                   \
    if (!there)                                                                                    \
    there = (__typeof__(there))(uintptr_t)real(#f)

int pthread_mutex_lock(pthread_mutex_t *m) {
    REAL(pthread_mutex_lock);
    maybe_nap(habit_of()->locks_in);
    return there(m);
}

int pthread_mutex_unlock(pthread_mutex_t *m) {
    REAL(pthread_mutex_unlock);
    int rc = there(m);
    maybe_nap(habit_of()->locks_in);
    return rc;
}

int pthread_cond_wait(pthread_cond_t *c, pthread_mutex_t *m) {
    REAL(pthread_cond_wait);
    int rc = there(c, m);
    pthread_mutex_unlock(m);
    maybe_nap(habit_of()->wakes_in);
    pthread_mutex_lock(m);
    return rc;
}

typedef struct start {
    void *(*run)(void *);
    void *arg;
} start;

static void *begin(void *arg) {
    start s = *(start *)arg;
    free(arg);
    nap(habit_of()->begins_us);
    return s.run(s.arg);
}

int pthread_create(pthread_t *t, const pthread_attr_t *attr, void *(*run)(void *), void *arg) {
    REAL(pthread_create);
    start *s = malloc(sizeof *s);
    if (!s)
        return EAGAIN;
    *s = (start){run, arg};
    int rc = there(t, attr, begin, s);
    if (rc)
        free(s);
    return rc;
}
