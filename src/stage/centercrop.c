/* The middle, as torchvision's CenterCrop: a smaller picture is padded with zeros. */
#include "stage/stage.h"

#include <math.h>

static int centercrop_init(void *st, const larder_args *args) {
    return larder__extent_read(st, "centercrop", args);
}

/* Where the middle starts. Padding rounds down, cutting rounds half to even: torchvision does. */
static int64_t start_of(int64_t have, int64_t want) {
    return have < want ? -((want - have) / 2) : (int64_t)nearbyint((double)(have - want) / 2);
}

static int centercrop_place(const void *st, larder_view *v, larder_rng *rng) {
    const larder__extent *to = st;
    (void)rng;
    return larder_view_crop(v, start_of(v->w, to->w), start_of(v->h, to->h), to->w, to->h);
}

static const larder_param params[] = {LARDER__EXTENT_PARAMS("both sides in pixels"), {0}};

const larder_stage larder__stage_centercrop = {
    .plugin = {"centercrop", "the middle; zeros around it where the picture is smaller", params,
               sizeof(larder__extent)},
    .init = centercrop_init,
    .place = centercrop_place};
