/* Saved state of a cache, from anywhere: rejected, or taken and then good for any requests. The
 * first byte chooses the policy, the rest is the state. */
#include "base/mem.h"
#include "base/spec.h"
#include "base/state.h"
#include "cache/cache.h"
#include "plugins.h"

#include <stdlib.h>

enum { KEYS = 24, BUDGET = 250 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static larder__cache *open_cache(const larder_policy *p, const larder__store *store) {
    larder_args args;
    if (larder__args_parse(&args, "policy", &p->plugin, "", ',', NULL) < 0)
        abort();
    larder__cache_conf conf = {
        .policy = p, .args = &args, .store = store, .keys = KEYS, .budget = BUDGET, .seed = 1};
    larder__cache *c;
    if (larder__cache_open(&c, &conf) < 0)
        abort();
    larder__args_free(&args);
    return c;
}

static int make(void *arg, const larder_access *want, larder_buf *have, larder_buf **out) {
    (void)arg, (void)have;
    *out = larder_buf_new(want->size);
    return *out ? 0 : LARDER_E_NOMEM;
}

static void use(larder__cache *c) {
    for (uint64_t i = 0; i < 200; i++) {
        larder_access a = {.key = i * 7 % KEYS, .now = i, .next_use = i + 1 + i % 30};
        a.size = 1 + (uint32_t)(i * 13 % 40);
        larder_buf *b = NULL;
        if (larder__cache_get(c, &a, 1, make, NULL, &b, NULL) < 0)
            abort();
        larder_buf_unref(&b);
        if (larder__cache_slots(c)->bytes > BUDGET)
            abort();
    }
    larder_writer w = {0};
    larder__cache_save(c, &w);
    larder__writer_free(&w);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0)
        return 0;
    size_t policies = 0;
    while (larder__policies[policies])
        policies++;
    const larder_policy *p = larder__policies[data[0] % policies];
    const larder__store *stores[] = {&larder__store_null, &larder__store_heap};
    for (int i = 0; i < 2; i++) {
        larder__cache *c = open_cache(p, stores[i]);
        larder_reader r = {.at = data + 1, .end = data + size};
        if (larder__cache_load(c, &r) == 0)
            use(c);
        larder__cache_close(&c);
    }
    return 0;
}
