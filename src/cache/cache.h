/* A cache, wherever it lives: in this process (cache/local.h), or with others, whom this process
 * asks (shared/client.h). Who calls it does not know which.
 *
 * Deciding and filling are two steps. `claim` decides for a batch of requests, in order: who is a
 * hit, who enters, who leaves. Bytes come later, from any thread, through `fill`. So decisions
 * depend on the order of requests alone, never on which thread was faster. Whoever wants an entry
 * that is being made waits for that one maker (single flight). `get` does both steps.
 *
 * An entry is kept in one of several forms (larder_form). Keys are dense. All calls are thread-safe
 * but open and close. */
#ifndef LARDER_CACHE_CACHE_H
#define LARDER_CACHE_CACHE_H

#include "cache/operation.h"

#include <larder/plugin.h>
#include <math.h>

typedef struct larder__cache larder__cache;
typedef struct larder__flight larder__flight; /* an entry being made */

typedef enum {
    LARDER__READY, /* buf is there (NULL with the null store) */
    LARDER__MAKE,  /* you make it: call fill or fail */
    LARDER__WAIT   /* somebody makes it: call wait */
} larder__task;

typedef struct larder__ticket { /* the answer to one request */
    uint64_t key;               /* what is served: the key asked for, or its stand-in */
    larder_buf *buf; /* READY: one reference; MAKE: the shorter entry to extend, if any */
    larder__flight *flight;
    uint32_t size; /* MAKE: bytes to make, of `key`; may differ from what was asked */
    uint8_t kind;  /* larder_kind as decided: a MISS that WAITs shares another's read */
    uint8_t task;  /* larder__task */
    uint8_t form;  /* larder_form that is served: AUGMENTED is the entry itself, the others are the
                      beginning of a row of one's own. What enters SHRUNK is served ENCODED */
    uint8_t make;  /* MAKE: larder_form of the entry to make */
    uint8_t held;  /* READY, and after wait: larder_form of the bytes; set it before fill */
    uint64_t mark; /* whose chance an augmented entry has: number of the request that made it */
    bool kept;     /* the cache held it, or will hold it, when this was decided */
    bool front;    /* a hit or stand-in from the tier in front */
} larder__ticket;

typedef struct larder__cache_figures {
    uint64_t requests, hits, misses, substitutes, insertions, evictions, refusals;
    uint64_t resident, resident_bytes, budget;
    uint64_t loaned_bytes;             /* held by readers, no longer resident */
    uint64_t metadata_bytes;           /* tables of cache, store and policy, as far as touched */
    bool elsewhere;                    /* another process has it: its size is not ours to say */
    uint64_t form_bytes[LARDER_FORMS]; /* of resident_bytes; decoded ones as reserved */
    uint64_t kept_encoded;             /* entries that stayed as they came, so far */
    uint64_t front_hits;               /* of hits and substitutes: from the tier in front */
    uint64_t front_bytes, back_bytes;  /* of residents, with tiers */
} larder__cache_figures;

enum { LARDER__TAKE_OVER = 1 };

