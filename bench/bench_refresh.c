/* How long a reader may be kept waiting while every score of a large cache is refreshed: all
 * residents of the policies that order by score get a new one, in the batches in which feedback
 * comes, and the longest time the cache was held is shown. Usage: bench_refresh [residents] */
#include "base/clock.h"
#include "base/spec.h"
#include "cache/cache.h"
#include "plugins.h"

#include <stdio.h>
#include <stdlib.h>

enum { BATCH = 256 };

static larder__cache *fill(const larder_policy *p, uint64_t n, larder_rng *rng) {
    larder_args args;
    larder__cache *c = NULL;
    if (larder__args_parse(&args, "policy", &p->plugin, "", ',', NULL) < 0)
        return NULL;
    larder__cache_conf conf = {
        .policy = p, .args = &args, .store = &larder__store_null, .keys = n, .budget = n};
    int rc = larder__cache_open(&c, &conf);
    larder__args_free(&args);
    for (uint64_t k = 0; rc == 0 && k < n; k++) {
        larder_access a = {
            .key = k, .size = 1, .tag = LARDER_TAG_HIGH, .score = (float)larder_rng_unit(rng)};
        larder__ticket t;
        rc = larder__cache_claim(c, &a, 1, &t);
    }
    return c;
}

int main(int argc, char **argv) {
    uint64_t n = argc > 1 ? strtoull(argv[1], NULL, 10) : 1000000;
    printf("%-8s %10s %12s %16s %16s\n", "policy", "residents", "ns a score", "99.9 % held, us",
           "longest held, us");
    for (size_t i = 0; larder__policies[i]; i++) {
        const larder_policy *p = larder__policies[i];
        larder_rng rng;
        larder_rng_seed(&rng, 1, 1);
        larder__cache *c = p->score ? fill(p, n, &rng) : NULL;
        if (!c)
            continue;
        double all = 0, longest = 0;
        uint64_t keys[BATCH], slow = 0, batches = 0;
        float scores[BATCH];
        for (uint64_t at = 0; at + BATCH <= n; at += BATCH, batches++) {
            for (uint64_t k = 0; k < BATCH; k++) {
                keys[k] = (at + k) * 7919 % n;
                scores[k] = (float)larder_rng_unit(&rng);
            }
            double begun = larder__now();
            larder__cache_score(c, keys, scores, BATCH);
            double held = larder__now() - begun;
            all += held;
            slow += held > 1e-3;
            longest = held > longest ? held : longest;
        }
        printf("%-8s %10llu %12.0f %16s %16.0f\n", p->plugin.name, (unsigned long long)n,
               all / (double)(batches * BATCH) * 1e9,
               slow * 1000 < batches ? "below 1000" : "above", longest * 1e6);
        larder__cache_close(&c);
    }
    return 0;
}
