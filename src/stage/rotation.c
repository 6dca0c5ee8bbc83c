/* Turned by a random angle, as torchvision's RandomRotation. */
#include "stage/stage.h"
#include "stage/warp.h"

typedef struct rotation_state {
    larder__range degrees;
    bool expand;
    larder_filter filter;
    uint8_t fill[LARDER_CHANNELS_MAX];
} rotation_state;

static int rotation_init(void *st, const larder_args *args) {
    rotation_state *s = st;
    s->expand = larder__yes(args, "expand");
    s->filter = larder__filter_read(args);
    int rc =
        larder__range_read(&s->degrees, "rotation", args, "degrees", -3600, 3600, LARDER__AROUND_0);
    return rc < 0 ? rc : larder__fill_read(s->fill, "rotation", args);
}

static int rotation_canvas(const void *st, larder_canvas *k, larder_rng *rng) {
    const rotation_state *s = st;
    larder__warp o = {.w = k->w, .h = k->h, .filter = s->filter, .fill = s->fill};
    larder__warp_rotate(&o, larder__range_draw(&s->degrees, rng), s->expand);
    return larder__warp_run(k, &o);
}

static const larder_param params[] = {
    {"degrees", "text", "30", "x: from -x to x, or low/high; counter-clockwise", 0, 0},
    LARDER__FILTER_PARAM("nearest"),
    LARDER__FILL_PARAM,
    {"expand", "yes|no", "no", "as large as it takes to show all of it", 0, 0},
    {0}};

const larder_stage larder__stage_rotation = {
    .plugin = {"rotation", "turned by a random angle", params, sizeof(rotation_state)},
    .random = true,
    .init = rotation_init,
    .canvas = rotation_canvas};
