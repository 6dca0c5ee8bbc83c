/* The requests of a recorded job through another policy: the same ids in the same order, so that
 * what cannot be beaten (belady) is known for this very job. */
#include "base/err.h"
#include "base/mem.h"
#include "base/spec.h"
#include "cache/local.h"
#include "loader/draw/draw.h"
#include "loader/figures/ledger.h"
#include "plugins.h"
#include "sim/sim.h"

#include <math.h>

typedef struct replay {
    const larder__tape *tape;
    const _Atomic int *stop;
    larder__sim_result *out;
    larder__feed *feed;
    larder__cache *cache;
    larder__ledger *ledger;
    larder__feed_clock clock;
    uint32_t *next; /* by request; NULL unless the policy wants the future */
    float *scores;  /* by id: its latest loss, `lag` batches late */
    larder_access *a;
    larder__ticket *t;
    uint64_t *served, *keys;
    float *fresh;
    uint32_t *bytes;
    uint8_t *kinds, *forms;
} replay;

static int open_cache(replay *r, const char *spec, const larder__cache_text *cache, bool *future) {
    const larder__tape_job *j = &r->tape->job;
    char name[64];
    const char *rest = "";
    larder_args args;
    const larder__budget *b = &larder__cache_back(cache)->budget;
    int rc = larder__spec_name(spec, name, sizeof name, &rest);
    const larder_policy *policy = rc < 0 ? NULL : larder__policy_find(name);
    if (!policy)
        return rc < 0 ? rc : LARDER_E_ARGS;
    if (b->share[LARDER_ENCODED] < 1)
        return larder__fail(LARDER_E_ARGS, "cache \"%s\": --policy replays encoded samples",
                            cache->shown);
    if ((rc = larder__args_parse(&args, "policy", &policy->plugin, rest, ',', NULL)) < 0)
        return rc;
    uint64_t bytes = larder__cache_tier_bytes(larder__cache_back(cache), j->payload);
    larder__cache_conf conf = {.policy = policy,
                               .args = &args,
                               .store = &larder__store_null,
                               .keys = j->samples,
                               .budget = policy->holds_all ? j->payload : bytes,
                               .budget_covers_all = !b->relative && !policy->holds_all,
                               .seed = j->seed,
                               .epochs = j->epochs};
    *future = policy->future != LARDER_FUTURE_NONE;
    rc = larder__cache_open(&r->cache, &conf);
    larder__args_free(&args);
    return rc;
}

static int open_arrays(replay *r) {
    const larder__tape *t = r->tape;
    size_t n = t->job.batch;
    uint64_t last = t->count ? t->batches[t->count - 1].epoch + 1 : 1;
    r->a = larder__calloc(n, sizeof *r->a);
    r->t = larder__calloc(n, sizeof *r->t);
    r->served = larder__calloc(n, sizeof *r->served);
    r->keys = larder__calloc(n, sizeof *r->keys);
    r->fresh = larder__calloc(n, sizeof *r->fresh);
    r->bytes = larder__calloc(n, sizeof *r->bytes);
    r->kinds = larder__calloc(n, sizeof *r->kinds);
    r->forms = larder__calloc(n, sizeof *r->forms);
    r->scores = larder__malloc(t->job.samples * sizeof *r->scores);
    r->out->epochs = larder__calloc(last, sizeof *r->out->epochs);
    r->out->shown = larder__calloc(last, sizeof *r->out->shown);
    r->out->precision = larder__calloc(last, sizeof *r->out->precision);
    if (!r->a || !r->t || !r->served || !r->keys || !r->fresh || !r->bytes || !r->kinds ||
        !r->forms || !r->scores || !r->out->epochs || !r->out->shown || !r->out->precision)
        return LARDER_E_NOMEM;
    for (uint64_t i = 0; i < t->job.samples; i++)
        r->scores[i] = NAN;
    return 0;
}

/* What training said about a batch acts `lag` batches later, as in the job. */
static void tell_scores(replay *r, uint64_t k) {
    const larder__tape *t = r->tape;
    uint64_t lag = t->job.lag ? t->job.lag : 6;
    if (k < lag)
        return;
    const larder__tape_batch *b = &t->batches[k - lag];
    size_t n = 0;
    for (uint64_t i = b->begin; i < b->begin + b->n; i++)
        if (isfinite(t->loss[i])) {
            r->keys[n] = t->served[i];
            r->fresh[n++] = r->scores[t->served[i]] = t->loss[i];
        }
    larder__cache_score(r->cache, r->keys, r->fresh, n);
    if (!isnan(b->accuracy))
        larder__cache_accuracy(r->cache, b->accuracy);
}

