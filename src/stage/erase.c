/* A rectangle of random place and shape is erased, as torchvision's RandomErasing. */
#include "base/err.h"
#include "stage/stage.h"

#include <math.h>

enum { TRIES = 10 };

typedef struct erase_state {
    double p, value[LARDER_CHANNELS_MAX];
    bool noise;
    larder__range scale, ratio;
} erase_state;

static int read_value(erase_state *s, const larder_args *args) {
    size_t n;
    const char *text = larder_args_text(args, "value");
    s->noise = strcmp(text, "random") == 0;
    if (s->noise)
        return 0;
    int rc = larder__numbers_parse("stage erase: value", text, s->value, LARDER_CHANNELS_MAX, &n);
    if (rc == 0 && n == 0)
        rc = larder__fail(LARDER_E_ARGS, "stage erase: value is a number, one a channel by /, or "
                                         "random");
    for (size_t i = n; rc == 0 && i < LARDER_CHANNELS_MAX; i++)
        s->value[i] = s->value[n - 1];
    return rc;
}

static int erase_init(void *st, const larder_args *args) {
    erase_state *s = st;
    s->p = larder_args_number(args, "p");
    int rc = larder__range_read(&s->scale, "erase", args, "scale", 0, 1, LARDER__BOTH);
    if (rc == 0)
        rc = larder__range_read(&s->ratio, "erase", args, "ratio", 1e-3, 1000, LARDER__BOTH);
    return rc < 0 ? rc : read_value(s, args);
}

/* Of a normal distribution (Box and Muller). */
static double normal(larder_rng *rng) {
    double u = 1 - larder_rng_unit(rng), v = larder_rng_unit(rng);
    return sqrt(-2 * log(u)) * cos(6.28318530717958647692 * v);
}

static void erase_box(const erase_state *s, const larder_row *r, larder_rng *rng, uint32_t x0,
                      uint32_t y0, uint32_t w, uint32_t h) {
    for (uint32_t y = y0; y < y0 + h; y++)
        for (uint32_t x = x0; x < x0 + w; x++) {
            double value[LARDER_CHANNELS_MAX];
            for (uint32_t c = 0; c < r->shape.c; c++)
                value[c] = s->noise ? normal(rng) : s->value[c];
            larder_row_put(r, x, y, value);
        }
}

static int erase_late(const void *st, const larder_row *r, larder_rng *rng) {
    const erase_state *s = st;
    const larder__range log_ratio = {log(s->ratio.low), log(s->ratio.high)};
    if (!rng || !larder__happens(s->p, rng))
        return 0;
    for (int i = 0; i < TRIES; i++) {
        double area = larder__range_draw(&s->scale, rng) * r->shape.w * r->shape.h;
        double ratio = exp(larder__range_draw(&log_ratio, rng));
        double h = nearbyint(sqrt(area * ratio)), w = nearbyint(sqrt(area / ratio));
        if (h >= r->shape.h || w >= r->shape.w)
            continue;
        uint32_t y = larder_rng_below(rng, r->shape.h - (uint32_t)h + 1);
        uint32_t x = larder_rng_below(rng, r->shape.w - (uint32_t)w + 1);
        erase_box(s, r, rng, x, y, (uint32_t)w, (uint32_t)h);
        break;
    }
    return 0;
}

static const larder_param params[] = {
    LARDER__CHANCE_PARAM("0.5"),
    {"scale", "text", "0.02/0.33", "low/high share of the area", 0, 0},
    {"ratio", "text", "0.3/3.3", "low/high height to width", 0, 0},
    {"value", "text", "0", "what is there then: a number, one a channel by /, or random", 0, 0},
    {0}};

const larder_stage larder__stage_erase = {
    .plugin = {"erase", "a random rectangle erased; before normalize or after it", params,
               sizeof(erase_state)},
    .random = true,
    .init = erase_init,
    .late = erase_late};
