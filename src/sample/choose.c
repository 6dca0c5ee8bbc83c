#include "sample/choose.h"

#include "base/mem.h"
#include "sample/shard.h"

#include <math.h>

/* ---- opening --------------------------------------------------------------------------------- */

static void shuffle(uint32_t *out, const uint32_t *from, uint64_t n, larder_rng *rng) {
    for (uint32_t i = 0; i < n; i++) { /* inside-out Fisher-Yates */
        uint32_t j = larder_rng_below(rng, i + 1);
        out[i] = out[j];
        out[j] = from ? from[i] : i;
    }
}

/* Each rank's share of one fixed permutation, the short last global batch included. */
static int open_pool(larder__choose *c) {
    larder_draw_env whole = *c->env;
    whole.drop_last = false;
    larder__shard shard;
    larder__shard_init(&shard, c->env->n, &whole);
    c->pool_size = c->env->n ? larder__shard_length(&shard) : 0;
    if (c->env->world == 1)
        return 0;
    c->pool = larder__malloc(c->pool_size * sizeof *c->pool);
    uint32_t *all = larder__malloc(c->env->n * sizeof *all);
    if (c->pool && all) {
        larder_rng rng;
        larder_rng_seed(&rng, c->env->seed, 0x9001);
        shuffle(all, NULL, c->env->n, &rng);
        for (uint64_t i = 0; i < c->pool_size; i++)
            c->pool[i] = all[larder__shard_at(&shard, i)];
    }
    int rc = c->pool && all ? 0 : LARDER_E_NOMEM;
    larder__free(all);
    return rc;
}

static uint64_t length_for(const larder__choose *c, uint64_t samples) {
    larder__shard shard;
    larder__shard_init(&shard, samples, c->env);
    return samples ? larder__shard_length(&shard) : 0;
}

int larder__choose_open(larder__choose *c, const larder_draw_env *env, const larder_args *args) {
    *c = (larder__choose){.env = env,
                          .beta = larder_args_number(args, "beta"),
                          .h_share = larder_args_number(args, "h_share"),
                          .correct = larder_args_number(args, "correct")};
    int rc = open_pool(c);
    if (rc < 0)
        return rc;
    c->order = larder__calloc(c->pool_size, sizeof *c->order);
    c->tags = larder__calloc(env->n, sizeof *c->tags);
    c->sorted = larder__malloc(c->pool_size * sizeof *c->sorted);
    c->spare = larder__malloc(c->pool_size * sizeof *c->spare);
    c->count = length_for(c, env->n);
    if (c->correct > 0 && !(c->weights = larder__calloc(c->pool_size, sizeof *c->weights)))
        return LARDER_E_NOMEM;
    return c->order && c->tags && c->sorted && c->spare ? 0 : LARDER_E_NOMEM;
}

void larder__choose_close(larder__choose *c) {
    larder__free(c->pool);
    larder__free(c->order);
    larder__free(c->tags);
    larder__free(c->sorted);
    larder__free(c->spare);
    larder__free(c->weights);
    *c = (larder__choose){0};
}

/* ---- sorting --------------------------------------------------------------------------------- */

enum { DIGIT = 11, BUCKETS = 1 << DIGIT };

uint64_t *larder__choose_sort(uint64_t *a, uint64_t *spare, uint64_t n) {
    for (int shift = 32; shift < 64; shift += DIGIT) {
        uint64_t from[BUCKETS] = {0}, sum = 0;
        for (uint64_t i = 0; i < n; i++)
            from[a[i] >> shift & (BUCKETS - 1)]++;
        for (int k = 0; k < BUCKETS; k++) {
            uint64_t here = from[k];
            from[k] = sum;
            sum += here;
        }
        for (uint64_t i = 0; i < n; i++)
            spare[from[a[i] >> shift & (BUCKETS - 1)]++] = a[i];
        uint64_t *t = a;
        a = spare;
        spare = t;
    }
    return a;
}

/* ---- choosing -------------------------------------------------------------------------------- */

/* From the least important up. Chosen ones are marked HIGH, the others LEFT. Weights go by the
 * place in the shuffled pool. */
static uint64_t choose(larder__choose *c, const uint64_t *sorted, larder_rng *rng, bool all) {
    uint64_t known = 0, chosen = 0;
    while (known < c->pool_size && sorted[known] >> 32 != UINT32_MAX)
        known++;
    for (uint64_t i = 0; i < c->pool_size; i++) {
        double p = all || i >= known ? 1 : pow((double)(i + 1) / (double)known, c->beta);
        bool in = all || i >= known || larder_rng_unit(rng) < p;
        c->tags[c->order[(uint32_t)sorted[i]]] = in ? LARDER_TAG_HIGH : LARDER_TAG_LEFT;
        if (c->weights)
            c->weights[(uint32_t)sorted[i]] = (float)pow(p, -c->correct);
        chosen += in;
    }
    return chosen;
}

/* A mean of one over the epoch. */
static void scale_weights(larder__choose *c) {
    double sum = 0, n = (double)c->count;
    for (uint64_t i = 0; c->weights && i < c->count; i++)
        sum += (double)c->weights[i];
    for (uint64_t i = 0; c->weights && i < c->count; i++)
        c->weights[i] = (float)((double)c->weights[i] * n / sum);
}

