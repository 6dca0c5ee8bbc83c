/* What the files of the cache share: its struct and the steps over it. Nobody else includes this.
 */
#ifndef LARDER_CACHE_INSIDE_H
#define LARDER_CACHE_INSIDE_H

#include "base/buf.h"
#include "cache/flight.h"
#include "cache/local.h"
#include "cache/tier.h"

#include <pthread.h>

/* What a resident slot's bytes are doing. */
/* EXPECTED: another process puts them into the store. */
enum { LARDER__FULL = 1, LARDER__PENDING = 2, LARDER__COLD = 3, LARDER__EXPECTED = 4 };

typedef struct larder__rescoring { /* many scores that are being given */
    const uint64_t *keys;
    const float *scores;
    size_t n, at; /* so many of them have been */
} larder__rescoring;

typedef struct larder__local {
    larder__cache
        base; /* its slots are what the policy sees; the arrays below their writable side */
    pthread_mutex_t lock;
    _Atomic uint32_t waiting, entered; /* requests that wait for it, and that have got it so */
    larder__rescoring rescoring;       /* one that requests help along; no keys: none */
    uint32_t *key_of, *size_of;
    larder_slot *slot_of;
    bool slot_of_lent; /* belongs to whoever opened us */
    uint8_t *state;    /* slot -> FULL, PENDING, COLD */
    uint8_t *form_of;  /* slot -> larder_form */
    uint8_t *held;     /* slot -> larder_form of the bytes there; NULL without forms */
    uint64_t *mark;    /* slot -> larder__ticket.mark; NULL without augmented entries */
    uint32_t *settled; /* key -> bytes as a shrunk entry, 0: not known; NULL without those */
    larder__forms forms;
    larder__tier_table tier;
    larder_slot free_slot; /* chain of empty slots through size_of */
    const larder_policy *policy;
    void *policy_state;
    const larder__store *store;
    void *store_state;
    larder__flights flights;
    larder__account *account;               /* bytes of all living buffers of this cache */
    uint64_t filled_bytes;                  /* of buffers in FULL slots */
    uint64_t limit;                         /* the budget as given */
    uint64_t fixed_overhead, slot_overhead; /* 0 unless the budget covers metadata */
    uint64_t refused_fills;
    bool elsewhere; /* the request being decided is another process's */
    bool alone;     /* see larder__cache_conf, as of the two below */
    void (*watch)(void *arg, uint64_t key, larder_form, const larder_access *by);
    void *watch_arg;
    larder_rng rng;
    larder__cache_figures figures;
    uint64_t looked_at; /* so many requests: tables are to be looked over again */
    char fault[200];    /* what the policy said that cannot be: every later claim fails with it */
} larder__local;

static inline larder__local *larder__local_of(const larder__cache *c) {
    return (larder__local *)(uintptr_t)c;
}

/* What payload may come to with `used` slots in use. */
static inline uint64_t larder__cache_room(const larder__local *c, uint32_t used) {
    uint64_t overhead = c->fixed_overhead + used * c->slot_overhead;
    return c->limit > overhead ? c->limit - overhead : 0;
}

static inline uint64_t larder__form_room(const larder__local *c, int form, uint64_t room) {
    double share = c->forms.share[form];
    return share >= 1 ? room : (uint64_t)(share * (double)room);
}

/* What the policy may know of the budget; changes with the slots in use when tables count too. */
static inline void larder__cache_note_budget(larder__local *c) {
    c->base.slots.budget = larder__cache_room(c, c->base.slots.used);
    for (int f = 0; f < LARDER_FORMS; f++)
        c->base.slots.form_budget[f] = larder__form_room(c, f, c->base.slots.budget);
}

static inline bool larder__cache_has_forms(const larder__local *c) {
    return c->forms.movable || c->forms.share[LARDER_ENCODED] < 1;
}
static inline bool larder__cache_has_shrunk(const larder__local *c) {
    return c->forms.share[LARDER_SHRUNK] > 0;
}
static inline bool larder__cache_has_rows(const larder__local *c) {
    return c->forms.movable || c->forms.share[LARDER_AUGMENTED] > 0;
}

/* Bytes an entry counts for in this form; 0: no entry of that form can be had. */
static inline uint32_t larder__form_size(const larder__local *c, int form, uint32_t encoded) {
    if (form == LARDER_ENCODED || form == LARDER_SHRUNK)
        return encoded;
    if (form == LARDER_AUGMENTED)
        return c->forms.row_bytes;
    double reserve = c->forms.decoded_ratio * (double)encoded;
    if (reserve >= (double)UINT32_MAX)
        return 0;
    uint32_t bytes = (uint32_t)reserve;
    bytes = bytes > c->forms.decoded_bytes ? bytes : c->forms.decoded_bytes;
    return bytes > encoded ? bytes : encoded;
}

