/* The half of a loader that decides: which ids come next, what the cache says to them, and when
 * feedback takes effect. Nothing here reads a byte or knows a thread, so the simulator runs the
 * very same code, and an order never depends on how fast something was.
 *
 * Batches are drawn one after the other. The feedback of batch k is observed exactly before batch
 * k + lag is drawn. One caller at a time. */
#ifndef LARDER_LOADER_DRAW_DRAW_H
#define LARDER_LOADER_DRAW_DRAW_H

#include "base/gap.h"
#include "base/stat.h"
#include "cache/local.h"
#include "loader/draw/picture_parts.h"
#include "loader/draw/ranks.h"
#include "loader/draw/recipe.h"
#include "loader/feedback/feedback.h"
#include "loader/feedback/scoring.h"
#include "plan/replan.h"
#include "shared/cache_text.h"

typedef struct larder__draw larder__draw;

typedef struct larder__draw_conf {
    const char *name; /* of the data set, for people; NULL: none. Borrowed for open, as */
    const char *recipe;
    const larder__cache_text *cache; /* are these two */
    const larder__store *store;
    uint64_t n, payload;  /* samples and their bytes in all */
    uint64_t fingerprint; /* of the data set: by this ranks of a job find each other */
    uint64_t identity;    /* of its bytes: by this they are kept where others find them */
    uint32_t size;        /* of each sample; 0: ask size_of */
    uint32_t (*size_of)(void *arg, uint64_t id);
    /* As larder__attach_conf.prove. */
    int (*prove)(void *arg, const uint64_t *ids, uint32_t n, uint64_t nonce, uint64_t *out);
    void *size_arg;
    /* What entries of other forms come to, as in larder__forms. */
    double decoded_ratio;
    uint32_t decoded_bytes, row_bytes;
    uint32_t cores;        /* that prepare samples, for plan=auto */
    uint64_t pipeline;     /* hash of what pixels and rows depend on */
    larder__shrink shrink; /* with shrink=: to what, the side known */
    /* Bytes of a sample as a shrunk entry, found out by reading it; 0: not to be had. NULL: nobody
     * reads samples here. */
    uint32_t (*shrunk_size)(void *arg, uint64_t id);
    /* What size_of says is a guess: entries are settled as shrunk ones are, which they count as. */
    bool guessed;
    uint32_t (*group_of)(void *arg, uint64_t id); /* its class; NULL: not known */
    void *group_arg;
    /* As larder_draw_env.file_of; NULL: all lie in one. */
    int (*file_of)(void *arg, uint64_t id, uint64_t *file);
    void *file_arg;
    uint64_t batch, seed;
    uint64_t epochs; /* of the run, 0: open */
    bool beside;     /* signals that take long get a thread; else they are asked when due */
    uint32_t rank, world, lag;
    bool drop_last;
    larder__stats *stats; /* NULL: none */
    larder__parts *parts; /* NULL: samples are read whole; stays the caller's */
} larder__draw_conf;

typedef struct larder__planned { /* one batch as decided; arrays have room for a whole batch */
    uint64_t number, epoch;
    uint64_t length;       /* ids this rank serves in this epoch */
    uint64_t whole_length; /* and all that decide together */
    bool again;            /* its row is another rank's too */
    size_t at, step;       /* row i's place in the batch of all that decide together: at + i step */
    larder__decided *whole; /* that batch; NULL: this is it */
    size_t whole_n;
    size_t n;               /* rows */
    size_t fetched;         /* entries brought in besides: their tickets follow those of the rows */
    larder_package package; /* as which those come */
    uint64_t dropped[16];   /* packages that will not come again */
    size_t dropped_count;
    larder_split split;     /* plan=auto: of the cache, when it was decided */
    double plan_rate;       /* and what the model promised then; NAN: no plan yet */
    double plan_bottleneck; /* larder_resource; NAN likewise */
    size_t plan_changes;
    bool first, last;               /* of its epoch */
    larder_pace pace;               /* what was known of it then */
    double shown;                   /* the sampler's figure, if it has one */
    double held;                    /* what it would have to be for storage; NAN: it is */
    double measured;                /* by its last turn; NAN: it has none, or nobody remembers */
    double figures[LARDER_FIGURES]; /* the policy's, after this batch */
    uint64_t *ids;                  /* asked for */
    float *weights;
    larder_access *accesses;
    larder__ticket *tickets;
    larder_rect *holds; /* what the cache will hold of each; NULL: all of it */
} larder__planned;

