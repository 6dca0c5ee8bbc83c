/* What a plug-in of larder is: one const struct with a name, its parameters and a few functions.
 *
 * The framework allocates and zeroes `state_size` bytes for it, calls init, and owns all locks.
 * Plug-ins take no locks, allocate only in init, keep indices instead of pointers in per-slot and
 * per-key data, and get chance and time as arguments, so every run repeats from its seed and its
 * state can be saved. Optional operations are NULL. A new plug-in of larder itself is one file and
 * one line in src/plugins.def; one from outside calls larder_register (below), as examples/plugin
 * does.
 */
#ifndef LARDER_PLUGIN_H
#define LARDER_PLUGIN_H

#include <larder/larder.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- names and parameters -------------------------------------------------------------------- */

typedef struct larder_param {
    const char *name; /* "factor" */
    const char *type; /* "int", "float", "bool", "size", "time", "text" or "a|b|c" for a choice */
    const char *initial; /* its value when not given, as text */
    const char *help;    /* one line, lower case, no full stop */
    double min, max;     /* for int and float; 0,0: unbounded */
} larder_param;

typedef struct larder_plugin {
    const char *name;
    const char *summary;        /* one line for help and docs */
    const larder_param *params; /* ends with a NULL name; NULL: none */
    size_t state_size;
} larder_plugin;

/* The arguments of one plug-in, checked against its params before init sees them. */
typedef struct larder_args larder_args;
double larder_args_number(const larder_args *,
                          const char *name); /* int, float, bool, size, time (s) */
const char *larder_args_text(const larder_args *, const char *name);

/* Sets the sentence of larder_errmsg() and is worth `code`: return larder_fail(LARDER_E_ARGS, …) */
__attribute__((format(printf, 2, 3))) int larder_fail(int code, const char *format, ...);

/* ---- chance ---------------------------------------------------------------------------------- */

typedef struct larder_rng { /* xoshiro256**, seeded through splitmix64 */
    uint64_t s[4];
} larder_rng;

void larder_rng_seed(larder_rng *, uint64_t seed, uint64_t stream);

static inline uint64_t larder_rng_next(larder_rng *r) {
    uint64_t m = r->s[1] * 5, out = ((m << 7) | (m >> 57)) * 9, t = r->s[1] << 17;
    r->s[2] ^= r->s[0];
    r->s[3] ^= r->s[1];
    r->s[1] ^= r->s[2];
    r->s[0] ^= r->s[3];
    r->s[2] ^= t;
    r->s[3] = (r->s[3] << 45) | (r->s[3] >> 19);
    return out;
}

/* Uniform in 0..n-1, n >= 1 and below 2^32; the bias is under n/2^64. */
static inline uint32_t larder_rng_below(larder_rng *r, uint32_t n) {
    uint64_t x = larder_rng_next(r), hi = (x >> 32) * n, lo = (x & 0xffffffffu) * n;
    return (uint32_t)((hi + (lo >> 32)) >> 32);
}

/* Uniform in [0, 1). */
static inline double larder_rng_unit(larder_rng *r) {
    return (double)(larder_rng_next(r) >> 11) * (1.0 / 9007199254740992.0);
}

/* ---- saving and loading: little-endian, bounded, sticky errors ------------------------------- */

typedef struct larder_writer larder_writer;
typedef struct larder_reader larder_reader;
void larder_write_u32(larder_writer *, uint32_t);
void larder_write_u64(larder_writer *, uint64_t);
void larder_write_f64(larder_writer *, double);
void larder_write_bytes(larder_writer *, const void *, size_t);
uint32_t larder_read_u32(larder_reader *); /* 0 once anything failed */
uint64_t larder_read_u64(larder_reader *);
double larder_read_f64(larder_reader *);
/* A u32 that must lie below `limit` (UINT32_MAX passes too when `none` is allowed). */
uint32_t larder_read_index(larder_reader *, uint64_t limit, bool none);
void larder_read_bytes(larder_reader *, void *, size_t); /* zeros once anything failed */
/* Marks the state as malformed with a sentence; returns LARDER_E_FORMAT. */
int larder_read_reject(larder_reader *, const char *why);
int larder_read_status(const larder_reader *); /* 0 or LARDER_E_FORMAT */

/* ---- figures: what a plug-in shows beside its work ------------------------------------------- */

typedef struct larder_figure {
    const char *name, *unit, *help; /* "ratio", "", "share of the budget for important samples" */
} larder_figure;
enum { LARDER_FIGURES = 16 }; /* of one plug-in at most; a list ends with a NULL name */

/* ---- policies: who stays in a cache ---------------------------------------------------------- */

typedef uint32_t larder_slot;
#define LARDER_NO_SLOT UINT32_MAX
#define LARDER_UNKNOWN UINT64_MAX /* next_use: never again, or not known */
#define LARDER_NO_GROUP UINT32_MAX

