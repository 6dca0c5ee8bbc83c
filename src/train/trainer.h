/* The closed loop: loader -> net -> feedback -> loader, an epoch at a time, with validation after
 * each. It prints nothing; `larder train` and later benches show what it answers. One thread drives
 * it; larder__trainer_cancel may come from any. */
#ifndef LARDER_TRAIN_TRAINER_H
#define LARDER_TRAIN_TRAINER_H

#include "report/record.h"

#include <larder/larder.h>

typedef struct larder__trainer larder__trainer;

typedef struct larder__tick { /* after every batch; sums are over the whole run */
    uint64_t epoch;           /* counts from 0 */
    uint64_t step, steps;     /* batches trained, and expected in all */
    uint64_t served, hits, substitutes, storage_bytes;
    double requests; /* to storage */
    double seconds, stall_seconds;
    double h;     /* share of reused samples in use now, NAN: the recipe has none */
    double gap;   /* fresh less reused loss of this epoch, NAN: not known */
    double ratio; /* share of the cache for important samples, NAN: the same */
    double encoded, decoded, augmented; /* percent of the cache by plan=auto, NAN: the same */
} larder__tick;

typedef struct larder__trainer_conf {
    const char *source; /* of training, slowed or not */
    const char *test;   /* NULL: no validation, accuracies are NAN */
    bool derived;       /* `test` was made from `source` and must be another part of it */
    const char *recipe, *cache, *net;
    const char *record, *replay; /* as in larder_loader_conf */
    const char *augment;         /* NULL: what suits the samples */
    const char *test_augment;    /* NULL: augment without chance */
    const char *fields, *target; /* as of a loader */
    const char *cage;            /* the same */
    size_t batch;
    uint64_t seed, epochs; /* at least 1 epoch */
    double rate;           /* first learning rate; falls linearly to 0; 0: the net's own */
    double decay;          /* of weights */
    double pace;           /* seconds that a whole batch takes at least, slept; 0: as it comes */
    uint32_t threads;      /* of the loader; 0: as many as cores */
    uint32_t inflight;     /* as in larder_loader_conf */
    uint32_t ahead;
    uint32_t net_threads;                          /* of matrix products; 0: 1 */
    larder_on_bad on_bad;                          /* training samples that cannot be read */
    void (*tick)(void *arg, const larder__tick *); /* NULL: none */
    void *tick_arg;
} larder__trainer_conf;

int larder__trainer_open(larder__trainer **out,
                         const larder__trainer_conf *); /* texts are copied */
void larder__trainer_close(larder__trainer **);
/* Trains one epoch and validates: 0, or LARDER_END when there is none left. After E_CANCELLED and
 * other failures `out` holds the figures of the part that was trained (served 0: nothing). */
int larder__trainer_epoch(larder__trainer *, larder__epoch *out);
/* Ends the epoch under way after its current batch with E_CANCELLED. */
void larder__trainer_cancel(larder__trainer *);

/* The loader of the training samples or, `test`, of those that validate (NULL: none), to look at.
 */
larder_loader *larder__trainer_loader(const larder__trainer *, bool test);
uint64_t larder__trainer_samples(const larder__trainer *);
double larder__trainer_rate(const larder__trainer *);
const char *larder__trainer_augment(const larder__trainer *);

#endif
