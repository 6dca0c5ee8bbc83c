/* Evicts anyone. The residents stand in a dense row in no particular order, so that the draw is
 * uniform over them whatever slots are empty. */
#include <larder/plugin.h>

typedef struct place {
    larder_slot at; /* row: who stands at this place */
    uint32_t where; /* slot: at which place it stands */
} place;

typedef struct chance {
    const larder_slots *slots;
    uint32_t size;
} chance;

static place *row(const chance *p) { return p->slots->slot_data; }

static int init(void *st, const larder_slots *slots, const larder_args *args) {
    (void)args;
    ((chance *)st)->slots = slots;
    return 0;
}

static void stand(chance *p, larder_slot s, uint32_t where) {
    row(p)[where].at = s;
    row(p)[s].where = where;
}

static void insert(void *st, larder_slot s, const larder_access *a) {
    (void)a;
    chance *p = st;
    stand(p, s, p->size++);
}

static void hit(void *st, larder_slot s, const larder_access *a) { (void)st, (void)s, (void)a; }

static larder_slot victim(void *st, const larder_access *incoming) {
    const chance *p = st;
    return row(p)[larder_rng_below(incoming->rng, p->size)].at;
}

static void leave(void *st, larder_slot s, bool evicted) {
    (void)evicted;
    chance *p = st;
    p->size--;
    stand(p, row(p)[p->size].at, row(p)[s].where); /* the last takes its place */
}

static void save(const void *st, larder_writer *w) {
    const chance *p = st;
    for (uint32_t i = 0; i < p->size; i++)
        larder_write_u32(w, row(p)[i].at);
}

static int load(void *st, larder_reader *r) {
    chance *p = st;
    p->size = 0;
    for (larder_slot s = 0; s < p->slots->used; s++)
        row(p)[s].where = UINT32_MAX;
    while (p->size < p->slots->resident) {
        larder_slot s = larder_read_index(r, p->slots->used, false);
        if (larder_read_status(r) < 0)
            return larder_read_status(r);
        if (p->slots->key_of[s] == UINT32_MAX || row(p)[s].where != UINT32_MAX)
            return larder_read_reject(r, "a row names a slot twice or an empty one");
        stand(p, s, p->size++);
    }
    return larder_read_status(r);
}

const larder_policy larder__policy_random = {
    .plugin = {.name = "random",
               .summary = "evicts any resident, all equally likely",
               .state_size = sizeof(chance)},
    .slot_size = sizeof(place),
    .init = init,
    .insert = insert,
    .hit = hit,
    .victim = victim,
    .remove = leave,
    .save = save,
    .load = load,
};
