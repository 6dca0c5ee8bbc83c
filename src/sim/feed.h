/* What a recorded job says to a replay: the losses training would report, its accuracy, and how
 * fast storage and training were.
 *
 * A replay may ask for other samples, in epochs of other lengths. Its batch is set against the
 * recorded batch at the same place of the same epoch. A row that holds the same sample there gets
 * the very loss of then, so a replay of the recorded recipe repeats it to the bit. Any other sample
 * gets its latest loss before that place, or the first one it ever had, or the mean. */
#ifndef LARDER_SIM_FEED_H
#define LARDER_SIM_FEED_H

#include "tape/tape.h"

typedef struct larder__feed larder__feed;

int larder__feed_open(larder__feed **out, const larder__tape *); /* keeps the tape */
void larder__feed_close(larder__feed **);

typedef struct larder__feed_place { /* of a batch that is replayed */
    uint64_t number, epoch;
    uint64_t drawn, length; /* ids before it in its epoch, and in all */
} larder__feed_place;

/* False: nothing was reported there. Places must not go back. */
bool larder__feed_losses(larder__feed *, const larder__feed_place *, const uint64_t *served,
                         size_t n, float *loss);
/* As looked at again before an epoch. */
void larder__feed_looked(larder__feed *, uint64_t epoch, const uint64_t *ids, size_t n,
                         float *loss);
double larder__feed_accuracy(const larder__feed *, uint64_t epoch); /* NAN: not validated */
/* The pace that was known when this batch was decided; zeros: no such batch. */
larder_pace larder__feed_pace(const larder__feed *, uint64_t number);

uint32_t larder__feed_size(const larder__feed *, uint64_t id); /* the mean where it never came */
uint32_t larder__feed_class(const larder__feed *, uint64_t id);

/* ---- time ------------------------------------------------------------------------------------ */

typedef struct larder__feed_rates {
    double bytes_per_second; /* of storage; NAN: nothing was read */
    double read_seconds;     /* of storage for a mean sample; NAN: the same */
    double step_seconds;     /* of training for a sample; NAN: not measured */
    double seconds, waited;  /* of the whole tape, as measured */
    double starved;          /* waited for storage */
    uint64_t read_bytes;     /* by the rows and besides */
} larder__feed_rates;
larder__feed_rates larder__feed_measure(const larder__tape *);

/* A clock for a replay: storage reads `ahead` batches in advance, one after the other, and training
 * takes them. Only these two: where decoding is what holds a job up, it runs too fast. */
typedef struct larder__feed_clock {
    double seconds_per_byte, step_seconds;
    double read_until, trained_until; /* since the start */
    double trained, waited;
    double begun[64]; /* when the last steps began, by batch % ahead */
    uint32_t ahead;
    uint64_t batches;
} larder__feed_clock;
void larder__feed_clock_open(larder__feed_clock *, const larder__feed_rates *, uint64_t lag);
void larder__feed_clock_batch(larder__feed_clock *, uint64_t bytes, size_t samples);

#endif
