/* The deciding half's beginning and end: recipe, cache, signal and sampler. */
#include "base/err.h"
#include "base/mem.h"
#include "loader/draw/draw_inside.h"
#include "unix/rank_link.h"

#include <math.h>
#include <stdlib.h>

static bool is_resident(const void *cache, uint64_t id) {
    return larder__cache_resident(cache, id);
}
static bool pick_resident(void *cache, larder_rng *rng, uint64_t *id) {
    return larder__cache_pick(cache, rng, id);
}

static void exchange(void *cache, const uint64_t *wanted, size_t n, uint64_t *served) {
    larder__cache_exchange(cache, 0, wanted, n, served);
}

static bool stream(void *cache, larder_stream *s, bool join) {
    return larder__cache_stream(cache, s, join);
}

static uint32_t entry_size(void *arg, uint64_t id) {
    const larder__draw *d = arg;
    return d->conf.size ? d->conf.size : d->conf.size_of(d->conf.size_arg, id);
}

static int file_of(void *arg, uint64_t id, uint64_t *file) {
    const larder__draw *d = arg;
    *file = 0;
    return d->conf.file_of ? d->conf.file_of(d->conf.file_arg, id, file) : 0;
}

static int open_signal(larder__draw *d) {
    if (!d->recipe.signal)
        return 0;
    d->scores = larder__malloc(d->conf.n * sizeof *d->scores);
    d->signal = larder__calloc(1, d->recipe.signal->plugin.state_size);
    if (!d->scores || !d->signal)
        return LARDER_E_NOMEM;
    for (uint64_t i = 0; i < d->conf.n; i++)
        d->scores[i] = NAN;
    int rc = d->recipe.signal->init(d->signal, d->conf.n, &d->recipe.signal_args);
    if (rc < 0 || !d->recipe.signal->prepare)
        return rc;
    larder__scoring_conf conf = {.signal = d->recipe.signal,
                                 .state = d->signal,
                                 .scores = d->scores,
                                 .n = d->conf.n,
                                 .lag = d->conf.lag,
                                 .mode = !d->conf.beside ? LARDER__SCORE_INLINE
                                         /* ranks that decide alike cannot go by their clocks */
                                         : d->recipe.wait || d->ranks.world ? LARDER__SCORE_WAIT
                                                                            : LARDER__SCORE_BESIDE,
                                 .stats = d->conf.stats};
    return larder__scoring_open(&d->scoring, &conf);
}

static int open_sampler(larder__draw *d) {
    d->env = (larder_draw_env){.n = d->conf.n,
                               .seed = d->conf.seed,
                               .batch = d->conf.batch,
                               .rank = d->conf.rank,
                               .world = d->conf.world,
                               .drop_last = d->conf.drop_last,
                               .scores = d->scores,
                               .slots = larder__cache_slots(d->cache),
                               .resident = is_resident,
                               .resident_arg = d->cache,
                               .pick = pick_resident,
                               .pick_arg = d->cache,
                               .exchange = exchange,
                               .exchange_arg = d->cache,
                               .stream = stream,
                               .stream_arg = d->cache,
                               .class_of = d->conf.group_of,
                               .class_arg = d->conf.group_arg,
                               .memorised = d->watched ? &d->memorised : NULL,
                               .size_of = entry_size,
                               .file_of = file_of,
                               .file_arg = d};
    d->sampler = larder__calloc(1, d->recipe.sampler->plugin.state_size);
    int rc = d->sampler ? d->recipe.sampler->init(d->sampler, &d->env, &d->recipe.sampler_args)
                        : LARDER_E_NOMEM;
    if (rc < 0)
        return rc;
    d->length = d->recipe.sampler->length(d->sampler);
    if (d->recipe.policy->future != LARDER_FUTURE_EPOCH || !d->recipe.sampler->fixed_order)
        return 0;
    d->next_place = larder__malloc(d->conf.n * sizeof *d->next_place);
    d->ahead = larder__calloc(1, d->recipe.sampler->plugin.state_size);
    return d->next_place && d->ahead
               ? d->recipe.sampler->init(d->ahead, &d->env, &d->recipe.sampler_args)
               : LARDER_E_NOMEM;
}

/* A folder in the environment counts where the recipe names none, in simulation as well. */
static int take_scratch(larder__recipe *r) {
    const char *folder = getenv("LARDER_SCRATCH");
    if (!LARDER_HAS(r->policy, brings, package) || !folder || !folder[0] ||
        larder_args_text(&r->policy_args, "scratch")[0])
        return 0;
    if (strlen(folder) > 4000)
        return larder__fail(LARDER_E_ARGS,
                            "LARDER_SCRATCH names a folder by %zu bytes; 4000 are "
                            "enough",
                            strlen(folder));
    return larder__args_set_text(&r->policy_args, "scratch", folder);
}

static int check(const larder__draw_conf *c) {
    if (c->n == 0)
        return larder__fail(LARDER_E_ARGS, "the data set is empty");
    if (c->n >= UINT32_MAX)
        return larder__fail(LARDER_E_RANGE, "%llu samples: at most 4 billion",
                            (unsigned long long)c->n);
    if (c->batch == 0 || c->batch > 1u << 24)
        return larder__fail(LARDER_E_ARGS, "a batch size of %llu makes no sense",
                            (unsigned long long)c->batch);
    if (c->world == 0 || c->rank >= c->world || c->world > 1u << 20)
        return larder__fail(LARDER_E_ARGS, "rank %u of %u makes no sense", c->rank, c->world);
    if (c->batch * c->world > 1u << 24 && c->cache->order == LARDER__IN_STEP)
        return larder__fail(LARDER_E_ARGS, "a batch of %llu for all ranks makes no sense",
                            (unsigned long long)(c->batch * c->world));
    if (c->drop_last && c->n < c->batch * c->world)
        return larder__fail(LARDER_E_ARGS, "drop_last leaves nothing: %llu samples, batch of %llu",
                            (unsigned long long)c->n, (unsigned long long)(c->batch * c->world));
    return 0;
}

