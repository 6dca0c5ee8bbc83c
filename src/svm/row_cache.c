#include "svm/row_cache.h"

#include "base/err.h"
#include "base/mem.h"
#include "base/spec.h"
#include "cache/cache.h"
#include "plugins.h"
#include "svm/row_pool.h"

#include <math.h>

enum { MOST_PARTS = 64 };

struct larder__row_cache {
    const larder_policy *policy;
    larder__cache *part[MOST_PARTS]; /* row r is key r / parts of part r % parts */
    unsigned parts;
    larder__each_fn each;
    void *team;
    larder__row_pool *pool;
    size_t rows;
    bool roomy; /* all rows fit, nobody will have to leave */
    uint64_t now, rounds;
    larder_buf **held;  /* by row: in a working set, borrowed; else NULL */
    uint64_t *round_of; /* by row: the round that last asked for it + 1 */
    /* One round, sorted by part, within a part as asked. */
    larder_access *a;
    larder__ticket *t;
    larder_buf **bufs;
    uint32_t *from; /* its place in the caller's order */
    size_t room, n;
    size_t begin[MOST_PARTS + 1];
    int code[MOST_PARTS];
};

/* ---- beginning and end ----------------------------------------------------------------------- */

static int open_parts(larder__row_cache *c, const larder__row_cache_conf *conf) {
    char name[64];
    const char *rest;
    larder_args args;
    int rc = larder__spec_name(conf->policy, name, sizeof name, &rest);
    c->policy = rc < 0 ? NULL : larder__policy_find(name);
    if (!c->policy)
        return LARDER_E_ARGS;
    if (c->policy->needs_future)
        return larder__fail(LARDER_E_ARGS, "%s knows the future: it is for simulations", name);
    if ((rc = larder__args_parse(&args, "policy", &c->policy->plugin, rest, ',', NULL)) < 0)
        return rc;
    for (unsigned i = 0; rc == 0 && i < c->parts; i++) {
        larder__cache_conf one = {.policy = c->policy,
                                  .args = &args,
                                  .store = &larder__store_heap,
                                  .keys = (conf->rows + c->parts - 1 - i) / c->parts,
                                  .budget = conf->budget / c->parts,
                                  .seed = conf->seed + i};
        rc = larder__cache_open(&c->part[i], &one);
    }
    larder__args_free(&args);
    return rc;
}

int larder__row_cache_open(larder__row_cache **out, const larder__row_cache_conf *conf) {
    *out = NULL;
    if (conf->parts > MOST_PARTS)
        return larder__fail(LARDER_E_ARGS, "%u parts: at most %d", conf->parts, MOST_PARTS);
    if (conf->rows > UINT32_MAX / sizeof(float))
        return larder__fail(LARDER_E_RANGE, "rows of %zu values are too long to keep", conf->rows);
    larder__row_cache *c = larder__calloc(1, sizeof *c);
    if (!c)
        return LARDER_E_NOMEM;
    c->parts = conf->parts ? conf->parts : 1;
    c->each = conf->each;
    c->team = conf->team;
    c->rows = conf->rows;
    c->roomy = conf->budget / c->parts >=
               (uint64_t)(conf->rows + c->parts - 1) / c->parts * conf->rows * sizeof(float);
    c->held = larder__calloc(conf->rows + 1, sizeof *c->held);
    c->round_of = larder__calloc(conf->rows + 1, sizeof *c->round_of);
    int rc = c->held && c->round_of ? 0 : LARDER_E_NOMEM;
    if (rc == 0)
        rc = larder__row_pool_open(&c->pool, (uint32_t)(conf->rows * sizeof(float)));
    if (rc == 0)
        rc = open_parts(c, conf);
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
    for (unsigned i = 0; i < c->parts; i++)
        larder__cache_close(&c->part[i]);
    larder__row_pool_close(&c->pool);
    larder__free(c->held);
    larder__free(c->round_of);
    larder__free(c->a);
    larder__free(c->t);
    larder__free(c->bufs);
    larder__free(c->from);
    larder__free(c);
}

/* ---- a round --------------------------------------------------------------------------------- */

