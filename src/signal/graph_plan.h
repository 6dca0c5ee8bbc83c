/* Which classes, and which of their chunks, a query looks at when it cannot look at all. A query's
 * own class comes first (x_same governs the score), then the classes whose centres are nearest.
 * Each pair of query and class has a level l: every 2^l-th chunk of the class is looked at, a
 * random sample of its rows. Classes farther than the nearest 16 are taken to hold no neighbours.
 */
#ifndef LARDER_SIGNAL_GRAPH_PLAN_H
#define LARDER_SIGNAL_GRAPH_PLAN_H

#include "signal/graph_centres.h"

enum { LARDER__LEVELS = 32, LARDER__NEAR_CLASSES = 16 };

typedef struct larder__graph_pair {
    uint32_t class, query;
    uint32_t level;
    float weight; /* of classes picked at random: how many others this one stands for; else 1 */
} larder__graph_pair;

typedef struct larder__graph_plan {
    size_t count, room;
    larder__graph_pair *pairs; /* by class, then level, then query */
    float *distances;          /* of four queries to all centres */
    size_t distances_room;
} larder__graph_plan;

typedef struct larder__graph_wish {
    uint64_t budget;       /* rows a query */
    const uint32_t *sizes; /* rows of each class */
    uint32_t class_count;
    uint64_t turn;           /* of what is random */
    const uint32_t *classes; /* of the queries */
    const float *x;          /* n x dim */
    size_t n;
} larder__graph_wish;

int larder__graph_plan_make(larder__graph_plan *, const larder__graph_centres *,
                            const larder__graph_wish *);
void larder__graph_plan_free(larder__graph_plan *);
/* The smallest level at which a class of so many rows costs no more than this. */
uint32_t larder__graph_plan_level_for(uint64_t rows, uint64_t most);

/* Level of the i-th chunk of a class in this batch: a query of level l looks at it if l is not
 * above. */
static inline uint32_t larder__graph_plan_level(uint64_t i, uint64_t shift) {
    uint64_t at = (i + shift) & 0x7fffffffu;
    return at ? (uint32_t)__builtin_ctzll(at) : LARDER__LEVELS - 1;
}

#endif
