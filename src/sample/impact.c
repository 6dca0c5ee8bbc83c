/* Selection whose losses are kept fresh where they would be wrong.
 *
 * Losses remembered from training grow old, and for most samples that does not matter: their place
 * among all losses stays about the same. Where it does not, the user's evaluator looks again.
 * - Warm-up: epochs on everything, untagged, so that a cache that knows tags evicts nobody. Before
 *   each epoch every sample with a known loss gets a rank, its place among them from 0 to 1, and
 *   the variance of its ranks so far. S' are the |S| samples that vary most (from two ranks on;
 *   |S| = s_share of what the cache holds, in samples of its mean size). When more than 80 % of an
 *   S' were in the one before, or after warm_max epochs, S = S' for good.
 * - From then on S is evaluated before each epoch, and choose.h chooses. S is tagged KEEP.
 * eval=history: no warm-up, no evaluation: the sampler select. So it is without an evaluator.
 * eval=realtime: no warm-up, all samples are evaluated before each epoch but the first. */
#include "base/mem.h"
#include "sample/choose.h"

#include <math.h>

typedef struct impact {
    larder__choose choose; /* first: as choose.h wants it */
    uint64_t full_every, warm_max;
    double s_share;
    bool hybrid, realtime;
    bool warming;
    uint64_t ranked;  /* epochs begun by evaluate; 1 after that of epoch 0 */
    uint64_t s_size;  /* |S|; 0: not known yet */
    float *mean, *m2; /* of the ranks, by place in the pool */
    uint8_t *times;   /* ranks so far */
    uint8_t *in_s;    /* is it in the newest S'; by place in the pool */
    uint32_t *list;   /* ids to evaluate */
} impact;

static const larder_param params[] = {
    LARDER__CHOOSE_PARAMS,
    {"s_share", "float", "0.25", "share of the cache whose losses are evaluated", 0, 1},
    {"warm_max", "int", "10", "longest warm-up, in epochs", 2, 200},
    {"eval", "history|hybrid|realtime", "hybrid", "whose losses are looked at again", 0, 0},
    {0}};

static int init(void *st, const larder_draw_env *env, const larder_args *args) {
    impact *s = st;
    const char *eval = larder_args_text(args, "eval");
    s->full_every = (uint64_t)larder_args_number(args, "full_every");
    s->warm_max = (uint64_t)larder_args_number(args, "warm_max");
    s->s_share = larder_args_number(args, "s_share");
    s->hybrid = strcmp(eval, "hybrid") == 0;
    s->realtime = strcmp(eval, "realtime") == 0;
    int rc = larder__choose_open(&s->choose, env, args);
    if (rc < 0)
        return rc;
    uint64_t n = s->choose.pool_size;
    s->mean = larder__calloc(n, sizeof *s->mean);
    s->m2 = larder__calloc(n, sizeof *s->m2);
    s->times = larder__calloc(n, sizeof *s->times);
    s->in_s = larder__calloc(n, sizeof *s->in_s);
    s->list = larder__calloc(n, sizeof *s->list);
    return s->mean && s->m2 && s->times && s->in_s && s->list ? 0 : LARDER_E_NOMEM;
}

static void fini(void *st) {
    impact *s = st;
    larder__choose_close(&s->choose);
    larder__free(s->mean);
    larder__free(s->m2);
    larder__free(s->times);
    larder__free(s->in_s);
    larder__free(s->list);
}

static uint32_t id_at(const impact *s, uint64_t place) {
    return s->choose.pool ? s->choose.pool[place] : (uint32_t)place;
}

/* ---- the warm-up ----------------------------------------------------------------------------- */

/* Places of the pool by rising value: NAN last. */
static const uint64_t *sort_pool(impact *s, float (*value)(const impact *, uint64_t place)) {
    larder__choose *c = &s->choose;
    for (uint64_t i = 0; i < c->pool_size; i++)
        c->sorted[i] = (uint64_t)larder__choose_key(value(s, i)) << 32 | i;
    return larder__choose_sort(c->sorted, c->spare, c->pool_size);
}

static float score_of(const impact *s, uint64_t place) {
    const float *scores = s->choose.env->scores;
    return scores ? scores[id_at(s, place)] : NAN;
}

static float variance_of(const impact *s, uint64_t place) {
    return s->times[place] < 2 ? 0 : s->m2[place] / (float)s->times[place];
}

static void note_ranks(impact *s) {
    uint64_t n = s->choose.pool_size, known = 0;
    const uint64_t *sorted = sort_pool(s, score_of);
    while (known < n && sorted[known] >> 32 != UINT32_MAX)
        known++;
    for (uint64_t i = 0; i < known; i++) { /* Welford's running variance */
        uint32_t at = (uint32_t)sorted[i];
        float rank = (float)((double)(i + 1) / (double)known), off = rank - s->mean[at];
        if (s->times[at] == UINT8_MAX)
            continue;
        s->mean[at] += off / (float)++s->times[at];
        s->m2[at] += off * (rank - s->mean[at]);
    }
}

