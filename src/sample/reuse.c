#include "sample/reuse.h"

#include "base/mem.h"
#include "sample/permute.h"

#include <math.h>

static const double memory = 1024; /* stream samples after which `fresh` has faded to 1/e */
enum { TRIES = 32 };               /* draws of one resident before the table is searched */

static uint64_t words(const larder__reuse *r) { return (r->env->n + 63) / 64; }
static bool has(const uint64_t *bits, uint64_t id) { return bits[id >> 6] >> (id & 63) & 1; }
static void set(uint64_t *bits, uint64_t id) { bits[id >> 6] |= (uint64_t)1 << (id & 63); }
static void clear(uint64_t *bits, uint64_t id) { bits[id >> 6] &= ~((uint64_t)1 << (id & 63)); }

static void begin_sweep(larder__reuse *r, uint64_t sweep) {
    r->sweep = sweep;
    r->at = 0;
    larder__permute(r->order, (uint32_t)r->env->n, r->seed, sweep);
    larder__strata_spread(&r->strata, &r->order, r->seed, sweep);
    memset(r->served, 0, words(r) * sizeof *r->served);
}

/* Where the others are. Ranks have parts of their own, which they do not share. */
static bool shares_stream(const larder__reuse *r) {
    return r->conf.shares && r->env->stream && r->env->world == 1;
}

static void join_stream(larder__reuse *r) {
    larder_stream others;
    if (!shares_stream(r) || !r->env->stream(r->env->stream_arg, &others, true) ||
        others.at > r->env->n)
        return;
    r->seed = others.seed;
    begin_sweep(r, others.sweep);
    r->at = others.at < larder__reuse_length(r) ? others.at : larder__reuse_length(r);
}

static void tell_stream(const larder__reuse *r) {
    larder_stream here = {.seed = r->seed, .sweep = r->sweep, .at = r->at};
    if (shares_stream(r))
        r->env->stream(r->env->stream_arg, &here, false);
}

int larder__reuse_init(larder__reuse *r, const larder_draw_env *env,
                       const larder__reuse_conf *conf) {
    *r = (larder__reuse){.env = env, .conf = *conf, .seed = env->seed, .fresh = 1};
    larder__shard_init(&r->shard, env->n, env);
    larder_rng_seed(&r->rng, env->seed, 0xec400000u + env->rank);
    r->order = larder__malloc(env->n * sizeof *r->order);
    r->served = larder__calloc(words(r) + 1, sizeof *r->served);
    r->inside = larder__calloc(words(r) + 1, sizeof *r->inside);
    r->late = larder__malloc(env->batch * sizeof *r->late);
    if (!r->order || !r->served || !r->inside || !r->late)
        return LARDER_E_NOMEM;
    int rc = conf->strata ? larder__strata_open(&r->strata, env) : 0;
    if (rc < 0)
        return rc;
    begin_sweep(r, 0);
    join_stream(r);
    return 0;
}

void larder__reuse_fini(larder__reuse *r) {
    larder__free(r->order);
    larder__free(r->served);
    larder__free(r->inside);
    larder__free(r->late);
    larder__strata_close(&r->strata);
}

void larder__reuse_epoch(larder__reuse *r) { r->taken = 0; }
uint64_t larder__reuse_length(const void *st) {
    return larder__shard_length(&((const larder__reuse *)st)->shard);
}

/* ---- residents ------------------------------------------------------------------------------- */

/* Latched: evictions of large entries must not stop the draw again. */
bool larder__reuse_filled(larder__reuse *r) {
    const larder_slots *s = r->env->slots;
    if (!s || s->resident == 0)
        return false;
    double next = (double)s->bytes + (double)s->bytes / s->resident;
    r->filled = r->filled || r->sweep > 0 || s->resident >= larder__reuse_length(r) ||
                next > r->conf.fill * (double)s->budget;
    return r->filled;
}

/* Any resident, for policies without a preference. */
static bool any_resident(larder__reuse *r, uint64_t *id) {
    const larder_slots *s = r->env->slots;
    if (!s->key_of || !s->used) /* of a cache that lives elsewhere */
        return false;
    *id = s->key_of[larder_rng_below(&r->rng, s->used)];
    return *id != UINT32_MAX;
}

/* The first resident not in the batch from a random place on: only when it holds nearly all. */
static bool search(larder__reuse *r, uint64_t *id) {
    const larder_slots *s = r->env->slots;
    if (!s->key_of || !s->used)
        return false;
    uint32_t from = larder_rng_below(&r->rng, s->used);
    for (uint32_t i = 0; i < s->used; i++) {
        *id = s->key_of[(uint32_t)(((uint64_t)from + i) % s->used)];
        if (*id != UINT32_MAX && !has(r->inside, *id))
            return true;
    }
    return false;
}

static bool draw_resident(larder__reuse *r, uint64_t *id) {
    for (int i = 0; i < TRIES; i++) {
        bool got = r->env->pick && r->env->pick(r->env->pick_arg, &r->rng, id);
        if ((got || any_resident(r, id)) && !has(r->inside, *id))
            return true;
    }
    return search(r, id);
}

