/* Brightness, contrast, saturation and hue by chance and in random order, as torchvision's
 * ColorJitter. */
#include "base/err.h"
#include "stage/recolour.h"
#include "stage/stage.h"

enum { PARTS = 4 };

typedef struct jitter_state {
    larder__range by[PARTS];
    bool used[PARTS];
    double p;
} jitter_state;

static const char *const names[PARTS] = {"brightness", "contrast", "saturation", "hue"};

static int jitter_init(void *st, const larder_args *args) {
    jitter_state *s = st;
    bool any = false;
    s->p = larder_args_number(args, "p");
    for (int i = 0; i < PARTS; i++) {
        bool hue = i == 3;
        int rc = larder__range_read(&s->by[i], "jitter", args, names[i], hue ? -0.5 : 0,
                                    hue ? 0.5 : 100, hue ? LARDER__AROUND_0 : LARDER__AROUND_1);
        if (rc < 0)
            return rc;
        double still = hue ? 0 : 1;
        s->used[i] = s->by[i].low != still || s->by[i].high != still;
        any |= s->used[i];
    }
    return any ? 0
               : larder__fail(LARDER_E_ARGS, "stage jitter: say which of brightness, contrast, "
                                             "saturation and hue change, and how far");
}

static void change(const larder_canvas *k, int part, double by) {
    if (part == 0)
        larder__brighten(k, by);
    else if (part == 1)
        larder__contrast(k, by);
    else if (part == 2)
        larder__saturate(k, by);
    else
        larder__turn_hue(k, by);
}

static int jitter_canvas(const void *st, larder_canvas *k, larder_rng *rng) {
    const jitter_state *s = st;
    int order[PARTS] = {0, 1, 2, 3};
    if (!larder_canvas_colours(k) || !larder__happens(s->p, rng))
        return 0;
    for (uint32_t i = PARTS; rng && i > 1; i--) {
        uint32_t other = larder_rng_below(rng, i);
        int was = order[i - 1];
        order[i - 1] = order[other];
        order[other] = was;
    }
    for (int i = 0; i < PARTS; i++)
        if (s->used[order[i]])
            change(k, order[i], larder__range_draw(&s->by[order[i]], rng));
    return 0;
}

static const larder_param params[] = {
    {"brightness", "text", "0", "x: 1 - x to 1 + x times, or low/high", 0, 0},
    {"contrast", "text", "0", "x: 1 - x to 1 + x times, or low/high", 0, 0},
    {"saturation", "text", "0", "x: 1 - x to 1 + x times, or low/high", 0, 0},
    {"hue", "text", "0", "x: turned by -x to x of the circle, or low/high, within 0.5", 0, 0},
    LARDER__CHANCE_PARAM("1"),
    {0}};

const larder_stage larder__stage_jitter = {
    .plugin = {"jitter", "brightness, contrast, saturation and hue at random", params,
               sizeof(jitter_state)},
    .random = true,
    .init = jitter_init,
    .canvas = jitter_canvas};
