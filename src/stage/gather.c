#include "stage/gather.h"

#include "base/clock.h"
#include "base/err.h"

#include <math.h>
#include <string.h>

int larder__origin_head(larder__origin *s, larder__scratch *scratch) {
    double begun = scratch->timed ? larder__now() : 0;
    larder__elsewhere *e = scratch->elsewhere;
    s->codec = larder__codec_find(s->bytes, s->size); /* by the first bytes alone */
    int rc = !s->codec ? LARDER_E_FORMAT
             : e       ? e->head(e, scratch->indices, s->bytes, s->size, &s->w, &s->h)
                       : s->codec->head(scratch, s->bytes, s->size, &s->w, &s->h);
    if (scratch->timed)
        scratch->decode_seconds += larder__now() - begun;
    s->seen_w = s->w;
    s->seen_h = s->h;
    return rc;
}

/* A row of 3-byte pixels as 4 bytes each, whatever the fourth is: it is spare. */
static void widen(uint8_t *to, const uint8_t *from, ptrdiff_t n) {
    for (ptrdiff_t x = 0; x + 1 < n; x++, to += 4, from += 3)
        memcpy(to, from, 4); /* the last one must not be read past its end */
    memcpy(to, from, n > 0 ? 3 : 0);
}

static void spread(uint8_t *to, const uint8_t *from, ptrdiff_t n, ptrdiff_t channels,
                   const larder__picture *as) {
    memset(to, 0, (size_t)n * 4);
    for (ptrdiff_t k = 0; k < channels; k++)
        for (ptrdiff_t x = 0; x < n; x++)
            to[x * 4 + k] = from[x * as->pixel + k * as->channel];
}

/* Raw pixels stay where they are; for resampling what is wanted of them is copied, 4 bytes each. */
static int raw_picture(const larder__origin *s, larder__scratch *scratch, bool repack,
                       larder__rect want, larder__picture *out) {
    ptrdiff_t w = s->w, h = s->h, c = s->c, step = s->step ? s->step : s->c;
    *out = s->layout == LARDER_NHWC ? (larder__picture){s->bytes, w * step, step, 1, {0, 0, w, h}}
                                    : (larder__picture){s->bytes, w, 1, w * h, {0, 0, w, h}};
    if (!repack || s->step == 4) /* those of a canvas: they are so already */
        return 0;
    ptrdiff_t columns = want.x1 - want.x0, rows = want.y1 - want.y0;
    size_t bytes = (size_t)(columns * rows) * 4;
    uint8_t *to = larder__scratch_take(scratch, LARDER__BLOCK_REPACKED, bytes + 64);
    if (!to)
        return LARDER_E_NOMEM;
    for (ptrdiff_t y = 0; y < rows; y++) {
        const uint8_t *from = out->at + (want.y0 + y) * out->row + (ptrdiff_t)want.x0 * out->pixel;
        if (out->pixel == 3 && out->channel == 1)
            widen(to + y * columns * 4, from, columns);
        else
            spread(to + y * columns * 4, from, columns, c, out);
    }
    *out = (larder__picture){to, columns * 4, 4, 1, want};
    return 0;
}

/* The largest shrinking that leaves `gap` times the wanted pixels: the resampling after it still
 * has enough to filter, so the picture stays what a full decode gives, but for a level or two. */
static uint32_t choose_denominator(const larder_view *v, const larder__axis *x,
                                   const larder__axis *y, uint32_t max) {
    uint32_t d = 1;
    while (v->gap > 0 && v->filter != LARDER_NEAREST && !v->aliased && d < max &&
           x->in1 - x->in0 >= v->gap * (double)v->full_w * d * 2 &&
           y->in1 - y->in0 >= v->gap * (double)v->full_h * d * 2)
        d *= 2;
    return d;
}

/* A box of `seen` pixels in all, which are `side` in the picture there is. */
static larder__axis axis_of(int64_t box, int64_t len, int64_t full, int64_t first, int64_t last,
                            uint32_t side, uint32_t seen) {
    return (larder__axis){.in0 = (double)(box * side) / seen,
                          .in1 = (double)((box + len) * side) / seen,
                          .full = full,
                          .first = first,
                          .last = last};
}

