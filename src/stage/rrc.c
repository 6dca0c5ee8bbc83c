/* Random resized crop, drawn as torchvision's RandomResizedCrop draws it: area uniform, ratio
 * log-uniform, ten tries, then the largest middle part with an allowed ratio. */
#include "base/err.h"
#include "stage/stage.h"

#include <math.h>

#define TRIES 10

typedef struct rrc_state {
    larder__extent to;
    double scale[2], ratio[2], log_ratio[2], gap;
    larder_filter filter;
    bool aliased;
} rrc_state;

static int read_range(double out[2], const char *name, const larder_args *args, double max) {
    char what[32] = "stage rrc: ";
    strncat(what, name, sizeof what - strlen(what) - 1);
    size_t n;
    int rc = larder__numbers_parse(what, larder_args_text(args, name), out, 2, &n);
    if (rc < 0)
        return rc;
    if (n != 2 || !(out[0] > 0) || out[1] < out[0] || out[1] > max)
        return larder__fail(LARDER_E_ARGS, "%s is low/high with 0 < low <= high <= %g", what, max);
    return 0;
}

static int rrc_init(void *st, const larder_args *args) {
    rrc_state *s = st;
    s->gap = larder_args_number(args, "gap");
    s->filter = larder__filter_read(args);
    s->aliased = !larder__yes(args, "antialias");
    int rc = larder__extent_read(&s->to, "rrc", args);
    if (rc == 0)
        rc = read_range(s->scale, "scale", args, 1);
    if (rc == 0)
        rc = read_range(s->ratio, "ratio", args, 1000);
    for (int i = 0; rc == 0 && i < 2; i++)
        s->log_ratio[i] = log(s->ratio[i]);
    return rc;
}

static double between(larder_rng *rng, const double range[2]) {
    return range[0] + larder_rng_unit(rng) * (range[1] - range[0]);
}

/* No try fitted: the middle, as large as the ratio allows. */
static void fall_back(const rrc_state *s, const larder_view *v, int64_t *w, int64_t *h) {
    double ratio = (double)v->w / (double)v->h;
    *w = v->w;
    *h = v->h;
    if (ratio < s->ratio[0])
        *h = (int64_t)nearbyint((double)v->w / s->ratio[0]);
    else if (ratio > s->ratio[1])
        *w = (int64_t)nearbyint((double)v->h * s->ratio[1]);
    /* Rounding at the limits may step over the edge or to nothing. */
    *w = *w < 1 ? 1 : *w > v->w ? v->w : *w;
    *h = *h < 1 ? 1 : *h > v->h ? v->h : *h;
}

static int rrc_place(const void *st, larder_view *v, larder_rng *rng) {
    const rrc_state *s = st;
    int64_t w = 0, h = 0, x, y;
    bool fits = false;
    for (int i = 0; rng && i < TRIES && !fits; i++) {
        double area = (double)v->w * (double)v->h * between(rng, s->scale);
        double ratio = exp(between(rng, s->log_ratio));
        w = (int64_t)nearbyint(sqrt(area * ratio));
        h = (int64_t)nearbyint(sqrt(area / ratio));
        fits = w > 0 && w <= v->w && h > 0 && h <= v->h;
    }
    if (fits) {
        y = larder_rng_below(rng, (uint32_t)(v->h - h) + 1);
        x = larder_rng_below(rng, (uint32_t)(v->w - w) + 1);
    } else {
        fall_back(s, v, &w, &h);
        y = (v->h - h) / 2;
        x = (v->w - w) / 2;
    }
    v->filter = s->filter;
    v->aliased = s->aliased;
    int rc = larder_view_crop(v, x, y, w, h);
    return rc < 0 ? rc : larder_view_resize(v, s->to.w, s->to.h, s->gap);
}

static const larder_param params[] = {
    LARDER__EXTENT_PARAMS("both sides of the result in pixels"),
    {"scale", "text", "0.08/1", "low/high share of the picture's area", 0, 0},
    {"ratio", "text", "0.75/1.3333333333333333", "low/high width to height", 0, 0},
    LARDER__FILTER_PARAM("bilinear"),
    LARDER__ALIAS_PARAM,
    {"gap", "float", "2", "JPEG may be decoded smaller while gap x the target is left; 0: never", 0,
     16},
    {0}};

const larder_stage larder__stage_rrc = {
    .plugin = {"rrc", "random resized crop: a part of random area and shape, resized", params,
               sizeof(rrc_state)},
    .random = true,
    .init = rrc_init,
    .place = rrc_place};
