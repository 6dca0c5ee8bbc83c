/* A cache's beginning, end and figures. */
#include "base/err.h"
#include "base/mem.h"
#include "cache/cache_inside.h"

/* ---- figures --------------------------------------------------------------------------------- */

static uint64_t fixed_metadata(const larder__local *c) {
    return sizeof *c + c->policy->plugin.state_size +
           c->base.slots.keys * (sizeof *c->slot_of + c->policy->key_size +
                                 (larder__cache_has_shrunk(c) ? sizeof *c->settled : 0));
}

static uint64_t slot_metadata(const larder__local *c) {
    size_t forms = larder__cache_has_forms(c) ? sizeof *c->form_of + sizeof *c->held : 0;
    forms += larder__cache_has_rows(c) ? sizeof *c->mark : 0;
    forms += c->tier.conf.front ? sizeof *c->tier.front + sizeof *c->tier.wanted : 0;
    return sizeof *c->key_of + sizeof *c->size_of + sizeof *c->state + forms +
           c->policy->slot_size + c->store->slot_size + (c->store->real ? sizeof(larder_buf) : 0);
}

void larder__local_figures(larder__cache *cache, larder__cache_figures *out) {
    larder__local *c = larder__local_of(cache);
    pthread_mutex_lock(&c->lock);
    *out = c->figures;
    out->resident = c->base.slots.resident;
    out->resident_bytes = c->base.slots.bytes;
    out->budget = c->limit;
    out->front_bytes = c->tier.front_bytes;
    out->back_bytes = c->tier.back_bytes;
    memcpy(out->form_bytes, c->base.slots.form_bytes, sizeof out->form_bytes);
    uint64_t living = atomic_load(&c->account->bytes);
    out->loaned_bytes = living > c->filled_bytes ? living - c->filled_bytes : 0;
    out->metadata_bytes = fixed_metadata(c) + c->base.slots.used * slot_metadata(c);
    pthread_mutex_unlock(&c->lock);
}

bool larder__local_map(larder__cache *cache, size_t cells, uint8_t (*out)[LARDER_FORMS]) {
    larder__local *c = larder__local_of(cache);
    enum { ASKED = 20 }; /* of each range */
    pthread_mutex_lock(&c->lock);
    for (size_t i = 0; i < cells; i++) {
        uint64_t from = c->base.slots.keys * i / cells, to = c->base.slots.keys * (i + 1) / cells;
        uint64_t step = (to - from) / ASKED + 1, asked = 0, there[LARDER_FORMS] = {0};
        for (uint64_t k = from; k < to; k += step, asked++)
            if (c->slot_of[k] != LARDER_NO_SLOT)
                there[c->form_of[c->slot_of[k]] % LARDER_FORMS]++;
        for (int form = 0; form < LARDER_FORMS; form++)
            out[i][form] = (uint8_t)(asked ? (there[form] * 9 + asked / 2) / asked : 0);
    }
    pthread_mutex_unlock(&c->lock);
    return true;
}

/* ---- opening and closing --------------------------------------------------------------------- */

/* Tables for every slot there could be; pages are committed only when a slot is first used. */
static int open_tables(larder__local *c, larder_slot *lent) {
    uint64_t n = c->base.slots.keys;
    c->key_of = larder__calloc(n, sizeof *c->key_of);
    c->size_of = larder__calloc(n, sizeof *c->size_of);
    c->slot_of = lent ? lent : larder__malloc(n * sizeof *c->slot_of);
    c->slot_of_lent = lent;
    c->state = larder__calloc(n, sizeof *c->state);
    c->base.slots.slot_data = larder__calloc(n, c->policy->slot_size);
    c->base.slots.key_data = larder__calloc(n, c->policy->key_size);
    c->form_of = larder__calloc(n, sizeof *c->form_of);
    if (larder__cache_has_forms(c) && !(c->held = larder__calloc(n, sizeof *c->held)))
        return LARDER_E_NOMEM;
    if (larder__cache_has_rows(c) && !(c->mark = larder__calloc(n, sizeof *c->mark)))
        return LARDER_E_NOMEM;
    if (larder__cache_has_shrunk(c) && !(c->settled = larder__calloc(n, sizeof *c->settled)))
        return LARDER_E_NOMEM;
    if (!c->form_of || !c->key_of || !c->size_of || !c->slot_of || !c->state ||
        !c->base.slots.slot_data || !c->base.slots.key_data)
        return LARDER_E_NOMEM;
    memset(c->slot_of, 0xff, n * sizeof *c->slot_of);
    c->base.slots.key_of = c->key_of;
    c->base.slots.size_of = c->size_of;
    c->base.slots.slot_of = c->slot_of;
    c->base.slots.form_of = c->form_of;
    return 0;
}

