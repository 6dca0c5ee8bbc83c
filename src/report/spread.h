/* Mean and spread over seeds, and whether two such means differ by more than chance explains. */
#ifndef LARDER_REPORT_SPREAD_H
#define LARDER_REPORT_SPREAD_H

#include <stddef.h>

typedef struct larder__spread {
    size_t n;
    double mean, sd; /* sd: of a sample, n - 1; NAN for fewer than two */
} larder__spread;

larder__spread larder__spread_of(const double *values, size_t n); /* NANs are left out */

/* Welch's t test: the chance that means of two groups of one distribution lie this far apart or
 * farther; the groups may have different spreads. NAN: one of them has fewer than two values. Two
 * groups without any spread: 1 where they agree, 0 where not. */
double larder__welch(const larder__spread *, const larder__spread *);

/* Student's t: the chance of |t| or more with `df` degrees of freedom. */
double larder__student(double t, double df);

/* Holm's correction for looking at several figures at once: p[i] becomes what 0.05 may be held
 * against. NANs stay and do not count. */
void larder__holm(double *p, size_t n);

#endif
