/* Entries for tests of a cache: byte i of key k is known, so contents can be checked anywhere. */
#ifndef LARDER_TEST_ENTRY_KIT_H
#define LARDER_TEST_ENTRY_KIT_H

#include "cache_kit.h"

/* Is it the key's, and at least so long? */
bool entry_is(larder_buf *, uint64_t key, size_t least);
larder_buf *entry_new(uint64_t key, size_t size);

typedef struct entry_maker {
    _Atomic uint64_t calls, with_have;
    larder__cache *gate; /* does not return before this cache has seen gate_requests requests */
    uint64_t gate_requests;
    int code;   /* fail with it when negative */
    int one_in; /* fail only one call in so many; 0: always */
} entry_maker;

/* For larder__cache_get; arg is an entry_maker. */
int entry_make(void *arg, const larder_access *want, larder_buf *have, larder_buf **out);
larder_access entry_ask(uint64_t key, uint32_t size);
larder__cache *entry_lru(uint64_t keys, uint64_t budget);
larder__cache_figures entry_figures(larder__cache *);
/* Gets one entry, checks it, and returns how it came. */
uint8_t entry_get(larder__cache *, entry_maker *, uint64_t key, uint32_t size);

#endif
