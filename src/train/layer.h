/* The layers of the reference net: dense, 3x3 convolution with a border of one, 2x2 maximum. Each
 * works on a whole batch, planes in NCHW order; a rectifier may sit right behind dense and
 * convolution. Sizes are fixed when the net is opened. */
#ifndef LARDER_TRAIN_LAYER_H
#define LARDER_TRAIN_LAYER_H

#include <larder/larder.h>

typedef enum { LARDER__DENSE, LARDER__CONV3, LARDER__POOL2 } larder__layer_kind;

typedef struct larder__layer {
    larder__layer_kind kind;
    bool relu;
    larder_shape in, out;
    size_t in_size, out_size; /* floats of one sample */
    size_t weights, biases;   /* how many; 0 for pool */
    float *w, *b;             /* dense: in_size x out_size; conv: out.c x (in.c 3 3) */
    float *grad_w, *grad_b;
    float *y, *grad_y; /* batch x out_size; grad_y is also worked on in place */
    uint32_t *from;    /* pool: where in the sample's input each maximum was */
    float *columns;    /* conv: one sample unrolled, (in.c 3 3) x (h w) */
} larder__layer;

/* Fills kind, shapes and sizes; `out` planes or units. E_RANGE when sizes pass all bounds. */
int larder__layer_plan(larder__layer *, larder__layer_kind, larder_shape in, uint32_t out,
                       bool relu);
/* y from x, n samples. */
void larder__layer_forward(const larder__layer *, const float *x, size_t n);
/* grad_w, grad_b and, unless NULL, grad_x from grad_y. */
void larder__layer_backward(const larder__layer *, const float *x, float *grad_x, size_t n);

#endif
