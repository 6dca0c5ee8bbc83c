/* Which rule would have hit most? lru, lfu, efu and patient (efu that wants a newcomer to be used
 * two times more) each run as a shadow of the whole cache, so their hits are known, not estimated.
 * Hits are forgotten with a memory of lambda / 10 cache sizes' worth of accesses: long enough to
 * compare, short enough to notice that a run has passed into another stage. */
#ifndef LARDER_CACHE_POLICY_JUDGE_H
#define LARDER_CACHE_POLICY_JUDGE_H

#include "cache/policy/switches.h"

typedef struct larder__judge larder__judge;

int larder__judge_open(larder__judge **out, uint64_t keys, double lambda);
void larder__judge_close(larder__judge **);
/* One access, where `entries` fit. */
void larder__judge_access(larder__judge *, const larder_access *, uint64_t entries);
/* A round of `asked` accesses is over: the rule to follow, `rule` itself unless another is better
 * by more than chance would (the root of both hits' sum). `was` and `other`: the remembered hits of
 * both. */
uint32_t larder__judge_round(larder__judge *, uint32_t rule, uint64_t asked, uint64_t entries,
                             double *was, double *other);
void larder__judge_save(const larder__judge *, larder_writer *);
int larder__judge_load(larder__judge *, larder_reader *);

#endif
