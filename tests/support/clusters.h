/* Embeddings as a network's last layer gives them, made up: each class has a non-negative centre
 * and 48 directions of its own whose strengths fall off by a power law; samples differ in spread,
 * one in twenty lies between two classes, there is a little noise in all directions, and ReLU cuts
 * off what is negative. Any sample can be made at any time from its id, so that a million of them
 * need no memory. `moved` > 0 shifts them a little, as training does. */
#ifndef LARDER_TEST_CLUSTERS_H
#define LARDER_TEST_CLUSTERS_H

#include "base/clones.h"

#include <larder/plugin.h>
#include <math.h>
#include <stdlib.h>

enum { CLUSTER_RANK = 48 };

typedef struct clusters {
    uint32_t dim, classes;
    double spread; /* standard deviation of ln(spread) */
    float *centres, *directions;
} clusters;

/* Nearly normal, from one number: the sum of four uniform ones. */
static inline float clusters_normal(larder_rng *r) {
    uint64_t x = larder_rng_next(r);
    double sum = (double)(x & 0xffff) + (double)(x >> 16 & 0xffff) + (double)(x >> 32 & 0xffff) +
                 (double)(x >> 48);
    return (float)((sum / 65536 - 2) * 1.7320508);
}

static inline void clusters_close(clusters *c) {
    free(c->centres);
    free(c->directions);
}

static inline bool clusters_open(clusters *c, uint32_t dim, uint32_t classes, double spread) {
    *c = (clusters){.dim = dim, .classes = classes, .spread = spread};
    c->centres = malloc((size_t)classes * dim * sizeof(float));
    c->directions = malloc((size_t)classes * CLUSTER_RANK * dim * sizeof(float));
    if (!c->centres || !c->directions)
        return false;
    larder_rng rng;
    larder_rng_seed(&rng, 1, dim + classes);
    for (size_t i = 0; i < (size_t)classes * dim; i++) {
        float x = fabsf(clusters_normal(&rng));
        c->centres[i] = larder_rng_next(&rng) & 1 ? x : 0;
    }
    for (size_t k = 0; k < (size_t)classes * CLUSTER_RANK; k++) {
        float strength = 0.5f * powf((float)(k % CLUSTER_RANK + 1), -0.7f);
        for (uint32_t i = 0; i < dim; i++)
            c->directions[k * dim + i] = strength * clusters_normal(&rng);
    }
    return true;
}

static inline uint32_t clusters_class(const clusters *c, uint64_t id) {
    return (uint32_t)(id % c->classes);
}

LARDER__CLONES
static void clusters_add(float *to, const float *from, float factor, uint32_t n) {
    for (uint32_t i = 0; i < n; i++)
        to[i] += factor * from[i];
}

/* Not yet of unit length. */
static inline void clusters_sample(const clusters *c, uint64_t id, uint64_t moved, float *x) {
    larder_rng rng;
    larder_rng_seed(&rng, id, 77);
    uint32_t class = clusters_class(c, id), other = larder_rng_below(&rng, c->classes);
    float spread = expf((float)c->spread * clusters_normal(&rng)), mix = 0;
    if (larder_rng_below(&rng, 20) == 0)
        mix = 0.6f * (float)larder_rng_unit(&rng);
    for (uint32_t i = 0; i < c->dim; i++)
        x[i] = 0;
    clusters_add(x, c->centres + (size_t) class * c->dim, 1 - mix, c->dim);
    clusters_add(x, c->centres + (size_t)other * c->dim, mix, c->dim);
    for (int k = 0; k < CLUSTER_RANK; k++)
        clusters_add(x, c->directions + ((size_t) class * CLUSTER_RANK + (size_t)k) * c->dim,
                     spread * (1 - mix) * clusters_normal(&rng), c->dim);
    for (uint32_t i = 0; i < c->dim; i++)
        x[i] += 0.05f * clusters_normal(&rng);
    if (moved) {
        larder_rng_seed(&rng, id, 1000 + moved);
        for (uint32_t i = 0; i < c->dim; i++)
            x[i] += 0.02f * clusters_normal(&rng);
    }
    for (uint32_t i = 0; i < c->dim; i++)
        x[i] = x[i] > 0 ? x[i] : 0;
}

#endif
