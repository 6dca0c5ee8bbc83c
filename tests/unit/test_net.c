/* The net against a slow twin: the same layers written as plain loops in double precision. The
 * twin's central differences check the net's gradients to a precision fp32 differences never had.
 */
#include "check.h"

#include "base/gemm.h"
#include "base/mem.h"
#include "train/net.h"

#include <larder/plugin.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { WIDEST = 4096 };

/* ---- the twin -------------------------------------------------------------------------------- */

static double conv_at(const larder__layer *l, const double *x, size_t o, long y, long q) {
    double sum = (double)l->b[o];
    for (long c = 0; c < (long)l->in.c; c++)
        for (long dy = 0; dy < 3; dy++)
            for (long dx = 0; dx < 3; dx++) {
                long row = y + dy - 1, column = q + dx - 1;
                if (row < 0 || column < 0 || row >= (long)l->in.h || column >= (long)l->in.w)
                    continue;
                sum += (double)l->w[o * l->in.c * 9 + (size_t)(c * 9 + dy * 3 + dx)] *
                       x[(c * (long)l->in.h + row) * (long)l->in.w + column];
            }
    return sum;
}

static double pool_at(const larder__layer *l, const double *x, size_t c, size_t y, size_t q) {
    const double *at = x + (c * l->in.h + 2 * y) * l->in.w + 2 * q;
    return fmax(fmax(at[0], at[1]), fmax(at[l->in.w], at[l->in.w + 1]));
}

static void twin_layer(const larder__layer *l, const double *x, double *out) {
    size_t k = 0;
    for (size_t c = 0; c < l->out.c; c++)
        for (size_t y = 0; y < l->out.h; y++)
            for (size_t q = 0; q < l->out.w; q++, k++) {
                double v = 0;
                if (l->kind == LARDER__CONV3) {
                    v = conv_at(l, x, c, (long)y, (long)q);
                } else if (l->kind == LARDER__POOL2) {
                    v = pool_at(l, x, c, y, q);
                } else {
                    v = (double)l->b[c];
                    for (size_t i = 0; i < l->in_size; i++)
                        v += x[i] * (double)l->w[i * l->out_size + c];
                }
                out[k] = l->relu && v < 0 ? 0 : v;
            }
}

/* Logits of one sample into out (WIDEST wide). */
static void twin_logits(const larder__net *net, const float *x, double *out) {
    double other[WIDEST];
    size_t layers = larder__net_layers(net), n = larder__net_layer(net, 0)->in_size;
    for (size_t i = 0; i < n; i++)
        out[i] = (double)x[i];
    for (size_t i = 0; i < layers; i++) {
        const larder__layer *l = larder__net_layer(net, i);
        assert_true(l->out_size <= WIDEST);
        memcpy(other, out, sizeof other);
        twin_layer(l, other, out);
    }
}

static double twin_loss(const larder__net *net, const float *x, const int64_t *y, size_t n,
                        const float *weight, size_t classes) {
    double total = 0, out[WIDEST];
    size_t size = larder__net_layer(net, 0)->in_size;
    for (size_t i = 0; i < n; i++) {
        twin_logits(net, x + i * size, out);
        double sum = 0;
        for (size_t j = 0; j < classes; j++)
            sum += exp(out[j]);
        total += (weight ? (double)weight[i] : 1) * (log(sum) - out[y[i]]);
    }
    return total / (double)n;
}

/* ---- fixtures -------------------------------------------------------------------------------- */

static larder__net *net_of(const char *kind, larder_shape shape, uint32_t classes, size_t batch) {
    larder__net *net = NULL;
    larder__gemm_threads(1);
    check_ok(larder__net_open(&net, &(larder__net_conf){.kind = kind,
                                                        .shape = shape,
                                                        .classes = classes,
                                                        .batch = batch,
                                                        .seed = 3,
                                                        .momentum = 0.9f}));
    return net;
}

static void noise(larder_rng *rng, float *x, size_t n) {
    for (size_t i = 0; i < n; i++)
        x[i] = (float)(larder_rng_unit(rng) * 2 - 1);
}

/* ---- gradients ------------------------------------------------------------------------------- */

