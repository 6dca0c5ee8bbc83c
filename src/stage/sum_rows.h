/* The two halves of resampling: rows of bytes, weighted and added up into floats, and columns of
 * those into bytes. Four rows go together, so that the weights of a column are fetched once and a
 * vector is full. Left to itself the compiler widens bytes by way of 16 bits, which costs more than
 * the sums; these are told how to do it in one step. Sums and their order are those of the plain
 * loop, so pixels are too. */
#ifndef LARDER_STAGE_SUM_ROWS_H
#define LARDER_STAGE_SUM_ROWS_H

#include "stage/resample.h"

#include <stddef.h>
#include <stdint.h>

enum {
    LARDER__ROW_LANES = 16, /* bytes a row are rounded up to this */
    LARDER__ROWS_BESIDE = 4 /* a pixel of this row is followed by the same of the others */
};

/* `n` bytes, a multiple of LARDER__ROW_LANES, of `count` rows; pixels, of 4 bytes, are 16 floats
 * apart in `line`. `part` has room for n floats, of what does not fit into one go. */
typedef void larder__sum_rows(float *line, float *part, const uint8_t *row, ptrdiff_t stride,
                              size_t n, const float *weight, int32_t count);
/* Evened taps, of four rows: one a row of pixels, whose ends may be written over up to a multiple
 * of 16 bytes. Rounded, and kept within 0 and 255. */
typedef void larder__sum_columns(uint8_t *const row[LARDER__ROWS_BESIDE], const float *line,
                                 const larder__taps *);

typedef struct larder__sums {
    const char *name;
    larder__sum_rows *rows;
    larder__sum_columns *columns;
} larder__sums;

/* What suits this processor; or by name, "avx512", "avx2" or "plain": NULL if it cannot run here.
 */
const larder__sums *larder__sums_best(void);
const larder__sums *larder__sums_named(const char *name);

#endif
