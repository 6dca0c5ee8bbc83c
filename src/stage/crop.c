/* A window at a random place, after padding: torchvision's RandomCrop(size, padding, fill,
 * padding_mode). */
#include "base/err.h"
#include "stage/stage.h"

typedef struct crop_state {
    larder__extent to;
    int64_t pad;
    larder_edge edge;
    uint8_t fill[LARDER_CHANNELS_MAX];
    bool enough; /* a picture that is too small is padded further, on both sides */
} crop_state;

static int crop_init(void *st, const larder_args *args) {
    crop_state *s = st;
    s->pad = (int64_t)larder_args_number(args, "pad");
    s->edge = larder__edge_read(args);
    s->enough = larder__yes(args, "enough");
    int rc = larder__fill_read(s->fill, "crop", args);
    return rc < 0 ? rc : larder__extent_read(&s->to, "crop", args);
}

/* What it takes on each side: a picture that is too small by n gets n left and n right. */
static int64_t padding(const crop_state *s, int64_t have, int64_t want) {
    int64_t padded = have + 2 * s->pad;
    return s->pad + (s->enough && padded < want ? want - padded : 0);
}

static int crop_place(const void *st, larder_view *v, larder_rng *rng) {
    const crop_state *s = st;
    int64_t pad_w = padding(s, v->w, s->to.w), pad_h = padding(s, v->h, s->to.h);
    int64_t room_w = v->w + 2 * pad_w - s->to.w, room_h = v->h + 2 * pad_h - s->to.h;
    if (room_w < 0 || room_h < 0)
        return larder__fail(LARDER_E_RANGE,
                            "crop of %lld x %lld pixels from a picture of %lld x %lld with %lld of "
                            "padding; resize first or pad more",
                            (long long)s->to.h, (long long)s->to.w, (long long)v->h,
                            (long long)v->w, (long long)s->pad);
    int64_t y = rng ? larder_rng_below(rng, (uint32_t)room_h + 1) : room_h / 2;
    int64_t x = rng ? larder_rng_below(rng, (uint32_t)room_w + 1) : room_w / 2;
    const int64_t by[4] = {pad_w, pad_h, pad_w, pad_h};
    int rc = s->pad > 0 || s->enough ? larder_view_pad(v, by, s->edge, s->fill) : 0;
    return rc < 0 ? rc : larder_view_crop(v, x, y, s->to.w, s->to.h);
}

static const larder_param params[] = {
    LARDER__EXTENT_PARAMS("both sides in pixels"),
    {"pad", "int", "0", "pixels put around the picture first", 0, LARDER__MAX_SIDE},
    LARDER__FILL_PARAM,
    LARDER__EDGE_PARAM,
    {"enough", "yes|no", "no", "pad pictures that are too small further", 0, 0},
    {0}};

const larder_stage larder__stage_crop = {
    .plugin = {"crop", "pad, then a window at a random place", params, sizeof(crop_state)},
    .random = true,
    .init = crop_init,
    .place = crop_place};
