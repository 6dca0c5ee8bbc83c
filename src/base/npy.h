/* NumPy's .npy files: little-endian, C order, elements of 1, 2 or 4 bytes, up to four dimensions.
 * They come from anywhere: nothing in them is believed before it is checked. */
#ifndef LARDER_BASE_NPY_H
#define LARDER_BASE_NPY_H

#include <stddef.h>
#include <stdint.h>

enum { LARDER__NPY_DIMS = 4, LARDER__NPY_HEAD = 1034 }; /* bytes of a head at most */

typedef struct larder__npy {
    char type;    /* 'u' u8, 'i' i8, 'e' f16, 'f' f32 */
    size_t width; /* bytes an element */
    uint32_t dims;
    uint64_t shape[LARDER__NPY_DIMS];
    uint64_t rows, cols; /* the first dimension, and all others together: 1 if there are none */
    size_t head;         /* bytes before the first element */
    unsigned char *data; /* the elements; NULL: the head alone was read */
    unsigned char *file; /* owned, see larder__npy_free */
} larder__npy;

/* The head alone, for files that are read element by element: `bytes` are the first of a file of
 * `size`, all of them or LARDER__NPY_HEAD. The elements that it names are in the file. */
int larder__npy_head(larder__npy *out, const unsigned char *bytes, size_t size, const char *path);
/* A file in memory, which `out` borrows; `path` is for the sentence. */
int larder__npy_parse(larder__npy *out, unsigned char *bytes, size_t size, const char *path);
/* The whole file. */
int larder__npy_read(larder__npy *out, const char *path);
void larder__npy_free(larder__npy *);
float larder__npy_float(const larder__npy *, uint64_t row, uint64_t col);

#endif
