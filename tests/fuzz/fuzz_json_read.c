/* Any bytes as JSON: what is found lies inside, and numbers fit where they are put. */
#include "base/json_read.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const paths[] = {"", "a", "a.b", "a.0", "a.1.b", "label"};
    for (size_t k = 0; k < sizeof paths / sizeof *paths; k++) {
        larder__json_value v;
        if (larder__json_find((const char *)data, size, paths[k], &v) < 0)
            continue;
        if (v.at < (const char *)data || v.n > size || v.at + v.n > (const char *)data + size)
            abort();
        size_t most = v.n / 2 + 1, n = 0;
        double *d = malloc(most * sizeof *d), one;
        int64_t *i = malloc(most * sizeof *i), whole_one;
        char *text = malloc(v.n + 1);
        uint64_t shape[8], product = 1;
        uint32_t ndim = 0;
        bool whole;
        if (!d || !i || !text)
            abort();
        if (larder__json_numbers(&v, d, i, most, &n, shape, &ndim, 8, &whole) == 0) {
            for (uint32_t s = 0; s < ndim; s++)
                product *= shape[s];
            if (n > most || product != n)
                abort();
        }
        larder__json_number(&v, &one, &whole_one, &whole);
        if (larder__json_unescape(&v, text, &n) == 0 && n > v.n)
            abort();
        free(d);
        free(i);
        free(text);
    }
    return 0;
}
