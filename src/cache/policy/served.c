/* Who was served leaves, longest ago first; who was brought in and not served yet stays. For
 * samplers that bring samples in before they are asked for; with others it is LRU. A request with
 * the tag LARDER_TAG_KEEP serves one that will be asked for once more before long. */
#include "base/list.h"

typedef struct served {
    const larder_slots *slots;
    larder__list waits, done; /* not served yet; served */
} served;

static larder__link *links(const served *p) { return p->slots->slot_data; }

/* Behind the links of all slots: does it wait? */
static uint8_t *waiting(const served *p) {
    return (uint8_t *)p->slots->slot_data + p->slots->keys * sizeof(larder__link);
}

static int init(void *st, const larder_slots *slots, const larder_args *args) {
    (void)args;
    served *p = st;
    p->slots = slots;
    larder__list_init(&p->waits);
    larder__list_init(&p->done);
    return 0;
}

static void leave(void *st, larder_slot s, bool evicted) {
    (void)evicted;
    served *p = st;
    larder__list_cut(waiting(p)[s] ? &p->waits : &p->done, links(p), s);
}

static void insert(void *st, larder_slot s, const larder_access *a) {
    served *p = st;
    bool waits = a->tag == LARDER_TAG_FETCH || a->tag == LARDER_TAG_KEEP;
    waiting(p)[s] = waits;
    larder__list_push(waits ? &p->waits : &p->done, links(p), s);
}

static void hit(void *st, larder_slot s, const larder_access *a) {
    leave(st, s, false);
    insert(st, s, a);
}

/* Those that wait leave for others that were brought, oldest first: nobody asks for them any more.
 */
static larder_slot victim(void *st, const larder_access *incoming) {
    const served *p = st;
    if (p->done.oldest != LARDER_NO_SLOT || incoming->tag != LARDER_TAG_FETCH)
        return p->done.oldest;
    return p->waits.oldest;
}

static void save(const void *st, larder_writer *w) {
    const served *p = st;
    larder__list_save(&p->waits, links(p), w);
    larder__list_save(&p->done, links(p), w);
}

static int load_list(served *p, larder__list *l, bool waits, uint32_t *left, larder_reader *r) {
    uint32_t n = larder_read_u32(r);
    if (n > *left)
        return larder_read_reject(r, "served: more samples than the cache holds");
    *left -= n;
    for (uint32_t i = 0; i < n; i++) {
        larder_slot s = larder_read_index(r, p->slots->used, false);
        if (larder_read_status(r) < 0)
            return larder_read_status(r);
        if (waiting(p)[s] != 2 || p->slots->key_of[s] == UINT32_MAX)
            return larder_read_reject(r, "served: a sample stands there twice, or is not there");
        waiting(p)[s] = waits;
        larder__list_push(l, links(p), s);
    }
    return 0;
}

static int load(void *st, larder_reader *r) {
    served *p = st;
    uint32_t left = p->slots->resident;
    init(p, p->slots, NULL);
    memset(waiting(p), 2, p->slots->used); /* nowhere yet */
    if (load_list(p, &p->waits, true, &left, r) < 0 || load_list(p, &p->done, false, &left, r) < 0)
        return larder_read_status(r);
    return left ? larder_read_reject(r, "served: not all that the cache holds")
                : larder_read_status(r);
}

const larder_policy larder__policy_served = {
    .plugin = {.name = "served",
               .summary = "evicts what was served, longest ago first; what was brought in waits",
               .state_size = sizeof(served)},
    .slot_size = sizeof(larder__link) + 1,
    .init = init,
    .insert = insert,
    .hit = hit,
    .victim = victim,
    .remove = leave,
    .save = save,
    .load = load,
};
