/* Opportunistic sampling as a policy: one job, number 0, is there from the beginning; others are
 * told of through larder__cache_tell, which gets the larder__ods that the state begins with. What
 * is decided and why is in cache/ods_core.h. */
#include "cache/ods_core.h"

typedef struct ods {
    larder__ods core;
    const uint8_t *left_out;
    bool seeded; /* by the first request that comes with chance */
} ods;

static int init(void *st, const larder_slots *slots, const larder_args *args) {
    ods *p = st;
    uint32_t job;
    (void)args;
    int rc = larder__ods_open(&p->core, slots, slots->key_data);
    return rc < 0 ? rc : larder__ods_join(&p->core, &job);
}

static void fini(void *st) { larder__ods_close(&((ods *)st)->core); }

static bool admit(void *st, const larder_access *a) {
    ods *p = st;
    if (!p->seeded && a->rng)
        larder_rng_seed(&p->core.rng, larder_rng_next(a->rng), 0x0d5);
    p->seeded = true;
    larder__ods_missed(&p->core, a);
    return true;
}

static void insert(void *st, larder_slot s, const larder_access *a) {
    larder__ods_entered(&((ods *)st)->core, s, a);
}

static void hit(void *st, larder_slot s, const larder_access *a) {
    larder__ods_hit(&((ods *)st)->core, s, a);
}

static larder_slot victim(void *st, const larder_access *incoming) {
    return larder__ods_victim(&((ods *)st)->core, incoming);
}

static void leave(void *st, larder_slot s, bool evicted) {
    (void)evicted;
    larder__ods_left(&((ods *)st)->core, s);
}

static size_t fetch(void *st, uint64_t *keys, size_t max) {
    return larder__ods_refill(&((ods *)st)->core, keys, max);
}

static uint32_t forms(void *st, const larder_access *a) {
    return larder__ods_forms(&((ods *)st)->core, a);
}

static bool serves(void *st, larder_slot s, const larder_access *a) {
    return larder__ods_serves(&((ods *)st)->core, s, a->job);
}

static bool spent(void *st, larder_slot s) { return larder__ods_spent(&((ods *)st)->core, s); }

static void exchange(void *st, uint32_t job, larder_rng *rng, const uint64_t *wanted, size_t n,
                     uint64_t *served) {
    if (larder__ods_batch(&((ods *)st)->core, job, rng, wanted, n, served) < 0)
        memcpy(served, wanted, n * sizeof *served);
}

static void list(void *st, const uint8_t *tags) { ((ods *)st)->left_out = tags; }

static void epoch(void *st, uint64_t e) {
    (void)e;
    ods *p = st;
    larder__ods_epoch(&p->core, 0, p->left_out);
}

static void save(const void *st, larder_writer *w) {
    const ods *p = st;
    larder_write_u32(w, p->seeded);
    larder__ods_save(&p->core, w);
}

static int load(void *st, larder_reader *r) {
    ods *p = st;
    p->seeded = larder_read_index(r, 2, false) == 1;
    return larder__ods_load(&p->core, r);
}

const larder_policy larder__policy_ods = {
    .plugin = {.name = "ods",
               .summary = "evicts what all jobs have seen, brings in what most have not",
               .state_size = sizeof(ods)},
    .key_size = 1,
    .init = init,
    .fini = fini,
    .admit = admit,
    .insert = insert,
    .hit = hit,
    .victim = victim,
    .remove = leave,
    .save = save,
    .load = load,
    .hears = &(const larder_policy_hears){.list = list, .epoch = epoch},
    .brings = &(const larder_policy_brings){.fetch = fetch},
    .shares =
        &(const larder_policy_shares){
            .forms = forms, .serves = serves, .spent = spent, .exchange = exchange},
};