/* Ranks that decide together are one process that does it all. */
static void join_ranks(larder__draw *d) {
    larder__draw_conf *c = &d->conf;
    if (c->cache->order != LARDER__IN_STEP)
        return;
    c->batch *= c->world;
    d->ranks = (larder__ranks){.rank = c->rank, .world = c->world, .batch = c->batch};
    c->rank = 0;
    c->world = 1;
}

static int check_recipe(const larder__draw *d) {
    const larder_policy *p = d->recipe.policy;
    if (larder__parts_keep(d->conf.parts) && LARDER_HAS(p, lends, stand_in))
        return larder__fail(LARDER_E_ARGS,
                            "policy %s serves stand-ins, and they need whole samples: it does not "
                            "go with a cache that keeps parts",
                            p->plugin.name);
    if (p->future == LARDER_FUTURE_ALL && d->conf.store->real)
        return larder__fail(LARDER_E_ARGS,
                            "policy %s needs the future: it works in larder sim alone",
                            p->plugin.name);
    return 0;
}

/* Where no sample comes before its next epoch, there is nothing to compare. Reports come for as
 * many batches back as feedback has places for, and without feedback more may be drawn ahead. */
static int open_recent(larder__draw *d) {
    const larder_sampler *s = d->recipe.sampler;
    if (!s->repeats && !LARDER_HAS(d->recipe.policy, lends, stand_in))
        return 0;
    d->watched = s->watches && s->watches(&d->recipe.sampler_args);
    d->memorised = larder__gap_read(&d->gap);
    larder__recent_conf conf = {.n = d->conf.n,
                                .share = (d->conf.n + d->conf.world - 1) / d->conf.world,
                                .batch = d->conf.batch,
                                .batches = d->conf.lag + 2 + LARDER__AHEAD_MOST};
    return larder__recent_open(&d->recent, &conf);
}

/* Room for one batch, and for what training says until it is due. */
static int open_room(larder__draw *d) {
    int rc = open_recent(d);
    if (rc < 0)
        return rc;
    bool hears = d->recipe.signal || d->watched || d->recipe.sampler->accuracy ||
                 LARDER_HAS(d->recipe.policy, hears, accuracy);
    d->picks = larder__calloc(d->conf.batch, sizeof *d->picks);
    if (!d->picks)
        return LARDER_E_NOMEM;
    return hears ? larder__feedback_open(&d->feedback, d->conf.n, d->conf.lag) : 0;
}

/* And for what comes besides it, which the sampler knows. */
static int open_besides(larder__draw *d) {
    d->fetched = larder__calloc(larder__draw_fetch_room(d) + 1, sizeof *d->fetched);
    if (!d->fetched)
        return LARDER_E_NOMEM;
    if (!d->ranks.world)
        return 0;
    d->rows_of = larder__calloc(d->conf.lag + 1, sizeof *d->rows_of);
    return d->rows_of ? larder__planned_open_all(&d->all, d) : LARDER_E_NOMEM;
}

static int open_all(larder__draw *d) {
    int rc = larder__recipe_parse(&d->recipe, d->conf.recipe);
    d->recipe.shrink.on |= d->conf.guessed;
    if (rc < 0 || (rc = take_scratch(&d->recipe)) < 0 || (rc = check_recipe(d)) < 0 ||
        (rc = open_room(d)) < 0 || (rc = larder__draw_open_cache(d)) < 0 ||
        (rc = open_signal(d)) < 0 || (rc = open_sampler(d)) < 0 || (rc = open_besides(d)) < 0)
        return rc;
    return larder__draw_open_talk(d);
}

int larder__draw_open(larder__draw **out, const larder__draw_conf *conf) {
    *out = NULL;
    int rc = check(conf);
    if (rc < 0)
        return rc;
    larder__draw *d = larder__calloc(1, sizeof *d);
    if (!d)
        return LARDER_E_NOMEM;
    d->conf = *conf;
    join_ranks(d);
    if ((rc = open_all(d)) < 0) {
        larder__draw_close(&d);
        return rc;
    }
    larder__draw_note_room(d);
    d->conf.name = d->conf.recipe = NULL;
    d->conf.cache = NULL;
    *out = d;
    return 0;
}

void larder__draw_close(larder__draw **pd) {
    larder__draw *d = *pd;
    *pd = NULL;
    if (!d)
        return;
    larder__draw_close_talk(d);
    larder__scoring_close(&d->scoring); /* its thread uses the signal */
    if (d->sampler && d->recipe.sampler->fini)
        d->recipe.sampler->fini(d->sampler);
    if (d->ahead && d->recipe.sampler->fini)
        d->recipe.sampler->fini(d->ahead);
    if (d->signal && d->recipe.signal && d->recipe.signal->fini)
        d->recipe.signal->fini(d->signal);
    larder__cache_close(&d->cache);
    larder__unix_ranks_close(&d->link);
    larder__replan_close(&d->replan);
    larder__feedback_close(&d->feedback);
    larder__free(d->unsettled.at);
    larder__recent_close(&d->recent);
    larder__recipe_free(&d->recipe);
    larder__free(d->sampler);
    larder__free(d->ahead);
    larder__free(d->next_place);
    larder__free(d->signal);
    larder__free(d->scores);
    larder__planned_close(&d->all);
    larder__free((void *)d->rows_of);
    larder__free(d->picks);
    larder__free(d->fetched);
    larder__free(d);
}