typedef struct larder_access { /* one request for one entry */
    uint64_t key;              /* sample or row id, dense from 0 */
    uint64_t now;              /* request number, counts up */
    uint64_t next_use;         /* request number of the next use if known, else LARDER_UNKNOWN */
    uint32_t size;             /* bytes wanted */
    uint32_t cost_us;          /* time to make it again; 0: not known */
    uint32_t job;              /* who asks */
    uint32_t tag;              /* the sampler's word to the policy, as in larder_pick */
    uint32_t group;            /* only alike ones may replace each other: the class, if asked for */
    float score;               /* usefulness last reported, or NAN */
    larder_rng *rng;           /* the only source of chance */
} larder_access;

/* The cache's own table, readable by its policy. A slot holds one resident entry; slots are given
 * out lowest first, so slot < used always, and per-slot arrays of `used` elements are enough. */
typedef struct larder_slots {
    uint64_t keys;              /* keys are 0..keys-1 */
    uint32_t used;              /* slots ever in use at once */
    uint32_t resident;          /* entries now */
    uint64_t bytes, budget;     /* sum of sizes of residents, and its limit, which may change */
    uint64_t epochs;            /* of the whole run, 0: not known */
    const uint32_t *key_of;     /* slot -> key, UINT32_MAX: empty */
    const uint32_t *size_of;    /* slot -> bytes */
    const larder_slot *slot_of; /* key -> slot or LARDER_NO_SLOT */
    const uint8_t *form_of;     /* slot -> larder_form */
    uint64_t form_bytes[LARDER_FORMS], form_budget[LARDER_FORMS]; /* of bytes and budget */
    /* The policy's own, zeroed once: keys x slot_size and keys x key_size bytes, each one block
     * that it divides as it likes, say the links of all slots and then a byte of each. */
    void *slot_data, *key_data;
} larder_slots;

typedef struct larder_package { /* entries that are fetched together */
    uint64_t number;            /* counts from 1; 0: not one that comes again */
    uint64_t bytes;             /* of all that was in it when it was made */
    bool again;                 /* it has come before */
} larder_package;
typedef struct larder_switch { /* a policy of several minds has changed it */
    uint64_t round;            /* batches it had seen */
    const char *to;            /* the way it decides from here on */
    double was, other;         /* what it compared: hits the old way, hits expected of the new */
} larder_switch;

/* What a policy does beyond deciding who stays comes in groups, each NULL where it does nothing of
 * the sort; and within a group an operation may be NULL unless it says otherwise. */

typedef struct larder_policy_hears { /* what training and the order of samples tell it */
    bool needs_scores;               /* without scores it is another policy under its name */
    /* The signal it needs with these parameters; taken where a recipe has none. NULL: it does
     * without. */
    const char *(*signal)(const larder_args *);
    void (*accuracy)(void *st, double accuracy); /* validation, when it takes effect */
    void (*score)(void *st, larder_slot, float); /* feedback on a resident */
    /* The three that follow only beside `score`. Feedback on one that is not resident. */
    void (*ghost)(void *st, uint64_t key, float score);
    /* Whoever made an entry gives it back, with a fresh score: let it in now? A policy with this
     * keeps out at first what is asked for with LARDER_TAG_HELD, since it will be offered. */
    bool (*offer)(void *st, const larder_access *);
    /* Does it make use of scores and offers now? NULL: yes. */
    bool (*listens)(const void *st);
    /* What larder_sampler.tags says, before `epoch` and after `load`; lent until it comes again. */
    void (*list)(void *st, const uint8_t *tags);
    void (*epoch)(void *st, uint64_t epoch);
    /* As `signal`, but it decides as well where nothing is ever reported: nobody is asked to. */
    const char *(*likes)(const larder_args *);
    /* Do scores mean what they say, rather than which is higher? Then those of several jobs come as
     * each said them, and NAN where one said that it cannot know; else as ranks among a job's own.
     */
    bool (*as_said)(const larder_args *);
} larder_policy_hears;

typedef struct larder_policy_brings { /* entries that nobody has asked for */
    bool reads_all;                   /* what it fetches is read even where it does not fit */
    /* Entries to bring in now; at most `max`, none of them resident. They enter as accesses with
     * the tag LARDER_TAG_FETCH. Never NULL. */
    size_t (*fetch)(void *st, uint64_t *keys, size_t max);
    /* Once what it fetched last has entered or not: as which package. Only of policies with a
     * parameter `scratch`, the folder where the loader lays packages down. */
    larder_package (*package)(void *st);
    /* Numbers of packages that will not come again, each told once; at most `max`. */
    size_t (*dropped)(void *st, uint64_t *numbers, size_t max);
} larder_policy_brings;

typedef struct larder_policy_lends { /* residents in place of what is asked for */
    bool by_group;                   /* wants larder_access.group, to lend within one alone */
    bool (*stand_in)(void *st, const larder_access *, uint64_t *other); /* a resident to serve */
    /* From now on `key` may stand in for these, none of them itself. False: not wanted, name
     * another. */
    bool (*relate)(void *st, uint64_t key, const uint64_t *ids, size_t n);
    bool (*pick)(void *st, larder_rng *, uint64_t *key); /* a resident to serve once more */
} larder_policy_lends;

