#include "loader/draw.h"
#include "loader/far_cache.h"
#include "loader/shared_cache.h"

#include "base/err.h"
#include "base/limit.h"
#include "base/mem.h"
#include "redis/uri.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

struct larder__draw {
    larder__draw_conf conf; /* its texts are not used after open */
    larder__recipe recipe;
    larder_draw_env env;
    void *sampler, *signal; /* their states */
    larder__cache *cache;
    larder__feedback *feedback;
    larder__replan replan;    /* plan=auto alone */
    larder__scoring *scoring; /* of signals that take long; NULL: others */
    bool related;             /* a hub of the report that takes effect was taken */
    float *scores;
    larder_pick *picks; /* of one batch */
    uint64_t *fetched;  /* ids brought in with it */
    larder_pace pace;
    uint64_t number, epoch, drawn, length; /* next batch; its epoch, ids drawn and in all there */
    uint64_t now;                          /* requests so far */
    bool epoch_begun;
    bool evaluator, evaluated;         /* there is one; it has been asked about the coming epoch */
    const uint32_t *to_evaluate;       /* the sampler's */
    size_t evaluating, evaluate_count; /* of these handed out, and all */
    void *ahead;            /* a second state of the sampler, an epoch ahead; NULL: not wanted */
    uint32_t *next_place;   /* id -> its place in the next epoch, UINT32_MAX: none */
    uint64_t next_start;    /* request number of the next epoch's first */
    const uint32_t *future; /* next use of each request, UINT32_MAX: never */
    uint64_t future_count;
};

/* ---- one batch ------------------------------------------------------------------------------- */

/* Entries brought in with one batch at most: so many, or as many as the batch has. */
enum { FETCH_AT_ONCE = 4096 }; /* a package of 1 MiB has 1338 samples of 784 bytes */

static size_t fetch_room(const larder__draw *d) {
    size_t room = d->conf.batch > FETCH_AT_ONCE ? d->conf.batch : FETCH_AT_ONCE;
    return d->recipe.policy->fetch ? room : 0;
}

size_t larder__planned_room(const larder__draw *d) { return d->conf.batch + fetch_room(d); }

int larder__planned_open(larder__planned *p, const larder__draw *d) {
    uint64_t batch = d->conf.batch, all = larder__planned_room(d);
    *p = (larder__planned){0};
    p->ids = larder__calloc(batch, sizeof *p->ids);
    p->weights = larder__calloc(batch, sizeof *p->weights);
    p->accesses = larder__calloc(all, sizeof *p->accesses);
    p->tickets = larder__calloc(all, sizeof *p->tickets);
    bool keep = larder__parts_keep(d->conf.parts);
    p->holds = keep ? larder__calloc(all, sizeof *p->holds) : NULL;
    if (p->ids && p->weights && p->accesses && p->tickets && (p->holds || !keep))
        return 0;
    larder__planned_close(p);
    return LARDER_E_NOMEM;
}

void larder__planned_close(larder__planned *p) {
    larder__free(p->ids);
    larder__free(p->weights);
    larder__free(p->accesses);
    larder__free(p->tickets);
    larder__free(p->holds);
    *p = (larder__planned){0};
}

larder_rect larder__planned_rect(const larder__planned *p, const larder__parts *parts, size_t i) {
    const larder__ticket *t = &p->tickets[i];
    if (!t->kept && i < p->n)
        return larder__parts_need(parts, p->number, i, t->key);
    return p->holds ? p->holds[i] : larder__parts_whole(parts, t->key);
}

uint32_t larder__planned_bytes(const larder__planned *p, const larder__parts *parts, size_t i) {
    if (p->tickets[i].kind != LARDER_MISS)
        return 0;
    if (!parts || p->tickets[i].kept)
        return p->accesses[i].size;
    larder_rect r = larder__planned_rect(p, parts, i);
    return larder__parts_bytes(parts, p->tickets[i].key, &r);
}

