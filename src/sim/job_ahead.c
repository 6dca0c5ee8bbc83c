#include "sim/job_ahead.h"

#include "base/err.h"
#include "base/mem.h"

#include <math.h>
#include <stdio.h>

static uint64_t parts_of(uint64_t n, uint64_t part) { return n / part + (n % part != 0); }

static int make_room(larder__tape *t) {
    t->ids = larder__malloc(t->requests * sizeof *t->ids);
    t->served = larder__malloc(t->requests * sizeof *t->served);
    t->kinds = larder__malloc(t->requests);
    t->loss = larder__malloc(t->requests * sizeof *t->loss);
    t->size_of = larder__malloc(t->requests * sizeof *t->size_of);
    t->label_of = larder__malloc(t->requests * sizeof *t->label_of);
    t->batches = larder__calloc(t->count, sizeof *t->batches);
    return t->ids && t->served && t->kinds && t->loss && t->size_of && t->label_of && t->batches
               ? 0
               : LARDER_E_NOMEM;
}

static void fill_rows(larder__tape *t, uint64_t mean) {
    for (uint64_t i = 0; i < t->requests; i++) {
        t->ids[i] = t->served[i] = (uint32_t)i;
        t->kinds[i] = LARDER_MISS;
        t->loss[i] = NAN;
        t->size_of[i] = (uint32_t)mean;
        t->label_of[i] = -1;
    }
}

/* Without a cache: training waits for what storage takes longer. */
static void fill_batches(larder__tape *t, uint64_t mean, double read, double step) {
    for (uint64_t k = 0; k < t->count; k++) {
        uint64_t begin = k * t->job.batch, left = t->requests - begin;
        uint64_t n = left < t->job.batch ? left : t->job.batch;
        double waited = (double)n * fmax(read - step, 0);
        t->batches[k] = (larder__tape_batch){.number = k,
                                             .length = t->requests,
                                             .begin = begin,
                                             .n = n,
                                             .first = k == 0,
                                             .last = k + 1 == t->count,
                                             .waited = waited,
                                             .starved = waited,
                                             .stepped = k ? (double)t->job.batch * step : 0,
                                             .pace = {.read_seconds = read, .step_seconds = step},
                                             .read_bytes = n * mean,
                                             .accuracy = NAN};
    }
}

int larder__tape_ahead(larder__tape *t, uint64_t *each, const larder__job_ahead *j) {
    *t = (larder__tape){0};
    uint64_t most = j->most < j->samples ? j->most : j->samples, group = parts_of(j->samples, most);
    double mean = (double)j->payload / (double)j->samples;
    while (group > 1 && mean * (double)group > UINT32_MAX / 2)
        group /= 2;
    if (j->payload == 0 || mean > UINT32_MAX)
        return larder__fail(LARDER_E_RANGE,
                            "samples of %.0f bytes: 1 byte to 4 GiB can be looked at", mean);
    t->requests = parts_of(j->samples, group);
    uint64_t size = (uint64_t)(mean * (double)group + 0.5);
    t->job = (larder__tape_job){.recipe = "minio",
                                .cache = "0%",
                                .samples = t->requests,
                                .payload = t->requests * size,
                                .batch = j->batch / group ? j->batch / group : 1,
                                .lag = 6,
                                .world = 1};
    snprintf(t->job.source, sizeof t->job.source, "%s", j->source);
    t->count = parts_of(t->requests, t->job.batch);
    int rc = make_room(t);
    if (rc < 0) {
        larder__tape_free(t);
        return rc;
    }
    fill_rows(t, size);
    fill_batches(t, size, j->read_seconds * (double)group, j->step_seconds * (double)group);
    *each = group;
    return 0;
}
