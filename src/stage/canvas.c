#include "stage/canvas.h"

#include "base/clones.h"
#include "base/err.h"
#include "stage/stage.h"

#include <string.h>

enum { SPARE = 64 }; /* bytes that may be read past the end */

static uint8_t *beside(larder_canvas *k, uint32_t w, uint32_t h) {
    larder__scratch *s = ((larder__canvas *)k->inside)->scratch;
    bool first = s->block[LARDER__BLOCK_CANVAS] && k->at == s->block[LARDER__BLOCK_CANVAS];
    return larder__scratch_take(s, first ? LARDER__BLOCK_BESIDE : LARDER__BLOCK_CANVAS,
                                (size_t)w * h * k->step + SPARE);
}

void *larder__canvas_work(const larder_canvas *k, size_t bytes) {
    return larder__scratch_take(((larder__canvas *)k->inside)->scratch, LARDER__BLOCK_WORK, bytes);
}

void larder__canvas_start(larder__canvas *k, larder__scratch *scratch, uint32_t c, bool mask) {
    *k = (larder__canvas){.is = {.c = c, .step = c == 1 ? 1 : 4, .mask = mask, .beside = beside},
                          .scratch = scratch};
    k->is.inside = k;
}

/* ---- laying out ------------------------------------------------------------------------------ */

/* Where pixel i of a side comes from: counted from `from`, or -1: the fill colour. */
static int64_t source_of(const larder_view *v, int64_t i, int64_t from, int64_t to) {
    int64_t n = to - from;
    i -= from;
    if (i >= 0 && i < n)
        return i;
    switch (v->edge) {
    case LARDER_EDGE_REPEAT:
        return i < 0 ? 0 : n - 1;
    case LARDER_EDGE_REFLECT:
        return i < 0 ? -i : 2 * n - 2 - i;
    case LARDER_EDGE_SYMMETRIC:
        return i < 0 ? -1 - i : 2 * n - 1 - i;
    default:
        return -1;
    }
}

static void copy_pixel(uint8_t *to, const uint8_t *from, ptrdiff_t channel,
                       const larder_canvas *k) {
    for (uint32_t c = 0; c < k->c; c++)
        to[c] = from[(ptrdiff_t)c * channel];
}

LARDER__INLINE void copy_words(uint8_t *restrict to, const uint8_t *restrict from, int64_t n,
                               bool back) {
    if (!back) {
        memcpy(to, from, (size_t)n * 4);
        return;
    }
    for (int64_t x = 0; x < n; x++) {
        uint32_t word;
        memcpy(&word, from + (n - 1 - x) * 4, 4);
        memcpy(to + x * 4, &word, 4);
    }
}

/* All of it visible, in words. */
LARDER__CLONES
static void lay_plain(uint8_t *to, const larder__picture *p, const larder_view *v) {
    for (int64_t y = 0; y < v->h; y++)
        copy_words(to + y * v->w * 4, p->at + (v->upended ? v->h - 1 - y : y) * p->row, v->w,
                   v->flipped);
}

static void lay_row(uint8_t *to, const larder_canvas *k, const larder__picture *p,
                    const larder_view *v, int64_t y, const int32_t *columns) {
    int64_t sy = source_of(v, v->win_y + (v->upended ? v->h - 1 - y : y), v->vis_y0, v->vis_y1);
    for (int64_t x = 0; x < v->w; x++, to += k->step) {
        int32_t sx = columns[v->flipped ? v->w - 1 - x : x];
        if (sy < 0 || sx < 0 || !p->at)
            copy_pixel(to, v->fill, 1, k);
        else
            copy_pixel(to, p->at + sy * p->row + sx * p->pixel, p->channel, k);
    }
}

int larder__canvas_lay(larder__canvas *k, const larder__picture *p, const larder_view *seen,
                       bool last) {
    larder_view all = larder__view_needs(seen);
    const larder_view *v = &all;
    bool plain = p->at && p->pixel == 4 && p->channel == 1 && k->is.step == 4 &&
                 v->vis_x0 == v->win_x && v->vis_x1 == v->win_x + v->w && v->vis_y0 == v->win_y &&
                 v->vis_y1 == v->win_y + v->h;
    if (last && plain && !v->flipped && !v->upended && p->row == v->w * 4 &&
        p->at == k->scratch->block[LARDER__BLOCK_RESIZED]) {
        k->is.at = k->scratch->block[LARDER__BLOCK_RESIZED];
        k->is.w = (uint32_t)v->w;
        k->is.h = (uint32_t)v->h;
        return 0;
    }
    uint8_t *to = beside(&k->is, (uint32_t)v->w, (uint32_t)v->h);
    int32_t *columns = larder__canvas_work(&k->is, (size_t)v->w * sizeof *columns);
    if (!to || !columns)
        return LARDER_E_NOMEM;
    k->is.at = to;
    k->is.w = (uint32_t)v->w;
    k->is.h = (uint32_t)v->h;
    if (plain) {
        lay_plain(to, p, v);
        return 0;
    }
    memset(to, 0, (size_t)v->w * (size_t)v->h * k->is.step);
    for (int64_t x = 0; x < v->w; x++)
        columns[x] = (int32_t)source_of(v, v->win_x + x, v->vis_x0, v->vis_x1);
    for (int64_t y = 0; y < v->h; y++)
        lay_row(to + (size_t)(y * v->w) * k->is.step, &k->is, p, v, y, columns);
    return 0;
}

/* ---- for stages ------------------------------------------------------------------------------ */

void larder__canvas_look_up(const larder_canvas *k, uint8_t table[LARDER_CHANNELS_MAX][256]) {
    size_t n = (size_t)k->w * k->h;
    uint8_t *at = k->at;
    if (k->step == 1)
        for (size_t i = 0; i < n; i++)
            at[i] = table[0][at[i]];
    else
        for (size_t i = 0; i < n; i++, at += 4) {
            at[0] = table[0][at[0]];
            at[1] = table[1][at[1]];
            at[2] = table[2][at[2]];
            at[3] = table[3][at[3]];
        }
}