static int reserve(larder__row_cache *c, size_t n) {
    if (n <= c->room)
        return 0;
    larder__free(c->a);
    larder__free(c->t);
    larder__free(c->bufs);
    larder__free(c->from);
    c->a = larder__malloc(n * sizeof *c->a);
    c->t = larder__malloc(n * sizeof *c->t);
    c->bufs = larder__malloc(n * sizeof *c->bufs);
    c->from = larder__malloc(n * sizeof *c->from);
    bool there = c->a && c->t && c->bufs && c->from;
    c->room = there ? n : 0;
    return there ? 0 : LARDER_E_NOMEM;
}

/* Sorts rows by part. Every row of `ids` gets its place in c->from; the caller describes it. */
static int sort_rows(larder__row_cache *c, const uint32_t *ids, size_t n) {
    int rc = reserve(c, n);
    if (rc < 0)
        return rc;
    size_t at[MOST_PARTS] = {0};
    for (size_t i = 0; i < n; i++)
        at[ids[i] % c->parts]++;
    c->begin[0] = 0;
    for (unsigned p = 0; p < c->parts; p++) {
        c->begin[p + 1] = c->begin[p] + at[p];
        at[p] = c->begin[p];
    }
    for (size_t i = 0; i < n; i++)
        c->from[at[ids[i] % c->parts]++] = (uint32_t)i;
    c->n = n;
    return 0;
}

static void run_parts(larder__row_cache *c, void (*piece)(void *, size_t, unsigned)) {
    if (c->each && c->parts > 1)
        c->each(c->team, piece, c, c->parts);
    else
        for (unsigned p = 0; p < c->parts; p++)
            piece(c, p, 0);
}

