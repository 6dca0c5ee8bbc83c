/* All ids in weighted random order, without replacement: the first is drawn by the weights, the
 * second by the weights of those left, and so on. Made by giving each id an exponential time
 * divided by its weight and sorting by time. Ids of weight zero come last, in random order. */
#ifndef LARDER_SAMPLE_WEIGHTED_ORDER_H
#define LARDER_SAMPLE_WEIGHTED_ORDER_H

#include <larder/plugin.h>

typedef struct larder__weighted_order {
    uint64_t n;
    uint64_t *a, *b; /* time << 32 | id, and where it is sorted to */
} larder__weighted_order;

int larder__weighted_order_open(larder__weighted_order *, uint64_t n); /* n < 2^32 */
void larder__weighted_order_close(larder__weighted_order *);
int larder__weighted_order_make(larder__weighted_order *, const float *weights, larder_rng *,
                                uint32_t *out);

#endif
