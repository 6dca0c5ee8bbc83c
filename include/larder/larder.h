/* larder: a training-aware cache, sampler and loader.
 *
 * This header is all a program needs to train through larder: open a loader on a data set, take
 * batches, give back what training said about them, close. Calls return 0 or a negative code of
 * LARDER_ERRORS; larder_errmsg() then holds a sentence that names the file and sample. The library
 * never prints, never exits and installs no signal handlers.
 *
 *     larder_loader_conf conf = {.size = sizeof conf,
 *                                .source = "cifar10:data/cifar-10",
 *                                .cache = "20%",
 *                                .epochs = 10};
 *     larder_loader *ld = NULL;
 *     if (larder_loader_open(&ld, &conf) < 0) die(larder_errmsg());
 *     const larder_batch *b;
 *     int rc;
 *     while ((rc = larder_loader_next(ld, &b)) >= 0 && rc != LARDER_END) {
 *         if (rc == LARDER_END_EPOCH) continue; // a good place to validate and to save
 *         train(b->x, b->y, b->n, losses);
 *         larder_feedback fb = {.size = sizeof fb, .loss = losses};
 *         larder_loader_report(ld, b, &fb);
 *         larder_loader_done(ld, b);
 *     }
 *     if (rc < 0) complain(larder_errmsg());
 *     larder_loader_close(&ld);
 *
 * Structs grow at their end, so that a program and a library of different versions go together: a
 * struct begins with `size`, its sizeof as whoever owns the memory knows it. Callers set it in what
 * they fill in and in what they want filled in; 0 or NULL in a field means what it is unless said.
 * What an older caller's struct ends before is so, and is not written; what a newer one has beyond
 * ours must be 0 (E_UNSUPPORTED) and comes back as 0. larder sets it in what it lends, such as
 * batches. Structs without a size stand inside others and do not change.
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

#define LARDER_VERSION "0.2.0"

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
#define LARDER_NOT_YET 3   /* with conf.patience: it is over, and the next call goes on waiting */

const char *larder_version(void);  /* "0.2.0" */
const char *larder_features(void); /* "jpeg png zlib …", space separated; "-name" if left out */
const char *larder_errmsg(void);   /* this thread's last failure, as a sentence; never NULL */
void larder_free(void *);          /* what a call below says is to be freed */

/* ---- buffers: refcounted, unchangeable once published ---------------------------------------- */

typedef struct larder_buf larder_buf;

larder_buf *larder_buf_new(size_t bytes); /* one reference; NULL: no memory, or 4 GiB and more */
larder_buf *larder_buf_ref(larder_buf *);
void larder_buf_unref(larder_buf **); /* takes NULL; the caller's pointer becomes NULL */
void *larder_buf_data(larder_buf *);  /* 16-byte aligned; write only before publishing */
size_t larder_buf_size(const larder_buf *);

/* ---- what a batch looks like ----------------------------------------------------------------- */

/* Pictures come as f32, u8, f16 or bf16; embeddings may be given as f32, f16 or bf16; columns have
 * any. */
typedef enum {
    LARDER_F32 = 0,
    LARDER_U8 = 1,
    LARDER_F16 = 2,
    LARDER_BF16 = 3,
    LARDER_I64 = 4,
    LARDER_I32 = 5,
    LARDER_I16 = 6,
    LARDER_I8 = 7,
    LARDER_U16 = 8,
    LARDER_F64 = 9,
    LARDER_BOOL = 10, /* a byte, 0 or 1 */
    LARDER_U32 = 11,
    LARDER_U64 = 12,
    LARDER_C64 = 13 /* two f32 */
} larder_dtype;
enum { LARDER_DTYPES = 14, LARDER_NDIM = 8 };
typedef enum { LARDER_NCHW = 0, LARDER_NHWC = 1 } larder_layout;

typedef struct larder_shape {
    uint32_t h, w, c;
} larder_shape;

