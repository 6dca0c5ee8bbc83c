/* Array files: parsed or refused, and every element is in the file. */
#include "base/npy.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    unsigned char *copy = malloc(size + 1);
    if (!copy)
        return 0;
    memcpy(copy, data, size);
    larder__npy a, head;
    bool fits = larder__npy_head(&head, copy, size, "input") == 0;
    if (larder__npy_parse(&a, copy, size, "input") == 0) {
        volatile float sum = 0;
        uint64_t others = 1;
        for (uint32_t d = 1; d < a.dims; d++)
            others *= a.shape[d];
        if (!fits || head.head != a.head || a.dims > LARDER__NPY_DIMS || a.shape[0] != a.rows ||
            others != a.cols)
            abort();
        for (uint64_t r = 0; r < a.rows && r < 64; r++)
            for (uint64_t c = 0; c < a.cols && c < 64; c++)
                sum = sum + larder__npy_float(&a, r, c);
        if (a.rows && a.cols)
            sum = sum + larder__npy_float(&a, a.rows - 1, a.cols - 1);
    }
    free(copy);
    return 0;
}
