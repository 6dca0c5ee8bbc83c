/* Samples in other forms than their files: decoded, and shrunk. */
#include "base/err.h"
#include "stage/jpeg_encode.h"
#include "stage/pipeline_inside.h"

#include <stdlib.h>

/* ---- decoded samples ------------------------------------------------------------------------- */

typedef struct pixels_head { /* in front of 3 bytes a pixel, row by row, or of a shrunk sample */
    uint32_t w, h;           /* the size that it has, or had */
} pixels_head;

static uint64_t pixels_size(uint32_t w, uint32_t h) {
    return sizeof(pixels_head) + (uint64_t)w * h * 3;
}

int larder__pipeline_measure(const larder__pipeline *p, larder__scratch *scratch, const void *bytes,
                             size_t size, uint64_t *decoded) {
    larder__origin s = {.bytes = bytes, .size = size};
    int rc = larder__pipeline_head(p, scratch, &s);
    *decoded = rc < 0 ? 0 : s.codec ? pixels_size(s.w, s.h) : size;
    return rc;
}

int larder__pipeline_decode(const larder__pipeline *p, larder__scratch *scratch,
                            larder_buf *encoded, size_t limit, larder_buf **out) {
    larder__origin s = {.bytes = larder_buf_data(encoded), .size = larder_buf_size(encoded)};
    larder__picture pic;
    *out = NULL;
    int rc = larder__pipeline_head(p, scratch, &s);
    if (rc < 0)
        return rc;
    if (!s.codec) {
        *out = s.size <= limit ? larder_buf_ref(encoded) : NULL;
        return 0;
    }
    if (pixels_size(s.w, s.h) > limit)
        return 0;
    rc = larder__origin_decode(&s, scratch, false, (larder__rect){0, 0, s.w, s.h}, &pic);
    if (rc == 0 && !(*out = larder_buf_new((size_t)pixels_size(s.w, s.h))))
        rc = LARDER_E_NOMEM;
    if (rc < 0)
        return rc;
    pixels_head head = {s.w, s.h};
    memcpy(larder_buf_data(*out), &head, sizeof head);
    uint8_t *to = (uint8_t *)larder_buf_data(*out) + sizeof head;
    for (int64_t y = 0; y < s.h; y++) {
        const uint8_t *from = pic.at + (y - pic.is.y0) * pic.row - pic.is.x0 * pic.pixel;
        for (int64_t x = 0; x < s.w; x++, from += pic.pixel, to += 3)
            memcpy(to, from, 3);
    }
    larder__scratch_trim(scratch);
    return 0;
}

/* The pixels of a decoded sample that is not raw: what its head says fits what is there. */
static int open_pixels(const void *bytes, size_t size, larder__origin *s) {
    pixels_head head = {0};
    if (size >= sizeof head)
        memcpy(&head, bytes, sizeof head);
    int rc = larder__codec_limit("decoded sample", head.w, head.h);
    if (rc < 0)
        return rc;
    if (size != pixels_size(head.w, head.h))
        return larder__fail(LARDER_E_FORMAT, "%zu bytes are no decoded sample of %u x %u pixels",
                            size, head.h, head.w);
    *s = (larder__origin){.bytes = (const uint8_t *)bytes + sizeof head,
                          .size = size - sizeof head,
                          .w = head.w,
                          .h = head.h,
                          .seen_w = head.w,
                          .seen_h = head.h,
                          .c = 3,
                          .layout = LARDER_NHWC,
                          .denominator = 1};
    return 0;
}

int larder__pipeline_pixels(const larder__pipeline *p, larder_buf *decoded, larder_item *out) {
    larder__origin s = {.bytes = larder_buf_data(decoded), .size = larder_buf_size(decoded)};
    int rc = p->raw.h ? larder__pipeline_head(p, NULL, &s) : open_pixels(s.bytes, s.size, &s);
    if (rc < 0)
        return rc;
    out->data = s.bytes;
    out->bytes = s.size;
    out->shape = (larder_shape){s.h, s.w, s.c};
    out->layout = s.layout;
    return 0;
}

int larder__pipeline_run_decoded(const larder__pipeline *p, larder__scratch *scratch,
                                 const void *bytes, size_t size, uint64_t seed, void *out) {
    if (p->raw.h)
        return larder__pipeline_run(p, scratch, bytes, size, seed, out);
    larder__origin s;
    int rc = open_pixels(bytes, size, &s);
    return rc < 0 ? rc : larder__pipeline_make(p, scratch, &s, seed, out);
}

/* ---- shrunk samples -------------------------------------------------------------------------- */

/* A few sizes and seeds tell what the stages do: where is the part that they resize, and to what,
 * of a picture and of one half its size? */
