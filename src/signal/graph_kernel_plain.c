/* The counting kernel in plain C. Written so that a compiler can use whatever vectors it has. */
#include "base/clones.h"
#include "signal/graph_kernel.h"

#include <string.h>

LARDER__CLONES
static void dots_of(const uint8_t *codes, uint32_t groups, const int8_t *query, int32_t *dots) {
    memset(dots, 0, LARDER__CHUNK_ROWS * sizeof *dots);
    for (uint32_t g = 0; g < groups; g++, codes += 4 * LARDER__CHUNK_ROWS, query += 4) {
        int32_t a = query[0], b = query[1], c = query[2], d = query[3];
        for (int i = 0; i < LARDER__CHUNK_ROWS; i++)
            dots[i] += codes[4 * i] * a + codes[4 * i + 1] * b + codes[4 * i + 2] * c +
                       codes[4 * i + 3] * d;
    }
}

static size_t packed_bytes(uint32_t dims) { return dims; }

static void pack(const int8_t *query, uint32_t dims, void *packed) { memcpy(packed, query, dims); }

static void count(const uint8_t *codes, const int32_t *row_const, uint32_t groups,
                  const void *const *packed, const int32_t *bounds, uint32_t *counts) {
    int32_t dots[LARDER__CHUNK_ROWS];
    for (int k = 0; k < LARDER__TILE_QUERIES; k++) {
        if (k && packed[k] == packed[k - 1]) /* filling of a short tile: nobody reads its count */
            continue;
        dots_of(codes, groups, packed[k], dots);
        uint32_t within = 0;
        for (int i = 0; i < LARDER__CHUNK_ROWS; i++)
            within += dots[i] - row_const[i] >= bounds[k];
        counts[k] += within;
    }
}

const larder__graph_kernel larder__graph_kernel_plain = {.name = "plain",
                                                         .macs = 5e9,
                                                         .packed_bytes = packed_bytes,
                                                         .pack = pack,
                                                         .count = count,
                                                         .dots = dots_of};
