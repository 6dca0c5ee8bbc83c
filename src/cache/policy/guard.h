/* When a fall of accuracy is one. Accuracies jump, early in training by more than any fall that
 * matters, and for no reason but chance; so one is never taken for what it says.
 *
 *   level: the middle one of the last three. A single bad one moves nothing, two running do.
 *   noise: how far an accuracy lies from the mean of the one before and the one after it, the
 *          middle of the last eight such distances, as a standard deviation. A steep rise counts as
 *          noise too: while it lasts nothing can be told.
 *   doubt = noise (1 + 1/m), m the distances there are: the fewer, the less they are trusted.
 *
 * It withdraws when level + doubt is more than `limit` below the largest level - doubt so far: when
 * it is surely lower than it surely was. It returns once the level is within half of `limit` of
 * that, or after three levels none of which was a new low: then something else was the reason, and
 * what it surely was counts from there. */
#ifndef LARDER_CACHE_POLICY_GUARD_H
#define LARDER_CACHE_POLICY_GUARD_H

#include <larder/plugin.h>

enum { LARDER__GUARD_KEPT = 11 }; /* accuracies: eight distances, without the newest one */

typedef struct larder__guard {
    double limit;                    /* 0: it never withdraws */
    double last[LARDER__GUARD_KEPT]; /* oldest first */
    uint32_t count;
    double best, low; /* what it surely was; the lowest level since it withdrew */
    uint32_t withdrawn, trials;
} larder__guard;

void larder__guard_init(larder__guard *, double limit);
void larder__guard_watch(larder__guard *, double accuracy);

void larder__guard_save(const larder__guard *, larder_writer *);
int larder__guard_load(larder__guard *, larder_reader *);

#endif
