/* Runs that differ in nothing but their seed and went equally far are one group: its mean run, and
 * the spread of each figure. */
#ifndef LARDER_REPORT_SEED_GROUP_H
#define LARDER_REPORT_SEED_GROUP_H

#include "report/metric.h"
#include "report/spread.h"

typedef struct larder__seed_group {
    const larder__run **runs; /* in their order; the caller's */
    size_t count;
    larder__run mean; /* epoch by epoch; named after the group */
} larder__seed_group;

typedef struct larder__seed_groups {
    larder__seed_group *at;
    size_t count;
    const larder__run **room; /* that the groups' runs lie in */
    bool several;             /* some group has more than one run */
} larder__seed_groups;

int larder__groups_make(larder__seed_groups *out, const larder__run *runs, size_t count);
void larder__groups_free(larder__seed_groups *);
larder__spread larder__group_spread(const larder__seed_group *, const larder__metric *);
/* Same settings but for the seed? */
bool larder__meta_alike(const larder__meta *, const larder__meta *);

#endif
