/* Matrix products: row-major, fp32. CBLAS where it is there, else an own kernel that runs on one
 * thread, so that the core build trains networks and SVMs as well, and where memory is too short
 * for CBLAS's buffers (ulimit -v). Either way the same call with the same threads gives the same
 * bits.
 */
#ifndef LARDER_BASE_GEMM_H
#define LARDER_BASE_GEMM_H

#include <stdbool.h>
#include <stddef.h>

typedef struct larder__matrix { /* as stored; `flip` takes its transpose */
    const float *at;
    size_t stride; /* floats from one stored row to the next */
    bool flip;
} larder__matrix;

/* c[m x n] = a[m x k] b[k x n], added to c when `add`. */
void larder__gemm(size_t m, size_t n, size_t k, larder__matrix a, larder__matrix b, bool add,
                  float *c, size_t stride);
/* The own kernel, whatever the build has: for few products, and what tests and benches compare
 * with. */
void larder__gemm_plain(size_t m, size_t n, size_t k, larder__matrix a, larder__matrix b, bool add,
                        float *c, size_t stride);
/* How many threads a product may use; the loader's threads want the other cores. */
void larder__gemm_threads(unsigned threads);

#endif
