#include "signal/graph_scale.h"

#include "base/clones.h"

#include <math.h>

#define TOP 255.0f    /* the largest code */
#define TAIL 1e-4     /* share of values that may fall outside, at either end */
#define LOOK_EVERY 32 /* batches between two looks at whether the range is too wide */

/* The value of rank k; the array is reordered (Hoare's FIND). */
static float select_rank(float *v, size_t n, size_t k) {
    ptrdiff_t lo = 0, hi = (ptrdiff_t)n - 1, want = (ptrdiff_t)k;
    while (lo < hi) {
        float pivot = v[lo + (hi - lo) / 2];
        ptrdiff_t i = lo, j = hi;
        while (i <= j) {
            while (v[i] < pivot)
                i++;
            while (v[j] > pivot)
                j--;
            if (i <= j) {
                float t = v[i];
                v[i++] = v[j], v[j--] = t;
            }
        }
        if (want <= j)
            hi = j;
        else if (want >= i)
            lo = i;
        else
            break;
    }
    return v[want];
}

/* The range that holds all but the tails of these values. */
static void range_of(const float *values, size_t count, double share, float *space, float *low,
                     float *high) {
    size_t tail = (size_t)((double)count * share);
    memcpy(space, values, count * sizeof *space);
    *low = select_rank(space, count, tail);
    *high = select_rank(space, count, count - 1 - tail);
}

LARDER__CLONES
static size_t outside(const float *values, size_t count, float low, float high) {
    uint32_t out = 0; /* a batch has fewer than 2^32 values */
    for (size_t i = 0; i < count; i++)
        out += (uint32_t)((values[i] < low) | (values[i] > high));
    return out;
}

/* ---- moving the range ------------------------------------------------------------------------ */

typedef struct move {
    uint32_t dims;
    double ratio; /* (old step / new step)^2 */
    uint8_t code[256];
    float error[256]; /* squared rounding error of the new code, in new units */
} move;

/* |u|^2 and sum(u) of a row. */
static void moments(const uint8_t *codes, uint32_t dims, int64_t *square, int64_t *sum) {
    *square = *sum = 0;
    for (uint32_t i = 0; i < dims; i++) {
        *square += (int64_t)codes[i] * codes[i];
        *sum += codes[i];
    }
}

static int32_t within_limit(double x) {
    double limit = LARDER__BOUND_LIMIT - 1;
    return (int32_t)lrint(fmin(fmax(x, -limit), limit));
}

static void move_row(const void *arg, uint8_t *codes, int32_t *row_const) {
    const move *m = arg;
    int64_t square, sum;
    moments(codes, m->dims, &square, &sum);
    double extra = (2.0 * (double)(*row_const + 128 * sum) - (double)square) * m->ratio;
    for (uint32_t i = 0; i < m->dims; i++) {
        extra -= (double)m->error[codes[i]];
        codes[i] = m->code[codes[i]];
    }
    moments(codes, m->dims, &square, &sum);
    *row_const = within_limit(((double)square + extra) / 2 - 128.0 * (double)sum);
}

static void set_range(larder__graph_scale *s, larder__graph_store *store, float low, float high) {
    float margin = (high - low) * 0.05f;
    larder__graph_scale old = *s;
    s->step = fmaxf((high - low + 2 * margin) / TOP, 1e-30f);
    /* Zero gets a code without error: behind ReLU half of the values are zero, and an error that
     * both ends of a pair share does not add to their distance. */
    s->low = rintf((low - margin) / s->step) * s->step;
    s->narrower = 0;
    if (old.step <= 0 || store->rows == 0)
        return;
    move m = {.dims = store->dims,
              .ratio = (double)old.step / s->step * ((double)old.step / s->step)};
    for (int i = 0; i < 256; i++) {
        float at = (old.low + old.step * (float)i - s->low) / s->step;
        float code = rintf(fminf(fmaxf(at, 0), TOP));
        m.code[i] = (uint8_t)code;
        m.error[i] = at < 0 || at > TOP ? 0 : (at - code) * (at - code);
    }
    larder__graph_store_rewrite(store, move_row, &m);
}

