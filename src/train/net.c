#include "train/net.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"

#include <larder/plugin.h>
#include <math.h>
#include <string.h>

enum { LAYERS_MAX = 8, INIT_STREAM = 0x6e6574 };

struct larder__net {
    larder__net_conf conf;
    size_t layers, params;
    larder__layer layer[LAYERS_MAX];
    float *value, *grad, *speed; /* all parameters, layer by layer, weights before biases */
    float *loss;
    float *arena; /* activations and their gradients */
    uint32_t *from;
    float *columns;
};

/* ---- the three nets -------------------------------------------------------------------------- */

static int add(larder__net *net, larder__layer_kind kind, uint32_t out, bool relu) {
    larder_shape in = net->layers ? net->layer[net->layers - 1].out : net->conf.shape;
    if (kind == LARDER__POOL2 && (in.h < 2 || in.w < 2))
        return 0; /* nothing left to pool */
    int rc = larder__layer_plan(&net->layer[net->layers], kind, in, out, relu);
    if (rc == 0)
        net->layers++;
    return rc;
}

static int plan_thin(larder__net *net) {
    int rc = add(net, LARDER__DENSE, 32, true);
    return rc < 0 ? rc : add(net, LARDER__DENSE, net->conf.classes, false);
}

static int plan_mlp(larder__net *net) {
    int rc;
    if ((rc = add(net, LARDER__DENSE, 256, true)) < 0 ||
        (rc = add(net, LARDER__DENSE, 128, true)) < 0)
        return rc;
    return add(net, LARDER__DENSE, net->conf.classes, false);
}

static int plan_cnn(larder__net *net) {
    int rc;
    if ((rc = add(net, LARDER__CONV3, 16, true)) < 0 ||
        (rc = add(net, LARDER__POOL2, 0, false)) < 0 ||
        (rc = add(net, LARDER__CONV3, 32, true)) < 0 ||
        (rc = add(net, LARDER__POOL2, 0, false)) < 0 ||
        (rc = add(net, LARDER__DENSE, 128, true)) < 0)
        return rc;
    return add(net, LARDER__DENSE, net->conf.classes, false);
}

/* The rates were measured on Fashion-MNIST at batches of 128 and scale with nothing else. */
static const struct {
    const char *name;
    int (*plan)(larder__net *);
    double rate;
} kinds[] = {{"thin", plan_thin, 0.05}, {"mlp", plan_mlp, 0.05}, {"cnn", plan_cnn, 0.05}};

double larder__net_rate(const char *kind) {
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(kind, kinds[i].name) == 0)
            return kinds[i].rate;
    return 0.05;
}

static int plan(larder__net *net) {
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(net->conf.kind, kinds[i].name) == 0)
            return kinds[i].plan(net);
    return larder__fail(LARDER_E_ARGS, "there is no net '%s'; there are thin, mlp and cnn",
                        net->conf.kind);
}

/* ---- memory ---------------------------------------------------------------------------------- */

static void *floats(size_t count) { return larder__memalign(64, count * sizeof(float)); }

/* One allocation a purpose, cut up among the layers. */
static int allocate(larder__net *net) {
    size_t batch = net->conf.batch, outputs = 0, pooled = 0, columns = 0;
    for (size_t i = 0; i < net->layers; i++) {
        larder__layer *l = &net->layer[i];
        net->params += l->weights + l->biases;
        outputs += l->out_size;
        if (l->kind == LARDER__POOL2)
            pooled += l->out_size;
        size_t unrolled = l->kind == LARDER__CONV3 ? l->in_size * 9 : 0;
        columns = unrolled > columns ? unrolled : columns;
    }
    if (outputs == 0 || batch == 0 || batch > SIZE_MAX / 64 / outputs)
        return larder__fail(LARDER_E_RANGE, "net: a batch of %zu samples", batch);
    net->value = floats(net->params);
    net->grad = floats(net->params);
    net->speed = larder__calloc(net->params, sizeof *net->speed);
    net->loss = floats(batch);
    net->arena = floats(2 * batch * outputs);
    net->from = larder__malloc((batch * pooled + 1) * sizeof *net->from);
    net->columns = floats(columns + 1);
    if (!net->value || !net->grad || !net->speed || !net->loss || !net->arena || !net->from ||
        !net->columns)
        return larder__fail(LARDER_E_NOMEM, "net: no memory for %zu parameters", net->params);
    return 0;
}

