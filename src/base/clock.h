/* Time for measuring: seconds since some start, and CPU seconds. Never for decisions that must
 * repeat from a seed. */
#ifndef LARDER_BASE_CLOCK_H
#define LARDER_BASE_CLOCK_H

#include <errno.h>
#include <stdint.h>
#include <time.h>

static inline double larder__seconds_of(clockid_t id) {
    struct timespec t;
    clock_gettime(id, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}
static inline double larder__now(void) { return larder__seconds_of(CLOCK_MONOTONIC); }
static inline double larder__cpu_seconds(void) {
    return larder__seconds_of(CLOCK_PROCESS_CPUTIME_ID);
}
static inline double larder__thread_seconds(void) {
    return larder__seconds_of(CLOCK_THREAD_CPUTIME_ID);
}

static inline struct timespec larder__timespec_of(double seconds) {
    struct timespec t = {.tv_sec = (time_t)seconds};
    t.tv_nsec = (long)((seconds - (double)t.tv_sec) * 1e9);
    return t;
}

/* Sleeps until larder__now() reaches `when`. */
static inline void larder__sleep_until(double when) {
    struct timespec t = larder__timespec_of(when);
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR) {
    }
}

#endif
