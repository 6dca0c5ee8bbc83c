/* Caches and request sequences for tests: everything repeats from a seed. */
#ifndef LARDER_TEST_CACHE_KIT_H
#define LARDER_TEST_CACHE_KIT_H

#include "cache/local.h"
#include "check.h"

/* The policy's initial parameters; larder__args_free. */
larder_args kit_args(const larder_policy *);
/* A cache with the policy's initial parameters; fails the test when it cannot be opened. */
larder__cache *kit_cache(const larder_policy *, const larder__store *, uint64_t keys,
                         uint64_t budget, uint64_t seed);

typedef enum { KIT_UNIFORM, KIT_ZIPF, KIT_EPOCHS, KIT_LOOP, KIT_MIXED, KIT_KINDS } kit_kind;
const char *kit_kind_name(kit_kind);

/* Fills keys[0..len-1] with requests for keys below n. EPOCHS: shuffled, exactly once each. LOOP:
 * the same order around and around. MIXED: uniform, but a third asks again for a recent one. */
void kit_trace(kit_kind, larder_rng *, uint64_t n, uint64_t *keys, size_t len);
/* The request number of each request's next use of the same key, or LARDER_UNKNOWN. */
void kit_future(const uint64_t *keys, size_t len, uint64_t *next_use);

/* All of `from`'s state into `to`, by way of bytes. */
void kit_copy_state(larder__cache *from, larder__cache *to);

#endif