static void hand_out(larder__net *net) {
    float *value = net->value, *grad = net->grad, *at = net->arena;
    uint32_t *from = net->from;
    for (size_t i = 0; i < net->layers; i++) {
        larder__layer *l = &net->layer[i];
        l->w = value, l->grad_w = grad;
        l->b = value + l->weights, l->grad_b = grad + l->weights;
        value += l->weights + l->biases, grad += l->weights + l->biases;
        l->y = at, l->grad_y = at + net->conf.batch * l->out_size;
        at += 2 * net->conf.batch * l->out_size;
        if (l->kind == LARDER__POOL2) {
            l->from = from;
            from += net->conf.batch * l->out_size;
        }
        l->columns = net->columns;
    }
}

static float gauss(larder_rng *rng) { /* Box-Muller; 1 - u is never 0 */
    double radius = sqrt(-2 * log(1 - larder_rng_unit(rng)));
    return (float)(radius * cos(6.283185307179586 * larder_rng_unit(rng)));
}

/* He: a rectifier halves the variance, so layers before one start with 2 / inputs. */
static void initialise(larder__net *net) {
    for (size_t i = 0; i < net->layers; i++) {
        larder__layer *l = &net->layer[i];
        larder_rng rng;
        larder_rng_seed(&rng, net->conf.seed, INIT_STREAM + i);
        size_t inputs = l->kind == LARDER__CONV3 ? (size_t)l->in.c * 9 : l->in_size;
        float sd = sqrtf((l->relu ? 2.0f : 1.0f) / (float)inputs);
        for (size_t k = 0; k < l->weights; k++)
            l->w[k] = sd * gauss(&rng);
        for (size_t k = 0; k < l->biases; k++)
            l->b[k] = 0;
    }
}

int larder__net_open(larder__net **out, const larder__net_conf *conf) {
    *out = NULL;
    if (conf->classes < 2)
        return larder__fail(LARDER_E_RANGE, "net: needs at least two classes, not %u",
                            conf->classes);
    larder__net *net = larder__calloc(1, sizeof *net);
    if (!net)
        return larder__fail(LARDER_E_NOMEM, "net: no memory");
    net->conf = *conf;
    int rc = plan(net);
    if (rc == 0)
        rc = allocate(net);
    if (rc < 0) {
        larder__net_close(&net);
        return rc;
    }
    net->conf.kind = NULL; /* the caller's */
    hand_out(net);
    initialise(net);
    *out = net;
    return 0;
}

void larder__net_close(larder__net **where) {
    larder__net *net = *where;
    if (!net)
        return;
    larder__free(net->value);
    larder__free(net->grad);
    larder__free(net->speed);
    larder__free(net->loss);
    larder__free(net->arena);
    larder__free(net->from);
    larder__free(net->columns);
    larder__free(net);
    *where = NULL;
}

/* ---- training -------------------------------------------------------------------------------- */

/* Cross entropy of one row through log-sum-exp; `grad`, unless NULL, becomes weight (p - onehot).
 */
static float entropy(const float *logits, size_t classes, size_t label, float weight, float *grad) {
    float top = logits[0], sum = 0;
    for (size_t j = 1; j < classes; j++)
        top = logits[j] > top ? logits[j] : top;
    for (size_t j = 0; j < classes; j++)
        sum += expf(logits[j] - top);
    float log_sum = top + logf(sum);
    if (grad) {
        for (size_t j = 0; j < classes; j++)
            grad[j] = weight * expf(logits[j] - log_sum);
        grad[label] -= weight;
    }
    return log_sum - logits[label];
}

