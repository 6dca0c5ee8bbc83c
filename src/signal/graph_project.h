/* Coordinates along given directions: the product of rows and a matrix of eight-bit numbers, one
 * scale a direction. The matrix lies in strips of 32 directions, [strip][input][32]; the last strip
 * is filled up with zeros. */
#ifndef LARDER_SIGNAL_GRAPH_PROJECT_H
#define LARDER_SIGNAL_GRAPH_PROJECT_H

#include <stddef.h>
#include <stdint.h>

enum { LARDER__STRIP = 32, LARDER__PROJECT_ROWS = 4 };

static inline uint32_t larder__strips(uint32_t dims) {
    return (dims + LARDER__STRIP - 1) / LARDER__STRIP;
}
static inline size_t larder__strip_at(uint32_t dim, uint32_t direction, uint32_t input) {
    return ((size_t)(direction / LARDER__STRIP) * dim + input) * LARDER__STRIP +
           direction % LARDER__STRIP;
}
/* Rounds a direction into the matrix; returns its scale: values are scale x entries. */
float larder__graph_direction_set(int8_t *matrix, uint32_t dim, uint32_t direction,
                                  const float *values);
/* And out of it, without scale. */
void larder__graph_direction_get(const int8_t *matrix, uint32_t dim, uint32_t direction,
                                 float *entries);

/* y: 4 x (strips x 32) products of four rows with the entries. */
void larder__graph_project(const int8_t *matrix, uint32_t dim, uint32_t dims,
                           const float *const rows[LARDER__PROJECT_ROWS], float *y);

#endif