static void check_gradients(const char *kind, larder_shape shape) {
    enum { N = 5, CLASSES = 4 };
    float x[N * 256], weight[N] = {1, 0.5f, 2, 0, 1.25f};
    int64_t y[N] = {0, 3, 1, 2, 3};
    larder_rng rng;
    larder_rng_seed(&rng, 11, 0);
    larder__net *net = net_of(kind, shape, CLASSES, N);
    size_t size = (size_t)shape.h * shape.w * shape.c;
    assert_true(size <= 256);
    noise(&rng, x, N * size);
    larder__net_result got;
    check_ok(larder__net_gradient(net, x, y, N, weight, &got));

    double logits[WIDEST];
    for (size_t i = 0; i < N; i++) {
        twin_logits(net, x + i * size, logits);
        for (size_t j = 0; j < CLASSES; j++)
            assert_true(fabs(logits[j] - (double)got.logits[i * CLASSES + j]) < 1e-4);
    }
    for (size_t i = 0; i < larder__net_layers(net); i++) {
        const larder__layer *l = larder__net_layer(net, i);
        for (size_t t = 0; l->weights && t < 25; t++) {
            bool bias = t % 5 == 0;
            size_t k = larder_rng_below(&rng, (uint32_t)(bias ? l->biases : l->weights));
            float *p = bias ? l->b + k : l->w + k, keep = *p,
                  grad = (bias ? l->grad_b : l->grad_w)[k];
            *p = keep + 1e-3f;
            double up = twin_loss(net, x, y, N, weight, CLASSES), high = (double)*p;
            *p = keep - 1e-3f;
            double down = twin_loss(net, x, y, N, weight, CLASSES), low = (double)*p;
            *p = keep;
            double want = (up - down) / (high - low);
            if (fabs(want - (double)grad) > 2e-4 + 1e-2 * fabs(want))
                fail_msg("%s layer %zu %s %zu: %g, twin %g", kind, i, bias ? "bias" : "weight", k,
                         (double)grad, want);
        }
    }
    larder__net_close(&net);
}

static void test_mlp_gradients(void **state) {
    (void)state;
    check_gradients("mlp", (larder_shape){5, 4, 2});
}

static void test_thin_gradients(void **state) {
    (void)state;
    check_gradients("thin", (larder_shape){5, 4, 2});
}

static void test_cnn_gradients(void **state) {
    (void)state;
    check_gradients("cnn", (larder_shape){8, 8, 1});
    check_gradients("cnn", (larder_shape){7, 5, 3}); /* odd sides lose a row and a column */
    check_gradients("cnn", (larder_shape){1, 1, 2}); /* nothing to pool */
}

/* ---- training -------------------------------------------------------------------------------- */

/* Four quadrants of the plane, each its own class and label noise free. */
static void quadrants(larder_rng *rng, float *x, int64_t *y, size_t n, size_t size) {
    for (size_t i = 0; i < n; i++) {
        unsigned q = larder_rng_below(rng, 4);
        y[i] = q;
        for (size_t k = 0; k < size; k++) {
            float sign = (k < size / 2 ? q & 1 : q & 2) ? 1.0f : -1.0f;
            x[i * size + k] = sign + (float)(larder_rng_unit(rng) - 0.5);
        }
    }
}

static size_t right_answers(larder__net *net, const float *x, const int64_t *y, size_t n) {
    larder__net_result r;
    check_ok(larder__net_eval(net, x, y, n, &r));
    size_t right = 0;
    for (size_t i = 0; i < n; i++) {
        size_t best = 0;
        for (size_t j = 1; j < 4; j++)
            best = r.logits[i * 4 + j] > r.logits[i * 4 + best] ? j : best;
        right += (int64_t)best == y[i];
    }
    return right;
}

static void check_learns(const char *kind) {
    enum { N = 64, SIZE = 64 };
    float x[N * SIZE];
    int64_t y[N];
    larder_rng rng;
    larder_rng_seed(&rng, 1, 0);
    larder__net *net = net_of(kind, (larder_shape){8, 8, 1}, 4, N);
    larder__net_result r;
    for (int step = 0; step < 60; step++) {
        quadrants(&rng, x, y, N, SIZE);
        check_ok(larder__net_step(net, x, y, N, NULL, 0.02f, &r));
    }
    quadrants(&rng, x, y, N, SIZE);
    assert_int_equal(right_answers(net, x, y, N), N);
    larder__net_close(&net);
}

static void test_learns(void **state) {
    (void)state;
    check_learns("thin");
    check_learns("mlp");
    check_learns("cnn");
}

static void test_same_seed_same_bits(void **state) {
    (void)state;
    enum { N = 16, SIZE = 64 };
    float x[N * SIZE];
    int64_t y[N];
    larder_rng rng;
    larder__net *net[2] = {net_of("cnn", (larder_shape){8, 8, 1}, 4, N),
                           net_of("cnn", (larder_shape){8, 8, 1}, 4, N)};
    larder__net_result r[2];
    for (int i = 0; i < 2; i++) {
        larder_rng_seed(&rng, 7, 0);
        for (int step = 0; step < 5; step++) {
            quadrants(&rng, x, y, N, SIZE);
            check_ok(larder__net_step(net[i], x, y, N, NULL, 0.05f, &r[i]));
        }
    }
    assert_memory_equal(r[0].logits, r[1].logits, N * 4 * sizeof(float));
    assert_memory_equal(r[0].embeddings, r[1].embeddings, N * r[0].dim * sizeof(float));
    larder__net_close(&net[0]);
    larder__net_close(&net[1]);
}

