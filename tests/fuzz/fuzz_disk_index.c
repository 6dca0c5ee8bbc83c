/* Any bytes over an index of a folder on disk, sealed again when the first one is odd; with every
 * block free where the second bit is set, so that those that are not are given out twice. */
#include "fuzz_disk.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static _Alignas(8) unsigned char copy[DISK_FILE_MOST], none[DISK_FILE_MOST];
    if (size < 1)
        return 0;
    disk_restore();
    size_t n = disk_damage(3, copy, data + 1, size - 1);
    larder__disk_index_head *h = (larder__disk_index_head *)copy;
    if (data[0] & 1) {
        h->keys = h->keys % (DISK_KEYS * 2);
        larder__disk_index_seal(h);
        n = larder__disk_index_bytes(h->keys);
    }
    if (data[0] & 2)
        fuzz_put("space", none, disk_files[1].size);
    fuzz_put(disk_names[3], copy, n);
    disk_use();
    return 0;
}
