/* Any bytes over the head of a folder on disk, sealed again when the first one is odd. */
#include "fuzz_disk.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static _Alignas(8) unsigned char copy[DISK_FILE_MOST];
    if (size < 1)
        return 0;
    disk_restore();
    size_t n = disk_damage(0, copy, data + 1, size - 1);
    if (data[0] & 1)
        larder__disk_head_seal((larder__disk_head *)copy);
    larder__disk_head_judge(copy, size < n ? size : n);
    if (data[0] & 2) /* cut short */
        n = size < n ? size : n;
    fuzz_put("head", copy, n);
    disk_use();
    return 0;
}
