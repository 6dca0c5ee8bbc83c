/* A box of each row of a batch comes from another, as torchvision's RandomCutmix does. */
#include "stage/beta.h"
#include "stage/stage.h"

#include <math.h>

typedef struct cutmix_state {
    double alpha, p;
} cutmix_state;

static int cutmix_init(void *st, const larder_args *args) {
    cutmix_state *s = st;
    s->alpha = larder_args_number(args, "alpha");
    s->p = larder_args_number(args, "p");
    return 0;
}

static uint32_t within(double v, uint32_t side) {
    return v < 0 ? 0 : v > side ? side : (uint32_t)v;
}

static int cutmix_mix(const void *st, larder_mixing *m, larder_rng *rng) {
    const cutmix_state *s = st;
    if (!larder__happens(s->p, rng))
        return 0;
    double share = larder__beta_draw(s->alpha, rng), half = 0.5 * sqrt(1 - share);
    double x = larder_rng_below(rng, m->w), y = larder_rng_below(rng, m->h);
    double half_w = trunc(half * m->w), half_h = trunc(half * m->h);
    m->x0 = within(x - half_w, m->w);
    m->x1 = within(x + half_w, m->w);
    m->y0 = within(y - half_h, m->h);
    m->y1 = within(y + half_h, m->h);
    m->pasted = true;
    m->weight = 1 - (double)(m->x1 - m->x0) * (m->y1 - m->y0) / ((double)m->w * m->h);
    return 0;
}

static const larder_param params[] = {
    {"alpha", "float", "1", "of the beta distribution of the part that stays", 0.001, 1000},
    LARDER__CHANCE_PARAM("0.5"),
    {0}};

const larder_stage larder__stage_cutmix = {
    .plugin = {"cutmix", "CutMix: a box of each row of a batch comes from another", params,
               sizeof(cutmix_state)},
    .random = true,
    .init = cutmix_init,
    .mix = cutmix_mix};
