#include "jobs_kit.h"

#include "base/spec.h"
#include "cache/ods_core.h"
#include "plugins.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SAMPLE_BYTES = 1000 };

/* ---- telling the policy ---------------------------------------------------------------------- */

static int tell_join(void *ods, void *job) { return larder__ods_join(ods, job); }
static int tell_leave(void *ods, void *job) {
    larder__ods_leave(ods, *(uint32_t *)job);
    return 0;
}
static int tell_epoch(void *ods, void *job) {
    larder__ods_epoch(ods, *(uint32_t *)job, NULL);
    return 0;
}

static int tell_rest(void *ods, void *job) {
    larder__ods_rest(ods, ((kit_job *)job)->number, ((kit_job *)job)->rests);
    return 0;
}

static void exchange(void *arg, const uint64_t *wanted, size_t n, uint64_t *served) {
    kit_job *j = arg;
    larder__cache_exchange(j->cache, j->number, wanted, n, served);
}

/* ---- opening and closing --------------------------------------------------------------------- */

void jobs_open(jobs_kit *k, uint64_t n, double cached, const char *split, uint64_t seed,
               uint64_t most_requests) {
    *k = (jobs_kit){.n = n, .most = most_requests};
    larder__forms forms = {.decoded_bytes = SAMPLE_BYTES, .row_bytes = SAMPLE_BYTES};
    check_ok(larder__parse_split(split, forms.share));
    memcpy(k->share, forms.share, sizeof k->share);
    larder__cache_conf conf = {.policy = larder__policy_find("ods"),
                               .store = &larder__store_null,
                               .keys = n,
                               .budget = (uint64_t)llround(cached * (double)n) * SAMPLE_BYTES,
                               .forms = &forms,
                               .seed = seed};
    check_ok(larder__cache_open(&k->cache, &conf));
    uint32_t first = 0; /* the policy begins with one job; ours come when they come */
    check_ok(larder__cache_change(k->cache, tell_leave, &first));
}

void jobs_join(jobs_kit *k, size_t which, uint64_t batch, uint64_t seed) {
    kit_job *j = &k->jobs[which];
    const larder_sampler *s = larder__sampler_find("ods");
    *j = (kit_job){.there = true, .cache = k->cache};
    check_ok(larder__cache_change(k->cache, tell_join, &j->number));
    j->env = (larder_draw_env){.n = k->n,
                               .seed = seed,
                               .batch = batch,
                               .world = 1,
                               .exchange = exchange,
                               .exchange_arg = j};
    j->sampler = calloc(1, s->plugin.state_size);
    j->picks = calloc(batch, sizeof *j->picks);
    j->times = calloc(k->n, 1);
    j->order = calloc(k->n, sizeof *j->order);
    j->tensors = calloc(k->most / 64 + 1, sizeof *j->tensors);
    check_ok(s->init(j->sampler, &j->env, NULL));
    check_ok(s->epoch(j->sampler, 0));
}

static void forget(kit_job *j) {
    larder__sampler_find("ods")->fini(j->sampler);
    free(j->sampler);
    free(j->picks);
    free(j->times);
    free(j->order);
    free(j->tensors);
    *j = (kit_job){0};
}

void jobs_leave(jobs_kit *k, size_t which) {
    check_ok(larder__cache_change(k->cache, tell_leave, &k->jobs[which].number));
    forget(&k->jobs[which]);
}

void jobs_kill(jobs_kit *k, size_t which) {
    kit_job *j = &k->jobs[which];
    if (j->drawn < k->n)
        larder__sampler_find("ods")->draw(j->sampler, j->picks, j->env.batch);
    jobs_leave(k, which);
}

void jobs_rest(jobs_kit *k, size_t which, bool rests) {
    k->jobs[which].rests = rests;
    check_ok(larder__cache_change(k->cache, tell_rest, &k->jobs[which]));
}

