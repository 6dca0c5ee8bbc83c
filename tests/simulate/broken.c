/* Larder, broken on purpose in one place: what is dropped here must be found out by the checks. */
#include "actors.h"
#include "redis_model.h"
#include "shared/value.h"
#include "unix/pinned_blocks.h"
#include "unix/served_set.h"
#include "worlds.h"

#include <string.h>

#define WRAP(type, name, ...)                                                                      \
    type __real_##name(__VA_ARGS__);                                                               \
    type __wrap_##name(__VA_ARGS__);                                                               \
    type __wrap_##name(__VA_ARGS__)

const char *broken;
bool broken_is(const char *name) { return broken && strcmp(broken, name) == 0; }

/* "checksum": what Redis gives is believed. */
WRAP(bool, larder__value_sound, const unsigned char *head, const void *bytes, size_t size) {
    return broken_is("checksum") || __real_larder__value_sound(head, bytes, size);
}

/* "pins": a block is free at once, whoever still reads it. */
WRAP(void, larder__pinned_give, larder__pinned *l, larder__arena_block b, uint64_t key) {
    if (!broken_is("pins")) {
        __real_larder__pinned_give(l, b, key);
        return;
    }
    atomic_store(&l->places[key], 0);
    larder__arena_give(l->arena, b);
    l->out--;
}

/* "leases": those of a job that is gone stay. */
WRAP(void, larder__served_release, larder__served *s, uint32_t job, uint32_t lease) {
    if (!broken_is("leases") || lease % 2)
        __real_larder__served_release(s, job, lease);
}
