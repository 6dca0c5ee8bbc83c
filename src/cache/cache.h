/* A cache = policy + store + budget in bytes + whoever makes what is missing.
 *
 * Deciding and filling are two steps. `claim` decides for a batch of requests, in order, under the
 * lock: who is a hit, who enters, who leaves. Bytes come later, from any thread, through `fill`.
 * So decisions depend on the order of requests alone, never on which thread was faster, and the
 * budget holds at every instant because room is made before the bytes exist. Whoever wants an
 * entry that is being made waits for that one maker (single flight). `get` does both steps.
 *
 * An entry is kept in one of several forms (larder_form), each with its share of the budget. Which
 * one is decided with the rest: the first of decoded, encoded and augmented that the policy allows
 * and that has room. Sizes follow from the encoded size alone, so the bytes need not be there yet:
 * a decoded entry reserves what it will probably need, and where the pixels turn out larger, the
 * encoded bytes stay in their place.
 *
 * Keys are dense. All calls are thread-safe but open and close. */
#ifndef LARDER_CACHE_CACHE_H
#define LARDER_CACHE_CACHE_H

#include "base/stat.h"
#include "cache/store.h"

#include <larder/plugin.h>

typedef struct larder__cache larder__cache;
typedef struct larder__flight larder__flight; /* an entry being made */

typedef struct larder__forms {
    double share[LARDER_FORMS]; /* of the budget, 1 in all */
    double decoded_ratio;       /* a decoded entry reserves so many times its encoded size, */
    uint32_t decoded_bytes;     /* or this if it is more; never less than its encoded size */
    uint32_t row_bytes;         /* of an augmented entry */
    bool movable;               /* the shares may change: larder__cache_share_out */
} larder__forms;

typedef struct larder__tiers { /* an embedded cache in front of a store that is further away */
    uint64_t front, back;      /* bytes of each; front == 0: there is none */
    bool inclusive;            /* what lies in front lies behind too; else in one of the two */
} larder__tiers;

typedef struct larder__cache_conf {
    const larder_policy *policy;
    const larder_args *args; /* of the policy; borrowed for open */
    const larder__store *store;
    void *store_state; /* of a store that is open already, which is taken over; NULL: open it */
    uint64_t keys;
    uint64_t budget;            /* bytes */
    bool budget_covers_all;     /* metadata counts too (absolute sizes); else payload alone (20%) */
    const larder__forms *forms; /* NULL: encoded alone; borrowed for open */
    const larder__tiers *tiers; /* NULL: one; borrowed for open */
    uint64_t seed;
    uint64_t epochs;      /* of the run, 0: not known */
    larder__stats *stats; /* NULL: none */
    bool alone; /* requests for one key want different bytes: none shares what another makes, but
                   for what the cache holds or will hold */
    larder_slot *slot_of; /* memory for the table of keys, shared with others; NULL: its own */
    /* Called under the lock when an entry has entered (`by`) and when it is about to leave (NULL).
     * NULL: nobody wants to know. */
    void (*watch)(void *arg, uint64_t key, larder_form, const larder_access *by);
    void *watch_arg;
} larder__cache_conf;

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
                      beginning of a row of one's own */
    uint8_t make;  /* MAKE: larder_form of the entry to make */
    uint8_t held;  /* READY, and after wait: larder_form of the bytes; set it before fill */
    uint64_t mark; /* whose chance an augmented entry has: number of the request that made it */
    bool kept;     /* the cache held it, or will hold it, when this was decided */
    bool front;    /* a hit or stand-in from the tier in front */
} larder__ticket;

int larder__cache_open(larder__cache **out, const larder__cache_conf *);
void larder__cache_close(larder__cache **); /* no ticket may be open */

/* Decides for `n` requests one after the other; a[i].rng is set here. 0, or E_NOMEM and then
 * nothing has changed. Every ticket must be settled: READY by larder__ticket_drop, MAKE by fill or
 * fail, WAIT by wait. */
