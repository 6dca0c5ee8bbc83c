/* The client's half of opportunistic sampling: exactly-once epochs in which the cache has a say.
 *
 * The job has a random order of its own and notes what it was served. The next ids of that order
 * that were not served yet are what it wants; the cache answers with what it gets instead
 * (larder_draw_env.exchange), wherever that cache is. Nothing of what the cache says can break the
 * promise of once an epoch: an answer that was served before, or does not exist, is replaced by
 * what was wanted. Without a cache that exchanges it is plain uniform training.
 *
 * Several ranks: each has a part of the samples for good, drawn once from the seed, so that what it
 * keeps will be asked for again. The others are tagged LARDER_TAG_LEFT. */
#include "base/mem.h"
#include "sample/permute.h"
#include "sample/shard.h"

typedef struct ods_order {
    const larder_draw_env *env;
    uint32_t *pool; /* this rank's samples, NULL: all */
    uint32_t *order;
    uint64_t *served; /* one bit a sample: not to be drawn again in this epoch */
    uint8_t *tags;    /* NULL with one rank */
    uint64_t *wanted, *given;
    uint64_t mine, length; /* samples of this rank; drawn in an epoch */
    uint64_t at, drawn;    /* nothing before `at` of the order is left; drawn in this epoch */
} ods_order;

static uint64_t words(const ods_order *o) { return o->env->n / 64 + 1; }

static bool was_served(const ods_order *o, uint64_t id) {
    return o->served[id >> 6] >> (id & 63) & 1;
}
static void mark(ods_order *o, uint64_t id) { o->served[id >> 6] |= (uint64_t)1 << (id & 63); }

/* The parts do not follow drop_last, else the same samples would be dropped in every epoch. */
static int share_out(ods_order *o) {
    larder_draw_env all = *o->env;
    larder__shard part;
    all.drop_last = false;
    larder__shard_init(&part, o->env->n, &all);
    o->mine = larder__shard_length(&part);
    if (o->env->drop_last && part.tail_at >= o->env->n)
        o->mine = part.full; /* a repeated one that nobody idles for */
    if (o->env->world == 1)
        return 0;
    o->pool = larder__malloc(o->mine * sizeof *o->pool);
    o->tags = larder__malloc(o->env->n);
    if (!o->pool || !o->tags)
        return LARDER_E_NOMEM;
    larder__permute(o->order, (uint32_t)o->env->n, o->env->seed, UINT32_MAX);
    memset(o->tags, LARDER_TAG_LEFT, o->env->n);
    for (uint64_t i = 0; i < o->mine; i++) {
        o->pool[i] = o->order[larder__shard_at(&part, i)];
        o->tags[o->pool[i]] = 0;
    }
    return 0;
}

static int init(void *st, const larder_draw_env *env, const larder_args *args) {
    ods_order *o = st;
    larder__shard shard;
    (void)args;
    o->env = env;
    o->order = larder__calloc(env->n, sizeof *o->order); /* a state may be loaded before an epoch */
    o->served = larder__calloc(words(o), sizeof *o->served);
    o->wanted = larder__malloc(env->batch * sizeof *o->wanted);
    o->given = larder__malloc(env->batch * sizeof *o->given);
    if (!o->order || !o->served || !o->wanted || !o->given)
        return LARDER_E_NOMEM;
    larder__shard_init(&shard, env->n, env);
    o->length = larder__shard_length(&shard);
    return share_out(o);
}

static void fini(void *st) {
    ods_order *o = st;
    larder__free(o->pool);
    larder__free(o->order);
    larder__free(o->served);
    larder__free(o->tags);
    larder__free(o->wanted);
    larder__free(o->given);
}

static int epoch(void *st, uint64_t e) {
    ods_order *o = st;
    larder__permute(o->order, (uint32_t)o->mine, o->env->seed, e);
    for (uint64_t i = 0; o->pool && i < o->mine; i++)
        o->order[i] = o->pool[o->order[i]];
    memset(o->served, 0, words(o) * sizeof *o->served);
    for (uint64_t id = 0; o->tags && id < o->env->n; id++)
        if (o->tags[id])
            mark(o, id);
    o->at = o->drawn = 0;
    return 0;
}

static uint64_t length(const void *st) { return ((const ods_order *)st)->length; }
static const uint8_t *tags(const void *st) { return ((const ods_order *)st)->tags; }

/* The first `want` samples of the order that are left. */
static size_t look_for(ods_order *o, size_t want) {
    size_t n = 0;
    while (o->at < o->mine && was_served(o, o->order[o->at]))
        o->at++;
    for (uint64_t i = o->at; n < want && i < o->mine; i++)
        if (!was_served(o, o->order[i]))
            o->wanted[n++] = o->order[i];
    return n;
}

static size_t draw(void *st, larder_pick *out, size_t want) {
    ods_order *o = st;
    if (want > o->length - o->drawn)
        want = (size_t)(o->length - o->drawn);
    size_t n = look_for(o, want), spare = 0;
    if (o->env->exchange)
        o->env->exchange(o->env->exchange_arg, o->wanted, n, o->given);
    else
        memcpy(o->given, o->wanted, n * sizeof *o->given);
    for (size_t i = 0; i < n; i++) {
        uint64_t id = o->given[i];
        if (id >= o->env->n || was_served(o, id)) {
            out[i].id = UINT64_MAX;
            continue;
        }
        mark(o, id);
        out[i].id = id;
    }
    for (size_t i = 0; i < n; i++) { /* as many are wanted as have to be found */
        if (out[i].id != UINT64_MAX)
            continue;
        while (was_served(o, o->wanted[spare]))
            spare++;
        mark(o, out[i].id = o->wanted[spare]);
    }
    o->drawn += n;
    return n;
}

static void save(const void *st, larder_writer *w) {
    const ods_order *o = st;
    larder_write_u64(w, o->at);
    larder_write_u64(w, o->drawn);
    for (uint64_t i = 0; i < words(o); i++)
        larder_write_u64(w, o->served[i]);
}

static int load(void *st, larder_reader *r) {
    ods_order *o = st;
    uint64_t at = larder_read_u64(r), drawn = larder_read_u64(r), left = 0;
    for (uint64_t i = 0; i < words(o); i++)
        o->served[i] = larder_read_u64(r);
    for (uint64_t i = at; i < o->mine; i++)
        left += !was_served(o, o->order[i]);
    if (at > o->mine || drawn > o->length || left < o->length - drawn)
        return larder_read_reject(r, "its order does not fit this epoch");
    o->at = at;
    o->drawn = drawn;
    return larder_read_status(r);
}

const larder_sampler larder__sampler_ods = {
    .plugin = {.name = "ods",
               .summary = "every id once; the cache gives what it has for what is missing",
               .state_size = sizeof(ods_order)},
    .init = init,
    .fini = fini,
    .epoch = epoch,
    .draw = draw,
    .length = length,
    .tags = tags,
    .save = save,
    .load = load,
};
