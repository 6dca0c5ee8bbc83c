/* What the files of the loader share: the struct, its ring of batches, and the steps between them.
 * Nobody outside src/loader includes this. */
#ifndef LARDER_LOADER_INSIDE_H
#define LARDER_LOADER_INSIDE_H

#include "cage/cage.h"
#include "loader/draw/draw.h"
#include "loader/figures/ledger.h"
#include "loader/figures/pace.h"
#include "loader/figures/stall.h"
#include "loader/fill/freight.h"
#include "loader/fill/packages.h"
#include "loader/fill/pixels.h"
#include "loader/fill/targets.h"
#include "see/expose.h"
#include "source/own.h"
#include "stage/pipeline.h"
#include "tape/tape.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

/* A batch on its way. FREE -> (planned) WORKING -> FILLED -> LENT -> FREE; batch k lives in place
 * k % ahead of the ring, so batches leave in the order in which they were drawn. Its rows are read
 * in pieces, by any thread, always the oldest first; a piece that was read is prepared into memory
 * k % prefetch of those for x, once batch k - prefetch has given that back. */
typedef enum { LARDER__FREE, LARDER__WORKING, LARDER__FILLED, LARDER__LENT } larder__phase;

typedef struct larder__row_fault { /* why a row could not be filled; code 0: it could */
    int code;
    char why[256];
} larder__row_fault;

typedef struct larder__place {
    larder__phase phase;
    bool reported;
    bool calm;               /* for the evaluator: prepared without chance */
    const uint64_t *chances; /* of samples by id: of each row; NULL: as the batch's number says */
    double begun;            /* when the first of its rows was taken */
    larder__planned plan;
    size_t rows;                /* to work on: those of the batch, then fetched entries */
    size_t next_row, rows_left; /* not handed to a reader yet; not finished yet */
    size_t unprepared;          /* of the batch's own; what the device does is one more */
    _Atomic uint32_t reading;   /* joint reads under way */
    uint8_t *piece_read;        /* piece i, of l->piece rows: read, and nobody prepares it yet */
    size_t pieces_read;         /* how many such, */
    size_t pieces_awaited;      /* and how many of them have rows that another job brings */
    size_t device_rows;         /* the first so many are for the device, if it takes them; */
    size_t unsent;              /* of these not written down yet */
    larder__orders *orders;     /* what was; NULL: nothing is decoded there */
    size_t begun_there, open_there; /* of them: from which row to which nobody is at it; */
    size_t undecoded;               /* how many are not made */
    size_t made_there;              /* by the device */
    struct larder__place *behind;   /* sent to the device after this one */
    larder_buf **bytes;             /* of each row, one reference, from reading to preparing */
    larder_batch batch;             /* what the user sees; points at the arrays below */
    unsigned char *x;               /* lent by the loader while rows are prepared and taken */
    larder__pixel_block *block;     /* that it lies in; NULL: in the caller's own memory */
    int64_t *y;
    uint64_t *served;
    uint8_t *kind;
    uint8_t *form;             /* of each row, as in larder__ledger_record */
    uint32_t *read_bytes;      /* storage bytes each row cost */
    _Atomic uint64_t requests; /* to storage, for rows and for what was fetched besides */
    larder__package
        *crate; /* what was fetched besides comes from it, or is to be laid down there */
    bool lays_down;
    /* Samples from the scratch folder and their bytes; bytes read and written there. */
    uint64_t scratch_samples, scratch_payload, scratch_bytes, scratch_written;
    larder__row_fault *faults; /* of each row */
    _Atomic bool faulty;       /* is there one? The rows need not be looked through else */
} larder__place;

typedef struct larder__evaluation { /* of losses between epochs */
    larder_evaluate_fn fn;          /* NULL: the user gave none */
    void *arg;
    larder__place places[2]; /* only where the recipe asks for it: one is filled, one looked at */
    float *loss;
    bool due;        /* drawing waits for it */
    bool halted;     /* the user's function broke off; the next call goes on with that batch */
    bool asking;     /* the user's function is at it, */
    pthread_t asker; /* in this thread */
    int now;         /* the place that is looked at */
    uint64_t samples, reads, bytes, requests; /* looked at, from storage; not in the ledger yet */
} larder__evaluation;

