/* What importance sampling costs when only the computing is saved: a least recently used cache
 * through which the samples that the epoch leaves out pass as well, though nobody trains on them.
 *
 * By the sampler's list, the ids tagged LEFT come along in a random order of their own, spread
 * evenly over the epoch's requests: after half of these, half of them. Those that are resident
 * count as used just now, the others are fetched: background reads in the ledger, also where the
 * cache has no room at all. Without a list it is lru. */
#include "cache/policy/queue.h"

typedef struct whole {
    larder__queue queue; /* first, as queue.h wants it */
    const uint8_t *tags;
    uint64_t chosen, left;  /* ids of the list */
    uint64_t asked, passed; /* requests of this epoch; left-out ids that have come along */
    uint64_t at, stride;    /* walks over all ids; stride 0: not begun */
    uint64_t walked;
} whole;

static uint64_t common_divisor(uint64_t a, uint64_t b) {
    while (b) {
        uint64_t r = a % b;
        a = b;
        b = r;
    }
    return a;
}

static void use(whole *p, larder_slot s) {
    larder__list_cut(&p->queue.order, larder__queue_links(&p->queue), s);
    larder__list_push(&p->queue.order, larder__queue_links(&p->queue), s);
}

/* A walk by a stride that shares no divisor with n meets every id once. */
static void count(whole *p, const larder_access *a) {
    uint32_t n = (uint32_t)p->queue.slots->keys;
    if (a->tag == LARDER_TAG_FETCH)
        return;
    p->asked++;
    if (!p->left || p->stride)
        return;
    p->at = larder_rng_below(a->rng, n);
    do
        p->stride = 1 + larder_rng_below(a->rng, n);
    while (common_divisor(p->stride, n) != 1);
}

static void hit(void *st, larder_slot s, const larder_access *a) {
    count(st, a);
    use(st, s);
}

/* Every missing entry passes here. */
static bool admit(void *st, const larder_access *a) {
    count(st, a);
    return true;
}

static size_t fetch(void *st, uint64_t *keys, size_t max) {
    whole *p = st;
    const larder_slots *slots = p->queue.slots;
    if (!p->left || !p->stride)
        return 0;
    uint64_t asked = p->asked < p->chosen ? p->asked : p->chosen;
    uint64_t due = (uint64_t)((double)p->left * ((double)asked / (double)p->chosen));
    size_t n = 0;
    for (; p->passed < due && n < max && p->walked < slots->keys; p->walked++) {
        uint64_t key = p->at;
        p->at = (p->at + p->stride) % slots->keys;
        if ((p->tags[key] & LARDER_TAG_RANK) != LARDER_TAG_LEFT)
            continue;
        p->passed++;
        if (slots->slot_of[key] == LARDER_NO_SLOT)
            keys[n++] = key;
        else
            use(p, slots->slot_of[key]);
    }
    return n;
}

static void list(void *st, const uint8_t *tags) {
    whole *p = st;
    p->tags = tags;
    p->chosen = p->left = 0;
    for (uint64_t k = 0; tags && k < p->queue.slots->keys; k++) {
        uint8_t rank = tags[k] & LARDER_TAG_RANK;
        p->left += rank == LARDER_TAG_LEFT;
        p->chosen += rank == LARDER_TAG_LOW || rank == LARDER_TAG_HIGH;
    }
    if (!p->chosen)
        p->left = 0;
}

static void epoch(void *st, uint64_t e) {
    (void)e;
    whole *p = st;
    p->asked = p->passed = p->walked = p->stride = 0;
}

static void save(const void *st, larder_writer *w) {
    const whole *p = st;
    larder__queue_save(&p->queue, w);
    larder_write_u64(w, p->asked);
    larder_write_u64(w, p->passed);
    larder_write_u64(w, p->walked);
    larder_write_u64(w, p->at);
    larder_write_u64(w, p->stride);
}

static int load(void *st, larder_reader *r) {
    whole *p = st;
    int rc = larder__queue_load(&p->queue, r);
    if (rc < 0)
        return rc;
    p->asked = larder_read_u64(r);
    p->passed = larder_read_u64(r);
    p->walked = larder_read_u64(r);
    p->at = larder_read_u64(r);
    p->stride = larder_read_u64(r);
    uint64_t n = p->queue.slots->keys;
    if (p->at > 0 && p->at >= n)
        return larder_read_reject(r, "its walk is off the data set");
    if (p->stride > n)
        return larder_read_reject(r, "its walk leaps over the data set");
    return larder_read_status(r);
}

const larder_policy larder__policy_whole = {
    .plugin = {.name = "whole",
               .summary = "lru through which the samples an epoch leaves out pass as well",
               .state_size = sizeof(whole)},
    .slot_size = sizeof(larder__link),
    .init = larder__queue_init,
    .admit = admit,
    .insert = larder__queue_insert,
    .hit = hit,
    .victim = larder__queue_oldest,
    .remove = larder__queue_remove,
    .save = save,
    .load = load,
    .hears = &(const larder_policy_hears){.list = list, .epoch = epoch},
    .brings = &(const larder_policy_brings){.reads_all = true, .fetch = fetch},
};