void larder__planned_close(larder__planned *);
/* How many of the fetched entries storage has to give. */
uint64_t larder__planned_reads(const larder__planned *);
/* Requests to storage for all that is decided, where nobody makes them: one for a row that is a
 * miss, and one for each run of neighbours among what is fetched, where one may be left out. */
uint64_t larder__planned_requests(const larder__planned *);
/* What row or entry i reads, if it has to; and the bytes that storage gives for it, by decision:
 * 0 for what is a hit or a stand-in. `parts` as the draw has it. */
larder_rect larder__planned_rect(const larder__planned *, const larder__parts *, size_t i);
static inline size_t larder__planned_place(const larder__planned *p, size_t row) {
    return p->at + row * p->step;
}
uint32_t larder__planned_bytes(const larder__planned *, const larder__parts *, size_t i);

/* Batches that a loader draws ahead at most, where nobody says how many and nothing listens. */
enum { LARDER__AHEAD_MOST = 16 };

int larder__draw_open(larder__draw **out, const larder__draw_conf *);
/* A sentence that is no error, "" if there is none; the statistics, where there are any, have it
 * among their notes. */
const char *larder__draw_says(const larder__draw *);
/* Can a cache that `text` asked for hold none of n samples? Then the sentence that says so. */
bool larder__no_room_says(char *out, size_t cap, const larder__cache *, const larder__cache_text *,
                          uint64_t n, uint32_t (*size_of)(void *arg, uint64_t id), void *arg);
void larder__draw_close(larder__draw **);
int larder__planned_open(larder__planned *, const larder__draw *);
void larder__planned_note_plan(larder__planned *, const larder__draw *);
size_t larder__planned_room(const larder__draw *); /* rows and fetched entries, at most */

/* Decides the next batch. 0, negative, or LARDER__EVALUATE: nothing is decided, the sampler wants
 * losses first. Then larder__draw_evaluation gives the samples a batch at a time, the last one
 * empty, and larder__draw_evaluated takes their losses; then this is called again. */
enum { LARDER__EVALUATE = 1 };
int larder__draw_next(larder__draw *, larder__planned *out);
/* The next batch is this epoch's first, whatever is left of the one under way. */
void larder__draw_begin(larder__draw *, uint64_t epoch);
bool larder__draw_between(const larder__draw *);    /* no batch of its epoch has been drawn */
uint64_t larder__draw_number(const larder__draw *); /* of the batch that comes next */
uint64_t larder__draw_epoch(const larder__draw *);  /* it belongs to */
uint64_t larder__draw_length(const larder__draw *); /* of that epoch, in ids of all who share */
uint64_t larder__draw_drawn(const larder__draw *);  /* of these, so far */
uint64_t larder__draw_batch(const larder__draw *);  /* ids of one batch, likewise */
/* Ranks that decide together; NULL: this one decides for itself. */
const larder__ranks *larder__draw_ranks(const larder__draw *);
/* Which rows of such a batch are this rank's. */
larder__slice larder__draw_slice(const larder__draw *, uint64_t number, size_t rows);
uint64_t larder__draw_share(const larder__draw *, uint64_t ids); /* of an epoch of so many */
larder__cache *larder__draw_cache(larder__draw *);
const larder_sampler *larder__draw_sampler(const larder__draw *);
const larder_policy *larder__draw_policy(const larder__draw *);
const larder_figure *larder__draw_shows(const larder__draw *);  /* of the policy; NULL: none */
const larder_signal *larder__draw_signal(const larder__draw *); /* NULL: none */
bool larder__draw_by_class(const larder__draw *);       /* its order may follow from classes */
const float *larder__draw_scores(const larder__draw *); /* NULL without a signal */

/* Where packages are laid down, and how many bytes at most (0: no limit); NULL: nowhere. */
const char *larder__draw_scratch(const larder__draw *, uint64_t *limit);

