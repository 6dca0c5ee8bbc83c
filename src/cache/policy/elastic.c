#include "cache/policy/elastic.h"

#include <math.h>

enum { OPEN_SPAN = 100 }; /* epochs taken for T where nobody knows how long the run is */

void larder__elastic_init(larder__elastic *e, const larder_args *args, uint64_t epochs) {
    *e = (larder__elastic){.sigma = NAN, .slope = NAN};
    e->start = e->ratio = larder_args_number(args, "ratio");
    e->end = larder_args_number(args, "ratio_end");
    e->gamma = larder_args_number(args, "gamma");
    e->literal = strcmp(larder_args_text(args, "paper"), "literal") == 0;
    e->span = (uint64_t)larder_args_number(args, "span");
    if (e->span == 0)
        e->span = epochs ? epochs : OPEN_SPAN;
}

/* ---- the filter ------------------------------------------------------------------------------ */

/* Weights of the last n points, oldest first: least squares over equal steps. Row n - 3. The value
 * of the parabola at the newest point; the slope of the straight line, which is the parabola's in
 * the middle. Its slope at the newest point would be about the change to come, not the one that
 * was: where a fall gets slower it says "rising" all along. */
static const double value_weights[3][5] = {
    {0, 0, 1},
    {.05, -.15, .15, .95},
    {3. / 35, -5. / 35, -3. / 35, 9. / 35, 31. / 35},
};
static const double slope_weights[3][5] = {
    {-.5, 0, .5},
    {-.3, -.1, .1, .3},
    {-.2, -.1, 0, .1, .2},
};

static double weigh(const double weights[3][5], const double *last, uint32_t n) {
    double sum = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += weights[n - 3][i] * last[i];
    return sum;
}

static void push(double *last, uint32_t *count, uint32_t cap, double value) {
    if (*count == cap)
        memmove(last, last + 1, (cap - 1) * sizeof *last);
    else
        ++*count;
    last[*count - 1] = value;
}

/* ---- the manager ----------------------------------------------------------------------------- */

void larder__elastic_accuracy(larder__elastic *e, double accuracy) {
    push(e->accuracies, &e->accuracy_count, LARDER__ELASTIC_WINDOW, accuracy);
    double smooth =
        e->accuracy_count < 3 ? accuracy : weigh(value_weights, e->accuracies, e->accuracy_count);
    push(e->smooth, &e->smooth_count, LARDER__ELASTIC_WINDOW + 1, smooth);
}

static double growth(const larder__elastic *e) { /* D, Eq. 6: the sum telescopes */
    uint32_t n = e->smooth_count;
    return n < 2 ? 0 : (e->smooth[n - 1] - e->smooth[0]) / (double)(n - 1);
}

static double penalty(const larder__elastic *e) {
    double d = growth(e), u = e->gamma + d != 0 ? d / (e->gamma + d) : 0;
    if (e->literal)
        return u;
    return d <= 0 ? 0 : fmin(u, 1);
}

static void hear_sigma(larder__elastic *e, uint64_t epoch, double sigma) {
    push(e->sigmas, &e->sigma_count, LARDER__ELASTIC_WINDOW, sigma);
    uint32_t n = e->sigma_count;
    e->sigma = sigma;
    if (e->literal) {
        e->slope = n < 2 ? (double)NAN : e->sigmas[n - 1] - e->sigmas[n - 2];
        e->beta = e->slope < 0;
        return;
    }
    e->slope = n < 3 ? (double)NAN : weigh(slope_weights, e->sigmas, n);
    e->falling = e->slope < 0 ? e->falling + 1 : 0;
    if (!e->active && e->falling >= 2) {
        e->active = 1;
        e->since = epoch;
    }
    e->beta = e->active;
}

static double progress(const larder__elastic *e, uint64_t epoch) {
    double t = (double)epoch, all = (double)e->span;
    if (e->literal)
        return t / all;
    double from = (double)e->since, room = all - 1 - from;
    return room > 0 ? fmin(fmax((t - from) / room, 0), 1) : 0; /* too late to move without a jump */
}

void larder__elastic_epoch(larder__elastic *e, uint64_t epoch, double sigma) {
    if (isfinite(sigma))
        hear_sigma(e, epoch, sigma);
    e->u = penalty(e);
    double part = e->beta > 0 ? pow(progress(e, epoch), 1 + e->u) : 0;
    double ratio = e->start - e->beta * (e->start - e->end) * (isfinite(part) ? part : 1);
    e->ratio = fmin(fmax(ratio, 0), 1); /* as printed it can leave the possible */
}

/* ---- saved state ----------------------------------------------------------------------------- */

static double *numbers(larder__elastic *e, size_t i) {
    double *const all[] = {&e->ratio, &e->sigma, &e->slope, &e->u, &e->beta};
    return i < sizeof all / sizeof *all ? all[i] : NULL;
}

void larder__elastic_save(const larder__elastic *e, larder_writer *w) {
    larder__elastic copy = *e;
    const uint32_t counts[] = {e->sigma_count, e->accuracy_count, e->smooth_count, e->falling,
                               e->active};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        larder_write_u32(w, counts[i]);
    larder_write_u64(w, e->since);
    for (uint32_t i = 0; i < e->sigma_count; i++)
        larder_write_f64(w, e->sigmas[i]);
    for (uint32_t i = 0; i < e->accuracy_count; i++)
        larder_write_f64(w, e->accuracies[i]);
    for (uint32_t i = 0; i < e->smooth_count; i++)
        larder_write_f64(w, e->smooth[i]);
    for (size_t i = 0; numbers(&copy, i); i++)
        larder_write_f64(w, *numbers(&copy, i));
}

int larder__elastic_load(larder__elastic *e, larder_reader *r) {
    uint32_t counts[5];
    for (size_t i = 0; i < 5; i++)
        counts[i] = larder_read_u32(r);
    if (counts[0] > LARDER__ELASTIC_WINDOW || counts[1] > LARDER__ELASTIC_WINDOW ||
        counts[2] > LARDER__ELASTIC_WINDOW + 1 || counts[4] > 1)
        return larder_read_reject(r, "the history of the cache's shares is too long");
    e->sigma_count = counts[0], e->accuracy_count = counts[1], e->smooth_count = counts[2];
    e->falling = counts[3], e->active = counts[4];
    e->since = larder_read_u64(r);
    for (uint32_t i = 0; i < e->sigma_count; i++)
        e->sigmas[i] = larder_read_f64(r);
    for (uint32_t i = 0; i < e->accuracy_count; i++)
        e->accuracies[i] = larder_read_f64(r);
    for (uint32_t i = 0; i < e->smooth_count; i++)
        e->smooth[i] = larder_read_f64(r);
    for (size_t i = 0; numbers(e, i); i++)
        *numbers(e, i) = larder_read_f64(r);
    if (!(e->ratio >= 0 && e->ratio <= 1)) {
        e->ratio = e->start;
        return larder_read_reject(r, "the cache's share for important samples is none");
    }
    return larder_read_status(r);
}
