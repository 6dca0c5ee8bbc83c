/* Resampling and the last pass against slow, obvious twins on random inputs. */
#include "check.h"

#include "stage/emit.h"
#include "stage/resample.h"

#include <larder/plugin.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* One output pixel by the definition: every source pixel of the box, weighted by a triangle. */
static double slow_pixel(const uint8_t *in, size_t w, const larder__axis *x, const larder__axis *y,
                         int64_t ox, int64_t oy, size_t c) {
    double sx = (x->in1 - x->in0) / (double)x->full, sy = (y->in1 - y->in0) / (double)y->full;
    double wide = sx > 1 ? sx : 1, tall = sy > 1 ? sy : 1, sum = 0, all = 0;
    double cx = x->in0 + ((double)ox + 0.5) * sx, cy = y->in0 + ((double)oy + 0.5) * sy;
    for (int64_t v = y->lo; v < y->hi; v++)
        for (int64_t u = x->lo; u < x->hi; u++) {
            double a = 1 - fabs((double)u + 0.5 - cx) / wide;
            double b = 1 - fabs((double)v + 0.5 - cy) / tall;
            if (a <= 0 || b <= 0)
                continue;
            sum += a * b * in[((size_t)v * w + (size_t)u) * 4 + c];
            all += a * b;
        }
    return sum / all;
}

static larder__axis random_axis(larder_rng *rng, uint32_t side) {
    larder__axis a = {0};
    a.lo = larder_rng_below(rng, side);
    a.hi = a.lo + 1 + larder_rng_below(rng, side - (uint32_t)a.lo);
    a.in0 = (double)a.lo;
    a.in1 = (double)a.hi;
    if (larder_rng_below(rng, 3) == 0) { /* a box that a shrunk decode cut through pixels */
        a.in0 += 0.5;
        a.in1 -= a.hi - a.lo > 1 ? 0.5 : 0.25;
    }
    a.full = 1 + larder_rng_below(rng, 60);
    a.first = larder_rng_below(rng, (uint32_t)a.full);
    a.last = a.first + 1 + larder_rng_below(rng, (uint32_t)(a.full - a.first));
    return a;
}

static void resample_equals_its_twin(void **state) {
    (void)state;
    larder__scratch *s = NULL;
    larder_rng rng;
    check_ok(larder__scratch_open(&s));
    larder_rng_seed(&rng, 17, 0);
    for (int i = 0; i < 400; i++) {
        uint32_t w = 1 + larder_rng_below(&rng, 70), h = 1 + larder_rng_below(&rng, 70);
        uint8_t *in = malloc((size_t)w * h * 4 + 64);
        assert_non_null(in);
        for (size_t k = 0; k < (size_t)w * h * 4 + 64; k++)
            in[k] = (uint8_t)larder_rng_next(&rng);
        larder__axis x = random_axis(&rng, w), y = random_axis(&rng, h);
        larder__picture pic = {in, (ptrdiff_t)w * 4, 4, 1, {0, 0, w, h}}, out;
        check_ok(larder__resample(s, &pic, &x, &y, &out));
        assert_int_equal(out.is.x0, x.first);
        assert_int_equal(out.is.y1, y.last);
        for (int64_t oy = y.first; oy < y.last; oy++)
            for (int64_t ox = x.first; ox < x.last; ox++)
                for (size_t c = 0; c < 3; c++) {
                    double want = slow_pixel(in, w, &x, &y, ox, oy, c);
                    double got =
                        out.at[(oy - y.first) * out.row + (ox - x.first) * 4 + (ptrdiff_t)c];
                    if (fabs(want - got) > 0.501)
                        fail_msg("case %d at %lld,%lld: %g, not %g", i, (long long)ox,
                                 (long long)oy, got, want);
                }
        free(in);
    }
    larder__scratch_close(&s);
}

