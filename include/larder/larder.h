/* larder: a training-aware cache, sampler and loader.
 *
 * This header is all a program needs to train through larder: open a loader on a data set, take
 * batches, give back what training said about them, close. Calls return 0 or a negative code of
 * LARDER_ERRORS; larder_errmsg() then holds a sentence that names the file and sample. The library
 * never prints, never exits and installs no signal handlers.
 *
 *     larder_loader_conf conf;
 *     larder_loader_defaults(&conf);
 *     conf.source = "cifar10:data/cifar-10";
 *     conf.cache = "20%";
 *     conf.epochs = 10;
 *     larder_loader *ld = NULL;
 *     if (larder_loader_open(&ld, &conf) < 0) die(larder_errmsg());
 *     const larder_batch *b;
 *     int rc;
 *     while ((rc = larder_loader_next(ld, &b)) >= 0 && rc != LARDER_END) {
 *         if (rc == LARDER_END_EPOCH) continue; // a good place to validate and to save
 *         train(b->x, b->y, b->n, losses);
 *         larder_feedback fb = {.loss = losses};
 *         larder_loader_report(ld, b, &fb);
 *         larder_loader_done(ld, b);
 *     }
 *     if (rc < 0) complain(larder_errmsg());
 *     larder_loader_close(&ld);
 *
 * Threads: a loader may be used from several; figures, statistics and cancel at any time. A call's
 * failure is in larder_errmsg() of the thread that made it, also when a loader thread was the one
 * that failed. close is the last call. A forked child cannot use its parent's loader (E_STATE); it
 * opens its own. Keep batches until done, and do not use them after close;
 * larder_loader_hold lets one outlive both.
 */
#ifndef LARDER_LARDER_H
#define LARDER_LARDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LARDER_VERSION "0.1.0"

/* ---- errors: name, number, text -------------------------------------------------------------- */

#define LARDER_ERRORS(XX)                                                                          \
    XX(OK, 0, "success")                                                                           \
    XX(E_ARGS, -1, "wrong argument")                                                               \
    XX(E_NOMEM, -2, "out of memory")                                                               \
    XX(E_IO, -3, "input or output failed")                                                         \
    XX(E_FORMAT, -4, "malformed data")                                                             \
    XX(E_NOTFOUND, -5, "not found")                                                                \
    XX(E_RANGE, -6, "out of range")                                                                \
    XX(E_STATE, -7, "called at the wrong time")                                                    \
    XX(E_UNSUPPORTED, -8, "not supported by this build")                                           \
    XX(E_CHANGED, -9, "data changed while in use")                                                 \
    XX(E_CANCELLED, -10, "cancelled")                                                              \
    XX(E_FULL, -11, "no space left")

enum larder_error {
#define XX(name, number, text) LARDER_##name = number,
    LARDER_ERRORS(XX)
#undef XX
};

/* Positive answers of larder_loader_next. */
#define LARDER_END_EPOCH 1 /* this epoch is over; the next call starts the next one */
#define LARDER_END 2       /* all epochs asked for are over */
#define LARDER_NOT_YET 3   /* of larder_loader_next_within alone: the time is over */

const char *larder_version(void);  /* "0.1.0" */
const char *larder_features(void); /* "jpeg png zlib …", space separated; "-name" if left out */
const char *larder_strerror(int code); /* the text of LARDER_ERRORS */
const char *larder_errmsg(void);       /* this thread's last failure, as a sentence; never NULL */

/* ---- buffers: refcounted, unchangeable once published ---------------------------------------- */

typedef struct larder_buf larder_buf;

larder_buf *larder_buf_new(size_t bytes); /* one reference; NULL: no memory, or 4 GiB and more */
larder_buf *larder_buf_ref(larder_buf *);
void larder_buf_unref(larder_buf **); /* takes NULL; the caller's pointer becomes NULL */
void *larder_buf_data(larder_buf *);  /* 16-byte aligned; write only before publishing */
size_t larder_buf_size(const larder_buf *);

/* ---- what a batch looks like ----------------------------------------------------------------- */

/* Batches come as u8 or f32; embeddings may be given as f32, f16 or bf16. */
typedef enum { LARDER_U8 = 0, LARDER_F32 = 1, LARDER_F16 = 2, LARDER_BF16 = 3 } larder_dtype;
typedef enum { LARDER_NCHW = 0, LARDER_NHWC = 1 } larder_layout;

typedef struct larder_shape {
    uint32_t h, w, c;
} larder_shape;