typedef struct larder_policy_shares { /* a cache of several jobs, or in several forms */
    /* The forms a missing entry may enter in, as bits 1 << larder_form; NULL: any. */
    uint32_t (*forms)(void *st, const larder_access *);
    /* May this resident be served to who asks? NULL: yes; if not, it is made anew for them alone,
     * after `admit` has heard of it. */
    bool (*serves)(void *st, larder_slot, const larder_access *);
    /* Has everybody used this augmented entry, who was just served with it? Then it leaves; NULL:
     * yes, and nobody but one job may use the cache. */
    bool (*spent)(void *st, larder_slot);
    /* What a job is served of what it wants: those it may have as they are, residents it has not
     * had in this epoch instead of those that are missing, then the missing ones. As many as
     * wanted, none twice. They are asked for right after. */
    void (*exchange)(void *st, uint32_t job, larder_rng *, const uint64_t *wanted, size_t n,
                     uint64_t *served);
} larder_policy_shares;

typedef struct larder_policy_shows { /* what people are shown of it */
    const larder_figure *figures;    /* NULL: none; figure() gives the value of the i-th */
    double (*figure)(const void *st, size_t i);
    /* Its i-th change of mind, oldest first; false: there is none, or it is forgotten. */
    bool (*switched)(const void *st, uint64_t i, larder_switch *out);
} larder_policy_shows;

typedef enum larder_future { /* how far ahead a policy has to see, in larder_access.next_use */
                             LARDER_FUTURE_NONE,
                             LARDER_FUTURE_EPOCH, /* as far as a fixed order tells: one epoch */
                             LARDER_FUTURE_ALL    /* to the end: in simulations only */
} larder_future;

typedef struct larder_policy { /* decides; never sees bytes, locks, or what a key means */
    larder_plugin plugin;
    size_t slot_size, key_size; /* its own bytes per resident entry, and per key of the data set */
    larder_future future;
    bool holds_all; /* its budget is the whole data set, to compare with */
    int (*init)(void *st, const larder_slots *, const larder_args *); /* `slots` stays valid */
    void (*fini)(void *st);                                           /* optional */
    /* Optional: false keeps a missing entry out although there may be room. */
    bool (*admit)(void *st, const larder_access *);
    /* The slots hold it already: its key and size, counted among the residents. */
    void (*insert)(void *st, larder_slot, const larder_access *);
    /* Also of a resident that is asked for longer than it is. It grows then, if `victim` makes room
     * for it, or leaves. */
    void (*hit)(void *st, larder_slot, const larder_access *);
    /* Who leaves to make room, which it then does; LARDER_NO_SLOT: nobody, keep what is there. Not
     * called when empty. */
    larder_slot (*victim)(void *st, const larder_access *incoming);
    /* Of a victim, or of one that leaves unasked: served up, or too long to grow. The slots hold it
     * still. `evicted` is true in both. */
    void (*remove)(void *st, larder_slot, bool evicted);
    /* Optional: a resident has so many bytes now as the slots say, and had `was` until now. */
    void (*resized)(void *st, larder_slot, uint32_t was);
    void (*batch)(void *st); /* optional: a batch has been decided on */
    /* Both NULL when the slots and keys tell everything. At load, which follows init, the slots are
     * already there. */
    void (*save)(const void *st, larder_writer *);
    int (*load)(void *st, larder_reader *);
    const larder_policy_hears *hears;
    const larder_policy_brings *brings;
    const larder_policy_lends *lends;
    const larder_policy_shares *shares;
    const larder_policy_shows *shows;
} larder_policy;

/* Does a policy have this operation, or flag, of a group? */
#define LARDER_HAS(policy, group, what) ((policy)->group && (policy)->group->what)

/* ---- samplers: which ids come next ----------------------------------------------------------- */

typedef struct larder_pick { /* one id drawn */
    uint64_t id;
    float weight; /* 1/(N p), 1 for uniform draws */
    uint32_t tag; /* for the policy: what sort of request this is; 0 unless the two agreed */
} larder_pick;
#define LARDER_TAG_FETCH UINT32_MAX /* nobody asked: brought in by larder_policy_brings.fetch */
#define LARDER_TAG_HELD (UINT32_MAX - 8) /* who asks keeps it a while and offers it afterwards */

/* Tags of importance recipes: how much a sample matters in this epoch. */
enum {
    LARDER_TAG_LOW = 1,  /* of little importance: another such sample will do as well */
    LARDER_TAG_HIGH = 2, /* important: served as asked for */
    LARDER_TAG_LEFT = 3, /* of little importance and left out of this epoch; never on a pick */
    LARDER_TAG_RANK = 3, /* mask of the three above */
    LARDER_TAG_KEEP = 4  /* flag: keep it for good once it is there */
};

/* Tag of samplers that pass through all ids in sweeps: which sweep this request serves. The low
 * three bits stay 0, for tags of other sorts. */
static inline uint32_t larder_tag_sweep(uint64_t sweep) {
    return (uint32_t)(sweep % 0x0fffffffu + 1) << 3;
}

