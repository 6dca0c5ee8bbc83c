/* Any text as a list of stages; what opens must run on a sample of its shape, on what belongs to
 * it, and on a batch. */
#include "stage/pipeline.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size > 2000)
        return 0;
    char *spec = malloc(size + 1);
    if (!spec)
        return 0;
    memcpy(spec, data, size);
    spec[size] = 0;
    static const uint8_t pixels[24 * 16 * 3];
    static larder__scratch *scratch;
    for (int raw = 0; raw < 2; raw++) {
        larder__pipeline_conf conf = {.spec = spec, .dtype = LARDER_F32};
        if (raw)
            conf.raw = (larder_shape){24, 16, 3};
        larder__pipeline *p = NULL;
        if (larder__pipeline_open(&p, &conf) < 0)
            continue;
        size_t bytes = larder__pipeline_bytes(p);
        void *out = raw && bytes < 1 << 24 ? malloc(bytes) : NULL;
        if (out && (scratch || larder__scratch_open(&scratch) == 0))
            larder__pipeline_run(p, scratch, pixels, sizeof pixels, size, out);
        free(out);
        float boxes[] = {1, 2, 9, 11};
        larder_mixing mixing;
        larder__pipeline_boxes(p, 16, 24, size, boxes, 1);
        larder__pipeline_mix(p, size, &mixing);
        larder__pipeline_close(&p);
    }
    free(spec);
    return 0;
}
