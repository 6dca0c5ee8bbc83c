/* Products of sparse points. Sixteen rows are laid side by side, one line of sixteen floats for
 * each feature that any of them has; every non-zero of a column is then one multiply-add over all
 * sixteen, and features that none of the rows has are passed over. */
#include "base/clones.h"
#include "svm/kernel.h"

#include <string.h>

enum { WIDE = LARDER__LANES };

typedef struct table {
    uint32_t *line_of; /* feature -> line, 0: none of the rows has it; cleared again after use */
    float *lines;
} table;

static void lay(table *t, const larder__panel *left, size_t r0, size_t rows) {
    uint32_t used = 0;
    for (size_t r = 0; r < rows; r++)
        for (uint64_t p = left->begin[r0 + r]; p < left->end[r0 + r]; p++) {
            uint32_t *line = &t->line_of[left->index[p]];
            if (*line == 0) {
                *line = ++used;
                memset(t->lines + (size_t)used * WIDE, 0, WIDE * sizeof *t->lines);
            }
            t->lines[(size_t)*line * WIDE + r] = left->value[p];
        }
}

static void clear(table *t, const larder__panel *left, size_t r0, size_t rows) {
    for (size_t r = r0; r < r0 + rows; r++)
        for (uint64_t p = left->begin[r]; p < left->end[r]; p++)
            t->line_of[left->index[p]] = 0;
}

LARDER__CLONES static void columns(const table *t, const larder__panel *right, size_t c0, size_t c1,
                                   size_t rows, float *out, size_t stride) {
    for (size_t c = c0; c < c1; c++) {
        float sum[WIDE] = {0};
        for (uint64_t p = right->begin[c]; p < right->end[c]; p++) {
            uint32_t at = t->line_of[right->index[p]];
            if (at == 0) /* most of the time, of text */
                continue;
            const float *line = t->lines + (size_t)at * WIDE;
            float x = right->value[p];
            for (size_t k = 0; k < WIDE; k++)
                sum[k] += x * line[k];
        }
        for (size_t r = 0; r < rows; r++)
            out[r * stride + (c - c0)] = sum[r];
    }
}

/* Scratch: dim words that are zero between calls, then the lines. */
void larder__sparse_products(const larder__kernel *k, const larder__panel *left, size_t r0,
                             size_t r1, const larder__panel *right, size_t c0, size_t c1,
                             float *out, size_t stride, void *scratch) {
    size_t words = (k->dim + WIDE - 1) / WIDE * WIDE;
    table t = {.line_of = scratch, .lines = (float *)scratch + words};
    for (size_t r = r0; r < r1; r += WIDE) {
        size_t rows = r1 - r < WIDE ? r1 - r : WIDE;
        lay(&t, left, r, rows);
        columns(&t, right, c0, c1, rows, out + (r - r0) * stride, stride);
        clear(&t, left, r, rows);
    }
}