static void claim_piece(void *arg, size_t p, unsigned thread) {
    (void)thread;
    larder__row_cache *c = arg;
    size_t from = c->begin[p];
    c->code[p] =
        larder__cache_claim_batch(c->part[p], c->a + from, c->begin[p + 1] - from, c->t + from);
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
static void settle(larder__row_cache *c, int code) {
    for (unsigned p = 0; p < c->parts; p++)
        for (size_t k = c->begin[p]; c->code[p] == 0 && k < c->begin[p + 1]; k++)
            if (c->t[k].task == LARDER__MAKE)
                larder__cache_fail(c->part[p], &c->t[k], code, larder_errmsg());
            else
                larder__ticket_drop(&c->t[k]);
    c->n = 0;
}

/* A buffer for a row that has to be made, with what is there of it already. */
static larder_buf *begin_row(larder__row_cache *c, larder__ticket *t, uint32_t *have) {
    larder_buf *b = larder__row_pool_take(c->pool, t->size);
    size_t bytes = t->buf ? larder_buf_size(t->buf) : 0;
    if (b && bytes)
        memcpy(larder_buf_data(b), larder_buf_data(t->buf), bytes);
    *have = (uint32_t)(bytes / sizeof(float));
    return b;
}

static int begin_rows(larder__row_cache *c, larder_buf **out, uint32_t *have) {
    for (size_t k = 0; k < c->n; k++) {
        larder__ticket *t = &c->t[k];
        uint32_t i = c->from[k];
        if (t->task == LARDER__MAKE) {
            c->bufs[k] = begin_row(c, t, &have[i]);
        } else { /* READY: nobody else makes rows while we decide */
            c->bufs[k] = larder_buf_ref(t->buf);
            have[i] = (uint32_t)(larder_buf_size(t->buf) / sizeof(float));
        }
        out[i] = c->bufs[k];
        if (out[i])
            continue;
        while (k-- > 0)
            larder_buf_unref(&out[c->from[k]]);
        return LARDER_E_NOMEM;
    }
    return 0;
}

int larder__row_cache_take_part(larder__row_cache *c, const uint32_t *ids, size_t n,
                                uint32_t length, uint32_t cost_us, larder_buf **out,
                                uint32_t *have) {
    if (length > c->rows || length == 0)
        return larder__fail(LARDER_E_ARGS, "%u values of a row of %zu", length, c->rows);
    if (c->n)
        return larder__fail(LARDER_E_STATE, "the rows taken before are not filled yet");
    int rc = check_ids(c, ids, n);
    if (rc < 0 || (rc = sort_rows(c, ids, n)) < 0)
        return rc;
    for (size_t k = 0; k < n; k++)
        c->a[k] = (larder_access){.key = ids[c->from[k]] / c->parts,
                                  .now = c->now + c->from[k],
                                  .next_use = LARDER_UNKNOWN,
                                  .size = (uint32_t)(length * sizeof(float)),
                                  .cost_us = cost_us,
                                  .tag = LARDER_TAG_HELD,
                                  .score = NAN};
    c->now += n;
    run_parts(c, claim_piece);
    for (unsigned p = 0; p < c->parts; p++)
        rc = rc < 0 ? rc : c->code[p];
    if (rc == 0)
        rc = begin_rows(c, out, have);
    if (rc < 0) {
        settle(c, rc);
        return rc;
    }
    for (size_t k = 0; k < n; k++)
        c->held[ids[c->from[k]]] = c->bufs[k];
    return 0;
}

int larder__row_cache_take(larder__row_cache *c, const uint32_t *ids, size_t n, uint32_t cost_us,
                           larder_buf **out, bool *missing) {
    uint32_t few[1024] = {0}, *have = few;
    if (n > sizeof few / sizeof *few && !(have = larder__malloc(n * sizeof *have)))
        return LARDER_E_NOMEM;
    int rc = larder__row_cache_take_part(c, ids, n, (uint32_t)c->rows, cost_us, out, have);
    for (size_t i = 0; rc == 0 && i < n; i++)
        missing[i] = have[i] < c->rows;
    if (have != few)
        larder__free(have);
    return rc;
}

static void fill_piece(void *arg, size_t p, unsigned thread) {
    (void)thread;
    larder__row_cache *c = arg;
    for (size_t k = c->begin[p]; k < c->begin[p + 1]; k++)
        if (c->t[k].task == LARDER__MAKE)
            larder__cache_fill(c->part[p], &c->t[k], c->bufs[k]);
        else
            larder__ticket_drop(&c->t[k]);
    larder__cache_batch(c->part[p]);
}

void larder__row_cache_filled(larder__row_cache *c) {
    run_parts(c, fill_piece);
    c->n = 0;
}

void larder__row_cache_failed(larder__row_cache *c, int code) { settle(c, code); }

/* ---- what the solver says -------------------------------------------------------------------- */

static bool takes_back(larder__row_cache *c) {
    for (unsigned p = 0; p < c->parts; p++)
        if (larder__cache_listens(c->part[p]))
            return true;
    return false;
}

bool larder__row_cache_listens(larder__row_cache *c) { return !c->roomy && takes_back(c); }

void larder__row_cache_scores(larder__row_cache *c, const float *dist) {
    for (unsigned p = 0; p < c->parts; p++)
        larder__cache_score_all(c->part[p], dist + p, c->parts);
}

void larder__row_cache_leave(larder__row_cache *c, const uint32_t *ids, const float *dist,
                             size_t n) {
    bool offered = dist && takes_back(c);
    for (size_t i = 0; i < n; i++) {
        larder_buf *b = c->held[ids[i]];
        c->held[ids[i]] = NULL;
        if (!b || !offered)
            continue;
        larder_access a = {.key = ids[i] / c->parts,
                           .now = c->now,
                           .next_use = LARDER_UNKNOWN,
                           .size = (uint32_t)larder_buf_size(b),
                           .tag = LARDER_TAG_HELD,
                           .score = dist[i]};
        larder__cache_offer(c->part[ids[i] % c->parts], &a, &b, 1);
    }
}

/* ---- figures --------------------------------------------------------------------------------- */

void larder__row_cache_read(larder__row_cache *c, larder__row_cache_figures *out) {
    *out = (larder__row_cache_figures){0};
    for (unsigned p = 0; p < c->parts; p++) {
        larder__cache_figures f;
        larder__cache_read_figures(c->part[p], &f);
        out->asked += f.requests;
        out->hits += f.hits;
        out->resident += f.resident;
        out->resident_bytes += f.resident_bytes;
        out->evictions += f.evictions;
        out->metadata_bytes += f.metadata_bytes;
        out->held_bytes += f.loaned_bytes;
    }
}

bool larder__row_cache_switched(larder__row_cache *c, unsigned part, uint64_t i,
                                larder_switch *out) {
    return part < c->parts && larder__cache_switched(c->part[part], i, out);
}
