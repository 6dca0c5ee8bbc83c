/* Types of numbers, and what one of them takes. */
#ifndef LARDER_BASE_DTYPE_H
#define LARDER_BASE_DTYPE_H

#include <larder/larder.h>

#include <string.h>

/* 0: there is no such type. */
static inline size_t larder__dtype_bytes(unsigned dtype) {
    static const uint8_t bytes[LARDER_DTYPES] = {4, 1, 2, 2, 8, 4, 2, 1, 2, 8, 1, 4, 8, 8};
    return dtype < LARDER_DTYPES ? bytes[dtype] : 0;
}

static inline const char *larder__dtype_name(unsigned dtype) {
    static const char *const names[LARDER_DTYPES] = {
        "float32", "uint8",  "float16", "bfloat16", "int64",  "int32",  "int16",
        "int8",    "uint16", "float64", "bool",     "uint32", "uint64", "complex64"};
    return dtype < LARDER_DTYPES ? names[dtype] : "?";
}

/* Elements of this many dimensions; UINT64_MAX: more than there can be. */
static inline uint64_t larder__shape_count(const uint64_t *shape, uint32_t ndim) {
    uint64_t n = 1;
    for (uint32_t d = 0; d < ndim; d++)
        if (shape[d] == 0)
            return 0;
    for (uint32_t d = 0; d < ndim; d++) {
        if (n > (UINT64_MAX >> 8) / shape[d])
            return UINT64_MAX;
        n *= shape[d];
    }
    return n;
}

static inline bool larder__shape_same(const uint64_t *a, uint32_t m, const uint64_t *b,
                                      uint32_t n) {
    return m == n && memcmp(a, b, n * sizeof *a) == 0;
}

/* "3x224x224", "one" for no dimension. */
const char *larder__shape_text(const uint64_t *shape, uint32_t ndim, char out[160]);

#endif