int larder__cache_claim(larder__cache *, larder_access *a, size_t n, larder__ticket *out);
/* As claim, for processes that decide alike and share a store (larder__store.expect): only the
 * requests from, from + step, from + 2 step ... are this process's. For the others the same is
 * decided, nobody makes anything, and their tickets need no settling. */
int larder__cache_claim_part(larder__cache *, larder_access *a, size_t n, size_t from, size_t step,
                             larder__ticket *out);
/* As claim, but all are looked up before any of the missing enters (a solver's batch of rows). */
int larder__cache_claim_batch(larder__cache *, larder_access *a, size_t n, larder__ticket *out);

/* Hits that were served without asking: the policy hears of them now. Those that have left since
 * are counted and no more. E_RANGE: there is no such key, and then nothing has changed. */
typedef struct larder__touch {
    uint32_t key, tag; /* as in larder_access */
    float score;
} larder__touch;
int larder__cache_touch(larder__cache *, const larder__touch *, size_t n, uint32_t job,
                        uint64_t now);

/* A ticket for a request that was decided before a save, to be served in this form: finds the
 * entry's bytes or their maker without telling the policy. E_NOMEM: nothing has changed. */
int larder__cache_reclaim(larder__cache *, uint64_t key, uint32_t size, larder_form, uint64_t mark,
                          larder__ticket *out);

/* The same for a request of another process: it will make the entry if that is cold. */
void larder__cache_expect(larder__cache *, uint64_t key);

void larder__cache_fill(larder__cache *, larder__ticket *, larder_buf *); /* takes its own ref */
void larder__cache_fail(larder__cache *, larder__ticket *, int code, const char *why);
/* A reference; or LARDER__TAKE_OVER: whoever had promised it is gone, make it for yourself. */
int larder__cache_wait(larder__cache *, larder__ticket *, larder_buf **out);
enum { LARDER__TAKE_OVER = 1 };
/* The bytes of READY tickets, where they may lie behind a network: bufs[i] gets one reference each
 * and the ticket is settled, or it has become one to MAKE, a miss, since the bytes are not to be
 * had any more. E_NOMEM: as much is settled as bufs says. */
int larder__cache_receive(larder__cache *, larder__ticket *, size_t n, larder_buf **bufs);
bool larder__cache_is_far(const larder__cache *); /* receive may wait for a network */
void larder__ticket_drop(larder__ticket *);
/* MAKE: will the cache keep it, as decided so far? */
bool larder__ticket_stays(const larder__ticket *);

/* How an entry is made. `have`: a shorter version of it, or NULL. *out: one reference. */
typedef int (*larder__make_fn)(void *arg, const larder_access *want, larder_buf *have,
                               larder_buf **out);
/* All of it at once: out[i] gets one reference each. On failure none is given. `kinds` may be
 * NULL. */
int larder__cache_get(larder__cache *, larder_access *a, size_t n, larder__make_fn, void *arg,
                      larder_buf **out, uint8_t *kinds);

/* Other shares from now on, of a cache opened as movable. What is above its new share leaves at
 * once, the highest slots first, so that the budgets of all forms hold. Between two batches. */
void larder__cache_share_out(larder__cache *, const double share[LARDER_FORMS]);

/* Bytes an entry of this form reserves, by its encoded size. */
uint32_t larder__cache_entry_size(const larder__cache *, larder_form, uint32_t encoded);
bool larder__cache_resident(const larder__cache *, uint64_t key); /* as decided, bytes or not */
/* Any number of scores may be given at once: a few hundred keys at a time, between requests and
 * beside them. All have taken effect when it returns. Keys that are not resident reach the policy's
 * `ghost`. */
void larder__cache_score(larder__cache *, const uint64_t *keys, const float *scores, size_t n);
/* Entries that are given back by who asked for them with LARDER_TAG_HELD: a policy that decides
 * late (larder_policy.offer) may let them in now. a[i].score is fresh; residents are scored. `bufs`
 * are borrowed, of a[i].size bytes; NULL with the null store. */
