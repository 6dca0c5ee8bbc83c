/* Any bytes as a file of one codec, through a whole pipeline: cropped, shrunk and padded decoding,
 * and what is kept of it instead. */
#ifndef LARDER_FUZZ_CODEC_H
#define LARDER_FUZZ_CODEC_H

#include "stage/codec.h"
#include "stage/pipeline.h"

#include <string.h>

/* As a shrunk sample that has been of another size. */
static void fuzz_shrunk(const larder__pipeline *p, larder__scratch *scratch, const uint8_t *data,
                        size_t size, uint8_t *out) {
    uint32_t seen[2] = {(uint32_t)size % 500 + 40, (uint32_t)(size * 7) % 300 + 40};
    larder_buf *b = larder_buf_new(sizeof seen + size);
    if (!b)
        return;
    memcpy(larder_buf_data(b), seen, sizeof seen);
    memcpy((uint8_t *)larder_buf_data(b) + sizeof seen, data, size);
    larder__pipeline_run_shrunk(p, scratch, larder_buf_data(b), larder_buf_size(b), size, out);
    larder_buf_unref(&b);
}

static int fuzz_codec(const larder__codec *codec, const uint8_t *data, size_t size) {
    static const char *const specs[] = {"rrc:size=16|flip", "resize:size=8|centercrop:size=8",
                                        "centercrop:size=40"};
    static larder__pipeline *pipelines[3];
    static larder__scratch *scratch; /* one for all inputs, as a thread has it */
    uint32_t w, h;
    if (!scratch && larder__scratch_open(&scratch) < 0)
        return 0;
    if (!codec->mine(data, size))
        return 0;
    /* A wrong size is cheap to find and slow to run: stay below a quarter megapixel. */
    if (codec->head(scratch, data, size, &w, &h) == 0 && (uint64_t)w * h > 1u << 18)
        return 0;
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
        larder__pipeline_conf conf = {.spec = specs[i], .dtype = i ? LARDER_U8 : LARDER_F32};
        unsigned char out[40 * 40 * 3 * 4];
        if (!pipelines[i] && larder__pipeline_open(&pipelines[i], &conf) < 0)
            return 0;
        larder__pipeline_run(pipelines[i], scratch, data, size, size + i, out);
        fuzz_shrunk(pipelines[i], scratch, data, size, out);
        larder_buf *file = larder_buf_new(size), *pixels = NULL;
        if (!file)
            return 0;
        memcpy(larder_buf_data(file), data, size);
        if (larder__pipeline_decode(pipelines[i], scratch, file, 1u << 20, &pixels) == 0 && pixels)
            larder__pipeline_run_decoded(pipelines[i], scratch, larder_buf_data(pixels),
                                         larder_buf_size(pixels), size + i, out);
        larder_buf_unref(&pixels);
        if (larder__pipeline_shrink(pipelines[i], scratch, file, &(larder__shrink){12, 60},
                                    &pixels) == 0 &&
            pixels)
            larder__pipeline_run_shrunk(pipelines[i], scratch, larder_buf_data(pixels),
                                        larder_buf_size(pixels), size + i, out);
        larder_buf_unref(&file);
        larder_buf_unref(&pixels);
    }
    return 0;
}

#endif
