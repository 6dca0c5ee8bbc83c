/* Which recipe and how large a cache, for a job that was recorded: the recipes that make sense are
 * replayed over a range of sizes with the speed of storage and training that the job measured, and
 * the cheapest one at which training does not wait is named, with its reasons. What is known about
 * accuracy comes from the closed loops of docs/results/recipes.md. */
#ifndef LARDER_SIM_ADVICE_H
#define LARDER_SIM_ADVICE_H

#include "sim/sim.h"

typedef struct larder__advice_row { /* one recipe at one size; an epoch after the first */
    char recipe[64], cache[16];
    int percent; /* of the data; -1: as recorded */
    double cache_bytes;
    double read_bytes, seconds;         /* seconds: NAN where the job measured too little */
    double waiting;                     /* share of them */
    double hits, repeats, touched;      /* shares; touched: of the data set */
    double requests;                    /* to storage; NAN: not known */
    double first_bytes, first_requests; /* of the first epoch, in which the cache fills */
} larder__advice_row;

/* Name and what it means. */
#define LARDER__VERDICTS(XX)                                                                       \
    XX(KEEPS_UP, "storage keeps up")                                                               \
    XX(CACHE, "a cache is enough")                                                                 \
    XX(REUSE, "storage is too slow for every sample to be new")                                    \
    XX(TOO_SLOW, "storage is too slow even for reuse")                                             \
    XX(LATE, "storage answers late")                                                               \
    XX(ELSEWHERE, "training waits for something else than storage")                                \
    XX(UNKNOWN, "the record says too little")

typedef enum larder__verdict {
#define XX(name, text) LARDER__VERDICT_##name,
    LARDER__VERDICTS(XX)
#undef XX
} larder__verdict;
const char *larder__verdict_name(larder__verdict);

enum { LARDER__ADVICE_ROWS = 32, LARDER__ADVICE_REASONS = 8 };
typedef struct larder__advice {
    larder__verdict verdict;
    larder__feed_rates rates;
    uint64_t each;           /* as conf has it, at least 1 */
    double need, give;       /* bytes/s that training eats, and that storage gives */
    double measured_waiting; /* share of the job's time */
    double starved;          /* the same, for storage */
    double explained;        /* and as the replay of the same epochs has it; NAN: no replay */
    uint64_t memory;         /* the cache may have */
    larder__advice_row now;  /* the job as it was, replayed; or as measured */
    bool now_replayed;
    larder__advice_row best;
    larder__advice_row rows[LARDER__ADVICE_ROWS];
    size_t count;
    int knee; /* percent of the data from which on minio does not wait; -1: none does */
    char reasons[LARDER__ADVICE_REASONS][400];
    size_t reason_count;
} larder__advice;

typedef struct larder__advice_conf {
    uint64_t memory; /* at most so many bytes of cache */
    uint64_t each;   /* samples that one of the tape's stands for; 0 and 1: itself */
    bool streams;    /* stream is tried as well: requests count */
    const _Atomic int *stop;
    void (*progress)(void *arg, size_t done, size_t of); /* NULL: none */
    void *progress_arg;
} larder__advice_conf;

int larder__advise(larder__advice *out, const larder__tape *, const larder__advice_conf *);

#endif