void larder__cache_offer(larder__cache *, larder_access *a, larder_buf *const *bufs, size_t n);
/* Would the policy make use of offers and scores of residents? */
bool larder__cache_listens(larder__cache *);
/* Fresh scores of all residents: scores[k * stride] of key k. */
void larder__cache_score_all(larder__cache *, const float *scores, size_t stride);
/* The policy's i-th change of mind; false where there is none. */
bool larder__cache_switched(larder__cache *, uint64_t i, larder_switch *out);
void larder__cache_accuracy(larder__cache *, double accuracy);
/* The policy's pick and fetch; false and 0 where it has none. */
bool larder__cache_pick(larder__cache *, larder_rng *, uint64_t *key, double *share);
size_t larder__cache_fetch(larder__cache *, uint64_t *keys, size_t max);
/* The policy's exchange; without one everybody is served what they want. */
void larder__cache_exchange(larder__cache *, uint32_t job, const uint64_t *wanted, size_t n,
                            uint64_t *served);
/* Where the jobs that share this cache are in their stream of fresh samples, as
 * larder_draw_env.stream; false where nobody shares it. */
bool larder__cache_stream(larder__cache *, larder_stream *, bool join);
/* Where the cache lives elsewhere, what this job measures goes there; false: it is here. */
bool larder__cache_pace(larder__cache *, const larder_pace *, double cores);
/* Calls `change` with the policy's state, under the lock: for policies with more to tell than a
 * larder_policy hears, as jobs that come and go. */
int larder__cache_tell(larder__cache *, int (*change)(void *policy_state, void *arg), void *arg);
/* The policy's package and dropped; none and 0 where it has none. */
larder_package larder__cache_package(larder__cache *);
size_t larder__cache_dropped(larder__cache *, uint64_t *numbers, size_t max);
void larder__cache_batch(larder__cache *);
/* `key` may stand in for these; false: the policy does not want it, or some id is no key or `key`
 * itself. */
bool larder__cache_relate(larder__cache *, uint64_t key, const uint64_t *ids, size_t n);
/* The policy's figures now. */
void larder__cache_show(larder__cache *, double out[LARDER_FIGURES]);
void larder__cache_list(larder__cache *, const uint8_t *tags);
void larder__cache_epoch(larder__cache *, uint64_t epoch);
const larder_slots *larder__cache_slots(const larder__cache *);
/* Could an entry of so many encoded bytes be resident in any form, were it the only one? */
bool larder__cache_fits(const larder__cache *, uint32_t bytes);
/* The state of its store, if it is of this kind; else NULL. */
void *larder__cache_store_state(larder__cache *, const larder__store *);

typedef struct larder__cache_figures {
    uint64_t requests, hits, misses, substitutes, insertions, evictions, refusals;
    uint64_t resident, resident_bytes, budget;
    uint64_t loaned_bytes;             /* held by readers, no longer resident */
    uint64_t metadata_bytes;           /* tables of cache, store and policy, as far as touched */
    bool elsewhere;                    /* another process has it: its size is not ours to say */
    uint64_t form_bytes[LARDER_FORMS]; /* of resident_bytes; decoded ones as reserved */
    uint64_t kept_encoded;             /* decoded entries whose pixels did not fit, so far */
    uint64_t front_hits;               /* of hits and substitutes: from the tier in front */
    uint64_t front_bytes, back_bytes;  /* of residents, with tiers */
} larder__cache_figures;
void larder__cache_read_figures(larder__cache *, larder__cache_figures *out);

/* Who is resident, as a map: the keys in `cells` ranges, and of each range the share in tenths that
 * is there in each form, out[cell][form], from a few keys of it. False: the cache is elsewhere. */
bool larder__cache_map(larder__cache *, size_t cells, uint8_t (*out)[LARDER_FORMS]);

/* Saves who is resident and the policy's memory, not the bytes: after load, residents are cold and
 * are made again when first asked for, so that order and decisions go on exactly. Load needs an
 * empty cache of the same keys and policy. */
void larder__cache_save(larder__cache *, larder_writer *);
int larder__cache_load(larder__cache *, larder_reader *);

#endif
