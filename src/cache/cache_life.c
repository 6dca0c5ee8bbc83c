/* A cache's beginning, end and figures. */
#include "base/err.h"
#include "base/mem.h"
#include "cache/cache_inside.h"
#include "cache/link.h"

/* ---- figures --------------------------------------------------------------------------------- */

static uint64_t fixed_metadata(const larder__cache *c) {
    return sizeof *c + c->policy->plugin.state_size +
           c->slots.keys * (sizeof *c->slot_of + c->policy->key_size);
}

static uint64_t slot_metadata(const larder__cache *c) {
    size_t forms = larder__cache_has_forms(c) ? sizeof *c->form_of + sizeof *c->held : 0;
    forms += larder__cache_has_rows(c) ? sizeof *c->mark : 0;
    forms += c->tier.conf.front ? sizeof *c->tier.front + sizeof *c->tier.wanted : 0;
    return sizeof *c->key_of + sizeof *c->size_of + sizeof *c->state + forms +
           c->policy->slot_size + c->store->slot_size + (c->store->real ? sizeof(larder_buf) : 0);
}

void larder__cache_read_figures(larder__cache *c, larder__cache_figures *out) {
    if (c->link) {
        larder_slots now = {0}; /* those of the cache belong to whoever claims */
        c->link->look(c->link_state, &now);
        *out = (larder__cache_figures){.resident = now.resident,
                                       .resident_bytes = now.bytes,
                                       .budget = now.budget,
                                       .elsewhere = true};
        return;
    }
    pthread_mutex_lock(&c->lock);
    *out = c->figures;
    out->resident = c->slots.resident;
    out->resident_bytes = c->slots.bytes;
    out->budget = c->limit;
    out->front_bytes = c->tier.front_bytes;
    out->back_bytes = c->tier.back_bytes;
    memcpy(out->form_bytes, c->slots.form_bytes, sizeof out->form_bytes);
    uint64_t living = atomic_load(&c->account->bytes);
    out->loaned_bytes = living > c->filled_bytes ? living - c->filled_bytes : 0;
    out->metadata_bytes = fixed_metadata(c) + c->slots.used * slot_metadata(c);
    pthread_mutex_unlock(&c->lock);
}

