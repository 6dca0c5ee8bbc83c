/* How fast storage and training are, measured while running: the time storage needs for one sample
 * (counted only while somebody reads, so that several readers at once do not count double) and the
 * time a training step takes for one. Both are smoothed over the last seconds. Thread-safe. */
#ifndef LARDER_LOADER_PACE_H
#define LARDER_LOADER_PACE_H

#include <larder/plugin.h>
#include <pthread.h>

typedef struct larder__pace {
    pthread_mutex_t lock;
    uint32_t reading;             /* calls under way */
    double busy_since;            /* when the first of them began */
    double read_time, read_count; /* both fade, so that their ratio follows a change */
    double step_time, step_count;
    double trained, waited; /* these do not fade */
} larder__pace;

void larder__pace_open(larder__pace *);
void larder__pace_close(larder__pace *);
void larder__pace_read_begin(larder__pace *, double now);
void larder__pace_read_end(larder__pace *, double now, size_t samples);
void larder__pace_step(larder__pace *, double seconds, size_t samples);
void larder__pace_wait(larder__pace *, double seconds);
larder_pace larder__pace_now(larder__pace *);

#endif