typedef struct larder__kept { /* a batch that was drawn before a save and not yet taken */
    struct larder__kept *next;
    uint64_t number, epoch, length;
    uint64_t *ids, *served; /* one block, ids first */
    uint8_t *substitute, *form;
    uint64_t *mark; /* with larder_form: as in larder__ticket */
    float *weights;
    size_t n;
    bool first, last;
} larder__kept;

enum { LARDER__PLAN_STATS = 6 };
typedef struct larder__loader_stats {
    larder__stat samples, batches, stall, fill, storage_reads, storage_bytes, storage_requests,
        read_time, decode_time, bad, healed, reports, refused, not_finite, shown, ess, evaluated,
        evaluation, scratch_read, scratch_written, scratch_time, hits, substitutes, misses, repeats,
        demand_bytes, decoded_gpu, gpu_share, gpu_time, gpu_engine, gpu_refused;
    larder__stat time[LARDER__TIMES];
    larder__stat fresh_loss, reused_loss, loss_gap;
    larder__stat figures[LARDER_FIGURES];
    larder__stat plan[LARDER__PLAN_STATS];
} larder__loader_stats;

typedef struct larder__curve { /* of one epoch, to be looked at */
    uint64_t epoch, reported;
    double loss_sum, accuracy; /* NAN: not validated */
    double low, high;          /* of the scores when it began; NAN: none */
    uint16_t bins[LARDER__JOB_BINS];
} larder__curve;

typedef struct larder__readers { /* threads that only read, for storage that answers late */
    pthread_t *threads;
    uint32_t started, most; /* of them */
    uint32_t idle, seated;
    bool called;        /* one was woken or started and has not looked yet */
    uint32_t under_way; /* reads, by any thread */
    double wall, cpu;   /* seconds of one joint read, smoothed */
    bool blocking;      /* a read is mostly waiting: leave it to them */
} larder__readers;

typedef struct larder__source_figure { /* what a probe needs to ask for one */
    larder__data *data;
    size_t i;
} larder__source_figure;

struct larder_loader {
    larder_loader_conf conf; /* texts are our copies */
    larder__cache_text cache;
    larder__data *data;
    struct larder__disk *below; /* where values lie that a shared cache lacks; NULL: nowhere */
    bool own;                   /* its samples are the program's own (source/own.h) */
    larder_own_maker maker;     /* make NULL: rows are made by the pipeline */
    larder__cage *cage;         /* where samples are decoded; NULL: here */
    larder__freight *device;    /* where batches go as levels; NULL: they lie in memory */
    larder__pipeline *pipeline; /* NULL: samples have no picture */
    larder__columns *columns;   /* NULL: a picture and a label */
    larder__targets *targets;   /* labels that lie beside the data; NULL: none */
    larder__parts *parts;       /* NULL: samples are read whole */
    larder__draw *draw;
    larder__ledger *ledger;
    larder__stats *stats;
    larder__loader_stats stat;
    larder__source_figure source_figures[LARDER_FIGURES];
    size_t row_bytes;                     /* of x */
    double decoded_ratio;                 /* what a decoded sample reserves, as in larder__forms; */
    uint32_t decoded_bytes;               /* 0: no cache of ours holds any */
    _Atomic uint64_t probes, probe_bytes; /* read though nobody asked, not in the ledger yet */
    _Atomic uint64_t probe_requests;
    bool plans;               /* plan=auto: what stages take is measured row by row */
    larder__shrinking shrink; /* shrink=, once open with its side */
    _Atomic bool healed_told; /* that the cache held something that was no good */
    _Atomic uint32_t probed;  /* rows prepared once more, from pixels, to know what that takes */
    bool spread;              /* what is fetched besides is shared between threads as rows are */
    larder__packages *crates; /* NULL: packages are not laid down */
    larder__pace pace;
    double handed_out; /* when the last batch was; 0: never */
    double ready_at;   /* when the wait for it was over */
    size_t handed_rows;
    larder__stall stall;
    larder__seat *seats; /* of the threads, of the device's, of the readers */
    uint32_t seated;     /* threads that sit */
    uint32_t idle;       /* threads with nothing to do */