typedef struct larder_pace { /* measured while running, smoothed; 0: not known yet */
    double read_seconds;     /* storage's time for one sample that has to be read */
    double step_seconds;     /* training's time for one sample */
    double decode_seconds;  /* a processor's time to decode and augment one; with plan=auto alone */
    double augment_seconds; /* and to augment one that is decoded */
    double trained, waited; /* seconds since the start, not smoothed: in steps, and for batches */
} larder_pace;

typedef struct larder_turn { /* a decision by measured rates: from this batch on, counted over the
                                whole run, a figure has this value */
    uint64_t batch;
    double value;
} larder_turn;

typedef struct larder_stream { /* a place in a random order of all ids that is swept again and again
                                */
    uint64_t seed;             /* of the orders */
    uint64_t sweep, at;        /* sweeps done; ids passed in this one */
} larder_stream;

/* The mean loss of samples that were not served within the last epoch's worth of served samples,
 * beside that of those that were, of the same time; fading over about an epoch. As reported, so
 * before training on them, and as far as feedback has taken effect: in batch order, so that what is
 * decided by it repeats. */
typedef struct larder_memorised {
    double fresh, reused;           /* samples they rest on */
    double fresh_loss, reused_loss; /* NAN while there are none */
    double first_loss; /* mean of the first 64 or more: what training began with; NAN: none */
} larder_memorised;

typedef struct larder_draw_env { /* what a sampler may look at; stays valid */
    uint64_t n;                  /* samples of the data set */
    uint64_t seed;
    uint64_t batch; /* per rank */
    uint32_t rank, world;
    bool drop_last;
    const float *scores;       /* score of each id, NAN when unknown; NULL without a signal */
    const larder_slots *slots; /* the cache's table: who is resident now */
    bool (*resident)(const void *arg, uint64_t id); /* is it in the cache now? */
    const void *resident_arg;
    /* A resident by the policy's own preference (larder_policy_lends.pick); false: it has none. */
    bool (*pick)(void *arg, larder_rng *, uint64_t *id);
    void *pick_arg;
    /* larder_policy_shares.exchange for a whole batch; without one, served is what was wanted. */
    void (*exchange)(void *arg, const uint64_t *wanted, size_t n, uint64_t *served);
    void *exchange_arg;
    /* Jobs that share a cache sweep in one order. Tells how far this one is, after a batch; and
     * before the first, with `join`: answers where the others are, false if there are none. NULL:
     * the cache is not shared. */
    bool (*stream)(void *arg, larder_stream *, bool join);
    void *stream_arg;
    /* The class of a sample, LARDER_NO_GROUP: it has none. NULL: classes are not known. */
    uint32_t (*class_of)(void *arg, uint64_t id);
    void *class_arg;
    /* Brought up to date before each draw, in samplers that watch; NULL in others. */
    const larder_memorised *memorised;
    /* What a sample takes in the cache; and in which file it lies, as larder_source.file has it, or
     * a negative code. NULL: nobody knows. */
    uint32_t (*size_of)(void *arg, uint64_t id);
    int (*file_of)(void *arg, uint64_t id, uint64_t *file);
    void *file_arg; /* of both */
} larder_draw_env;

typedef struct larder_sampler {
    larder_plugin plugin;
    bool fixed_order; /* the order depends on seed and epoch alone */
    bool repeats;     /* may serve an id more than once an epoch, or never */
    bool by_class;    /* its order may follow from larder_draw_env.class_of: records keep that */
    bool uneven;      /* some count more than others: the loader shows how much was served, "ess" */
    int (*init)(void *st, const larder_draw_env *, const larder_args *);
    void (*fini)(void *st);
    int (*epoch)(void *st, uint64_t epoch); /* begin this epoch */
    /* This rank's next ids, at most `want`; fewer only at the end of the epoch, 0 after it. Comes
     * filled with weight 1 and tag 0. */
    size_t (*draw)(void *st, larder_pick *out, size_t want);
    uint64_t (*length)(
        const void *st); /* ids this rank draws in this epoch; after init: the first */
    /* All that has to be known to go on. load follows init and, inside an epoch, epoch(the same
     * one); between two epochs it comes first. */
    void (*save)(const void *st, larder_writer *);
    int (*load)(void *st, larder_reader *);
    /* Optional from here on. */
    /* Instead of load, of an order that all ranks have in common: what `save` wrote on another
     * rank, or with other batches. Of the epoch that has begun, all ranks together had taken the
     * first `taken` ids; the ranks there are now share the rest. */
    int (*divide)(void *st, larder_reader *, uint64_t taken);
    /* Ids whose losses are to be evaluated before this epoch begins, lent; asked only where the
     * user gave an evaluator, maybe twice for an epoch. */
    size_t (*evaluate)(void *st, uint64_t epoch, const uint32_t **ids);
    const uint8_t *(*tags)(const void *st);      /* tag of each id in this epoch, lent; 0: none */
    void (*accuracy)(void *st, double accuracy); /* validation, when it takes effect */
    void (*pace)(void *st, const larder_pace *); /* before each draw of a real run */
    /* Samplers whose order depends on measured rates have these three. All decisions so far, oldest
     * first, lent until the next draw. What was decided before, by the run that saved a state;
     * comes before load. What to decide instead of measuring: the run then repeats to the bit. */
    size_t (*turns)(const void *st, const larder_turn **out);
    int (*past)(void *st, const larder_turn *, size_t n);
    int (*follow)(void *st, const larder_turn *, size_t n);
    const char *shown_name;          /* a figure to show: "h" */
    double (*shown)(const void *st); /* its value for the batch drawn last */
    /* Does it look at larder_draw_env.memorised with these parameters? Then losses are kept until
     * they take effect. Only of samplers that repeat. */
    bool (*watches)(const larder_args *);
    /* What the figure shown would have to be for storage to keep up, where something else keeps it
     * from that; NAN: nothing does. */
    double (*held)(const void *st);
    /* Both or none. Ids to bring into the cache besides the batch drawn last: asked for after it
     * with the tag LARDER_TAG_FETCH, and read together. At most brings_most, which follows from
     * init. The policy's own `fetch` is not asked then. */
    size_t (*brings)(void *st, uint64_t *ids);
    size_t (*brings_most)(const void *st);
} larder_sampler;

