/* The figures of a run that reports and comparisons are about, in one list. */
#ifndef LARDER_REPORT_METRIC_H
#define LARDER_REPORT_METRIC_H

#include "report/record.h"

typedef struct larder__metric {
    const char *name;        /* "accuracy", in JSON */
    const char *head, *help; /* "acc %" */
    int decimals;
    double (*of)(const larder__run *, const larder__epoch *total); /* NAN: not known */
} larder__metric;

extern const larder__metric larder__metrics[]; /* ends with a NULL name */
size_t larder__metric_count(void);
const larder__metric *larder__metric_named(const char *name); /* one that is there */
double larder__metric_of(const larder__metric *, const larder__run *);

#endif