static int claim(replay *r, const larder__tape_batch *b) {
    const larder__tape *t = r->tape;
    for (uint64_t i = 0; i < b->n; i++) {
        uint64_t at = b->begin + i;
        uint32_t id = t->ids[at];
        bool known = r->next && r->next[at] != UINT32_MAX;
        r->a[i] = (larder_access){.key = id,
                                  .now = at,
                                  .next_use = known ? r->next[at] : LARDER_UNKNOWN,
                                  .size = larder__feed_size(r->feed, id),
                                  .group = larder__feed_class(r->feed, id),
                                  .score = r->scores[id]};
    }
    return larder__cache_claim(r->cache, r->a, b->n, r->t);
}

static int book(replay *r, const larder__tape_batch *b) {
    int rc = larder__ledger_begin(r->ledger, b->epoch, b->length, b->first);
    uint64_t all = 0;
    for (uint64_t i = 0; rc == 0 && i < b->n; i++) {
        r->served[i] = r->t[i].key;
        r->kinds[i] = r->t[i].kind;
        r->bytes[i] = r->t[i].kind == LARDER_MISS ? r->a[i].size : 0;
        all += r->bytes[i];
    }
    if (rc == 0)
        larder__ledger_record(r->ledger, r->served, r->kinds, r->forms, r->bytes, NULL, b->n);
    larder__sim_keep_time(r->out, &r->clock, all, b->n);
    return rc;
}

static int run_batches(replay *r) {
    const larder__tape *t = r->tape;
    int rc = 0;
    for (uint64_t k = 0; rc == 0 && k < t->count; k++) {
        const larder__tape_batch *b = &t->batches[k];
        bool last = k + 1 == t->count || t->batches[k + 1].epoch != b->epoch;
        if (k == 0 || t->batches[k - 1].epoch != b->epoch)
            larder__cache_epoch(r->cache, b->epoch);
        tell_scores(r, k);
        if ((rc = claim(r, b)) < 0 || (rc = book(r, b)) < 0)
            return rc;
        larder__cache_batch(r->cache);
        larder_figures f;
        if (last && (rc = larder__ledger_figures(r->ledger, b->epoch, &f)) == 0) {
            r->out->precision[r->out->count] = NAN;
            larder__sim_add_epoch(r->out, &f);
        }
        if (rc == 0 && r->stop && *r->stop)
            rc = larder__fail(LARDER_E_CANCELLED, "interrupted");
    }
    return rc;
}

static void close_replay(replay *r) {
    larder__cache_close(&r->cache);
    larder__ledger_close(&r->ledger);
    larder__feed_close(&r->feed);
    void *all[] = {r->a,     r->t,     r->served, r->keys,   r->fresh,
                   r->bytes, r->kinds, r->forms,  r->scores, r->next};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        larder__free(all[i]);
}

static uint32_t size_of(void *feed, uint64_t id) { return larder__feed_size(feed, id); }

static void note_room(const replay *r, const larder__cache_text *cache) {
    larder__no_room_says(r->out->says, sizeof r->out->says, r->cache, cache, r->tape->job.samples,
                         size_of, r->feed);
}

int larder__sim_requests(const larder__tape *t, const char *policy, const char *cache,
                         const _Atomic int *stop, larder__sim_result *out) {
    *out = (larder__sim_result){.n = t->job.samples, .precision_mean = NAN};
    replay r = {.tape = t, .stop = stop, .out = out};
    bool future = false;
    larder__cache_text text;
    int rc = larder__cache_text_parse(&text, cache, "");
    if (rc == 0)
        rc = t->requests ? open_cache(&r, policy, &text, &future)
                         : larder__fail(LARDER_E_FORMAT, "the record holds no batch");
    if (rc == 0 && future)
        rc = t->requests < UINT32_MAX
                 ? larder__next_uses(t->ids, t->requests, t->job.samples, &r.next)
                 : larder__fail(LARDER_E_RANGE, "too long to know the future of");
    if (rc == 0)
        rc = larder__feed_open(&r.feed, t);
    if (rc == 0)
        note_room(&r, &text);
    if (rc == 0)
        rc = larder__ledger_open(&r.ledger, t->job.samples, (uint32_t)t->job.world);
    if (rc == 0)
        rc = open_arrays(&r);
    larder__feed_rates rates = larder__feed_measure(t);
    larder__feed_clock_open(&r.clock, &rates, t->job.lag);
    if (rc == 0)
        rc = run_batches(&r);
    close_replay(&r);
    if (rc < 0 && rc != LARDER_E_CANCELLED)
        larder__sim_free(out);
    return rc;
}
