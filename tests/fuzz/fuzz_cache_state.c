/* A saved cache that was tampered with is either refused with a sentence or works: whatever loads
 * must then serve requests within its budget. The input is a recipe for damage, so that every
 * registered policy is covered from its own valid state, with one form or three: policy, length
 * kept, then edits of three bytes each (where, where, what). */
#include "base/spec.h"
#include "base/state.h"
#include "cache/local.h"
#include "plugins.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { KEYS = 64, BUDGET = 1600, REQUESTS = 200 };

static larder__cache *open_cache(const larder_policy *policy, bool forms) {
    larder_args args;
    larder__cache *cache = NULL;
    if (larder__args_parse(&args, "policy", &policy->plugin, "", ',', NULL) < 0)
        abort();
    const larder__forms three = {
        .share = {0.4, 0.3, 0.3}, .decoded_ratio = 1.2, .decoded_bytes = 90, .row_bytes = 60};
    larder__cache_conf conf = {.policy = policy,
                               .forms = forms ? &three : NULL,
                               .args = &args,
                               .store = &larder__store_null,
                               .keys = KEYS,
                               .budget = BUDGET,
                               .seed = 1};
    if (larder__cache_open(&cache, &conf) < 0)
        abort();
    larder__args_free(&args);
    return cache;
}

/* A batch of a job that is served what the cache likes, and what is brought in with it. */
static void exchange(larder__cache *cache, uint64_t now) {
    uint64_t wanted[8], served[8], more[32];
    for (uint64_t i = 0; i < 8; i++)
        wanted[i] = i * 7;
    larder__cache_exchange(cache, 0, wanted, 8, served);
    size_t n = larder__cache_fetch(cache, more, 32);
    for (size_t i = 0; i < 8 + n; i++) {
        uint64_t key = i < 8 ? served[i] : more[i - 8];
        larder_access a = {.key = key,
                           .now = now + i,
                           .next_use = LARDER_UNKNOWN,
                           .size = 50 + (uint32_t)key,
                           .tag = i < 8 ? 0 : LARDER_TAG_FETCH,
                           .score = NAN};
        larder__ticket ticket;
        if (larder__cache_claim(cache, &a, 1, &ticket) < 0)
            abort();
    }
}

static void serve(larder__cache *cache, uint64_t seed) {
    larder_rng rng;
    larder_rng_seed(&rng, seed, 0);
    for (uint64_t now = 0; now < REQUESTS; now++) {
        uint64_t key = larder_rng_below(&rng, KEYS);
        larder_access a = {.key = key,
                           .now = now,
                           .next_use = LARDER_UNKNOWN,
                           .size = 50 + (uint32_t)key,
                           .score = NAN};
        larder__ticket ticket;
        if (larder__cache_claim(cache, &a, 1, &ticket) < 0)
            abort();
        if (ticket.task == LARDER__MAKE)
            larder__cache_fill(cache, &ticket, NULL);
        else
            larder__ticket_drop(&ticket);
        if (now % 8 == 7) { /* feedback, and hubs for those who take them */
            float score = (float)larder_rng_unit(&rng);
            const uint64_t ids[] = {(key + 1) % KEYS, (key + 9) % KEYS};
            larder__cache_score(cache, &key, &score, 1);
            larder__cache_relate(cache, key, ids, 2);
        }
        const larder_slots *slots = larder__cache_slots(cache);
        if (slots->bytes > BUDGET || slots->resident > slots->used)
            abort();
        for (int f = 0; f < LARDER_FORMS; f++)
            if (slots->form_bytes[f] > slots->form_budget[f])
                abort();
    }
    exchange(cache, REQUESTS);
}

static void damage(larder_writer *state, const uint8_t *data, size_t size) {
    if (size > 0 && data[0] < 255)
        state->size = state->size * data[0] / 255;
    for (size_t i = 1; i + 2 < size && state->size; i += 3)
        state->bytes[((size_t)data[i] << 8 | data[i + 1]) % state->size] = data[i + 2];
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    size_t count = 0;
    while (larder__policies[count])
        count++;
    const larder_policy *policy = larder__policies[size ? data[0] % count : 0];
    bool forms = size && data[0] / count % 2;
    larder__cache *cache = open_cache(policy, forms);
    serve(cache, 1);
    larder_writer state = {0};
    larder__cache_save(cache, &state);
    larder__cache_close(&cache);
    if (state.code < 0)
        abort();
    damage(&state, data + (size > 0), size - (size > 0));
    larder_reader reader = {.at = state.bytes, .end = state.bytes + state.size};
    cache = open_cache(policy, forms);
    int rc = larder__cache_load(cache, &reader);
    if (rc == 0)
        serve(cache, 2);
    else if (!larder_errmsg()[0] || size < 2)
        abort(); /* refused without a word, or an undamaged state was refused */
    larder__cache_close(&cache);
    larder__writer_free(&state);
    return 0;
}
