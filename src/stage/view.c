#include "base/err.h"
#include "stage/stage.h"

static int64_t at_least(int64_t a, int64_t b) { return a > b ? a : b; }
static int64_t at_most(int64_t a, int64_t b) { return a < b ? a : b; }

void larder__view_start(larder_view *v, int64_t w, int64_t h) {
    *v = (larder_view){
        .w = w, .h = h, .box_w = w, .box_h = h, .full_w = w, .full_h = h, .vis_x1 = w, .vis_y1 = h};
}

bool larder__view_coloured(const larder_view *v) {
    static const uint8_t zeros[LARDER_CHANNELS_MAX];
    return v->edge != LARDER_EDGE_FILL || memcmp(v->fill, zeros, sizeof zeros) != 0;
}

bool larder__view_visible(const larder_view *v) {
    return v->vis_x0 < v->vis_x1 && v->vis_y0 < v->vis_y1;
}

larder_view larder__view_needs(const larder_view *v) {
    larder_view all = *v;
    if (v->edge != LARDER_EDGE_FILL) {
        all.vis_x0 = v->edge_x0;
        all.vis_y0 = v->edge_y0;
        all.vis_x1 = v->edge_x1;
        all.vis_y1 = v->edge_y1;
    }
    return all;
}

/* A view can say one resize, then one sort of padding. */
static int not_here(larder_view *v) {
    v->over = true;
    return larder__fail(LARDER_E_ARGS, "it resizes or pads what is resized or padded already");
}

static void window(larder_view *v, int64_t x, int64_t y, int64_t w, int64_t h) {
    /* Everything inside is kept unflipped: the flip is done last, while pixels are written. */
    v->win_x += v->flipped ? v->w - x - w : x;
    v->win_y += v->upended ? v->h - y - h : y;
    v->w = w;
    v->h = h;
    /* For good, even if a later crop keeps none of it: whether a pipeline works is no matter of
     * chance. */
    v->padded |= v->win_x < v->vis_x0 || v->win_y < v->vis_y0 || v->win_x + w > v->vis_x1 ||
                 v->win_y + h > v->vis_y1;
    /* What an earlier crop cut away must not come back when a later one reaches beyond its edge. */
    v->vis_x0 = at_least(v->vis_x0, v->win_x);
    v->vis_y0 = at_least(v->vis_y0, v->win_y);
    v->vis_x1 = at_most(v->vis_x1, v->win_x + w);
    v->vis_y1 = at_most(v->vis_y1, v->win_y + h);
}

int larder_view_crop(larder_view *v, int64_t x, int64_t y, int64_t w, int64_t h) {
    if (w < 1 || h < 1)
        return larder__fail(LARDER_E_RANGE, "a crop of %lld x %lld pixels", (long long)h,
                            (long long)w);
    if (larder__view_coloured(v) && (x < 0 || y < 0 || x + w > v->w || y + h > v->h))
        return not_here(v);
    window(v, x, y, w, h);
    return 0;
}

int larder_view_pad(larder_view *v, const int64_t by[4], larder_edge edge, const uint8_t *fill) {
    static const uint8_t zeros[LARDER_CHANNELS_MAX];
    int64_t w = v->w + by[0] + by[2], h = v->h + by[1] + by[3];
    fill = fill ? fill : zeros;
    if (by[0] < 0 || by[1] < 0 || by[2] < 0 || by[3] < 0 || w > INT32_MAX || h > INT32_MAX)
        return larder__fail(LARDER_E_RANGE, "a picture of %lld x %lld pixels padded to %lld x %lld",
                            (long long)v->h, (long long)v->w, (long long)h, (long long)w);
    if (v->padded &&
        (edge != v->edge || edge != LARDER_EDGE_FILL || memcmp(fill, v->fill, sizeof zeros) != 0))
        return not_here(v);
    int64_t most = (edge == LARDER_EDGE_REFLECT) ? 1 : 0;
    bool mirrors = edge == LARDER_EDGE_REFLECT || edge == LARDER_EDGE_SYMMETRIC;
    if (mirrors && (at_least(by[0], by[2]) > v->w - most || at_least(by[1], by[3]) > v->h - most))
        return larder__fail(LARDER_E_RANGE,
                            "padding mirrors more than a picture of %lld x %lld pixels has",
                            (long long)v->h, (long long)v->w);
    v->padded = true; /* also by nothing: whether a pipeline works is no matter of sizes */
    v->edge = edge;
    memcpy(v->fill, fill, sizeof v->fill);
    v->edge_x0 = v->vis_x0;
    v->edge_y0 = v->vis_y0;
    v->edge_x1 = v->vis_x1;
    v->edge_y1 = v->vis_y1;
    window(v, -by[0], -by[1], w, h);
    return 0;
}

int larder_view_resize(larder_view *v, int64_t w, int64_t h, double gap) {
    if (v->resized || v->padded)
        return not_here(v);
    if (w < 1 || h < 1 || w > INT32_MAX || h > INT32_MAX)
        return larder__fail(LARDER_E_RANGE,
                            "a picture of %lld x %lld pixels resized to %lld x %lld",
                            (long long)v->h, (long long)v->w, (long long)h, (long long)w);
    v->box_x += v->win_x;
    v->box_y += v->win_y;
    v->box_w = v->w;
    v->box_h = v->h;
    v->w = v->full_w = v->vis_x1 = w;
    v->h = v->full_h = v->vis_y1 = h;
    v->win_x = v->win_y = v->vis_x0 = v->vis_y0 = 0;
    v->gap = gap;
    v->resized = true;
    return 0;
}

void larder__view_move(const larder_view *v, double *points, size_t count) {
    for (size_t i = 0; i < count; i++) {
        double *x = &points[2 * i], *y = &points[2 * i + 1];
        *x = (*x - (double)v->box_x) * (double)v->full_w / (double)v->box_w - (double)v->win_x;
        *y = (*y - (double)v->box_y) * (double)v->full_h / (double)v->box_h - (double)v->win_y;
        *x = v->flipped ? (double)v->w - *x : *x;
        *y = v->upended ? (double)v->h - *y : *y;
    }
}