    pthread_mutex_t lock;
    pthread_cond_t work, ready, unread;
    larder__place *ring;
    larder__pool *pool;
    larder__pixel_block **x; /* memory for the pixels of `prefetch` batches */
    uint64_t *x_of;          /* the batch each belongs to; UINT64_MAX: none */
    size_t x_warm;           /* of which one was free last: it may still be in a cache */
    double waiting;          /* since when somebody waits who looks up now and then; 0: nobody */
    _Atomic uint64_t by_id;  /* requests for samples by id so far */
    size_t piece;            /* rows that are read and prepared together */
    larder__readers readers;
    larder__kept *kept;      /* restored batches not yet in the ring, oldest first */
    uint64_t planned, taken; /* batches put into the ring; handed to the user */
    uint64_t epoch_length;   /* ids of the epoch of the batch taken last */
    int64_t audit;           /* verdict on the last finished epoch, and its sentence */
    char audit_says[256];
    bool planning; /* somebody draws, saves or restores: `draw` is theirs */
    bool stop, cancelled, epoch_over, restored;
    uint64_t divided_epoch, divided_taken; /* of this epoch so many ids were gone when the ranks
                                              changed; 0: they did not */
    bool page_due;                         /* the ledger begins a page with the next batch, */
    uint64_t page_epoch, page_gone;        /* so many ids of all ranks into this epoch */
    bool torn;     /* deciding stopped half-way: there is no state to save */
    int failed;    /* a code that ends the run; its sentence is below */
    char why[512]; /* why it failed */
    pid_t owner;   /* threads do not follow into a forked child */
    pthread_t *threads;
    uint32_t running, ended;      /* threads; and of them and the readers, those that have */
    larder__scratch *own_scratch; /* of next(), for replacements */

    larder__evaluation evaluation;
    larder__exposed exposed;
    bool hidden;                       /* part of a job: nothing is said about it */
    bool odd_told;                     /* that something reported is no number */
    bool held_told;                    /* that reuse is bounded by more than storage */
    bool unheard_told;                 /* that the recipe makes nothing of what is reported */
    uint64_t epochs_over;              /* taken to their end here */
    uint64_t shown_epoch, shown_batch; /* of the batch handed out last; batches of it so far */
    larder__curve curves[LARDER__JOB_EPOCHS]; /* epoch e is at e % LARDER__JOB_EPOCHS */

    larder__tape_writer *tape;      /* NULL: nothing is recorded */
    float *tape_loss;               /* of one batch */
    double tape_measured;           /* the last turn on it; 0 before any */
    double opened, waited, stepped; /* when; for the batch handed out; by the step before it */
    double starved;                 /* of `waited`: for storage */

    larder_bad *bad; /* the newest ones are dropped past a limit; `bad_total` goes on */
    size_t bad_count, bad_cap, bad_total;
};

enum { LARDER__BAD_LISTED = 4096, LARDER__RECIPE_CHARS = 255 };

/* loader.c: every call from outside begins with it. 0 and the lock is held, or negative: no loader,
 * or one that another process opened. */
int larder__loader_enter(larder_loader *);
/* With the lock held: the run ends with the sentence this thread has. Returns `code`. */
int larder__loader_fail(larder_loader *, int code);

/* Working memory that decodes where this loader does. */
int larder__loader_scratch(larder_loader *, larder__scratch **out);

/* What the cache is charged for a sample of this loader, whole. */
uint32_t larder__entry_bytes(void *loader, uint64_t id);

/* measures.c: registers figures, those of the recipe once it is open; and brings them up to date
 * with a batch that goes out, `before` being the ledger's figures before it. */
int larder__measures_open(larder_loader *);
int larder__measures_figures(larder_loader *);
void larder__measures_handed(larder_loader *, const larder__place *, const larder_figures *before);
/* Losses of an epoch's samples were reported: of recipes that compare fresh and reused ones. */
void larder__measures_told(larder_loader *, uint64_t epoch);

/* place.c: all of a place but x; its plan is decided, so its rows may be taken (with the lock
 * held); with the lock held, the place of a batch the user holds, or NULL with a sentence: it is
 * not held.
 */
int larder__place_open(larder_loader *, larder__place *);
void larder__place_close(larder__place *);
void larder__place_begin(larder_loader *, larder__place *);
/* The memory that its rows go into. */
void larder__place_lend(larder_loader *, larder__place *, larder__pixel_block *);
larder__place *larder__place_held(larder_loader *, const larder_batch *);

/* turn.c, with the lock held: a batch that was handed out or is not wanted leaves the ring. */
int larder__place_leave(larder_loader *, larder__place *);

/* The same, given up meanwhile: where ranks decide together, all of them come to the same place. */
int larder__ranks_settle(larder_loader *);