/* The same of this one, as far as it is known. */
static inline uint32_t larder__entry_size(const larder__local *c, int form,
                                          const larder_access *a) {
    uint32_t settled = form == LARDER_SHRUNK && c->settled ? c->settled[a->key] : 0;
    return settled ? settled : larder__form_size(c, form, a->size);
}

/* Written under the lock; read by larder__cache_resident without it. */
static inline void larder__cache_note_slot(larder__local *c, uint64_t key, larder_slot s) {
    __atomic_store_n(&c->slot_of[key], s, __ATOMIC_RELAXED);
}

/* Keys and slots ahead of which their lines are asked for: see decide.c. */
enum { LARDER__FAR = 48 };
static inline void larder__ask_for_key(const larder__local *c, uint64_t key) {
    __builtin_prefetch(&c->slot_of[key]);
    if (c->policy->key_size)
        __builtin_prefetch((char *)c->base.slots.key_data + key * c->policy->key_size, 1);
}

/* receive.c, without the lock: bytes that are elsewhere are sent for at once, so that they come
 * while others are prepared. `a` may be NULL. */
void larder__cache_send_for(larder__local *, const larder_access *a, size_t n, larder__ticket *);

/* All that follows is called under the lock. Room (room.c): bytes that lie in a FULL slot; taking
 * them, or the promise of them, off a slot; emptying it; the form in which an entry enters, of
 * which `held` bytes are in slot `growing` already, or LARDER__NO_FORM; entering. */
enum { LARDER__NO_FORM = -1 };
uint64_t larder__slot_bytes(larder__local *, larder_slot);
void larder__slot_put(larder__local *, larder_slot, larder_buf *, uint8_t held);
void larder__slot_expect(larder__local *, larder_slot);
void larder__slot_strip(larder__local *, larder_slot);
void larder__slot_evict(larder__local *, larder_slot);
int larder__cache_make_room(larder__local *, const larder_access *, uint32_t mask, uint32_t held,
                            larder_slot growing);
bool larder__cache_has_room(const larder__local *, const larder_access *, int form);
larder_slot larder__cache_enter(larder__local *, const larder_access *, int form);

/* What a policy says is checked before it is believed (policy_faults.c): a resident slot, or
 * NO_SLOT where the policy named another; keys of the data set and no more than asked for. */
void larder__cache_blame(larder__local *, const char *sentence, ...)
    __attribute__((format(printf, 2, 3)));
larder_slot larder__cache_victim(larder__local *, const larder_access *incoming);
size_t larder__cache_known_keys(larder__local *, const char *what, const uint64_t *keys, size_t n,
                                size_t max);
/* Do tables, sums and chains of slots agree? For asserts: it walks over all slots, now and then. */
bool larder__cache_consistent(larder__local *);

/* Requests take the lock so, and do a little of a rescoring under way (rescore.c). */
void larder__cache_lock(larder__local *);
void larder__cache_help_rescoring(larder__local *);

/* Functions of larder__cache_ops. */
int larder__local_claim(larder__cache *, larder_access *, size_t n, larder__ticket *out);
int larder__local_claim_part(larder__cache *, larder_access *, size_t n, size_t from, size_t step,
                             size_t mine, larder__ticket *out);
int larder__local_reclaim(larder__cache *, uint64_t key, uint32_t size, larder_form, uint64_t mark,
                          larder__ticket *out);
void larder__local_expect(larder__cache *, uint64_t key);
void larder__local_fill(larder__cache *, larder__ticket *, larder_buf *);
void larder__local_fail(larder__cache *, larder__ticket *, int code, const char *why);
int larder__local_wait(larder__cache *, larder__ticket *, larder_buf **out);
int larder__local_receive(larder__cache *, larder__ticket *, larder_buf *token, larder_buf **out);
bool larder__local_tell(larder__cache *, const larder__op *);
void larder__local_list(larder__cache *, const uint8_t *tags);
void larder__local_batch(larder__cache *);
bool larder__local_pick(larder__cache *, larder_rng *, uint64_t *key);
size_t larder__local_fetch(larder__cache *, uint64_t *keys, size_t max);
void larder__local_exchange(larder__cache *, uint32_t job, const uint64_t *wanted, size_t n,
                            uint64_t *served);
larder_package larder__local_package(larder__cache *);
size_t larder__local_dropped(larder__cache *, uint64_t *numbers, size_t max);
void larder__local_show(larder__cache *, double out[LARDER_FIGURES]);
void larder__local_share_out(larder__cache *, const double share[LARDER_FORMS]);
bool larder__local_fits(const larder__cache *, uint32_t bytes);
void larder__local_figures(larder__cache *, larder__cache_figures *out);
bool larder__local_map(larder__cache *, size_t cells, uint8_t (*out)[LARDER_FORMS]);
void larder__local_save(larder__cache *, larder_writer *);
int larder__local_load(larder__cache *, larder_reader *);
void larder__local_score(larder__local *, const uint64_t *keys, const float *scores, size_t n);

#endif