/* The order inside a batch moves sums by rounding only, and losses go with their samples. */
static void test_order_does_not_matter(void **state) {
    (void)state;
    enum { N = 8, SIZE = 64 };
    float x[N * SIZE], turned[N * SIZE], first[N];
    int64_t y[N], labels[N];
    larder_rng rng;
    larder_rng_seed(&rng, 9, 0);
    quadrants(&rng, x, y, N, SIZE);
    for (size_t i = 0; i < N; i++) {
        memcpy(turned + i * SIZE, x + (N - 1 - i) * SIZE, SIZE * sizeof *x);
        labels[i] = y[N - 1 - i];
    }
    larder__net *net = net_of("mlp", (larder_shape){8, 8, 1}, 4, N);
    const larder__layer *l = larder__net_layer(net, 0);
    larder__net_result r;
    float *grad = malloc(l->weights * sizeof *grad);
    assert_non_null(grad);
    check_ok(larder__net_gradient(net, x, y, N, NULL, &r));
    memcpy(first, r.loss, sizeof first);
    memcpy(grad, l->grad_w, l->weights * sizeof *grad);
    check_ok(larder__net_gradient(net, turned, labels, N, NULL, &r));
    for (size_t i = 0; i < N; i++)
        assert_true(fabsf(first[i] - r.loss[N - 1 - i]) < 1e-5f);
    for (size_t k = 0; k < l->weights; k++)
        assert_true(fabsf(grad[k] - l->grad_w[k]) < 1e-5f);
    free(grad);
    larder__net_close(&net);
}

/* Logits a thousand apart must not overflow the exponential. */
static void test_large_logits(void **state) {
    (void)state;
    larder__net *net = net_of("mlp", (larder_shape){1, 1, 2}, 2, 1);
    const larder__layer *last = larder__net_layer(net, larder__net_layers(net) - 1);
    last->b[0] = 1000;
    last->b[1] = -1000;
    float x[2] = {0, 0};
    larder__net_result r;
    check_ok(larder__net_gradient(net, x, (int64_t[]){1}, 1, NULL, &r));
    assert_true(fabsf(r.loss[0] - 2000) < 0.5f);
    assert_true(fabsf(last->grad_b[0] - 1) < 1e-6f && fabsf(last->grad_b[1] + 1) < 1e-6f);
    larder__net_close(&net);
}

/* ---- refusals -------------------------------------------------------------------------------- */

static void test_refusals(void **state) {
    (void)state;
    larder__net *net = NULL;
    larder__net_conf conf = {.kind = "rnn", .shape = {8, 8, 1}, .classes = 4, .batch = 2};
    assert_int_equal(larder__net_open(&net, &conf), LARDER_E_ARGS);
    assert_non_null(strstr(larder_errmsg(), "rnn"));
    conf.kind = "mlp";
    conf.classes = 1;
    assert_int_equal(larder__net_open(&net, &conf), LARDER_E_RANGE);
    conf.classes = 4;
    conf.shape = (larder_shape){UINT32_MAX, UINT32_MAX, UINT32_MAX};
    assert_int_equal(larder__net_open(&net, &conf), LARDER_E_RANGE);
    conf.shape = (larder_shape){0, 8, 1};
    assert_int_equal(larder__net_open(&net, &conf), LARDER_E_RANGE);
    conf.shape = (larder_shape){8, 8, 1};
    conf.batch = 0;
    assert_int_equal(larder__net_open(&net, &conf), LARDER_E_RANGE);
    assert_null(net);

    float x[3 * 64] = {0};
    larder__net_result r;
    net = net_of("mlp", (larder_shape){8, 8, 1}, 4, 2);
    assert_int_equal(larder__net_eval(net, x, (int64_t[]){0, 4}, 2, &r), LARDER_E_RANGE);
    assert_int_equal(larder__net_eval(net, x, (int64_t[]){0, -1}, 2, &r), LARDER_E_RANGE);
    assert_int_equal(larder__net_eval(net, x, (int64_t[]){0, 0, 0}, 3, &r), LARDER_E_RANGE);
    larder__net_close(&net);
    larder__net_close(&net); /* takes NULL */
}

static void test_out_of_memory(void **state) {
    (void)state;
    larder__net_conf conf = {.kind = "cnn", .shape = {8, 8, 1}, .classes = 4, .batch = 2};
    for (uint64_t at = 1;; at++) {
        larder__net *net = NULL;
        larder__mem_fail_at(at, 0);
        int rc = larder__net_open(&net, &conf);
        bool failed = larder__mem_failed() != 0;
        larder__mem_fail_at(0, 0);
        if (!failed) {
            assert_int_equal(rc, 0);
            assert_true(at > 5);
            larder__net_close(&net);
            return;
        }
        assert_int_equal(rc, LARDER_E_NOMEM);
        assert_null(net);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mlp_gradients),       cmocka_unit_test(test_thin_gradients),
        cmocka_unit_test(test_cnn_gradients),       cmocka_unit_test(test_learns),
        cmocka_unit_test(test_same_seed_same_bits), cmocka_unit_test(test_order_does_not_matter),
        cmocka_unit_test(test_large_logits),        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
