#include "signal/graph_frame.h"

#include "base/clones.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/state.h"
#include "signal/graph_project.h"
#include "signal/graph_store.h"

#include <math.h>
#include <stdlib.h>

enum {
    ROUNDS = 5,    /* of subspace iteration: strengths fall off, a few will do */
    DIMS_MAX = 512 /* of a code */
};
#define LEAN 0.9  /* part of what is outside that adds to distances, see the header */
#define TAIL 1e-4 /* share of the coordinates of rows learnt from that codes need not hold */

LARDER__CLONES
static float dot(const float *a, const float *b, uint32_t n) {
    float sums[16] = {0}, sum = 0;
    uint32_t i = 0;
    for (; i + 16 <= n; i += 16)
        for (uint32_t k = 0; k < 16; k++)
            sums[k] += a[i + k] * b[i + k];
    for (; i < n; i++)
        sum += a[i] * b[i];
    for (uint32_t k = 0; k < 16; k++)
        sum += sums[k];
    return sum;
}

LARDER__CLONES
static void add_times(float *to, const float *from, float times, uint32_t n) {
    for (uint32_t i = 0; i < n; i++)
        to[i] += times * from[i];
}

/* Gram-Schmidt, twice for accuracy; a row that adds nothing becomes zero. */
static void orthonormalise(float *rows, uint32_t dims, uint32_t dim) {
    for (uint32_t k = 0; k < dims; k++) {
        float *row = rows + (size_t)k * dim, before = dot(row, row, dim);
        for (int pass = 0; pass < 2; pass++)
            for (uint32_t j = 0; j < k; j++) {
                const float *other = rows + (size_t)j * dim;
                add_times(row, other, -dot(row, other, dim), dim);
            }
        float square = dot(row, row, dim);
        float scale = square > before * 1e-9f && square > 1e-30f ? 1 / sqrtf(square) : 0;
        for (uint32_t i = 0; i < dim; i++)
            row[i] *= scale;
    }
}

/* The directions along which the rows (count x dim, centred) are longest, by subspace iteration
 * from a random start. */
static void find_directions(float *directions, const larder__graph_space *s, const float *rows,
                            size_t count, uint64_t seed, float *next) {
    larder_rng rng;
    larder_rng_seed(&rng, seed, 0x67726170);
    size_t size = (size_t)s->dims * s->dim;
    for (size_t i = 0; i < size; i++)
        directions[i] = (float)larder_rng_unit(&rng) - 0.5f;
    for (int round = 0; round < ROUNDS; round++) {
        orthonormalise(directions, s->dims, s->dim);
        memset(next, 0, size * sizeof *next);
        for (size_t r = 0; r < count; r++) {
            const float *row = rows + r * s->dim;
            for (uint32_t k = 0; k < s->dims; k++)
                add_times(next + (size_t)k * s->dim, row,
                          dot(row, directions + (size_t)k * s->dim, s->dim), s->dim);
        }
        memcpy(directions, next, size * sizeof *next);
    }
    orthonormalise(directions, s->dims, s->dim);
}

static size_t basis_size(const larder__graph_space *s) {
    return (size_t)larder__strips(s->dims) * LARDER__STRIP * s->dim;
}

size_t larder__graph_frame_bytes(const larder__graph_space *s) {
    return basis_size(s) + (s->dim + s->dims) * sizeof(float);
}

static int make_room(larder__graph_frame *f, const larder__graph_space *s) {
    *f = (larder__graph_frame){.mean = larder__calloc(s->dim, sizeof *f->mean),
                               .scale = larder__calloc(s->dims, sizeof *f->scale),
                               .basis = larder__calloc(basis_size(s), sizeof *f->basis)};
    if (f->mean && f->scale && f->basis)
        return 0;
    larder__graph_frame_free(f);
    return larder__fail(LARDER_E_NOMEM, "graph: no memory for a frame of %u x %u", s->dims, s->dim);
}

void larder__graph_frame_free(larder__graph_frame *f) {
    larder__free(f->mean);
    larder__free(f->scale);
    larder__free(f->basis);
    *f = (larder__graph_frame){0};
}

static void centre(larder__graph_frame *f, uint32_t dim, float *rows, size_t count) {
    for (size_t r = 0; r < count; r++)
        add_times(f->mean, rows + r * dim, 1 / (float)count, dim);
    for (size_t r = 0; r < count; r++)
        add_times(rows + r * dim, f->mean, -1, dim);
}

