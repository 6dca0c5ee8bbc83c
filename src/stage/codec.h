/* Decoders: from encoded bytes to pixels of one rectangle. First `head` tells the size, then the
 * stages choose what they need of it, then `pixels` decodes that and as little else as it can.
 * All state between the two calls lies in the scratch, so a codec serves many threads. */
#ifndef LARDER_STAGE_CODEC_H
#define LARDER_STAGE_CODEC_H

#include <larder/larder.h>

/* No picture with more pixels is decoded: a few bytes can declare gigapixels. What a decode may
 * take: 4 bytes a pixel for the result (256 MiB), for a JPEG in several scans 8 more while it runs
 * (its coefficients), as for a WebP or a TIFF (its rows before they are converted), and a constant
 * of 64 MiB for rows, tables and the unpacker, which the limit on a side makes one. Nothing that is
 * no pixel is kept: no text, no profile, no thumbnail. */
#define LARDER__MAX_PIXELS (64u << 20)
#define LARDER__DECODED_SIDE (1u << 20)
#define LARDER__DECODE_CONSTANT (64u << 20)

typedef struct larder__scratch larder__scratch;

typedef struct larder__rect { /* x0 <= x < x1 */
    int64_t x0, y0, x1, y1;
} larder__rect;

/* Pixels x0..x1-1 by y0..y1-1 of a picture, u8. `at` is the one at (x0, y0), channel 0. */
typedef struct larder__picture {
    const uint8_t *at;
    ptrdiff_t row, pixel, channel; /* steps in bytes */
    larder__rect is;
} larder__picture;

typedef struct larder__codec {
    const char *name;
    bool (*mine)(const uint8_t *bytes, size_t size); /* by the first bytes */
    int (*head)(larder__scratch *, const uint8_t *bytes, size_t size, uint32_t *w, uint32_t *h);
    /* At least the rectangle `want`, in pixels of the picture shrunk to 1/denominator (sides
     * rounded up). Always RGB plus one spare byte a pixel; rows may be read up to 64 bytes past
     * their end. Valid until the next call with this scratch. */
    int (*pixels)(larder__scratch *, const uint8_t *bytes, size_t size, uint32_t denominator,
                  larder__rect want, larder__picture *out);
    uint32_t max_denominator; /* 1, or a power of two up to this */
} larder__codec;

extern const larder__codec larder__codec_jpeg, larder__codec_png, larder__codec_part,
    larder__codec_webp, larder__codec_tiff, larder__codec_gif, larder__codec_bmp, larder__codec_pnm;

/* The codec for these bytes, or NULL with a sentence that says what they look like instead. */
const larder__codec *larder__codec_find(const uint8_t *bytes, size_t size);
/* E_UNSUPPORTED: what was missing when this was built, and the package to install. */
int larder__codec_missing(const char *format, const char *library, const char *package);
/* 0, or E_RANGE with a sentence. */
int larder__codec_limit(const char *name, uint64_t w, uint64_t h);
/* A picture of any codec as w x h pixels of 4 bytes, in the scratch until its next use. */
int larder__picture_resize(larder__scratch *, const void *bytes, size_t size, uint32_t w,
                           uint32_t h, larder__picture *out);

#endif
