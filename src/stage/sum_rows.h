/* Rows of bytes, weighted and added up into floats: the first half of resampling. Left to itself
 * the compiler widens bytes by way of 16 bits, which costs more than the sums; these are told how
 * to do it in one step. Sums and their order are those of the plain loop, so pixels are too. */
#ifndef LARDER_STAGE_SUM_ROWS_H
#define LARDER_STAGE_SUM_ROWS_H

#include <stddef.h>
#include <stdint.h>

enum { LARDER__ROW_LANES = 16 }; /* bytes a row are rounded up to this */

/* `n` bytes, a multiple of LARDER__ROW_LANES, of `count` rows. */
typedef void larder__sum_rows(float *line, const uint8_t *row, ptrdiff_t stride, size_t n,
                              const float *weight, int32_t count);

/* What suits this processor; or by name, "avx512", "avx2" or "plain": NULL if it cannot run here.
 */
larder__sum_rows *larder__sum_rows_best(void);
larder__sum_rows *larder__sum_rows_named(const char *name);

#endif
