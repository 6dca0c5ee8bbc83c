#include "base/err.h"
#include "stage/stage.h"

static int64_t at_least(int64_t a, int64_t b) { return a > b ? a : b; }
static int64_t at_most(int64_t a, int64_t b) { return a < b ? a : b; }

void larder__view_start(larder_view *v, int64_t w, int64_t h) {
    *v = (larder_view){
        .w = w, .h = h, .box_w = w, .box_h = h, .full_w = w, .full_h = h, .vis_x1 = w, .vis_y1 = h};
}

int larder_view_crop(larder_view *v, int64_t x, int64_t y, int64_t w, int64_t h) {
    if (w < 1 || h < 1)
        return larder__fail(LARDER_E_RANGE, "a crop of %lld x %lld pixels", (long long)h,
                            (long long)w);
    /* Everything inside is kept unflipped: the flip is done last, while pixels are written. */
    v->win_x += v->flipped ? v->w - x - w : x;
    v->win_y += y;
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
    return 0;
}

int larder_view_resize(larder_view *v, int64_t w, int64_t h, double gap) {
    if (v->resized)
        return larder__fail(LARDER_E_ARGS, "only one resize or rrc fits in a pipeline");
    if (v->padded)
        return larder__fail(LARDER_E_ARGS, "resize and rrc stand before a stage that pads");
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
