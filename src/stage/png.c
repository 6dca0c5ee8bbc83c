/* PNG through libspng: all colour types, depths and interlacing, to 8-bit RGB. Transparency is
 * dropped as Pillow's convert("RGB") does; of 16 bits the upper 8 are kept.
 *
 * The library sees the chunks that pixels come from and no others. Texts, profiles and the like
 * would be unpacked and kept by it, and a few bytes of them can unpack to gigabytes. */
#include "stage/codec.h"

#include "base/err.h"
#include "base/mem.h"
#include "stage/scratch.h"

#include <string.h>

static bool png_mine(const uint8_t *bytes, size_t size) {
    return size >= 4 && memcmp(bytes, "\x89PNG", 4) == 0;
}

#if LARDER_HAVE_SPNG

#include "base/late.h"

#include <spng.h>

#define CALLS(X)                                                                                   \
    X(spng_ctx_free)                                                                               \
    X(spng_ctx_new2)                                                                               \
    X(spng_decode_image)                                                                           \
    X(spng_decode_row)                                                                             \
    X(spng_decoded_image_size)                                                                     \
    X(spng_get_ihdr)                                                                               \
    X(spng_set_crc_action) X(spng_set_image_limits) X(spng_set_png_stream) X(spng_strerror)
CALLS(LARDER__LATE_NAME)
LARDER__LATE(spng, LARDER_LATE_SPNG, CALLS)

/* zlib inside the library reports lack of memory as broken data: remember what really happened. */
static _Thread_local bool starved;

static void *seen(void *p) {
    starved |= !p;
    return p;
}
static void *png_malloc(size_t n) { return seen(larder__malloc(n)); }
static void *png_realloc(void *old, size_t n) { return seen(larder__realloc(old, n)); }
static void *png_calloc(size_t n, size_t each) { return seen(larder__calloc(n, each)); }

/* ---- the bytes it sees ----------------------------------------------------------------------- */

