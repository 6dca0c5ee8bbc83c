#include "svm/row_cache.h"

#include "base/err.h"
#include "base/mem.h"
#include "base/spec.h"
#include "cache/local.h"
#include "plugins.h"
#include "svm/row_pool.h"

#include <math.h>

struct larder__row_cache {
    larder__cache *cache;
    larder__row_pool *pool;
    larder_buf *(*take)(void *arg); /* another's pool, or NULL */
    void *take_arg;
    size_t rows;
    bool roomy; /* all rows fit, nobody will have to leave */
    uint64_t now, rounds;
    larder_buf **held;  /* by row: in a working set, borrowed; else NULL */
    uint64_t *round_of; /* by row: the round that last asked for it + 1 */
    /* One round, as asked. */
    larder_access *a;
    larder__ticket *t;
    larder_buf **bufs;
    size_t room, n;
};

/* ---- beginning and end ----------------------------------------------------------------------- */

static int open_cache(larder__row_cache *c, const larder__row_cache_conf *conf) {
    char name[64];
    const char *rest;
    larder_args args;
    int rc = larder__spec_name(conf->policy, name, sizeof name, &rest);
    const larder_policy *policy = rc < 0 ? NULL : larder__policy_find(name);
    if (!policy)
        return LARDER_E_ARGS;
    if (policy->future == LARDER_FUTURE_ALL)
        return larder__fail(LARDER_E_ARGS, "%s knows the future: it is for simulations", name);
    if ((rc = larder__args_parse(&args, "policy", &policy->plugin, rest, ',', NULL)) < 0)
        return rc;
    larder__cache_conf one = {.policy = policy,
                              .args = &args,
                              .store = &larder__store_heap,
                              .keys = conf->rows,
                              .budget = conf->budget,
                              .seed = conf->seed};
    rc = larder__cache_open(&c->cache, &one);
    larder__args_free(&args);
    return rc;
}

int larder__row_cache_open(larder__row_cache **out, const larder__row_cache_conf *conf) {
    *out = NULL;
    if (conf->rows > UINT32_MAX / sizeof(float))
        return larder__fail(LARDER_E_RANGE, "rows of %zu values are too long to keep", conf->rows);
    larder__row_cache *c = larder__calloc(1, sizeof *c);
    if (!c)
        return LARDER_E_NOMEM;
    c->rows = conf->rows;
    c->take = conf->take, c->take_arg = conf->take_arg;
    c->roomy = conf->budget >= (uint64_t)conf->rows * conf->rows * sizeof(float);
    c->held = larder__calloc(conf->rows + 1, sizeof *c->held);
    c->round_of = larder__calloc(conf->rows + 1, sizeof *c->round_of);
    int rc = c->held && c->round_of ? 0 : LARDER_E_NOMEM;
    if (rc == 0)
        rc = larder__row_pool_open(&c->pool, (uint32_t)(conf->rows * sizeof(float)));
    if (rc == 0)
        rc = open_cache(c, conf);
    if (rc < 0)
        larder__row_cache_close(&c);
    *out = c;
    return rc;
}

void larder__row_cache_close(larder__row_cache **pc) {
    larder__row_cache *c = *pc;
    *pc = NULL;
    if (!c)
        return;
    larder__cache_close(&c->cache);
    larder__row_pool_close(&c->pool);
    larder__free(c->held);
    larder__free(c->round_of);
    larder__free(c->a);
    larder__free(c->t);
    larder__free(c->bufs);
    larder__free(c);
}

/* ---- a round --------------------------------------------------------------------------------- */

static int reserve(larder__row_cache *c, size_t n) {
    if (n <= c->room)
        return 0;
    larder__free(c->a);
    larder__free(c->t);
    larder__free(c->bufs);
    c->a = larder__malloc(n * sizeof *c->a);
    c->t = larder__malloc(n * sizeof *c->t);
    c->bufs = larder__malloc(n * sizeof *c->bufs);
    bool there = c->a && c->t && c->bufs;
    c->room = there ? n : 0;
    return there ? 0 : LARDER_E_NOMEM;
}

/* Distinct, and known. */
static int check_ids(larder__row_cache *c, const uint32_t *ids, size_t n) {
    c->rounds++;
    for (size_t i = 0; i < n; i++) {
        if (ids[i] >= c->rows)
            return larder__fail(LARDER_E_RANGE, "row %u of %zu", ids[i], c->rows);
        if (c->round_of[ids[i]] == c->rounds)
            return larder__fail(LARDER_E_ARGS, "row %u is asked for twice in a round", ids[i]);
        c->round_of[ids[i]] = c->rounds;
    }
    return 0;
}

