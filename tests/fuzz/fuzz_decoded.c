/* Any bytes as a decoded sample, as a cache that others write to may hold them. */
#include "stage/pipeline.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const specs[] = {"rrc:size=16|flip", "crop:size=40,pad=20"};
    static larder__pipeline *pipelines[2];
    static larder__scratch *scratch;
    if (!scratch && larder__scratch_open(&scratch) < 0)
        return 0;
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
        larder__pipeline_conf conf = {.spec = specs[i], .dtype = LARDER_U8};
        unsigned char out[40 * 40 * 3];
        if (!pipelines[i] && larder__pipeline_open(&pipelines[i], &conf) < 0)
            return 0;
        larder__pipeline_run_decoded(pipelines[i], scratch, data, size, size + i, out);
    }
    return 0;
}