/* evaluate.c, with the lock held: is it time, that is, has the last epoch been taken whole? Does
 * it, giving up the lock meanwhile. */
bool larder__evaluation_due(const larder_loader *);
/* Is it the user's function, or what that calls, that asks? It may look at what is decided, and
 * nobody decides meanwhile; who waited for that would wait for themselves. */
bool larder__evaluator_asks(const larder_loader *);
/* Does somebody else draw, save or restore? Then wait on `ready`. */
bool larder__decided_elsewhere(const larder_loader *);
int larder__evaluation_run(larder_loader *);
void larder__evaluation_close(larder__evaluation *);

/* drawing.c, with the lock held: is there room for another batch, and is one to come? Decides it,
 * giving up the lock meanwhile. */
bool larder__drawing_due(const larder_loader *);
void larder__drawing_do(larder_loader *);

/* worker.c: a thread's life. */
void *larder__worker_run(void *loader);
/* A worker's last word, or a reader's, with the lock held. Where the run is over, the last of them
 * lets go of what nobody reads any more. */
void larder__thread_ends(larder_loader *);
/* Gives up everything that is planned and not filled; only without running threads. */
void larder__worker_abandon(larder_loader *);
/* With the lock held. Which batch has rows that nobody reads yet, the oldest first; NULL: none, or
 * enough reads are under way. `take` reads some of them, giving up the lock; n is 0 where nothing
 * is left to prepare, else the piece is prepared now or kept for later. */
larder__place *larder__unread_find(larder_loader *);
void larder__unread_take(larder_loader *, larder__place *, size_t *from, size_t *n);
void larder__unread_keep(larder_loader *, larder__place *, size_t from, size_t n);
/* With the lock held, which is given up meanwhile: prepares some rows of a place, or reads and
 * prepares some. False: others are at all that are left. */
bool larder__place_work(larder_loader *, larder__scratch *, larder__place *);

/* With the lock held, which is given up meanwhile: n rows of a place are there, or all that the
 * device does. Whoever brings the last ones finishes the batch. */
void larder__place_prepared(larder_loader *, larder__scratch *, larder__place *, size_t n);

/* rows_read.c, rows_prepare.c: up to LARDER__ROWS_AT_ONCE rows of a place whose tickets are open:
 * first the bytes, then what becomes of them. */
enum { LARDER__ROWS_AT_ONCE = 64 };
void larder__rows_read(larder_loader *, larder__place *, size_t from, size_t n);
void larder__rows_prepare(larder_loader *, larder__scratch *, larder__place *, size_t from,
                          size_t n);
/* The bytes of one row that was read, and not prepared, in the form they are held in. */
/* What batch stages make of a batch whose rows are there. */
int larder__mixing_do(larder_loader *, larder__place *);
int larder__row_bytes(larder_loader *, larder__place *, size_t row, larder_buf **out,
                      uint8_t *held);
/* One sample from storage, past the cache. */
int larder__row_alone(larder_loader *, larder__place *, uint64_t id, larder_buf **out);
/* After LARDER__TAKE_OVER: reads it, and hands it on where others want it still. */
int larder__row_take_over(larder_loader *, larder__place *, larder__ticket *, larder_buf **out);
/* What has just been read for place p on this thread, which had made `before` requests by then:
 * into the statistics. p NULL: nobody's, it counts with the next batch. */
void larder__joint_note(larder_loader *, larder__place *p, uint64_t before, uint64_t samples,
                        uint64_t bytes);
/* Puts in front of the sentence of a failure which sample it is about; answers with its code. */
int larder__row_blame(larder_loader *, uint64_t id, int rc);
/* One sample's bytes, in this form, into row `row` of a place. */
int larder__row_decode(larder_loader *, larder__scratch *, larder__place *, size_t row, uint64_t id,
                       larder_buf *bytes, larder_form, uint64_t seed);
/* One sample's bytes, in this form, as the pixels of a row. */
int larder__pixels_make(larder_loader *, larder__scratch *, larder_buf *bytes, larder_form,
                        uint64_t seed, void *out);
/* One row of these bytes, which are as its ticket says; what goes wrong is noted as its fault. */
void larder__row_finish(larder_loader *, larder__scratch *, larder__place *, size_t row,
                        larder_buf *bytes);
/* The chance of a view: the first has the row's own. */
uint64_t larder__view_seed(uint64_t seed, size_t view);
/* What chance a row of this place has; as which form it is booked. */
uint64_t larder__row_chance(const larder_loader *, const larder__place *, size_t row);
uint8_t larder__row_form(const larder_loader *, const larder__ticket *);