static int by_value(const void *a, const void *b) {
    const float *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* The step of the codes: nearly all coordinates of the rows learnt from fit. */
static float find_step(const larder__graph_space *s, const float *directions, const float *rows,
                       size_t count, float *space) {
    size_t all = count * s->dims;
    for (size_t r = 0; r < count; r++)
        for (uint32_t k = 0; k < s->dims; k++)
            space[r * s->dims + k] =
                fabsf(dot(rows + r * s->dim, directions + (size_t)k * s->dim, s->dim));
    qsort(space, all, sizeof *space, by_value);
    return fmaxf(space[all - 1 - (size_t)((double)all * TAIL)] / 127, 1e-18f);
}

/* Directions into the frame, at unit length after rounding. */
static void set_basis(larder__graph_frame *f, const larder__graph_space *s, float *directions) {
    for (uint32_t k = 0; k < s->dims; k++) {
        float *at = directions + (size_t)k * s->dim;
        larder__graph_direction_set(f->basis, s->dim, k, at);
        larder__graph_direction_get(f->basis, s->dim, k, at);
        float square = dot(at, at, s->dim);
        f->scale[k] = square > 0 ? 1 / sqrtf(square) : 0;
    }
}

int larder__graph_frame_learn(larder__graph_frame *f, const larder__graph_space *s, float *rows,
                              size_t count, uint64_t seed) {
    size_t size = (size_t)s->dims * s->dim;
    int rc = make_room(f, s);
    size_t room = size + (size > count * s->dims ? size : count * s->dims);
    float *space = rc == 0 ? larder__malloc(room * sizeof *space) : NULL;
    if (rc == 0 && !space) {
        larder__graph_frame_free(f);
        rc = larder__fail(LARDER_E_NOMEM, "graph: no memory to learn %u directions", s->dims);
    }
    if (rc < 0)
        return rc;
    centre(f, s->dim, rows, count);
    find_directions(space, s, rows, count, seed, space + size);
    /* Not finer than makes sense for the size of the embeddings, even if all rows are the same. */
    f->step = fmaxf(find_step(s, space, rows, count, space + size),
                    sqrtf(dot(f->mean, f->mean, s->dim)) * 1e-6f);
    set_basis(f, s, space);
    larder__free(space);
    return 0;
}

/* ---- coding ---------------------------------------------------------------------------------- */

static int32_t within_limit(double x) {
    double most = LARDER__BOUND_LIMIT - 1;
    return (int32_t)fmin(fmax(rint(x), -most), most);
}

/* From coordinates in steps to codes; rest: squared length outside, in steps. */
static int32_t round_code(const float *y, uint32_t dims, uint32_t padded, double rest,
                          uint8_t *codes) {
    int64_t square = 0, sum = 0;
    for (uint32_t k = 0; k < dims; k++) {
        float at = y[k] + 128, held = at < 0 ? 0 : at > 255 ? 255 : at;
        int32_t code = (int32_t)(held + 0.5f);
        float e = at - (float)code;
        /* Rounding adds its square to distances; what was cut off is missing in them. */
        rest += (double)(held == at ? -e * e : e * e);
        codes[k] = (uint8_t)code;
        square += code * code;
        sum += code;
    }
    for (uint32_t k = dims; k < padded; k++) {
        codes[k] = 128;
        square += 128 * 128;
        sum += 128;
    }
    return within_limit(((double)square + rest) / 2 - 128.0 * (double)sum);
}

/* What round_code was given as rest, less the rounding errors. */
static double rest_of(const uint8_t *codes, uint32_t padded, int32_t row_const) {
    int64_t square = 0, sum = 0;
    for (uint32_t k = 0; k < padded; k++) {
        square += codes[k] * codes[k];
        sum += codes[k];
    }
    return 2.0 * ((double)row_const + 128.0 * (double)sum) - (double)square;
}

void larder__graph_frame_code(const larder__graph_frame *f, const larder__graph_space *s,
                              bool member, const float *const *rows, size_t count, uint8_t *codes,
                              int32_t *row_consts, float *outside) {
    float centred[LARDER__PROJECT_ROWS][LARDER__DIM_MAX], y[LARDER__PROJECT_ROWS * DIMS_MAX];
    const float *from[LARDER__PROJECT_ROWS];
    for (size_t r = 0; r < LARDER__PROJECT_ROWS; r++) {
        from[r] = centred[r < count ? r : 0];
        for (uint32_t i = 0; r < count && i < s->dim; i++)
            centred[r][i] = rows[r][i] - f->mean[i];
    }
    larder__graph_project(f->basis, s->dim, s->dims, from, y);
    size_t width = (size_t)larder__strips(s->dims) * LARDER__STRIP;
    for (size_t r = 0; r < count; r++) {
        float *at = y + r * width;
        for (uint32_t k = 0; k < s->dims; k++)
            at[k] *= f->scale[k];
        double all = (double)dot(centred[r], centred[r], s->dim);
        double inside = (double)dot(at, at, s->dims), rest = fmax(0, all - inside);
        for (uint32_t k = 0; k < s->dims; k++)
            at[k] /= f->step;
        row_consts[r] = round_code(at, s->dims, s->padded,
                                   (member ? LEAN : 1) * rest / ((double)f->step * (double)f->step),
                                   codes + r * s->padded);
        if (outside)
            outside[r] = all > 0 ? (float)(rest / all) : 0;
    }
}

int32_t larder__graph_frame_half(const larder__graph_frame *f, double radius) {
    double units = radius / (double)f->step;
    return within_limit(units * units / 2);
}

/* ---- from frame to frame --------------------------------------------------------------------- */

static void unpack(const larder__graph_frame *f, const larder__graph_space *s, float *rows) {
    for (uint32_t k = 0; k < s->dims; k++) {
        float *row = rows + (size_t)k * s->dim;
        larder__graph_direction_get(f->basis, s->dim, k, row);
        for (uint32_t i = 0; i < s->dim; i++)
            row[i] *= f->scale[k];
    }
}

int larder__graph_turn_make(larder__graph_turn *t, const larder__graph_space *s,
                            const larder__graph_frame *from, const larder__graph_frame *to) {
    size_t dims = s->dims, dim = s->dim;
    *t = (larder__graph_turn){.turn = larder__malloc((dims + 2) * dims * sizeof *t->turn),
                              .from = from->step,
                              .to = to->step};
    float *space = larder__malloc((2 * dims + 1) * dim * sizeof *space);
    if (!t->turn || !space) {
        larder__free(space);
        larder__graph_turn_free(t);
        return larder__fail(LARDER_E_NOMEM, "graph: no memory to turn a frame");
    }
    t->shift = t->turn + dims * dims;
    t->lean = t->shift + dims;
    float *was = space, *is = space + dims * dim, *way = is + dims * dim;
    unpack(from, s, was);
    unpack(to, s, is);
    for (size_t i = 0; i < dim; i++)
        way[i] = from->mean[i] - to->mean[i];
    t->apart = (double)dot(way, way, s->dim);
    for (size_t k = 0; k < dims; k++) {
        t->shift[k] = dot(is + k * dim, way, s->dim);
        t->lean[k] = dot(was + k * dim, way, s->dim);
        for (size_t j = 0; j < dims; j++)
            t->turn[k * dims + j] = dot(is + k * dim, was + j * dim, s->dim);
    }
    larder__free(space);
    return 0;
}

void larder__graph_turn_free(larder__graph_turn *t) {
    larder__free(t->turn);
    *t = (larder__graph_turn){0};
}

/* x - new mean = (x - old mean) + way; of x - old mean the directions of the old frame are known,
 * and the length of the rest, which stays outside. */
void larder__graph_turn_code(const larder__graph_turn *t, const larder__graph_space *s,
                             uint8_t *codes, int32_t *row_const) {
    float y[DIMS_MAX] = {0}, z[DIMS_MAX] = {0};
    double rest = rest_of(codes, s->padded, *row_const) / LEAN * (double)t->from * (double)t->from;
    for (uint32_t k = 0; k < s->dims; k++)
        y[k] = (float)(codes[k] - 128) * t->from;
    rest += (double)dot(y, y, s->dims) + 2 * (double)dot(y, t->lean, s->dims) + t->apart;
    for (uint32_t k = 0; k < s->dims; k++)
        z[k] = dot(y, t->turn + (size_t)k * s->dims, s->dims) + t->shift[k];
    rest = fmax(0, rest - (double)dot(z, z, s->dims)) / ((double)t->to * (double)t->to) * LEAN;
    for (uint32_t k = 0; k < s->dims; k++)
        z[k] /= t->to;
    *row_const = round_code(z, s->dims, s->padded, rest, codes);
}

/* ---- saved state ----------------------------------------------------------------------------- */

void larder__graph_frame_save(const larder__graph_frame *f, const larder__graph_space *s,
                              larder_writer *w) {
    larder_write_bytes(w, f->mean, s->dim * sizeof *f->mean);
    larder_write_bytes(w, f->scale, s->dims * sizeof *f->scale);
    larder_write_bytes(w, f->basis, basis_size(s) * sizeof *f->basis);
    larder_write_f64(w, (double)f->step);
    larder_write_f64(w, (double)f->outside);
    larder_write_f64(w, (double)f->lately);
}

int larder__graph_frame_load(larder__graph_frame *f, const larder__graph_space *s,
                             larder_reader *r) {
    if (larder__read_left(r) < larder__graph_frame_bytes(s))
        return larder_read_reject(r, "a frame of its index is cut off");
    int rc = make_room(f, s);
    if (rc < 0)
        return rc;
    larder_read_bytes(r, f->mean, s->dim * sizeof *f->mean);
    larder_read_bytes(r, f->scale, s->dims * sizeof *f->scale);
    larder_read_bytes(r, f->basis, basis_size(s) * sizeof *f->basis);
    double step = larder_read_f64(r), outside = larder_read_f64(r), lately = larder_read_f64(r);
    bool sound =
        step >= 1e-18 && step < 1e18 && outside >= 0 && outside <= 1 && lately >= 0 && lately <= 1;
    for (uint32_t i = 0; i < s->dim; i++)
        sound = sound && fabsf(f->mean[i]) < 1e18f;
    for (uint32_t k = 0; k < s->dims; k++)
        sound = sound && fabsf(f->scale[k]) <= 1;
    if (!sound)
        return larder_read_reject(r, "a frame of its index is impossible");
    f->step = (float)step;
    f->outside = (float)outside;
    f->lately = (float)lately;
    return larder_read_status(r);
}
