/* Which chunks a query looks at when it cannot look at all of them. Each pair of query and class
 * has a level l: every 2^l-th chunk of the class is looked at, a random sample of its rows. A
 * query's own class comes first (x_same governs the score), then the classes whose centres are
 * nearest, finer than the rest; the rest shares what is left of the budget evenly. */
#ifndef LARDER_SIGNAL_GRAPH_PLAN_H
#define LARDER_SIGNAL_GRAPH_PLAN_H

#include "signal/graph_store.h"

enum { LARDER__LEVELS = 32, LARDER__NEAR_CLASSES = 8 };

typedef struct larder__graph_finer { /* query looks at class at a level below the common one */
    uint32_t class, query;
    uint32_t level;
} larder__graph_finer;

typedef struct larder__graph_plan {
    uint32_t common; /* level of all pairs that have none of their own */
    size_t count, room;
    larder__graph_finer *finer; /* by class, then query */
    float *centres, *distances; /* dims x classes, classes; NULL: nobody is nearest */
    uint32_t classes, dims;     /* that they have room for */
} larder__graph_plan;

/* codes: n x dims of the queries, classes: theirs. budget: rows a query; 0: all rows. */
int larder__graph_plan_make(larder__graph_plan *, const larder__graph_store *, uint32_t budget,
                            const uint8_t *codes, const uint32_t *classes, size_t n);
void larder__graph_plan_free(larder__graph_plan *);

/* Level of the i-th chunk of a class in this batch: a query of level l looks at it if l is not
 * above. */
static inline uint32_t larder__graph_plan_level(uint64_t i, uint64_t shift) {
    uint64_t at = (i + shift) & 0x7fffffffu;
    return at ? (uint32_t)__builtin_ctzll(at) : LARDER__LEVELS - 1;
}

#endif