/* ---- signals: what training says about samples ----------------------------------------------- */

typedef struct larder_report { /* the feedback of one batch, ids are the served ones */
    uint64_t batch, epoch;
    size_t n, classes, dim;
    const uint64_t *ids;
    const int64_t *labels;
    const float *loss, *logits, *embeddings; /* NULL when not given */
    double accuracy;                         /* NAN when not given */
} larder_report;

/* `key` may stand in for these ids. A signal names the best one first. */
typedef void (*larder_relation_fn)(void *arg, uint64_t key, const uint64_t *ids, size_t n);

typedef struct larder_signal {
    larder_plugin plugin;
    int (*init)(void *st, uint64_t n, const larder_args *);
    void (*fini)(void *st);
    /* Runs off the training path, in batch order. Writes scores[id] for ids of the report. NULL
     * where there is `prepare`. */
    void (*observe)(void *st, const larder_report *, float *scores);
    void (*epoch)(void *st, uint64_t epoch, float *scores); /* optional, not with `prepare` */
    void (*save)(const void *st, larder_writer *);          /* optional; scores are saved anyway */
    int (*load)(void *st, larder_reader *);
    /* Optional, all four together: observe in two halves. */
    /* Bytes of the result of a report of so many rows; follows from init alone. */
    size_t (*result_size)(const void *st, size_t rows);
    /* The heavy half, on a thread of its own beside the drawing of batches, in batch order.
     * Touches the signal's own state and `result`, which comes zeroed and 16-byte aligned. */
    void (*prepare)(void *st, const larder_report *, void *result);
    /* The light half, by whoever draws, when the feedback takes effect: writes scores and names at
     * most a few hubs. O(rows), and from `result` alone: of the state only what init has set. */
    void (*apply)(const void *st, const void *result, float *scores, larder_relation_fn relate,
                  void *arg);
    /* May apply be given these bytes, which claim to be the result of a report of so many rows?
     * They come from a saved state, so no count or id in them can be trusted. */
    bool (*check)(const void *st, const void *result, size_t rows);
    /* Optional: what it shows; figure() is called after each prepare, on the same thread. */
    const larder_figure *figures;
    double (*figure)(const void *st, size_t i);
    /* Optional: it makes something of logits and labels alone, and this sentence is said once where
     * a report has losses without them. */
    const char *without_logits;
} larder_signal;

/* ---- engines: what finds neighbours for the signal graph ------------------------------------- */

typedef struct larder_engine_conf {
    uint64_t n;       /* samples of the data set, below 2^32 */
    uint32_t dim;     /* of the embeddings, at most 4096 */
    uint32_t classes; /* as the first batch shows them, nearly; 0: not known */
    uint32_t threads; /* that may share the counting of one batch */
    uint64_t seed;
} larder_engine_conf;

typedef struct larder_engine_rows { /* a batch; ids differ, all values are finite */
    size_t n;
    uint64_t epoch;
    const uint32_t *ids, *classes;
    const float *x; /* n x dim */
} larder_engine_rows;

typedef struct larder_engine_count { /* neighbours within the radius, self excluded */
    float same, other;               /* of its class; estimates need not be whole numbers */
} larder_engine_count;

/* Holds the latest embedding of every sample in some form and says how many of them lie within a
 * radius. Called by one thread at a time; what it answers depends on the sequence of updates alone,
 * never on its number of threads. A name has at most eight letters. */
typedef struct larder_engine {
    larder_plugin
        plugin; /* its parameters are given as graph:engine=name,tune=key=value/key=value */
    int (*open)(void *st, const larder_engine_conf *, const larder_args *);
    void (*close)(void *st); /* also of half-open ones */
    /* Enters the batch. LARDER_ENGINE_LEARNING: not enough seen yet to count. */
    int (*update)(void *st, const larder_engine_rows *);
    /* Counts for rows as they were last entered; radius is the distance, not its square. */
    int (*count)(void *st, const larder_engine_rows *, double radius, larder_engine_count *out);
    /* The nearest neighbours of the same class of a row just entered: at most cap of those within
     * the radius, nearest first. */
    size_t (*nearest)(void *st, const larder_engine_rows *, size_t row, double radius,
                      uint64_t *ids, size_t cap);
    uint64_t (*rows)(const void *st);  /* samples entered */
    uint64_t (*bytes)(const void *st); /* memory held */
    void (*save)(const void *st, larder_writer *);
    int (*load)(void *st, larder_reader *); /* follows open */
    /* Optional: the measured share of true neighbours that it finds; NULL: all. */
    double (*recall)(const void *st);
} larder_engine;
enum { LARDER_ENGINE_LEARNING = 1 };

