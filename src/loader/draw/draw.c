/* One batch: what feedback is due, which ids come, what the cache says to them. */
#include "loader/draw/draw_inside.h"

#include "base/err.h"

#include <math.h>

static void tell_policy(void *arg, const uint64_t *ids, size_t count) {
    larder__draw *d = arg;
    float fresh[256];
    const larder_policy *p = d->recipe.policy;
    d->related = false;
    for (size_t from = 0; LARDER_HAS(p, hears, score) && from < count; from += 256) {
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
    larder__losses told;
    int rc = larder__draw_hear(d);
    if (rc < 0 || !d->feedback)
        return rc;
    rc = larder__draw_reported(d);
    if (rc < 0 || d->number < d->conf.lag)
        return rc;
    bool there = larder__feedback_take(d->feedback, d->number - d->conf.lag, &report, &told);
    if (there && d->watched) {
        larder__gap_add(&d->gap, &told, larder__recent_keep(d->recent));
        d->memorised = larder__gap_read(&d->gap);
    }
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

void larder__draw_tell_tags(larder__draw *d) {
    if (d->recipe.sampler->tags)
        larder__cache_list(d->cache, d->recipe.sampler->tags(d->sampler));
}

/* Draws the epoch after this one, whose order is fixed already. */
int larder__draw_look_ahead(larder__draw *d) {
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
    larder__draw_tell_tags(d);
    larder__cache_epoch(d->cache, d->epoch);
    if (d->signal && d->recipe.signal->epoch)
        d->recipe.signal->epoch(d->signal, d->epoch, d->scores);
    d->length = d->recipe.sampler->length(d->sampler);
    d->drawn = 0;
    d->epoch_begun = true;
    d->evaluated = false;
    return larder__draw_look_ahead(d);
}

static larder_access request(larder__draw *d, uint64_t id, uint32_t tag) {
    uint64_t now = d->now++;
    return (larder_access){
        .key = id,
        .now = now,
        .next_use = next_use(d, now, id),
        .size = d->conf.size ? d->conf.size : d->conf.size_of(d->conf.size_arg, id),
        .tag = tag,
        .group = LARDER_HAS(d->recipe.policy, lends, by_group) && d->conf.group_of
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
    if (d->ranks.world) {
        larder__slice s = from ? larder__ranks_share(&d->ranks, p->number, n)
                               : larder__ranks_slice(&d->ranks, p->number, n);
        return larder__cache_claim_part(d->cache, p->accesses + from, n, s.again ? n : s.from,
                                        s.step, s.n, p->tickets + from);
    }
    int rc = p->holds ? claim_in_turn(d, p, from, n)
                      : larder__cache_claim(d->cache, p->accesses + from, n, p->tickets + from);
    return rc < 0 ? rc : larder__unsettled_note(d, p->tickets + from, n);
}

static int pick_ids(larder__draw *d, larder__planned *p) {
    if (d->recipe.sampler->pace && (d->ranks.world < 2 || d->relay))
        d->recipe.sampler->pace(d->sampler, d->relay ? &d->agreed : &d->pace);
    for (size_t i = 0; i < d->conf.batch; i++)
        d->picks[i] = (larder_pick){.weight = 1};
    p->n = d->recipe.sampler->draw(d->sampler, d->picks, d->conf.batch);
    p->fetched = p->dropped_count = 0;
    p->package = (larder_package){0};
    if (p->n == 0) /* only a saved state that lies gets here */
        return larder__fail(LARDER_E_STATE, "epoch %llu ended before its length",
                            (unsigned long long)d->epoch);
    if (p->n > d->conf.batch)
        return larder__fail(LARDER_E_STATE, "sampler \"%s\" drew %zu ids where %llu were wanted",
                            d->recipe.sampler->plugin.name, p->n,
                            (unsigned long long)d->conf.batch);
    for (size_t i = 0; i < p->n; i++) {
        if (d->picks[i].id >= d->conf.n)
            return larder__fail(LARDER_E_STATE, "sampler \"%s\" drew id %llu of %llu samples",
                                d->recipe.sampler->plugin.name, (unsigned long long)d->picks[i].id,
                                (unsigned long long)d->conf.n);
        p->ids[i] = d->picks[i].id;
        p->weights[i] = d->picks[i].weight;
        p->accesses[i] = request(d, d->picks[i].id, d->picks[i].tag);
    }
    p->shown = d->recipe.sampler->shown ? d->recipe.sampler->shown(d->sampler) : NAN;
    p->held = d->recipe.sampler->held ? d->recipe.sampler->held(d->sampler) : (double)NAN;
    const larder_turn *turns;
    size_t made = larder__draw_turns(d, &turns);
    p->measured = made ? turns[made - 1].value : NAN;
    return 0;
}

/* What the sampler or the policy wants to have although nobody asked. It need not fit: then it is
 * not read. */
static int fetch_more(larder__draw *d, larder__planned *p) {
    uint64_t *keys = d->fetched;
    const larder_sampler *s = d->recipe.sampler;
    size_t n = s->brings ? s->brings(d->sampler, keys)
                         : larder__cache_fetch(d->cache, keys, larder__draw_fetch_room(d));
    for (size_t i = 0; i < n; i++)
        p->accesses[p->n + i] = request(d, keys[i], LARDER_TAG_FETCH);
    int rc = claim(d, p, p->n, n);
    p->fetched = rc == 0 ? n : 0;
    if (rc == 0 && !s->brings) {
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

static int decide_evaluation(larder__draw *d, larder__planned *p) {
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

int larder__draw_evaluation(larder__draw *d, larder__planned *p) {
    if (!d->ranks.world)
        return decide_evaluation(d, p);
    int rc = decide_evaluation(d, &d->all);
    return rc < 0 ? rc : larder__draw_hand_over(d, p);
}

int larder__draw_evaluated(larder__draw *d, const larder__planned *p, const uint64_t *ids,
                           const float *loss, size_t n) {
    if (d->relay)
        return larder__draw_evaluated_all(d, p, ids, loss, n);
    larder__draw_score(d, ids, loss, n);
    return 0;
}

void larder__draw_score(larder__draw *d, const uint64_t *ids, const float *loss, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (isfinite(loss[i])) {
            d->scores[ids[i]] = loss[i];
            larder__cache_score(d->cache, &ids[i], &loss[i], 1);
        }
}

void larder__draw_share_out(larder__draw *d) {
    const larder_split *s = &d->replan.split;
    double share[LARDER_FORMS] = {0};
    share[LARDER_ENCODED] = s->encoded / 100.0;
    share[LARDER_DECODED] = s->decoded / 100.0;
    share[LARDER_AUGMENTED] = s->augmented / 100.0;
    larder__cache_share_out(d->cache, share);
}

static int decide_next(larder__draw *d, larder__planned *p) {
    int rc = observe_due(d);
    if (rc < 0)
        return rc;
    if (d->warm)
        larder__draw_adopt(d);
    if (wants_evaluation(d))
        return LARDER__EVALUATE;
    double cores = d->conf.cores ? d->conf.cores : 1;
    if (d->recipe.replan && !larder__cache_pace(d->cache, &d->pace, cores) &&
        larder__replan_next(&d->replan, d->number, &d->pace))
        larder__draw_share_out(d);
    p->first = !d->epoch_begun || d->divided;
    d->divided = false;
    if (!d->epoch_begun && (rc = begin_epoch(d)) < 0)
        return rc;
    p->number = d->number;
    p->pace = d->pace;
    if ((rc = pick_ids(d, p)) < 0)
        return rc;
    larder__unsettled_settle(d); /* now: samplers see a cache that was full as full */
    if ((rc = claim(d, p, 0, p->n)) < 0)
        return rc;
    if (d->recent)
        larder__recent_serve(d->recent, d->number, p->tickets, p->n);
    if (larder__draw_fetch_room(d) && (rc = fetch_more(d, p)) < 0)
        return rc;
    larder__planned_note_plan(p, d);
    larder__cache_batch(d->cache);
    larder__cache_show(d->cache, p->figures);
    larder__draw_note_rows(d, d->number, p->n);
    larder__draw_note_digest(d);
    d->number++;
    p->epoch = d->epoch;
    p->length = p->whole_length = d->length;
    d->drawn += p->n;
    p->last = d->drawn >= d->length;
    if (p->last) {
        d->epoch++;
        d->epoch_begun = false;
    }
    return 0;
}

int larder__draw_next(larder__draw *d, larder__planned *p) {
    if (!d->ranks.world)
        return decide_next(d, p);
    d->all.n = d->all.fetched = 0;
    int rc = decide_next(d, &d->all);
    if (rc == LARDER__EVALUATE)
        return rc;
    int handed = larder__draw_hand_over(d, p); /* what was decided has to be settled in any case */
    return rc < 0 ? rc : handed;
}

void larder__draw_begin(larder__draw *d, uint64_t epoch) {
    d->epoch = epoch;
    d->epoch_begun = d->evaluated = false;
    d->drawn = 0;
}

/* ---- looking in ------------------------------------------------------------------------------ */

bool larder__draw_between(const larder__draw *d) { return !d->epoch_begun; }
uint64_t larder__draw_number(const larder__draw *d) { return d->number; }
uint64_t larder__draw_epoch(const larder__draw *d) { return d->epoch; }
uint64_t larder__draw_length(const larder__draw *d) { return d->length; }
size_t larder__draw_rows(const larder__draw *d, uint64_t number) {
    uint32_t rows = d->rows_of ? atomic_load(&d->rows_of[number % (d->conf.lag + 1)]) : 0;
    return rows ? rows : SIZE_MAX;
}
void larder__draw_note_rows(larder__draw *d, uint64_t number, size_t rows) {
    if (d->rows_of)
        atomic_store(&d->rows_of[number % (d->conf.lag + 1)], (uint32_t)rows);
}
uint64_t larder__draw_drawn(const larder__draw *d) { return d->drawn; }
uint64_t larder__draw_batch(const larder__draw *d) { return d->conf.batch; }
const larder__ranks *larder__draw_ranks(const larder__draw *d) {
    return d->ranks.world ? &d->ranks : NULL;
}
larder__slice larder__draw_slice(const larder__draw *d, uint64_t number, size_t rows) {
    return larder__ranks_slice(&d->ranks, number, rows);
}
uint64_t larder__draw_share(const larder__draw *d, uint64_t ids) {
    return larder__ranks_length(&d->ranks, ids);
}
larder__cache *larder__draw_cache(larder__draw *d) { return d->cache; }
const larder_sampler *larder__draw_sampler(const larder__draw *d) { return d->recipe.sampler; }
const larder_policy *larder__draw_policy(const larder__draw *d) { return d->recipe.policy; }

const larder_figure *larder__draw_shows(const larder__draw *d) {
    return d->recipe.policy->shows ? d->recipe.policy->shows->figures : NULL;
}
bool larder__draw_by_class(const larder__draw *d) { return d->recipe.sampler->by_class; }
const larder_signal *larder__draw_signal(const larder__draw *d) { return d->recipe.signal; }
const char *larder__draw_scratch(const larder__draw *d, uint64_t *limit) {
    if (!LARDER_HAS(d->recipe.policy, brings, package))
        return NULL;
    const char *folder = larder_args_text(&d->recipe.policy_args, "scratch");
    *limit = (uint64_t)larder_args_number(&d->recipe.policy_args, "scratch_limit");
    return folder[0] ? folder : NULL;
}

const float *larder__draw_scores(const larder__draw *d) { return d->scores; }
larder__feedback *larder__draw_feedback(larder__draw *d) { return d->feedback; }
bool larder__draw_listens(const larder__draw *d) { return d->signal || d->watched; }
bool larder__draw_relies(const larder__draw *d) { return d->recipe.relies; }
bool larder__draw_compares(const larder__draw *d) { return d->recent != NULL; }
void larder__draw_told(larder__draw *d, const larder_report *said, larder__losses *out) {
    larder__recent_tell_once(d->recent, &d->ranks, said, out);
}
uint64_t larder__draw_recent_bytes(const larder__draw *d) {
    return d->recent ? larder__recent_bytes(d->recent) : 0;
}
const char *larder__draw_shown_name(const larder__draw *d) { return d->recipe.sampler->shown_name; }
void larder__draw_pace(larder__draw *d, const larder_pace *pace) { d->pace = *pace; }

const larder__replan *larder__draw_replan(const larder__draw *d) {
    return d->recipe.replan ? &d->replan : NULL;
}

void larder__draw_set_future(larder__draw *d, const uint32_t *next_use, uint64_t count) {
    d->future = next_use;
    d->future_count = count;
}