uint64_t larder__planned_reads(const larder__planned *p) {
    uint64_t reads = 0;
    for (size_t i = p->n; i < p->n + p->fetched; i++)
        reads += p->tickets[i].kind == LARDER_MISS;
    return reads;
}

void larder__planned_note_plan(larder__planned *p, const larder__draw *d) {
    const larder__turns *t = &d->replan.turns;
    p->split = d->replan.split;
    p->plan_changes = t->count;
    p->plan_rate = t->count ? t->at[t->count - 1].expected : (double)NAN;
}

static void tell_policy(void *arg, const uint64_t *ids, size_t count) {
    larder__draw *d = arg;
    float fresh[256];
    const larder_policy *p = d->recipe.policy;
    d->related = false;
    for (size_t from = 0; (p->score || p->ghost) && from < count; from += 256) {
        size_t n = count - from < 256 ? count - from : 256;
        for (size_t i = 0; i < n; i++)
            fresh[i] = d->scores[ids[from + i]];
        larder__cache_score(d->cache, ids + from, fresh, n);
    }
}

/* The policy takes one hub a report: the first that it wants. */
static void relate(void *arg, uint64_t key, const uint64_t *ids, size_t n) {
    larder__draw *d = arg;
    if (!d->related)
        d->related = larder__cache_relate(d->cache, key, ids, n);
}

int larder__draw_reported(larder__draw *d) {
    return d->scoring ? larder__scoring_collect(d->scoring, d->feedback) : 0;
}

static void tell_accuracy(larder__draw *d, double accuracy) {
    if (isnan(accuracy))
        return;
    if (d->recipe.sampler->accuracy)
        d->recipe.sampler->accuracy(d->sampler, accuracy);
    larder__cache_accuracy(d->cache, accuracy);
}

/* What training said about the batch that is now due. */
static int observe_due(larder__draw *d) {
    larder_report report;
    if (!d->feedback)
        return 0;
    int rc = larder__draw_reported(d);
    if (rc < 0 || d->number < d->conf.lag)
        return rc;
    bool there = larder__feedback_take(d->feedback, d->number - d->conf.lag, &report);
    if (d->scoring) { /* a report that never came keeps up those behind it no longer */
        larder__scored to = {relate, tell_policy, d};
        if ((rc = larder__draw_reported(d)) < 0 ||
            (rc = larder__scoring_apply(d->scoring, d->number, &to)) < 0)
            return rc;
    } else if (there && d->signal && report.n) {
        d->recipe.signal->observe(d->signal, &report, d->scores);
        tell_policy(d, report.ids, report.n);
    }
    if (there)
        tell_accuracy(d, report.accuracy);
    return 0;
}

static void tell_tags(larder__draw *d) {
    if (d->recipe.sampler->tags)
        larder__cache_list(d->cache, d->recipe.sampler->tags(d->sampler));
}

/* Draws the epoch after this one, whose order is fixed already. */
static int look_ahead(larder__draw *d) {
    if (!d->ahead)
        return 0;
    const larder_sampler *s = d->recipe.sampler;
    int rc = s->epoch(d->ahead, d->epoch + 1);
    if (rc < 0)
        return rc;
    memset(d->next_place, 0xff, d->conf.n * sizeof *d->next_place);
    uint32_t at = 0;
    for (size_t n; (n = s->draw(d->ahead, d->picks, d->conf.batch)) > 0;)
        for (size_t i = 0; i < n; i++, at++)
            if (d->next_place[d->picks[i].id] == UINT32_MAX)
                d->next_place[d->picks[i].id] = at;
    d->next_start = d->now - d->drawn + d->length;
    return 0;
}

