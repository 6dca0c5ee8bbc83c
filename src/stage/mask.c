#include "stage/mask.h"

#include "base/err.h"
#include "stage/codec.h"
#include "stage/scratch.h"

#include <math.h>

/* ---- decoding -------------------------------------------------------------------------------- */

static uint32_t number_at(const uint8_t *p) {
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static uint32_t crc_of(const uint8_t *at, size_t n) {
    uint32_t c = UINT32_MAX;
    for (size_t i = 0; i < n; i++) {
        c ^= at[i];
        for (int b = 0; b < 8; b++)
            c = c >> 1 ^ (c & 1 ? 0xedb88320u : 0);
    }
    return ~c;
}

enum { HEAD = 8, IHDR = 25, COLOUR = HEAD + 17, DEPTH = HEAD + 16 };

static bool has_palette(const uint8_t *b, size_t size) {
    return size > HEAD + IHDR && memcmp(b, "\x89PNG", 4) == 0 && b[COLOUR] == 3;
}

/* The same PNG taken for one of grey levels, without its palette: its numbers are the levels. */
static uint8_t *without_palette(larder__scratch *s, const uint8_t *b, size_t size, size_t *out) {
    uint8_t *to = larder__scratch_take(s, LARDER__BLOCK_VALUE, size);
    if (!to)
        return NULL;
    memcpy(to, b, HEAD + IHDR);
    to[COLOUR] = 0;
    uint32_t sum = crc_of(to + HEAD + 4, 17);
    for (int i = 0; i < 4; i++)
        to[HEAD + 21 + i] = (uint8_t)(sum >> (24 - 8 * i));
    size_t n = HEAD + IHDR;
    for (size_t at = n; at < size;) {
        size_t left = size - at, whole = left;
        if (left >= 12 && number_at(b + at) <= left - 12)
            whole = number_at(b + at) + 12;
        if (left < 8 || memcmp(b + at + 4, "PLTE", 4) != 0) {
            memcpy(to + n, b + at, whole);
            n += whole;
        }
        at += whole;
    }
    *out = n;
    return to;
}

int larder__plane_decode(larder__plane *out, larder__scratch *s, const void *bytes, size_t size) {
    const uint8_t *b = bytes;
    uint8_t unit = 1; /* what one number is as a grey level */
    if (has_palette(b, size)) {
        unit = b[DEPTH] == 1 ? 255 : b[DEPTH] == 2 ? 85 : b[DEPTH] == 4 ? 17 : 1;
        if (!(b = without_palette(s, b, size, &size)))
            return LARDER_E_NOMEM;
    }
    const larder__codec *codec = larder__codec_find(b, size);
    larder__picture pic;
    int rc = codec ? codec->head(s, b, size, &out->w, &out->h) : LARDER_E_FORMAT;
    if (rc == 0)
        rc = codec->pixels(s, b, size, 1, (larder__rect){0, 0, out->w, out->h}, &pic);
    if (rc < 0)
        return rc;
    uint8_t *to = larder__scratch_take(s, LARDER__BLOCK_PLANE, (size_t)out->w * out->h);
    if (!to)
        return LARDER_E_NOMEM;
    out->at = to;
    for (int64_t y = 0; y < out->h; y++) {
        const uint8_t *from = pic.at + (y - pic.is.y0) * pic.row - pic.is.x0 * pic.pixel;
        for (uint32_t x = 0; x < out->w; x++, from += pic.pixel)
            *to++ = (uint8_t)(*from / unit);
    }
    return 0;
}

/* ---- geometry -------------------------------------------------------------------------------- */

/* Which pixel of `side` in all, seen as `seen`, a place of the resampled box shows. */
static int64_t source_of(int64_t at, int64_t box, int64_t len, int64_t full, uint32_t side,
                         uint32_t seen) {
    double in = (double)box + ((double)at + 0.5) * (double)len / (double)full;
    int64_t i = (int64_t)floor(in * side / seen);
    return i < 0 ? 0 : i >= side ? (int64_t)side - 1 : i;
}

int larder__pipeline_mask(const larder__pipeline *p, const larder__plane *m, uint32_t w, uint32_t h,
                          uint64_t seed, uint8_t fill, uint8_t *out) {
    larder_view v;
    int rc = larder__pipeline_place(p, w, h, seed, &v);
    if (rc < 0)
        return rc;
    memset(out, fill, (size_t)(v.w * v.h));
    for (int64_t y = v.vis_y0; y < v.vis_y1; y++) {
        const uint8_t *from =
            m->at + source_of(y, v.box_y, v.box_h, v.full_h, m->h, h) * (int64_t)m->w;
        uint8_t *to = out + (y - v.win_y) * v.w;
        for (int64_t x = v.vis_x0; x < v.vis_x1; x++) {
            int64_t at = x - v.win_x;
            to[v.flipped ? v.w - 1 - at : at] =
                from[source_of(x, v.box_x, v.box_w, v.full_w, m->w, w)];
        }
    }
    return 0;
}

static double clip(double a, int64_t most) {
    return !(a > 0) ? 0 : a > (double)most ? (double)most : a;
}

static void move_axis(float *lo, float *hi, int64_t box, int64_t len, int64_t full, int64_t win,
                      int64_t side, bool flipped) {
    double scale = (double)full / (double)len;
    double a = ((double)*lo - (double)box) * scale - (double)win;
    double b = ((double)*hi - (double)box) * scale - (double)win;
    *lo = (float)clip(flipped ? (double)side - b : a, side);
    *hi = (float)clip(flipped ? (double)side - a : b, side);
}

void larder__box_move(const larder_view *v, float b[4], bool sides) {
    if (sides) {
        b[2] += b[0];
        b[3] += b[1];
    }
    move_axis(&b[0], &b[2], v->box_x, v->box_w, v->full_w, v->win_x, v->w, v->flipped);
    move_axis(&b[1], &b[3], v->box_y, v->box_h, v->full_h, v->win_y, v->h, false);
}
