/* Any bytes as a JPEG file; what passes for a plain one has the size that libjpeg finds. */
#include "fuzz_codec.h"

#include "stage/blueprint.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void fuzz_plain(const uint8_t *data, size_t size) {
    static larder__scratch *scratch;
    larder__plain_jpeg jpeg;
    uint32_t w, h;
    if (!larder__jpeg_is_plain(data, size, &jpeg) ||
        (!scratch && larder__scratch_open(&scratch) < 0))
        return;
    if (larder__codec_jpeg.head(scratch, data, size, &w, &h) == 0 && (w != jpeg.w || h != jpeg.h))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz_plain(data, size);
    return fuzz_codec(&larder__codec_jpeg, data, size);
}
