/* Driving the signal `graph` in tests, and its slow twin: all embeddings in float64, every pair. */
#ifndef LARDER_TEST_GRAPH_KIT_H
#define LARDER_TEST_GRAPH_KIT_H

#include "plugins.h"

typedef struct graph_kit {
    const larder_signal *s;
    void *st;
    float *scores;
    uint64_t n;
    /* What the last batch named, at most 64 hubs. */
    size_t hubs;
    uint64_t hub_key[64];
    size_t hub_count[64];
    uint64_t hub_first[64]; /* nearest */
} graph_kit;

void graph_kit_open(graph_kit *, uint64_t n, const char *spec);
void graph_kit_close(graph_kit *);
/* One report, through both halves. */
void graph_kit_tell(graph_kit *, const larder_report *);
double graph_kit_figure(const graph_kit *, const char *name);
int graph_kit_restore(graph_kit *, const void *bytes, size_t size);

typedef struct graph_twin {
    uint64_t n;
    size_t dim;
    bool normalise;
    double *x;      /* n x dim */
    int64_t *label; /* -2: not seen */
} graph_twin;

void graph_twin_open(graph_twin *, uint64_t n, size_t dim, bool normalise);
void graph_twin_close(graph_twin *);
void graph_twin_update(graph_twin *, const larder_report *);
/* Neighbours of `id` within the radius. */
void graph_twin_count(const graph_twin *, uint64_t id, double radius, double *same, double *other);
double graph_twin_score(double same, double other, double cap); /* Eq. 4 */

#endif
