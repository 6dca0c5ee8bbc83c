/* What Redis gives: batches of values as large as a mean sample, by all threads, checked. */
#include "base/clock.h"
#include "base/err.h"
#include "base/threads.h"
#include "profile/profile_inside.h"
#include "redis/values.h"

#include <unistd.h>

enum { AT_ONCE = 256, BYTES = 32 << 20, MOST_KEYS = 1 << 14 };

typedef struct pantry {
    larder__profiler *p;
    larder__redis_values *far;
    uint32_t keys, size;
    double until;
    _Atomic uint64_t moved;
    _Atomic bool failed;
} pantry;

static larder__value value(const pantry *s, uint32_t key) {
    return (larder__value){.id = key, .mark = 1, .size = s->size};
}

static int fill(pantry *s) {
    for (uint32_t k = 0; k < s->keys && !larder__profiler_stopped(s->p); k++) {
        larder__value v = value(s, k);
        larder_buf *b = larder_buf_new(s->size);
        if (!b)
            return LARDER_E_NOMEM;
        memset(larder_buf_data(b), (int)k, s->size);
        larder__redis_values_put(s->far, &v, b, 600, NULL, NULL);
        larder_buf_unref(&b);
        if ((k % 64 == 63 || k + 1 == s->keys) && !larder__redis_values_settle(s->far, 30))
            return larder__fail(LARDER_E_IO, "it takes nothing");
    }
    return 0;
}

static void empty(pantry *s) {
    for (uint32_t k = 0; k < s->keys; k++) {
        larder__value v = value(s, k);
        larder__redis_values_drop(s->far, &v);
    }
}

/* One batch; false: something did not come. */
static bool take_some(pantry *s, larder_rng *rng) {
    larder__redis_fetch *e[AT_ONCE];
    size_t n = 0, bytes = 0, came = 0;
    for (; n < AT_ONCE; n++) {
        larder__value v = value(s, larder_rng_below(rng, s->keys));
        if (!(e[n] = larder__redis_fetch_new(&v)))
            break;
    }
    larder__redis_values_send(s->far, e, n);
    for (size_t i = 0; i < n; i++) {
        larder_buf *b = larder__redis_values_receive(s->far, e[i]);
        bytes += b ? larder_buf_size(b) : 0;
        came += b != NULL;
        larder_buf_unref(&b);
        larder__redis_fetch_unref(&e[i]);
    }
    atomic_fetch_add(&s->moved, bytes);
    return came == AT_ONCE;
}

static void shopper(void *arg, uint32_t member) {
    pantry *s = arg;
    larder_rng rng;
    larder_rng_seed(&rng, 1, member);
    do
        if (!take_some(s, &rng))
            atomic_store(&s->failed, true);
    while (larder__now() < s->until && !atomic_load(&s->failed) && !larder__profiler_stopped(s->p));
}

int larder__measure_redis(larder__profiler *p, double seconds, larder__profile *out) {
    larder__redis_conf conf = *p->conf.redis;
    char owner[32];
    conf.await.go_on = false; /* there is nothing to measure without it */
    double mean = (double)out->bytes / (double)out->samples;
    pantry s = {.p = p, .size = mean < 64 ? 64 : mean > BYTES ? BYTES : (uint32_t)mean};
    s.keys = BYTES / s.size > MOST_KEYS ? MOST_KEYS : BYTES / s.size;
    snprintf(owner, sizeof owner, "profile-%ld", (long)getpid());
    larder__redis_values_conf far = {
        .redis = &conf, .identity = 0x70726f66696c65u, .owner = owner, .lease = true};
    int rc = larder__redis_values_open(&s.far, &far);
    if (rc == 0)
        rc = fill(&s);
    double begun = larder__now();
    s.until = begun + seconds;
    if (rc == 0)
        larder__threads_run(shopper, &s, out->threads);
    out->redis = (double)atomic_load(&s.moved) / (larder__now() - begun);
    if (s.far)
        empty(&s);
    if (rc >= 0 && atomic_load(&s.failed)) {
        char why[300];
        larder__redis_values_note(s.far, why, sizeof why);
        rc = larder__fail(LARDER_E_IO, "%s", why[0] ? why : "it has lost what it was given");
    }
    larder__redis_values_close(&s.far);
    return rc < 0 ? larder__fail_in(rc, "the cache in Redis") : 0;
}
