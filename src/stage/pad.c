/* Pixels around a picture, as torchvision's Pad. */
#include "base/err.h"
#include "stage/stage.h"

typedef struct pad_state {
    int64_t by[4]; /* left, top, right, bottom */
    larder_edge edge;
    uint8_t fill[LARDER_CHANNELS_MAX];
} pad_state;

static int pad_init(void *st, const larder_args *args) {
    pad_state *s = st;
    double by[4];
    size_t n;
    int rc = larder__numbers_parse("stage pad: by", larder_args_text(args, "by"), by, 4, &n);
    if (rc < 0)
        return rc;
    if (n != 1 && n != 2 && n != 4)
        return larder__fail(LARDER_E_ARGS, "stage pad: by is one number, across/down or "
                                           "left/top/right/bottom");
    for (size_t i = 0; i < 4; i++) {
        double side = by[n == 4 ? i : i % n];
        if (!(side >= 0 && side <= LARDER__MAX_SIDE) || side != (double)(int64_t)side)
            return larder__fail(LARDER_E_ARGS, "stage pad: by has whole numbers within 0 and %d",
                                LARDER__MAX_SIDE);
        s->by[i] = (int64_t)side;
    }
    s->edge = larder__edge_read(args);
    return larder__fill_read(s->fill, "pad", args);
}

static int pad_place(const void *st, larder_view *v, larder_rng *rng) {
    const pad_state *s = st;
    (void)rng;
    return larder_view_pad(v, s->by, s->edge, s->fill);
}

static const larder_param params[] = {
    {"by", "text", "0", "pixels: one number, across/down or left/top/right/bottom", 0, 0},
    LARDER__FILL_PARAM,
    LARDER__EDGE_PARAM,
    {0}};

const larder_stage larder__stage_pad = {
    .plugin = {"pad", "pixels around the picture", params, sizeof(pad_state)},
    .init = pad_init,
    .place = pad_place};