void larder__graph_scale_follow(larder__graph_scale *s, larder__graph_store *store,
                                const float *values, size_t count, float *space) {
    float low, high;
    if (count == 0)
        return;
    uint64_t batch = s->batches++;
    if (s->step <= 0) {
        range_of(values, count, TAIL, space, &low, &high);
        set_range(s, store, low, high);
        return;
    }
    float top = s->low + TOP * s->step;
    bool spills = (double)outside(values, count, s->low, top) > 4 * TAIL * (double)count + 1;
    if (!spills && batch % LOOK_EVERY)
        return;
    range_of(values, count, TAIL, space, &low, &high);
    s->narrower = (high - low) * 2 < top - s->low ? s->narrower + 1 : 0;
    if (spills)
        set_range(s, store, fminf(low, s->low), fmaxf(high, top));
    else if (s->narrower >= 4)
        set_range(s, store, low, high);
}

/* ---- coding ---------------------------------------------------------------------------------- */

LARDER__CLONES
static void round_row(const float *values, uint32_t dims, float low, float scale, float top,
                      uint8_t *codes, float *errors) {
    for (uint32_t i = 0; i < dims; i++) {
        float at = (values[i] - low) * scale;
        float held = at > 0 ? at < top ? at : top : 0; /* of no number 0 too: states may lie */
        int32_t code = (int32_t)(held + 0.5f);
        float e = held - (float)code;
        errors[i] = e * e; /* what was cut off is no rounding error: it has a direction */
        codes[i] = (uint8_t)code;
    }
}

void larder__graph_scale_values(const larder__graph_scale *s, const uint8_t *codes, uint32_t dims,
                                float *values) {
    for (uint32_t i = 0; i < dims; i++)
        values[i] = s->low + s->step * (float)codes[i];
}

void larder__graph_scale_code(const larder__graph_scale *s, const float *values, uint32_t dims,
                              uint32_t padded, uint8_t *codes, int32_t *row_const) {
    float errors[LARDER__DIM_MAX];
    round_row(values, dims, s->low, 1 / s->step, TOP, codes, errors);
    for (uint32_t i = dims; i < padded; i++)
        codes[i] = 0;
    double error = 0;
    for (uint32_t i = 0; i < dims; i++)
        error += (double)errors[i];
    int64_t square, sum;
    moments(codes, padded, &square, &sum);
    *row_const = within_limit(((double)square - error) / 2 - 128.0 * (double)sum);
}

int32_t larder__graph_scale_half(const larder__graph_scale *s, double radius) {
    double units = radius / (double)s->step;
    return within_limit(fmax(units * units / 2, 2)); /* a row is always within its own radius */
}

int32_t larder__graph_scale_bound(const uint8_t *codes, uint32_t dims, int32_t row_const,
                                  int32_t half) {
    int64_t square, sum;
    moments(codes, dims, &square, &sum);
    return within_limit((double)(row_const + 128 * sum - half));
}

void larder__graph_scale_save(const larder__graph_scale *s, larder_writer *w) {
    larder_write_f64(w, (double)s->low);
    larder_write_f64(w, (double)s->step);
    larder_write_u64(w, s->batches);
    larder_write_u32(w, s->narrower);
}

int larder__graph_scale_load(larder__graph_scale *s, larder_reader *r) {
    double low = larder_read_f64(r), step = larder_read_f64(r);
    s->batches = larder_read_u64(r);
    s->narrower = larder_read_u32(r);
    if (!(fabs(low) < 1e30) || !(step == 0 || (step >= 1e-30 && step < 1e30)))
        return larder_read_reject(r, "its index has an impossible scale");
    s->low = (float)low;
    s->step = (float)step;
    return larder_read_status(r);
}