const char *larder__draw_shown_name(const larder__draw *); /* NULL: the sampler shows nothing */
/* Has a signal or a sampler that watches: what training says of samples acts on what comes. */
bool larder__draw_listens(const larder__draw *);
bool larder__draw_relies(const larder__draw *); /* on a signal: another recipe without it */
/* Tells fresh samples from reused ones: what losses of this process's rows come to, for the ledger.
 * Each batch counts once, and only as long as its feedback could act. Any thread. */
bool larder__draw_compares(const larder__draw *);
void larder__draw_told(larder__draw *, const larder_report *, larder__losses *out);
uint64_t larder__draw_recent_bytes(const larder__draw *); /* memory for it */

bool larder__draw_takes_evaluator(larder__draw *); /* and it may be asked from now on */
int larder__draw_evaluation(larder__draw *, larder__planned *out);
/* Losses of rows of that batch, in its order; some may be missing. */
int larder__draw_evaluated(larder__draw *, const larder__planned *, const uint64_t *ids,
                           const float *loss, size_t n);

/* Where feedback is noted until its batch is due; NULL when nothing in the recipe listens. */
larder__feedback *larder__draw_feedback(larder__draw *);
/* Rows of a batch that feedback may still be about, of all who decide together; SIZE_MAX: not
 * known. Those that a rank took once more are not among them. Any thread. */
size_t larder__draw_rows(const larder__draw *, uint64_t number);
void larder__draw_note_rows(larder__draw *, uint64_t number, size_t rows);
/* Notes feedback about this process's rows of a batch; ranks that decide together tell each other.
 * Whoever has that of all ranks notes `all`. Only where the draw listens. */
int larder__draw_note(larder__draw *, uint64_t number, uint64_t epoch, size_t n,
                      const uint64_t *served, const int64_t *labels, const larder_feedback *,
                      bool all);
/* So that a state holds what was said about all ranks' rows. By whoever may draw. */
int larder__draw_join_all(larder__draw *);
/* A draw that waits for other ranks fails, now and later. Any thread. */
void larder__draw_interrupt(larder__draw *);
/* Feedback has been noted: what takes long can begin. From any thread. */
int larder__draw_reported(larder__draw *);
/* Rates measured so far; the sampler hears them before the next draw. */
void larder__draw_pace(larder__draw *, const larder_pace *);

/* plan=auto's changes so far; NULL: the split is fixed. */
const larder__replan *larder__draw_replan(const larder__draw *);

/* Shrunk entries that come with batch k are settled before batch k + `after` is decided, when they
 * have been made. Right after open. */
void larder__draw_settle_after(larder__draw *, uint32_t after);

/* Tells the policy the future: request number of the next use of each coming request (simulation).
 */
void larder__draw_set_future(larder__draw *, const uint32_t *next_use, uint64_t count);

/* What followed from the clock: when feedback took effect, of a run that scores beside training;
 * how plan=auto shared the cache out; what the sampler decided by measured rates. Written, read
 * back, or read to do the same again. Nothing of recipes without any of them. */
void larder__draw_effects(larder__draw *, larder_writer *);
int larder__draw_past(larder__draw *, larder_reader *);
int larder__draw_follow(larder__draw *, larder_reader *);
/* The sampler's part alone, as larder_sampler has it. */
size_t larder__draw_turns(const larder__draw *, const larder_turn **out);
int larder__draw_follow_turns(larder__draw *, const larder_turn *, size_t n);

void larder__draw_save(larder__draw *, larder_writer *);
int larder__draw_load(larder__draw *, larder_reader *);

/* A state of another rank, or of other batches, as far as it goes before the draw's own part. */
typedef struct larder__division {
    uint64_t batch, world;       /* of who saved it */
    bool kept;                   /* batches had been drawn and not taken: */
    uint64_t epoch, length;      /* of the first of them */
    uint64_t kept_ids;           /* of that epoch in them */
    uint64_t known_epoch, known; /* ids of this epoch that were taken before an earlier division */
} larder__division;
/* Goes on in the middle of an epoch with what is left of it: *taken ids of its global order are
 * gone (0: it begins). Of samplers with `divide`. */
int larder__draw_divide(larder__draw *, larder_reader *, const larder__division *, uint64_t *taken);

#endif
