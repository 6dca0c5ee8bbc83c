/* Any bytes as a table: csv: without and with a target, and table: over itself. */
#include "fuzz_folder.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz_folder();
    fuzz_put("a", data, size);
    fuzz_file("csv:%s/a");
    fuzz_file("csv:%s/a?header=no&target=2");
    fuzz_file("table:%s/a");
    return 0;
}
