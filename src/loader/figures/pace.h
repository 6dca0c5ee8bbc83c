/* How fast storage and training are, measured while running: the time storage needs for one sample
 * and the time a training step takes for one. Both are smoothed over the last seconds. Thread-safe.
 *
 * Storage is slow in two ways. It moves so many samples a second, and it answers late. Only the
 * first gets better by asking for less: a batch with one sample to read waits as long for a late
 * answer as one with a hundred, and what is late can be asked for earlier. The two are told apart
 * by how the time of a read grows with the samples under way when it began, a line fitted by least
 * squares: its slope is the time of one sample, its start the latency. Where the line cannot be
 * told, the time in which somebody reads (several at once do not count double) is shared out. */
#ifndef LARDER_LOADER_FIGURES_PACE_H
#define LARDER_LOADER_FIGURES_PACE_H

#include <larder/plugin.h>
#include <pthread.h>

typedef struct larder__pace {
    pthread_mutex_t lock;
    uint32_t reading;             /* calls under way */
    double busy_since;            /* when the first of them began */
    double read_time, read_count; /* both fade, so that their ratio follows a change */
    uint64_t under_way;           /* samples being read */
    double reads, q, w, qq, qw;   /* of each read: samples under way, seconds; sums, fading */
    double step_time, step_count;
    double decode_time, decode_count, augment_time, augment_count; /* processor time */
    double trained, waited;                                        /* these do not fade */
} larder__pace;

void larder__pace_open(larder__pace *);
void larder__pace_close(larder__pace *);
typedef struct larder__pace_read {
    double begun;
    size_t samples;
    uint64_t under_way; /* with it */
} larder__pace_read;
larder__pace_read larder__pace_read_begin(larder__pace *, double now, size_t samples);
void larder__pace_read_end(larder__pace *, double now, larder__pace_read);
void larder__pace_step(larder__pace *, double seconds, size_t samples);
void larder__pace_wait(larder__pace *, double seconds);
/* A row was made, of a sample that was decoded already or not. */
void larder__pace_stage(larder__pace *, bool decoded, double cpu_seconds);
/* Can latency be told from the time a sample takes? */
bool larder__pace_known(larder__pace *);
larder_pace larder__pace_now(larder__pace *);

#endif
