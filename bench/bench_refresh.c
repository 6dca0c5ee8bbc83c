/* Does a refresh of every score stall readers? A million residents under a policy are scored anew
 * in one call, over and over, while a reader claims batches of 64 and notes how long each took.
 * Wall time, since waiting is the point; "alone" is the same reader without a refresh, so that what
 * the machine itself adds can be seen. Usage: bench_refresh [residents [seconds [policy]]] */
#include "base/clock.h"
#include "base/spec.h"
#include "cache/cache.h"
#include "measure.h"
#include "plugins.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

enum { BATCH = 64, MOST = 1 << 20 };

typedef struct refresh {
    larder__cache *cache;
    uint64_t n, *keys;
    float *scores;
    _Atomic int stop;
    uint64_t rounds;
    double seconds; /* of one refresh, the longest */
} refresh;

static void *refresh_again(void *arg) {
    refresh *r = arg;
    larder_rng rng;
    larder_rng_seed(&rng, 3, 3);
    while (!atomic_load(&r->stop)) {
        for (uint64_t i = 0; i < r->n; i++)
            r->scores[i] = (float)larder_rng_unit(&rng);
        double start = larder__now();
        larder__cache_score(r->cache, r->keys, r->scores, r->n);
        double took = larder__now() - start;
        r->seconds = took > r->seconds ? took : r->seconds;
        r->rounds++;
    }
    return NULL;
}

static void read_along(refresh *r, double seconds, double *waits, const char *what) {
    larder_rng rng;
    larder_rng_seed(&rng, 4, 4);
    size_t count = 0, late = 0;
    for (double end = larder__now() + seconds; larder__now() < end && count < MOST; count++) {
        larder_access a[BATCH];
        larder__ticket t[BATCH];
        for (int i = 0; i < BATCH; i++)
            a[i] = (larder_access){.key = larder_rng_below(&rng, (uint32_t)r->n), .size = 1};
        double start = larder__now();
        larder__cache_claim(r->cache, a, BATCH, t);
        waits[count] = larder__now() - start;
        late += waits[count] > 1e-3;
        larder__sleep_until(start + 20e-6); /* a training step does something else in between */
    }
    double median = measure_median(waits, count);
    printf("%-8s %8zu batches: median %7.1f us, 99.9 %% %8.1f us, worst %8.1f us, over 1 ms: %zu\n",
           what, count, median * 1e6, waits[count * 999 / 1000] * 1e6, waits[count - 1] * 1e6,
           late);
}

int main(int argc, char **argv) {
    refresh r = {.n = argc > 1 ? strtoull(argv[1], NULL, 10) : 1000000};
    double seconds = argc > 2 ? strtod(argv[2], NULL) : 3;
    const larder_policy *policy = larder__policy_find(argc > 3 ? argv[3] : "app");
    larder_args args;
    if (!policy || larder__args_parse(&args, "policy", &policy->plugin, "", ',', NULL) < 0)
        return 1;
    larder__cache_conf conf = {.policy = policy,
                               .args = &args,
                               .store = &larder__store_null,
                               .keys = r.n,
                               .budget = r.n,
                               .seed = 1};
    double *waits = malloc(MOST * sizeof *waits);
    r.keys = malloc(r.n * sizeof *r.keys);
    r.scores = malloc(r.n * sizeof *r.scores);
    if (r.n == 0 || !waits || !r.keys || !r.scores || larder__cache_open(&r.cache, &conf) < 0)
        return 1;
    for (uint64_t k = 0; k < r.n; k++) {
        larder_access a = {.key = k, .size = 1};
        larder__ticket t;
        larder__cache_claim(r.cache, &a, 1, &t);
        r.keys[k] = k;
    }
    read_along(&r, seconds, waits, "alone");
    pthread_t thread;
    if (pthread_create(&thread, NULL, refresh_again, &r) != 0)
        return 1;
    read_along(&r, seconds, waits, "refresh");
    atomic_store(&r.stop, 1);
    pthread_join(thread, NULL);
    printf("%llu refreshes of %llu residents, the longest %.0f ms\n", (unsigned long long)r.rounds,
           (unsigned long long)r.n, r.seconds * 1e3);
    larder__cache_close(&r.cache);
    larder__args_free(&args);
    free(waits);
    free(r.keys);
    free(r.scores);
    return 0;
}
