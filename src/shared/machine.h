/* A cache that several jobs share, as a deterministic machine: it is fed with operations, one after
 * the other, each of one job, and everything it decides follows from their sequence and its seed.
 * It knows no clock, no socket and no other machine. Who orders the operations is somebody else's:
 * the loop of a daemon (unix/server.h), or a journal in Redis from which each job feeds a machine
 * of its own (redis/journal.h). Where bytes lie is too: with `bytes_here` the cache of the machine
 * holds what it is given, else it only decides, and who holds what is told by marks. */
#ifndef LARDER_SHARED_MACHINE_H
#define LARDER_SHARED_MACHINE_H

#include "cache/local.h"

enum { LARDER__MACHINE_JOBS = 64 };

/* What those who share have agreed on: whoever comes first decides. */
typedef struct larder__agreement {
    uint64_t keys, budget, seed;
    uint64_t forms_id; /* what pixels and rows depend on; 0: encoded samples alone */
    double share[LARDER_FORMS], decoded_ratio;
    uint32_t decoded_bytes, row_bytes;
    char policy[512]; /* with its parameters, as in a recipe */
} larder__agreement;
void larder__agreement_write(const larder__agreement *, larder_writer *);
int larder__agreement_read(larder__agreement *, larder_reader *);

typedef enum { LARDER__MAY_ALL, LARDER__MAY_HITS, LARDER__MAY_NOTHING } larder__may;

typedef struct larder__machine_conf {
    const larder__agreement *about;
    bool bytes_here; /* else nobody fills anything, and everything counts as made at once */
    bool movable;    /* SHARES may come */
    uint32_t size;   /* of every sample; 0: size_of, or if that is NULL, SIZES will tell */
    uint32_t (*size_of)(void *arg, uint64_t id);
    void *size_arg;
    larder_slot *slot_of; /* memory for the table of keys, lent; NULL: its own */
    uint64_t generation;  /* no making of one has the mark of another's */
    /* What may a job have now? MAY_HITS: nothing that is missing enters for it; MAY_NOTHING: it
     * holds too much. What it may not have it makes for itself alone. NULL: all. */
    larder__may (*may)(void *arg, uint32_t job);
    void *may_arg;
} larder__machine_conf;

/* The part of a mark that tells generations apart; what is below counts requests. */
#define LARDER__MARK_GENERATION (~(uint64_t)0 << 40)

typedef struct larder__left { /* an entry that has left: whoever holds its bytes may let them go */
    uint64_t key, mark;
    uint8_t form;
    bool brief; /* of a value that is forgotten within seconds */
} larder__left;

/* What an operation came to; arrays belong to the machine, until the next. */
typedef struct larder__outcome {
    size_t rows, fetched;
    /* Of the rows, then of what is fetched besides. With bytes_here each is to be settled, as
     * after larder__cache_claim, but for those with neither `buf` nor `flight`; else `mark` is of
     * the value and `size` what it reserves. */
    larder__ticket *tickets;
    const uint64_t *keys; /* of PICKS and FETCH: `rows` of them */
    const larder__left *left;
    size_t left_count;
    bool for_all; /* of a job that is gone: whoever is first of those left sees to `left` */
} larder__outcome;

typedef struct larder__machine larder__machine;
int larder__machine_open(larder__machine **out, const larder__machine_conf *);
void larder__machine_close(larder__machine **);

/* E_FORMAT, E_RANGE: it does not fit here. E_NOMEM, E_FULL: there is no room for it. After a
 * failure of a machine without bytes_here it is of no use any more. */
int larder__machine_apply(larder__machine *, uint32_t job, const larder__op *, larder__outcome *);
/* Room for an operation of so many rows, so that it cannot fail for want of memory. */
int larder__machine_reserve(larder__machine *, size_t rows);

void larder__machine_save(larder__machine *, larder_writer *);
int larder__machine_load(larder__machine *, larder_reader *); /* into one just opened */

larder__cache *larder__machine_cache(larder__machine *);
const larder_policy *larder__machine_policy(const larder__machine *);
bool larder__machine_counts(const larder__machine *); /* its policy counts jobs: REST matters */
bool larder__machine_wants_sizes(const larder__machine *);
uint32_t larder__machine_jobs(const larder__machine *);
uint32_t larder__machine_free_job(const larder__machine *);        /* a number, or MACHINE_JOBS */
bool larder__machine_first(const larder__machine *, uint32_t job); /* of those that are there */
/* Where the jobs are in their stream of fresh samples; false: nobody has one. */
bool larder__machine_stream(const larder__machine *, larder_stream *);
/* Without bytes_here: is this making of it resident? Has a job that is there promised it, and not
 * said yet that it is made? It may have left since: those it was promised to want it all the same.
 */
bool larder__machine_holds(const larder__machine *, uint64_t key, uint64_t mark);
bool larder__machine_promised(const larder__machine *, uint64_t key, uint64_t mark);
/* And how many of its promises the job that makes it has kept since it came, + 1; 0: nobody does.
 */
uint64_t larder__machine_progress(const larder__machine *, uint64_t key, uint64_t mark);
bool larder__machine_here(const larder__machine *, uint32_t job);

#endif
