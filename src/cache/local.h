/* The cache of this process = policy + store + budget in bytes. Decides under its lock; the budget
 * holds at every instant because room is made before the bytes exist.
 *
 * An entry is kept in one of several forms (larder_form), each with its share of the budget. Which
 * one is decided with the rest: the first of decoded, encoded and augmented that the policy allows
 * and that has room. Sizes follow from the encoded size alone, so the bytes need not be there yet:
 * a decoded entry reserves what it will probably need, and where the pixels turn out larger, the
 * encoded bytes stay in their place. A shrunk entry, of a cache that has a share for these instead
 * of encoded ones, reserves its encoded size until it is settled: then it counts for what it has.
 *
 * What follows is for who has opened such a cache; a larder__cache that lives elsewhere does not
 * know it. */
#ifndef LARDER_CACHE_LOCAL_H
#define LARDER_CACHE_LOCAL_H

#include "base/stat.h"
#include "cache/cache.h"
#include "cache/store.h"

typedef struct larder__forms {
    double share[LARDER_FORMS]; /* of the budget, 1 in all */
    double decoded_ratio;       /* a decoded entry reserves so many times its encoded size, */
    uint32_t decoded_bytes;     /* or this if it is more; never less than its encoded size */
    uint32_t row_bytes;         /* of an augmented entry */
    bool movable;               /* the shares may change: larder__cache_share_out */
    bool guessed;               /* sizes asked with are a guess, which shrunk entries may exceed */
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

int larder__cache_open(larder__cache **out, const larder__cache_conf *);

/* As claim, but all are looked up before any of the missing enters (a solver's batch of rows). */
int larder__cache_claim_batch(larder__cache *, larder_access *a, size_t n, larder__ticket *out);
/* Hits that were served without asking: the policy hears of them now. Those that have left since
 * are counted and no more. E_RANGE: there is no such key, and then nothing has changed. */
int larder__cache_touch(larder__cache *, const larder__touch *, size_t n, uint32_t job,
                        uint64_t now);
/* Before the first request: a sample that the store has from before is a resident from now on, if
 * there is room and the policy lets it in. False: there is no room for it. */
bool larder__cache_adopt(larder__cache *, uint64_t key, uint32_t size);
/* MAKE: will the cache keep it, as decided so far? */
bool larder__ticket_stays(const larder__ticket *);

/* A shrunk entry counts for so many bytes from now on, and whenever it enters again; 0: for those
 * that lie there. False: there are none, so find out and call again. Between two batches: when
 * this comes is part of what is decided. */
bool larder__cache_settle(larder__cache *, uint64_t key, uint32_t bytes);

/* Bytes an entry of this form reserves, by its encoded size. */
uint32_t larder__cache_entry_size(const larder__cache *, larder_form, uint32_t encoded);
/* Entries that are given back by who asked for them with LARDER_TAG_HELD: a policy that decides
 * late (larder_policy's `offer`) may let them in now. a[i].score is fresh; residents are scored.
 * `bufs` are borrowed, of a[i].size bytes; NULL with the null store. */
void larder__cache_offer(larder__cache *, larder_access *a, larder_buf *const *bufs, size_t n);
/* Would the policy make use of offers and scores of residents? */
bool larder__cache_listens(larder__cache *);
/* Fresh scores of all residents: scores[k * stride] of key k. */
void larder__cache_score_all(larder__cache *, const float *scores, size_t stride);
/* The policy's i-th change of mind; false where there is none. */
bool larder__cache_switched(larder__cache *, uint64_t i, larder_switch *out);
/* Calls `change` with the policy's state, under the lock: for policies with more to tell than a
 * larder_policy hears, as jobs that come and go. */
int larder__cache_change(larder__cache *, int (*change)(void *policy_state, void *arg), void *arg);

#endif
