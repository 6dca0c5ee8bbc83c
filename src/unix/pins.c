#include "unix/pins.h"

#include "base/buf.h"
#include "base/mem.h"

#include <string.h>

enum { AT_MOST = 1024 }; /* requests of a batch; a larger one is asked for */

static void let_go(void *mapping, uint64_t pin) {
    larder__mapping *m = mapping;
    atomic_store_explicit(&m->pins->at[pin], 0, memory_order_release);
    larder__mapping_unref(&m);
}

/* Nothing that the table says is believed before it is known to lie in the arena. */
static bool fits(const larder__mapping *m, larder__block_place p, const larder_access *a) {
    uint64_t offset = larder__block_place_offset(p), size = larder__block_place_size(p);
    uint8_t held = larder__block_place_held(p);
    return p >> 32 && offset < m->arena_bytes &&
           sizeof(larder__block_head) + size <= m->arena_bytes - offset &&
           (held == LARDER_DECODED || (held == LARDER_ENCODED && size == a->size));
}

/* Finds where all of them lie. What has left lies there as long as it is lent to somebody, and is a
 * miss all the same, as in a cache of one's own. */
static bool look_up(larder__mapping *m, const larder_access *in, size_t n,
                    larder__block_place *places) {
    const _Atomic larder__block_place *all = larder__table_places(m->table, m->keys);
    const larder_slot *slots = (const larder_slot *)(m->table + 1);
    for (size_t i = 0; i < n; i++) {
        if (in[i].key >= m->keys || in[i].tag == LARDER_TAG_FETCH ||
            __atomic_load_n(&slots[in[i].key], __ATOMIC_RELAXED) == LARDER_NO_SLOT)
            return false;
        places[i] = atomic_load_explicit(&all[in[i].key], memory_order_relaxed);
        if (!fits(m, places[i], &in[i]))
            return false;
    }
    return true;
}

static void unpin(larder__mapping *m, const uint32_t *pins, size_t n) {
    for (size_t i = 0; i < n; i++)
        atomic_store_explicit(&m->pins->at[pins[i]], 0, memory_order_release);
}

/* Takes the first n free pins, so that few are ever used; false: there are not so many. Whoever
 * lets go only ever frees. */
static bool pin(larder__mapping *m, const larder__block_place *places, size_t n, uint32_t *pins) {
    size_t have = 0;
    for (uint32_t at = 0; have < n && at < m->pin_limit; at++)
        if (atomic_load_explicit(&m->pins->at[at], memory_order_acquire) == 0) {
            atomic_store_explicit(&m->pins->at[at], larder__block_place_pin(places[have]),
                                  memory_order_relaxed);
            pins[have++] = at;
        }
    if (n == 0 || have < n) {
        unpin(m, pins, have);
        return false;
    }
    if (pins[n - 1] >= atomic_load_explicit(&m->pins->used, memory_order_relaxed))
        atomic_store_explicit(&m->pins->used, pins[n - 1] + 1, memory_order_relaxed);
    return true;
}

static bool still_there(larder__mapping *m, const larder_access *in, size_t n,
                        const larder__block_place *places) {
    const _Atomic larder__block_place *all = larder__table_places(m->table, m->keys);
    for (size_t i = 0; i < n; i++)
        if (atomic_load_explicit(&all[in[i].key], memory_order_acquire) != places[i])
            return false;
    return true;
}

static void give_tickets(larder__mapping *m, const larder_access *in, size_t n,
                         const larder__block_place *places, const uint32_t *pins,
                         larder__ticket *out) {
    atomic_fetch_add(&m->refs, (uint32_t)n); /* each lets go for itself */
    for (size_t i = 0; i < n; i++) {
        unsigned char *bytes =
            m->arena + larder__block_place_offset(places[i]) + sizeof(larder__block_head);
        uint8_t held = larder__block_place_held(places[i]);
        uint32_t size = larder__block_place_size(places[i]);
        __builtin_prefetch(bytes); /* they will be read soon */
        __builtin_prefetch(bytes + 64);
        out[i] = (larder__ticket){
            .key = in[i].key,
            .buf = larder__buf_outside_at(&m->heads[pins[i]], bytes, size, let_go, m, pins[i]),
            .size = size,
            .kind = LARDER_HIT,
            .task = LARDER__READY,
            .form = held,
            .make = held,
            .held = held};
    }
}

static void note(larder__connection *a, const larder_access *in, size_t n) {
    enum { BATCHES = 16 };
    larder__touch touched[AT_MOST];
    for (size_t i = 0; i < n; i++)
        touched[i] = (larder__touch){(uint32_t)in[i].key, in[i].tag, in[i].score};
    larder__connection_add(a, &(larder__op){.type = LARDER__OP_TOUCH, .n = n, .touched = touched});
    if (a->stats)
        larder__stat_add(a->stats, a->unasked, n);
    if (++a->touched == BATCHES) { /* what goes back goes along */
        larder__connection_add_returns(a);
        larder__connection_flush(a);
    }
}

bool larder__pins_take(void *attachment, const larder_access *in, size_t n, larder__ticket *out) {
    larder__connection *a = attachment;
    larder__block_place places[AT_MOST];
    uint32_t pins[AT_MOST];
    larder__mapping *m = a->map;
    if (!m || !m->pins || n == 0 || n > AT_MOST || n > m->pin_limit || !look_up(m, in, n, places) ||
        !pin(m, places, n, pins))
        return false;
    atomic_thread_fence(memory_order_seq_cst); /* pins before the second look: see above */
    if (!still_there(m, in, n, places)) {
        unpin(m, pins, n);
        return false;
    }
    give_tickets(m, in, n, places, pins, out);
    note(a, in, n);
    return true;
}
