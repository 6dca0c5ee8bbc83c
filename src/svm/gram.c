#include "svm/gram.h"

#include "base/clones.h"
#include "base/err.h"
#include "base/mem.h"

#include <string.h>

enum { ROWS = 128 /* of a piece, a part of a tile */ };

typedef struct filling {
    larder__gram *g;
    const larder__kernel *kernel;
    const larder__panel *all;
    void **scratch; /* a thread each */
    size_t across;  /* tiles of a row */
} filling;

/* Rows r0..r1 of columns c0..c1, as columns of rows; a line of cache at a time. */
static void mirror(larder__gram *g, size_t r0, size_t r1, size_t c0, size_t c1) {
    enum { LINE = 16 };
    for (size_t c = c0; c < c1; c += LINE)
        for (size_t r = r0; r < r1; r += LINE)
            for (size_t j = c; j < c + LINE && j < c1; j++)
                for (size_t i = r; i < r + LINE && i < r1; i++)
                    g->k[j * g->stride + i] = g->k[i * g->stride + j];
}

/* What lies below the tiles of the diagonal is what lies above them. */
static void fill_tile(void *arg, size_t piece, unsigned thread) {
    const filling *f = arg;
    size_t n = f->g->n, r0 = piece / f->across * ROWS, c0 = piece % f->across * LARDER__TILE;
    size_t r1 = r0 + ROWS < n ? r0 + ROWS : n;
    size_t c1 = c0 + LARDER__TILE < n ? c0 + LARDER__TILE : n;
    if (c1 <= r0)
        return;
    larder__kernel_block(f->kernel, f->all, r0, r1, f->all, c0, c1,
                         f->g->k + r0 * f->g->stride + c0, f->g->stride, f->scratch[thread]);
    if (c0 > r0)
        mirror(f->g, r0, r1, c0, c1);
}

int larder__gram_open(larder__gram *g, const larder__kernel *k, const larder__panel *all,
                      larder__team *team) {
    size_t n = all->n, bytes = larder__kernel_scratch(k, ROWS) + 64;
    unsigned threads = larder__team_threads(team);
    *g = (larder__gram){.n = n, .stride = (n + 15) / 16 * 16 + 16}; /* other cache sets */
    filling f = {g, k, all, larder__calloc(threads, sizeof *f.scratch),
                 (n + LARDER__TILE - 1) / LARDER__TILE};
    g->k = larder__memalign(64, (n + 1) * g->stride * sizeof *g->k);
    bool ok = g->k && f.scratch;
    for (unsigned i = 0; ok && i < threads; i++)
        if ((ok = (f.scratch[i] = larder__memalign(64, bytes)) != NULL))
            memset(f.scratch[i], 0, bytes);
    if (ok)
        larder__team_run(team, fill_tile, &f, (n + ROWS - 1) / ROWS * f.across);
    for (unsigned i = 0; f.scratch && i < threads; i++)
        larder__free(f.scratch[i]);
    larder__free(f.scratch);
    if (ok)
        return 0;
    larder__gram_close(g);
    return larder__fail(LARDER_E_NOMEM, "no memory for kernel values of %zu points", n);
}

uint64_t larder__gram_values(size_t n) {
    uint64_t values = 0;
    for (size_t r = 0; r < n; r += ROWS)
        values += (uint64_t)(n - r < ROWS ? n - r : ROWS) * (n - r / LARDER__TILE * LARDER__TILE);
    return values;
}

void larder__gram_close(larder__gram *g) {
    larder__free(g->k);
    *g = (larder__gram){0};
}

size_t larder__gram_runs(larder__gram_run *out, const uint32_t *ids, size_t n) {
    size_t runs = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t id = ids ? ids[i] : i;
        if (runs && out[runs - 1].from + out[runs - 1].n == id)
            out[runs - 1].n++;
        else
            out[runs++] = (larder__gram_run){i, id, 1};
    }
    return runs;
}

void larder__gram_copy(float *to, const float *row, const larder__gram_run *runs, size_t n) {
    for (size_t i = 0; i < n; i++)
        memcpy(to + runs[i].to, row + runs[i].from, runs[i].n * sizeof *to);
}

LARDER__CLONES void larder__gram_pick(float *to, const float *row, const uint32_t *ids, size_t n) {
    for (size_t i = 0; i < n; i++)
        to[i] = row[ids[i]];
}

void larder__gram_add(double *sum, const float *row, double weight, const larder__gram_run *runs,
                      size_t n) {
    for (size_t i = 0; i < n; i++)
        larder__add_row(sum + runs[i].to, row + runs[i].from, weight, runs[i].n);
}
