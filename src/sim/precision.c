#include "sim/precision.h"

#include "base/mem.h"
#include "sample/choose.h"

/* Marks the `top` samples with the largest values with `bit`; equal ones by id. `a` holds each id
 * below its sorting key. */
static void mark_top(uint64_t *a, uint64_t *spare, uint64_t n, uint64_t top, uint8_t *marks,
                     uint8_t bit) {
    const uint64_t *sorted = larder__choose_sort(a, spare, n);
    for (uint64_t i = n - top; i < n; i++)
        marks[(uint32_t)sorted[i]] |= bit;
}

static uint64_t entry(float value, uint64_t id) {
    uint32_t key = value == value ? larder__choose_key(value) : 0;
    return (uint64_t)key << 32 | id;
}

int larder__precision_of(double *out, const float *remembered, const larder__trace *trace,
                         uint64_t epoch) {
    uint64_t n = larder__trace_samples(trace), top = n / 100 ? n / 100 : 1, both = 0;
    uint64_t *a = larder__malloc(n * sizeof *a), *spare = larder__malloc(n * sizeof *spare);
    uint8_t *marks = larder__calloc(n, sizeof *marks);
    int rc = a && spare && marks ? 0 : LARDER_E_NOMEM;
    for (int truth = 0; rc == 0 && truth < 2; truth++) {
        for (uint64_t i = 0; i < n; i++)
            a[i] = entry(truth ? larder__trace_eval(trace, epoch, i) : remembered[i], i);
        mark_top(a, spare, n, top, marks, (uint8_t)(1 << truth));
    }
    for (uint64_t i = 0; rc == 0 && i < n; i++)
        both += marks[i] == 3;
    *out = (double)both / (double)top;
    larder__free(a);
    larder__free(spare);
    larder__free(marks);
    return rc;
}