/* What a cache keeps of a sample. An id is resident in at most one form. */
typedef enum {
    LARDER_ENCODED = 0,  /* the file's bytes */
    LARDER_DECODED = 1,  /* u8 pixels at native size: augmented afresh each time */
    LARDER_AUGMENTED = 2 /* a finished row of a batch: used once, then made anew */
} larder_form;
enum { LARDER_FORMS = 3 };

/* How one sample of a batch came to be there. Exactly one kind a sample; `repeat` is separate. */
typedef enum {
    LARDER_HIT = 0,        /* from memory, the id that was asked for */
    LARDER_MISS = 1,       /* read from storage for this request */
    LARDER_SUBSTITUTE = 2, /* another id from memory instead of the one asked for */
    LARDER_REPLACED = 3    /* the id asked for was bad; another was read instead (on_bad=replace) */
} larder_kind;

typedef struct larder_batch {
    uint64_t number;        /* counts from 0 over the whole run */
    uint64_t epoch;         /* counts from 0 */
    size_t n;               /* samples in it; less than the batch size only in an epoch's last batch
                               or with on_bad=skip */
    larder_shape shape;     /* of one sample */
    larder_dtype dtype;     /* of x */
    larder_layout layout;   /* of x */
    const void *x;          /* n samples, contiguous, 64-byte aligned */
    const int64_t *y;       /* labels of the served samples */
    const uint64_t *ids;    /* the ids that were asked for */
    const uint64_t *served; /* the ids that are in x: scores and labels belong to these */
    const uint8_t *kind;    /* larder_kind of each */
    const float *weight;    /* 1/(N p) of each draw, 1 for uniform recipes */
} larder_batch;

/* What training said about a batch. Any pointer may be NULL; arrays have b->n rows. Copied. */
typedef struct larder_feedback {
    const float *loss;   /* per sample */
    const float *logits; /* n x classes */
    size_t classes;
    const void *embeddings; /* n x dim */
    size_t dim;
    larder_dtype embeddings_dtype; /* LARDER_F16 or LARDER_BF16; 0 means LARDER_F32 */
} larder_feedback;

/* ---- the ledger: honest figures of one epoch ------------------------------------------------- */

/* hits + substitutes + misses == served. A repeat is any served id already served this epoch,
 * however it came, so repeats overlap the other three. */
typedef struct larder_figures {
    uint64_t epoch, served, hits, substitutes, repeats, misses, background_reads;
    uint64_t storage_bytes; /* read for misses, in the background and for evaluation */
    uint64_t bad;           /* samples skipped or replaced */
    uint64_t evaluated, evaluation_reads; /* shown to the evaluator; storage had to give of these */
    uint64_t scratch_reads, scratch_bytes; /* samples that came from packages laid down before, and
                                              what was read of those; in no other figure */
    uint64_t scratch_written;              /* bytes laid down as packages */
    double touched; /* distinct served ids / data-set size (or this rank's share of it) */
    uint64_t form_hits[LARDER_FORMS]; /* hits + substitutes by the form they were kept in */
    uint64_t front_hits;              /* of these: from the cache in front of Redis */
} larder_figures;

/* ---- the loader ------------------------------------------------------------------------------ */

typedef enum { LARDER_BAD_FAIL = 0, LARDER_BAD_SKIP = 1, LARDER_BAD_REPLACE = 2 } larder_on_bad;

/* Of data sets of which parts can be read (pack:): what is not going to stay in the cache is read
 * as far as its crop needs it. What stays is whole, or grows by what is used. */
typedef enum {
    LARDER_PARTS_READ = 0, /* cached samples are whole */
    LARDER_PARTS_KEEP = 1, /* cached samples are what was used of them; for crops that repeat */
    LARDER_PARTS_OFF = 2   /* samples are read whole */
} larder_parts;

typedef struct larder_loader larder_loader;

