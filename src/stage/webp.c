/* WebP through libwebp, lossy and lossless; alpha is dropped. Of a rectangle the library decodes no
 * more than it has to. Of an animation there is no first picture here: it is refused. */
#include "stage/codec.h"

#include "base/err.h"
#include "stage/scratch.h"

#include <string.h>

static bool webp_mine(const uint8_t *bytes, size_t size) {
    return size >= 12 && memcmp(bytes, "RIFF", 4) == 0 && memcmp(bytes + 8, "WEBP", 4) == 0;
}

#if LARDER_HAVE_WEBP

#include "base/late.h"

#if LARDER_LATE /* the header calls these two itself, so they are named before it */
#define WebPGetFeaturesInternal larder__late_WebPGetFeaturesInternal
#define WebPInitDecoderConfigInternal larder__late_WebPInitDecoderConfigInternal
#endif
#include <webp/decode.h>

#define OTHERS(X) X(WebPDecode) X(WebPFreeDecBuffer)
#define CALLS(X) OTHERS(X) X(WebPGetFeaturesInternal) X(WebPInitDecoderConfigInternal)
OTHERS(LARDER__LATE_NAME)
LARDER__LATE(webp, LARDER_LATE_WEBP, CALLS)

static int webp_fail(VP8StatusCode status, size_t size) {
    if (status == VP8_STATUS_OUT_OF_MEMORY)
        return larder__fail(LARDER_E_NOMEM, "webp: out of memory");
    if (status == VP8_STATUS_NOT_ENOUGH_DATA || status == VP8_STATUS_SUSPENDED)
        return larder__fail(LARDER_E_FORMAT, "webp: ends at byte %zu, before its last row", size);
    return larder__fail(LARDER_E_FORMAT, "webp: damaged (libwebp's code %d)", (int)status);
}

static int webp_head(larder__scratch *s, const uint8_t *bytes, size_t size, uint32_t *w,
                     uint32_t *h) {
    (void)s;
    WebPBitstreamFeatures is;
    int rc = larder__late_open(&webp_late);
    if (rc < 0)
        return rc;
    VP8StatusCode status = WebPGetFeatures(bytes, size, &is);
    if (status != VP8_STATUS_OK)
        return webp_fail(status, size);
    if (is.has_animation)
        return larder__fail(LARDER_E_UNSUPPORTED, "webp: an animation, not a picture");
    *w = (uint32_t)is.width;
    *h = (uint32_t)is.height;
    return larder__codec_limit("webp", *w, *h);
}

/* Colours at an edge are mixed from both sides of it; and places are even. */
static larder__rect with_margin(larder__rect r, const WebPBitstreamFeatures *is) {
    const int64_t margin = 8;
    r.x0 = r.x0 > margin ? (r.x0 - margin) & ~1 : 0;
    r.y0 = r.y0 > margin ? (r.y0 - margin) & ~1 : 0;
    r.x1 = r.x1 + margin < is->width ? r.x1 + margin : is->width;
    r.y1 = r.y1 + margin < is->height ? r.y1 + margin : is->height;
    return r;
}

static int webp_pixels(larder__scratch *s, const uint8_t *bytes, size_t size, uint32_t denominator,
                       larder__rect want, larder__picture *out) {
    (void)denominator;
    WebPDecoderConfig conf;
    if (!WebPInitDecoderConfig(&conf))
        return larder__fail(LARDER_E_UNSUPPORTED, "webp: libwebp is of another version");
    VP8StatusCode status = WebPGetFeatures(bytes, size, &conf.input);
    if (status != VP8_STATUS_OK)
        return webp_fail(status, size);
    want = with_margin(want, &conf.input);
    size_t row = (size_t)(want.x1 - want.x0) * 4, rows = (size_t)(want.y1 - want.y0);
    uint8_t *to = larder__scratch_take(s, LARDER__BLOCK_DECODED, row * rows + 64);
    if (!to)
        return LARDER_E_NOMEM;
    conf.options.use_cropping = 1;
    conf.options.crop_left = (int)want.x0;
    conf.options.crop_top = (int)want.y0;
    conf.options.crop_width = (int)(want.x1 - want.x0);
    conf.options.crop_height = (int)rows;
    conf.output.colorspace = MODE_RGBA;
    conf.output.is_external_memory = 1;
    conf.output.u.RGBA = (WebPRGBABuffer){to, (int)row, row * rows};
    status = WebPDecode(bytes, size, &conf);
    WebPFreeDecBuffer(&conf.output);
    *out = (larder__picture){to, (ptrdiff_t)row, 4, 1, want};
    return status == VP8_STATUS_OK ? 0 : webp_fail(status, size);
}

#else

static int webp_head(larder__scratch *s, const uint8_t *bytes, size_t size, uint32_t *w,
                     uint32_t *h) {
    (void)s, (void)bytes, (void)size, (void)w, (void)h;
    return larder__codec_missing("WebP", "libwebp", "libwebp-dev");
}
#define webp_pixels NULL

#endif

const larder__codec larder__codec_webp = {"webp", webp_mine, webp_head, webp_pixels, 1};
