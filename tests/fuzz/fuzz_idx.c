/* Any bytes as a pair of IDX files. Input: a byte for the packing of both (base 3), two for the
 * length of the images' file, its bytes, then the labels' file. */
#include "fuzz_folder.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const endings[] = {"", ".gz", ".xz"};
    if (size < 3)
        return 0;
    size_t n = (size_t)data[1] << 8 | data[2];
    n = n < size - 3 ? n : size - 3;
    char name[64];
    fuzz_folder();
    snprintf(name, sizeof name, "train-images-idx3-ubyte%s", endings[data[0] % 3]);
    fuzz_put(name, data + 3, n);
    snprintf(name, sizeof name, "train-labels-idx1-ubyte%s", endings[data[0] / 3 % 3]);
    fuzz_put(name, data + 3 + n, size - 3 - n);
    fuzz_open("idx");
    return 0;
}
