/* larder suggest before any training: a data set is measured for a few seconds, and what a training
 * of a given speed would wait for and read is played with each recipe and size of cache. */
#ifndef LARDER_CLI_SUGGEST_AHEAD_H
#define LARDER_CLI_SUGGEST_AHEAD_H

#include "cli/stop.h"
#include "profile/profile.h"
#include "sim/advice.h"

typedef struct larder__ahead_conf {
    const char *source, *augment; /* augment NULL: what suits */
    uint64_t batch;
    double seconds; /* for measuring */
    bool quiet;
} larder__ahead_conf;

typedef struct larder__ahead { /* what was measured */
    larder__profile profile;
    char augment[512];
    double storage; /* bytes a second at its best */
    bool small;     /* there were too few samples to tell */
    double decode;  /* samples a second of all cores */
} larder__ahead;

int larder__ahead_measure(larder__ahead *, const larder__ahead_conf *, larder__stop *);
/* The advice for training that takes `rate` samples a second, or as many as are decoded. The tape
 * is the job that was played; larder__tape_free. At most `most` of its samples are. */
int larder__ahead_advise(const larder__ahead *, const larder__ahead_conf *, double rate,
                         uint64_t most, larder__advice_conf *, larder__tape *, larder__advice *);
/* What was measured, in words, and what of it holds training up; rate 0: not said. */
void larder__ahead_print(const larder__ahead *, const larder__ahead_conf *, double rate,
                         uint64_t memory);
/* Storage takes no time worth a table: says so, with what was measured. */
bool larder__say_blink(double bytes, double bytes_per_second);
/* The same of a job that was recorded. */
bool larder__say_blink_of(const larder__tape *, const larder__advice *);
/* Where no rate was said: a line each of several. */
int larder__ahead_print_rates(const larder__ahead *, const larder__ahead_conf *,
                              const larder__advice_conf *);

#endif
