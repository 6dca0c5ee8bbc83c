#include "pack/reencode.h"

#include "base/err.h"
#include "base/mem.h"
#include "stage/codec.h"
#include "stage/jpeg_encode.h"
#include "stage/pipeline.h"

enum { QUALITY_WHEN_SMALLER = 90 };

struct larder__reencoder {
    uint32_t quality, max_side;
    larder__scratch *scratch;
};

int larder__reencoder_open(larder__reencoder **out, uint32_t quality, uint32_t max_side) {
    *out = NULL;
    if (!larder__jpeg_can_encode())
        return larder__fail(LARDER_E_UNSUPPORTED, "this build encodes no JPEG");
    larder__reencoder *r = *out = larder__calloc(1, sizeof *r);
    int rc = r ? larder__scratch_open(&r->scratch) : LARDER_E_NOMEM;
    if (rc < 0) {
        larder__reencoder_close(out);
        return rc;
    }
    r->quality = quality;
    r->max_side = max_side;
    return 0;
}

void larder__reencoder_close(larder__reencoder **pr) {
    larder__reencoder *r = *pr;
    *pr = NULL;
    if (!r)
        return;
    larder__scratch_close(&r->scratch);
    larder__free(r);
}

static int encode(larder__reencoder *r, const void *bytes, size_t size, uint32_t w, uint32_t h,
                  const void **out, size_t *out_size) {
    larder__picture pixels;
    const uint8_t *jpeg = NULL;
    larder__jpeg_conf conf = {.quality = r->quality ? r->quality : QUALITY_WHEN_SMALLER,
                              .limit = (size_t)w * h * 6 + 4096}; /* more than any takes */
    int rc = larder__picture_resize(r->scratch, bytes, size, w, h, &pixels);
    if (rc == 0)
        rc = larder__jpeg_encode(r->scratch, &pixels, w, h, &conf, &jpeg, out_size);
    if (rc < 0)
        return rc;
    *out = jpeg;
    return jpeg ? 0
                : larder__fail(LARDER_E_FORMAT, "jpeg: a picture of %u x %u is too large", h, w);
}

int larder__reencode(larder__reencoder *r, const void *bytes, size_t size, const void **out,
                     size_t *out_size, bool *again) {
    uint32_t w, h;
    *out = bytes;
    *out_size = size;
    *again = false;
    const larder__codec *codec = larder__codec_find(bytes, size);
    int rc = codec ? codec->head(r->scratch, bytes, size, &w, &h) : LARDER_E_FORMAT;
    if (rc < 0)
        return rc;
    uint32_t longer = w > h ? w : h;
    double scale = r->max_side && longer > r->max_side ? (double)r->max_side / longer : 1;
    if (scale == 1 && !r->quality)
        return 0;
    uint32_t to_w = (uint32_t)(w * scale + 0.5), to_h = (uint32_t)(h * scale + 0.5);
    to_w = to_w ? to_w : 1;
    to_h = to_h ? to_h : 1;
    if ((rc = encode(r, bytes, size, to_w, to_h, out, out_size)) < 0)
        return rc;
    *again = true;
    return 0;
}
