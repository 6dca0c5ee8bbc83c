/* LIBSVM text is read or refused with line and column; what was read ascends and is finite. */
#include "svm/svm_data.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const larder_svm_data *d) {
    for (size_t i = 0; i < d->rows; i++)
        for (uint64_t p = d->start[i]; p < d->start[i + 1]; p++)
            if (!isfinite(d->value[p]) || d->index[p] > d->features ||
                (p > d->start[i] && d->index[p] <= d->index[p - 1]))
                abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    for (unsigned flags = 0; flags < 4; flags++) {
        larder_svm_data *d = NULL;
        int rc = larder__svm_parse(&d, data, size, "fuzz", flags);
        if ((rc == 0) != (d != NULL) || (rc < 0 && !strstr(larder_errmsg(), "fuzz: ")))
            abort();
        if (d)
            check(d);
        larder_svm_data_close(&d);
    }
    return 0;
}