typedef struct larder_loader_conf {
    size_t size;         /* of this struct as the caller knows it: larder_loader_defaults sets it */
    const char *source;  /* "dir:photos", "cifar10:folder", "tar:s-{000..009}.tar", … */
    const char *recipe;  /* "minio" unless said, "quiver:factor=10", …; larder list shows all */
    const char *cache;   /* "20%" of the payload, or "8GiB" in all; "0" for none; "8GiB:58/42/0"
                            shares it out between encoded, decoded and augmented samples */
    const char *augment; /* "crop:size=32,pad=4|flip|normalize:mean=…"; NULL: decode only */
    size_t batch;        /* samples per batch and rank */
    uint64_t seed;
    uint64_t epochs;      /* 0: no end */
    uint32_t threads;     /* 0: as many as cores, and as a cgroup's quota lets run */
    uint32_t prefetch;    /* batches prepared ahead; 0: 4 */
    uint32_t lag;         /* feedback of batch k acts before batch k+lag; 0: ahead + 2 */
    uint32_t rank, world; /* this process is one of `world`; 0 of 1 unless said */
    larder_dtype dtype;
    larder_layout layout;
    larder_on_bad on_bad;
    bool drop_last;
    larder_parts parts;
    uint32_t inflight; /* reads under way at once, at most, whatever `threads` is; 0: 64 */
    /* Batches decided and read ahead; only `prefetch` of them are prepared, the others are the
     * samples' own bytes. As many as training eats while storage answers once. 0: `prefetch`, or
     * where neither is given and nothing in the recipe listens to training, up to 16 that take at
     * most 64 MiB. */
    uint32_t ahead;
    uint32_t hold_most; /* batches on hold at once (larder_loader_hold); 0: a quarter of memory */
    /* Locks batch memory in place, as a device wants it: called once for each piece of it, by the
     * thread that opens the loader or gives a batch back; unpin before it is freed. With flags 1
     * the types are those of cudaHostRegister and cudaHostUnregister. Memory that cannot be pinned
     * (an answer other than 0) is used all the same; the statistics count it. NULL: not pinned. */
    int (*pin)(void *memory, size_t bytes, unsigned flags);
    int (*unpin)(void *memory);
    /* A file that gets a record of the job: requests, where they came from, what training said
     * (docs/guide/resume.md). %p in the name is the process, %r the rank. NULL: what LARDER_RECORD
     * names, for the first loader of a process, or for all where it has %n, their number; "": none.
     */
    const char *record;
    /* The order alone: batches have ids, labels, kinds and weights, and no pixels (x is NULL).
     * Nothing is read; what the cache would hold is only counted. For those who read by themselves.
     */
    bool order_only;
    /* An earlier run to repeat to the bit, whatever the machine's pace: what it decided by
     * measuring (rotate's h=auto, plan=auto, when spider's scores took effect) is done again. A
     * folder of larder train --out, a record of the job, or a file with what
     * larder_loader_decisions or larder_loader_save gave. NULL: none. */
    const char *replay;
    /* Asked now and then while larder_loader_open waits for a daemon or a server that is away
     * (wait= of the cache): false gives it up with E_CANCELLED. NULL: it waits to the end. */
    bool (*still)(void *arg);
    void *still_arg;
} larder_loader_conf;

/* A program and a library of different versions agree on the fields that both know. */
void larder_loader_init(larder_loader_conf *, size_t size);
static inline void larder_loader_defaults(larder_loader_conf *c) {
    larder_loader_init(c, sizeof *c);
}
int larder_loader_open(larder_loader **out, const larder_loader_conf *); /* conf is copied */
void larder_loader_close(larder_loader **);

/* The next batch in sampler order, LARDER_END_EPOCH, LARDER_END, or a negative code. The batch is
 * lent until larder_loader_done. Several may be held and given back in any order, but batch k +
 * prefetch comes only after batch k was given back (E_STATE before). A failure ends the run: next
 * says the same again. With on_bad=skip or replace, running out of memory still fails. */
int larder_loader_next(larder_loader *, const larder_batch **out);
/* As next, but waits so many seconds at most: LARDER_NOT_YET, and the next call goes on waiting.
 * For programs that must look up now and then, at a signal for example. */
int larder_loader_next_within(larder_loader *, const larder_batch **out, double seconds);
/* Feedback about a batch still held; at most once a batch. */
int larder_loader_report(larder_loader *, const larder_batch *, const larder_feedback *);
/* Validation accuracy (fraction of 1) as of now. */
int larder_loader_validate(larder_loader *, double accuracy);
int larder_loader_done(larder_loader *, const larder_batch *);
/* Feedback about batch `number` of `epoch` as n samples, wherever they were served: for what comes
 * after done (E_STATE when it is too late to act, see `lag`), and for processes that train together
 * and tell each other. Those that share a cache give the whole batch in its order, as
 * larder_loader_together says. At most once a batch, instead of larder_loader_report. */
int larder_loader_report_rows(larder_loader *, uint64_t number, uint64_t epoch,
                              const uint64_t *served, const int64_t *labels, size_t n,
                              const larder_feedback *);
/* The same about this rank's own rows of a batch: ranks that share a cache tell each other the rest
 * by themselves, as they do after larder_loader_report. */
