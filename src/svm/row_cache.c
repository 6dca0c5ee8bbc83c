#include "svm/row_cache.h"

#include "base/err.h"
#include "base/mem.h"
#include "base/spec.h"
#include "cache/cache.h"
#include "plugins.h"
#include "svm/smo.h"

#include <math.h>

enum { MOST = LARDER__WS };

struct larder__row_cache {
    larder__cache *cache;
    larder_args args;
    size_t rows;
    uint64_t now;   /* requests so far */
    size_t claimed; /* tickets not settled yet */
    larder_access access[MOST];
    larder__ticket ticket[MOST];
    larder_buf *made[MOST];
    uint64_t keys[MOST];
};

static int open_policy(larder__row_cache *c, const larder__row_cache_conf *conf) {
    char name[64];
    const char *rest;
    int rc = larder__spec_name(conf->policy, name, sizeof name, &rest);
    const larder_policy *policy = rc < 0 ? NULL : larder__policy_find(name);
    if (!policy)
        return rc < 0 ? rc : LARDER_E_ARGS;
    if (policy->needs_future)
        return larder__fail(LARDER_E_ARGS,
                            "the policy %s knows the future: it is for larder sim alone", name);
    if ((rc = larder__args_parse(&c->args, "policy", &policy->plugin, rest, ',', NULL)) < 0)
        return rc;
    larder__cache_conf cache = {.policy = policy,
                                .args = &c->args,
                                .store = &larder__store_heap,
                                .keys = conf->rows,
                                .budget = conf->budget,
                                .seed = conf->seed};
    return larder__cache_open(&c->cache, &cache);
}

int larder__row_cache_open(larder__row_cache **out, const larder__row_cache_conf *conf) {
    larder__row_cache *c = *out = larder__calloc(1, sizeof *c);
    if (!c)
        return larder__fail(LARDER_E_NOMEM, "no memory for a cache of rows");
    c->rows = conf->rows;
    int rc = conf->rows < UINT32_MAX / sizeof(float)
                 ? open_policy(c, conf)
                 : larder__fail(LARDER_E_RANGE, "a row of %zu values is too long to be kept",
                                conf->rows);
    if (rc < 0)
        larder__row_cache_close(out);
    return rc;
}

void larder__row_cache_close(larder__row_cache **cache) {
    larder__row_cache *c = *cache;
    if (!c)
        return;
    larder__cache_close(&c->cache);
    larder__args_free(&c->args);
    larder__free(c);
    *cache = NULL;
}

/* No memory for a row: the claims are taken back, the policy's memory of them stays. */
static int give_up(larder__row_cache *c, size_t n, larder_buf **out) {
    for (size_t i = 0; i < n; i++) {
        if (c->ticket[i].task == LARDER__MAKE)
            larder__cache_fail(c->cache, &c->ticket[i], LARDER_E_NOMEM, "no memory for a row");
        else
            larder__ticket_drop(&c->ticket[i]);
        larder_buf_unref(&out[i]);
    }
    c->claimed = 0;
    return larder__fail(LARDER_E_NOMEM, "no memory for kernel rows of %zu values", c->rows);
}

int larder__row_cache_take(larder__row_cache *c, const uint32_t *ids, size_t n, uint32_t cost_us,
                           larder_buf **out, bool *missing) {
    uint32_t bytes = (uint32_t)(c->rows * sizeof(float));
    for (size_t i = 0; i < n; i++)
        c->access[i] = (larder_access){.key = ids[i],
                                       .now = c->now++,
                                       .next_use = LARDER_UNKNOWN,
                                       .size = bytes,
                                       .cost_us = cost_us,
                                       .score = NAN};
    int rc = larder__cache_claim_batch(c->cache, c->access, n, c->ticket);
    if (rc < 0)
        return rc;
    bool all = true;
    for (size_t i = 0; i < n; i++) {
        missing[i] = c->ticket[i].task == LARDER__MAKE;
        out[i] = missing[i] ? larder_buf_new(bytes) : larder_buf_ref(c->ticket[i].buf);
        all = all && out[i];
        c->made[i] = missing[i] ? out[i] : NULL;
    }
    if (!all)
        return give_up(c, n, out);
    c->claimed = n;
    larder__cache_batch(c->cache);
    return 0;
}

void larder__row_cache_filled(larder__row_cache *c) {
    for (size_t i = 0; i < c->claimed; i++)
        if (c->made[i])
            larder__cache_fill(c->cache, &c->ticket[i], c->made[i]);
        else
            larder__ticket_drop(&c->ticket[i]);
    c->claimed = 0;
}

void larder__row_cache_leave(larder__row_cache *c, const uint32_t *ids, const float *dist,
                             size_t n) {
    for (size_t i = 0; i < n; i++)
        c->keys[i] = ids[i];
    larder__cache_score(c->cache, c->keys, dist, n);
}

void larder__row_cache_read(larder__row_cache *c, larder__row_cache_figures *out) {
    larder__cache_figures f;
    larder__cache_read_figures(c->cache, &f);
    *out = (larder__row_cache_figures){f.requests, f.hits, f.resident, f.resident_bytes};
}