static uint64_t next_use(const larder__draw *d, uint64_t now, uint64_t id) {
    if (d->ahead)
        return d->next_place[id] == UINT32_MAX ? LARDER_UNKNOWN : d->next_start + d->next_place[id];
    uint32_t next = d->future && now < d->future_count ? d->future[now] : UINT32_MAX;
    return next == UINT32_MAX ? LARDER_UNKNOWN : next;
}

static int begin_epoch(larder__draw *d) {
    int rc = d->recipe.sampler->epoch(d->sampler, d->epoch);
    if (rc < 0)
        return rc;
    tell_tags(d);
    larder__cache_epoch(d->cache, d->epoch);
    if (d->signal && d->recipe.signal->epoch)
        d->recipe.signal->epoch(d->signal, d->epoch, d->scores);
    d->length = d->recipe.sampler->length(d->sampler);
    d->drawn = 0;
    d->epoch_begun = true;
    d->evaluated = false;
    return look_ahead(d);
}

static larder_access request(larder__draw *d, uint64_t id, uint32_t tag) {
    uint64_t now = d->now++;
    return (larder_access){
        .key = id,
        .now = now,
        .next_use = next_use(d, now, id),
        .size = d->conf.size ? d->conf.size : d->conf.size_of(d->conf.size_arg, id),
        .tag = tag,
        .group = d->recipe.policy->needs_group && d->conf.group_of
                     ? d->conf.group_of(d->conf.group_arg, id)
                     : LARDER_NO_GROUP,
        .score = d->scores ? d->scores[id] : NAN,
    };
}

/* With `keep` how much is wanted depends on what the cache holds just then: one after the other. */
static int claim_in_turn(larder__draw *d, larder__planned *p, size_t from, size_t n) {
    larder__parts *parts = d->conf.parts;
    int rc = 0;
    for (size_t i = from; rc == 0 && i < from + n; i++) {
        larder_access *a = &p->accesses[i];
        bool resident = larder__cache_resident(d->cache, a->key);
        p->holds[i] = i < p->n ? larder__parts_hold(parts, p->number, i, a->key, resident)
                               : larder__parts_whole(parts, a->key);
        a->size = larder__parts_bytes(parts, a->key, &p->holds[i]);
        rc = larder__cache_claim(d->cache, a, 1, &p->tickets[i]);
        if (rc == 0 && p->tickets[i].kept && p->tickets[i].kind == LARDER_MISS)
            larder__parts_held(parts, a->key, &p->holds[i]);
    }
    return rc;
}

static int claim(larder__draw *d, larder__planned *p, size_t from, size_t n) {
    return p->holds ? claim_in_turn(d, p, from, n)
                    : larder__cache_claim(d->cache, p->accesses + from, n, p->tickets + from);
}

static int pick_ids(larder__draw *d, larder__planned *p) {
    if (d->recipe.sampler->pace)
        d->recipe.sampler->pace(d->sampler, &d->pace);
    for (size_t i = 0; i < d->conf.batch; i++)
        d->picks[i] = (larder_pick){.weight = 1};
    p->n = d->recipe.sampler->draw(d->sampler, d->picks, d->conf.batch);
    p->fetched = p->dropped_count = 0;
    p->package = (larder_package){0};
    if (p->n == 0) /* only a saved state that lies gets here */
        return larder__fail(LARDER_E_STATE, "epoch %llu ended before its length",
                            (unsigned long long)d->epoch);
    for (size_t i = 0; i < p->n; i++) {
        p->ids[i] = d->picks[i].id;
        p->weights[i] = d->picks[i].weight;
        p->accesses[i] = request(d, d->picks[i].id, d->picks[i].tag);
    }
    p->shown = d->recipe.sampler->shown ? d->recipe.sampler->shown(d->sampler) : NAN;
    return 0;
}