static uint32_t number_at(const uint8_t *p) {
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* Where the next chunk for pixels begins and ends; what is cut off goes as far as it is there. */
static void next_chunk(larder__png_bytes *b) {
    enum { AROUND = 12, ANCILLARY = 0x20 }; /* length, type and sum; a small first letter */
    while (b->left == 0 && b->at < b->end) {
        size_t there = (size_t)(b->end - b->at), whole = there;
        if (there >= 8 && number_at(b->at) <= INT32_MAX)
            whole = (size_t)number_at(b->at) + AROUND;
        whole = whole < there ? whole : there;
        if (there >= 8 && b->at[4] & ANCILLARY)
            b->at += whole;
        else
            b->left = whole;
    }
}

static int give(spng_ctx *ctx, void *bytes, void *to, size_t n) {
    (void)ctx;
    larder__png_bytes *b = bytes;
    for (size_t done = 0; done < n;) {
        next_chunk(b);
        size_t some = n - done < b->left ? n - done : b->left;
        if (some == 0)
            return SPNG_IO_EOF;
        memcpy((uint8_t *)to + done, b->at, some);
        b->at += some;
        b->left -= some;
        done += some;
    }
    return 0;
}

/* ---- decoding -------------------------------------------------------------------------------- */

void larder__png_close(larder__scratch *s) {
    if (s->png)
        spng_ctx_free(s->png);
    s->png = NULL;
}

static int png_fail(larder__scratch *s, int err, size_t size, uint32_t row, uint32_t h) {
    larder__png_close(s);
    if (err == SPNG_EMEM || starved)
        return larder__fail(LARDER_E_NOMEM, "png: out of memory");
    if (err == SPNG_IO_EOF || err == SPNG_EOF || err == SPNG_EIDAT_TOO_SHORT)
        return larder__fail(LARDER_E_FORMAT, "png: ends at byte %zu, in row %u of %u", size, row,
                            h);
    return larder__fail(LARDER_E_FORMAT, "png: damaged: %s", spng_strerror(err));
}

static int png_head(larder__scratch *s, const uint8_t *bytes, size_t size, uint32_t *w,
                    uint32_t *h) {
    static struct spng_alloc heap = {png_malloc, png_realloc, png_calloc, larder__free};
    int rc = larder__late_open(&spng_late);
    if (rc < 0)
        return rc;
    starved = false;
    larder__png_close(s);
    spng_ctx *ctx = s->png = spng_ctx_new2(&heap, 0);
    if (!ctx)
        return larder__fail(LARDER_E_NOMEM, "png: out of memory");
    struct spng_ihdr head;
    int err = spng_set_crc_action(ctx, SPNG_CRC_ERROR, SPNG_CRC_DISCARD);
    if (!err)
        err = spng_set_image_limits(ctx, LARDER__DECODED_SIDE, LARDER__DECODED_SIDE);
    s->png_bytes = (larder__png_bytes){bytes, bytes + size, size < 8 ? size : 8};
    if (!err)
        err = spng_set_png_stream(ctx, give, &s->png_bytes);
    if (!err)
        err = spng_get_ihdr(ctx, &head);
    if (err == SPNG_EUSER_WIDTH || err == SPNG_EUSER_HEIGHT) {
        larder__png_close(s);
        return larder__fail(LARDER_E_RANGE, "png: declares a side of more than %u pixels",
                            LARDER__DECODED_SIDE);
    }
    if (err)
        return png_fail(s, err, size, 0, 0);
    *w = head.width;
    *h = head.height;
    rc = larder__codec_limit("png", *w, *h);
    if (rc < 0)
        larder__png_close(s);
    return rc;
}

/* Rows come in order, so those above land in one spare row and those below are not decoded. */
static int read_rows(spng_ctx *ctx, uint8_t *to, size_t width, larder__rect want, int64_t *row) {
    int err = spng_decode_image(ctx, NULL, 0, SPNG_FMT_RGBA8, SPNG_DECODE_PROGRESSIVE);
    for (*row = 0; !err && *row < want.y1; ++*row) {
        int64_t line = *row < want.y0 ? 0 : *row - want.y0;
        err = spng_decode_row(ctx, to + (size_t)line * width, width);
        if (err == SPNG_EOI) /* says that this was the picture's last row */
            err = 0;
    }
    return err;
}

/* The numbers of a picture with a palette, spread to the first of 4 bytes each. */
static int read_indices(larder__scratch *s, spng_ctx *ctx, const struct spng_ihdr *head,
                        uint8_t *to, larder__rect want) {
    size_t packed = 0, bits = head->bit_depth, width = head->width;
    int err = spng_decoded_image_size(ctx, SPNG_FMT_RAW, &packed);
    uint8_t *raw = err ? NULL : larder__scratch_take(s, LARDER__BLOCK_REPACKED, packed + 64);
    if (!err && !raw)
        return SPNG_EMEM;
    if (!err) { /* bits of interlaced pictures are only ever added */
        memset(raw, 0, packed);
        err = spng_decode_image(ctx, raw, packed, SPNG_FMT_RAW, 0);
    }
    size_t row_bytes = (width * bits + 7) / 8;
    for (size_t y = (size_t)want.y0; !err && y < (size_t)want.y1; y++)
        for (size_t x = 0; x < width; x++, to += 4) {
            size_t at = x * bits;
            unsigned byte = raw[y * row_bytes + at / 8];
            to[0] = to[1] = to[2] = (uint8_t)((byte >> (8 - bits - at % 8)) & ((1u << bits) - 1));
        }
    return err;
}

static int png_pixels(larder__scratch *s, const uint8_t *bytes, size_t size, uint32_t denominator,
                      larder__rect want, larder__picture *out) {
    (void)bytes, (void)denominator;
    spng_ctx *ctx = s->png;
    struct spng_ihdr head;
    int err = spng_get_ihdr(ctx, &head);
    if (err)
        return png_fail(s, err, size, 0, 0);
    size_t width = (size_t)head.width * 4;
    int64_t row = 0;
    if (head.interlace_method) {
        want.y0 = 0;
        want.y1 = head.height;
    }
    want.x0 = 0;
    want.x1 = head.width;
    size_t bytes_wanted = width * (size_t)(want.y1 - want.y0);
    uint8_t *to = larder__scratch_take(s, LARDER__BLOCK_DECODED, bytes_wanted + 64);
    if (!to) {
        larder__png_close(s);
        return LARDER_E_NOMEM;
    }
    if (s->indices && head.color_type == SPNG_COLOR_TYPE_INDEXED)
        err = read_indices(s, ctx, &head, to, want);
    else if (head.interlace_method)
        err = spng_decode_image(ctx, to, bytes_wanted, SPNG_FMT_RGBA8, 0);
    else
        err = read_rows(ctx, to, width, want, &row);
    if (err)
        return png_fail(s, err, size, (uint32_t)row, head.height);
    larder__png_close(s);
    *out = (larder__picture){to, (ptrdiff_t)width, 4, 1, want};
    return 0;
}

#else

void larder__png_close(larder__scratch *s) { (void)s; }

static int png_head(larder__scratch *s, const uint8_t *bytes, size_t size, uint32_t *w,
                    uint32_t *h) {
    (void)s, (void)bytes, (void)size, (void)w, (void)h;
    return larder__codec_missing("PNG", "libspng", "libspng-dev");
}
#define png_pixels NULL

#endif

const larder__codec larder__codec_png = {"png", png_mine, png_head, png_pixels, 1};
