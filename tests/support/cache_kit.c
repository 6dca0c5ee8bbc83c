#include "cache_kit.h"

#include "base/spec.h"
#include "base/state.h"

#include <math.h>
#include <stdlib.h>

larder_args kit_args(const larder_policy *policy) {
    larder_args args;
    check_ok(larder__args_parse(&args, "policy", &policy->plugin, "", ',', NULL));
    return args;
}

larder__cache *kit_cache(const larder_policy *policy, const larder__store *store, uint64_t keys,
                         uint64_t budget, uint64_t seed) {
    larder_args args = kit_args(policy);
    larder__cache_conf conf = {.policy = policy,
                               .args = &args,
                               .store = store,
                               .keys = keys,
                               .budget = budget,
                               .seed = seed};
    larder__cache *c;
    check_ok(larder__cache_open(&c, &conf));
    larder__args_free(&args);
    return c;
}

const char *kit_kind_name(kit_kind k) {
    static const char *const names[] = {"uniform", "zipf", "epochs", "loop", "mixed"};
    return names[k];
}

static void shuffle(larder_rng *rng, uint64_t *a, uint64_t n) {
    for (uint64_t i = n; i > 1; i--) {
        uint64_t j = larder_rng_below(rng, (uint32_t)i), t = a[i - 1];
        a[i - 1] = a[j];
        a[j] = t;
    }
}

static void zipf(larder_rng *rng, uint64_t n, uint64_t *keys, size_t len) {
    double *up_to = calloc(n, sizeof *up_to), sum = 0;
    for (uint64_t k = 0; k < n; k++)
        up_to[k] = sum += 1.0 / (double)(k + 1);
    for (size_t i = 0; i < len; i++) {
        double at = larder_rng_unit(rng) * sum;
        uint64_t k = 0;
        while (k + 1 < n && up_to[k] <= at)
            k++;
        keys[i] = k;
    }
    free(up_to);
}

void kit_trace(kit_kind kind, larder_rng *rng, uint64_t n, uint64_t *keys, size_t len) {
    if (kind == KIT_ZIPF) {
        zipf(rng, n, keys, len);
        return;
    }
    uint64_t *order = calloc(n, sizeof *order);
    for (uint64_t k = 0; k < n; k++)
        order[k] = k;
    shuffle(rng, order, n);
    for (size_t i = 0; i < len; i++) {
        if (kind == KIT_EPOCHS && i % n == 0)
            shuffle(rng, order, n);
        keys[i] = larder_rng_below(rng, (uint32_t)n);
        if (kind == KIT_EPOCHS || kind == KIT_LOOP)
            keys[i] = order[i % n];
        else if (kind == KIT_MIXED && i && larder_rng_below(rng, 3) == 0)
            keys[i] = keys[i - 1 - larder_rng_below(rng, (uint32_t)(i < 6 ? i : 6))];
    }
    free(order);
}

void kit_future(const uint64_t *keys, size_t len, uint64_t *next_use) {
    for (size_t i = 0; i < len; i++) {
        next_use[i] = LARDER_UNKNOWN;
        for (size_t j = i + 1; j < len && next_use[i] == LARDER_UNKNOWN; j++)
            if (keys[j] == keys[i])
                next_use[i] = j;
    }
}

void kit_copy_state(larder__cache *from, larder__cache *to) {
    larder_writer w = {0};
    larder__cache_save(from, &w);
    assert_int_equal(w.code, 0);
    larder_reader r = {.at = w.bytes, .end = w.bytes + w.size};
    check_ok(larder__cache_load(to, &r));
    assert_int_equal(larder__read_left(&r), 0);
    larder__writer_free(&w);
}
