/* Each row of a batch blended with another, as torchvision's RandomMixup does. */
#include "stage/beta.h"
#include "stage/stage.h"

typedef struct mixup_state {
    double alpha, p;
} mixup_state;

static int mixup_init(void *st, const larder_args *args) {
    mixup_state *s = st;
    s->alpha = larder_args_number(args, "alpha");
    s->p = larder_args_number(args, "p");
    return 0;
}

static int mixup_mix(const void *st, larder_mixing *m, larder_rng *rng) {
    const mixup_state *s = st;
    if (larder__happens(s->p, rng))
        m->weight = larder__beta_draw(s->alpha, rng);
    return 0;
}

static const larder_param params[] = {
    {"alpha", "float", "1", "of the beta distribution of the weight", 0.001, 1000},
    LARDER__CHANCE_PARAM("0.5"),
    {0}};

const larder_stage larder__stage_mixup = {
    .plugin = {"mixup", "MixUp: rows of a batch blended with each other", params,
               sizeof(mixup_state)},
    .random = true,
    .init = mixup_init,
    .mix = mixup_mix};