/* What the policy wants to have although nobody asked. It need not fit: then it is not read. */
static int fetch_more(larder__draw *d, larder__planned *p) {
    uint64_t *keys = d->fetched;
    size_t n = larder__cache_fetch(d->cache, keys, fetch_room(d));
    for (size_t i = 0; i < n; i++)
        p->accesses[p->n + i] = request(d, keys[i], LARDER_TAG_FETCH);
    int rc = claim(d, p, p->n, n);
    p->fetched = rc == 0 ? n : 0;
    if (rc == 0) {
        p->package = larder__cache_package(d->cache);
        p->dropped_count =
            larder__cache_dropped(d->cache, p->dropped, sizeof p->dropped / sizeof *p->dropped);
    }
    return rc;
}

static bool wants_evaluation(larder__draw *d) {
    if (d->epoch_begun || d->evaluated || !d->evaluator)
        return false;
    d->evaluating = 0;
    d->evaluate_count = d->recipe.sampler->evaluate(d->sampler, d->epoch, &d->to_evaluate);
    d->evaluated = d->evaluate_count == 0;
    return !d->evaluated;
}

bool larder__draw_takes_evaluator(larder__draw *d) {
    return d->evaluator = d->recipe.sampler->evaluate && d->scores;
}

int larder__draw_evaluation(larder__draw *d, larder__planned *p) {
    const uint8_t *tags = d->recipe.sampler->tags ? d->recipe.sampler->tags(d->sampler) : NULL;
    size_t left = d->evaluate_count - d->evaluating;
    p->n = left < d->conf.batch ? left : d->conf.batch;
    p->fetched = p->dropped_count = 0;
    p->package = (larder_package){0};
    p->epoch = d->epoch;
    p->number = UINT64_MAX - d->epoch; /* a chance of its own */
    d->evaluated = left == 0;
    for (size_t i = 0; i < p->n; i++) {
        p->ids[i] = d->to_evaluate[d->evaluating + i];
        p->weights[i] = 1;
        p->accesses[i] = request(d, p->ids[i], tags ? tags[p->ids[i]] & LARDER_TAG_KEEP : 0);
    }
    d->evaluating += p->n;
    return claim(d, p, 0, p->n);
}

void larder__draw_evaluated(larder__draw *d, const uint64_t *ids, const float *loss, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (isfinite(loss[i])) {
            d->scores[ids[i]] = loss[i];
            larder__cache_score(d->cache, &ids[i], &loss[i], 1);
        }
}

static void share_out(larder__draw *d) {
    const larder_split *s = &d->replan.split;
    double share[LARDER_FORMS] = {0};
    share[LARDER_ENCODED] = s->encoded / 100.0;
    share[LARDER_DECODED] = s->decoded / 100.0;
    share[LARDER_AUGMENTED] = s->augmented / 100.0;
    larder__cache_share_out(d->cache, share);
}

int larder__draw_next(larder__draw *d, larder__planned *p) {
    int rc = observe_due(d);
    if (rc < 0)
        return rc;
    if (wants_evaluation(d))
        return LARDER__EVALUATE;
    if (d->recipe.replan && larder__replan_next(&d->replan, d->number, &d->pace))
        share_out(d);
    p->first = !d->epoch_begun;
    if (!d->epoch_begun && (rc = begin_epoch(d)) < 0)
        return rc;
    p->number = d->number;
    if ((rc = pick_ids(d, p)) < 0 || (rc = claim(d, p, 0, p->n)) < 0)
        return rc;
    if (fetch_room(d) && (rc = fetch_more(d, p)) < 0)
        return rc;
    larder__planned_note_plan(p, d);
    larder__cache_batch(d->cache);
    larder__cache_show(d->cache, p->figures);
    d->number++;
    p->epoch = d->epoch;
    p->length = d->length;
    d->drawn += p->n;
    p->last = d->drawn >= d->length;
    if (p->last) {
        d->epoch++;
        d->epoch_begun = false;
    }
    return 0;
}

/* ---- looking in ------------------------------------------------------------------------------ */

