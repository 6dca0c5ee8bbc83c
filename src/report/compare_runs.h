/* Two runs, or two groups of runs that differ in their seeds alone: what differs in settings,
 * versions and machine, and which figures differ by more than the spread over seeds explains.
 *
 * The rule: Welch's t test for each figure, corrected for their number by Holm's method, results
 * and times of batches apart; below 0.05 it is a difference. That needs two seeds a side at least,
 * and with so few only large differences can be told. With one seed on a side nothing can. */
#ifndef LARDER_REPORT_COMPARE_RUNS_H
#define LARDER_REPORT_COMPARE_RUNS_H

#include "report/seed_group.h"

enum { LARDER__COMPARED = 32 };

typedef struct larder__difference { /* of a setting */
    const char *name;
    char a[256], b[256];
} larder__difference;

typedef struct larder__figure_pair {
    const larder__metric *metric;
    larder__spread a, b;
    double p;    /* corrected; NAN: cannot be told */
    bool beyond; /* the spread */
} larder__figure_pair;

typedef struct larder__comparison {
    const larder__seed_group *a, *b;
    larder__difference settings[LARDER__COMPARED];
    size_t setting_count;
    bool same_seeds; /* one run on each side, of the same seed */
    larder__figure_pair figures[LARDER__COMPARED];
    size_t figure_count;
    bool told; /* both sides have two runs at least */
} larder__comparison;

void larder__compare(larder__comparison *out, const larder__seed_group *a,
                     const larder__seed_group *b);
int larder__compare_text(FILE *, const larder__comparison *);
int larder__compare_json(FILE *, const larder__comparison *);

#endif