static void shrink_axis(larder__axis *a, uint32_t side, uint32_t d) {
    a->in0 /= d;
    a->in1 /= d;
    a->lo = (int64_t)floor(a->in0);
    a->hi = (int64_t)ceil(a->in1);
    int64_t end = ((int64_t)side + d - 1) / d;
    a->hi = a->hi < end ? a->hi : end;
}

int larder__origin_decode(const larder__origin *s, larder__scratch *scratch, bool repack,
                          larder__rect want, larder__picture *out) {
    if (!s->codec)
        return raw_picture(s, scratch, repack, want, out);
    double begun = scratch->timed ? larder__now() : 0;
    larder__elsewhere *e = scratch->elsewhere;
    int rc = e ? e->pixels(e, scratch->indices, s->bytes, s->size, s->denominator, want, out)
               : s->codec->pixels(scratch, s->bytes, s->size, s->denominator, want, out);
    if (scratch->timed)
        scratch->decode_seconds += larder__now() - begun;
    return rc;
}

/* Does it show `full` whole pixels of the picture? Then they stay as they are. */
static bool is_plain(const larder__axis *a) {
    return a->in1 - a->in0 == (double)a->full && a->in0 == floor(a->in0);
}

larder__window larder__gather_window(const larder_view *v, const larder__origin *s,
                                     uint32_t max_denominator) {
    larder__window o = {.denominator = 1};
    o.x = axis_of(v->box_x, v->box_w, v->full_w, v->vis_x0, v->vis_x1, s->w, s->seen_w);
    o.y = axis_of(v->box_y, v->box_h, v->full_h, v->vis_y0, v->vis_y1, s->h, s->seen_h);
    o.x.filter = o.y.filter = v->filter;
    o.x.aliased = o.y.aliased = v->aliased;
    o.resampled = !is_plain(&o.x) || !is_plain(&o.y);
    if (!o.resampled) {
        int64_t x = (int64_t)o.x.in0, y = (int64_t)o.y.in0;
        o.rect = (larder__rect){x + v->vis_x0, y + v->vis_y0, x + v->vis_x1, y + v->vis_y1};
        return o;
    }
    o.denominator = choose_denominator(v, &o.x, &o.y, max_denominator);
    shrink_axis(&o.x, s->w, o.denominator);
    shrink_axis(&o.y, s->h, o.denominator);
    larder__axis_reach(&o.x, &o.rect.x0, &o.rect.x1);
    larder__axis_reach(&o.y, &o.rect.y0, &o.rect.y1);
    return o;
}

/* The visible part of the view as pixels; `at` inside *out is its first one. */
int larder__gather(bool whole, larder__origin *s, larder__scratch *scratch, const larder_view *v,
                   larder__picture *out) {
    larder__window o = larder__gather_window(v, s, s->codec ? s->codec->max_denominator : 1);
    larder__picture in;
    s->denominator = o.denominator;
    const larder__rect all = {0, 0, (s->w + o.denominator - 1) / o.denominator,
                              (s->h + o.denominator - 1) / o.denominator};
    int rc = larder__origin_decode(s, scratch, o.resampled, whole ? all : o.rect, &in);
    if (rc < 0)
        return rc;
    larder__rect want = o.rect;
    if (o.resampled) {
        rc = larder__resample(scratch, &in, &o.x, &o.y, out);
        want = (larder__rect){v->vis_x0, v->vis_y0, v->vis_x1, v->vis_y1};
    } else
        *out = in;
    if (rc == 0)
        out->at += (want.y0 - out->is.y0) * out->row + (want.x0 - out->is.x0) * out->pixel;
    return rc;
}

larder_rect larder__gather_reach(const larder_view *v, uint32_t w, uint32_t h) {
    const larder__origin s = {.w = w, .h = h, .seen_w = w, .seen_h = h};
    larder__window o = larder__gather_window(v, &s, larder__codec_jpeg.max_denominator);
    int64_t d = o.denominator, x1 = o.rect.x1 * d, y1 = o.rect.y1 * d;
    return (larder_rect){(uint32_t)(o.rect.x0 * d), (uint32_t)(o.rect.y0 * d),
                         x1 < w ? (uint32_t)x1 : w, y1 < h ? (uint32_t)y1 : h, (uint32_t)d};
}