uint64_t larder__draw_number(const larder__draw *d) { return d->number; }
uint64_t larder__draw_epoch(const larder__draw *d) { return d->epoch; }
uint64_t larder__draw_length(const larder__draw *d) { return d->length; }
larder__cache *larder__draw_cache(larder__draw *d) { return d->cache; }
const larder_sampler *larder__draw_sampler(const larder__draw *d) { return d->recipe.sampler; }
const larder_policy *larder__draw_policy(const larder__draw *d) { return d->recipe.policy; }
const larder_signal *larder__draw_signal(const larder__draw *d) { return d->recipe.signal; }
const char *larder__draw_scratch(const larder__draw *d, uint64_t *limit) {
    if (!d->recipe.policy->package)
        return NULL;
    const char *folder = larder_args_text(&d->recipe.policy_args, "scratch");
    *limit = (uint64_t)larder_args_number(&d->recipe.policy_args, "scratch_limit");
    return folder[0] ? folder : NULL;
}

const float *larder__draw_scores(const larder__draw *d) { return d->scores; }
larder__feedback *larder__draw_feedback(larder__draw *d) { return d->feedback; }
bool larder__draw_listens(const larder__draw *d) { return d->signal != NULL; }
const char *larder__draw_shown_name(const larder__draw *d) { return d->recipe.sampler->shown_name; }
void larder__draw_pace(larder__draw *d, const larder_pace *pace) { d->pace = *pace; }

const larder__replan *larder__draw_replan(const larder__draw *d) {
    return d->recipe.replan ? &d->replan : NULL;
}

void larder__draw_set_future(larder__draw *d, const uint32_t *next_use, uint64_t count) {
    d->future = next_use;
    d->future_count = count;
}

/* ---- opening and closing --------------------------------------------------------------------- */

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

/* The split may come with the cache's text, with the recipe, or with both if they agree. */
static int read_own_budget(const larder__recipe *recipe, const char *cache, larder__budget *out) {
    char whole[160];
    double share[LARDER_FORMS];
    if (recipe->split[0] && !strchr(cache, ':')) {
        snprintf(whole, sizeof whole, "%.80s:%s", cache, recipe->split);
        return larder__parse_budget(whole, out);
    }
    int rc = larder__parse_budget(cache, out);
    if (rc < 0 || !recipe->split[0])
        return rc;
    rc = larder__parse_split(recipe->split, share);
    for (int f = 0; rc == 0 && f < LARDER_FORMS; f++)
        if (share[f] != out->share[f])
            rc = larder__fail(LARDER_E_ARGS,
                              "cache \"%.60s\" and split=%s of the recipe disagree; give one",
                              cache, recipe->split);
    return rc;
}

/* Of a cache elsewhere too. In a daemon it may be of any size: then only the split counts. */
static int read_budget(const larder__recipe *recipe, const char *cache, larder__budget *out) {
    char text[160];
    bool far = larder__redis_named(cache);
    if (!larder__cache_names_daemon(cache) && !far)
        return read_own_budget(recipe, cache, out);
    int rc = far ? larder__far_cache_budget(cache, text, sizeof text)
                 : larder__shared_cache_budget(cache, text, sizeof text);
    return rc < 0 ? rc : read_own_budget(recipe, text[0] ? text : "100%", out);
}

int larder__draw_shares(const char *recipe, const char *cache, double share[LARDER_FORMS],
                        bool *replan) {
    larder__recipe parsed;
    larder__budget b;
    int rc = larder__recipe_parse(&parsed, recipe);
    if (rc < 0)
        return rc;
    if ((rc = read_budget(&parsed, cache, &b)) == 0)
        memcpy(share, b.share, sizeof b.share);
    *replan = parsed.replan;
    larder__recipe_free(&parsed);
    return rc;
}

static int percent(double share) { return (int)(share * 100 + 0.5); }

