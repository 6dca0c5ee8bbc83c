#include "stage/warp.h"

#include "base/clones.h"
#include "base/err.h"
#include "stage/canvas.h"

#include <math.h>

static const double radians = 3.14159265358979323846 / 180;

void larder__warp_affine(larder__warp *o, const larder__turn *t) {
    double turn = t->angle * radians, sx = t->shear[0] * radians, sy = t->shear[1] * radians;
    double a = cos(turn - sy) / cos(sy);
    double b = -cos(turn - sy) * tan(sx) / cos(sy) - sin(turn);
    double c = sin(turn - sy) / cos(sy);
    double d = -sin(turn - sy) * tan(sx) / cos(sy) + cos(turn);
    double x = -t->centre[0] - t->move[0], y = -t->centre[1] - t->move[1];
    double m[6] = {d / t->scale, -b / t->scale, 0, -c / t->scale, a / t->scale, 0};
    m[2] = m[0] * x + m[1] * y + t->centre[0];
    m[5] = m[3] * x + m[4] * y + t->centre[1];
    memcpy(o->at, m, sizeof o->at);
}

static double short_of(double v) { return nearbyint(v * 1e15) / 1e15; }

void larder__warp_rotate(larder__warp *o, double degrees, bool expand) {
    double turn = -(degrees - 360 * floor(degrees / 360)) * radians, w = o->w, h = o->h;
    double *m = o->at;
    m[0] = m[4] = short_of(cos(turn));
    m[1] = short_of(sin(turn));
    m[3] = short_of(-sin(turn));
    m[2] = m[0] * -(w / 2) + m[1] * -(h / 2) + w / 2;
    m[5] = m[3] * -(w / 2) + m[4] * -(h / 2) + h / 2;
    if (!expand)
        return;
    double x0 = INFINITY, y0 = INFINITY, x1 = -INFINITY, y1 = -INFINITY;
    for (int i = 0; i < 4; i++) {
        double cx = i & 1 ? w : 0, cy = i & 2 ? h : 0;
        double x = m[0] * cx + m[1] * cy + m[2], y = m[3] * cx + m[4] * cy + m[5];
        x0 = fmin(x0, x);
        x1 = fmax(x1, x);
        y0 = fmin(y0, y);
        y1 = fmax(y1, y);
    }
    double nw = ceil(x1) - floor(x0), nh = ceil(y1) - floor(y0);
    double x = -(nw - w) / 2, y = -(nh - h) / 2;
    m[2] = m[0] * x + m[1] * y + m[2];
    m[5] = m[3] * x + m[4] * y + m[5];
    o->w = (uint32_t)nw;
    o->h = (uint32_t)nh;
}

/* ---- nearest pixel --------------------------------------------------------------------------- */

/* Steps 0..n-1 of base + i * step that are within 0..limit-1: from..to-1. */
static void within(int64_t base, int64_t step, int64_t limit, int64_t *from, int64_t *to) {
    int64_t first = 0, end = *to;
    if (step == 0)
        end = base >= 0 && base < limit ? end : 0;
    else if (step > 0) {
        first = base < 0 ? (-base + step - 1) / step : 0;
        end = base < limit ? (limit - base + step - 1) / step : 0;
    } else {
        first = base >= limit ? (base - limit) / -step + 1 : 0;
        end = base >= 0 ? base / -step + 1 : 0;
    }
    *from = first > *from ? first : *from;
    *to = end < *to ? end : *to;
}

LARDER__INLINE void pick_row(uint8_t *restrict to, const uint8_t *restrict at, int64_t n,
                             uint32_t xx, uint32_t yy, uint32_t dx, uint32_t dy, uint32_t w,
                             uint32_t step) {
    for (int64_t i = 0; i < n; i++) {
        uint32_t from = ((yy + (uint32_t)i * dy) >> 16) * w + ((xx + (uint32_t)i * dx) >> 16);
        memcpy(to + i * step, at + (size_t)from * step, step);
    }
}

typedef struct picking { /* 16 bits after the point, as Pillow counts */
    int64_t x, y, across_x, across_y, down_x, down_y;
} picking;

LARDER__CLONES
static void pick_rows(const larder_canvas *k, uint8_t *to, uint32_t w, uint32_t h, picking f) {
    for (uint32_t y = 0; y < h; y++, f.x += f.down_x, f.y += f.down_y, to += (size_t)w * k->step) {
        int64_t from = 0, end = w;
        within(f.x, f.across_x, (int64_t)k->w << 16, &from, &end);
        within(f.y, f.across_y, (int64_t)k->h << 16, &from, &end);
        if (from >= end)
            continue;
        uint32_t xx = (uint32_t)(f.x + from * f.across_x), dx = (uint32_t)f.across_x;
        uint32_t yy = (uint32_t)(f.y + from * f.across_y), dy = (uint32_t)f.across_y;
        if (k->step == 4)
            pick_row(to + from * 4, k->at, end - from, xx, yy, dx, dy, k->w, 4);
        else
            pick_row(to + from, k->at, end - from, xx, yy, dx, dy, k->w, 1);
    }
}

static int64_t fixed(double v) { return (int64_t)floor(v * 65536.0 + 0.5); }

static void nearest(const larder_canvas *k, const larder__warp *o, uint8_t *to) {
    const double *m = o->at;
    picking f = {fixed(m[2] + m[0] * 0.5 + m[1] * 0.5),
                 fixed(m[5] + m[3] * 0.5 + m[4] * 0.5),
                 fixed(m[0]),
                 fixed(m[3]),
                 fixed(m[1]),
                 fixed(m[4])};
    pick_rows(k, to, o->w, o->h, f);
}

