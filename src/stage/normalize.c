/* (value - mean) / std per channel, values scaled to 0..1 first as ToTensor does. */
#include "base/err.h"
#include "stage/stage.h"

typedef struct normalize_state {
    size_t n; /* 1: the same for all channels */
    double mean[LARDER_CHANNELS_MAX], std[LARDER_CHANNELS_MAX];
} normalize_state;

static const struct {
    const char *name;
    normalize_state is;
} presets[] = {{"imagenet", {3, {0.485, 0.456, 0.406}, {0.229, 0.224, 0.225}}},
               {"cifar10", {3, {0.4914, 0.4822, 0.4465}, {0.2470, 0.2435, 0.2616}}},
               {"cifar100", {3, {0.5071, 0.4865, 0.4409}, {0.2673, 0.2564, 0.2762}}},
               {"mnist", {1, {0.1307}, {0.3081}}},
               {"fashion", {1, {0.2860}, {0.3530}}}};

static int read_lists(normalize_state *s, const larder_args *args) {
    size_t means = 0, stds = 0;
    int rc = larder__numbers_parse("stage normalize: mean", larder_args_text(args, "mean"), s->mean,
                                   LARDER_CHANNELS_MAX, &means);
    if (rc == 0)
        rc = larder__numbers_parse("stage normalize: std", larder_args_text(args, "std"), s->std,
                                   LARDER_CHANNELS_MAX, &stds);
    if (rc != 0)
        return rc;
    if (means == 0 || means != stds)
        return larder__fail(LARDER_E_ARGS, "stage normalize: say preset=imagenet, cifar10, mnist … "
                                           "or mean=a/b/c,std=a/b/c with as many of each");
    for (size_t i = 0; i < stds; i++)
        if (!(s->std[i] > 1e-6))
            return larder__fail(LARDER_E_ARGS, "stage normalize: std is above 0, not %g",
                                s->std[i]);
    s->n = means;
    return 0;
}

static int normalize_init(void *st, const larder_args *args) {
    const char *preset = larder_args_text(args, "preset");
    if (strcmp(preset, "none") == 0)
        return read_lists(st, args);
    if (larder_args_text(args, "mean")[0] || larder_args_text(args, "std")[0])
        return larder__fail(LARDER_E_ARGS, "stage normalize: either a preset or mean and std");
    for (size_t i = 0; i < sizeof presets / sizeof *presets; i++)
        if (strcmp(preset, presets[i].name) == 0)
            *(normalize_state *)st = presets[i].is;
    return 0;
}

static int normalize_tone(const void *st, larder_tone *t, larder_rng *rng) {
    const normalize_state *s = st;
    (void)rng;
    if (s->n != 1 && s->n != t->channels)
        return larder__fail(LARDER_E_ARGS, "stage normalize: %zu means for pictures of %u channels",
                            s->n, t->channels);
    for (uint32_t c = 0; c < t->channels; c++) {
        size_t i = s->n == 1 ? 0 : c;
        t->scale[c] /= s->std[i];
        t->bias[c] = (t->bias[c] - s->mean[i]) / s->std[i];
    }
    return 0;
}

static const larder_param params[] = {
    {"mean", "text", "", "one number, or one a channel joined by /, of values 0..1", 0, 0},
    {"std", "text", "", "one number, or one a channel joined by /, of values 0..1", 0, 0},
    {"preset", "none|imagenet|cifar10|cifar100|mnist|fashion", "none", "mean and std of a data set",
     0, 0},
    {0}};

const larder_stage larder__stage_normalize = {
    .plugin = {"normalize", "(value - mean) / std per channel, values 0..1", params,
               sizeof(normalize_state)},
    .init = normalize_init,
    .tone = normalize_tone};
