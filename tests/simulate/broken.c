/* Larder, broken on purpose in one place: what is dropped here must be found out by the checks. */
#include "actors.h"
#include "disk/disk_folder.h"
#include "disk/disk_space.h"
#include "redis/values_inside.h"
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

/* "checksum": what Redis or a disk gives is believed. */
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

/* "whose": whatever lies there is taken for the value. */
WRAP(bool, larder__value_fits, const unsigned char *head, const larder__value *asked,
     uint64_t size) {
    return broken_is("whose") || __real_larder__value_fits(head, asked, size);
}

/* "giving": blocks are given out by several at once. */
WRAP(int, larder__disk_giving, larder__disk_folder *f, double patience) {
    int rc = __real_larder__disk_giving(f, patience);
    if (rc == 0 && broken_is("giving"))
        larder__disk_lock_drop(f, DISK_GIVING);
    return rc;
}

/* "budget": files of the folder's own are not counted. */
WRAP(uint64_t, larder__disk_limit, uint64_t budget, uint64_t index_bytes) {
    return broken_is("budget") ? budget / LARDER__DISK_BLOCK
                               : __real_larder__disk_limit(budget, index_bytes);
}

/* "lookout": nobody looks for a server that was lost. */
WRAP(double, larder__redis_nodes_tend, larder__redis_values *f, double now) {
    return broken_is("lookout") ? now + 3600 : __real_larder__redis_nodes_tend(f, now);
}

/* ---- a disk's tables are memory, where a process may be killed or overtaken at any point ----- */

static void others_first(void) {
    if (actors_current() && actors_one_in(6))
        actors_yield();
}

WRAP(void, larder__space_take, uint64_t *bits, uint64_t from, uint64_t n) {
    others_first();
    __real_larder__space_take(bits, from, n);
    others_first();
}

/* "given": blocks that come back stay taken. */
WRAP(void, larder__space_give, uint64_t *bits, uint64_t from, uint64_t n) {
    others_first();
    if (!broken_is("given"))
        __real_larder__space_give(bits, from, n);
    others_first();
}

WRAP(uint64_t, larder__space_find, const uint64_t *bits, uint64_t from, uint64_t to, uint64_t n,
     uint64_t *longest) {
    uint64_t at = __real_larder__space_find(bits, from, to, n, longest);
    others_first();
    return at;
}

WRAP(uint64_t, larder__disk_word, uint64_t id, uint64_t key, uint64_t place, uint32_t blocks,
     uint64_t era) {
    others_first();
    return __real_larder__disk_word(id, key, place, blocks, era);
}

WRAP(bool, larder__disk_word_fits, uint64_t word, uint64_t id, uint64_t key, uint64_t limit) {
    bool fits = __real_larder__disk_word_fits(word, id, key, limit);
    others_first();
    return fits;
}
