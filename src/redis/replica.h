/* What jobs on several machines share, as each of them knows it: the same policy over the same
 * table, fed with the same records in the same order. Deciding touches no byte and repeats from
 * its seed, so all replicas agree on who holds what in which form, who has seen what, and who is
 * to make what, while Redis keeps nothing but the order of the records and a snapshot now and then
 * (redis/journal.h). */
#ifndef LARDER_REDIS_REPLICA_H
#define LARDER_REDIS_REPLICA_H

#include "base/state.h"
#include "cache/cache.h"

enum { LARDER__GROUP_JOBS = 60, LARDER__RECORD_ROWS = 1 << 20 };

/* A group's agreement: whoever comes first decides. */
typedef struct larder__agreement {
    uint64_t keys, budget, seed, forms_id;
    double share[LARDER_FORMS], decoded_ratio;
    uint32_t decoded_bytes, row_bytes;
    char policy[512];
} larder__agreement;
void larder__agreement_write(const larder__agreement *, larder_writer *);
int larder__agreement_read(larder__agreement *, larder_reader *);

typedef enum {
    LARDER__REC_JOIN = 1, /* again */
    LARDER__REC_LEAVE,
    LARDER__REC_EPOCH,    /* epoch, bits of what was served in it already, or none */
    LARDER__REC_CLAIM,    /* requests */
    LARDER__REC_EXCHANGE, /* entries to bring in at most, samples that are wanted */
    LARDER__REC_SCORES,
    LARDER__REC_ACCURACY,
    LARDER__REC_STREAM,
    LARDER__REC_PICKS, /* how many, seed */
    LARDER__REC_FETCH, /* how many at most */
    LARDER__REC_MADE,  /* keys that were made, or will not be */
    LARDER__REC_END
} larder__rec_type;

typedef struct larder__rec_row { /* of CLAIM and EXCHANGE */
    uint32_t key, size, tag;
    float score;
} larder__rec_row;

typedef struct larder__doomed { /* an entry that has left: its value is to be deleted */
    uint64_t key, mark;
    uint8_t form;
    bool brief; /* Redis forgets it within seconds */
} larder__doomed;

/* What a record came to, for whoever wrote it; arrays belong to the replica, until the next. */
typedef struct larder__outcome {
    uint8_t type, job;
    uint32_t number; /* the writer's own count of its records */
    size_t rows, fetched;
    const larder__ticket *tickets; /* of rows, then of what is fetched besides; `mark` is of the
                                      value, `size` what it reserves */
    const uint64_t *keys;          /* of FETCH */
    const double *shares;          /* of PICKS, beside keys */
    const larder__doomed *doomed;
    size_t doomed_count;
    bool for_all; /* written by a job that is gone: whoever is first of those left does it */
} larder__outcome;

typedef struct larder__replica larder__replica;

typedef struct larder__replica_conf {
    const larder__agreement *agreement;
    uint32_t (*size_of)(void *arg, uint64_t id); /* bytes of a sample, where `size` is 0 */
    void *size_arg;
    uint32_t size;
    larder_slot *slot_of; /* memory for the table, of `keys` slots */
    uint64_t generation;  /* no making of one has the mark of another's */
} larder__replica_conf;

/* The part of a mark that tells generations apart; what is below counts requests. */
#define LARDER__MARK_GENERATION (~(uint64_t)0 << 40)

int larder__replica_open(larder__replica **out, const larder__replica_conf *);
void larder__replica_close(larder__replica **);

/* One record after the other. E_FORMAT: it does not fit, and this replica is of no use. */
int larder__replica_apply(larder__replica *, const void *record, size_t size, larder__outcome *);
/* Begins a record; its rows follow. */
void larder__record_head(larder_writer *, larder__rec_type, uint32_t job, uint32_t number);

void larder__replica_save(larder__replica *, larder_writer *);
int larder__replica_load(larder__replica *, larder_reader *);

larder__cache *larder__replica_cache(larder__replica *);
const larder_policy *larder__replica_policy(const larder__replica *);
uint32_t larder__replica_jobs(const larder__replica *);
bool larder__replica_first(const larder__replica *, uint32_t job); /* of those that are there */
bool larder__replica_holds(const larder__replica *, uint64_t key, uint64_t mark);
/* Who has promised to make the entry that is there: its job, or UINT32_MAX. */
uint32_t larder__replica_maker(const larder__replica *, uint64_t key);
bool larder__replica_stream(const larder__replica *, larder_stream *);

#endif