/* Neither turned nor sheared: rows and columns each have one place. */
static void nearest_scaled(const larder_canvas *k, const larder__warp *o, uint8_t *to) {
    double y = o->at[5] + o->at[4] * 0.5;
    for (uint32_t j = 0; j < o->h; j++, y += o->at[4], to += (size_t)o->w * k->step) {
        double x = o->at[2] + o->at[0] * 0.5;
        for (uint32_t i = 0; y >= 0 && y < k->h && i < o->w; i++, x += o->at[0])
            if (x >= 0 && x < k->w)
                memcpy(to + (size_t)i * k->step, k->at + ((size_t)y * k->w + (size_t)x) * k->step,
                       k->step);
    }
}

/* ---- between pixels -------------------------------------------------------------------------- */

static int64_t clamped(int64_t i, uint32_t n) { return i < 0 ? 0 : i < n ? i : n - 1; }

static float cubic(const float v[4], float d) {
    float p2 = v[2] - v[0], p3 = 2 * (v[0] - v[1]) + v[2] - v[3];
    float p4 = -v[0] + v[1] - v[2] + v[3];
    return v[1] + d * (p2 + d * (p3 + d * p4));
}

/* One channel from `taps` x `taps` pixels; rows beyond the edge are as the one before them. */
static float between(const larder_canvas *k, const uint8_t *at, int64_t x, int64_t y, int taps,
                     float dx, float dy) {
    float rows[4] = {0};
    for (int j = 0; j < taps; j++) {
        int64_t line = taps == 2 || j == 0 ? clamped(y + j, k->h) : y + j;
        if (j > 0 && (y + j < 0 || y + j >= k->h)) {
            rows[j] = rows[j - 1];
            continue;
        }
        float v[4] = {0};
        for (int i = 0; i < taps; i++)
            v[i] = at[((size_t)line * k->w + (size_t)clamped(x + i, k->w)) * k->step];
        rows[j] = taps == 2 ? v[0] + (v[1] - v[0]) * dx : cubic(v, dx);
    }
    return taps == 2 ? rows[0] + (rows[1] - rows[0]) * dy : cubic(rows, dy);
}

static void smooth_pixel(const larder_canvas *k, uint8_t *to, double x, double y, int taps) {
    int64_t left = (int64_t)floor(x - 0.5), top = (int64_t)floor(y - 0.5);
    float dx = (float)(x - 0.5 - (double)left), dy = (float)(y - 0.5 - (double)top);
    if (taps == 4) {
        left--;
        top--;
    }
    for (uint32_t c = 0; c < k->c; c++) {
        float v = between(k, k->at + c, left, top, taps, dx, dy);
        to[c] = (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v);
    }
}

static void smooth(const larder_canvas *k, const larder__warp *o, uint8_t *to) {
    const double *m = o->at;
    int taps = o->filter == LARDER_BICUBIC ? 4 : 2;
    for (uint32_t j = 0; j < o->h; j++)
        for (uint32_t i = 0; i < o->w; i++, to += k->step) {
            double x = m[0] * (i + 0.5) + m[1] * (j + 0.5) + m[2];
            double y = m[3] * (i + 0.5) + m[4] * (j + 0.5) + m[5];
            if (x >= 0 && x < k->w && y >= 0 && y < k->h)
                smooth_pixel(k, to, x, y, taps);
        }
}

/* ---- all of it ------------------------------------------------------------------------------- */

static void move_points(const larder_canvas *k, const double m[6]) {
    double det = m[0] * m[4] - m[1] * m[3];
    for (size_t i = 0; i < k->count; i++) {
        double x = k->points[2 * i] - m[2], y = k->points[2 * i + 1] - m[5];
        k->points[2 * i] = (x * m[4] - y * m[1]) / det;
        k->points[2 * i + 1] = (y * m[0] - x * m[3]) / det;
    }
}

LARDER__CLONES
static void fill_canvas(uint8_t *to, size_t n, const uint8_t *fill, uint32_t step) {
    if (step == 1)
        memset(to, fill[0], n);
    else
        for (size_t i = 0; i < n; i++)
            memcpy(to + i * 4, fill, 4);
}

int larder__warp_run(larder_canvas *k, const larder__warp *o) {
    if (!(fabs(o->at[0] * o->at[4] - o->at[1] * o->at[3]) > 1e-12))
        return larder__fail(LARDER_E_ARGS, "nothing is left of a picture that is sheared so");
    if (k->at && (uint64_t)o->w * o->h > LARDER__MAX_PIXELS)
        return larder__codec_limit("canvas", o->w, o->h);
    if (k->at && (k->w > UINT16_MAX || k->h > UINT16_MAX)) /* pixels are counted in 16 bits */
        return larder__fail(LARDER_E_RANGE,
                            "a picture of %u x %u pixels is turned or sheared; at "
                            "most %d a side can be: make it smaller before",
                            k->h, k->w, UINT16_MAX);
    move_points(k, o->at);
    if (k->at) {
        uint8_t *to = k->beside(k, o->w, o->h);
        if (!to)
            return LARDER_E_NOMEM;
        static const uint8_t nothing[LARDER_CHANNELS_MAX];
        fill_canvas(to, (size_t)o->w * o->h, k->mask ? nothing : o->fill, k->step);
        if (!k->mask && o->filter != LARDER_NEAREST)
            smooth(k, o, to);
        else if (o->at[1] == 0 && o->at[3] == 0)
            nearest_scaled(k, o, to);
        else
            nearest(k, o, to);
        k->at = to;
    }
    k->w = o->w;
    k->h = o->h;
    return 0;
}