static void put(larder__reuse *r, larder_pick *out, uint64_t id) {
    out->id = id;
    out->tag = r->conf.skips ? larder_tag_sweep(r->sweep) : 0;
    set(r->inside, id);
    set(r->served, id);
}

static size_t draw_residents(larder__reuse *r, double h, larder_pick *out, size_t want) {
    if (!larder__reuse_filled(r))
        return 0;
    r->owed += h * (double)want;
    size_t k = (size_t)fmin(r->owed, (double)want), n = 0;
    r->owed = fmin(r->owed - (double)k, 1);
    for (uint64_t id; n < k && n < r->env->slots->resident; n++) {
        if (!draw_resident(r, &id))
            break;
        put(r, &out[n], id);
    }
    return n;
}

/* ---- the stream ------------------------------------------------------------------------------ */

static bool resident(const larder__reuse *r, uint64_t id) {
    return r->env->resident(r->env->resident_arg, id);
}

/* Serves the id now, later or not at all in this sweep. */
static bool offer(larder__reuse *r, uint64_t id, larder_pick *out) {
    bool there = resident(r, id);
    if (r->conf.skips && there && has(r->served, id))
        return false;
    if (has(r->inside, id)) {
        if (r->waiting < r->env->batch) /* else its place in this batch counts for both sweeps */
            r->late[r->waiting++] = (uint32_t)id;
        return false;
    }
    put(r, out, id);
    r->fresh += ((there ? 0 : 1) - r->fresh) / memory;
    return true;
}

static size_t serve_late(larder__reuse *r, larder_pick *out, size_t want) {
    uint32_t all = r->waiting, i = 0;
    size_t n = 0;
    r->waiting = 0;
    while (i < all && n < want)
        n += offer(r, r->late[i++], &out[n]); /* puts back at most what it took */
    memmove(r->late + r->waiting, r->late + i, (all - i) * sizeof *r->late);
    r->waiting += all - i;
    return n;
}

/* One sweep's end in a batch is enough: a whole sweep has at least a batch of different ids. */
static size_t serve_stream(larder__reuse *r, larder_pick *out, size_t want) {
    size_t n = serve_late(r, out, want);
    for (bool crossed = false; n < want;) {
        if (r->at == larder__reuse_length(r)) {
            if (crossed)
                break;
            crossed = true;
            begin_sweep(r, r->sweep + 1);
        }
        uint32_t id = r->order[larder__shard_at(&r->shard, r->at++)];
        n += offer(r, id, &out[n]);
    }
    return n;
}

size_t larder__reuse_draw(larder__reuse *r, double h, larder_pick *out, size_t want) {
    uint64_t left = larder__reuse_length(r) - r->taken;
    want = want < left ? want : (size_t)left;
    size_t n = draw_residents(r, h, out, want);
    n += serve_stream(r, out + n, want - n);
    for (size_t i = 0; i < n; i++)
        clear(r->inside, out[i].id);
    r->taken += n;
    tell_stream(r);
    return n;
}

/* ---- saved state ----------------------------------------------------------------------------- */

void larder__reuse_save(const void *st, larder_writer *w) {
    const larder__reuse *r = st;
    larder_write_u64(w, r->seed);
    larder_write_u64(w, r->sweep);
    larder_write_u64(w, r->at);
    larder_write_u64(w, r->taken);
    larder_write_u32(w, r->filled);
    larder_write_f64(w, r->owed);
    larder_write_f64(w, r->fresh);
    for (int i = 0; i < 4; i++)
        larder_write_u64(w, r->rng.s[i]);
    for (uint64_t i = 0; i < words(r); i++)
        larder_write_u64(w, r->served[i]);
    larder_write_u32(w, r->waiting);
    for (uint32_t i = 0; i < r->waiting; i++)
        larder_write_u32(w, r->late[i]);
}

int larder__reuse_load(void *st, larder_reader *in) {
    larder__reuse *r = st;
    r->seed = larder_read_u64(in);
    begin_sweep(r, larder_read_u64(in));
    r->at = larder_read_u64(in);
    r->taken = larder_read_u64(in);
    r->filled = larder_read_u32(in) == 1;
    r->owed = larder_read_f64(in);
    r->fresh = larder_read_f64(in);
    for (int i = 0; i < 4; i++)
        r->rng.s[i] = larder_read_u64(in);
    for (uint64_t i = 0; i < words(r); i++)
        r->served[i] = larder_read_u64(in);
    r->waiting = larder_read_u32(in);
    bool fits = r->at <= larder__reuse_length(r) && r->taken <= larder__reuse_length(r) &&
                r->waiting <= r->env->batch && r->owed >= 0 && r->owed <= 1 && r->fresh >= 0 &&
                r->fresh <= 1 && (r->rng.s[0] | r->rng.s[1] | r->rng.s[2] | r->rng.s[3]);
    if (!fits) {
        r->waiting = 0;
        r->at = r->taken = 0;
        r->owed = 0;
        r->fresh = 1;
        return larder_read_reject(in, "its sweep does not fit this data set");
    }
    for (uint32_t i = 0; i < r->waiting; i++)
        r->late[i] = larder_read_index(in, r->env->n, false);
    return larder_read_status(in);
}
