/* Any bytes as a shard: whatever the scan accepts must lie inside the file. */
#include "source/tar_index.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct input {
    const uint8_t *data;
    size_t size;
} input;

static int fetch(void *arg, void *out, size_t n, uint64_t at) {
    const input *in = arg;
    if (at > in->size || n > in->size - at)
        abort();
    memcpy(out, in->data + at, n);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    larder__tar t;
    larder__tar_index x = {0};
    input in = {data, size};
    larder__tar_begin_fetch(&t, "fuzz.tar", fetch, &in, size);
    int rc = larder__tar_index_build(&x, &t);
    for (uint64_t i = 0; i < x.count; i++) {
        const larder__tar_entry *e = &x.entries[i];
        if (e->offset > size || e->bytes > size - e->offset || e->label < -1)
            abort();
        if (!larder__names_get(&x.names, i)[0])
            abort();
    }
    if (rc > 0)
        abort();
    larder__tar_index_free(&x);
    return 0;
}
