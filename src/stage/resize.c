/* To a fixed size, or the shorter side to one number as torchvision's Resize(int) counts it. */
#include "stage/stage.h"

typedef struct resize_state {
    larder__extent to;
    bool shorter; /* keep the shape, only the shorter side is given */
    double gap;
} resize_state;

static int resize_init(void *st, const larder_args *args) {
    resize_state *s = st;
    s->shorter = larder_args_number(args, "size") > 0;
    s->gap = larder_args_number(args, "gap");
    return larder__extent_read(&s->to, "resize", args);
}

static int resize_place(const void *st, larder_view *v, larder_rng *rng) {
    const resize_state *s = st;
    (void)rng;
    int64_t w = s->to.w, h = s->to.h;
    if (s->shorter && v->w <= v->h)
        h = (int64_t)((double)(w * v->h) / (double)v->w);
    else if (s->shorter)
        w = (int64_t)((double)(h * v->w) / (double)v->h);
    return larder_view_resize(v, w, h, s->gap);
}

static const larder_param params[] = {
    LARDER__EXTENT_PARAMS("shorter side in pixels; the longer follows"),
    {"gap", "float", "2", "JPEG may be decoded smaller while gap x the target is left; 0: never", 0,
     16},
    {0}};

const larder_stage larder__stage_resize = {
    .plugin = {"resize", "resize, bilinear with antialias", params, sizeof(resize_state)},
    .init = resize_init,
    .place = resize_place};