/* made.c: with functions of the program's own. The first sample, to see what becomes of samples;
 * one row; rows of a place that were read; all of a batch, where it is made as a whole: negative
 * ends the run. */
int larder__made_first(larder_loader *, larder__scratch *, uint64_t id, larder_buf *bytes,
                       larder_buf **out);
int larder__made_row(larder_loader *, larder__scratch *, larder__place *, size_t row, uint64_t id,
                     larder_buf *bytes, larder_form, uint64_t seed, int32_t label);
void larder__rows_made(larder_loader *, larder__scratch *, larder__place *, size_t from, size_t n);
int larder__batch_join(larder_loader *, larder__place *);
/* Bytes of a row of x as the pipeline writes them; 0: what becomes of samples are columns. */
static inline size_t larder__x_bytes(const larder_loader *l) {
    return l->maker.make ? 0 : l->row_bytes;
}

/* fields.c: the columns that conf asks for, settled by a sample that is read for it; their half of
 * a row, of a sample as it was read. */
int larder__fields_parse(larder_loader *, larder__columns **out);
int larder__fields_open(larder_loader *);
int larder__fields_settle(larder_loader *); /* once there are stages */
int larder__fields_fill(larder_loader *, larder__scratch *, larder__place *, size_t row,
                        uint64_t id, larder_buf *bytes, uint64_t seed, int32_t label);
void larder__fields_close(larder_loader *);
larder_shape larder__loader_shape(const larder_loader *); /* of x; 0 x 0: there is none */
/* The chance of one row, the same in any process with the same global batch. */
uint64_t larder__row_seed(const larder_loader *, const larder__planned *, size_t row);

/* package.c: entries that a batch brings in besides, from row `from` on. */
void larder__package_fill(larder_loader *, larder__place *, size_t from, size_t n);

/* shrunk.c: what shrink= comes to for this data set and these stages; and of one sample as a shrunk
 * entry: one reference or NULL, where it stays as it is; its bytes, past the cache. */
int larder__shrink_open(larder_loader *, larder__draw_conf *);
int larder__shrink_make(larder_loader *, larder__scratch *, larder_buf *read, larder_buf **out);

/* reserve.c: what a decoded sample of this data set reserves in the cache, from a few samples
 * spread over it that are read for this. */
int larder__reserve_learn(larder_loader *, double *ratio, uint32_t *bytes);

/* reader.c. With the lock held: does storage keep whoever reads waiting, so that readers should do
 * it? Wakes or starts one of them. */
bool larder__readers_wanted(const larder_loader *);
void larder__readers_call(larder_loader *);
/* Without the lock: a joint read for this place is over (NULL: it came from a cache elsewhere);
 * seconds it took, and those of them on a processor. */
void larder__readers_note(larder_loader *, larder__place *, double wall, double cpu);

/* bad.c: on_bad=replace for a batch whose rows are all done, without the lock; then on_bad for a
 * filled batch, before it is handed out. */
void larder__bad_replace(larder_loader *, larder__scratch *, larder__place *);
int larder__bad_settle(larder_loader *, larder__place *);

/* shown.c: what a look from outside sees, and what is noted for it, with the lock held. */
void larder__shown_look(void *loader, larder__job *out);
void larder__shown_begin(larder_loader *); /* at open */
larder__curve *larder__shown_curve(larder_loader *, uint64_t epoch);
/* Without the lock, by whoever draws: how the scores lie as an epoch begins. */
void larder__shown_scores(const larder__draw *, uint64_t n, larder__curve *out);

/* recording.c, for all but open with the lock held: what goes onto the job's tape, if there is one.
 */
/* replaying.c: a folder, a record or a file of an earlier run is followed from the start. */
int larder__replaying_open(larder_loader *, const char *path);

int larder__recording_open(larder_loader *, const larder_loader_conf *given);
void larder__recording_close(larder_loader *);
void larder__recording_batch(larder_loader *, const larder__place *);
/* `whole`: of all rows of the batch, in their order. */
void larder__recording_losses(larder_loader *, uint64_t number, const uint64_t *served,
                              const int64_t *labels, size_t n, const larder_feedback *, bool whole);

/* resume.c */
void larder__kept_free(larder__kept *); /* and all that follow it */

#endif
