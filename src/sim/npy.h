/* NumPy's .npy files, as far as traces use them: little-endian, C order, one or two dimensions. */
#ifndef LARDER_SIM_NPY_H
#define LARDER_SIM_NPY_H

#include <stddef.h>
#include <stdint.h>

typedef struct larder__npy {
    char type;           /* 'u' u8, 'i' i8, 'e' f16, 'f' f32 */
    uint64_t rows, cols; /* one dimension: cols 1 */
    size_t width;        /* bytes an element */
    unsigned char *data; /* free with larder__npy_free */
    unsigned char *file;
} larder__npy;

int larder__npy_read(larder__npy *out, const char *path);
/* The same from bytes in memory, which `out` borrows. */
int larder__npy_parse(larder__npy *out, unsigned char *bytes, size_t size, const char *path);
void larder__npy_free(larder__npy *);
float larder__npy_float(const larder__npy *, uint64_t row, uint64_t col);

#endif