void jobs_close(jobs_kit *k) {
    for (size_t i = 0; i < JOBS_MOST; i++)
        if (k->jobs[i].there)
            forget(&k->jobs[i]);
    larder__cache_close(&k->cache);
}

/* ---- a batch --------------------------------------------------------------------------------- */

static larder__ticket ask(jobs_kit *k, const kit_job *j, uint64_t id, uint32_t tag) {
    larder_access a = {.key = id,
                       .now = k->now++,
                       .size = SAMPLE_BYTES,
                       .job = j->number,
                       .tag = tag,
                       .score = NAN};
    larder__ticket t;
    assert_true(k->now <= k->most);
    check_ok(larder__cache_claim(k->cache, &a, 1, &t));
    return t;
}

static void check_budgets(const jobs_kit *k) {
    const larder_slots *s = larder__cache_slots(k->cache);
    uint64_t bytes[LARDER_FORMS] = {0};
    for (larder_slot i = 0; i < s->used; i++)
        if (s->key_of[i] != UINT32_MAX)
            bytes[s->form_of[i]] += s->size_of[i];
    for (int f = 0; f < LARDER_FORMS; f++) {
        assert_int_equal(bytes[f], s->form_bytes[f]);
        assert_true(bytes[f] <= s->form_budget[f]);
    }
}

static void take(jobs_kit *k, kit_job *j, const larder__ticket *t) {
    k->served++;
    k->misses += t->kind == LARDER_MISS;
    if (t->kind == LARDER_HIT) {
        k->hits++;
        k->form_hits[t->form]++;
    }
    if (j->times[t->key]++)
        fail_msg("id %d came twice in epoch %d of job %d", (int)t->key, (int)j->epoch,
                 (int)j->number);
    j->order[j->drawn++] = t->key;
    if (t->form != LARDER_AUGMENTED)
        return;
    uint64_t *word = &j->tensors[t->mark / 64], bit = (uint64_t)1 << (t->mark % 64);
    if (*word & bit)
        fail_msg("job %d had augmented entry %d before", (int)j->number, (int)t->mark);
    *word |= bit;
}

static void bring_in(jobs_kit *k, const kit_job *j) {
    uint64_t ids[1024];
    size_t n = larder__cache_fetch(k->cache, ids, 1024);
    for (size_t i = 0; i < n; i++)
        k->background += ask(k, j, ids[i], LARDER_TAG_FETCH).kind == LARDER_MISS;
}

bool jobs_step(jobs_kit *k, size_t which) {
    kit_job *j = &k->jobs[which];
    const larder_sampler *s = larder__sampler_find("ods");
    if (j->drawn == k->n) {
        j->epoch++;
        j->drawn = 0;
        memset(j->times, 0, k->n);
        check_ok(s->epoch(j->sampler, j->epoch));
        check_ok(larder__cache_change(k->cache, tell_epoch, &j->number));
    }
    size_t n = s->draw(j->sampler, j->picks, j->env.batch);
    assert_true(n > 0);
    for (size_t i = 0; i < n; i++) {
        larder__ticket t = ask(k, j, j->picks[i].id, 0);
        assert_int_equal(t.key, j->picks[i].id);
        take(k, j, &t);
    }
    bring_in(k, j);
    check_budgets(k);
    if (j->drawn < k->n)
        return false;
    for (uint64_t id = 0; id < k->n; id++)
        assert_int_equal(j->times[id], 1);
    return true;
}

void jobs_in_step(jobs_kit *k, size_t count, uint64_t epochs) {
    while (k->jobs[0].epoch < epochs || k->jobs[0].drawn < k->n)
        for (size_t i = 0; i < count; i++)
            jobs_step(k, i);
}

double jobs_reads(jobs_kit *k) {
    double reads = (double)(k->misses + k->background) / (double)k->served;
    k->served = k->hits = k->misses = k->background = 0;
    memset(k->form_hits, 0, sizeof k->form_hits);
    return reads;
}