bool larder__cache_map(larder__cache *c, size_t cells, uint8_t (*out)[LARDER_FORMS]) {
    enum { ASKED = 20 }; /* of each range */
    if (c->link)
        return false;
    pthread_mutex_lock(&c->lock);
    for (size_t i = 0; i < cells; i++) {
        uint64_t from = c->slots.keys * i / cells, to = c->slots.keys * (i + 1) / cells;
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

#define CACHE_PROBE(figure) CACHE_PROBE_AS(figure, figure)
#define CACHE_PROBE_AS(name, figure)                                                               \
    static double probe_##name(const void *arg) {                                                  \
        larder__cache_figures f;                                                                   \
        larder__cache_read_figures((larder__cache *)(uintptr_t)arg, &f);                           \
        return (double)f.figure;                                                                   \
    }
CACHE_PROBE(resident)
CACHE_PROBE(resident_bytes)
CACHE_PROBE(loaned_bytes)
CACHE_PROBE(metadata_bytes)
CACHE_PROBE(kept_encoded)
CACHE_PROBE_AS(encoded, form_bytes[LARDER_ENCODED])
CACHE_PROBE_AS(decoded, form_bytes[LARDER_DECODED])
CACHE_PROBE_AS(augmented, form_bytes[LARDER_AUGMENTED])
CACHE_PROBE(budget)
CACHE_PROBE(evictions)
CACHE_PROBE(refusals)
CACHE_PROBE(front_hits)
CACHE_PROBE(front_bytes)
CACHE_PROBE(back_bytes)
static double probe_far_hits(const void *arg) {
    larder__cache_figures f;
    larder__cache_read_figures((larder__cache *)(uintptr_t)arg, &f);
    return (double)(f.hits + f.substitutes - f.front_hits);
}

typedef struct shown {
    bool grows;
    const char *name, *unit, *help;
    double (*read)(const void *);
} shown;

static const shown plain[] = {
    {false, "cache_resident", "samples", "entries the cache holds now", probe_resident},
    {false, "cache_resident_bytes", "bytes", "their payload", probe_resident_bytes},
    {false, "cache_loaned_bytes", "bytes", "held by readers, no longer resident",
     probe_loaned_bytes},
    {false, "cache_metadata_bytes", "bytes", "tables of cache and policy", probe_metadata_bytes},
    {false, "cache_budget_bytes", "bytes", "what the cache may hold", probe_budget},
    {true, "cache_evictions", "samples", "entries that had to leave", probe_evictions},
    {true, "cache_refusals", "samples", "missing entries that were not let in", probe_refusals},
    {0},
};
static const shown of_forms[] = {
    {true, "cache_kept_encoded", "samples", "their pixels did not fit what they had reserved",
     probe_kept_encoded},
    {false, "cache_encoded_bytes", "bytes", "residents kept encoded", probe_encoded},
    {false, "cache_decoded_bytes", "bytes", "residents kept as pixels, as reserved", probe_decoded},
    {false, "cache_augmented_bytes", "bytes", "residents kept as finished rows", probe_augmented},
    {0},
};
static const shown of_tiers[] = {
    {true, "front_hits", "samples", "from the cache in front", probe_front_hits},
    {true, "far_hits", "samples", "from the cache behind it", probe_far_hits},
    {false, "front_bytes", "bytes", "residents in front", probe_front_bytes},
    {false, "far_bytes", "bytes", "residents behind", probe_back_bytes},
    {0},
};

static int show_all(larder__cache *c, larder__stats *s, const shown *of) {
    int rc = 0;
    for (; rc == 0 && of->name; of++)
        rc = (of->grows ? larder__stat_probe_count : larder__stat_probe)(s, of->name, of->unit,
                                                                         of->help, of->read, c);
    return rc;
}

static int show(larder__cache *c, larder__stats *s) {
    int rc = show_all(c, s, plain);
    if (rc == 0 && larder__cache_has_forms(c))
        rc = show_all(c, s, of_forms);
    if (rc == 0 && c->tier.conf.front)
        rc = show_all(c, s, of_tiers);
    return rc;
}

/* Tables for every slot there could be; pages are committed only when a slot is first used. */
static int open_tables(larder__cache *c, larder_slot *lent) {
    uint64_t n = c->slots.keys;
    c->key_of = larder__calloc(n, sizeof *c->key_of);
    c->size_of = larder__calloc(n, sizeof *c->size_of);
    c->slot_of = lent ? lent : larder__malloc(n * sizeof *c->slot_of);
    c->slot_of_lent = lent;
    c->state = larder__calloc(n, sizeof *c->state);
    c->slots.slot_data = larder__calloc(n, c->policy->slot_size);
    c->slots.key_data = larder__calloc(n, c->policy->key_size);
    c->form_of = larder__calloc(n, sizeof *c->form_of);
    if (larder__cache_has_forms(c) && !(c->held = larder__calloc(n, sizeof *c->held)))
        return LARDER_E_NOMEM;
    if (larder__cache_has_rows(c) && !(c->mark = larder__calloc(n, sizeof *c->mark)))
        return LARDER_E_NOMEM;
    if (!c->form_of || !c->key_of || !c->size_of || !c->slot_of || !c->state ||
        !c->slots.slot_data || !c->slots.key_data)
        return LARDER_E_NOMEM;
    memset(c->slot_of, 0xff, n * sizeof *c->slot_of);
    c->slots.key_of = c->key_of;
    c->slots.size_of = c->size_of;
    c->slots.slot_of = c->slot_of;
    c->slots.form_of = c->form_of;
    return 0;
}

int larder__cache_open(larder__cache **out, const larder__cache_conf *conf) {
    *out = NULL;
    void *given = conf->store_state;
    larder__cache *c = conf->keys < UINT32_MAX ? larder__calloc(1, sizeof *c) : NULL;
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
    c->slots.keys = conf->keys;
    c->slots.epochs = conf->epochs;
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
    if ((rc = c->policy->init(c->policy_state, &c->slots, conf->args)) < 0)
        goto fail;
    if (conf->stats && (rc = show(c, conf->stats)) < 0)
        goto fail;
    *out = c;
    return 0;
fail:
    larder__cache_close(&c);
    return rc;
}

int larder__cache_open_link(larder__cache **out, const larder__link *link, void *st, uint64_t keys,
                            larder__stats *stats) {
    larder__cache *c = larder__calloc(1, sizeof *c);
    *out = NULL;
    if (!c) {
        link->close(&st);
        return LARDER_E_NOMEM;
    }
    pthread_mutex_init(&c->lock, NULL);
    c->link = link;
    c->link_state = st;
    c->slots.keys = keys;
    c->forms.share[LARDER_ENCODED] = 1;
    link->look(st, &c->slots);
    int rc = stats ? show(c, stats) : 0;
    if (rc < 0)
        larder__cache_close(&c);
    *out = c;
    return rc;
}

void larder__cache_close(larder__cache **pc) {
    larder__cache *c = *pc;
    *pc = NULL;
    if (!c)
        return;
    if (c->link) {
        c->link->close(&c->link_state);
        pthread_mutex_destroy(&c->lock);
        larder__free(c);
        return;
    }
    for (larder_slot s = 0; s < c->slots.used; s++)
        if (c->key_of[s] != UINT32_MAX && c->store->real)
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
    larder__free(c->slots.slot_data);
    larder__free(c->slots.key_data);
    pthread_mutex_destroy(&c->lock);
    larder__free(c);
}
