/* Kernel rows in device memory, kept by the same policies as the CPU's (row_cache.h): a buffer
 * stands for a row of the device, its bytes are never looked at here. */
#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "svm/device_work.h"
#include "svm/smo.h"

#include <string.h>

typedef larder__device_kept kept;

/* Rows beyond those of the policy: in a working set, or on their way. */
enum { BEYOND = 2 * LARDER__DEVICE_SLOTS };

static void give_back(void *arg, uint64_t row) {
    kept *k = arg;
    k->spare[k->spares++] = (uint32_t)row;
}

static larder_buf *take_row(void *arg) {
    kept *k = arg;
    if (k->spares == 0)
        return NULL;
    uint32_t row = k->spare[k->spares - 1];
    larder_buf *b = larder__buf_outside(k->names + row, (uint32_t)(k->points * sizeof(float)),
                                        give_back, k, row);
    k->spares -= b != NULL;
    return b;
}

static uint32_t row_of(const kept *k, larder_buf *b) {
    return (uint32_t)((const char *)larder_buf_data(b) - k->names);
}

static int open_cache(kept *k) {
    const larder__svm_shared *s = k->shared;
    larder__row_cache_conf conf = {.policy = s->policy,
                                   .rows = k->points,
                                   .budget = (k->rows - BEYOND) * k->points * sizeof(float),
                                   .seed = s->seed,
                                   .take = take_row,
                                   .take_arg = k};
    return larder__row_cache_open(&k->cache, &conf);
}

static int open_arrays(kept *k) {
    size_t n = k->points + 1;
    k->spare = larder__malloc((k->rows + 1) * sizeof *k->spare);
    k->names = larder__malloc(k->rows + 1);
    k->held = larder__calloc(n, sizeof *k->held);
    k->place = larder__calloc(n, sizeof *k->place);
    k->users = larder__calloc(n, sizeof *k->users);
    if (!k->spare || !k->names || !k->held || !k->place || !k->users)
        return larder__fail(LARDER_E_NOMEM, "no memory to keep rows of %zu points", k->points);
    for (size_t i = 0; i < k->rows; i++) /* the first are used first */
        k->spare[k->spares++] = (uint32_t)(k->rows - 1 - i);
    return 0;
}

int larder__device_kept_open(kept **out, larder__svm_shared *s, size_t points) {
    kept *k = *out = larder__calloc(1, sizeof *k);
    if (!k)
        return larder__fail(LARDER_E_NOMEM, "no memory to keep rows");
    bool none = strcmp(s->policy, "none") == 0;
    k->shared = s, k->points = points, k->stride = (points + 31) / 32 * 32;
    size_t row = k->stride * sizeof(float), fit = (size_t)(s->budget / row);
    size_t most = (size_t)(s->most / row) > BEYOND ? (size_t)(s->most / row) - BEYOND : 0;
    fit = fit < most ? fit : most;
    k->rows = (none ? 0 : fit < points ? fit : points) + BEYOND;
    int rc = open_arrays(k);
    if (rc == 0)
        rc = larder__gpu_alloc(s->device->gpu, &k->memory, k->rows * k->stride * sizeof(float),
                               "rows of the kernel matrix");
    if (rc == 0 && !none)
        rc = open_cache(k);
    if (rc < 0)
        larder__device_kept_close(out);
    return rc;
}

void larder__device_kept_close(kept **slot) {
    kept *k = *slot;
    *slot = NULL;
    if (!k)
        return;
    for (size_t i = 0; k->held && i < k->points; i++)
        larder_buf_unref(&k->held[i]);
    larder__row_cache_close(&k->cache);
    larder__gpu_free(k->shared->device->gpu, k->memory);
    larder__free(k->spare);
    larder__free(k->names);
    larder__free(k->held);
    larder__free(k->place);
    larder__free(k->users);
    larder__free(k);
}

bool larder__device_kept_listens(const kept *k) {
    return k->cache && larder__row_cache_listens(k->cache);
}

/* ---- rounds ---------------------------------------------------------------------------------- */

void larder__device_kept_leave(kept *k, const uint32_t *points, const float *dist, size_t n,
                               const float *all) {
    uint32_t gone[LARDER__DEVICE_SLOTS];
    float far[LARDER__DEVICE_SLOTS];
    double start = larder__now();
    size_t m = 0;
    if (all)
        larder__row_cache_scores(k->cache, all);
    for (size_t i = 0; i < n; i++)
        if (--k->users[points[i]] == 0)
            far[m] = dist ? dist[i] : 0, gone[m++] = points[i];
    if (m && k->cache)
        larder__row_cache_leave(k->cache, gone, dist ? far : NULL, m);
    for (size_t i = 0; i < m; i++)
        larder_buf_unref(&k->held[gone[i]]);
    k->seconds += larder__now() - start;
}

static int hold(kept *k, const uint32_t *points, size_t n, larder_buf **got, bool *missing) {
    if (k->cache)
        return larder__row_cache_take(k->cache, points, n, got, missing);
    for (size_t i = 0; i < n; i++) {
        missing[i] = true;
        if (!(got[i] = take_row(k))) {
            while (i-- > 0)
                larder_buf_unref(&got[i]);
            return larder__fail(LARDER_E_NOMEM, "no room for rows on the GPU");
        }
    }
    return 0;
}

int larder__device_kept_enter(kept *k, const uint32_t *points, size_t n, uint32_t *make,
                              size_t *made) {
    uint32_t fresh[LARDER__DEVICE_SLOTS];
    larder_buf *got[LARDER__DEVICE_SLOTS];
    bool missing[LARDER__DEVICE_SLOTS];
    double start = larder__now();
    size_t m = 0;
    *made = 0;
    for (size_t i = 0; i < n; i++)
        if (k->users[points[i]]++ == 0)
            fresh[m++] = points[i];
    int rc = m ? hold(k, fresh, m, got, missing) : 0;
    for (size_t i = 0; rc == 0 && i < m; i++) {
        k->held[fresh[i]] = got[i];
        k->place[fresh[i]] = row_of(k, got[i]);
        if (missing[i])
            make[(*made)++] = fresh[i];
    }
    if (rc == 0 && m && k->cache)
        larder__row_cache_filled(
            k->cache); /* they are made before anybody reads them: one stream */
    k->asked += m, k->made += *made, k->hits += m - *made;
    k->seconds += larder__now() - start;
    return rc;
}
