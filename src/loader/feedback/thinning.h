/* What is left out when there is more to score than there is time for. Of a report, as many rows
 * are kept as its turn in the queue allows: those whose samples were scored longest ago, samples
 * that never were first. So what time there is goes round all samples, and those that are served
 * again and again are not scored again and again. It follows from the reports and the strides
 * alone. */
#ifndef LARDER_LOADER_FEEDBACK_THINNING_H
#define LARDER_LOADER_FEEDBACK_THINNING_H

#include "base/state.h"

enum { LARDER__STRIDE_MOST = 8 };

typedef struct larder__thinning {
    uint64_t n;       /* samples */
    uint32_t *scored; /* of each: the report it was last scored with, from 1 on; 0: never */
    uint32_t reports;
} larder__thinning;

int larder__thinning_open(larder__thinning *, uint64_t n);
void larder__thinning_close(larder__thinning *);
/* One row in so many is kept with that many reports waiting. 0: none of them. */
uint32_t larder__thinning_stride(uint32_t waiting);
/* Keeps one row in `stride`, in their order. *fresh: rows left out although their samples were
 * never scored. Its arrays are written. */
int larder__thinning_keep(larder__thinning *, larder_report *, uint32_t stride, uint64_t *fresh);
/* All of a report is left out: how many of its samples were never scored? */
uint64_t larder__thinning_fresh(const larder__thinning *, const larder_report *);
void larder__thinning_save(const larder__thinning *, larder_writer *);
int larder__thinning_load(larder__thinning *, larder_reader *);

#endif
