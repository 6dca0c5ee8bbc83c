/* A tape: what one job asked its loader for, what it was given, and what training said. Written
 * while the job runs (larder train --record FILE, larder_loader_conf.record, LARDER_RECORD), read
 * by larder sim --replay, larder suggest and larder report.
 *
 * A file is "LARDTAPE" and a version (u32), then blocks: the length of the payload (u32), a hash of
 * it and of the block's number (u64), the payload. All numbers are little-endian. A block holds
 * whole records, so a job that is killed leaves all that was put out before, and a block that was
 * cut off or damaged is recognised. The first block holds the job's own record and nothing else.
 *
 * Records begin with a byte. Counts are LEB128; ids are packed into as many bits as the largest
 * takes, kinds into two; the size and class of a sample stand where it first comes. A request with
 * its loss costs some 6 bytes of a data set of 50,000. */
#ifndef LARDER_TAPE_TAPE_H
#define LARDER_TAPE_TAPE_H

#include "base/state.h"
#include "base/versions.h"

#include <larder/plugin.h>

#define LARDER__TAPE_MAGIC "LARDTAPE"
enum { LARDER__TAPE_HEAD = 12, LARDER__TAPE_FRAME = 12 };
enum { LARDER__TAPE_BLOCK_MAX = 1 << 28 };
typedef enum {
    LARDER__TAPE_JOB = 'j',
    LARDER__TAPE_CLASSES = 'c', /* of all samples, where the order follows from them */
    LARDER__TAPE_BATCH = 'b',
    LARDER__TAPE_TURN = 't',   /* what the sampler measures changed with this batch */
    LARDER__TAPE_LOSSES = 'l', /* of a batch, row by row */
    LARDER__TAPE_ROWS = 'r',   /* of some rows of a batch, by their ids */
    LARDER__TAPE_ACCURACY = 'a',
    LARDER__TAPE_LOOKED = 'e', /* losses looked at again between epochs */
    LARDER__TAPE_EPOCH = 'f',  /* the ledger's figures of an epoch */
    LARDER__TAPE_END = 'z'
} larder__tape_tag;

/* What the job is. Texts end up shortened to their room. */
#define LARDER__TAPE_FIELDS(XX)                                                                    \
    XX(text, source)                                                                               \
    XX(text, recipe)                                                                               \
    XX(text, cache)                                                                                \
    XX(text, augment)                                                                              \
    XX(text, version)                                                                              \
    XX(text, machine)                                                                              \
    XX(u64, samples)                                                                               \
    XX(u64, payload) /* bytes of all samples */                                                    \
    XX(u64, fingerprint)                                                                           \
    XX(u64, classes)                                                                               \
    XX(u64, batch)                                                                                 \
    XX(u64, seed)                                                                                  \
    XX(u64, epochs)                                                                                \
    XX(u64, lag)                                                                                   \
    XX(u64, rank)                                                                                  \
    XX(u64, world)                                                                                 \
    XX(u64, drop_last)                                                                             \
    XX(u64, threads)                                                                               \
    XX(u64, budget)        /* bytes the cache may hold */                                          \
    XX(u64, row_bytes)     /* of a finished row */                                                 \
    XX(u64, decoded_bytes) /* of a decoded sample, as reserved; 0: not known */                    \
    XX(f64, decoded_ratio) /* the same, in encoded sizes */                                        \
    XX(u64, parts)         /* samples are read in parts */                                         \
    XX(f64, began)         /* seconds since 1970 */

typedef struct larder__tape_job {
#define LARDER__TAPE_text(name) char name[512];
#define LARDER__TAPE_u64(name) uint64_t name;
#define LARDER__TAPE_f64(name) double name;
#define XX(kind, name) LARDER__TAPE_##kind(name)
    LARDER__TAPE_FIELDS(XX)
#undef XX
} larder__tape_job;

/* A batch as it was handed out. */
typedef struct larder__tape_batch {
    uint64_t number, epoch;
    uint64_t length;                 /* ids of its epoch */
    uint64_t begin, n;               /* its rows in the arrays of larder__tape */
    bool first, last;                /* of its epoch */
    double waited;                   /* seconds training waited for it */
    double starved;                  /* of these: for storage */
    double stepped;                  /* seconds of the training step before it; 0: none */
    larder_pace pace;                /* as known when it was decided */
    uint64_t read_bytes;             /* storage gave for its rows */
    uint64_t fetched, fetched_bytes; /* and for what was read besides */
    double accuracy;                 /* validated after it; NAN: not */
} larder__tape_batch;

