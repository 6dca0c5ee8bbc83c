/* Any bytes as a part of a JPEG: corrupt offsets, overlapping runs, lying sides. The first byte
 * chooses the crop; whatever comes of it, nothing is read or written out of place. */
#include "stage/pipeline.h"
#include "stage/splice.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static larder__pipeline *pipeline(int which) {
    static larder__pipeline *made[2];
    static const char *const specs[] = {"rrc:size=16|flip", "resize:size=12|centercrop:size=8"};
    if (!made[which]) {
        larder__pipeline_conf conf = {.spec = specs[which], .dtype = LARDER_U8};
        if (larder__pipeline_open(&made[which], &conf) < 0)
            abort();
    }
    return made[which];
}

/* The small JPEG fits into the room that was planned for it. */
static void splice(const uint8_t *bytes, size_t size, uint32_t choice) {
    larder__splice s;
    larder__part_view v;
    if (larder__part_parse(&v, bytes, size) < 0)
        return;
    uint32_t w = v.about.grid.w, h = v.about.grid.h;
    larder_rect want = {choice % w, choice % h, w, h, 1};
    if (larder__splice_plan(&s, bytes, size, want, choice % 5) < 0 || s.size > 1u << 26)
        return;
    unsigned char *out = malloc(s.size);
    if (out && larder__splice_write(&s, out) > (int64_t)s.size)
        abort();
    free(out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static larder__scratch *scratch;
    uint8_t out[16 * 16 * 3];
    if (!scratch && larder__scratch_open(&scratch) < 0)
        abort();
    if (size < 1)
        return 0;
    uint8_t *bytes = malloc(size); /* so that a read past its end is seen */
    if (!bytes)
        return 0;
    memcpy(bytes, data + 1, size - 1);
    splice(bytes, size - 1, data[0]);
    larder__pipeline_run(pipeline(data[0] & 1), scratch, bytes, size - 1, data[0], out);
    free(bytes);
    return 0;
}
