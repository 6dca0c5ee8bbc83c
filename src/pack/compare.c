#include "pack/compare.h"

#include "base/err.h"
#include "base/mem.h"
#include "stage/codec.h"
#include "stage/scratch.h"

#include <string.h>

struct larder__comparer {
    larder__scratch *scratch[2];
};

int larder__comparer_open(larder__comparer **out) {
    *out = larder__calloc(1, sizeof **out);
    int rc = *out ? larder__scratch_open(&(*out)->scratch[0]) : LARDER_E_NOMEM;
    if (rc == 0)
        rc = larder__scratch_open(&(*out)->scratch[1]);
    if (rc < 0)
        larder__comparer_close(out);
    return rc;
}

void larder__comparer_close(larder__comparer **pc) {
    if (!*pc)
        return;
    larder__scratch_close(&(*pc)->scratch[0]);
    larder__scratch_close(&(*pc)->scratch[1]);
    larder__free(*pc);
    *pc = NULL;
}

static int decode_all(larder__scratch *s, const void *bytes, size_t size, larder__picture *out) {
    uint32_t w, h;
    const larder__codec *codec = larder__codec_find(bytes, size);
    int rc = codec ? codec->head(s, bytes, size, &w, &h) : LARDER_E_FORMAT;
    return rc < 0 ? rc : codec->pixels(s, bytes, size, 1, (larder__rect){0, 0, w, h}, out);
}

/* Three bytes of each pixel count, the fourth is spare. */
static int64_t first_difference(const uint8_t *a, const uint8_t *b, int64_t pixels) {
    for (int64_t x = 0; x < pixels; x++)
        if (memcmp(a + x * 4, b + x * 4, 3) != 0)
            return x;
    return -1;
}

int larder__compare_pixels(larder__comparer *c, const void *a, size_t a_size, const void *b,
                           size_t b_size) {
    larder__picture one = {0}, two = {0};
    int rc = decode_all(c->scratch[0], a, a_size, &one);
    if (rc == 0)
        rc = decode_all(c->scratch[1], b, b_size, &two);
    if (rc < 0)
        return rc;
    int64_t w = one.is.x1, h = one.is.y1;
    if (w != two.is.x1 || h != two.is.y1)
        return larder__fail(LARDER_E_FORMAT, "%lld x %lld pixels became %lld x %lld", (long long)h,
                            (long long)w, (long long)two.is.y1, (long long)two.is.x1);
    for (int64_t y = 0; y < h; y++) {
        const uint8_t *at = one.at + y * one.row, *to = two.at + y * two.row;
        int64_t x = memcmp(at, to, (size_t)w * 4) ? first_difference(at, to, w) : -1;
        if (x >= 0)
            return larder__fail(LARDER_E_FORMAT, "pixels differ in row %lld, column %lld",
                                (long long)y, (long long)x);
    }
    for (int i = 0; i < 2; i++)
        larder__scratch_trim(c->scratch[i]);
    return 0;
}