static void close_local(larder__cache *cache) {
    larder__local *c = larder__local_of(cache);
    for (larder_slot s = 0; s < c->base.slots.used && c->store->real && !c->store->lasts; s++)
        if (c->key_of[s] != UINT32_MAX)
            c->store->drop(c->store_state, s);
    if (c->policy_state && c->policy->fini)
        c->policy->fini(c->policy_state);
    c->store->close(&c->store_state);
    larder__flights_free(&c->flights);
    larder__account_unref(&c->account);
    larder__tier_close(c);
    larder__free(c->policy_state);
    larder__free(c->key_of);
    larder__free(c->size_of);
    if (!c->slot_of_lent)
        larder__free(c->slot_of);
    larder__free(c->state);
    larder__free(c->form_of);
    larder__free(c->held);
    larder__free(c->mark);
    larder__free(c->settled);
    larder__free(c->base.slots.slot_data);
    larder__free(c->base.slots.key_data);
    pthread_mutex_destroy(&c->lock);
    larder__free(c);
}

static void note(larder__cache *cache, char *out, size_t cap) {
    larder__local *c = larder__local_of(cache);
    if (c->store->note)
        c->store->note(c->store_state, out, cap);
}

#define LOCAL                                                                                      \
    .claim = larder__local_claim, .claim_part = larder__local_claim_part,                          \
    .reclaim = larder__local_reclaim, .expect = larder__local_expect, .fill = larder__local_fill,  \
    .failed = larder__local_fail, .wait = larder__local_wait, .tell = larder__local_tell,          \
    .list = larder__local_list, .batch = larder__local_batch, .pick = larder__local_pick,          \
    .fetch = larder__local_fetch, .exchange = larder__local_exchange,                              \
    .package = larder__local_package, .dropped = larder__local_dropped,                            \
    .show = larder__local_show, .share_out = larder__local_share_out, .fits = larder__local_fits,  \
    .figures = larder__local_figures, .map = larder__local_map, .save = larder__local_save,        \
    .load = larder__local_load, .note = note, .close = close_local
static const larder__cache_ops near_ops = {LOCAL},
                               far_ops = {LOCAL, .receive = larder__local_receive};

int larder__cache_open(larder__cache **out, const larder__cache_conf *conf) {
    *out = NULL;
    void *given = conf->store_state;
    larder__local *c = conf->keys < UINT32_MAX ? larder__calloc(1, sizeof *c) : NULL;
    if (!c) {
        if (given)
            conf->store->close(&given);
        return conf->keys < UINT32_MAX
                   ? LARDER_E_NOMEM
                   : larder__fail(LARDER_E_RANGE, "%llu samples: a cache knows up to 4 billion",
                                  (unsigned long long)conf->keys);
    }
    pthread_mutex_init(&c->lock, NULL);
    larder__flights_init(&c->flights);
    c->base.slots.keys = conf->keys;
    c->base.slots.epochs = conf->epochs;
    c->base.ops = conf->store->receive ? &far_ops : &near_ops;
    c->policy = conf->policy;
    c->store = conf->store;
    c->store_state = conf->store_state;
    c->limit = conf->budget;
    c->forms = conf->forms ? *conf->forms : (larder__forms){.share = {1}};
    c->alone = conf->alone;
    c->watch = conf->watch;
    c->watch_arg = conf->watch_arg;
    c->free_slot = LARDER_NO_SLOT;
    larder_rng_seed(&c->rng, conf->seed, 0xcac4e);
    if (conf->budget_covers_all) {
        c->fixed_overhead = fixed_metadata(c);
        c->slot_overhead = slot_metadata(c);
    }
    larder__cache_note_budget(c);
    int rc = LARDER_E_NOMEM;
    if (!(c->account = larder__account_new()) ||
        !(c->policy_state = larder__calloc(1, c->policy->plugin.state_size)))
        goto fail;
    if ((rc = open_tables(c, conf->slot_of)) < 0 || (rc = larder__tier_open(c, conf->tiers)) < 0 ||
        (!c->store_state && (rc = c->store->open(&c->store_state, conf->keys)) < 0))
        goto fail;
    if ((rc = c->policy->init(c->policy_state, &c->base.slots, conf->args)) < 0)
        goto fail;
    if (conf->stats &&
        (rc = larder__cache_show_figures(&c->base, conf->stats, larder__cache_has_forms(c),
                                         c->tier.conf.front > 0)) < 0)
        goto fail;
    *out = &c->base;
    return 0;
fail:
    close_local(&c->base);
    return rc;
}
