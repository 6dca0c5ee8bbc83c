/* A window at a random place, after padding with zeros: torchvision's RandomCrop(size, padding). */
#include "base/err.h"
#include "stage/stage.h"

typedef struct crop_state {
    larder__extent to;
    int64_t pad;
} crop_state;

static int crop_init(void *st, const larder_args *args) {
    crop_state *s = st;
    s->pad = (int64_t)larder_args_number(args, "pad");
    return larder__extent_read(&s->to, "crop", args);
}

static int crop_place(const void *st, larder_view *v, larder_rng *rng) {
    const crop_state *s = st;
    int64_t room_w = v->w + 2 * s->pad - s->to.w, room_h = v->h + 2 * s->pad - s->to.h;
    if (room_w < 0 || room_h < 0)
        return larder__fail(LARDER_E_RANGE,
                            "crop of %lld x %lld pixels from a picture of %lld x %lld with %lld of "
                            "padding; resize first or pad more",
                            (long long)s->to.h, (long long)s->to.w, (long long)v->h,
                            (long long)v->w, (long long)s->pad);
    int64_t y = rng ? larder_rng_below(rng, (uint32_t)room_h + 1) : room_h / 2;
    int64_t x = rng ? larder_rng_below(rng, (uint32_t)room_w + 1) : room_w / 2;
    int rc = larder_view_crop(v, -s->pad, -s->pad, v->w + 2 * s->pad, v->h + 2 * s->pad);
    return rc < 0 ? rc : larder_view_crop(v, x, y, s->to.w, s->to.h);
}

static const larder_param params[] = {
    LARDER__EXTENT_PARAMS("both sides in pixels"),
    {"pad", "int", "0", "zeros put around the picture first, in pixels", 0, LARDER__MAX_SIDE},
    {0}};

const larder_stage larder__stage_crop = {
    .plugin = {"crop", "pad with zeros, then a window at a random place", params,
               sizeof(crop_state)},
    .random = true,
    .init = crop_init,
    .place = crop_place};