/* What a cache is. Optional ones may be NULL; then what stands behind "NULL:" holds. */
typedef struct larder__cache_ops {
    /* Decides for `n` requests one after the other; a[i].rng is set there. 0, or E_NOMEM and then
     * nothing has changed. Every ticket must be settled: READY by larder__ticket_drop, MAKE by fill
     * or fail, WAIT by wait. */
    int (*claim)(larder__cache *, larder_access *a, size_t n, larder__ticket *out);
    /* As claim, for processes that decide alike and share a store (larder__store.expect): only the
     * requests from, from + step, from + 2 step ..., `mine` of them, are this process's. For the
     * others the same is decided, nobody makes anything, and their tickets need no settling. NULL:
     * not here. */
    int (*claim_part)(larder__cache *, larder_access *a, size_t n, size_t from, size_t step,
                      size_t mine, larder__ticket *out);
    /* A ticket for a request that was decided before a save, to be served in this form: finds the
     * entry's bytes or their maker without telling the policy. E_NOMEM: nothing has changed. */
    int (*reclaim)(larder__cache *, uint64_t key, uint32_t size, larder_form, uint64_t mark,
                   larder__ticket *out);
    /* The same for a request of another process: it will make the entry if that is cold. NULL:
     * nothing. */
    void (*expect)(larder__cache *, uint64_t key);
    void (*fill)(larder__cache *, larder__ticket *, larder_buf *); /* takes its own reference */
    void (*failed)(larder__cache *, larder__ticket *, int code, const char *why);
    /* A reference; or TAKE_OVER: whoever had promised it is gone, make it for yourself, and if the
     * ticket has a flight still, settle it as one to MAKE. */
    int (*wait)(larder__cache *, larder__ticket *, larder_buf **out);
    /* The bytes of a READY ticket, of which `token` was given, where they may lie behind a network;
     * it is taken over. NULL in *out: they are not to be had, and the ticket has become one to MAKE
     * or to WAIT for. NULL: the token is the bytes. */
    int (*receive)(larder__cache *, larder__ticket *, larder_buf *token, larder_buf **out);
    /* A word to whoever decides (cache/operations.def). True: RELATE, it is wanted; RATES, they
     * matter elsewhere and not here. */
    bool (*tell)(larder__cache *, const larder__op *);
    void (*list)(larder__cache *, const uint8_t *tags); /* larder_policy's `list`; lent */
    void (*batch)(larder__cache *);                     /* NULL: a claim is a batch */
    bool (*pick)(larder__cache *, larder_rng *, uint64_t *key);
    size_t (*fetch)(larder__cache *, uint64_t *keys, size_t max);
    /* What a job is served of what it wants. The claim that follows is for what is served. */
    void (*exchange)(larder__cache *, uint32_t job, const uint64_t *wanted, size_t n,
                     uint64_t *served);
    /* Where the jobs that share it are in their stream of fresh samples, as larder_draw_env.stream.
     * NULL: nobody shares it. */
    bool (*stream)(larder__cache *, larder_stream *, bool join);
    larder_package (*package)(larder__cache *); /* NULL: nothing is laid down */
    size_t (*dropped)(larder__cache *, uint64_t *numbers, size_t max);
    void (*show)(larder__cache *, double out[LARDER_FIGURES]);            /* NULL: none are known */
    void (*share_out)(larder__cache *, const double share[LARDER_FORMS]); /* NULL: not from here */
    bool (*fits)(const larder__cache *, uint32_t bytes);
    void (*figures)(larder__cache *, larder__cache_figures *out);
    bool (*map)(larder__cache *, size_t cells, uint8_t (*out)[LARDER_FORMS]); /* NULL: false */
    void (*save)(larder__cache *, larder_writer *);
    int (*load)(larder__cache *, larder_reader *);
    void (*note)(larder__cache *, char *out, size_t cap); /* NULL: nothing ever went wrong */
    void (*close)(larder__cache *);
} larder__cache_ops;

struct larder__cache { /* what every cache begins with */
    const larder__cache_ops *ops;
    larder_slots slots; /* keys; what is known of the residents now */
};