/* The value of one output element, straight from the meaning of each field. */
static double slow_element(const larder__emit *e, size_t x, size_t y, size_t c) {
    int64_t ux = e->flipped ? (int64_t)(e->shape.w - 1 - x) : (int64_t)x, uy = (int64_t)y;
    uint8_t v = 0;
    if (ux >= e->filled.x0 && ux < e->filled.x1 && uy >= e->filled.y0 && uy < e->filled.y1)
        v = e->at[(uy - e->filled.y0) * e->row + (ux - e->filled.x0) * e->pixel +
                  (ptrdiff_t)c * e->channel];
    return e->dtype == LARDER_U8 ? v : (double)v * (double)e->scale[c] + (double)e->bias[c];
}

static void check_emit(const larder__emit *e, int round) {
    size_t n = (size_t)e->shape.h * e->shape.w * e->shape.c;
    size_t bytes = n * (e->dtype == LARDER_U8 ? 1 : 4);
    unsigned char *out = malloc(bytes); /* of exactly this size: ASan watches the end */
    assert_non_null(out);
    larder__emit_run(e, out);
    for (size_t y = 0; y < e->shape.h; y++)
        for (size_t x = 0; x < e->shape.w; x++)
            for (size_t c = 0; c < e->shape.c; c++) {
                size_t at = e->layout == LARDER_NHWC ? (y * e->shape.w + x) * e->shape.c + c
                                                     : (c * e->shape.h + y) * e->shape.w + x;
                double want = slow_element(e, x, y, c), got;
                float f;
                memcpy(&f, out + at * (e->dtype == LARDER_U8 ? 0 : 4), 4 <= bytes ? 4 : bytes);
                got = e->dtype == LARDER_U8 ? out[at] : (double)f;
                if (fabs(want - got) > 2e-6 * (1 + fabs(want)))
                    fail_msg("round %d at %zu,%zu,%zu: %g, not %g", round, x, y, c, got, want);
            }
    free(out);
}

static void emit_equals_its_twin(void **state) {
    (void)state;
    larder_rng rng;
    larder_rng_seed(&rng, 23, 0);
    for (int i = 0; i < 3000; i++) {
        uint32_t c = 1 + larder_rng_below(&rng, 4), w = 1 + larder_rng_below(&rng, 50);
        uint32_t h = 1 + larder_rng_below(&rng, 12);
        if (i % 64 == 0) /* more than the last pass has in hand at a time */
            w = 1 + larder_rng_below(&rng, 5000);
        larder__emit e = {.shape = {h, w, c},
                          .dtype = larder_rng_below(&rng, 2) ? LARDER_F32 : LARDER_U8,
                          .layout = larder_rng_below(&rng, 2) ? LARDER_NHWC : LARDER_NCHW,
                          .flipped = larder_rng_below(&rng, 2)};
        e.filled.x0 = larder_rng_below(&rng, w);
        e.filled.x1 = e.filled.x0 + larder_rng_below(&rng, w - (uint32_t)e.filled.x0 + 1);
        e.filled.y0 = larder_rng_below(&rng, h);
        e.filled.y1 = e.filled.y0 + larder_rng_below(&rng, h - (uint32_t)e.filled.y0 + 1);
        ptrdiff_t sw = (ptrdiff_t)w + larder_rng_below(&rng, 5); /* the source may be wider */
        bool packed = larder_rng_below(&rng, 2);
        e.pixel = packed ? (c < 4 && larder_rng_below(&rng, 2) ? 4 : (ptrdiff_t)c) : 1;
        e.channel = packed ? 1 : sw * (ptrdiff_t)h;
        e.row = packed ? sw * e.pixel : sw;
        size_t bytes = (size_t)(sw * (ptrdiff_t)h * 4);
        uint8_t *source = malloc(bytes);
        assert_non_null(source);
        for (size_t k = 0; k < bytes; k++)
            source[k] = (uint8_t)larder_rng_next(&rng);
        e.at = source;
        for (uint32_t k = 0; k < c; k++) {
            e.scale[k] = (float)larder_rng_unit(&rng);
            e.bias[k] = (float)larder_rng_unit(&rng) - 0.5f;
        }
        check_emit(&e, i);
        free(source);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(resample_equals_its_twin),
        cmocka_unit_test(emit_equals_its_twin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
