#include "report/spread.h"

#include <math.h>

larder__spread larder__spread_of(const double *values, size_t n) {
    larder__spread s = {.mean = NAN, .sd = NAN};
    double mean = 0, squares = 0;
    for (size_t i = 0; i < n; i++) {
        if (!isfinite(values[i]))
            continue;
        double off = values[i] - mean; /* Welford: no large squares to cancel */
        s.n++;
        mean += off / (double)s.n;
        squares += off * (values[i] - mean);
    }
    if (s.n)
        s.mean = mean;
    if (s.n > 1)
        s.sd = sqrt(squares / (double)(s.n - 1));
    return s;
}

/* The continued fraction of the incomplete beta function, by Lentz's method. */
static double beta_fraction(double a, double b, double x) {
    const double tiny = 1e-300;
    double c = 1, d = 1 - (a + b) * x / (a + 1);
    d = 1 / (fabs(d) < tiny ? tiny : d);
    double h = d;
    for (int m = 1; m <= 500; m++) {
        double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
        double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
        double steps[2] = {even, odd}, change = 1;
        for (int i = 0; i < 2; i++) {
            d = 1 + steps[i] * d;
            c = 1 + steps[i] / c;
            d = 1 / (fabs(d) < tiny ? tiny : d);
            c = fabs(c) < tiny ? tiny : c;
            change = c * d;
            h *= change;
        }
        if (fabs(change - 1) < 1e-15)
            break;
    }
    return h;
}

static double beta_share(double a, double b, double x) {
    if (x <= 0 || x >= 1)
        return x <= 0 ? 0 : 1;
    double front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log1p(-x));
    return x < (a + 1) / (a + b + 2) ? front * beta_fraction(a, b, x) / a
                                     : 1 - front * beta_fraction(b, a, 1 - x) / b;
}

double larder__student(double t, double df) {
    if (isnan(t) || !(df > 0))
        return NAN;
    return beta_share(df / 2, 0.5, df / (df + t * t));
}

double larder__welch(const larder__spread *a, const larder__spread *b) {
    if (a->n < 2 || b->n < 2)
        return NAN;
    double va = a->sd * a->sd / (double)a->n, vb = b->sd * b->sd / (double)b->n;
    double both = va + vb, apart = a->mean - b->mean;
    if (both <= 0)
        return apart == 0 ? 1 : 0;
    double df = both * both / (va * va / (double)(a->n - 1) + vb * vb / (double)(b->n - 1));
    return larder__student(apart / sqrt(both), df);
}

void larder__holm(double *p, size_t n) {
    enum { MOST = 64 };
    double given[MOST] = {0};
    size_t known = 0, done = 0;
    if (n > MOST)
        n = MOST;
    for (size_t i = 0; i < n; i++) {
        given[i] = p[i];
        known += isnan(p[i]) ? 0 : 1;
    }
    double floor_ = 0;
    while (done < known) { /* the smallest counts as often as all, the next once less … */
        size_t at = n;
        for (size_t i = 0; i < n; i++)
            if (!isnan(given[i]) && (at == n || given[i] < given[at]))
                at = i;
        if (at == n)
            break;
        floor_ = fmax(floor_, fmin(1, given[at] * (double)(known - done)));
        p[at] = floor_;
        given[at] = NAN;
        done++;
    }
}
