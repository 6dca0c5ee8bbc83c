/* Raw access sequences through one policy: kernel rows, or anybody's trace of dense ids. */
#include "base/err.h"
#include "base/file.h"
#include "base/limit.h"
#include "base/mem.h"
#include "base/spec.h"
#include "cache/local.h"
#include "plugins.h"
#include "sim/sim.h"

#include <math.h>
#include <stdlib.h>

#if LARDER_HAVE_ZSTD
#include "base/late.h"

#include <zstd.h>

#define CALLS(X)                                                                                   \
    X(ZSTD_createDStream)                                                                          \
    X(ZSTD_decompressStream) X(ZSTD_freeDStream) X(ZSTD_getErrorName) X(ZSTD_isError)
CALLS(LARDER__LATE_NAME)
LARDER__LATE(zstd, LARDER_LATE_ZSTD, CALLS)
#endif

enum { CHUNK = 256 };

/* ---- reading --------------------------------------------------------------------------------- */

#if LARDER_HAVE_ZSTD
static int unpack(const char *path, unsigned char **bytes, size_t *size) {
    unsigned char *packed = *bytes, *out = NULL;
    size_t cap = 0, used = 0;
    int rc = larder__late_open(&zstd_late);
    ZSTD_DStream *z = rc == 0 ? ZSTD_createDStream() : NULL;
    ZSTD_inBuffer in = {packed, *size, 0};
    rc = rc < 0 ? larder__fail_in(rc, "%s", path) : z ? 0 : LARDER_E_NOMEM;
    size_t left = 1; /* 0 at the end of a frame */
    while (rc == 0 && (in.pos < in.size || left)) {
        if (used == cap) {
            cap = cap ? cap * 2 : 1 << 20;
            unsigned char *grown =
                larder__memory_allows(cap) == 0 ? larder__realloc(out, cap) : NULL;
            if (!grown) {
                rc = larder__fail_in(LARDER_E_NOMEM, "%s: unpacked", path);
                break;
            }
            out = grown;
        }
        ZSTD_outBuffer o = {out, cap, used};
        size_t before = in.pos;
        left = ZSTD_decompressStream(z, &o, &in);
        if (ZSTD_isError(left))
            rc = larder__fail(LARDER_E_FORMAT, "%s: %s", path, ZSTD_getErrorName(left));
        else if (in.pos == in.size && left && o.pos == used && in.pos == before)
            rc = larder__fail(LARDER_E_FORMAT, "%s: ends in the middle of its data", path);
        used = o.pos;
    }
    if (z)
        ZSTD_freeDStream(z);
    larder__free(packed);
    if (rc < 0)
        larder__free(out);
    *bytes = rc < 0 ? NULL : out;
    *size = used;
    return rc;
}
#else
static int unpack(const char *path, unsigned char **bytes, size_t *size) {
    (void)size;
    larder__free(*bytes);
    *bytes = NULL;
    return larder__fail(LARDER_E_UNSUPPORTED,
                        "%s: this build cannot unpack .zst (libzstd-dev was missing)", path);
}
#endif

/* Ids below 16 million have a zero byte each: no text is a list of them. */
static bool is_text(const unsigned char *bytes, size_t size) {
    for (size_t i = 0; i < size && i < 4096; i++)
        if ((bytes[i] < ' ' && bytes[i] != '\t' && bytes[i] != '\n' && bytes[i] != '\r') ||
            bytes[i] > '~')
            return false;
    return true;
}