/* ---- sources: where samples live ------------------------------------------------------------- */

typedef struct larder_sample {
    uint32_t bytes; /* payload */
    int32_t label;  /* -1: none */
} larder_sample;

typedef struct larder_dataset {
    uint64_t count;       /* samples */
    uint64_t bytes;       /* payload of all */
    uint32_t classes;     /* 0: unknown */
    larder_shape raw;     /* all samples are raw u8 pixels of this shape; h == 0: encoded files */
    larder_layout layout; /* of raw pixels */
    uint64_t fingerprint; /* which samples there are, not which bytes they have: a copy has the
                             same. What saved states and tapes are checked with */
    bool parts;           /* what a rectangle needs of a picture can be read: read_parts works */
    /* Which bytes these are: what is kept for other processes or runs is named by it. A source
     * gives what tells its files from any others and from what they are after a change (times,
     * numbers, ETags), or 0 where the fingerprint says it all; the rest is mixed in by who opens
     * it. */
    uint64_t identity;
    uint64_t content; /* hash of some of the bytes, the same for a copy; 0: none were read */
    bool parcels;     /* samples are parcels of fields */
} larder_dataset;

/* Pixels x0 <= x < x1, y0 <= y < y1 of a picture that will be decoded to 1/shrink of its size. */
typedef struct larder_rect {
    uint32_t x0, y0, x1, y1;
    uint32_t shrink; /* 1, 2, 4 or 8 */
} larder_rect;

typedef struct larder_read { /* one read of a batch of reads */
    larder_buf *buf;         /* out: one reference, size == sample bytes; NULL on failure */
    int code;                /* out: 0 or negative */
    char why[256];           /* out: the sentence when code < 0 */
} larder_read;

/* So many requests went to storage: files opened and read, reads of a part of one, ranges asked of
 * a server. Said inside read and read_parts, on the thread that was called; a source that says
 * nothing made one for each sample. */
void larder_note_requests(uint64_t n);

typedef struct larder_source {
    larder_plugin plugin; /* its name is the URI's prefix, its params the ?query */
    /* Around another source: the URI is "name:key=value,…:URI", open gets the inner URI as `where`,
     * and a bare first word is the value of the first parameter. */
    bool wraps;
    /* Optional: does a plain name (no prefix) look like mine? 0: no; the highest answer wins. */
    int (*probe)(const char *where);
    int (*open)(void *st, const char *where,
                const larder_args *); /* where: without prefix, query */
    void (*close)(void *st);          /* also of half-open ones */
    int (*describe)(void *st, larder_dataset *out);
    /* No id that reaches a source is past its count: whoever opened it sees to that. */
    int (*stat)(void *st, uint64_t id, larder_sample *out);    /* cheap: no I/O after open */
    int (*name)(void *st, uint64_t id, char *out, size_t cap); /* for people: "cat/7.jpg" */
    const char *(*class_name)(void *st, uint32_t label);       /* optional; NULL: none */
    /* Thread-safe. Fills every out[i]; returns 0 unless nothing at all could be tried. */
    int (*read)(void *st, const uint64_t *ids, size_t n, larder_read *out);
    /* Optional, all three or none: a source that knows how its pictures are encoded reads what a
     * rectangle needs and no more. What it gives is for the stages, see src/base/segments.h. */
    /* Sides of the picture, no I/O; 0 x 0: it can only be read whole. */
    int (*extent)(void *st, uint64_t id, uint32_t *w, uint32_t *h);
    /* Bytes that read_parts gives for a rectangle inside a picture whose extent is known. Storage
     * is read only for a rectangle that is not the whole picture, and then a short index alone. */
    int (*part_bytes)(void *st, uint64_t id, const larder_rect *, uint32_t *out);
    /* As read, of a rectangle each; x1 == 0: the sample as it lies there. */
    int (*read_parts)(void *st, const uint64_t *ids, const larder_rect *, size_t n,
                      larder_read *out);
    /* Optional, thread-safe: reads under way and later ones end soon, with E_CANCELLED where they
     * had to wait. Comes before close, so that closing never waits for slow storage. */
    void (*interrupt)(void *st);
    /* Optional, both or none, thread-safe: what it shows among the loader's statistics. */
    const larder_figure *(*figures)(void *st);
    double (*figure)(void *st, size_t i);
    /* Optional, after open: what lies there and is not used, what cannot be used as it is. The i-th
     * sentence for a user, NULL past the end; lent until the next call. */
    const char *(*note)(void *st, size_t i);
    /* Optional, once, between open and describe: what is read of a sample are these fields ("jpg",
     * "seg.png"), in this order, as a parcel (docs/guide/fields.md); n 0: as it is without them.
     * Samples that lack one are read as bad ones, but for names that end in "?". A source without
     * this gives what it has. */
    int (*choose)(void *st, const char *const *names, size_t n);
    /* Optional, after choose: the i-th field that samples have, chosen or not; NULL past the end.
     */
    const char *(*field)(void *st, size_t i);
    /* Wraps several: parameters may be left out, and open gets all that follows them. */
    bool many;
    /* Optional: in which of its files a sample lies, counted from 0. Those of one file have ids in
     * a row and lie there in that order, so that some of them are read by one request. */
    int (*file)(void *st, uint64_t id, uint64_t *out);
} larder_source;

