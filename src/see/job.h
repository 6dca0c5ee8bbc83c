/* What is shown of one running job: a loader, a daemon, an SVM being trained. The same struct is
 * filled in the job's process, sent as lines of JSON and read back by whoever looks, so that top,
 * dash and Prometheus know nothing of recipes: figures bring their names, units and help along.
 *
 * Everything has a fixed size. What comes over a socket is hostile until larder__jobs_read has
 * passed it; texts may still hold any bytes but NUL. */
#ifndef LARDER_SEE_JOB_H
#define LARDER_SEE_JOB_H

#include "base/json.h"

#include <larder/larder.h>
#include <stdio.h>

enum {
    LARDER__JOB_STATS = 128,
    LARDER__JOB_EPOCHS = 64, /* the newest ones */
    LARDER__JOB_BAD = 16,
    LARDER__JOB_BINS = 32,  /* of a histogram of scores */
    LARDER__JOB_CELLS = 128 /* of the map of the cache, each for its share of the ids */
};

typedef struct larder__job_stat {
    char name[48], unit[16], help[112];
    char type; /* as in larder_stat_value */
    double value;
    uint64_t count;
    double sd, p50, p90, p99, max;
    char below[224]; /* of a histogram: as larder__stat_below has it, with commas; "": not known */
} larder__job_stat;

typedef struct larder__job_epoch {
    uint64_t epoch, served, hits, substitutes, repeats, misses, background_reads, storage_bytes,
        bad, requests;
    double touched, loss, accuracy;    /* NAN: not known */
    double fresh_loss, reused_loss;    /* NAN: the same */
    double score_low, score_high;      /* of the scores when it began; NAN: there are none */
    uint16_t scores[LARDER__JOB_BINS]; /* per mille of them, by value */
} larder__job_epoch;

typedef struct larder__job_bad {
    uint64_t id;
    char why[200];
} larder__job_bad;

/* Kind, name and help of what is known of a job as a whole. `pid` and `number` tell it from all
 * others of its user. state: "waiting", "running", "done", "failed". */
#define LARDER__JOB_FIELDS(XX)                                                                     \
    XX(u64, pid)                                                                                   \
    XX(u64, number)                                                                                \
    XX(text, kind)                                                                                 \
    XX(text, name)                                                                                 \
    XX(text, state)                                                                                \
    XX(text, source)                                                                               \
    XX(text, recipe)                                                                               \
    XX(text, cache)                                                                                \
    XX(f64, uptime)                                                                                \
    XX(u64, samples)                                                                               \
    XX(u64, batch)                                                                                 \
    XX(u64, epoch)                                                                                 \
    XX(u64, epochs)                                                                                \
    XX(u64, step)                                                                                  \
    XX(u64, steps)                                                                                 \
    XX(f64, training)                                                                              \
    XX(f64, storage)                                                                               \
    XX(f64, decode)                                                                                \
    XX(f64, augment)                                                                               \
    XX(f64, deciding)                                                                              \
    XX(f64, assembly)                                                                              \
    XX(text, bottleneck)                                                                           \
    XX(text, verdict)                                                                              \
    XX(text, audit)                                                                                \
    XX(text, shown)                                                                                \
    XX(text, map_encoded)                                                                          \
    XX(text, map_decoded)                                                                          \
    XX(text, map_augmented)                                                                        \
    XX(text, map_shrunk)

typedef char larder__job_text[256];
typedef uint64_t larder__job_u64;
typedef double larder__job_f64;

/* epoch counts from 1 (0: none yet), epochs 0: no end; step of steps in this epoch; training to
 * assembly are the seconds of larder__times; `shown` names the figure of the recipe that is worth a
 * curve ("h", "ratio"); maps have a digit a cell, tenths of it in that form, or are empty. */
typedef struct larder__job {
#define XX(kind, name) larder__job_##kind name;
    LARDER__JOB_FIELDS(XX)
#undef XX
    size_t stat_count, past_count, bad_count;
    larder__job_stat stats[LARDER__JOB_STATS];
    larder__job_epoch past[LARDER__JOB_EPOCHS]; /* oldest first */
    larder__job_bad bad[LARDER__JOB_BAD];       /* oldest first */
} larder__job;

/* Fills in a text, cut to fit. */
void larder__job_say(larder__job_text out, const char *text);
/* Adds a figure; nothing once there are too many. */
void larder__job_show(larder__job *, const larder_stat_value *);
/* To the histogram that was shown last, if it is of this name: larder__stat_below's counts. */
void larder__job_show_below(larder__job *, const char *name, const uint64_t *below, size_t n);
/* The figure of this name, NULL if there is none; and its value, NAN without. */
const larder__job_stat *larder__job_find(const larder__job *, const char *name);
double larder__job_value(const larder__job *, const char *name);

/* ---- over the wire: one flat JSON object a line ---------------------------------------------- */

void larder__jobs_head(FILE *, size_t count);
void larder__job_write(FILE *, const larder__job *);
void larder__jobs_tail(FILE *);

enum { LARDER__JOBS_AT_ONCE = 64, LARDER__JOBS_BYTES = 8 << 20 };
typedef struct larder__jobs {
    larder__job *at;
    size_t count, cap;
} larder__jobs;
/* Adds the jobs of one answer, which is text of `size` bytes with a NUL behind it. All or none:
 * E_FORMAT when anything in it is not as larder__job_write writes it, E_RANGE past `max` jobs. */
int larder__jobs_read(larder__jobs *, char *text, size_t size, size_t max);
/* By pid and number. A job that was told of twice stands there once: the kernel may list a socket
 * twice while others come and go, and of a process that gives one up for another both may answer.
 */
void larder__jobs_order(larder__jobs *);
void larder__jobs_free(larder__jobs *);
void larder__jobs_clear(larder__jobs *);

/* ---- for programs: a job as one JSON object with lists inside -------------------------------- */

void larder__job_json(larder__json *, const larder__job *);

#endif
