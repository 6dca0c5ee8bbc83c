/* Parcels: refused, or every byte that a field names is inside. */
#include "base/parcel.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    larder__parcel p;
    if (larder__parcel_open(&p, data, size) < 0)
        return 0;
    larder__field f, same;
    volatile unsigned sum = 0;
    uint32_t seen = 0;
    for (size_t at = 0; larder__parcel_next(&p, &at, &f); seen++) {
        char name[LARDER__PARCEL_NAME + 1];
        memcpy(name, f.name, f.name_bytes);
        name[f.name_bytes] = 0;
        if (!larder__parcel_find(&p, name, &same))
            abort();
        for (size_t i = 0; i < f.bytes; i++)
            sum = sum + f.data[i];
        if (f.ndim &&
            larder__shape_count(f.shape, f.ndim) * larder__dtype_bytes(f.dtype) != f.bytes)
            abort();
    }
    if (seen != p.count)
        abort();
    return 0;
}