static uint64_t size_of_s(const impact *s) {
    const larder_slots *slots = s->choose.env->slots;
    if (!slots || slots->resident == 0)
        return 0;
    double mean = (double)slots->bytes / (double)slots->resident;
    double size = mean > 0 ? s->s_share * (double)slots->budget / mean : 0;
    return size < (double)s->choose.pool_size ? (uint64_t)size : s->choose.pool_size;
}

/* The next S'; returns how many of it were in the one before. */
static uint64_t renew_s(impact *s) {
    uint64_t n = s->choose.pool_size, same = 0;
    const uint64_t *sorted = sort_pool(s, variance_of);
    for (uint64_t i = 0; i < n; i++) {
        uint8_t *in = &s->in_s[(uint32_t)sorted[i]];
        bool now = i >= n - s->s_size;
        same += now && *in;
        *in = now;
    }
    return same;
}

static void warm_up(impact *s, uint64_t epoch) {
    if (epoch == 0)
        s->warming = true;
    if (!s->warming || epoch == 0)
        return;
    note_ranks(s);
    if (epoch < 2)
        return;
    if (epoch == 2)
        s->s_size = size_of_s(s);
    uint64_t same = renew_s(s);
    s->warming = !(epoch > 2 && same * 5 > s->s_size * 4) && epoch < s->warm_max && s->s_size;
}

/* ---- before an epoch ------------------------------------------------------------------------- */

static void tag_s(impact *s) {
    for (uint64_t i = 0; s->hybrid && i < s->choose.pool_size; i++)
        if (s->in_s[i])
            s->choose.tags[id_at(s, i)] |= LARDER_TAG_KEEP;
}

/* May be asked again about the same epoch: after a save in between. */
static size_t evaluate(void *st, uint64_t epoch, const uint32_t **ids) {
    impact *s = st;
    if (s->hybrid && s->ranked <= epoch)
        warm_up(s, epoch);
    s->ranked = epoch + 1;
    *ids = s->list;
    if (epoch == 0 || s->warming || !(s->hybrid || s->realtime))
        return 0;
    size_t n = 0;
    for (uint64_t i = 0; i < s->choose.pool_size; i++)
        if (s->realtime || s->in_s[i])
            s->list[n++] = id_at(s, i);
    tag_s(s);
    return n;
}

static int epoch(void *st, uint64_t e) {
    impact *s = st;
    larder__choose *c = &s->choose;
    bool all = e == 0 || s->warming || (s->full_every && e % s->full_every == 0);
    larder__choose_epoch(c, e, all);
    if (s->warming)
        memset(c->tags, 0, c->env->n);
    else
        tag_s(s);
    return 0;
}

/* ---- saved state ----------------------------------------------------------------------------- */

static void save(const void *st, larder_writer *w) {
    const impact *s = st;
    uint64_t n = s->choose.pool_size;
    larder__choose_save(&s->choose, w);
    larder_write_u32(w, s->warming);
    larder_write_u64(w, s->ranked);
    larder_write_u64(w, s->s_size);
    larder_write_bytes(w, s->in_s, n);
    if (!s->warming)
        return;
    for (uint64_t i = 0; i < n; i++) {
        larder_write_f64(w, s->mean[i]);
        larder_write_f64(w, s->m2[i]);
    }
    larder_write_bytes(w, s->times, n);
}

static int load(void *st, larder_reader *r) {
    impact *s = st;
    uint64_t n = s->choose.pool_size;
    int rc = larder__choose_load(&s->choose, r);
    if (rc < 0)
        return rc;
    s->warming = larder_read_u32(r) == 1;
    s->ranked = larder_read_u64(r);
    s->s_size = larder_read_u64(r);
    if (s->s_size > n)
        return larder_read_reject(r, "more samples are unstable than there are");
    larder_read_bytes(r, s->in_s, n);
    for (uint64_t i = 0; s->warming && i < n; i++) {
        s->mean[i] = (float)larder_read_f64(r);
        s->m2[i] = (float)larder_read_f64(r);
    }
    if (s->warming)
        larder_read_bytes(r, s->times, n);
    return larder_read_status(r);
}

const larder_sampler larder__sampler_impact = {
    .plugin = {.name = "impact",
               .summary = "as select; samples of unsteady loss are evaluated before each epoch",
               .params = params,
               .state_size = sizeof(impact)},
    .repeats = true,
    .uneven = true,
    .init = init,
    .fini = fini,
    .epoch = epoch,
    .draw = larder__choose_draw,
    .length = larder__choose_length,
    .save = save,
    .load = load,
    .tags = larder__choose_tags,
    .evaluate = evaluate,
};
