/* For LD_PRELOAD: threads that come late, as on a machine with other work. LATE is a seed; by
 * chance a thread is one that naps often, seldom or for long, where it begins, is woken, or takes
 * or gives back a lock. What is right by an order that nobody promised is wrong here soon (make
 * shake). */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef struct habit {
    unsigned begins_us, wakes_in, locks_in, naps_us; /* at most; one time in so many */
} habit;

static const habit never = {0, 1, 1, 0}, seldom = {0, 32, 2048, 3000}, often = {3000, 4, 512, 1500},
                   long_naps = {30000, 4, 2048, 20000};
static const habit *const habits[] = {&seldom, &seldom, &seldom, &seldom,
                                      &seldom, &often,  &often,  &long_naps};
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
static bool others; /* this is a program that tests only use, and wait for */
__attribute__((constructor)) static void read_seed(void) {
    others = strcmp(program_invocation_short_name, "redis-server") == 0;
    const char *said = getenv("LATE");
    seed = (said ? strtoull(said, NULL, 10) : 1) * 0x9e3779b97f4a7c15u;
}

static const habit *habit_of(void) {
    if (!mine) {
        uint64_t process = (uint64_t)getpid() * 0xbf58476d1ce4e5b9u;
        chance = (seed + process + ++threads * 0x94d049bb133111ebu) | 1;
        for (int i = 0; i < 16; i++)
            next();
        mine = others ? &never : habits[next() % HABITS];
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

/* Of x86-64's C library pthread_cond_wait has an older version, which dlsym might find. What is not
 * found takes memory, and an allocator may be who asks: nothing else is looked for that way. */
static void *real_wait(void) {
    void *f = dlvsym(RTLD_NEXT, "pthread_cond_wait", "GLIBC_2.3.2");
    return f ? f : dlsym(RTLD_NEXT, "pthread_cond_wait");
}

#define REAL(f, look)                                                                              \
    static __typeof__(f) *there;                                                                   \
    if (!there)                                                                                    \
    there = (__typeof__(there))(uintptr_t)(look)

int pthread_mutex_lock(pthread_mutex_t *m) {
    REAL(pthread_mutex_lock, dlsym(RTLD_NEXT, "pthread_mutex_lock"));
    maybe_nap(habit_of()->locks_in);
    return there(m);
}

int pthread_mutex_unlock(pthread_mutex_t *m) {
    REAL(pthread_mutex_unlock, dlsym(RTLD_NEXT, "pthread_mutex_unlock"));
    int rc = there(m);
    maybe_nap(habit_of()->locks_in);
    return rc;
}

int pthread_cond_wait(pthread_cond_t *c, pthread_mutex_t *m) {
    REAL(pthread_cond_wait, real_wait());
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
    REAL(pthread_create, dlsym(RTLD_NEXT, "pthread_create"));
    start *s = malloc(sizeof *s);
    if (!s)
        return EAGAIN;
    *s = (start){run, arg};
    int rc = there(t, attr, begin, s);
    if (rc)
        free(s);
    return rc;
}