/* What a cache keeps of a sample. An id is resident in at most one form. */
typedef enum {
    LARDER_ENCODED = 0,   /* the file's bytes */
    LARDER_DECODED = 1,   /* u8 pixels at native size: augmented afresh each time */
    LARDER_AUGMENTED = 2, /* a finished row of a batch: used once, then made anew */
    LARDER_SHRUNK = 3     /* instead of the file's bytes: a JPEG of the size training uses */
} larder_form;
enum { LARDER_FORMS = 4 };

/* How one sample of a batch came to be there. Exactly one kind a sample; `repeat` is separate. */
typedef enum {
    LARDER_HIT = 0,        /* from memory, the id that was asked for */
    LARDER_MISS = 1,       /* read from storage for this request */
    LARDER_SUBSTITUTE = 2, /* another id from memory instead of the one asked for */
    LARDER_REPLACED = 3    /* the id asked for was bad; another was read instead (on_bad=replace) */
} larder_kind;

/* What a batch has of each field, in the order of conf.fields. x and y are among them. */
typedef struct larder_piece { /* one row of a column whose rows differ */
    const void *data;         /* 16-byte aligned unless it is bytes or text */
    size_t bytes;
    larder_dtype dtype;
    uint32_t ndim;
    uint64_t shape[LARDER_NDIM];
} larder_piece;
typedef struct larder_column {
    const char *name;
    const char *kind; /* "number", "array", "text" …: what the rows are, for those who show them */
    larder_dtype dtype;
    uint32_t ndim; /* of one row */
    uint64_t shape[LARDER_NDIM];
    const void *data;           /* n rows, contiguous, 64-byte aligned; NULL: rows differ */
    const larder_piece *pieces; /* then: of each row */
    enum { LARDER_COLUMN_OTHER = 0, LARDER_COLUMN_X = 1, LARDER_COLUMN_Y = 2 } use;
} larder_column;

typedef struct larder_batch {
    size_t size;
    uint64_t number;        /* counts from 0 over the whole run */
    uint64_t epoch;         /* counts from 0 */
    size_t n;               /* samples in it; less than the batch size only in an epoch's last batch
                               or with on_bad=skip */
    larder_shape shape;     /* of one sample */
    larder_dtype dtype;     /* of x */
    larder_layout layout;   /* of x */
    const void *x;          /* n samples, contiguous, 64-byte aligned; NULL: see conf.device */
    const int64_t *y;       /* labels of the served samples */
    const uint64_t *ids;    /* the ids that were asked for */
    const uint64_t *served; /* the ids that are in x: scores and labels belong to these */
    const uint8_t *kind;    /* larder_kind of each */
    const float *weight;    /* 1/(N p) of each draw, 1 for uniform recipes */
    const larder_column *columns; /* what conf.fields asks for; without it there are none */
    size_t column_count;
    uint32_t views;   /* rows of x that each sample has, one after the other; 1 unless asked for */
    float mix_weight; /* stages mixup and cutmix: the share of each sample that is its own, the rest
                         is of the one before it (of the first: the last); 1: nothing is mixed */
} larder_batch;

/* What training said about a batch. Any pointer may be NULL; arrays have b->n rows. Copied. */
typedef struct larder_feedback {
    size_t size;
    const float *loss;   /* per sample */
    const float *logits; /* n x classes */
    size_t classes;
    const void *embeddings; /* n x dim */
    size_t dim;
    larder_dtype embeddings_dtype; /* LARDER_F32, LARDER_F16 or LARDER_BF16 */
    enum {
        LARDER_ROWS_HELD = 0, /* of a batch that is still held */
        LARDER_ROWS_OWN = 1,  /* of a batch named by the caller, this rank's rows of it */
        LARDER_ROWS_ALL = 2   /* and all ranks' */
    } rows;
} larder_feedback;

/* ---- the ledger: honest figures of one epoch ------------------------------------------------- */

/* hits + substitutes + misses == served. A repeat is any served id already served this epoch,
 * however it came, so repeats overlap the other three. */