/* ---- writing --------------------------------------------------------------------------------- */

typedef struct larder__tape_writer larder__tape_writer;

/* The rows of a batch to write; kinds as larder_kind. */
typedef struct larder__tape_rows {
    const uint64_t *ids, *served;
    const uint8_t *kinds;
    uint32_t (*about)(void *arg, uint64_t id, int64_t *label); /* bytes; asked once an id */
    void *arg;
} larder__tape_rows;

/* An older tape or an empty file is replaced, anything else is not, nor is a tape that a living
 * process writes. %p in the name is the process, %r the rank. */
int larder__tape_create(larder__tape_writer **out, const char *path, const larder__tape_job *);
/* All of these are thread-safe and answer nothing: a tape that cannot be written any more says so
 * when it is asked, and the job goes on. */
void larder__tape_add_batch(larder__tape_writer *, const larder__tape_batch *,
                            const larder__tape_rows *);
/* Before any batch, where a sampler's order follows from classes: the labels of `n` samples from
 * `first` on; below 0: none. */
void larder__tape_add_classes(larder__tape_writer *, uint64_t first, const int64_t *labels,
                              size_t n);
/* Before its batch. */
void larder__tape_add_turn(larder__tape_writer *, const larder_turn *);
void larder__tape_add_losses(larder__tape_writer *, uint64_t batch, const float *loss, size_t n);
void larder__tape_add_rows(larder__tape_writer *, uint64_t batch, const uint64_t *ids,
                           const float *loss, size_t n);
void larder__tape_add_accuracy(larder__tape_writer *, uint64_t batch, double accuracy);
void larder__tape_add_looked(larder__tape_writer *, uint64_t epoch, const uint64_t *ids,
                             const float *loss, size_t n);
void larder__tape_add_epoch(larder__tape_writer *, const larder_figures *, double seconds);
/* Puts out what has gathered, if it is enough or a second old. */
void larder__tape_flush(larder__tape_writer *);
/* Bytes put out so far; `why`: a sentence if the tape has ended early, else "". */
uint64_t larder__tape_written(larder__tape_writer *, char *why, size_t cap);
void larder__tape_finish(larder__tape_writer **);

/* ---- reading --------------------------------------------------------------------------------- */

typedef struct larder__tape_epoch {
    larder_figures figures;
    double seconds;      /* since the job began, when it was over */
    uint64_t begin, end; /* its batches */
} larder__tape_epoch;

typedef struct larder__tape_looked { /* losses looked at again, before this epoch */
    uint64_t epoch, begin, n;        /* in looked_ids and looked_loss */
} larder__tape_looked;

typedef struct larder__tape {
    larder__tape_job job;
    larder__tape_batch *batches;
    uint64_t count;
    uint32_t *ids, *served; /* of all batches, one after the other */
    uint8_t *kinds;
    float *loss; /* NAN: not reported */
    uint64_t requests, losses;
    uint32_t *size_of;          /* by id; 0: never came */
    int32_t *label_of;          /* by id; -1: none */
    larder__tape_epoch *epochs; /* whole ones */
    uint64_t epoch_count;
    larder_turn *turns; /* what was decided by measuring: rotate's h */
    uint64_t turn_count;
    larder__tape_looked *looked;
    uint64_t looked_count, looked_rows;
    uint32_t *looked_ids;
    float *looked_loss;
    bool ended;     /* closed by its job */
    char torn[256]; /* a sentence about a tail that cannot be read; "": none */
} larder__tape;

/* E_FORMAT: foreign, or damaged before its last block. A tail that was cut off is left out. */
int larder__tape_read(larder__tape *out, const char *path);
int larder__tape_parse(larder__tape *out, const unsigned char *bytes, size_t size,
                       const char *where);
void larder__tape_free(larder__tape *);
/* The batch of this number, NULL: none. Numbers rise, but some may be left out. */
larder__tape_batch *larder__tape_find(const larder__tape *, uint64_t number);
bool larder__tape_probe(const char *path); /* does it begin as one? */

/* ---- what both know -------------------------------------------------------------------------- */

uint64_t larder__tape_hash(uint64_t block, const void *payload, size_t n);
/* Bits an id below `samples` takes. */
unsigned larder__tape_width(uint64_t samples);

#endif