static bool in_proportion(const larder__pipeline *p, uint64_t seed, int64_t w, int64_t h,
                          larder_view *v) {
    larder_view half;
    larder__view_start(v, w, h);
    larder__view_start(&half, w / 2, h / 2);
    size_t at = 0, half_at = 0;
    if (larder__leg_place(p, &at, seed, v) < 0 || larder__leg_place(p, &half_at, seed, &half) < 0 ||
        !v->resized)
        return false;
    int64_t off = (w + h) / 100; /* rounding */
    return llabs(v->box_x - 2 * half.box_x) <= off && llabs(v->box_y - 2 * half.box_y) <= off &&
           llabs(v->box_w - 2 * half.box_w) <= off && llabs(v->box_h - 2 * half.box_h) <= off;
}

uint32_t larder__pipeline_side(const larder__pipeline *p) {
    enum { LONG = 8000, SHORT = 6000, SEEDS = 16 };
    larder_view wide = {0}, high = {0};
    bool parts = false;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        if (!in_proportion(p, seed, LONG, SHORT, &wide) ||
            !in_proportion(p, seed, SHORT, LONG, &high))
            return 0;
        parts |= wide.box_w < LONG || wide.box_h < SHORT;
    }
    bool fixed = wide.full_w == high.full_w; /* else one side follows from the picture's shape */
    int64_t least = wide.full_w < wide.full_h ? wide.full_w : wide.full_h;
    int64_t most = wide.full_w < wide.full_h ? wide.full_h : wide.full_w;
    int64_t side = fixed ? most : least;
    return (uint32_t)(parts ? (side * 10 + 6) / 7 : side);
}

double larder__pipeline_level(const larder__pipeline *p, uint32_t channel) {
    return p->dtype == LARDER_U8 ? 1 : p->tone.scale[channel];
}

/* The gap as resize and rrc have it. */
static int scale(larder__origin *s, larder__scratch *scratch, uint32_t w, uint32_t h,
                 larder__picture *out) {
    const double gap = 2;
    larder_view v;
    if (w == s->w && h == s->h)
        return larder__origin_decode(s, scratch, true, (larder__rect){0, 0, w, h}, out);
    larder__view_start(&v, s->w, s->h);
    int rc = larder_view_resize(&v, w, h, gap);
    return rc < 0 ? rc : larder__gather(false, s, scratch, &v, out);
}

int larder__picture_resize(larder__scratch *scratch, const void *bytes, size_t size, uint32_t w,
                           uint32_t h, larder__picture *out) {
    larder__origin s = {.bytes = bytes, .size = size, .denominator = 1};
    int rc = larder__origin_head(&s, scratch);
    return rc < 0 ? rc : scale(&s, scratch, w, h, out);
}

/* As resize counts, so that what it makes of both has the same size. */
static void shorten(uint32_t *w, uint32_t *h, uint32_t side) {
    uint32_t shorter = *w < *h ? *w : *h;
    if (side == 0 || shorter <= side)
        return;
    *w = (uint32_t)((double)((uint64_t)side * *w) / shorter);
    *h = (uint32_t)((double)((uint64_t)side * *h) / shorter);
}

int larder__pipeline_shrink(const larder__pipeline *p, larder__scratch *scratch,
                            larder_buf *encoded, const larder__shrink *to, larder_buf **out) {
    larder__origin s = {.bytes = larder_buf_data(encoded), .size = larder_buf_size(encoded)};
    larder__picture pic;
    const uint8_t *bytes = NULL;
    size_t size = 0;
    *out = NULL;
    int rc = larder__pipeline_head(p, scratch, &s);
    uint32_t w = s.w, h = s.h;
    larder__jpeg_conf conf = {.quality = to->quality,
                              .grey = !s.codec && s.c == 1,
                              .bare = true,
                              .limit = s.size - s.size / 10};
    pixels_head head = {s.w, s.h};
    conf.limit = conf.limit > sizeof head ? conf.limit - sizeof head : 0;
    shorten(&w, &h, to->side);
    if (rc == 0)
        rc = scale(&s, scratch, w, h, &pic);
    if (rc == 0)
        rc = larder__jpeg_encode(scratch, &pic, w, h, &conf, &bytes, &size);
    if (rc == 0 && bytes && !(*out = larder_buf_new(sizeof head + size)))
        rc = LARDER_E_NOMEM;
    if (*out) {
        memcpy(larder_buf_data(*out), &head, sizeof head);
        memcpy((uint8_t *)larder_buf_data(*out) + sizeof head, bytes, size);
    }
    larder__scratch_trim(scratch);
    return rc;
}

int larder__pipeline_run_shrunk(const larder__pipeline *p, larder__scratch *scratch,
                                const void *bytes, size_t size, uint64_t seed, void *out) {
    pixels_head head = {0};
    if (size < sizeof head)
        return larder__fail(LARDER_E_FORMAT, "%zu bytes are no shrunk sample", size);
    memcpy(&head, bytes, sizeof head);
    larder__origin s = {.bytes = (const uint8_t *)bytes + sizeof head,
                        .size = size - sizeof head,
                        .denominator = 1};
    int rc = larder__codec_limit("shrunk sample", head.w, head.h);
    if (rc == 0)
        rc = larder__origin_head(&s, scratch);
    s.seen_w = head.w;
    s.seen_h = head.h;
    return rc < 0 ? rc : larder__pipeline_make(p, scratch, &s, seed, out);
}
