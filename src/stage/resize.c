/* To a fixed size, or the shorter side to one number as torchvision's Resize(int) counts it. */
#include "base/err.h"
#include "stage/stage.h"

typedef struct resize_state {
    larder__extent to;
    bool shorter; /* keep the shape, only the shorter side is given */
    int64_t most; /* of the longer side; 0: any */
    double gap;
    larder_filter filter;
    bool aliased;
} resize_state;

static int resize_init(void *st, const larder_args *args) {
    resize_state *s = st;
    s->shorter = larder_args_number(args, "size") > 0;
    s->gap = larder_args_number(args, "gap");
    s->most = (int64_t)larder_args_number(args, "max");
    s->filter = larder__filter_read(args);
    s->aliased = !larder__yes(args, "antialias");
    int rc = larder__extent_read(&s->to, "resize", args);
    if (rc == 0 && s->most > 0 && (!s->shorter || s->most <= s->to.w))
        rc = larder__fail(LARDER_E_ARGS,
                          "stage resize: max is more than size, and not with h and w");
    return rc;
}

static int resize_place(const void *st, larder_view *v, larder_rng *rng) {
    const resize_state *s = st;
    (void)rng;
    int64_t w = s->to.w, h = s->to.h;
    if (s->shorter && v->w <= v->h)
        h = (int64_t)((double)(w * v->h) / (double)v->w);
    else if (s->shorter)
        w = (int64_t)((double)(h * v->w) / (double)v->h);
    int64_t longer = w > h ? w : h, shorter = w > h ? h : w;
    if (s->most > 0 && longer > s->most) {
        shorter = (int64_t)((double)(s->most * shorter) / (double)longer);
        w = w > h ? s->most : shorter;
        h = w == s->most ? shorter : s->most;
    }
    v->filter = s->filter;
    v->aliased = s->aliased;
    return larder_view_resize(v, w, h, s->gap);
}

static const larder_param params[] = {
    LARDER__EXTENT_PARAMS("shorter side in pixels; the longer follows"),
    {"max", "int", "0", "with size: the longer side is no more; the shorter follows", 0,
     LARDER__MAX_SIDE},
    LARDER__FILTER_PARAM("bilinear"),
    LARDER__ALIAS_PARAM,
    {"gap", "float", "2", "JPEG may be decoded smaller while gap x the target is left; 0: never", 0,
     16},
    {0}};

const larder_stage larder__stage_resize = {.plugin = {"resize",
                                                      "resize, bilinear with antialias unless said",
                                                      params, sizeof(resize_state)},
                                           .init = resize_init,
                                           .place = resize_place};
