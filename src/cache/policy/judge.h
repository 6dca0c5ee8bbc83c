/* Which rule would have hit most? lru, lfu, efu and patient (efu that wants a newcomer to be used
 * two times more) each run as a shadow of the cache, so their hits are known, not guessed. Shadows
 * follow a sample of the keys, chosen by a hash, in a cache that is smaller in the same measure:
 * what a large cache would do is seen by a few hundred entries. Whatever the cache itself does is
 * counted on the same keys.
 *
 * Hits are forgotten with a memory of lambda / 10 cache sizes' worth of accesses: long enough to
 * compare, short enough to notice that a run has passed into another stage. Between kkt and lru
 * (larder__judge_pair) all hits so far count. */
#ifndef LARDER_CACHE_POLICY_JUDGE_H
#define LARDER_CACHE_POLICY_JUDGE_H

#include "cache/policy/switches.h"

typedef struct larder__judge larder__judge;

/* `sample`: entries of a shadow, at most. */
int larder__judge_open(larder__judge **out, uint64_t keys, double lambda, uint64_t sample);
void larder__judge_close(larder__judge **);
/* Before the first access: the cache begins as kkt, and lru is all that it may change to. */
void larder__judge_pair(larder__judge *);
/* One access, where `entries` fit; did the cache itself hit? */
void larder__judge_access(larder__judge *, const larder_access *, uint64_t entries, bool hit);
/* A round of `asked` accesses is over: the rule to follow, `rule` itself unless another is better
 * by more than chance would (the root of both hits' sum). `was` and `other`: the remembered hits of
 * both. */
uint32_t larder__judge_round(larder__judge *, uint32_t rule, uint64_t asked, uint64_t entries,
                             double *was, double *other);
void larder__judge_save(const larder__judge *, larder_writer *);
int larder__judge_load(larder__judge *, larder_reader *);

#endif
