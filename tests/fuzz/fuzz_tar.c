/* Any bytes as a shard: whatever the scan accepts must lie inside the file, and be read back from
 * its index as it was found. */
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
    larder__tar_sample s;
    larder__tar_part parts[LARDER__TAR_WANTED];
    larder__field fields[LARDER__TAR_WANTED];
    size_t n;
    if (larder__tar_index_sample(x, id, &s) < 0)
        abort();
    if (!x->wanted_count && (s.offset > size || s.bytes > size - s.offset))
        abort();
    if (x->wanted_count && larder__tar_index_parts(x, id, fields, parts, &n) == 0 &&
        larder__parcel_bytes(fields, n) != s.bytes)
        abort();
}

static void choose(larder__tar_block *b, size_t size) {
    static const char *const wanted[] = {"jpg|png", "cls", "json"};
    larder__tar_index x = {0};
    if (larder__tar_index_open(&x, 1) == 0 && larder__tar_index_add(&x, b) == 0 &&
        larder__tar_index_choose(&x, wanted, size % 2 ? 3 : 0, label, NULL) == 0)
        for (uint64_t i = 0; i < larder__tar_index_count(&x); i++)
            look_at(&x, i, size);
    larder__tar_index_free(&x);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    larder__tar t;
    larder__tar_keys keys = {0};
    larder__tar_block block;
    const larder__stamp stamp = {.size = size};
    input in = {data, size};
    larder__tar_begin_fetch(&t, "fuzz.tar", fetch, &in, size);
    int rc = larder__tar_keys_scan(&keys, &t);
    for (uint64_t k = 0; k < keys.keys.count; k++)
        if (keys.labels[k] < -1 || keys.firsts[k] > keys.firsts[k + 1] ||
            (rc == 0 && keys.firsts[k] == keys.firsts[k + 1]))
            abort();
    if (rc > 0)
        abort();
    if (rc == 0 && larder__tar_block_make(&block, &keys, "fuzz.tar", &stamp) == 0) {
        larder__keep_file file = block.kept;
        if (larder__tar_block_read(&block, &file, "fuzz.tar", &stamp) < 0)
            abort(); /* that is: whatever is found is believed again */
        choose(&block, size);
        larder__tar_block_free(&block);
    }
    larder__tar_keys_free(&keys);
    return 0;
}