int larder_loader_report_own(larder_loader *, uint64_t number, uint64_t epoch,
                             const uint64_t *served, const int64_t *labels, size_t n,
                             const larder_feedback *);

/* A batch that stays valid after done and close, until the last reference is gone: the loader goes
 * on with other memory. At most hold_most at once, else E_FULL. References from any thread, also
 * after close. */
typedef struct larder_hold larder_hold;
int larder_loader_hold(larder_loader *, const larder_batch *, larder_hold **out);
const larder_batch *larder_hold_batch(const larder_hold *);
larder_hold *larder_hold_ref(larder_hold *);
void larder_hold_unref(larder_hold **); /* takes NULL; the caller's pointer becomes NULL */

/* The batch that next() would give at once, without taking it: 0, or LARDER_NOT_YET where it is not
 * ready, an epoch ends before it or a row of it is bad. Its x lies still until done or begin. */
int larder_loader_peek(larder_loader *, larder_batch *out);

/* The next batch is the first of this epoch: what is left of the one under way is given up, and so
 * are batches drawn ahead, whose numbers are left out. Cache and scores stay. Right after open (or
 * restore, which it makes forget its place), or when no batch is lent. */
int larder_loader_begin(larder_loader *, uint64_t epoch);
/* Epoch of the batch that next() gives or waits for; of the one just over until its END_EPOCH. */
uint64_t larder_loader_epoch(const larder_loader *);

/* Samples by id, through the same cache and pipeline, from any thread and beside next(): rows of
 * larder_loader_shape, and labels. `chance` seeds the random stages of each; NULL: their middle
 * position. With recipes that may serve another sample: E_ARGS. */
int larder_loader_get(larder_loader *, const uint64_t *ids, size_t n, const uint64_t *chance,
                      void *x, int64_t *y);
/* One sample before any stage: its file's bytes, or its pixels, u8 at native size. */
typedef struct larder_item {
    larder_buf *buf;  /* one reference, of the caller */
    const void *data; /* inside it */
    size_t size;
    larder_shape shape;   /* LARDER_DECODED alone */
    larder_layout layout; /* of the pixels */
    int64_t label;        /* -1: none */
} larder_item;
int larder_loader_item(larder_loader *, uint64_t id, larder_form, larder_item *out);
/* Labels of samples first to first+n-1; -1: it has none. Nothing is read. */
int larder_loader_labels(larder_loader *, uint64_t first, size_t n, int64_t *out);
/* For people: "cat/7.jpg". */
int larder_loader_name(larder_loader *, uint64_t id, char *out, size_t cap);

/* Some recipes (impact) want losses looked at again between epochs: `loss` gets that of each of the
 * batch's samples, by a forward pass alone; 0, or negative to end the run. Called inside
 * larder_loader_next, on its thread, before the first batch of an epoch; the batch is lent for the
 * call. The loader's threads prepare the samples, random stages in their middle position. Set right
 * after open. */
typedef int (*larder_evaluate_fn)(void *arg, const larder_batch *, float *loss);
int larder_loader_evaluator(larder_loader *, larder_evaluate_fn, void *arg);

/* The state after the batches taken so far, to go on exactly there: same remaining ids, same
 * augmentation, with any number of threads. `restore` comes right after open, once, with the same
 * source, recipe, cache size and seed; recipes that listen to feedback want the same `lag` too.
 * With the same batch size, rank and world it goes on to the bit. With others it does where all
 * ranks have one order in common (uniform, sequential): any rank's state, the same for all; what
 * the old ranks had not taken of the epoch is divided anew. Feedback given after the save is not in
 * it. Works after cancel. Free *bytes with larder_free. */
int larder_loader_save(larder_loader *, void **bytes, size_t *size);
int larder_loader_restore(larder_loader *, const void *bytes, size_t size);
/* Some recipes decide by measuring: rotate how much to reuse (h=auto), plan=auto how the cache is
 * shared out, spider:scoring=beside when feedback acts. All such decisions
 * so far are in a saved state, and here without the rest of it: a few bytes a decision, and not any
 * a sample. Free *bytes with larder_free. */
int larder_loader_decisions(larder_loader *, void **bytes, size_t *size);
/* Makes a fresh loader decide as the run did from its start that left this state or these
 * decisions: the same ids, whatever the pace. Past the last of them what was decided last stays.
 * May come before restore. */
int larder_loader_replay(larder_loader *, const void *bytes, size_t size);
/* Recipes with plan=auto: the i-th change of how the cache is shared out, oldest first; E_RANGE
 * past the end. Such a run repeats by larder_loader_replay as well. The struct: larder/plan.h. */
