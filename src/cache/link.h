/* A cache that lives elsewhere. The same calls as in cache/cache.h, answered by another process;
 * the cache itself is then only the door to it. */
#ifndef LARDER_CACHE_LINK_H
#define LARDER_CACHE_LINK_H

#include "cache/cache.h"

typedef struct larder__link {
    const char *name;
    int (*claim)(void *st, larder_access *, size_t n, larder__ticket *out);
    void (*fill)(void *st, larder__ticket *, larder_buf *);
    void (*fail)(void *st, larder__ticket *, int code, const char *why);
    int (*wait)(void *st, larder__ticket *, larder_buf **out); /* or LARDER__TAKE_OVER */
    /* Optional: the bytes of a READY ticket, of which `token` was given; it is taken over. NULL in
     * *out: they are not to be had, and the ticket is one to MAKE or to WAIT for now. */
    int (*receive)(void *st, larder__ticket *, larder_buf *token, larder_buf **out);
    void (*score)(void *st, const uint64_t *keys, const float *scores, size_t n);
    void (*accuracy)(void *st, double accuracy);
    /* larder_policy.relate, best first; between two claims the first one that is wanted is taken.
     */
    void (*relate)(void *st, uint64_t key, const uint64_t *ids, size_t n);
    void (*list)(void *st, const uint8_t *tags); /* larder_policy.list */
    void (*epoch)(void *st, uint64_t epoch);
    /* larder_policy.exchange. The claim that follows is for what is served, and what `fetch` gives
     * after it came with the same answer. */
    void (*exchange)(void *st, const uint64_t *wanted, size_t n, uint64_t *served);
    bool (*stream)(void *st, larder_stream *, bool join);
    /* Rates of this job, with so many threads, for who plans there. */
    void (*pace)(void *st, const larder_pace *, double cores);
    /* A ticket to make this entry for oneself, without asking anybody. */
    void (*alone)(void *st, const larder_access *, larder__ticket *out);
    bool (*pick)(void *st, larder_rng *, uint64_t *key, double *share);
    size_t (*fetch)(void *st, uint64_t *keys, size_t max);
    /* What is known of the residents now. slot_of stays where it is until the end: others read in
     * it at any time, whoever talks to the other side meanwhile. */
    void (*look)(void *st, larder_slots *out);
    void (*close)(void **st);
} larder__link;

/* Takes over `st`, also when it fails. */
int larder__cache_open_link(larder__cache **out, const larder__link *, void *st, uint64_t keys,
                            larder__stats *);

/* The other side's state, if it is of this kind; else NULL. */
void *larder__cache_link_state(larder__cache *, const larder__link *);

#endif
