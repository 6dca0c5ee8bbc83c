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

static const char *label(void *arg, uint64_t shard) {
    (void)arg, (void)shard;
    return "fuzz.tar";
}

static void look_at(const larder__tar_index *x, uint64_t id, size_t size) {
    const larder__tar_entry *e = &x->entries[id];
    const larder__tar_part *parts[LARDER__TAR_WANTED];
    larder__field fields[LARDER__TAR_WANTED];
    size_t n;
    if (!x->wanted_count && (e->offset > size || e->bytes > size - e->offset))
        abort();
    if (x->wanted_count && larder__tar_index_parts(x, id, fields, parts, &n) == 0 &&
        larder__parcel_bytes(fields, n) != e->bytes)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    larder__tar t;
    larder__tar_index x = {0};
    input in = {data, size};
    larder__tar_begin_fetch(&t, "fuzz.tar", fetch, &in, size);
    int rc = larder__tar_index_build(&x, &t);
    for (uint64_t i = 0; i < x.part_count; i++) {
        uint64_t offset = (uint64_t)x.parts[i].block * LARDER__TAR_BLOCK;
        if (offset > size || x.parts[i].bytes > size - offset ||
            x.parts[i].ending >= x.endings.count)
            abort();
    }
    for (uint64_t k = 0; k < x.keys.count; k++)
        if (x.labels[k] < -1 || x.firsts[k] > x.firsts[k + 1] ||
            (rc == 0 && x.firsts[k] == x.firsts[k + 1]))
            abort();
    if (rc > 0)
        abort();
    static const char *const wanted[] = {"jpg|png", "cls", "json"};
    uint64_t shards[2] = {0, x.keys.count};
    if (larder__tar_index_choose(&x, wanted, size % 2 ? 3 : 0, shards, 1, label, NULL) == 0)
        for (uint64_t i = 0; i < x.count; i++)
            look_at(&x, i, size);
    larder__tar_index_free(&x);
    return 0;
}
