#include "svm/working_set.h"

#include <stdlib.h>

static bool before(const larder__candidate *a, const larder__candidate *b) {
    return a->key < b->key || (a->key == b->key && a->id < b->id);
}

static int compare(const void *a, const void *b) {
    return before(a, b) ? -1 : before(b, a) ? 1 : 0;
}

static void swap(larder__candidate *a, larder__candidate *b) {
    larder__candidate t = *a;
    *a = *b;
    *b = t;
}

/* Hoare's: the middle of three as pivot, nothing random. */
static size_t part(larder__candidate *c, size_t lo, size_t hi) {
    size_t mid = lo + (hi - lo) / 2;
    if (before(&c[mid], &c[lo]))
        swap(&c[mid], &c[lo]);
    if (before(&c[hi], &c[lo]))
        swap(&c[hi], &c[lo]);
    if (before(&c[hi], &c[mid]))
        swap(&c[hi], &c[mid]);
    larder__candidate pivot = c[mid];
    size_t i = lo, j = hi;
    for (;;) {
        while (before(&c[i], &pivot))
            i++;
        while (before(&pivot, &c[j]))
            j--;
        if (i >= j)
            return j;
        swap(&c[i++], &c[j--]);
    }
}

size_t larder__candidates_part(larder__candidate *c, size_t n, size_t k) {
    k = k < n ? k : n;
    if (k == 0)
        return 0;
    size_t lo = 0, hi = n - 1;
    while (lo < hi && k < n) {
        size_t at = part(c, lo, hi);
        if (k <= at + 1)
            hi = at;
        else
            lo = at + 1;
        if (lo >= k)
            break;
    }
    return k;
}

size_t larder__candidates_first(larder__candidate *c, size_t n, size_t k) {
    k = larder__candidates_part(c, n, k);
    if (k)
        qsort(c, k, sizeof *c, compare);
    return k;
}

size_t larder__candidates_deal(const larder__candidate *a, size_t na, const larder__candidate *b,
                               size_t nb, bool *taken, uint32_t *out, size_t want) {
    size_t n = 0, i = 0, j = 0;
    while (n < want && (i < na || j < nb)) {
        while (i < na && taken[a[i].id])
            i++;
        if (i < na && n < want)
            taken[a[i].id] = true, out[n++] = a[i++].id;
        while (j < nb && taken[b[j].id])
            j++;
        if (j < nb && n < want)
            taken[b[j].id] = true, out[n++] = b[j++].id;
    }
    return n;
}