static inline int larder__cache_claim(larder__cache *c, larder_access *a, size_t n,
                                      larder__ticket *out) {
    return c->ops->claim(c, a, n, out);
}
static inline int larder__cache_claim_part(larder__cache *c, larder_access *a, size_t n,
                                           size_t from, size_t step, size_t mine,
                                           larder__ticket *out) {
    return c->ops->claim_part(c, a, n, from, step, mine, out);
}
static inline int larder__cache_reclaim(larder__cache *c, uint64_t key, uint32_t size,
                                        larder_form form, uint64_t mark, larder__ticket *out) {
    return c->ops->reclaim(c, key, size, form, mark, out);
}
static inline void larder__cache_expect(larder__cache *c, uint64_t key) {
    if (c->ops->expect)
        c->ops->expect(c, key);
}
static inline void larder__cache_fill(larder__cache *c, larder__ticket *t, larder_buf *b) {
    c->ops->fill(c, t, b);
}
static inline void larder__cache_fail(larder__cache *c, larder__ticket *t, int code,
                                      const char *why) {
    c->ops->failed(c, t, code, why);
}
/* After TAKE_OVER: `rc` and bytes of what was made, encoded. */
void larder__cache_took_over(larder__cache *, larder__ticket *, int rc, larder_buf *);
static inline int larder__cache_wait(larder__cache *c, larder__ticket *t, larder_buf **out) {
    return c->ops->wait(c, t, out);
}
/* Waits for what is not to be made here. If nobody brings it, the promise to make it is given back
 * and *out stays as it was. */
void larder__cache_wait_only(larder__cache *, larder__ticket *, larder_buf **out);
static inline bool larder__cache_is_far(const larder__cache *c) { return c->ops->receive != NULL; }
static inline void larder__ticket_drop(larder__ticket *t) { larder_buf_unref(&t->buf); }

static inline bool larder__cache_tell(larder__cache *c, const larder__op *o) {
    return c->ops->tell(c, o);
}
/* Any number of scores may be given at once, beside requests. All have taken effect here when it
 * returns. Keys that are not resident reach the policy's `ghost`. */
static inline void larder__cache_score(larder__cache *c, const uint64_t *keys, const float *scores,
                                       size_t n) {
    c->ops->tell(c,
                 &(larder__op){.type = LARDER__OP_SCORES, .n = n, .ids = keys, .scores = scores});
}
static inline void larder__cache_accuracy(larder__cache *c, double accuracy) {
    c->ops->tell(c, &(larder__op){.type = LARDER__OP_ACCURACY, .value = {accuracy}});
}
/* `key` may stand in for these; false: the policy does not want it, or some id is no key or `key`
 * itself. */
static inline bool larder__cache_relate(larder__cache *c, uint64_t key, const uint64_t *ids,
                                        size_t n) {
    return c->ops->tell(
        c, &(larder__op){.type = LARDER__OP_RELATE, .number = {key}, .n = n, .ids = ids});
}
static inline void larder__cache_epoch(larder__cache *c, uint64_t epoch) {
    c->ops->tell(c, &(larder__op){.type = LARDER__OP_EPOCH, .number = {epoch}});
}
static inline bool larder__cache_pace(larder__cache *c, const larder_pace *p, double cores) {
    return c->ops->tell(c, &(larder__op){.type = LARDER__OP_RATES,
                                         .value = {p->read_seconds, p->step_seconds,
                                                   p->decode_seconds, p->augment_seconds, cores}});
}
static inline void larder__cache_list(larder__cache *c, const uint8_t *tags) {
    c->ops->list(c, tags);
}
static inline void larder__cache_batch(larder__cache *c) {
    if (c->ops->batch)
        c->ops->batch(c);
}
static inline bool larder__cache_pick(larder__cache *c, larder_rng *rng, uint64_t *key) {
    return c->ops->pick(c, rng, key);
}
static inline size_t larder__cache_fetch(larder__cache *c, uint64_t *keys, size_t max) {
    return c->ops->fetch(c, keys, max);
}
static inline void larder__cache_exchange(larder__cache *c, uint32_t job, const uint64_t *wanted,
                                          size_t n, uint64_t *served) {
    c->ops->exchange(c, job, wanted, n, served);
}
static inline bool larder__cache_stream(larder__cache *c, larder_stream *s, bool join) {
    return c->ops->stream && c->ops->stream(c, s, join);
}
static inline larder_package larder__cache_package(larder__cache *c) {
    return c->ops->package ? c->ops->package(c) : (larder_package){0};
}
static inline size_t larder__cache_dropped(larder__cache *c, uint64_t *numbers, size_t max) {
    return c->ops->dropped ? c->ops->dropped(c, numbers, max) : 0;
}
static inline void larder__cache_show(larder__cache *c, double out[LARDER_FIGURES]) {
    for (size_t i = 0; i < LARDER_FIGURES; i++)
        out[i] = (double)NAN;
    if (c->ops->show)
        c->ops->show(c, out);
}
/* Other shares from now on, of a cache opened as movable. What is above its new share leaves at
 * once, the highest slots first, so that the budgets of all forms hold. Between two batches. */