static int check(const larder__net *net, const int64_t *y, size_t n) {
    if (n > net->conf.batch)
        return larder__fail(LARDER_E_RANGE, "net: %zu samples in a net opened for %zu", n,
                            net->conf.batch);
    for (size_t i = 0; i < n; i++)
        if (y[i] < 0 || y[i] >= (int64_t)net->conf.classes)
            return larder__fail(LARDER_E_RANGE,
                                "net: label %lld of sample %zu of the batch is not "
                                "one of %u classes",
                                (long long)y[i], i, net->conf.classes);
    return 0;
}

static int forward(larder__net *net, const float *x, const int64_t *y, size_t n,
                   larder__net_result *out) {
    double begun = larder__now();
    int rc = check(net, y, n);
    if (rc < 0)
        return rc;
    for (size_t i = 0; i < net->layers; i++)
        larder__layer_forward(&net->layer[i], i ? net->layer[i - 1].y : x, n);
    const larder__layer *hidden = &net->layer[net->layers - 2], *last = hidden + 1;
    *out = (larder__net_result){.loss = net->loss,
                                .logits = last->y,
                                .embeddings = hidden->y,
                                .dim = hidden->out_size,
                                .forward_seconds = larder__now() - begun};
    return 0;
}

int larder__net_eval(larder__net *net, const float *x, const int64_t *y, size_t n,
                     larder__net_result *out) {
    int rc = forward(net, x, y, n, out);
    size_t classes = net->conf.classes;
    for (size_t i = 0; rc == 0 && i < n; i++)
        net->loss[i] = entropy(out->logits + i * classes, classes, (size_t)y[i], 0, NULL);
    return rc;
}

int larder__net_gradient(larder__net *net, const float *x, const int64_t *y, size_t n,
                         const float *weight, larder__net_result *out) {
    int rc = forward(net, x, y, n, out);
    if (rc < 0)
        return rc;
    size_t classes = net->conf.classes, last = net->layers - 1;
    for (size_t i = 0; i < n; i++)
        net->loss[i] =
            entropy(out->logits + i * classes, classes, (size_t)y[i],
                    (weight ? weight[i] : 1.0f) / (float)n, net->layer[last].grad_y + i * classes);
    for (size_t i = last + 1; i-- > 0;)
        larder__layer_backward(&net->layer[i], i ? net->layer[i - 1].y : x,
                               i ? net->layer[i - 1].grad_y : NULL, n);
    return 0;
}

static void move(float *restrict value, float *restrict speed, const float *restrict grad, size_t n,
                 float momentum, float decay, float rate) {
    for (size_t k = 0; k < n; k++) {
        speed[k] = momentum * speed[k] + grad[k] + decay * value[k];
        value[k] -= rate * speed[k];
    }
}

void larder__net_update(larder__net *net, float rate) {
    size_t at = 0;
    for (size_t i = 0; i < net->layers; i++) {
        const larder__layer *l = &net->layer[i];
        move(l->w, net->speed + at, l->grad_w, l->weights, net->conf.momentum, net->conf.decay,
             rate);
        at += l->weights;
        move(l->b, net->speed + at, l->grad_b, l->biases, net->conf.momentum, 0, rate);
        at += l->biases;
    }
}

int larder__net_step(larder__net *net, const float *x, const int64_t *y, size_t n,
                     const float *weight, float rate, larder__net_result *out) {
    int rc = larder__net_gradient(net, x, y, n, weight, out);
    if (rc == 0)
        larder__net_update(net, rate);
    return rc;
}

size_t larder__net_layers(const larder__net *net) { return net->layers; }
const larder__layer *larder__net_layer(const larder__net *net, size_t i) { return &net->layer[i]; }
