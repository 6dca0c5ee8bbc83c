/* Parts of JPEGs, as sources of packed pictures give them: what a rectangle needs is spliced into a
 * small JPEG, which is then decoded like any other. Pixels are those of a full decode, since the
 * blocks are the same and enough of them around the rectangle come along. */
#include "base/err.h"
#include "stage/codec.h"
#include "stage/margin.h"
#include "stage/scratch.h"
#include "stage/splice.h"

static bool part_mine(const uint8_t *bytes, size_t size) { return larder__part_mine(bytes, size); }

static int part_head(larder__scratch *s, const uint8_t *bytes, size_t size, uint32_t *w,
                     uint32_t *h) {
    (void)s;
    larder__part_view v;
    int rc = larder__part_parse(&v, bytes, size);
    if (rc < 0)
        return rc;
    *w = v.about.grid.w;
    *h = v.about.grid.h;
    return larder__codec_limit("part", *w, *h);
}

/* The wanted pixels of a shrunk picture, in pixels of the whole one. */
static larder_rect unshrunk(larder__rect want, uint32_t d, uint32_t w, uint32_t h) {
    int64_t x1 = want.x1 * d, y1 = want.y1 * d;
    return (larder_rect){(uint32_t)(want.x0 * d), (uint32_t)(want.y0 * d),
                         x1 < w ? (uint32_t)x1 : w, y1 < h ? (uint32_t)y1 : h, d};
}

static int part_pixels(larder__scratch *s, const uint8_t *bytes, size_t size, uint32_t denominator,
                       larder__rect want, larder__picture *out) {
    larder__splice splice;
    larder__part_view v;
    uint32_t w, h;
    int rc = larder__part_parse(&v, bytes, size);
    if (rc < 0)
        return rc;
    larder_rect need = unshrunk(want, denominator, v.about.grid.w, v.about.grid.h);
    rc = larder__splice_plan(&splice, bytes, size, need, LARDER__PART_MARGIN * denominator);
    if (rc < 0)
        return rc;
    unsigned char *jpeg = larder__scratch_take(s, LARDER__BLOCK_SPLICED, splice.size);
    if (!jpeg)
        return LARDER_E_NOMEM;
    int64_t n = larder__splice_write(&splice, jpeg);
    rc = n < 0 ? (int)n : larder__codec_jpeg.head(s, jpeg, (size_t)n, &w, &h);
    if (rc == 0 && (w != splice.w || h != splice.h))
        rc = larder__fail(LARDER_E_FORMAT, "part: a head with two frames");
    if (rc < 0)
        return rc;
    int64_t x = splice.x / denominator, y = splice.y / denominator;
    want = (larder__rect){want.x0 - x, want.y0 - y, want.x1 - x, want.y1 - y};
    rc = larder__codec_jpeg.pixels(s, jpeg, (size_t)n, denominator, want, out);
    if (rc < 0)
        return rc;
    out->is = (larder__rect){out->is.x0 + x, out->is.y0 + y, out->is.x1 + x, out->is.y1 + y};
    return 0;
}

const larder__codec larder__codec_part = {"part", part_mine, part_head, part_pixels, 8};