/* What is known before anything is measured. */
static void open_replan(larder__draw *d, const double share[LARDER_FORMS]) {
    larder_rates r;
    double each = (double)d->conf.payload / (double)d->conf.n;
    double pixels = fmax(d->conf.decoded_ratio * each, d->conf.decoded_bytes);
    uint64_t mine = d->conf.n / d->conf.world;
    larder_rates_defaults(&r);
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

/* "20%" is a share of the payload with metadata on top; "8GiB" is all the memory there may be. */
static int open_cache(larder__draw *d) {
    larder__budget b;
    int rc = read_budget(&d->recipe, d->conf.cache, &b);
    if (rc < 0)
        return rc;
    bool far = larder__redis_named(d->conf.cache), real = d->conf.store->real;
    if (real && (far || larder__cache_is_shared(d->conf.cache)) &&
        larder__parts_keep(d->conf.parts))
        return larder__fail(LARDER_E_ARGS, "a shared cache keeps whole samples, not parts");
    if (real && !far && larder__cache_is_shared(d->conf.cache)) {
        int there = larder__shared_cache_open(&d->cache, &d->conf, &d->recipe, b.share);
        if (there != LARDER_E_FULL || larder__cache_names_daemon(d->conf.cache))
            return there; /* the environment is a wish: a full daemon stops nobody */
    }
    if (d->recipe.policy->holds_all)
        b = (larder__budget){.relative = true, .fraction = 1, .share = {1}};
    uint64_t bytes = b.relative ? (uint64_t)(b.fraction * (double)d->conf.payload + 0.5) : b.bytes;
    if (far && (rc = larder__far_cache_size(d->conf.cache, d->conf.payload, &bytes)) < 0)
        return rc;
    if (real && !far && bytes > larder__memory_limit()) {
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
                               .budget_covers_all = !b.relative,
                               .forms = &forms,
                               .seed = d->conf.seed,
                               .epochs = d->conf.epochs,
                               .stats = d->conf.stats,
                               .alone = d->conf.parts != NULL};
    rc = real && far ? larder__far_cache_open(&d->cache, &d->conf, &d->recipe, &conf)
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
                                 .mode = !d->conf.beside  ? LARDER__SCORE_INLINE
                                         : d->recipe.wait ? LARDER__SCORE_WAIT
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
    if (rc == 0 && (!(d->picks = larder__calloc(conf->batch, sizeof *d->picks)) ||
                    !(d->fetched = larder__calloc(fetch_room(d) + 1, sizeof *d->fetched))))
        rc = LARDER_E_NOMEM;
    bool hears = d->recipe.signal || d->recipe.sampler->accuracy || d->recipe.policy->accuracy;
    if (rc == 0 && hears)
        rc = larder__feedback_open(&d->feedback, conf->n, conf->lag);
    if (rc < 0 || (rc = open_cache(d)) < 0 || (rc = open_signal(d)) < 0 ||
        (rc = open_sampler(d)) < 0) {
        larder__draw_close(&d);
        return rc;
    }
    d->conf.recipe = d->conf.cache = NULL;
    *out = d;
    return 0;
}

void larder__draw_close(larder__draw **pd) {
    larder__draw *d = *pd;
    *pd = NULL;
    if (!d)
        return;
    larder__scoring_close(&d->scoring); /* its thread uses the signal */
    if (d->sampler && d->recipe.sampler->fini)
        d->recipe.sampler->fini(d->sampler);
    if (d->ahead && d->recipe.sampler->fini)
        d->recipe.sampler->fini(d->ahead);
    if (d->signal && d->recipe.signal && d->recipe.signal->fini)
        d->recipe.signal->fini(d->signal);
    larder__cache_close(&d->cache);
    larder__replan_close(&d->replan);
    larder__feedback_close(&d->feedback);
    larder__recipe_free(&d->recipe);
    larder__free(d->sampler);
    larder__free(d->ahead);
    larder__free(d->next_place);
    larder__free(d->signal);
    larder__free(d->scores);
    larder__free(d->picks);
    larder__free(d->fetched);
    larder__free(d);
}

/* ---- saved state ----------------------------------------------------------------------------- */

void larder__draw_effects(larder__draw *d, larder_writer *w) {
    if (d->scoring)
        larder__scoring_effects(d->scoring, w);
    if (d->recipe.replan)
        larder__replan_save(&d->replan, w);
}
int larder__draw_past(larder__draw *d, larder_reader *r) {
    int rc = d->scoring ? larder__scoring_past(d->scoring, r) : 0;
    return rc < 0 || !d->recipe.replan ? rc : larder__replan_past(&d->replan, r);
}
int larder__draw_follow(larder__draw *d, larder_reader *r) {
    int rc = d->scoring ? larder__scoring_follow(d->scoring, r) : 0;
    return rc < 0 || !d->recipe.replan ? rc : larder__replan_follow(&d->replan, r);
}

void larder__draw_save(larder__draw *d, larder_writer *w) {
    larder_write_u64(w, d->number);
    larder_write_u64(w, d->epoch);
    larder_write_u64(w, d->drawn);
    larder_write_u64(w, d->now);
    larder_write_u32(w, (uint32_t)d->epoch_begun | (uint32_t)d->evaluated << 1);
    larder__cache_save(d->cache, w);
    if (larder__parts_keep(d->conf.parts))
        larder__parts_save(d->conf.parts, larder__cache_slots(d->cache), w);
    if (d->feedback)
        larder__feedback_save(d->feedback, w);
    if (d->signal) {
        larder_write_bytes(w, d->scores, d->conf.n * sizeof *d->scores);
        if (d->scoring)
            larder__scoring_save(d->scoring, w);
        else if (d->recipe.signal->save)
            d->recipe.signal->save(d->signal, w);
    }
    d->recipe.sampler->save(d->sampler, w);
}

static int load_signal(larder__draw *d, larder_reader *r) {
    int rc = d->feedback ? larder__feedback_load(d->feedback, r) : 0;
    if (rc < 0 || !d->signal)
        return rc;
    larder_read_bytes(r, d->scores, d->conf.n * sizeof *d->scores);
    rc = larder_read_status(r);
    if (rc == 0 && d->scoring)
        return larder__scoring_load(d->scoring, r);
    return rc < 0 || !d->recipe.signal->load ? rc : d->recipe.signal->load(d->signal, r);
}

int larder__draw_load(larder__draw *d, larder_reader *r) {
    d->number = larder_read_u64(r);
    d->epoch = larder_read_u64(r);
    uint64_t drawn = larder_read_u64(r);
    d->now = larder_read_u64(r);
    uint32_t flags = larder_read_u32(r);
    bool begun = flags & 1;
    d->evaluated = flags & 2;
    if (d->recipe.replan && d->replan.turns.count)
        share_out(d);
    int rc = larder__cache_load(d->cache, r);
    if (rc == 0 && larder__parts_keep(d->conf.parts))
        rc = larder__parts_load(d->conf.parts, larder__cache_slots(d->cache), r);
    if (rc < 0 || (rc = load_signal(d, r)) < 0)
        return rc;
    if (!begun) /* between two epochs there may still be something to remember */
        return d->recipe.sampler->load(d->sampler, r);
    /* The order of the epoch is made again; then the sampler is told how far it was. */
    if ((rc = d->recipe.sampler->epoch(d->sampler, d->epoch)) < 0)
        return rc;
    d->epoch_begun = true;
    d->drawn = drawn;
    if ((rc = d->recipe.sampler->load(d->sampler, r)) < 0)
        return rc;
    d->length = d->recipe.sampler->length(d->sampler); /* may depend on scores that have changed */
    if (drawn >= d->length)
        return larder_read_reject(r, "its epoch is longer than this one");
    tell_tags(d);
    return look_ahead(d);
}
