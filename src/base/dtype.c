#include "base/dtype.h"

#include <stdio.h>

const char *larder__shape_text(const uint64_t *shape, uint32_t ndim, char out[160]) {
    int at = snprintf(out, 160, "%s", ndim ? "" : "one");
    for (uint32_t d = 0; d < ndim && d < LARDER_NDIM && at >= 0 && at < 140; d++)
        at += snprintf(out + at, (size_t)(160 - at), "%s%llu", d ? "x" : "",
                       (unsigned long long)shape[d]);
    return out;
}
