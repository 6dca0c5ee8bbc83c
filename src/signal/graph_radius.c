#include "signal/graph_radius.h"

#include <math.h>
#include <stdlib.h>

#define STEP_FIRST 0.05
#define STEP_LEAST 5e-4
#define STEP_MOST 0.1

void larder__graph_radius_auto(larder__graph_radius *r, double degree) {
    *r = (larder__graph_radius){.steered = true, .degree = degree, .step = STEP_FIRST};
}

static int by_value(const void *a, const void *b) {
    const float *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* Of few samples only a part can be neighbours, or the radius would hold everything. */
static double target(const larder__graph_radius *r, uint64_t rows) {
    return fmin(r->degree, (double)rows / 8);
}

void larder__graph_radius_guess(larder__graph_radius *r, const larder_engine_rows *in, uint32_t dim,
                                uint64_t rows, float *space) {
    if (!r->steered || r->radius > 0 || in->n < 2)
        return;
    size_t count = 0, n = in->n < LARDER__GRAPH_PAIRS ? in->n : LARDER__GRAPH_PAIRS;
    /* Pairs (i, i + gap): all rows take part, whatever the order of classes in the batch. */
    for (size_t gap = 1; gap < n && count + n <= LARDER__GRAPH_PAIRS; gap++)
        for (size_t i = 0; i + gap < n; i++) {
            double sum = 0;
            for (uint32_t k = 0; k < dim; k++) {
                double d = (double)in->x[i * dim + k] - (double)in->x[(i + gap) * dim + k];
                sum += d * d;
            }
            space[count++] = (float)sqrt(sum);
        }
    qsort(space, count, sizeof *space, by_value);
    double share = target(r, rows) / (double)rows;
    r->radius = fmax((double)space[(size_t)(share * (double)(count - 1))], 1e-6);
}

void larder__graph_radius_steer(larder__graph_radius *r, const float *totals, size_t n,
                                uint64_t rows) {
    if (!r->steered || n == 0 || r->radius <= 0)
        return;
    double want = target(r, rows);
    size_t below = 0, above = 0;
    for (size_t i = 0; i < n; i++) {
        below += (double)totals[i] < want;
        above += (double)totals[i] > want;
    }
    int turn = (below > above) - (below < above);
    if (turn == 0)
        return;
    if (turn == r->turn)
        r->step = fmin(r->step * 1.2, STEP_MOST);
    else if (r->turn)
        r->step = fmax(r->step / 2, STEP_LEAST);
    r->turn = turn;
    r->radius *= exp(turn * r->step);
    r->radius = fmin(fmax(r->radius, 1e-6), 1e18);
}

void larder__graph_radius_save(const larder__graph_radius *r, larder_writer *w) {
    larder_write_f64(w, r->radius);
    larder_write_f64(w, r->step);
    larder_write_u32(w, (uint32_t)(r->turn + 1));
}

int larder__graph_radius_load(larder__graph_radius *r, larder_reader *reader) {
    double radius = larder_read_f64(reader), step = larder_read_f64(reader);
    uint32_t turn = larder_read_u32(reader);
    if (!(radius >= 0 && radius <= 1e18) || !(step >= 0 && step <= STEP_MOST) || turn > 2)
        return larder_read_reject(reader, "its radius is impossible");
    if (!r->steered && radius != r->radius)
        return larder_read_reject(reader, "it was saved with another radius");
    r->radius = radius;
    r->step = step;
    r->turn = (int32_t)turn - 1;
    return larder_read_status(reader);
}
