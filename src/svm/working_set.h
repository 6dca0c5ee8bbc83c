/* Which variables enter the working set: those that violate the optimality conditions most, half of
 * them because their beta should rise, half because it should fall. Ties go to the lower number, so
 * the choice repeats. */
#ifndef LARDER_SVM_WORKING_SET_H
#define LARDER_SVM_WORKING_SET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct larder__candidate {
    double key; /* small ones first */
    uint32_t id;
} larder__candidate;

/* Brings the `k` smallest to the front, sorted; returns how many there are of them. */
size_t larder__candidates_first(larder__candidate *, size_t n, size_t k);
/* The same without sorting them. */
size_t larder__candidates_part(larder__candidate *, size_t n, size_t k);
/* Takes from both lists in turn what is not `taken` yet, at most `want`; marks it. */
size_t larder__candidates_deal(const larder__candidate *a, size_t na, const larder__candidate *b,
                               size_t nb, bool *taken, uint32_t *out, size_t want);

#endif
