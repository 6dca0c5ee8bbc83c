/* rotate: the cache is a slowly rotating sample of the data, and every batch reuses it just as much
 * as the storage forces. A share h of each batch comes from the residents, the rest from a stream
 * over all ids that is mostly read (sample/reuse.h); h is fixed, scheduled, or steered by measured
 * rates (sample/steer.h). With h = 0 every epoch is one sweep: plain exactly-once training. */
#include "sample/reuse.h"
#include "sample/steer.h"

typedef struct rotate {
    larder__reuse reuse;
    larder__steer steer;
    uint64_t epoch;
    double shown; /* h of the batch drawn last */
} rotate;

static const larder_param params[] = {
    {"h", "text", "auto", "share of a batch that is reused: auto, a number, or first-last", 0, 0},
    {"h_max", "float", "0.85", "h=auto never reuses more", 0, 0.99},
    {"gap", "float", "0.04",
     "h=auto: fresh losses above reused ones by at most this share of the first of all; 0: any", 0,
     1e9},
    {"epochs", "float", "0", "h=first-last: epochs from the first value to the last", 0, 1e9},
    {"read_us", "float", "0", "h=auto before anything is measured: reading one sample takes", 0,
     1e12},
    {"step_us", "float", "0", "h=auto before anything is measured: training on one takes", 0, 1e12},
    {"fill", "float", "1", "share of the cache to fill before anything is reused", 0, 1},
    {"strata", "class|none", "class",
     "class: the stream has every class evenly spread, so that the residents are like the data", 0,
     0},
    {0}};

static int init(void *st, const larder_draw_env *env, const larder_args *args) {
    rotate *r = st;
    larder__reuse_conf conf = {.skips = true,
                               .strata = strcmp(larder_args_text(args, "strata"), "class") == 0,
                               .shares = true,
                               .fill = larder_args_number(args, "fill")};
    int rc = larder__reuse_init(&r->reuse, env, &conf);
    uint64_t batches = (larder__reuse_length(&r->reuse) + env->batch - 1) / env->batch;
    return rc < 0 ? rc : larder__steer_init(&r->steer, args, batches);
}

static void fini(void *st) {
    larder__reuse_fini(&((rotate *)st)->reuse);
    larder__steer_fini(&((rotate *)st)->steer);
}

static int epoch(void *st, uint64_t e) {
    rotate *r = st;
    r->epoch = e;
    larder__reuse_epoch(&r->reuse);
    return larder__steer_epoch(&r->steer);
}

static size_t draw(void *st, larder_pick *out, size_t want) {
    rotate *r = st;
    if (r->reuse.taken >= larder__reuse_length(r))
        return 0;
    if (r->reuse.env->memorised)
        larder__steer_memorised(&r->steer, r->reuse.env->memorised);
    double done = (double)r->epoch + (double)r->reuse.taken / (double)larder__reuse_length(r);
    bool acts = larder__reuse_filled(&r->reuse);
    double h = larder__steer_next(&r->steer, done, r->reuse.fresh, acts);
    r->shown = acts ? h : 0;
    return larder__reuse_draw(&r->reuse, h, out, want);
}

static void pace(void *st, const larder_pace *p) { larder__steer_pace(&((rotate *)st)->steer, p); }
static size_t turns(const void *st, const larder_turn **out) {
    *out = ((const rotate *)st)->steer.turns;
    return ((const rotate *)st)->steer.count;
}
static int past(void *st, const larder_turn *t, size_t n) {
    return larder__steer_past(&((rotate *)st)->steer, t, n);
}
static int follow(void *st, const larder_turn *t, size_t n) {
    return larder__steer_follow(&((rotate *)st)->steer, t, n);
}
static double held(const void *st) { return larder__steer_held(&((const rotate *)st)->steer); }
static double shown(const void *st) { return ((const rotate *)st)->shown; }

static void save(const void *st, larder_writer *w) {
    larder__reuse_save(&((const rotate *)st)->reuse, w);
    larder__steer_save(&((const rotate *)st)->steer, w);
}

static int load(void *st, larder_reader *in) {
    rotate *r = st;
    int rc = larder__reuse_load(&r->reuse, in);
    return rc < 0 ? rc : larder__steer_load(&r->steer, in);
}

const larder_sampler larder__sampler_rotate = {
    .plugin = {.name = "rotate",
               .summary = "a share h of every batch from the residents, the rest from a stream",
               .params = params,
               .state_size = sizeof(rotate)},
    .repeats = true,
    .by_class = true,
    .init = init,
    .fini = fini,
    .epoch = epoch,
    .draw = draw,
    .length = larder__reuse_length,
    .save = save,
    .load = load,
    .pace = pace,
    .turns = turns,
    .past = past,
    .follow = follow,
    .shown_name = "h",
    .shown = shown,
    .watches = larder__steer_watches,
    .held = held,
};