typedef struct larder_figures {
    size_t size;
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
    /* What reuse memorises, of recipes that may serve an id more than once an epoch or another
     * instead: mean losses, as reported, of samples that came within an epoch's worth of samples
     * after they had come before, and of those that had not. Losses of the same time are compared,
     * so both rest on those 1/64ths of the epoch that have both sorts; NAN: none has. */
    uint64_t fresh_reported, reused_reported; /* finite losses they rest on */
    double fresh_loss, reused_loss;
    uint64_t requests; /* to storage, for those bytes: as the source made them, joined or split */
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

/* Samples that the program gives itself, instead of a source's. Calls come from any thread, several
 * at once. How large samples are is learned: a few are read when the loader opens, and what each
 * one came to counts for the cache some batches after it was read. Their cache is in this process's
 * memory alone. */
struct larder_read; /* see plugin.h */
typedef struct larder_own_source {
    size_t size;
    const char *shown;    /* what messages call it; NULL: "own" */
    uint64_t count;       /* samples */
    uint64_t fingerprint; /* which samples there are: what saved states are checked with */
    void *arg;
    /* Fills every out[i], as larder_source.read: bytes of any kind, or a parcel of several fields
     * (docs/guide/own.md). 0 unless nothing at all could be tried. */
    int (*read)(void *arg, const uint64_t *ids, size_t n, struct larder_read *out);
    int (*name)(void *arg, uint64_t id, char *out, size_t cap); /* NULL: "item 17" */
    const int32_t *labels; /* `count` of them, -1: none; lent until close. NULL: there are none */
    uint32_t classes;      /* 0: not known */
    /* true: reads under way end soon with E_CANCELLED, and so do later ones; false, when a loader
     * is opened: no longer. NULL: reads never take long. */
    void (*interrupt)(void *arg, bool on);
} larder_own_source;

/* What becomes of a sample, where the program does that itself. Calls come from several threads. */
typedef struct larder_own_maker {
    size_t size;
    void *arg;
    /* One call has all samples of a batch, and gives one parcel of it in out[0]: a column "" that
     * is kept as it is. */
    bool whole;
    /* Of a source of larder's: in[i] has the picture as it is, h x w x c levels, or where larder
     * decodes no such picture its bytes. Then there is no `augment`. */
    bool pictures;
    /* in[i] is what is cached of an own source's sample ids[i]; of another source's it is a parcel
     * of the row that `augment` makes, in larder_about's shape. chances[i] seeds whatever is random
     * about it. out[i] gets a parcel, whose fields become columns of the batch: of one type and
     * shape in all samples, unless they are text or bytes. */
    int (*make)(void *arg, const uint64_t *ids, const uint64_t *chances, larder_buf *const *in,
                size_t n, struct larder_read *out);
} larder_own_maker;

typedef struct larder_loader_conf {
    size_t size;
    const char *source;  /* "dir:photos", "cifar10:folder", "tar:s-{000..009}.tar", … */
    const char *recipe;  /* "quiver:factor=10", …; larder list shows all; NULL: "minio" */
    const char *cache;   /* "20%" of the payload (NULL), or "8GiB" in all; "0" for none;
                            "8GiB:58/42/0" shares it out between encoded, decoded and augmented
                            samples */
    const char *augment; /* "crop:size=32,pad=4|flip|normalize:mean=…"; NULL: decode only */
    size_t batch;        /* samples per batch and rank; 0: 256 */
    uint64_t seed;
    uint64_t epochs;      /* 0: no end */
    uint32_t threads;     /* 0: as many as cores, and as a cgroup's quota lets run */
    uint32_t prefetch;    /* batches prepared ahead; 0: 4 */
    uint32_t lag;         /* feedback of batch k acts before batch k+lag; 0: ahead + 2 */
    uint32_t rank, world; /* this process is one of `world`; 0: of 1 */
    larder_dtype dtype;   /* LARDER_F32, LARDER_U8, LARDER_F16 or LARDER_BF16 */
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
     * folder of larder train --out, a record of the job, or a file with what larder_loader_save
     * gave. NULL: none. */
    const char *replay;
    /* Asked now and then while larder_loader_open waits for a daemon or a server that is away
     * (wait= of the cache): false gives it up with E_CANCELLED. NULL: it waits to the end. */
    bool (*still)(void *arg);
    void *still_arg;
    /* Seconds that larder_loader_next waits at most before it answers LARDER_NOT_YET, for programs
     * that must look up now and then, at a signal for example. 0: as long as it takes. */
    double patience;
    /* Which fields of a sample come, with commas between:
     * "[name=]field[.path][:kind[;key=value…]]", as in "jpg,json.label" or
     * "jpg,mask=seg.png:mask,npy" (docs/guide/fields.md). The first picture is x, the first number
     * y, the others are columns. NULL: the picture and the label. */
    const char *fields;
    /* What y is, of labels that are no class folder's or .cls member's: a field as above, or
     * "csv:labels.csv?key=name&value=label" beside the data. Anything but one whole number is a
     * column of f32 whose use is LARDER_COLUMN_Y, and larder_batch.y holds -1. NULL: as above. */
    const char *target;
    /* Samples of the program's own, instead of `source`; and what is made of samples by functions
     * of its own, instead of x. Both are copied. NULL: neither. */
    const larder_own_source *own;
    const larder_own_maker *maker;
    /* Pictures made of each sample, each by chance of its own: x is n x views x …; 0: 1. */
    size_t views;
    /* "on", or limits as "memory=1GiB,seconds=30": pictures and sounds are decoded in processes
     * that may do nothing else (docs/guide/cage.md), with the same pixels. One that crashes, runs
     * away or misbehaves makes a bad sample. NULL, "" or "off": they are decoded in this one. */
    const char *cage;
    /* "cuda" or "cuda:1": batches are for this GPU. Where stages allow it x is NULL then, rows
     * travel as u8, and larder_loader_to_device makes x there. NULL: batches lie in memory. */
    const char *device;
    /* Where JPEGs are decoded, with `device`: "cpu" (NULL); "gpu", as far as it takes the file; or
     * "auto": so many on the GPU that it and the cores finish together. Pixels are those of
     * the cores (docs/guide/gpu.md says where not); with ":fast" behind it colours are nvJPEG's, at
     * nearly twice the rate beside training. Order, ids and the ledger are the same. */
    const char *decode;
} larder_loader_conf;

int larder_loader_open(larder_loader **out, const larder_loader_conf *); /* conf is copied */
void larder_loader_close(larder_loader **);

/* The next batch in sampler order, LARDER_END_EPOCH, LARDER_END, or a negative code. The batch is
 * lent until larder_loader_done. Several may be held and given back in any order, but batch k +
 * prefetch comes only after batch k was given back (E_STATE before). A failure ends the run: next
 * says the same again. With on_bad=skip or replace, running out of memory still fails. */
int larder_loader_next(larder_loader *, const larder_batch **out);
/* Feedback about a batch, at most once each. With LARDER_ROWS_HELD it is one still held. Else it is
 * named by a struct of the caller's, of which number, epoch, n, served and y are read: for what
 * comes after done (E_STATE when it is too late to act, see `lag`), and for processes that train
 * together. With LARDER_ROWS_ALL these tell each other by themselves, and those that share a cache
 * give the whole batch in its order (`together` of larder_about); with LARDER_ROWS_OWN those that
 * share a cache are told by larder, as after LARDER_ROWS_HELD. */
int larder_loader_report(larder_loader *, const larder_batch *, const larder_feedback *);
/* Validation accuracy (fraction of 1) as of now. */
int larder_loader_validate(larder_loader *, double accuracy);
int larder_loader_done(larder_loader *, const larder_batch *);

/* The batch as one that stays valid after done and close, until it is released: the loader goes on
 * with other memory. At most hold_most at once, else E_FULL. Each hold is released once, from any
 * thread, also after close; the caller's pointer becomes NULL, and may be. */
int larder_loader_hold(larder_loader *, const larder_batch *, const larder_batch **out);
void larder_batch_release(const larder_batch **);

/* The batch that next() would give at once, without taking it: 0, or LARDER_NOT_YET where it is not
 * ready, an epoch ends before it or a row of it is bad. It lies still until done or begin. */
int larder_loader_peek(larder_loader *, const larder_batch **out);

/* x of a batch, on the device that conf.device names: n rows of the batch's shape, dtype and layout
 * into memory of that device, in the order of a CUDA stream (NULL: the default one) of its primary
 * context, which is PyTorch's. It comes back before that is done: a batch that is lent, on hold or
 * peeked at stays so until the stream has come past it. E_STATE: x lies in memory. */
int larder_loader_to_device(larder_loader *, const larder_batch *, void *x, void *stream);

/* The next batch is the first of this epoch: what is left of the one under way is given up, and so
 * are batches drawn ahead, whose numbers are left out. Cache and scores stay. Right after open (or
 * restore, which it makes forget its place), or when no batch is lent. */
int larder_loader_begin(larder_loader *, uint64_t epoch);

/* Samples by id, through the same cache and pipeline, from any thread and beside next(): rows of
 * larder_about's shape, and labels (-1: it has none). `chance` seeds the random stages of each;
 * NULL: their middle position. With recipes that may serve another sample: E_ARGS. x may be NULL:
 * then nothing is read, and any recipe will do. */
int larder_loader_get(larder_loader *, const uint64_t *ids, size_t n, const uint64_t *chance,
                      void *x, int64_t *y);
/* The same as a batch on hold, with all its columns, to be released: at most 64 samples, and no
 * more than conf.batch. ids and served are the ids, kind says where each came from. */
int larder_loader_gather(larder_loader *, const uint64_t *ids, size_t n, const uint64_t *chance,
                         const larder_batch **out);
/* One sample before any stage: its file's bytes, or its pixels, u8 at native size. */
typedef struct larder_item {
    size_t size;
    larder_buf *buf;  /* one reference, of the caller */
    const void *data; /* inside it */
    size_t bytes;
    larder_shape shape;   /* LARDER_DECODED alone */
    larder_layout layout; /* of the pixels */
    int64_t label;        /* -1: none */
} larder_item;
int larder_loader_item(larder_loader *, uint64_t id, larder_form, larder_item *out);

/* Some recipes (impact) want losses looked at again between epochs: `loss` gets that of each of the
 * batch's samples, by a forward pass alone; 0, or negative, which larder_loader_next then answers:
 * called again, it goes on with that batch. Called inside larder_loader_next, on its thread, before
 * the first batch of an epoch; the batch is lent for the call. The loader's threads prepare the
 * samples, random stages in their middle position. Set right after open. */
typedef int (*larder_evaluate_fn)(void *arg, const larder_batch *, float *loss);
int larder_loader_evaluator(larder_loader *, larder_evaluate_fn, void *arg);

/* LARDER_STATE: the state after the batches taken so far, to go on exactly there: same remaining
 * ids, same augmentation, with any number of threads. Feedback given after the save is not in it.
 * Works after cancel. LARDER_DECISIONS: what the recipe decided by measuring (rotate how much to
 * reuse, plan=auto how the cache is shared out, spider:scoring=beside when feedback acts), without
 * the rest: a few bytes a decision, and not any a sample. Free *bytes with larder_free. */
typedef enum { LARDER_STATE = 0, LARDER_DECISIONS = 1 } larder_saved;
int larder_loader_save(larder_loader *, larder_saved, void **bytes, size_t *size);
/* Right after open, once each, with the same source, recipe, cache size and seed; recipes that
 * listen to feedback want the same `lag` too.
 * LARDER_STATE goes on: with the same batch size, rank and world to the bit. With others it does
 * where all ranks have one order in common (uniform, sequential): any rank's state, the same for
 * all; what the old ranks had not taken of the epoch is divided anew.
 * LARDER_DECISIONS begins anew and decides as the run did that left this state or these decisions:
 * the same ids, whatever the pace. Past the last of them what was decided last stays. */
int larder_loader_restore(larder_loader *, larder_saved, const void *bytes, size_t size);
/* Wakes a waiting next() with E_CANCELLED; may be called from any thread. */
void larder_loader_cancel(larder_loader *);

/* ---- looking in: at any time, from any thread ------------------------------------------------ */

typedef struct larder_about {
    size_t size;
    uint64_t samples;   /* of the data set */
    uint64_t payload;   /* bytes of all of them as they are stored */
    larder_shape shape; /* of one sample of x */
    uint32_t classes;   /* 0 if unknown */
    uint64_t epoch;   /* of the batch that next() gives or waits for; of the one just over until its
                         END_EPOCH */
    uint64_t batches; /* of the current epoch, for this rank */
    /* Does the recipe, or the record of the job, want to know what training says of samples? */
    bool listens;
    bool relies; /* does the recipe rely on it? Unheard it is another one under its name then */
    /* Do the ranks of this job share a cache and decide together (docs/guide/share.md)? Then each
     * batch of all is dealt out to them row by row: row i of batch number b is rank (i + b) %
     * world's, rank i % world's in batches that are shorter than others or have one row a rank.
     * Else each rank's part is in one piece. */
    bool together;
    /* Does it compare losses of fresh and reused samples (larder_figures)? Then they are worth
     * reporting, whatever `listens` says. */
    bool compares;
    /* Proves exactly-once for the last finished epoch: 0, or the number of ids served twice or
     * never; LARDER_SAYS_AUDIT says which. */
    int64_t audit;
    uint64_t recorded; /* bytes of the job's record so far, 0: none is made */
    uint64_t refused;  /* packages that could not be laid down in the scratch folder or read back */
} larder_about;
int larder_loader_about(larder_loader *, larder_about *out);

/* Names and sentences, cut to `cap` bytes; "" where there is none. The first three have many,
 * counted by i; E_RANGE past the end. */
typedef enum {
    LARDER_SAYS_SAMPLE, /* name of sample i: "cat/7.jpg" */
    LARDER_SAYS_CLASS,  /* name of class i */
    /* No errors, each said once, oldest first: what holds instead of what was asked for, what would
     * be better. More may come until the loader is closed. `larder train` prints them, Python warns
     * with them. */
    LARDER_SAYS_NOTE,
    LARDER_SAYS_AUDIT,
    LARDER_SAYS_TIME, /* what holds the run up, and what would help */
    /* Why a cache that lives in Redis or in a daemon was last away or refused something. Training
     * goes on from storage meanwhile. Right after open: it was not there, and is looked for. */
    LARDER_SAYS_CACHE,
    LARDER_SAYS_SCRATCH, /* why a package was last `refused`; storage gave it then */
    LARDER_SAYS_RECORD   /* why the record had to end before the job (a full disk) */
} larder_says;
int larder_loader_says(larder_loader *, larder_says, uint64_t i, char *out, size_t cap);

/* Figures of the epoch under way, or of a finished one (E_RANGE before it began). */
int larder_loader_figures(larder_loader *, uint64_t epoch, larder_figures *out);
/* Bad samples so far: entry i, newest last; E_RANGE past the end. The first 4096 are listed; the
 * figures count them all. */
typedef struct larder_bad {
    size_t size;
    uint64_t id;
    int code;
    char why[260];
} larder_bad;
int larder_loader_bad(larder_loader *, size_t i, larder_bad *out);

/* Value i of the loader's statistics; E_RANGE past the end. Where the time of a training step goes
 * is among them: `training`, and parts of the time training waited for a batch, wait_storage,
 * wait_decode, wait_augment, wait_cache (deciding order and cache) and wait_assembly. */
typedef struct larder_stat_value {
    size_t size;
    const char *name, *unit, *help; /* live as long as the loader */
    char type;                      /* 'c'ounter, 'g'auge, 'h'istogram */
    double value;                   /* counter, gauge; histogram: mean */
    uint64_t count;                 /* histogram: observations */
    double sd, p50, p90, p99, max;  /* histogram only */
} larder_stat_value;
int larder_loader_stat(larder_loader *, size_t i, larder_stat_value *out);

#ifdef __cplusplus
}
#endif
#endif
