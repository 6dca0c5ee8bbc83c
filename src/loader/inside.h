/* What the files of the loader share: the struct, its ring of batches, and the steps between them.
 * Nobody outside src/loader includes this. */
#ifndef LARDER_LOADER_INSIDE_H
#define LARDER_LOADER_INSIDE_H

#include "loader/draw.h"
#include "loader/ledger.h"
#include "loader/pace.h"
#include "source/source.h"
#include "stage/pipeline.h"

#include <pthread.h>
#include <sys/types.h>

/* A batch on its way. FREE -> (planned) WORKING -> READY -> LENT -> FREE; batch k lives in place
 * k % prefetch of the ring, so batches leave in the order in which they were drawn. */
typedef enum { LARDER__FREE, LARDER__WORKING, LARDER__FILLED, LARDER__LENT } larder__phase;

typedef struct larder__row_fault { /* why a row could not be filled; code 0: it could */
    int code;
    char why[256];
} larder__row_fault;

typedef struct larder__place {
    larder__phase phase;
    bool reported;
    larder__planned plan;
    size_t rows;                /* to work on: those of the batch, then fetched entries */
    size_t next_row, rows_left; /* not handed to a thread yet; not finished yet */
    larder_batch batch;         /* what the user sees; points at the arrays below */
    unsigned char *x;
    int64_t *y;
    uint64_t *served;
    uint8_t *kind;
    uint32_t *read_bytes; /* storage bytes each row cost */
    larder__row_fault *faults;
} larder__place;

typedef struct larder__evaluation { /* of losses between epochs */
    larder_evaluate_fn fn;          /* NULL: the user gave none */
    void *arg;
    larder__place place; /* only where the recipe asks for it */
    float *loss;
    bool due;              /* drawing waits for it */
    uint64_t reads, bytes; /* from storage, not in the ledger yet */
} larder__evaluation;

typedef struct larder__kept { /* a batch that was drawn before a save and not yet taken */
    struct larder__kept *next;
    uint64_t number, epoch, length;
    uint64_t *ids, *served; /* one block, ids first */
    uint8_t *substitute;
    float *weights;
    size_t n;
    bool first, last;
} larder__kept;

typedef struct larder__loader_stats {
    larder__stat samples, batches, stall, storage_reads, storage_bytes, read_time, decode_time, bad,
        reports, refused, shown;
} larder__loader_stats;

struct larder_loader {
    larder_loader_conf conf; /* texts are our copies */
    larder__data *data;
    larder__pipeline *pipeline;
    larder__parts *parts; /* NULL: samples are read whole */
    larder__draw *draw;
    larder__ledger *ledger;
    larder__stats *stats;
    larder__loader_stats stat;
    size_t row_bytes; /* of x */
    larder__pace pace;
    double handed_out; /* when the last batch was; 0: never */
    size_t handed_rows;

    pthread_mutex_t lock;
    pthread_cond_t work, ready;
    larder__place *ring;
    larder__kept *kept;      /* restored batches not yet in the ring, oldest first */
    uint64_t planned, taken; /* batches put into the ring; handed to the user */
    uint64_t epoch_length;   /* ids of the epoch of the batch taken last */
    int64_t audit;           /* verdict on the last finished epoch, and its sentence */
    char audit_says[256];
    bool planning; /* somebody draws, saves or restores: `draw` is theirs */
    bool stop, cancelled, epoch_over, restored;
    bool torn;     /* deciding stopped half-way: there is no state to save */
    int failed;    /* a code that ends the run; its sentence is below */
    char why[512]; /* why it failed */
    pid_t owner;   /* threads do not follow into a forked child */
    pthread_t *threads;
    uint32_t running;
    larder__scratch *own_scratch; /* of next(), for replacements */

    larder__evaluation evaluation;

    larder_bad *bad; /* the newest ones are dropped past a limit; `bad_total` goes on */
    size_t bad_count, bad_cap, bad_total;
};

enum { LARDER__BAD_LISTED = 4096, LARDER__RECIPE_CHARS = 255 };

/* loader.c: every call from outside begins with it. 0 and the lock is held, or negative: no loader,
 * or one that another process opened. */
int larder__loader_enter(larder_loader *);
/* With the lock held: the run ends with the sentence this thread has. Returns `code`. */
int larder__loader_fail(larder_loader *, int code);

/* What the cache is charged for a sample of this loader, whole. */
uint32_t larder__entry_bytes(void *loader, uint64_t id);

/* With the lock held: the place of a batch the user holds; NULL with a sentence: it is not held. */
larder__place *larder__place_held(larder_loader *, const larder_batch *);

int larder__place_open(larder_loader *, larder__place *);
void larder__place_close(larder__place *);

/* evaluate.c, with the lock held: is it time, that is, has the last epoch been taken whole? Does
 * it, giving up the lock meanwhile. */
bool larder__evaluation_due(const larder_loader *);
int larder__evaluation_run(larder_loader *);
void larder__evaluation_close(larder__evaluation *);

/* worker.c: a thread's life; opens batches, fills rows. */
void *larder__worker_run(void *loader);
/* Gives up everything that is planned and not filled; only without running threads. */
void larder__worker_abandon(larder_loader *);
/* The chance of one row, the same in any process with the same global batch. */
uint64_t larder__row_seed(const larder_loader *, uint64_t batch, size_t row);
/* Reads and decodes up to LARDER__ROWS_AT_ONCE rows of a place whose tickets are open. */
void larder__rows_fill(larder_loader *, larder__scratch *, larder__place *, size_t from, size_t n);
enum { LARDER__ROWS_AT_ONCE = 64 };
/* Decodes one sample's bytes into row `row` of a place. */
int larder__row_decode(larder_loader *, larder__scratch *, larder__place *, size_t row, uint64_t id,
                       larder_buf *bytes, uint64_t seed);

/* bad.c: on_bad for a filled batch, before it is handed out. */
int larder__bad_settle(larder_loader *, larder__place *);

/* resume.c */
void larder__kept_free(larder__kept *); /* and all that follow it */

#endif
