/* A set of numbers 0..n-1 that can give its k-th smallest member: one bit a number, and counts of
 * blocks of 512 in a Fenwick tree. So a member is drawn uniformly in O(log n), and what is drawn
 * depends on the set alone, not on the way it came to be: a set is saved as its bits. */
#ifndef LARDER_BASE_PICKSET_H
#define LARDER_BASE_PICKSET_H

#include <larder/plugin.h>

typedef struct larder__pickset {
    uint64_t *words;
    uint32_t *tree; /* Fenwick tree over blocks, from 1 */
    uint32_t n, count, blocks;
} larder__pickset;

int larder__pickset_open(larder__pickset *, uint32_t n); /* empty */
void larder__pickset_close(larder__pickset *);           /* also of a zeroed one */

static inline bool larder__pickset_has(const larder__pickset *s, uint32_t i) {
    return s->words[i >> 6] >> (i & 63) & 1;
}
/* Both may come for what is there, or not there, already. */
void larder__pickset_add(larder__pickset *, uint32_t);
void larder__pickset_cut(larder__pickset *, uint32_t);
void larder__pickset_clear(larder__pickset *);
/* After the words were written from outside: counts again. Bits past n must be 0. */
void larder__pickset_recount(larder__pickset *);
/* The k-th smallest member, k < count. */
uint32_t larder__pickset_at(const larder__pickset *, uint32_t k);
/* All of them, the smallest first: room for `count`. */
void larder__pickset_list(const larder__pickset *, uint32_t *out);

static inline uint32_t larder__pickset_draw(const larder__pickset *s, larder_rng *rng) {
    return larder__pickset_at(s, larder_rng_below(rng, s->count));
}

#endif