struct larder_replan;
int larder_loader_replan(larder_loader *, size_t i, struct larder_replan *out);
void larder_free(void *);

/* Does the recipe, or the record of the job, want to know what training says of samples? */
bool larder_loader_listens(const larder_loader *);
/* Do the ranks of this job share a cache and decide together (docs/guide/share.md)? Then each batch
 * of all is dealt out to them row by row: row i of batch number b is rank (i + b) % world's, rank
 * i % world's in batches that are shorter than others or have one row a rank. Else each rank's
 * part is in one piece. */
bool larder_loader_together(const larder_loader *);
uint64_t larder_loader_samples(const larder_loader *);
uint64_t larder_loader_payload(const larder_loader *); /* bytes of all samples as they are stored */
uint64_t larder_loader_batches(const larder_loader *); /* of the current epoch, for this rank */
uint32_t larder_loader_classes(const larder_loader *); /* 0 if unknown */
larder_shape larder_loader_shape(const larder_loader *);
const char *larder_loader_class_name(const larder_loader *, uint32_t label); /* NULL if none */

/* Figures of the epoch under way, or of a finished one (E_RANGE before it began). */
int larder_loader_figures(larder_loader *, uint64_t epoch, larder_figures *out);
/* Proves exactly-once for the last finished epoch: 0, or the number of ids served twice or never
 * (positive), with the sentence in larder_errmsg(). */
int64_t larder_loader_audit(larder_loader *);
/* Bad samples so far: a copy of entry i, newest last; E_RANGE past the end. The first 4096 are
 * listed; the figures count them all. */
typedef struct larder_bad {
    uint64_t id;
    int code;
    char why[256];
} larder_bad;
int larder_loader_bad(larder_loader *, size_t i, larder_bad *out);
/* Packages that could not be laid down in the scratch folder or read back from it (then storage
 * gave them): how many, and the last reason as a sentence, "" if there was none. */
int larder_loader_scratch(larder_loader *, uint64_t *refused, char *why, size_t cap);
/* A cache that lives in Redis or in a daemon: the last reason why it was away or refused something,
 * as a sentence, "" if it never did. Training goes on from storage meanwhile. Right after open: it
 * was not there, and is looked for. */
int larder_loader_cache_note(larder_loader *, char *why, size_t cap);
/* Bytes of the job's record so far, 0: none is made; and where it had to end before the job (a full
 * disk), a sentence, else "". */
int larder_loader_recorded(larder_loader *, uint64_t *bytes, char *why, size_t cap);
/* Sentences that are no errors, each said once, oldest first: what holds instead of what was asked
 * for, what would be better. NULL past the end; they live as long as the loader, and more may come
 * until it is closed. `larder train` prints them, Python warns with them. */
const char *larder_loader_note(larder_loader *, size_t i);
/* Wakes a waiting next() with E_CANCELLED; may be called from any thread. */
void larder_loader_cancel(larder_loader *);

/* ---- statistics ------------------------------------------------------------------------------ */

typedef struct larder_stat_value {
    const char *name, *unit, *help; /* live as long as the loader */
    char type;                      /* 'c'ounter, 'g'auge, 'h'istogram */
    double value;                   /* counter, gauge; histogram: mean */
    uint64_t count;                 /* histogram: observations */
    double sd, p50, p90, p99, max;  /* histogram only */
} larder_stat_value;
/* Value i of this loader; E_RANGE past the end. */
int larder_loader_stat(larder_loader *, size_t i, larder_stat_value *out);

/* Where the time of a training step goes. `training` is the step itself, while which the loader
 * waits for the trainer; the others are parts of the time the trainer waited for a batch. What
 * happens between epochs is in none of them. */
enum {
    LARDER_TIME_TRAINING = 0,
    LARDER_TIME_STORAGE = 1,  /* reads */
    LARDER_TIME_DECODE = 2,   /* from files to pixels */
    LARDER_TIME_AUGMENT = 3,  /* from pixels to rows of a batch */
    LARDER_TIME_CACHE = 4,    /* deciding order and cache */
    LARDER_TIME_ASSEMBLY = 5, /* putting batches together */
    LARDER_TIMES = 6
};
typedef struct larder_times {
    double seconds[LARDER_TIMES]; /* since the loader was opened */
    int bottleneck;               /* which of them holds the run up */
    char says[256];               /* that as a sentence, with what would help */
} larder_times;
int larder_loader_times(larder_loader *, larder_times *out);
const char *larder_time_name(int part); /* "training", "storage", … */

#ifdef __cplusplus
}
#endif
#endif