static inline void larder__cache_share_out(larder__cache *c, const double share[LARDER_FORMS]) {
    if (c->ops->share_out)
        c->ops->share_out(c, share);
}
/* As decided, bytes or not. */
static inline bool larder__cache_resident(const larder__cache *c, uint64_t key) {
    return key < c->slots.keys &&
           __atomic_load_n(&c->slots.slot_of[key], __ATOMIC_RELAXED) != LARDER_NO_SLOT;
}
static inline const larder_slots *larder__cache_slots(const larder__cache *c) { return &c->slots; }
/* Could an entry of so many encoded bytes be resident in any form, were it the only one? */
static inline bool larder__cache_fits(const larder__cache *c, uint32_t bytes) {
    return c->ops->fits(c, bytes);
}
static inline void larder__cache_read_figures(larder__cache *c, larder__cache_figures *out) {
    c->ops->figures(c, out);
}
/* Who is resident, as a map: the keys in `cells` ranges, and of each range the share in tenths that
 * is there in each form, out[cell][form], from a few keys of it. False: it is not known. */
static inline bool larder__cache_map(larder__cache *c, size_t cells, uint8_t (*out)[LARDER_FORMS]) {
    return c->ops->map && c->ops->map(c, cells, out);
}
/* Saves who is resident and the policy's memory, not the bytes: after load, residents are cold and
 * are made again when first asked for, so that order and decisions go on exactly. Load needs an
 * empty cache of the same keys and policy. */
static inline void larder__cache_save(larder__cache *c, larder_writer *w) { c->ops->save(c, w); }
static inline int larder__cache_load(larder__cache *c, larder_reader *r) {
    return c->ops->load(c, r);
}
/* Why something it depends on was last away or refused something; "": never. */
static inline void larder__cache_note(larder__cache *c, char *out, size_t cap) {
    if (cap)
        out[0] = '\0';
    if (c->ops->note)
        c->ops->note(c, out, cap);
}
void larder__cache_close(larder__cache **); /* no ticket may be open */
/* Among the figures of a loader; those about forms and tiers where it has them. */
struct larder__stats;
int larder__cache_show_figures(larder__cache *, struct larder__stats *, bool forms, bool tiers);
/* What a cache that lives elsewhere saves, which is not ours to save: that it does. */
#define LARDER__ELSEWHERE "elsewhere"
#define LARDER__OTHER_PLACE                                                                        \
    "its cache lived in a daemon and this one does not, or the other way round"

/* The bytes of READY tickets: bufs[i] gets one reference each and the ticket is settled, or it has
 * become one to MAKE or to WAIT for. E_NOMEM: as much is settled as bufs says. */
int larder__cache_receive(larder__cache *, larder__ticket *, size_t n, larder_buf **bufs);

/* How an entry is made. `have`: a shorter version of it, or NULL. *out: one reference. */
typedef int (*larder__make_fn)(void *arg, const larder_access *want, larder_buf *have,
                               larder_buf **out);
/* All of it at once: out[i] gets one reference each. On failure none is given. `kinds` may be
 * NULL. */
int larder__cache_get(larder__cache *, larder_access *a, size_t n, larder__make_fn, void *arg,
                      larder_buf **out, uint8_t *kinds);

#endif