int larder__replay_read(const char *path, uint32_t **ids, uint64_t *count) {
    unsigned char *bytes = NULL;
    size_t size, n = strlen(path);
    *ids = NULL;
    int rc = larder__file_read(path, (size_t)1 << 36, &bytes, &size);
    if (rc == 0 && n > 4 && strcmp(path + n - 4, ".zst") == 0)
        rc = unpack(path, &bytes, &size);
    if (rc == 0 && size && is_text(bytes, size))
        rc = larder__fail(LARDER_E_FORMAT,
                          "%s: is a text; ids are binary here, 4 bytes each, the lowest first",
                          path);
    if (rc == 0 && size % 4)
        rc = larder__fail(LARDER_E_FORMAT, "%s: %zu bytes are no whole number of u32 ids", path,
                          size);
    if (rc < 0) {
        larder__free(bytes);
        return rc;
    }
    *ids = (uint32_t *)(void *)bytes;
    *count = size / 4;
    for (uint64_t i = 0; i < *count; i++) { /* little-endian on any machine */
        const unsigned char *b = bytes + 4 * i;
        (*ids)[i] =
            (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
    }
    return 0;
}

/* ---- sparse ids ------------------------------------------------------------------------------ */

static int by_value(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

/* A trace of few but huge ids would ask for tables of billions of keys: such ids are renumbered,
 * keeping their order. *out: a copy, or NULL when they are dense enough as they are. */
static int renumber(const uint32_t *ids, uint64_t count, uint64_t *keys, uint32_t **out) {
    *out = NULL;
    if (*keys <= count * 8 + (1u << 20))
        return 0;
    uint32_t *sorted = larder__malloc(count * sizeof *sorted);
    uint32_t *fresh = larder__malloc(count * sizeof *fresh);
    if (!sorted || !fresh) {
        larder__free(sorted);
        larder__free(fresh);
        return LARDER_E_NOMEM;
    }
    memcpy(sorted, ids, count * sizeof *sorted);
    qsort(sorted, count, sizeof *sorted, by_value);
    uint64_t distinct = 0;
    for (uint64_t i = 0; i < count; i++)
        if (i == 0 || sorted[i] != sorted[i - 1])
            sorted[distinct++] = sorted[i];
    for (uint64_t i = 0; i < count; i++) {
        const uint32_t *at = bsearch(&ids[i], sorted, distinct, sizeof *sorted, by_value);
        fresh[i] = (uint32_t)(at - sorted);
    }
    larder__free(sorted);
    *keys = distinct;
    *out = fresh;
    return 0;
}

/* ---- replaying ------------------------------------------------------------------------------- */

/* Every entry has size 1, unless rows were recorded at several lengths. */
static uint32_t row_size(const larder__accesses *rows, const larder__access_round *r) {
    return r->length ? r->length : (uint32_t)rows->rows;
}

static bool one_length(const larder__replay_conf *c) {
    for (uint64_t r = 0; c->rows && r < c->rows->rounds; r++)
        if (c->rows->round[r].length)
            return false;
    return true;
}

static uint64_t budget_of(const larder__replay_conf *c) {
    return one_length(c) ? c->entries : c->entries * c->rows->rows;
}

static int open_cache(larder__cache **out, const larder__replay_conf *c, uint64_t keys,
                      bool *needs_future) {
    char name[64];
    const char *rest;
    larder_args args;
    int rc = larder__spec_name(c->policy, name, sizeof name, &rest);
    const larder_policy *policy = rc < 0 ? NULL : larder__policy_find(name);
    if (!policy)
        return LARDER_E_ARGS;
    if (LARDER_HAS(policy, hears, needs_scores) &&
        !(c->rows && (c->rows->left.count || c->rows->scored.count)))
        return larder__fail(
            LARDER_E_ARGS,
            "%s needs a solver's words: it decides by scores, and a plain sequence of "
            "ids has none; larder svm-train --record leaves a sequence with them",
            name);
    if ((rc = larder__args_parse(&args, "policy", &policy->plugin, rest, ',', NULL)) < 0)
        return rc;
    larder__cache_conf conf = {.policy = policy,
                               .args = &args,
                               .store = &larder__store_null,
                               .keys = keys,
                               .budget = budget_of(c),
                               .seed = c->seed};
    *needs_future = policy->future == LARDER_FUTURE_ALL;
    rc = larder__cache_open(out, &conf);
    larder__args_free(&args);
    return rc;
}

typedef struct replay {
    const larder__replay_conf *conf;
    larder__cache *cache;
    const uint32_t *next; /* by position; NULL unless the policy wants the future */
    bool one_length;
    uint64_t longest; /* room below: accesses of a batch or round, rows that leave or are scored */
    larder_access *a;
    larder__ticket *t;
    uint64_t *keys;
} replay;

static void describe(const replay *p, uint64_t at, size_t n, uint32_t size, uint32_t tag) {
    for (size_t i = 0; i < n; i++)
        p->a[i] = (larder_access){
            .key = p->conf->ids[at + i],
            .now = at + i,
            .next_use = p->next && p->next[at + i] != UINT32_MAX ? p->next[at + i] : LARDER_UNKNOWN,
            .size = size,
            .tag = tag,
            .score = tag ? NAN : 0};
}

static int stopped(const replay *p) {
    return p->conf->stop && *p->conf->stop ? larder__fail(LARDER_E_CANCELLED, "interrupted") : 0;
}

static int run_batches(const replay *p) {
    const larder__replay_conf *c = p->conf;
    int rc = 0;
    for (uint64_t at = 0; rc == 0 && at < c->count; at += p->longest) {
        size_t n = c->count - at < p->longest ? (size_t)(c->count - at) : (size_t)p->longest;
        describe(p, at, n, 1, 0);
        rc = c->batch ? larder__cache_claim_batch(p->cache, p->a, n, p->t)
                      : larder__cache_claim(p->cache, p->a, n, p->t);
        if (c->batch)
            larder__cache_batch(p->cache);
        if (rc == 0)
            rc = stopped(p);
    }
    return rc;
}

/* What the solver said before a round: scores of all it knows, then rows that it gives back. */
static void tell(const replay *p, const larder__access_round *r, uint32_t size) {
    const larder__access_notes *scored = &p->conf->rows->scored, *left = &p->conf->rows->left;
    uint64_t n = r->scored_end - r->scored_begin;
    for (uint64_t i = 0; i < n; i++)
        p->keys[i] = scored->ids[r->scored_begin + i];
    if (n)
        larder__cache_score(p->cache, p->keys, scored->dist + r->scored_begin, n);
    n = r->left_end - r->left_begin;
    for (uint64_t i = 0; i < n; i++)
        p->a[i] = (larder_access){.key = left->ids[r->left_begin + i],
                                  .next_use = LARDER_UNKNOWN,
                                  .size = size,
                                  .tag = LARDER_TAG_HELD,
                                  .score = left->dist[r->left_begin + i]};
    larder__cache_offer(p->cache, p->a, NULL, n);
}

static int run_rounds(const replay *p) {
    const larder__accesses *rows = p->conf->rows;
    int rc = 0;
    for (uint64_t i = 0; rc == 0 && i < rows->rounds; i++) {
        const larder__access_round *r = &rows->round[i];
        size_t n = (size_t)(r->end - r->begin);
        uint32_t size = p->one_length ? 1 : row_size(rows, r);
        tell(p, r, p->one_length || i == 0 ? 1 : row_size(rows, r - 1));
        describe(p, r->begin, n, size, LARDER_TAG_HELD);
        rc = larder__cache_claim_batch(p->cache, p->a, n, p->t);
        larder__cache_batch(p->cache);
        if (rc == 0)
            rc = stopped(p);
    }
    return rc;
}

static uint64_t longest_round(const larder__accesses *rows) {
    uint64_t longest = 1;
    for (uint64_t i = 0; i < rows->rounds; i++) {
        const larder__access_round *r = &rows->round[i];
        const uint64_t lengths[] = {r->end - r->begin, r->left_end - r->left_begin,
                                    r->scored_end - r->scored_begin};
        for (size_t k = 0; k < 3; k++)
            longest = lengths[k] > longest ? lengths[k] : longest;
    }
    return longest;
}

static int run(const larder__replay_conf *c, larder__cache *cache, const uint32_t *next) {
    replay p = {.conf = c,
                .cache = cache,
                .next = next,
                .one_length = one_length(c),
                .longest = c->rows    ? longest_round(c->rows)
                           : c->batch ? c->batch
                                      : CHUNK};
    p.a = larder__calloc(p.longest, sizeof *p.a);
    p.t = larder__calloc(p.longest, sizeof *p.t);
    p.keys = larder__calloc(p.longest, sizeof *p.keys);
    int rc = !p.a || !p.t || !p.keys ? LARDER_E_NOMEM : c->rows ? run_rounds(&p) : run_batches(&p);
    larder__free(p.a);
    larder__free(p.t);
    larder__free(p.keys);
    return rc;
}

static void read_result(larder__cache *cache, larder__replay_result *out) {
    larder__cache_figures f;
    larder__cache_read_figures(cache, &f);
    out->accesses = f.requests;
    out->hits = f.hits;
    out->evictions = f.evictions;
    out->hit_ratio = f.requests ? (double)f.hits / (double)f.requests : 0;
    larder_switch s;
    for (; larder__cache_switched(cache, out->switches, &s); out->switches++)
        if (out->switches < LARDER__REPLAY_SWITCHES)
            out->switched[out->switches] = s;
}

int larder__replay_run(const larder__replay_conf *conf, larder__replay_result *out) {
    *out = (larder__replay_result){0};
    larder__replay_conf dense = *conf, *c = &dense;
    if (c->rows) {
        c->ids = c->rows->ids;
        c->count = c->rows->count;
    }
    if (c->count == 0)
        return larder__fail(LARDER_E_ARGS, "the access sequence is empty");
    if (c->batch > 1u << 24)
        return larder__fail(LARDER_E_ARGS, "a batch of %llu makes no sense",
                            (unsigned long long)c->batch);
    uint64_t keys = 0;
    for (uint64_t i = 0; i < c->count; i++)
        keys = c->ids[i] >= keys ? (uint64_t)c->ids[i] + 1 : keys;
    larder__cache *cache = NULL;
    uint32_t *next = NULL, *renumbered = NULL;
    bool needs_future = false;
    int rc = c->rows ? 0 : renumber(c->ids, c->count, &keys, &renumbered);
    if (c->rows)
        keys = c->rows->rows;
    if (renumbered)
        c->ids = renumbered;
    if (rc == 0)
        rc = open_cache(&cache, c, keys, &needs_future);
    if (rc == 0 && needs_future)
        rc = c->count < UINT32_MAX ? larder__next_uses(c->ids, c->count, keys, &next)
                                   : larder__fail(LARDER_E_RANGE, "too long to know the future of");
    if (rc == 0)
        rc = run(c, cache, next);
    if (cache && (rc == 0 || rc == LARDER_E_CANCELLED))
        read_result(cache, out);
    larder__cache_close(&cache);
    larder__free(next);
    larder__free(renumbered);
    return rc;
}
