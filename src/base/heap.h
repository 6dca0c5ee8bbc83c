/* A min-heap over slots that knows where each slot stands, so that any of them can be re-ranked or
 * taken out in O(log n). Four children a node: half the depth of a binary heap, and the four lie in
 * one cache line. Ranks are compared as one 96-bit number, high part first; when all ranks differ
 * the order of removal depends on them alone, so a heap is saved as its ranks. */
#ifndef LARDER_BASE_HEAP_H
#define LARDER_BASE_HEAP_H

#include <larder/plugin.h>

#include <assert.h>

typedef struct larder__heap_node {
    uint64_t high;
    uint32_t low;
    larder_slot slot;
} larder__heap_node;

typedef struct larder__heap { /* the arrays belong to the owner: one element a slot each */
    larder__heap_node *nodes;
    uint32_t *place; /* slot -> its node; UINT32_MAX never */
    uint32_t size;
} larder__heap;

/* Bytes a slot, and how to lay both arrays into one block of that many times `slots`. */
enum { LARDER__HEAP_SLOT_SIZE = sizeof(larder__heap_node) + sizeof(uint32_t) };

static inline void larder__heap_init(larder__heap *h, void *block, uint64_t slots) {
    h->nodes = block;
    h->place = (uint32_t *)(void *)(h->nodes + slots);
    h->size = 0;
}

static inline bool larder__heap_before(const larder__heap_node *a, const larder__heap_node *b) {
    return a->high < b->high || (a->high == b->high && a->low < b->low);
}

static inline bool larder__heap_has(const larder__heap *h, larder_slot s) {
    return h->place[s] < h->size && h->nodes[h->place[s]].slot == s;
}

static inline void larder__heap_put(larder__heap *h, uint32_t at, larder__heap_node n) {
    h->nodes[at] = n;
    h->place[n.slot] = at;
}

/* Puts n where it belongs, starting at the free place `at` and moving others over it. */
static inline void larder__heap_rise(larder__heap *h, uint32_t at, larder__heap_node n) {
    while (at) {
        uint32_t up = (at - 1) / 4;
        if (!larder__heap_before(&n, &h->nodes[up]))
            break;
        larder__heap_put(h, at, h->nodes[up]);
        at = up;
    }
    larder__heap_put(h, at, n);
}

static inline void larder__heap_sink(larder__heap *h, uint32_t at, larder__heap_node n) {
    for (;;) {
        uint64_t child = 4 * (uint64_t)at + 1, end = child + 4 < h->size ? child + 4 : h->size;
        if (child >= h->size)
            break;
        uint64_t least = child;
        for (uint64_t i = child + 1; i < end; i++)
            if (larder__heap_before(&h->nodes[i], &h->nodes[least]))
                least = i;
        if (!larder__heap_before(&h->nodes[least], &n))
            break;
        larder__heap_put(h, at, h->nodes[least]);
        at = (uint32_t)least;
    }
    larder__heap_put(h, at, n);
}

static inline void larder__heap_settle(larder__heap *h, uint32_t at, larder__heap_node n) {
    if (at && larder__heap_before(&n, &h->nodes[(at - 1) / 4]))
        larder__heap_rise(h, at, n);
    else
        larder__heap_sink(h, at, n);
}

static inline void larder__heap_push(larder__heap *h, larder_slot s, uint64_t high, uint32_t low) {
    larder__heap_rise(h, h->size++, (larder__heap_node){high, low, s});
}

/* s must be in it. */
static inline void larder__heap_rerank(larder__heap *h, larder_slot s, uint64_t high,
                                       uint32_t low) {
    assert(larder__heap_has(h, s));
    larder__heap_settle(h, h->place[s], (larder__heap_node){high, low, s});
}

static inline void larder__heap_remove(larder__heap *h, larder_slot s) {
    assert(larder__heap_has(h, s));
    uint32_t at = h->place[s];
    larder__heap_node last = h->nodes[--h->size];
    if (at < h->size)
        larder__heap_settle(h, at, last);
}

/* The smallest; the heap must not be empty. */
static inline const larder__heap_node *larder__heap_top(const larder__heap *h) {
    assert(h->size > 0);
    return &h->nodes[0];
}

#endif
