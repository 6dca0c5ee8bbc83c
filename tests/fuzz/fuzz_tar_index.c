/* Any bytes as the kept index of a shard: what is believed is inside its bounds, and samples can be
 * chosen from it. The checksum is made right when the first byte is odd, or hardly an input would
 * get past it. */
#include "base/hash.h"
#include "base/mem.h"
#include "source/tar_index.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *label(void *arg, uint64_t shard) {
    (void)arg, (void)shard;
    return "/s.tar";
}

static void look_at(const larder__tar_block *b, uint64_t shard_bytes) {
    for (uint64_t k = 0; k < b->keys.count; k++) {
        uint64_t from = larder__tar_block_first(b, k), to = larder__tar_block_first(b, k + 1);
        if (b->labels[k] < -1 || from > to || !larder__names_get(&b->keys, k))
            abort();
        for (; from < to; from++) {
            const larder__tar_part *p = &b->parts[from];
            uint64_t offset = (uint64_t)p->block * LARDER__TAR_BLOCK;
            if (offset > shard_bytes || p->bytes > shard_bytes - offset ||
                p->ending >= b->ending_count)
                abort();
        }
    }
}

static void choose(larder__tar_block *b, bool fields) {
    static const char *const wanted[] = {"jpg|png", "cls?", "json"};
    larder__tar_index x = {0};
    if (larder__tar_index_open(&x, 1) == 0 && larder__tar_index_add(&x, b) == 0 &&
        larder__tar_index_choose(&x, wanted, fields ? 3 : 0, label, NULL) == 0) {
        larder_dataset about;
        larder__tar_sample s;
        if (larder__tar_index_about(&x, &about) < 0)
            abort();
        for (uint64_t id = 0; id < about.count; id++) {
            char name[LARDER__TAR_NAME];
            if (larder__tar_index_sample(&x, id, &s) < 0)
                abort();
            about.bytes -= s.bytes;
            larder__tar_index_name(&x, id, name);
        }
        if (about.bytes != 0)
            abort();
    }
    larder__tar_index_free(&x);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    enum { FOLLOWS = 16 }; /* magic and checksum are not part of it */
    if (size < 1)
        return 0;
    larder__keep_file file = {.bytes = larder__malloc(size), .size = size - 1};
    if (!file.bytes)
        return 0;
    memcpy(file.bytes, data + 1, file.size);
    if ((data[0] & 1) && file.size >= FOLLOWS) {
        uint64_t sum = larder__check_bytes(file.bytes + FOLLOWS, file.size - FOLLOWS);
        memcpy(file.bytes + 8, &sum, sizeof sum);
    }
    larder__stamp stamp = {.size = 4096, .mtime_ns = 1, .ctime_ns = 2, .inode = 3};
    larder__tar_block b;
    if (larder__tar_block_read(&b, &file, "/s.tar", &stamp) == 0) {
        look_at(&b, stamp.size);
        choose(&b, data[0] & 2);
    }
    larder__tar_block_free(&b);
    return 0;
}