/* Makes it exactly `want`: see the head of choose.h. */
static uint64_t make_up(larder__choose *c, const uint64_t *sorted, uint64_t chosen, uint64_t want) {
    for (uint64_t i = 0; i < c->pool_size && chosen > want; i++) {
        uint8_t *tag = &c->tags[c->order[(uint32_t)sorted[i]]];
        chosen -= *tag == LARDER_TAG_HIGH;
        *tag = LARDER_TAG_LEFT;
    }
    for (uint64_t i = c->pool_size; i-- > 0 && chosen < want;) {
        uint8_t *tag = &c->tags[c->order[(uint32_t)sorted[i]]];
        chosen += *tag == LARDER_TAG_LEFT;
        *tag = LARDER_TAG_HIGH;
    }
    return chosen;
}

static void mark_low(larder__choose *c, const uint64_t *sorted, uint64_t chosen) {
    uint64_t low = chosen - (uint64_t)ceil(c->h_share * (double)chosen);
    for (uint64_t i = 0; i < c->pool_size && low; i++) {
        uint8_t *tag = &c->tags[c->order[(uint32_t)sorted[i]]];
        if (sorted[i] >> 32 == UINT32_MAX)
            return;
        low -= *tag == LARDER_TAG_HIGH;
        if (*tag == LARDER_TAG_HIGH)
            *tag = LARDER_TAG_LOW;
    }
}

static uint64_t wanted(const larder__choose *c, uint64_t chosen, bool all) {
    const larder_draw_env *e = c->env;
    uint64_t full = length_for(c, e->n), some;
    if (all)
        return full;
    if (e->world == 1)
        some = e->drop_last ? chosen - chosen % e->batch : chosen;
    else {
        uint64_t samples = (uint64_t)((double)e->n / (1 + c->beta));
        some = length_for(c, samples ? samples : 1);
    }
    return some ? some : full;
}

void larder__choose_epoch(larder__choose *c, uint64_t epoch, bool all) {
    larder_rng rng;
    larder_rng_seed(&rng, c->env->seed, 0x5e1ec7000 + epoch);
    shuffle(c->order, c->pool, c->pool_size, &rng);
    for (uint64_t i = 0; i < c->pool_size; i++) {
        float score = c->env->scores ? c->env->scores[c->order[i]] : NAN;
        c->sorted[i] = (uint64_t)larder__choose_key(score) << 32 | i;
    }
    uint64_t *sorted = larder__choose_sort(c->sorted, c->spare, c->pool_size);
    uint64_t chosen = choose(c, sorted, &rng, all), want = wanted(c, chosen, all);
    if (!all && chosen != want)
        chosen = make_up(c, sorted, chosen, want);
    mark_low(c, sorted, chosen);
    c->at = c->count = 0;
    for (uint64_t i = 0; i < c->pool_size; i++) {
        uint8_t *tag = &c->tags[c->order[i]];
        if (*tag != LARDER_TAG_LEFT && c->count < want) {
            if (c->weights)
                c->weights[c->count] = c->weights[i];
            c->order[c->count++] = c->order[i];
        } else
            *tag = LARDER_TAG_LEFT; /* drop_last leaves out a random few */
    }
    scale_weights(c);
}

uint64_t larder__choose_length(const void *st) { return ((const larder__choose *)st)->count; }
const uint8_t *larder__choose_tags(const void *st) { return ((const larder__choose *)st)->tags; }

size_t larder__choose_draw(void *st, larder_pick *out, size_t want) {
    larder__choose *c = st;
    size_t n = 0;
    for (; n < want && c->at < c->count; n++) {
        out[n].weight = c->weights ? c->weights[c->at] : 1;
        out[n].id = c->order[c->at++];
        out[n].tag = c->tags[out[n].id];
    }
    return n;
}

/* ---- saved state: scores move on during an epoch, so what was chosen is kept ----------------- */

void larder__choose_save(const void *st, larder_writer *w) {
    const larder__choose *c = st;
    larder_write_u64(w, c->at);
    larder_write_u64(w, c->count);
    for (uint64_t i = 0; i < c->count; i++)
        larder_write_u32(w, c->order[i]);
    larder_write_bytes(w, c->tags, c->env->n);
    if (c->weights)
        larder_write_bytes(w, c->weights, c->count * sizeof *c->weights);
}

int larder__choose_load(void *st, larder_reader *r) {
    larder__choose *c = st;
    uint64_t at = larder_read_u64(r), count = larder_read_u64(r);
    if (count > c->pool_size || at > count)
        return larder_read_reject(r, "more samples are chosen than there are");
    for (uint64_t i = 0; i < count; i++)
        c->order[i] = larder_read_index(r, c->env->n, false);
    larder_read_bytes(r, c->tags, c->env->n);
    if (c->weights)
        larder_read_bytes(r, c->weights, count * sizeof *c->weights);
    if (larder_read_status(r) < 0)
        return larder_read_status(r);
    for (uint64_t i = 0; c->weights && i < count; i++)
        if (at < count && !(c->weights[i] > 0 && isfinite(c->weights[i])))
            return larder_read_reject(r, "a weight is none");
    c->at = at;
    c->count = count;
    for (uint64_t i = 0; i < c->env->n; i++)
        if (c->tags[i] > (LARDER_TAG_RANK | LARDER_TAG_KEEP))
            return larder_read_reject(r, "a sample's tag makes no sense");
    return 0;
}
