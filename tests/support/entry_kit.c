#include "entry_kit.h"

#include "base/err.h"
#include "base/hash.h"
#include "plugins.h"

#include <math.h>
#include <sched.h>
#include <stdatomic.h>

static unsigned char byte_at(uint64_t key, size_t i) {
    return (unsigned char)larder__mix64(key * 1000003 + i);
}

bool entry_is(larder_buf *b, uint64_t key, size_t least) {
    if (!b || larder_buf_size(b) < least)
        return false;
    const unsigned char *p = larder_buf_data(b);
    for (size_t i = 0; i < larder_buf_size(b); i++)
        if (p[i] != byte_at(key, i))
            return false;
    return true;
}

larder_buf *entry_new(uint64_t key, size_t size) {
    larder_buf *b = larder_buf_new(size);
    for (size_t i = 0; b && i < size; i++)
        ((unsigned char *)larder_buf_data(b))[i] = byte_at(key, i);
    return b;
}

int entry_make(void *arg, const larder_access *want, larder_buf *have, larder_buf **out) {
    entry_maker *m = arg;
    uint64_t call = atomic_fetch_add(&m->calls, 1);
    larder__cache_figures f = {0};
    while (m->gate && f.requests < m->gate_requests) {
        larder__cache_read_figures(m->gate, &f);
        sched_yield();
    }
    if (m->code < 0 && (!m->one_in || call % (uint64_t)m->one_in == 0))
        return larder__fail(m->code, "sample %llu is broken", (unsigned long long)want->key);
    if (have) {
        atomic_fetch_add(&m->with_have, 1);
        if (!entry_is(have, want->key, 1) || larder_buf_size(have) >= want->size)
            return larder__fail(LARDER_E_FORMAT, "what is there already is not a shorter version");
    }
    *out = entry_new(want->key, want->size);
    return *out ? 0 : LARDER_E_NOMEM;
}

larder_access entry_ask(uint64_t key, uint32_t size) {
    return (larder_access){.key = key, .size = size, .next_use = LARDER_UNKNOWN, .score = NAN};
}

larder__cache *entry_lru(uint64_t keys, uint64_t budget) {
    return kit_cache(larder__policy_find("lru"), &larder__store_heap, keys, budget, 1);
}

larder__cache_figures entry_figures(larder__cache *c) {
    larder__cache_figures f;
    larder__cache_read_figures(c, &f);
    return f;
}

uint8_t entry_get(larder__cache *c, entry_maker *m, uint64_t key, uint32_t size) {
    larder_access a = entry_ask(key, size);
    larder_buf *b;
    uint8_t kind;
    check_ok(larder__cache_get(c, &a, 1, entry_make, m, &b, &kind));
    assert_true(entry_is(b, key, size));
    larder_buf_unref(&b);
    return kind;
}
