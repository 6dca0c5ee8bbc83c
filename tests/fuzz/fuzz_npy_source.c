/* Any bytes as an array file, its labels and its windows. */
#include "fuzz_folder.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz_folder();
    fuzz_put("a.npy", data, size);
    fuzz_file("npy:%s/a.npy");
    fuzz_file("npy:%s/a.npy?labels=%s/a.npy");
    fuzz_file("window:length=3,stride=2:npy:%s/a.npy");
    fuzz_file("window:length=3:raw:%s/a.npy?dtype=u16");
    return 0;
}
