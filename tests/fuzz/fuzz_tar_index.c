/* Any bytes as the kept index of a shard. The last eight are replaced by the right checksum when
 * the first one is odd, or hardly an input would get past it. */
#include "base/hash.h"
#include "source/tar_index.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 1)
        return 0;
    size_t n = size - 1;
    uint8_t *bytes = malloc(n ? n : 1);
    if (!bytes)
        return 0;
    memcpy(bytes, data + 1, n);
    if ((data[0] & 1) && n >= 8) {
        uint64_t sum = larder__hash_bytes(0x7a5, bytes, n - 8);
        for (size_t i = 0; i < 8; i++)
            bytes[n - 8 + i] = (uint8_t)(sum >> (8 * i));
    }
    larder__stamp stamp = {.size = 4096, .mtime_ns = 1, .ctime_ns = 2, .inode = 3};
    larder__tar_index x = {0};
    int rc = larder__tar_index_parse(&x, "/s.tar", &stamp, bytes, n);
    if (rc < 0 && (x.keys.count || x.part_count))
        abort();
    for (uint64_t i = 0; i < x.part_count; i++) {
        uint64_t offset = (uint64_t)x.parts[i].block * LARDER__TAR_BLOCK;
        if (offset > stamp.size || x.parts[i].bytes > stamp.size - offset ||
            x.parts[i].ending >= x.endings.count)
            abort();
    }
    for (uint64_t k = 0; k < x.keys.count; k++)
        if (x.labels[k] < -1 || x.firsts[k] > x.firsts[k + 1] || !larder__names_get(&x.keys, k))
            abort();
    larder__tar_index_free(&x);
    free(bytes);
    return 0;
}
