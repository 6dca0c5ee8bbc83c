/* Any bytes as a NumPy array or a zip of them: what is found lies inside. */
#include "base/array_file.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    larder__field f;
    larder__zip_member m;
    if (larder__npy_view(&f, data, size) == 0 &&
        (f.data < data || f.bytes > size || f.data + f.bytes > data + size))
        abort();
    if (larder__zip_find(&m, "", data, size) < 0 || m.size > 1 << 20)
        return 0;
    unsigned char *out = malloc(m.size + 1);
    if (!out)
        abort();
    if (larder__zip_unpack(&m, data, out) == 0)
        larder__npy_view(&f, out, m.size);
    free(out);
    return 0;
}
