/* Any bytes as the training file of CIFAR-100. The first byte chooses the packing, and whether the
 * rest is taken as it is or as one record of that many label bytes and repeated pixels. */
#include "fuzz_folder.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const names[] = {"train.bin", "train.bin.gz", "train.bin.xz"};
    static uint8_t records[64 * 3074 + 1];
    if (size < 1)
        return 0;
    fuzz_folder();
    if (data[0] < 128) {
        fuzz_put(names[data[0] % 3], data + 1, size - 1);
    } else {
        size_t n = (size - 1) / 2 < 64 ? (size - 1) / 2 : 64; /* two label bytes each */
        for (size_t i = 0; i < n; i++)
            memcpy(records + i * 3074, data + 1 + 2 * i, 2);
        fuzz_put("train.bin", records, n * 3074 + (size - 1) % 2);
        fuzz_put("fine_label_names.txt", data, size);
    }
    fuzz_open("cifar100");
    return 0;
}
