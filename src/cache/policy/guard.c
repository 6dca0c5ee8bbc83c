#include "cache/policy/guard.h"

#include <math.h>

enum { TRIALS = 3 }; /* levels without a new low that bring substitution back */

void larder__guard_init(larder__guard *g, double limit) {
    *g = (larder__guard){.limit = limit, .best = -INFINITY};
}

static double middle(double *a, uint32_t n) { /* sorts it; n is small */
    for (uint32_t i = 1; i < n; i++)
        for (uint32_t k = i; k && a[k - 1] > a[k]; k--) {
            double t = a[k];
            a[k] = a[k - 1];
            a[k - 1] = t;
        }
    return (a[(n - 1) / 2] + a[n / 2]) / 2;
}

static double level_of(const larder__guard *g) {
    double three[3];
    memcpy(three, g->last + g->count - 3, sizeof three);
    return middle(three, 3);
}

/* The newest distance has the newest accuracy in it, which is what is judged: it is left out as
 * soon as there are others. */
static double doubt_of(const larder__guard *g) {
    double off[LARDER__GUARD_KEPT];
    uint32_t m = 0, most = g->count > 3 ? g->count - 3 : 1;
    for (; m < most; m++)
        off[m] = fabs(g->last[m + 1] - (g->last[m] + g->last[m + 2]) / 2);
    /* 1.4826: of a normal distribution's middle distance; 1.5: the variance of such a difference */
    return 1.4826 * middle(off, m) / sqrt(1.5) * (1 + 1.0 / m);
}

static void push(larder__guard *g, double accuracy) {
    if (g->count == LARDER__GUARD_KEPT)
        memmove(g->last, g->last + 1, (LARDER__GUARD_KEPT - 1) * sizeof *g->last);
    else
        g->count++;
    g->last[g->count - 1] = accuracy;
}

void larder__guard_watch(larder__guard *g, double accuracy) {
    if (g->limit <= 0)
        return;
    push(g, accuracy);
    if (g->count < 3)
        return;
    double level = level_of(g), doubt = doubt_of(g);
    if (g->withdrawn) {
        bool lower = level < g->low, back = level >= g->best - g->limit / 2;
        g->low = lower ? level : g->low;
        g->trials = lower ? 0 : g->trials + 1;
        if (!back && g->trials >= TRIALS)
            g->best = level - doubt;
        g->withdrawn = !back && g->trials < TRIALS;
    } else if (level + doubt < g->best - g->limit) {
        g->withdrawn = 1;
        g->trials = 0;
        g->low = level;
    }
    g->best = fmax(g->best, level - doubt);
}

void larder__guard_save(const larder__guard *g, larder_writer *w) {
    larder_write_u32(w, g->count);
    for (uint32_t i = 0; i < g->count; i++)
        larder_write_f64(w, g->last[i]);
    larder_write_f64(w, g->best);
    larder_write_f64(w, g->low);
    larder_write_u32(w, g->withdrawn);
    larder_write_u32(w, g->trials);
}

int larder__guard_load(larder__guard *g, larder_reader *r) {
    uint32_t count = larder_read_u32(r);
    if (count > LARDER__GUARD_KEPT)
        return larder_read_reject(r, "more accuracies than are kept");
    for (g->count = 0; g->count < count; g->count++)
        g->last[g->count] = larder_read_f64(r);
    g->best = larder_read_f64(r);
    g->low = larder_read_f64(r);
    g->withdrawn = larder_read_u32(r) == 1;
    g->trials = larder_read_u32(r);
    return larder_read_status(r);
}
