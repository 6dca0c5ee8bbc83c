/* Squared distances from differences: exact where norms are large and points near, and quick where
 * features are few. Columns lie in planes, so that one feature of sixteen points is one load. */
#include "base/clones.h"
#include "svm/kernel.h"

enum { ROWS = 4, STEP = 64 };

LARDER__CLONES static void four(const float *const *rows, const larder__panel *right, size_t dim,
                                size_t c, size_t n, float out[ROWS][STEP]) {
    for (size_t r = 0; r < ROWS; r++)
        for (size_t i = 0; i < STEP; i++)
            out[r][i] = 0;
    for (size_t f = 0; f < dim; f++) {
        const float *plane = right->dense_planes + f * right->stride + c;
        for (size_t r = 0; r < ROWS; r++) {
            float x = rows[r][f];
            for (size_t i = 0; i < n; i++) {
                float d = x - plane[i];
                out[r][i] += d * d;
            }
        }
    }
}

void larder__direct_distances(const larder__kernel *k, const larder__panel *left, size_t r0,
                              size_t r1, const larder__panel *right, size_t c0, size_t c1,
                              float *out, size_t stride) {
    for (size_t c = c0; c < c1; c += STEP) {
        size_t n = c1 - c < STEP ? c1 - c : STEP;
        for (size_t r = r0; r < r1; r += ROWS) {
            const float *rows[ROWS];
            float sums[ROWS][STEP];
            size_t m = r1 - r < ROWS ? r1 - r : ROWS;
            for (size_t i = 0; i < ROWS; i++)
                rows[i] = left->dense + (r + (i < m ? i : 0)) * k->dim;
            four(rows, right, k->dim, c, n, sums);
            for (size_t i = 0; i < m; i++)
                for (size_t j = 0; j < n; j++)
                    out[(r + i - r0) * stride + (c - c0) + j] = sums[i][j];
        }
    }
}
