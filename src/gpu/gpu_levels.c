#include "gpu/gpu_levels.h"

#include "base/err.h"
#include "base/mem.h"

#include <math.h>
#include <string.h>

_Static_assert(sizeof(larder__levels_axis) == 64 && sizeof(larder__levels_picture) == 64 &&
                   sizeof(larder__levels_job) == 416 && sizeof(larder__levels_worth) == 120,
               "as code/levels.cu has them");

struct larder__levels {
    larder__gpu *gpu;
    larder__gpu_function taps, make, paint, values;
};

enum { THREADS = 256, AT_ONCE = 4 };

int larder__levels_open(larder__levels **out, larder__gpu *gpu) {
    static const char *const exact[] = {"--fmad=false", NULL};
    larder__levels *l = *out = larder__calloc(1, sizeof *l);
    if (!l)
        return LARDER_E_NOMEM;
    l->gpu = gpu;
    larder__gpu_module module;
    int rc = larder__gpu_module_get(gpu, &module, "levels.cu", exact);
    rc = rc < 0 ? rc : larder__gpu_function_get(gpu, &l->taps, module, "taps");
    rc = rc < 0 ? rc : larder__gpu_function_get(gpu, &l->make, module, "make");
    rc = rc < 0 ? rc : larder__gpu_function_get(gpu, &l->paint, module, "paint");
    rc = rc < 0 ? rc : larder__gpu_function_get(gpu, &l->values, module, "values");
    if (rc < 0)
        larder__levels_close(out);
    return rc;
}

void larder__levels_close(larder__levels **l) {
    larder__free(*l);
    *l = NULL;
}

int larder__gpu_piece_grow(larder__gpu *g, larder__gpu_piece *p, size_t bytes, const char *what,
                           larder__gpu_stream stream) {
    if (bytes <= p->bytes)
        return 0;
    int rc = p->at ? larder__gpu_wait(g, stream) : 0;
    larder__gpu_piece_free(g, p);
    bytes += bytes / 4;
    rc = rc < 0 ? rc : larder__gpu_alloc(g, &p->at, bytes, what);
    p->bytes = rc < 0 ? 0 : bytes;
    return rc;
}

void larder__gpu_piece_free(larder__gpu *g, larder__gpu_piece *p) {
    larder__gpu_free(g, p->at);
    *p = (larder__gpu_piece){0};
}

/* ---- levels ---------------------------------------------------------------------------------- */

/* Taps of an output, as larder__taps_build has it. */
static int32_t width_of(const larder__levels_axis *a) {
    double scale = (a->in1 - a->in0) / (double)a->full;
    double width = scale > 1 && !a->aliased ? scale : 1;
    return (int32_t)ceil((a->filter == 1 ? 2 : 1) * width) * 2 + 2;
}

static size_t taps_bytes(const larder__levels_axis *a, int32_t width) {
    return (size_t)(a->last - a->first) * (2 * sizeof(int32_t) + (size_t)width * sizeof(float));
}

static uint32_t contrasts(const larder__levels_job *j) {
    uint32_t n = 0;
    for (int32_t i = 0; i < j->recolours; i++)
        n += j->recolour[i].op == LARDER__LEVELS_CONTRAST;
    return n;
}

enum { SUMS = LARDER__LEVELS_RECOLOURS + 1 };

/* Behind the jobs and their sums; with `base` 0 only the bytes are counted. */
static size_t lay_out(larder__levels_job *jobs, size_t n, larder__gpu_ptr base) {
    size_t at = n * sizeof *jobs, sums = at;
    at += n * SUMS * sizeof(uint64_t);
    for (size_t i = 0; i < n; i++) {
        larder__levels_job *j = &jobs[i];
        j->sums = base + sums + i * SUMS * sizeof(uint64_t);
        if (j->how == LARDER__LEVELS_PLAIN)
            continue;
        j->width_x = width_of(&j->x);
        j->width_y = width_of(&j->y);
        j->taps_x = base + at;
        at += taps_bytes(&j->x, j->width_x);
        j->taps_y = base + at;
        at += taps_bytes(&j->y, j->width_y);
    }
    return at;
}

/* Bytes of shared memory: the widest line among them. */
static size_t line_bytes(const larder__levels_job *jobs, size_t n) {
    int32_t most = 0;
    for (size_t i = 0; i < n; i++)
        if (jobs[i].how == LARDER__LEVELS_SMOOTH || jobs[i].how == LARDER__LEVELS_SMOOTH_WITHIN)
            most = jobs[i].reach[1] - jobs[i].reach[0] > most ? jobs[i].reach[1] - jobs[i].reach[0]
                                                              : most;
    return (size_t)most * 3 * sizeof(float);
}

int larder__levels_make(larder__levels *l, larder__levels_job *jobs, size_t n,
                        larder__levels_shape shape, larder__gpu_piece *work,
                        larder__gpu_stream stream) {
    uint32_t passes = 0;
    for (size_t i = 0; i < n; i++)
        passes = contrasts(&jobs[i]) > passes ? contrasts(&jobs[i]) : passes;
    int rc =
        larder__gpu_piece_grow(l->gpu, work, lay_out(jobs, n, 0), "what rows are made by", stream);
    if (rc < 0 || n == 0)
        return rc;
    lay_out(jobs, n, work->at);
    void *args[] = {&work->at, &shape, NULL};
    larder__gpu_shape by_axis = {.grid = {(unsigned)n, 2}, .block = {128}};
    larder__gpu_shape by_line = {.grid = {(unsigned)shape.h, (unsigned)n},
                                 .block = {THREADS},
                                 .shared = line_bytes(jobs, n)};
    rc = larder__gpu_put(l->gpu, work->at, jobs, n * sizeof *jobs, stream);
    rc = rc < 0 || !passes
             ? rc
             : larder__gpu_zero(l->gpu, jobs[0].sums, n * SUMS * sizeof(uint64_t), stream);
    rc = rc < 0 ? rc : larder__gpu_launch(l->gpu, l->taps, by_axis, stream, args);
    rc = rc < 0 ? rc : larder__gpu_launch(l->gpu, l->make, by_line, stream, args);
    by_line.shared = 0;
    for (int32_t pass = 0; rc == 0 && pass < (int32_t)passes; pass++) {
        args[2] = &pass;
        rc = larder__gpu_launch(l->gpu, l->paint, by_line, stream, args);
    }
    return rc;
}

/* ---- values ---------------------------------------------------------------------------------- */

int larder__levels_values(larder__levels *l, const larder__levels_worth *given, size_t rows,
                          larder__gpu_stream stream) {
    larder__levels_worth worth = *given;
    if (worth.row > INT32_MAX)
        return larder__fail(LARDER_E_UNSUPPORTED, "rows of more than 2 GiB do not go to a GPU");
    void *args[] = {&worth};
    size_t each = (size_t)THREADS * AT_ONCE;
    larder__gpu_shape shape = {
        .grid = {(unsigned)(((size_t)worth.row + each - 1) / each), (unsigned)rows},
        .block = {THREADS}};
    return rows ? larder__gpu_launch(l->gpu, l->values, shape, stream, args) : 0;
}
