/* SHADE's sampler. Epoch 0 is a random permutation. Later epochs are N draws with replacement, each
 * id as likely as its score; ids without a score count as the highest known one, so that nothing
 * stays unseen for long. While validation improves (the mean of the last three changes of accuracy
 * is above zero, or fewer than two are known), draws of residents are repeated `repeat` times and
 * misses fill up what is left of the N: fewer reads for fewer distinct samples. Then all is
 * shuffled.
 *
 * The list of an epoch is made when the epoch begins, from the scores and residents of that moment,
 * and cut among the ranks. Ranks that see other scores or (where residents are repeated or come
 * first) hold other samples make other lists: each takes its own share of its own list.
 *
 * weight = 1/(N q), q the chance of one place of the list to hold the id: proportional to the
 * score, and to how often a draw of its sort (resident or not) went into the list. To the power of
 * `correct`, scaled to a mean of one over the list. */
#include "sample/pads.h"

#include "base/mem.h"
#include "sample/permute.h"

#include <math.h>

static const larder_param params[] = {
    {"repeat", "int", "3", "how often a draw that is resident is served while accuracy improves", 1,
     1000},
    {"hits_first", "bool", "0", "all residents before all others, as the authors' code does", 0, 0},
    {"correct", "float", "0", "exponent of the weights 1/(N p); 0: all are 1", 0, 1},
    {0}};

int larder__pads_open(larder__pads *p, const larder_draw_env *env) {
    p->env = env;
    larder__shard_init(&p->shard, env->n, env);
    p->list = larder__malloc(env->n * sizeof *p->list);
    p->drawn = larder__malloc(env->n * sizeof *p->drawn);
    p->weights = larder__malloc(env->n * sizeof *p->weights);
    if (!p->list || !p->drawn || !p->weights)
        return LARDER_E_NOMEM;
    return larder__alias_open(&p->alias, env->n);
}

static int init(void *st, const larder_draw_env *env, const larder_args *args) {
    larder__pads *p = st;
    p->repeat = (uint32_t)larder_args_number(args, "repeat");
    p->hits_first = larder_args_number(args, "hits_first") != 0;
    p->correct = larder_args_number(args, "correct");
    return larder__pads_open(p, env);
}

void larder__pads_fini(void *st) {
    larder__pads *p = st;
    larder__alias_close(&p->alias);
    larder__free(p->list);
    larder__free(p->drawn);
    larder__free(p->weights);
}

/* ---- the list of an epoch -------------------------------------------------------------------- */

/* Scores below zero count as zero. When none is above zero, all are alike. */
static void take_scores(larder__pads *p) {
    uint64_t n = p->env->n;
    const float *scores = p->env->scores;
    float top = 0;
    for (uint64_t i = 0; scores && i < n; i++)
        top = scores[i] > top && isfinite(scores[i]) ? scores[i] : top;
    for (uint64_t i = 0; i < n; i++) {
        float s = scores && top > 0 ? scores[i] : 1;
        p->weights[i] = isfinite(s) ? (s > 0 ? s : 0) : top;
    }
}

static bool improving(const larder__pads *p) {
    return p->known < 2 || p->accuracies[p->known - 1] > p->accuracies[0];
}

static void shuffle(uint32_t *a, uint64_t n, larder_rng *rng) {
    for (uint64_t i = n; i > 1; i--) {
        uint32_t j = larder_rng_below(rng, (uint32_t)i), t = a[i - 1];
        a[i - 1] = a[j];
        a[j] = t;
    }
}

static bool is_resident(const larder__pads *p, uint32_t id) {
    return p->env->resident(p->env->resident_arg, id);
}

typedef struct shares { /* of the draws: how many were resident; of the list: how many are */
    uint64_t drawn, listed;
} shares;

/* Draws to list: residents `repeat` times, then the others. Never fewer than N in all. Residents
 * come round by round, so that a cut at N costs repeats and not ids. */
static shares fill_list(larder__pads *p, larder_rng *rng) {
    uint64_t n = p->env->n, at = 0;
    shares s = {0};
    if (p->repeat == 1 && !p->hits_first) { /* the same list for all ranks, whatever each holds */
        memcpy(p->list, p->drawn, n * sizeof *p->list);
        return s;
    }
    uint32_t times = improving(p) ? p->repeat : 1;
    for (uint64_t i = 0; i < n; i++)
        if (is_resident(p, p->drawn[i]))
            p->list[s.drawn++] = p->drawn[i];
    for (at = s.drawn; s.drawn && at < n && at / s.drawn < times; at++)
        p->list[at] = p->list[at - s.drawn];
    s.listed = at;
    for (uint64_t i = 0; i < n && at < n; i++)
        if (!is_resident(p, p->drawn[i]))
            p->list[at++] = p->drawn[i];
    if (p->hits_first) {
        shuffle(p->list, s.listed, rng);
        shuffle(p->list + s.listed, n - s.listed, rng);
    } else
        shuffle(p->list, n, rng);
    return s;
}

