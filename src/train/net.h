/* The reference net: small, real, and the same on every machine that has the same BLAS. It closes
 * the loop around the loader: batches go in, loss, logits and hidden-layer embeddings come out and
 * go back through larder_loader_report. One thread calls it; its products may use more. */
#ifndef LARDER_TRAIN_NET_H
#define LARDER_TRAIN_NET_H

#include "train/layer.h"

typedef struct larder__net larder__net;

typedef struct larder__net_conf {
    const char *kind;   /* "thin", "mlp" or "cnn" */
    larder_shape shape; /* of one sample, f32 NCHW */
    uint32_t classes;
    size_t batch;   /* the most samples of one call */
    uint64_t seed;  /* of the first weights */
    float momentum; /* 0.9 */
    float decay;    /* of the weights, not of biases; 0: none */
} larder__net_conf;

typedef struct larder__net_result { /* of the last call; lent until the next one */
    const float *loss;              /* n, cross entropy of each sample, unweighted */
    const float *logits;            /* n x classes */
    const float *embeddings;        /* n x dim: the last hidden layer */
    size_t dim;
    double forward_seconds; /* until all of these but the losses were there */
} larder__net_result;

int larder__net_open(larder__net **out, const larder__net_conf *);
void larder__net_close(larder__net **);

/* Forward only. A label outside 0..classes-1 is E_RANGE. */
int larder__net_eval(larder__net *, const float *x, const int64_t *y, size_t n,
                     larder__net_result *out);
/* Forward, and the gradient of sum(weight * loss) / n; no weight is 1. */
int larder__net_gradient(larder__net *, const float *x, const int64_t *y, size_t n,
                         const float *weight, larder__net_result *out);
/* Moves the weights along the last gradient. */
void larder__net_update(larder__net *, float rate);
/* Gradient, then update. */
int larder__net_step(larder__net *, const float *x, const int64_t *y, size_t n, const float *weight,
                     float rate, larder__net_result *out);

size_t larder__net_layers(const larder__net *);
const larder__layer *larder__net_layer(const larder__net *, size_t i);
double larder__net_rate(const char *kind); /* a first rate that suits this kind */

#endif
