/* Turned, moved, scaled and sheared at random, as torchvision's RandomAffine. */
#include "base/err.h"
#include "stage/stage.h"
#include "stage/warp.h"

#include <math.h>

typedef struct affine_state {
    larder__range degrees, scale, shear[2];
    double move[2]; /* shares of the width and the height */
    larder_filter filter;
    uint8_t fill[LARDER_CHANNELS_MAX];
} affine_state;

static int read_shear(affine_state *s, const larder_args *args) {
    double v[4] = {0, 0, 0, 0};
    size_t n;
    int rc =
        larder__numbers_parse("stage affine: shear", larder_args_text(args, "shear"), v, 4, &n);
    if (rc < 0)
        return rc;
    if (n == 1) {
        v[1] = v[0];
        v[0] = -v[1];
    }
    for (size_t i = 0; i < 4; i++)
        if (!(fabs(v[i]) < 90) || (i % 2 && v[i] < v[i - 1]) || n == 0 || n == 3)
            return larder__fail(LARDER_E_ARGS,
                                "stage affine: shear is x (from -x to x), low/high, or that across "
                                "and down, below 90 degrees");
    s->shear[0] = (larder__range){v[0], v[1]};
    s->shear[1] = (larder__range){v[2], v[3]};
    return 0;
}

static int read_move(affine_state *s, const larder_args *args) {
    size_t n;
    int rc = larder__numbers_parse("stage affine: translate", larder_args_text(args, "translate"),
                                   s->move, 2, &n);
    if (rc < 0)
        return rc;
    s->move[1] = n == 1 ? s->move[0] : s->move[1];
    for (int i = 0; i < 2; i++)
        if (n == 0 || !(s->move[i] >= 0 && s->move[i] <= 1))
            return larder__fail(LARDER_E_ARGS,
                                "stage affine: translate is a share of 0 to 1, or across/down");
    return 0;
}

static int affine_init(void *st, const larder_args *args) {
    affine_state *s = st;
    s->filter = larder__filter_read(args);
    int rc =
        larder__range_read(&s->degrees, "affine", args, "degrees", -3600, 3600, LARDER__AROUND_0);
    if (rc == 0)
        rc = larder__range_read(&s->scale, "affine", args, "scale", 0.01, 100, LARDER__BOTH);
    if (rc == 0)
        rc = read_shear(s, args);
    if (rc == 0)
        rc = read_move(s, args);
    return rc < 0 ? rc : larder__fill_read(s->fill, "affine", args);
}

static int affine_canvas(const void *st, larder_canvas *k, larder_rng *rng) {
    const affine_state *s = st;
    larder__warp o = {.w = k->w, .h = k->h, .filter = s->filter, .fill = s->fill};
    larder__turn t = {.centre = {k->w * 0.5, k->h * 0.5}};
    t.angle = larder__range_draw(&s->degrees, rng);
    for (int i = 0; i < 2; i++) {
        double most = s->move[i] * (i ? k->h : k->w);
        t.move[i] = nearbyint(larder__range_draw(&(larder__range){-most, most}, rng));
    }
    t.scale = larder__range_draw(&s->scale, rng);
    t.shear[0] = larder__range_draw(&s->shear[0], rng);
    t.shear[1] = larder__range_draw(&s->shear[1], rng);
    larder__warp_affine(&o, &t);
    return larder__warp_run(k, &o);
}

static const larder_param params[] = {
    {"degrees", "text", "0", "x: turned from -x to x, or low/high", 0, 0},
    {"translate", "text", "0", "moved by at most this share of the side, or across/down", 0, 0},
    {"scale", "text", "1", "times as large: a number, or low/high", 0, 0},
    {"shear", "text", "0", "degrees across: x, low/high, or low/high/low/high with those down", 0,
     0},
    LARDER__FILTER_PARAM("nearest"),
    LARDER__FILL_PARAM,
    {0}};

const larder_stage larder__stage_affine = {.plugin = {"affine",
                                                      "turned, moved, scaled and sheared at random",
                                                      params, sizeof(affine_state)},
                                           .random = true,
                                           .init = affine_init,
                                           .canvas = affine_canvas};