/* Turns scores into the weights of training. */
static void weigh(larder__pads *p, shares s) {
    uint64_t n = p->env->n;
    double hit = s.drawn ? (double)s.listed / (double)s.drawn : 1;
    double miss = s.drawn < n ? (double)(n - s.listed) / (double)(n - s.drawn) : 1, sum = 0;
    if (p->correct == 0) {
        for (uint64_t i = 0; i < n; i++)
            p->weights[i] = 1;
        return;
    }
    for (uint64_t i = 0; i < n; i++) {
        double q = (double)p->weights[i] * (is_resident(p, (uint32_t)i) ? hit : miss);
        p->weights[i] = q > 0 ? (float)pow(q, -p->correct) : 1;
    }
    for (uint64_t i = 0; i < n; i++)
        sum += (double)p->weights[p->list[i]];
    for (uint64_t i = 0; i < n; i++)
        p->weights[i] = (float)((double)p->weights[i] * ((double)n / sum));
}

int larder__pads_epoch(void *st, uint64_t e) {
    larder__pads *p = st;
    uint64_t n = p->env->n;
    p->at = 0;
    if (e == 0 || n == 0) {
        larder__permute(p->list, (uint32_t)n, p->env->seed, e);
        for (uint64_t i = 0; i < n; i++)
            p->weights[i] = 1;
        return 0;
    }
    larder_rng rng;
    larder_rng_seed(&rng, p->env->seed, 0x9ad50000u + e);
    take_scores(p);
    int rc = larder__alias_build(&p->alias, p->weights);
    if (rc < 0)
        return rc;
    larder__alias_draw(&p->alias, &rng, p->drawn, n);
    shares s = fill_list(p, &rng);
    weigh(p, s);
    return 0;
}

/* ---- serving it ------------------------------------------------------------------------------ */

uint64_t larder__pads_length(const void *st) {
    return larder__shard_length(&((const larder__pads *)st)->shard);
}

size_t larder__pads_draw(void *st, larder_pick *out, size_t want) {
    larder__pads *p = st;
    uint64_t left = larder__pads_length(p) - p->at;
    size_t n = want < left ? want : (size_t)left;
    for (size_t i = 0; i < n; i++) {
        out[i].id = p->list[larder__shard_at(&p->shard, p->at + i)];
        out[i].weight = p->weights[out[i].id];
    }
    p->at += n;
    return n;
}

static void accuracy(void *st, double value) {
    larder__pads *p = st;
    if (p->known == LARDER__PADS_KEPT)
        memmove(p->accuracies, p->accuracies + 1, (LARDER__PADS_KEPT - 1) * sizeof *p->accuracies);
    else
        p->known++;
    p->accuracies[p->known - 1] = value;
}

/* Scores and residents have moved on since the list was made, so it is saved; not one that is used
 * up. Weights go along where they are not all one. */
void larder__pads_save(const void *st, larder_writer *w) {
    const larder__pads *p = st;
    bool more = p->at < larder__pads_length(p);
    larder_write_u64(w, p->at);
    larder_write_u32(w, p->known);
    for (uint32_t i = 0; i < p->known; i++)
        larder_write_f64(w, p->accuracies[i]);
    larder_write_u32(w, more && p->at);
    for (uint64_t i = 0; more && p->at && i < p->env->n; i++)
        larder_write_u32(w, p->list[i]);
    if (more && p->at && p->correct > 0)
        larder_write_bytes(w, p->weights, p->env->n * sizeof *p->weights);
}

static int load_list(larder__pads *p, larder_reader *r) {
    for (uint64_t i = 0; i < p->env->n; i++)
        p->list[i] = larder_read_index(r, p->env->n, false);
    if (p->correct > 0)
        larder_read_bytes(r, p->weights, p->env->n * sizeof *p->weights);
    for (uint64_t i = 0; p->correct > 0 && i < p->env->n; i++)
        if (!(p->weights[i] > 0 && isfinite(p->weights[i])))
            return larder_read_reject(r, "a weight is none");
    return larder_read_status(r);
}

int larder__pads_load(void *st, larder_reader *r) {
    larder__pads *p = st;
    p->at = larder_read_u64(r);
    p->known = larder_read_u32(r);
    if (p->at > larder__pads_length(p) || p->known > LARDER__PADS_KEPT) {
        p->at = p->known = 0;
        return larder_read_reject(r, "its epoch is longer than this one");
    }
    for (uint32_t i = 0; i < p->known; i++)
        p->accuracies[i] = larder_read_f64(r);
    bool listed = larder_read_u32(r) == 1;
    if (listed && larder_read_status(r) == 0)
        return load_list(p, r);
    return larder_read_status(r);
}

const larder_sampler larder__sampler_pads = {
    .plugin = {.name = "pads",
               .summary =
                   "draws by score with replacement; residents repeated while accuracy improves",
               .params = params,
               .state_size = sizeof(larder__pads)},
    .repeats = true,
    .uneven = true,
    .init = init,
    .fini = larder__pads_fini,
    .epoch = larder__pads_epoch,
    .draw = larder__pads_draw,
    .length = larder__pads_length,
    .save = larder__pads_save,
    .load = larder__pads_load,
    .accuracy = accuracy,
};