/* ---- stages: from bytes to tensors ----------------------------------------------------------- */

enum { LARDER_CHANNELS_MAX = 4 };
typedef enum { LARDER_BILINEAR = 0, LARDER_BICUBIC = 1, LARDER_NEAREST = 2 } larder_filter;
typedef enum {                           /* what lies beyond a picture's edge */
               LARDER_EDGE_FILL = 0,     /* one colour */
               LARDER_EDGE_REPEAT = 1,   /* the last pixel */
               LARDER_EDGE_REFLECT = 2,  /* the picture mirrored, without its last pixel */
               LARDER_EDGE_SYMMETRIC = 3 /* mirrored, with it */
} larder_edge;

/* The picture as the next stage sees it: w x h pixels, some of them perhaps from padding. Stages
 * change `flipped`, `upended`, `filter` and `aliased` and, through the calls below, the rest. */
typedef struct larder_view {
    int64_t w, h;
    bool flipped; /* left and right change places, after everything else */
    /* How it is made: box of the source, resampled to full_w x full_h; of that the window that
     * starts at win_x, win_y; whatever lies outside vis_* is padding. */
    int64_t box_x, box_y, box_w, box_h;
    int64_t full_w, full_h, win_x, win_y;
    int64_t vis_x0, vis_y0, vis_x1, vis_y1;
    double gap; /* the decoder may shrink the box while it keeps gap x the target; 0: never */
    bool resized, padded;
    bool upended;         /* up and down change places */
    bool aliased;         /* resampling looks at the nearest pixels alone, however many there are */
    larder_filter filter; /* of the resampling */
    larder_edge edge;
    uint8_t fill[LARDER_CHANNELS_MAX];          /* colour of LARDER_EDGE_FILL */
    int64_t edge_x0, edge_y0, edge_x1, edge_y1; /* what other edges mirror or repeat */
    bool over; /* a call below was refused, as it does not fit what was asked for before; it would
                  on pixels that are there. Then the stage is asked again when they are */
} larder_view;
/* A window of what is there; parts beyond the edge become zeros. */
int larder_view_crop(larder_view *, int64_t x, int64_t y, int64_t w, int64_t h);
/* So many pixels on each side; fill NULL: zeros. */
int larder_view_pad(larder_view *, const int64_t left_top_right_bottom[4], larder_edge,
                    const uint8_t *fill);
/* Unless `filter` and `aliased` are set: bilinear with antialias. */
int larder_view_resize(larder_view *, int64_t w, int64_t h, double gap);

/* What has been decoded, cropped, padded, flipped and resized: c bytes a pixel, pixel after pixel,
 * row after row. */
typedef struct larder_pixels {
    uint8_t *at;
    uint32_t w, h, c;
} larder_pixels;

/* The same for stages that also move pixels. They do so alike for a picture, for a mask that
 * belongs to it (whose numbers are names: nearest pixel, nothing but geometry) and for points. */
typedef struct larder_canvas {
    uint8_t *at;   /* row after row; NULL: only the size and the points are wanted */
    uint32_t w, h; /* a stage may change these */
    uint32_t c;    /* channels of a pixel */
    uint32_t step; /* bytes of a pixel: 1 where c is 1, else 4, of which those past c are spare */
    bool mask;
    double *points; /* count pairs x, y in pixels, (0, 0) the picture's corner: moved along */
    size_t count;
    /* Memory for w x h pixels beside `at`, until the next call; NULL: no memory. */
    uint8_t *(*beside)(struct larder_canvas *, uint32_t w, uint32_t h);
    void *inside; /* of who calls the stage */
} larder_canvas;
/* Are there pixels, and do their colours mean something? */
static inline bool larder_canvas_colours(const larder_canvas *k) { return k->at && !k->mask; }

/* What a pixel becomes in floating-point output: scale * value + bias, value 0..255, per channel.
 * The first stage finds 1/255 and 0, values of 0..1. Output of u8 has no tone: such stages are
 * refused. */
typedef struct larder_tone {
    uint32_t channels;
    double scale[LARDER_CHANNELS_MAX], bias[LARDER_CHANNELS_MAX];
} larder_tone;

