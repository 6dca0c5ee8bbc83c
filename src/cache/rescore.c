/* Fresh scores for residents and ghosts, any number of them, without keeping requests waiting. */
#include "cache/ask_policy.h"

#include <sched.h>
#include <stdatomic.h>
#include <time.h>

enum { SCORED = 256, HELPED = 128 }; /* scores at once, and beside a request: some 10 and 5 us */

/* A lock that is given up and taken again at once never reaches those who sleep on it. So requests
 * say that they wait, and long work in chunks lets them pass in between. */
void larder__cache_lock(larder__local *c) {
    if (pthread_mutex_trylock(&c->lock) == 0)
        return;
    atomic_fetch_add(&c->waiting, 1);
    pthread_mutex_lock(&c->lock);
    atomic_fetch_sub(&c->waiting, 1);
    atomic_fetch_add(&c->entered, 1);
}

static void score_chunk(larder__local *c, const uint64_t *keys, const float *scores, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (i + LARDER__FAR < n && keys[i + LARDER__FAR] < c->base.slots.keys)
            larder__ask_for_key(c, keys[i + LARDER__FAR]);
        if (keys[i] >= c->base.slots.keys)
            continue;
        larder_slot s = c->slot_of[keys[i]];
        if (s == LARDER_NO_SLOT)
            larder__tell_ghost(c, keys[i], scores[i]);
        else
            larder__tell_score(c, s, scores[i]);
    }
}

static void score_some(larder__local *c, larder__rescoring *r, size_t most) {
    size_t n = r->n - r->at < most ? r->n - r->at : most;
    score_chunk(c, r->keys + r->at, r->scores + r->at, n);
    r->at += n;
}

void larder__cache_help_rescoring(larder__local *c) { score_some(c, &c->rescoring, HELPED); }

/* After each turn of ours, with the lock given up. A thread that is put aside by the scheduler with
 * the lock in hand keeps everybody waiting for milliseconds; so where requests come, they do a
 * little of it each, and this thread mostly sleeps. Where none come it goes on by itself and is put
 * aside here, if at all. */
static void let_pass(larder__local *c, bool sleeps, uint32_t entered, size_t turn) {
    enum { OFTEN = 32 };
    if (sleeps) {
        nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
        return;
    }
    while (atomic_load(&c->waiting) && atomic_load(&c->entered) == entered)
        sched_yield(); /* one of those who wait goes first */
    if (turn % OFTEN == OFTEN - 1)
        sched_yield();
}

void larder__local_score(larder__local *c, const uint64_t *keys, const float *scores, size_t n) {
    enum { PATIENCE = 32 }; /* some 5 ms */
    larder__rescoring mine, *r = &mine;
    if (!LARDER_HAS(c->policy, hears, score) || n == 0)
        return;
    pthread_mutex_lock(&c->lock);
    if (n > SCORED && !c->rescoring.keys)
        r = &c->rescoring;
    *r = (larder__rescoring){keys, scores, n, 0};
    uint32_t patience = 0; /* turns to wait for another request */
    for (size_t turn = 0, left_at = 0;; turn++) {
        bool helped = r->at != left_at;
        patience = helped ? PATIENCE : patience - (patience > 0);
        if (!patience)
            score_some(c, r, SCORED);
        left_at = r->at;
        if (r->at == n)
            break;
        uint32_t entered = atomic_load(&c->entered);
        pthread_mutex_unlock(&c->lock);
        let_pass(c, patience > 0, entered, turn);
        pthread_mutex_lock(&c->lock);
    }
    r->keys = NULL;
    pthread_mutex_unlock(&c->lock);
}

bool larder__cache_listens(larder__cache *cache) {
    larder__local *c = larder__local_of(cache);
    if (!LARDER_HAS(c->policy, hears, score))
        return false;
    larder__cache_lock(c);
    bool listens = larder__ask_listens(c);
    pthread_mutex_unlock(&c->lock);
    return listens;
}

void larder__cache_score_all(larder__cache *cache, const float *scores, size_t stride) {
    larder__local *c = larder__local_of(cache);
    if (!LARDER_HAS(c->policy, hears, score))
        return;
    larder__cache_lock(c);
    for (larder_slot s = 0; s < c->base.slots.used; s++)
        if (c->key_of[s] != UINT32_MAX)
            larder__tell_score(c, s, scores[c->key_of[s] * stride]);
    pthread_mutex_unlock(&c->lock);
}
