/* One schedule: a world of some kind, jobs in it, what goes wrong and when, all from a seed; and
 * what must hold meanwhile and in the end. */
#ifndef LARDER_SIMULATE_SCHEDULE_H
#define LARDER_SIMULATE_SCHEDULE_H

#include <stdbool.h>
#include <stdint.h>

enum { SCHEDULE_MISHAPS = 16 };

typedef enum {
    SCHEDULE_DAEMON,
    SCHEDULE_GROUP,
    SCHEDULE_RANKS,
    SCHEDULE_FAR,
    SCHEDULE_DISK,
    SCHEDULE_BELOW,
    SCHEDULE_KINDS
} schedule_kind;
extern const char *const schedule_names[SCHEDULE_KINDS];

typedef struct schedule_conf {
    schedule_kind kind;
    uint64_t seed;
    uint32_t without; /* bit i: mishap i does not happen */
    uint32_t players; /* 0: by the seed */
} schedule_conf;

typedef struct schedule_result {
    uint64_t steps, mishaps, served, hits, made, waited, taken_over, alone, stuck, epochs, compared,
        below;
    uint64_t alike; /* requests whose answer was that of a cache in the process */
    uint64_t laid, unwanted, pieces, shown, shared; /* by jobs of other users: trays_figures */
    double seconds;                                 /* that passed in that world */
    uint32_t players, planned;
    char complaint[600]; /* "": all is well */
} schedule_result;

/* True: all is well. */
bool schedule_run(const schedule_conf *, schedule_result *);
/* Leaves out mishaps and jobs as long as something still goes wrong. */
void schedule_shrink(schedule_conf *, schedule_result *);
/* watch.c: from now on a schedule in which larder dies, or that takes so many seconds of CPU time,
 * ends this process with the line that repeats it. */
void schedule_watch(const char *program, double seconds);
void schedule_watched(const schedule_conf *); /* this one begins; NULL: it is over */
void schedule_tell(const schedule_conf *);    /* to stderr, as it happens */

#endif