/* A finished row of a batch. */
typedef struct larder_row {
    void *at;
    larder_shape shape;
    larder_dtype dtype;
    larder_layout layout;
    /* What a value of 0..1 is in it, after the stages of tone that follow: scale * value + bias. */
    double scale[LARDER_CHANNELS_MAX], bias[LARDER_CHANNELS_MAX];
} larder_row;
/* Writes values[channel] (0..1) at one pixel. */
void larder_row_put(const larder_row *, uint32_t x, uint32_t y, const double *values);

/* What is done to a batch. weight 1: nothing. */
typedef struct larder_mixing {
    uint32_t w, h;           /* of a row, given */
    double weight;           /* share of a row itself; its partner has the rest */
    bool pasted;             /* a box comes from the partner; else all of it is blended */
    uint32_t x0, y0, x1, y1; /* that box */
} larder_mixing;

/* A stage changes where pixels come from (place), their colours (pixels), colours and places
 * (canvas), what they are worth (tone), the finished row (late) or a batch of them (mix). place and
 * tone only describe, so that no more of a picture is decoded than is wanted and one pass is
 * enough. Those of the first three kinds stand in any order, then those of the next two, then mix;
 * of several of these one is drawn for each batch. State is read-only after init, so any number of
 * threads run it. */
typedef struct larder_stage {
    larder_plugin plugin;
    bool random; /* takes chance: the same sample gives another picture with another seed */
    int (*init)(void *st, const larder_args *);
    /* Exactly one of these; rng is this stage's own for this sample; NULL for a random stage:
     * without chance, the middle of what it may do, in the same size. */
    int (*place)(const void *st, larder_view *, larder_rng *);
    int (*pixels)(const void *st, const larder_pixels *, larder_rng *);
    int (*tone)(const void *st, larder_tone *, larder_rng *);
    int (*canvas)(const void *st, larder_canvas *, larder_rng *);
    int (*late)(const void *st, const larder_row *, larder_rng *);
    int (*mix)(const void *st, larder_mixing *, larder_rng *);
} larder_stage;

/* ---- recipes: the named combination a user picks --------------------------------------------- */

typedef struct larder_recipe {
    larder_plugin plugin;                  /* without parameters: those of its parts are its own */
    const char *sampler, *policy, *signal; /* by name; "": no signal */
} larder_recipe;

/* ---- plug-ins from outside ------------------------------------------------------------------- */

/* Changes with the meaning of anything above. What is only added, at the end of a struct that is
 * registered or of a group of a policy, leaves it as it is: who was compiled before has NULL there.
 */
enum { LARDER_PLUGIN_ABI = 1, LARDER_POLICY_GROUPS = 5 };

typedef enum larder_sort {
    LARDER_SORT_POLICY,
    LARDER_SORT_SAMPLER,
    LARDER_SORT_SIGNAL,
    LARDER_SORT_ENGINE,
    LARDER_SORT_SOURCE,
    LARDER_SORT_STAGE,
    LARDER_SORT_RECIPE,
    LARDER_SORTS
} larder_sort;

typedef struct larder_registration {
    uint32_t abi;       /* LARDER_PLUGIN_ABI as it was when the plug-in was compiled */
    uint32_t sort;      /* larder_sort */
    size_t size;        /* of the struct at `plugin`, also as it was then */
    const void *plugin; /* its struct is copied; what that points to stays where it is for good */
    size_t groups[LARDER_POLICY_GROUPS]; /* of a policy: sizes of its groups, in their order */
} larder_registration;

/* Afterwards the name is known everywhere, like one of larder's own. From any thread; refused with
 * a sentence: another ABI, a name that is taken or cannot be one, an operation that is missing. */
int larder_register(const larder_registration *);

static inline int larder_register_policy(const larder_policy *p) {
    const larder_registration r = {LARDER_PLUGIN_ABI,
                                   LARDER_SORT_POLICY,
                                   sizeof *p,
                                   p,
                                   {sizeof *p->hears, sizeof *p->brings, sizeof *p->lends,
                                    sizeof *p->shares, sizeof *p->shows}};
    return larder_register(&r);
}

#define LARDER_REGISTER_AS(kind, KIND)                                                             \
    static inline int larder_register_##kind(const larder_##kind *p) {                             \
        const larder_registration r = {                                                            \
            LARDER_PLUGIN_ABI, LARDER_SORT_##KIND, sizeof *p, p, {0, 0, 0, 0, 0}};                 \
        return larder_register(&r);                                                                \
    }
LARDER_REGISTER_AS(sampler, SAMPLER)
LARDER_REGISTER_AS(signal, SIGNAL)
LARDER_REGISTER_AS(engine, ENGINE)
LARDER_REGISTER_AS(source, SOURCE)
LARDER_REGISTER_AS(stage, STAGE)
LARDER_REGISTER_AS(recipe, RECIPE)
#undef LARDER_REGISTER_AS

/* A shared object with plug-ins has this one function, which registers them; 0, or what a
 * registration answered. */
int larder_plugin_load(void);
/* Loads such a file, once. `larder --plugin FILE`, each file in LARDER_PLUGINS (joined by colons,
 * when a plug-in is first asked for) and larder.load_plugin(FILE) in Python come here. */
int larder_load_plugin(const char *file);

#ifdef __cplusplus
}
#endif
#endif