/* Takes back what claim gave: whoever has to be made is not. */
static void settle(larder__row_cache *c, size_t n, int code) {
    for (size_t i = 0; i < n; i++)
        if (c->t[i].task == LARDER__MAKE)
            larder__cache_fail(c->cache, &c->t[i], code, larder_errmsg());
        else
            larder__ticket_drop(&c->t[i]);
}

static larder_buf *fresh_row(larder__row_cache *c) {
    return c->take ? c->take(c->take_arg) : larder__row_pool_take(c->pool);
}

/* A buffer for each row that has to be made; READY are the others: nobody else makes rows while we
 * decide. */
static int begin_rows(larder__row_cache *c, size_t n, larder_buf **out, bool *missing) {
    for (size_t i = 0; i < n; i++) {
        missing[i] = c->t[i].task == LARDER__MAKE;
        out[i] = missing[i] ? fresh_row(c) : larder_buf_ref(c->t[i].buf);
        if ((c->bufs[i] = out[i]))
            continue;
        while (i-- > 0)
            larder_buf_unref(&out[i]);
        return LARDER_E_NOMEM;
    }
    return 0;
}

int larder__row_cache_take(larder__row_cache *c, const uint32_t *ids, size_t n, larder_buf **out,
                           bool *missing) {
    if (c->n)
        return larder__fail(LARDER_E_STATE, "the rows taken before are not filled yet");
    int rc = check_ids(c, ids, n);
    if (rc < 0 || (rc = reserve(c, n)) < 0)
        return rc;
    for (size_t i = 0; i < n; i++)
        c->a[i] = (larder_access){.key = ids[i],
                                  .now = c->now + i,
                                  .next_use = LARDER_UNKNOWN,
                                  .size = (uint32_t)(c->rows * sizeof(float)),
                                  .tag = LARDER_TAG_HELD,
                                  .score = NAN};
    c->now += n;
    if ((rc = larder__cache_claim_batch(c->cache, c->a, n, c->t)) < 0)
        return rc;
    if ((rc = begin_rows(c, n, out, missing)) < 0) {
        settle(c, n, rc);
        return rc;
    }
    c->n = n;
    for (size_t i = 0; i < n; i++)
        c->held[ids[i]] = c->bufs[i];
    return 0;
}

void larder__row_cache_filled(larder__row_cache *c) {
    for (size_t i = 0; i < c->n; i++)
        if (c->t[i].task == LARDER__MAKE)
            larder__cache_fill(c->cache, &c->t[i], c->bufs[i]);
        else
            larder__ticket_drop(&c->t[i]);
    larder__cache_batch(c->cache);
    c->n = 0;
}

/* ---- what the solver says -------------------------------------------------------------------- */

bool larder__row_cache_listens(larder__row_cache *c) {
    return !c->roomy && larder__cache_listens(c->cache);
}

void larder__row_cache_scores(larder__row_cache *c, const float *dist) {
    larder__cache_score_all(c->cache, dist, 1);
}

void larder__row_cache_leave(larder__row_cache *c, const uint32_t *ids, const float *dist,
                             size_t n) {
    bool offered = dist && larder__cache_listens(c->cache);
    for (size_t i = 0; i < n; i++) {
        larder_buf *b = c->held[ids[i]];
        c->held[ids[i]] = NULL;
        if (!b || !offered)
            continue;
        larder_access a = {.key = ids[i],
                           .now = c->now,
                           .next_use = LARDER_UNKNOWN,
                           .size = (uint32_t)larder_buf_size(b),
                           .tag = LARDER_TAG_HELD,
                           .score = dist[i]};
        larder__cache_offer(c->cache, &a, &b, 1);
    }
}

/* ---- figures --------------------------------------------------------------------------------- */

void larder__row_cache_read(larder__row_cache *c, larder__row_cache_figures *out) {
    larder__cache_figures f;
    larder__cache_read_figures(c->cache, &f);
    *out = (larder__row_cache_figures){.asked = f.requests,
                                       .hits = f.hits,
                                       .resident = f.resident,
                                       .resident_bytes = f.resident_bytes,
                                       .evictions = f.evictions,
                                       .held_bytes = f.loaned_bytes,
                                       .metadata_bytes = f.metadata_bytes};
}

bool larder__row_cache_switched(larder__row_cache *c, uint64_t i, larder_switch *out) {
    return larder__cache_switched(c->cache, i, out);
}
