/* Does a refresh of every score stall readers? A million residents under the policy app are scored
 * anew in one call, over and over, while a reader claims batches of 64 and notes how long each
 * took.
 * Wall time, since waiting is the point. What the machine itself adds is shown first: "alone" is
 * the same reader without a refresh, "apart" with one of another cache, which shares no lock. The
 * kernel says how long reader and refresher stood ready without a processor: "ours" are the batches
 * over a millisecond even without that time.
 * Usage: bench_refresh [residents [seconds]] */
#include "base/clock.h"
#include "base/spec.h"
#include "cache/local.h"
#include "measure.h"
#include "plugins.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

enum { BATCH = 64, MOST = 1 << 20 };

typedef struct refresh {
    larder__cache *cache, *target; /* read from; scored */
    uint64_t n, *keys;
    float *scores;
    _Atomic int stop;
    uint64_t rounds;
    double seconds;    /* of one refresh, the longest */
    double cpu;        /* of all of them */
    _Atomic int sched; /* where the kernel tells about the refresher's thread; -1: not known */
} refresh;

static int open_sched(void) { return open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC); }

/* Seconds a thread stood ready without a processor, so far; 0 where the kernel does not say. */
static double put_aside(int sched) {
    char text[128];
    unsigned long long ran, waited;
    ssize_t n = sched < 0 ? 0 : pread(sched, text, sizeof text - 1, 0);
    text[n > 0 ? n : 0] = 0;
    return sscanf(text, "%llu %llu", &ran, &waited) == 2 ? (double)waited * 1e-9 : 0;
}

static void *refresh_again(void *arg) {
    refresh *r = arg;
    larder_rng rng;
    larder_rng_seed(&rng, 3, 3);
    atomic_store(&r->sched, open_sched());
    while (!atomic_load(&r->stop)) {
        for (uint64_t i = 0; i < r->n; i++)
            r->scores[i] = (float)larder_rng_unit(&rng);
        double start = larder__now(), cpu = larder__seconds_of(CLOCK_THREAD_CPUTIME_ID);
        larder__cache_score(r->target, r->keys, r->scores, r->n);
        double took = larder__now() - start;
        r->cpu += larder__seconds_of(CLOCK_THREAD_CPUTIME_ID) - cpu;
        r->seconds = took > r->seconds ? took : r->seconds;
        r->rounds++;
    }
    return NULL;
}

static void read_along(refresh *r, double seconds, double *waits, const char *what) {
    larder_rng rng;
    larder_rng_seed(&rng, 4, 4);
    size_t count = 0, late = 0, ours = 0;
    int mine = open_sched();
    for (double end = larder__now() + seconds; larder__now() < end && count < MOST; count++) {
        larder_access a[BATCH];
        larder__ticket t[BATCH];
        for (int i = 0; i < BATCH; i++)
            a[i] = (larder_access){.key = larder_rng_below(&rng, (uint32_t)r->n), .size = 1};
        int other = atomic_load(&r->sched);
        double aside = put_aside(mine) + put_aside(other), start = larder__now();
        larder__cache_claim(r->cache, a, BATCH, t);
        waits[count] = larder__now() - start;
        if (waits[count] > 1e-3) {
            late++;
            ours += waits[count] - (put_aside(mine) + put_aside(other) - aside) > 1e-3;
        }
        larder__sleep_until(start + 20e-6); /* a training step does something else in between */
    }
    double median = measure_median(waits, count);
    printf("%-8s %8zu batches: median %7.1f us, 99.9 %% %8.1f us, worst %8.1f us, over 1 ms: %zu, "
           "ours: %zu\n",
           what, count, median * 1e6, waits[count * 999 / 1000] * 1e6, waits[count - 1] * 1e6, late,
           ours);
    close(mine);
}

int main(int argc, char **argv) {
    refresh r = {.n = argc > 1 ? strtoull(argv[1], NULL, 10) : 1000000, .sched = -1};
    double seconds = argc > 2 ? strtod(argv[2], NULL) : 3;
    const larder_policy *policy = larder__policy_find("app");
    larder__cache_conf conf = {
        .policy = policy, .store = &larder__store_null, .keys = r.n, .budget = r.n, .seed = 1};
    double *waits = malloc(MOST * sizeof *waits);
    r.keys = malloc(r.n * sizeof *r.keys);
    r.scores = malloc(r.n * sizeof *r.scores);
    larder__cache *caches[2] = {NULL};
    if (r.n == 0 || !waits || !r.keys || !r.scores)
        return 1;
    for (int i = 0; i < 2; i++)
        if (larder__cache_open(&caches[i], &conf) < 0)
            return 1;
    for (uint64_t k = 0; k < r.n; k++) {
        larder_access a = {.key = k, .size = 1};
        larder__ticket t;
        for (int i = 0; i < 2; i++)
            larder__cache_claim(caches[i], &a, 1, &t);
        r.keys[k] = k;
    }
    r.cache = caches[0];
    read_along(&r, seconds, waits, "alone");
    for (int i = 1; i >= 0; i--) {
        pthread_t thread;
        r.target = caches[i];
        r.rounds = 0;
        r.seconds = r.cpu = 0;
        atomic_store(&r.stop, 0);
        atomic_store(&r.sched, -1);
        if (pthread_create(&thread, NULL, refresh_again, &r) != 0)
            return 1;
        read_along(&r, seconds, waits, i ? "apart" : "refresh");
        atomic_store(&r.stop, 1);
        pthread_join(thread, NULL);
        close(atomic_load(&r.sched));
    }
    double chunks = (double)(r.rounds * r.n) / 256; /* that many scores a lock */
    printf("%llu refreshes of %llu residents, the longest %.0f ms; its own CPU for 256 scores: "
           "%.1f us\n",
           (unsigned long long)r.rounds, (unsigned long long)r.n, r.seconds * 1e3,
           r.cpu / chunks * 1e6);
    larder__cache_close(&caches[0]);
    larder__cache_close(&caches[1]);
    free(waits);
    free(r.keys);
    free(r.scores);
    return 0;
}
