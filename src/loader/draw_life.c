/* The deciding half's beginning and end: recipe, cache, signal and sampler. */
#include "base/err.h"
#include "base/limit.h"
#include "base/mem.h"
#include "loader/draw_inside.h"
#include "loader/far_cache.h"
#include "loader/job_cache.h"
#include "loader/shared_cache.h"
#include "redis/uri.h"

#include <math.h>
#include <stdlib.h>

static bool is_resident(const void *cache, uint64_t id) {
    return larder__cache_resident(cache, id);
}
static bool pick_resident(void *cache, larder_rng *rng, uint64_t *id, double *share) {
    return larder__cache_pick(cache, rng, id, share);
}

static void exchange(void *cache, const uint64_t *wanted, size_t n, uint64_t *served) {
    larder__cache_exchange(cache, 0, wanted, n, served);
}

static bool stream(void *cache, larder_stream *s, bool join) {
    return larder__cache_stream(cache, s, join);
}

static int percent(double share) { return (int)(share * 100 + 0.5); }

/* What is known before anything is measured. */
static void open_replan(larder__draw *d, const double share[LARDER_FORMS]) {
    larder_rates r;
    double each = (double)d->conf.payload / (double)d->conf.n;
    double pixels = fmax(d->conf.decoded_ratio * each, d->conf.decoded_bytes);
    uint64_t mine = d->conf.n / d->conf.world;
    larder__rates_defaults(&r);
    r.n_total = (double)(mine ? mine : 1);
    r.s_data = fmax(each, 1);
    r.s_cache = (double)larder__cache_slots(d->cache)->budget;
    r.m = fmax(d->conf.row_bytes / r.s_data, 1e-9);
    r.m_decoded = fmax(pixels / r.s_data, 1);
    r.batch = (double)d->conf.batch;
    r.jobs = 1; /* this one: an augmented sample has to be made again for its next use */
    larder_split start = {.encoded = percent(share[LARDER_ENCODED]),
                          .decoded = percent(share[LARDER_DECODED]),
                          .augmented = percent(share[LARDER_AUGMENTED])};
    larder__replan_open(&d->replan, &r, start, d->conf.cores ? d->conf.cores : 1,
                        mine / d->conf.batch + 1);
}

/* To the daemon that the ranks of a job share: it may be told how large the cache is, or tell. */
static int join_daemon(larder__draw *d, const larder__budget *b, uint64_t *bytes) {
    larder__daemon_address where;
    int rc = larder__daemon_parse(d->conf.cache, &where);
    bool any = !where.budget[0] && !d->recipe.policy->holds_all;
    if (rc == 0)
        rc = larder__job_cache_join(&d->link, &d->conf, d->ranks, any ? UINT64_MAX : *bytes,
                                    b->share[LARDER_ENCODED] < 1);
    if (rc == 0)
        *bytes = larder__crew_budget(d->link);
    return rc;
}

