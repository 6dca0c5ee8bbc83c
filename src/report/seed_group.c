#include "report/seed_group.h"

#include "base/err.h"
#include "base/mem.h"

#include <math.h>
#include <string.h>

bool larder__meta_alike(const larder__meta *a, const larder__meta *b) {
    return strcmp(a->source, b->source) == 0 && strcmp(a->recipe, b->recipe) == 0 &&
           strcmp(a->cache, b->cache) == 0 && strcmp(a->slow, b->slow) == 0 &&
           strcmp(a->net, b->net) == 0 && strcmp(a->augment, b->augment) == 0 &&
           strcmp(a->version, b->version) == 0 && strcmp(a->machine, b->machine) == 0 &&
           a->samples == b->samples && a->batch == b->batch && a->epochs_asked == b->epochs_asked &&
           (a->rate == b->rate || isnan(a->rate));
}

/* A run that was cut short is no seed of a whole one: its figures are of fewer epochs. */
static bool one_group(const larder__run *a, const larder__run *b) {
    return larder__meta_alike(&a->meta, &b->meta) && a->count == b->count &&
           larder__run_whole(a) == larder__run_whole(b);
}

/* Seeds make a spread; the same seed again is the same setting, but a run of its own beside it
 * would hide that nothing was varied, so it counts all the same. */
static void name_group(larder__seed_group *g) {
    larder__meta *m = &g->mean.meta;
    *m = g->runs[0]->meta;
    for (size_t i = 1; i < g->count; i++)
        if (strcmp(g->runs[i]->meta.name, m->name) != 0)
            memcpy(m->name, m->recipe, sizeof m->name);
}

static int make_mean(larder__seed_group *g) {
    size_t epochs = g->runs[0]->count;
    name_group(g);
    g->mean.epochs = larder__calloc(epochs + 1, sizeof *g->mean.epochs);
    if (!g->mean.epochs)
        return larder__fail(LARDER_E_NOMEM, "report: no memory");
    g->mean.count = epochs;
    for (size_t e = 0; e < epochs; e++)
        g->mean.epochs[e] = larder__epoch_mean(g->runs, g->count, e);
    return 0;
}

int larder__groups_make(larder__seed_groups *out, const larder__run *runs, size_t count) {
    *out = (larder__seed_groups){0};
    out->at = larder__calloc(count + 1, sizeof *out->at);
    out->room = larder__calloc(count + 1, sizeof *out->room);
    if (!out->at || !out->room) {
        larder__groups_free(out);
        return larder__fail(LARDER_E_NOMEM, "report: no memory");
    }
    size_t used = 0;
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < count; i++) {
        bool taken = false;
        for (size_t g = 0; g < out->count; g++)
            taken |= one_group(out->at[g].runs[0], &runs[i]);
        if (taken)
            continue;
        larder__seed_group *g = &out->at[out->count++];
        g->runs = out->room + used;
        for (size_t k = i; k < count; k++)
            if (one_group(&runs[i], &runs[k]))
                g->runs[g->count++] = &runs[k];
        used += g->count;
        out->several |= g->count > 1;
        rc = make_mean(g);
    }
    if (rc < 0)
        larder__groups_free(out);
    return rc;
}

void larder__groups_free(larder__seed_groups *g) {
    for (size_t i = 0; g->at && i < g->count; i++)
        larder__run_free(&g->at[i].mean);
    larder__free(g->at);
    larder__free(g->room);
    *g = (larder__seed_groups){0};
}

larder__spread larder__group_spread(const larder__seed_group *g, const larder__metric *m) {
    enum { MOST = 1024 };
    double values[MOST];
    size_t n = g->count < MOST ? g->count : MOST;
    for (size_t i = 0; i < n; i++)
        values[i] = larder__metric_of(m, g->runs[i]);
    return larder__spread_of(values, n);
}
