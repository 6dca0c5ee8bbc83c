#include "stage/blueprint.h"

#include "stage/pipeline_inside.h"

#include <string.h>

extern const larder_stage larder__stage_jitter, larder__stage_grey, larder__stage_invert,
    larder__stage_posterize, larder__stage_solarize;

/* Those that call the functions of recolour.h that note, and nothing else. */
static bool only_recolours(const larder_stage *s) {
    static const larder_stage *const known[] = {&larder__stage_jitter, &larder__stage_grey,
                                                &larder__stage_invert, &larder__stage_posterize,
                                                &larder__stage_solarize};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(s->plugin.name, known[i]->plugin.name) == 0 && s->canvas == known[i]->canvas)
            return true;
    return false;
}

/* Does padding of this stage mirror or repeat? Tried on a picture large enough for most. */
static bool mirrors(const larder__pipeline *p, size_t i) {
    larder_view v;
    larder_rng rng;
    larder__view_start(&v, 1600, 1200);
    return p->steps[i].stage->place(p->steps[i].state, &v, larder__step_chance(p, i, 1, &rng)) ==
               0 &&
           v.edge != LARDER_EDGE_FILL;
}

const char *larder__pipeline_unsayable(const larder__pipeline *p) {
    bool painted = false;
    for (size_t i = 0; i < p->count; i++) {
        const larder_stage *s = p->steps[i].stage;
        if (s->late || s->pixels || (s->canvas && !only_recolours(s)) || (s->place && painted) ||
            (s->place && mirrors(p, i)) || (s->tone && s->random))
            return s->plugin.name;
        painted |= s->canvas != NULL;
    }
    return NULL;
}

static bool say_colours(const larder__pipeline *p, size_t at, uint64_t seed,
                        larder__recolours *out) {
    larder__canvas k;
    uint8_t none[LARDER_CHANNELS_MAX]; /* it is there; nobody looks */
    out->count = 0;
    larder__canvas_start(&k, NULL, p->shape.c, false);
    k.noted = out;
    k.is.at = none;
    k.is.w = p->shape.w;
    k.is.h = p->shape.h;
    int rc = larder__leg_paint(p, &at, seed, &k);
    return rc == 0 && at == p->worth && out->count <= LARDER__RECOLOURS_MOST;
}

int larder__pipeline_blueprint(const larder__pipeline *p, uint32_t w, uint32_t h, uint32_t seen_w,
                               uint32_t seen_h, uint64_t seed, larder__blueprint *out) {
    const larder__origin s = {.w = w, .h = h, .seen_w = seen_w, .seen_h = seen_h};
    larder_view v;
    size_t at = 0;
    larder__view_start(&v, seen_w, seen_h);
    if (larder__leg_place(p, &at, seed, &v) < 0 || v.w != p->shape.w || v.h != p->shape.h ||
        v.edge != LARDER_EDGE_FILL || !say_colours(p, at, seed, &out->colours))
        return 0;
    out->flipped = v.flipped;
    out->upended = v.upended;
    memcpy(out->fill, v.fill, sizeof out->fill);
    out->filled = (larder__rect){0};
    out->window = (larder__window){0};
    if (!larder__view_visible(&v))
        return 1;
    out->window = larder__gather_window(&v, &s, 1);
    out->filled = (larder__rect){v.vis_x0 - v.win_x, v.vis_y0 - v.win_y, v.vis_x1 - v.win_x,
                                 v.vis_y1 - v.win_y};
    return 1;
}