/* "20%" is a share of the payload with metadata on top; "8GiB" is all the memory there may be. */
static int open_cache(larder__draw *d) {
    larder__budget b;
    int rc = larder__draw_budget(&d->recipe, d->conf.cache, &b);
    if (rc < 0)
        return rc;
    bool far = larder__redis_named(d->conf.cache), real = d->conf.store->real;
    bool local = larder__job_cache_local(d->conf.cache);
    if (real && (far || larder__cache_is_shared(d->conf.cache)) &&
        larder__parts_keep(d->conf.parts))
        return larder__fail(LARDER_E_ARGS, "a shared cache keeps whole samples, not parts");
    if (d->ranks.world && d->recipe.replan)
        return larder__fail(LARDER_E_UNSUPPORTED,
                            "plan=auto needs a cache of its own; give the ranks of a job a split");
    if (real && !far && !local && larder__cache_is_shared(d->conf.cache)) {
        int there = larder__shared_cache_open(&d->cache, &d->conf, &d->recipe, b.share);
        if (there == 0 && d->recipe.replan) /* planned there; this one only says how it began */
            open_replan(d, b.share);
        if (there != LARDER_E_FULL || larder__cache_names_daemon(d->conf.cache))
            return there; /* the environment is a wish: a full daemon stops nobody */
        larder__note(d->conf.stats,
                     "the daemon at %s (LARDER_SOCKET) has no room for this cache, so this job has "
                     "one of its own: %s",
                     getenv("LARDER_SOCKET"), larder_errmsg());
    }
    if (d->recipe.policy->holds_all)
        b = (larder__budget){.relative = true, .fraction = 1, .share = {1}};
    uint64_t bytes = b.relative ? (uint64_t)(b.fraction * (double)d->conf.payload + 0.5) : b.bytes;
    larder__tiers tiers = {0};
    if (far && (rc = larder__far_cache_size(d->conf.cache, d->conf.payload, &bytes, &tiers)) < 0)
        return rc;
    if (local && d->conf.beside && (rc = join_daemon(d, &b, &bytes)) < 0)
        return rc;
    if (real && !far && !local && bytes > larder__memory_limit()) {
        char want[32], have[32];
        return larder__fail(LARDER_E_RANGE, "cache \"%s\" is %s, but this process may use %s",
                            d->conf.cache, larder__print_bytes((double)bytes, want),
                            larder__print_bytes((double)larder__memory_limit(), have));
    }
    uint64_t limit;
    if ((b.share[LARDER_ENCODED] < 1 || d->recipe.replan) && larder__draw_scratch(d, &limit))
        return larder__fail(LARDER_E_ARGS,
                            "packages in a scratch folder hold encoded samples: leave out the "
                            "split, plan= or scratch= (and LARDER_SCRATCH)");
    if (d->recipe.replan && d->recipe.policy->holds_all)
        return larder__fail(LARDER_E_ARGS, "policy %s keeps everything: there is nothing to plan",
                            d->recipe.policy->plugin.name);
    larder__forms forms = {.decoded_ratio = d->conf.decoded_ratio,
                           .decoded_bytes = d->conf.decoded_bytes,
                           .row_bytes = d->conf.row_bytes,
                           .movable = d->recipe.replan};
    memcpy(forms.share, b.share, sizeof forms.share);
    larder__cache_conf conf = {.policy = d->recipe.policy,
                               .args = &d->recipe.policy_args,
                               .store = d->conf.store,
                               .keys = d->conf.n,
                               .budget = bytes,
                               .budget_covers_all = !b.relative && !local,
                               .forms = &forms,
                               .tiers = &tiers,
                               .seed = d->conf.seed,
                               .epochs = d->conf.epochs,
                               .stats = d->conf.stats,
                               .alone = d->conf.parts != NULL};
    rc = real && far ? larder__far_cache_open(&d->cache, &d->conf, &d->recipe, &conf)
         : real && local
             ? larder__job_cache_open(&d->cache, &d->conf, &conf, larder__crew_depot(d->link))
             : larder__cache_open(&d->cache, &conf);
    if (rc == 0 && d->recipe.replan)
        open_replan(d, b.share);
    return rc;
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
                               .stream_arg = d->cache};
    d->sampler = larder__calloc(1, d->recipe.sampler->plugin.state_size);
    int rc = d->sampler ? d->recipe.sampler->init(d->sampler, &d->env, &d->recipe.sampler_args)
                        : LARDER_E_NOMEM;
    if (rc < 0)
        return rc;
    d->length = d->recipe.sampler->length(d->sampler);
    if (!d->recipe.policy->needs_order || !d->recipe.sampler->fixed_order)
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
    if (!r->policy->package || !folder || !folder[0] ||
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
    if (c->batch * c->world > 1u << 24 && larder__job_cache_named(c->cache))
        return larder__fail(LARDER_E_ARGS, "a batch of %llu for all ranks makes no sense",
                            (unsigned long long)(c->batch * c->world));
    if (c->drop_last && c->n < c->batch * c->world)
        return larder__fail(LARDER_E_ARGS, "drop_last leaves nothing: %llu samples, batch of %llu",
                            (unsigned long long)c->n, (unsigned long long)(c->batch * c->world));
    return 0;
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
    if (larder__job_cache_named(conf->cache)) {
        d->conf.batch *= conf->world;
        d->ranks =
            (larder__ranks){.rank = conf->rank, .world = conf->world, .batch = d->conf.batch};
        d->conf.rank = 0;
        d->conf.world = 1;
    }
    if ((rc = larder__recipe_parse(&d->recipe, conf->recipe)) < 0 ||
        (rc = take_scratch(&d->recipe)) < 0) {
        larder__recipe_free(&d->recipe);
        larder__free(d);
        return rc;
    }
    if (larder__parts_keep(conf->parts) && d->recipe.policy->stand_in)
        rc = larder__fail(LARDER_E_ARGS,
                          "policy %s serves stand-ins, and they need whole samples: it does not go "
                          "with a cache that keeps parts",
                          d->recipe.policy->plugin.name);
    if (rc == 0 && d->recipe.policy->needs_future && conf->store->real)
        rc = larder__fail(LARDER_E_ARGS, "policy %s needs the future: it works in larder sim alone",
                          d->recipe.policy->plugin.name);
    if (rc == 0 &&
        (!(d->picks = larder__calloc(d->conf.batch, sizeof *d->picks)) ||
         !(d->fetched = larder__calloc(larder__draw_fetch_room(d) + 1, sizeof *d->fetched))))
        rc = LARDER_E_NOMEM;
    bool hears = d->recipe.signal || d->recipe.sampler->accuracy || d->recipe.policy->accuracy;
    if (rc == 0 && hears)
        rc = larder__feedback_open(&d->feedback, conf->n, conf->lag);
    if (rc == 0 && d->ranks.world)
        rc = (d->rows_of = larder__calloc(conf->lag + 1, sizeof *d->rows_of))
                 ? larder__planned_open_all(&d->all, d)
                 : LARDER_E_NOMEM;
    if (rc < 0 || (rc = open_cache(d)) < 0 || (rc = open_signal(d)) < 0 ||
        (rc = open_sampler(d)) < 0 || (rc = larder__draw_open_talk(d)) < 0) {
        larder__draw_close(&d);
        return rc;
    }
    larder__draw_note_room(d);
    d->conf.recipe = d->conf.cache = NULL;
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
    larder__crew_close(&d->link);
    larder__replan_close(&d->replan);
    larder__feedback_close(&d->feedback);
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
