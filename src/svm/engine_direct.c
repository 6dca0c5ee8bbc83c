/* Squared distances from differences: exact where norms are large and points near, and quick where
 * features are few. Columns lie in planes, so that one feature of sixteen points is one load; four
 * rows share it, and their sums stay in registers. */
#include "base/clones.h"
#include "svm/kernel.h"

#include <string.h>

LARDER__FUSE

enum { ROWS = 4, WIDE = LARDER__LANES };

/* Sixteen columns from c on; planes have room for as many behind their end. */
LARDER__INLINE void sixteen(const float *const *rows, const larder__panel *right, size_t dim,
                            size_t c, float out[ROWS][WIDE]) {
    float a[WIDE] = {0}, b[WIDE] = {0}, d[WIDE] = {0}, e[WIDE] = {0};
    for (size_t f = 0; f < dim; f++) {
        const float *plane = right->dense_planes + f * right->stride + c;
        float x0 = rows[0][f], x1 = rows[1][f], x2 = rows[2][f], x3 = rows[3][f];
        for (size_t i = 0; i < WIDE; i++) {
            float y = plane[i];
            a[i] += (x0 - y) * (x0 - y);
            b[i] += (x1 - y) * (x1 - y);
            d[i] += (x2 - y) * (x2 - y);
            e[i] += (x3 - y) * (x3 - y);
        }
    }
    memcpy(out[0], a, sizeof a);
    memcpy(out[1], b, sizeof b);
    memcpy(out[2], d, sizeof d);
    memcpy(out[3], e, sizeof e);
}

/* Some of four rows, all of n columns. */
LARDER__CLONES static void strip(const float *const *rows, size_t m, const larder__panel *right,
                                 size_t dim, size_t c0, size_t n, float *out, size_t stride) {
    for (size_t c = 0; c < n; c += WIDE) {
        float sums[ROWS][WIDE];
        size_t wide = n - c < WIDE ? n - c : WIDE;
        sixteen(rows, right, dim, c0 + c, sums);
        for (size_t r = 0; r < m; r++)
            if (wide == WIDE)
                memcpy(out + r * stride + c, sums[r], sizeof sums[r]);
            else
                memcpy(out + r * stride + c, sums[r], wide * sizeof **sums);
    }
}

void larder__direct_distances(const larder__kernel *k, const larder__panel *left, size_t r0,
                              size_t r1, const larder__panel *right, size_t c0, size_t c1,
                              float *out, size_t stride) {
    for (size_t r = r0; r < r1; r += ROWS) {
        const float *rows[ROWS];
        size_t m = r1 - r < ROWS ? r1 - r : ROWS;
        for (size_t i = 0; i < ROWS; i++)
            rows[i] = left->dense + (r + (i < m ? i : 0)) * k->dim;
        strip(rows, m, right, k->dim, c0, c1 - c0, out + (r - r0) * stride, stride);
    }
}
