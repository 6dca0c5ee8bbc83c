/* A Gaussian of random width, as torchvision's GaussianBlur. */
#include "base/err.h"
#include "stage/recolour.h"
#include "stage/stage.h"

typedef struct blur_state {
    uint32_t w, h;
    larder__range sigma;
    double p;
} blur_state;

static int blur_init(void *st, const larder_args *args) {
    enum { MOST = 255 };
    blur_state *s = st;
    double sides[2] = {0, 0};
    size_t n;
    int rc =
        larder__numbers_parse("stage blur: kernel", larder_args_text(args, "kernel"), sides, 2, &n);
    if (rc < 0)
        return rc;
    for (size_t i = 0; i < n; i++)
        if (!(sides[i] >= 1 && sides[i] <= MOST) || (int)sides[i] % 2 == 0 ||
            sides[i] != (double)(int)sides[i])
            n = 0;
    if (n == 0)
        return larder__fail(LARDER_E_ARGS,
                            "stage blur: kernel is an odd number up to %d, or width/height", MOST);
    s->w = (uint32_t)sides[0];
    s->h = (uint32_t)sides[n - 1];
    s->p = larder_args_number(args, "p");
    return larder__range_read(&s->sigma, "blur", args, "sigma", 1e-3, 1000, LARDER__BOTH);
}

static int blur_canvas(const void *st, larder_canvas *k, larder_rng *rng) {
    const blur_state *s = st;
    bool happens = larder__happens(s->p, rng);
    double sigma = larder__range_draw(&s->sigma, rng);
    return happens && larder_canvas_colours(k) ? larder__blur(k, s->w, s->h, sigma) : 0;
}

static const larder_param params[] = {
    {"kernel", "text", "3", "pixels that are summed, odd: one number, or width/height", 0, 0},
    {"sigma", "text", "0.1/2", "width of the bell in pixels: a number, or low/high", 0, 0},
    LARDER__CHANCE_PARAM("1"),
    {0}};

const larder_stage larder__stage_blur = {
    .plugin = {"blur", "Gaussian blur of random width", params, sizeof(blur_state)},
    .random = true,
    .init = blur_init,
    .canvas = blur_canvas};
