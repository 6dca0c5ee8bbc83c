#include "sim/intervals.h"

#include "base/err.h"
#include "base/mem.h"

static void note(larder__reuse_intervals *r, uint64_t interval,
                 uint64_t step) { /* 0: the first access */
    r->accesses++;
    if (interval == 0)
        r->first++;
    else
        r->level[interval / step < LARDER__LEVELS ? interval / step : LARDER__LEVELS - 1]++;
}

static void count_changes(larder__intervals *out, const uint32_t *counts, uint64_t keys) {
    for (int q = 0; q + 1 < LARDER__QUARTERS; q++)
        for (uint64_t k = 0; k < keys; k++) {
            uint32_t a = counts[(uint64_t)q * keys + k], b = counts[(uint64_t)(q + 1) * keys + k];
            uint32_t by = a < b ? b - a : a - b;
            out->change[q][by < LARDER__CHANGES ? by : LARDER__CHANGES - 1]++;
        }
}

int larder__intervals_find(larder__intervals *out, const uint32_t *ids, uint64_t keys,
                           const uint64_t ends[LARDER__QUARTERS], uint64_t step) {
    *out = (larder__intervals){.step = step, .keys = keys};
    if (step == 0)
        return larder__fail(LARDER_E_ARGS, "intervals are told in multiples of at least 1");
    uint64_t *last = larder__calloc(keys, sizeof *last); /* position + 1 */
    uint32_t *counts = larder__calloc(keys * LARDER__QUARTERS, sizeof *counts);
    int rc = last && counts ? 0 : LARDER_E_NOMEM;
    int q = 0;
    for (uint64_t i = 0; rc == 0 && i < ends[LARDER__QUARTERS - 1]; i++) {
        while (i >= ends[q])
            q++;
        uint64_t interval = last[ids[i]] ? i + 1 - last[ids[i]] : 0;
        last[ids[i]] = i + 1;
        counts[(uint64_t)q * keys + ids[i]]++;
        note(&out->run, interval, step);
        note(&out->quarter[q], interval, step);
    }
    if (rc == 0)
        count_changes(out, counts, keys);
    larder__free(last);
    larder__free(counts);
    return rc;
}
