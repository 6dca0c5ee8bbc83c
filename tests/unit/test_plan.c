/* The planner: published corners, the corner theorem, an independent sum, ties and wrong input. */
#include "check.h"

#include "plan/rates.h"
#include <larder/plugin.h>
#include <math.h>
#include <string.h>

typedef struct platform {
    const char *name;
    double n, t_gpu, t_da, t_a, b_nic, b_pcie, b_cache, b_storage, s_cache;
} platform;

static const platform platforms[] =
    {/* Seneca's tables 4 and 5; caches as evaluated */
     {"in-house", 1, 4550, 2132, 4050, 1.25e9, 32e9, 1.25e9, 500e6, 115e9},
     {"2 in-house", 2, 4550, 2132, 4050, 1.25e9, 32e9, 1.25e9, 500e6, 115e9},
     {"AWS", 1, 9989, 3432, 6520, 1.25e9, 32e9, 1.25e9, 256e6, 400e9},
     {"Azure", 1, 14301, 9783, 12930, 10e9, 64e9, 3.75e9, 250e6, 400e9},
     {"2 Azure", 2, 14301, 9783, 12930, 10e9, 64e9, 3.75e9, 250e6, 400e9}};

static larder_rates rates_of(const platform *p, double n_total, double s_data) {
    larder_rates r;
    larder__rates_defaults(&r);
    r.n = p->n, r.t_gpu = p->t_gpu, r.t_da = p->t_da, r.t_a = p->t_a, r.b_nic = p->b_nic;
    r.b_pcie = p->b_pcie, r.b_cache = p->b_cache, r.b_storage = p->b_storage;
    r.s_cache = p->s_cache, r.s_data = s_data, r.n_total = n_total;
    r.m = 588 * 1024 / s_data; /* 3 x 224 x 224 floats */
    return r;
}

static void check_split(const larder_plan *p, int e, int d, int a) {
    if (p->best.split.encoded != e || p->best.split.decoded != d || p->best.split.augmented != a)
        fail_msg("%d/%d/%d instead of %d/%d/%d", p->best.split.encoded, p->best.split.decoded,
                 p->best.split.augmented, e, d, a);
}

/* ImageNet-22K, 100/0/0 everywhere. With rows of 3 x 224 x 224 floats, M = 6.59 of its mean sample,
 * all five come out; with the published M = 5.12 four do: on the first, rows are small enough for
 * the processors to hold up samples that have to be decoded, and whatever holds none wins. */
static void test_published_row(void **st) {
    (void)st;
    for (size_t i = 0; i < sizeof platforms / sizeof *platforms; i++) {
        larder_rates r = rates_of(&platforms[i], 14e6, 91.39e3);
        larder_plan p;
        assert_true(fabs(r.m - 6.59) < 0.005);
        check_ok(larder__plan_make(&p, &r, LARDER_PLAN_PAPER));
        check_split(&p, 100, 0, 0);
        assert_int_equal(p.ties, 0);
        r.m = 5.12;
        check_ok(larder__plan_make(&p, &r, LARDER_PLAN_PAPER));
        check_split(&p, i == 0 ? 0 : 100, i == 0 ? 100 : 0, 0);
        assert_int_equal(p.ties, i == 0 ? 100 : 0); /* any mix of decoded and augmented */
    }
}

static void test_shared_has_inner_optima(void **st) {
    (void)st;
    larder_rates r = rates_of(&platforms[2], 1.3e6, 114.62e3);
    larder_plan p;
    check_ok(larder__plan_make(&p, &r, LARDER_PLAN_SHARED));
    check_split(&p, 43, 0, 57);
    assert_true(p.runner_up.throughput < p.best.throughput);
}

/* ---- random machines ------------------------------------------------------------------------- */

static double between(larder_rng *rng, double low, double high) {
    return low * pow(high / low, larder_rng_unit(rng));
}

static larder_rates random_rates(larder_rng *rng) {
    larder_rates r;
    larder__rates_defaults(&r);
    r.n = 1 + larder_rng_below(rng, 4), r.gpus = 1 + larder_rng_below(rng, 8);
    r.t_gpu = between(rng, 1e2, 1e5), r.t_da = between(rng, 1e2, 1e5);
    r.t_a = r.t_da * between(rng, 1, 20);
    r.b_nic = between(rng, 1e8, 1e11), r.b_pcie = between(rng, 1e9, 1e11);
    r.b_cache = between(rng, 1e8, 1e11), r.b_storage = between(rng, 1e7, 1e10);
    r.s_data = between(rng, 1e3, 1e6), r.m = between(rng, 1, 20),
    r.n_total = between(rng, 1e3, 1e7);
    r.s_cache = r.n_total * r.s_data * between(rng, 0.01, 40);
    r.batch = 64, r.model_bytes = larder_rng_below(rng, 2) * between(rng, 1e5, 1e9);
    r.nvlink = larder_rng_below(rng, 3);
    if (larder_rng_below(rng, 2))
        r.m_decoded = between(rng, 1, 20);
    return r;
}

/* The equations once more, with other names and another order of work. */
static double twin(const larder_rates *r, larder_plan_model model, int e, int d, int a) {
    double ms = r->m * r->s_data, N = r->n_total, S = r->s_cache;
    double px = r->m_decoded > 0 ? r->m_decoded * r->s_data : ms;
    double cn = (r->nvlink > 1 ? 0 : r->model_bytes * (2 - 2 / r->n)) / r->batch;
    double cp = (r->nvlink > 0 ? 0 : r->model_bytes * (2 - 2 / r->gpus)) / r->batch;
    double na = a * S / (100 * ms), nd = d * S / (100 * px), ne = e * S / (100 * r->s_data);
    na = na > N ? N : na;
    nd = na + nd > N ? N - na : nd;
    ne = na + nd + ne > N ? N - na - nd : ne;
    double ns = N - na - nd - ne;
    double pcie = r->n * r->b_pcie / (ms + cp), gpu = r->n * r->t_gpu;
    if (model == LARDER_PLAN_PAPER) {
        double big = fmin(fmin(r->b_cache / ms, r->n * r->b_nic / (ms + cn)), fmin(pcie, gpu));
        double pixels = fmin(fmin(r->b_cache / px, r->n * r->b_nic / (px + cn)), fmin(pcie, gpu));
        double small = fmin(fmin(r->b_cache / r->s_data, r->n * r->b_nic / (r->s_data + cn)),
                            fmin(fmin(pcie, gpu), r->n * r->t_da));
        return (na * big + nd * fmin(pixels, r->n * r->t_a) + ne * small +
                ns * fmin(small, r->b_storage / r->s_data)) /
               N;
    }
    double cached = na * ms + nd * px + ne * r->s_data; /* seconds of a whole epoch on each */
    double worst = N / fmin(pcie, gpu);
    worst = fmax(worst, ns * r->s_data / r->b_storage);
    worst = fmax(worst, cached / r->b_cache);
    worst = fmax(worst, (cached + ns * r->s_data + N * cn) / (r->n * r->b_nic));
    worst = fmax(worst, ((ne + ns) / r->t_da + nd / r->t_a) / r->n);
    return N / worst;
}

static void check_against_twin(const larder_rates *r, larder_plan_model model) {
    larder_plan p;
    check_ok(larder__plan_make(&p, r, model));
    double best = 0;
    size_t same = 0;
    for (int e = 0; e <= 100; e++)
        for (int d = 0; d <= 100 - e; d++)
            best = fmax(best, twin(r, model, e, d, 100 - e - d));
    for (int e = 0; e <= 100; e++)
        for (int d = 0; d <= 100 - e; d++) {
            double rate = twin(r, model, e, d, 100 - e - d);
            same += rate >= best * (1 - 1e-9);
            /* of equals: most encoded, then most decoded (clear of rounding at the edge) */
            if (rate >= best * (1 - 1e-11))
                assert_true(p.best.split.encoded > e ||
                            (p.best.split.encoded == e && p.best.split.decoded >= d));
        }
    assert_true(fabs(p.best.throughput - best) <= 1e-8 * best);
    assert_true(p.ties + 1 >= same - same / 100 && p.ties + 1 <= same + same / 100 + 1);
    assert_int_equal(p.best.split.encoded + p.best.split.decoded + p.best.split.augmented, 100);
    assert_true(fabs(p.best.encoded + p.best.decoded + p.best.augmented + p.best.stored - 1) <
                1e-9);
    assert_true(p.runner_up.throughput <= p.best.throughput);
}

static void test_brute_force_against_twin(void **st) {
    (void)st;
    larder_rng rng;
    larder_rng_seed(&rng, 7, 0);
    for (int i = 0; i < 200; i++) {
        larder_rates r = random_rates(&rng);
        check_against_twin(&r, LARDER_PLAN_PAPER);
        check_against_twin(&r, LARDER_PLAN_SHARED);
    }
}

/* While the cache cannot hold the data set encoded, the paper's sum is linear in the split: one of
 * the corners is as fast as anything, and its rate is a closed form. */
static void test_corner_theorem(void **st) {
    (void)st;
    larder_rng rng;
    larder_rng_seed(&rng, 8, 0);
    for (int i = 0; i < 500; i++) {
        larder_rates r = random_rates(&rng);
        r.s_cache = r.n_total * r.s_data * between(&rng, 0.001, 1);
        larder_plan p;
        check_ok(larder__plan_make(&p, &r, LARDER_PLAN_PAPER));
        double corner = fmax(
            twin(&r, LARDER_PLAN_PAPER, 100, 0, 0),
            fmax(twin(&r, LARDER_PLAN_PAPER, 0, 100, 0), twin(&r, LARDER_PLAN_PAPER, 0, 0, 100)));
        assert_true(fabs(p.best.throughput - corner) <= 1e-9 * corner);
        const larder_split *s = &p.best.split;
        if (p.ties == 0)
            assert_true(s->encoded == 100 || s->decoded == 100 || s->augmented == 100);
    }
}

/* ---- rules ----------------------------------------------------------------------------------- */

static void test_all_equal_is_a_tie(void **st) {
    (void)st;
    larder_rates r = rates_of(&platforms[0], 1e5, 1e5);
    r.t_gpu = 1; /* nothing else can matter */
    larder_plan p;
    check_ok(larder__plan_make(&p, &r, LARDER_PLAN_SHARED));
    check_split(&p, 100, 0, 0);
    assert_int_equal(p.ties, 5150);
    assert_int_equal(p.best.bottleneck, LARDER_RESOURCE_GPU);
}

static void test_each_resource_can_be_the_bottleneck(void **st) {
    (void)st;
    for (int i = 0; i < LARDER_RESOURCES; i++) {
        larder_rates r = rates_of(&platforms[0], 1e6, 1e5);
        double *slow[] = {&r.b_storage, &r.b_cache, &r.b_nic, &r.b_pcie, &r.t_da, &r.t_gpu};
        r.b_storage = r.b_cache = r.b_nic = r.b_pcie = 1e15, r.t_da = r.t_a = r.t_gpu = 1e9;
        *slow[i] /= 1e12;
        if (i == LARDER_RESOURCE_CPU)
            r.t_a = r.t_da;
        for (int model = LARDER_PLAN_SHARED; model <= LARDER_PLAN_PAPER; model++) {
            larder_outlook o =
                larder__plan_outlook(&r, (larder_plan_model)model, (larder_split){40, 60, 0});
            assert_string_equal(larder__resource_name(o.bottleneck),
                                larder__resource_name((larder_resource)i));
        }
    }
}

/* One job alone gains nothing from augmented samples: each has to be made again for its next use.
 */
static void test_jobs_remake_augmented(void **st) {
    (void)st;
    larder_rates r = rates_of(&platforms[2], 1.3e6, 114.62e3);
    r.s_cache = 60e9;
    const larder_split augmented = {0, 0, 100};
    r.jobs = 1;
    larder_outlook one = larder__plan_outlook(&r, LARDER_PLAN_SHARED, augmented);
    assert_true(fabs(one.throughput - 256e6 / 114.62e3) < 1e-6); /* all of it is read */
    r.jobs = 4;
    larder_outlook four = larder__plan_outlook(&r, LARDER_PLAN_SHARED, augmented);
    assert_true(four.throughput > one.throughput);
    larder_plan p;
    r.jobs = 1;
    check_ok(larder__plan_make(&p, &r, LARDER_PLAN_SHARED));
    assert_int_equal(p.best.split.augmented, 0);
}

/* Given as what it is anyway, the size of decoded samples changes nothing; smaller ones help. */
static void test_decoded_size(void **st) {
    (void)st;
    larder_rates r = rates_of(&platforms[2], 1.3e6, 114.62e3), same = r, pixels = r;
    same.m_decoded = same.m;
    pixels.m_decoded = pixels.m / 4; /* bytes instead of floats */
    for (int model = LARDER_PLAN_SHARED; model <= LARDER_PLAN_PAPER; model++)
        for (int d = 0; d <= 100; d += 20) {
            const larder_split s = {100 - d, d / 2, d - d / 2};
            larder_outlook a = larder__plan_outlook(&r, (larder_plan_model)model, s);
            larder_outlook b = larder__plan_outlook(&same, (larder_plan_model)model, s);
            larder_outlook c = larder__plan_outlook(&pixels, (larder_plan_model)model, s);
            assert_true(a.throughput == b.throughput && a.decoded == b.decoded);
            assert_true(c.decoded >= a.decoded && c.augmented == a.augmented);
        }
    larder_plan p;
    check_ok(larder__rates_set(&r, "m_decoded", "0"));
    assert_int_equal(larder__plan_make(&p, &r, LARDER_PLAN_SHARED), LARDER_E_ARGS);
    check_ok(larder__rates_set(&r, "m_decoded", "inf"));
    assert_int_equal(larder__plan_make(&p, &r, LARDER_PLAN_SHARED), LARDER_E_ARGS);
}

static void test_gradients(void **st) {
    (void)st;
    larder_rates r = rates_of(&platforms[1], 1.3e6, 114.62e3), given;
    r.gpus = 4, r.batch = 256, r.model_bytes = 102e6;
    const larder_split all = {100, 0, 0};
    given = r;
    given.c_nw = 102e6, given.c_pcie = 2 * 3.0 / 4 * 102e6; /* 2(k-1)/k for 2 nodes, 4 GPUs */
    assert_true(larder__plan_outlook(&r, LARDER_PLAN_SHARED, all).throughput ==
                larder__plan_outlook(&given, LARDER_PLAN_SHARED, all).throughput);
    r.b_nic = 1e6; /* then the network is all that counts */
    double with = larder__plan_outlook(&r, LARDER_PLAN_SHARED, all).throughput;
    r.nvlink = 1;
    assert_true(larder__plan_outlook(&r, LARDER_PLAN_SHARED, all).throughput == with);
    r.nvlink = 2;
    assert_true(larder__plan_outlook(&r, LARDER_PLAN_SHARED, all).throughput > with);
}

static void test_wrong_input(void **st) {
    (void)st;
    larder_rates r;
    larder_plan p;
    larder__rates_defaults(&r);
    assert_int_equal(larder__plan_make(&p, &r, LARDER_PLAN_SHARED), LARDER_E_ARGS);
    assert_non_null(strstr(larder_errmsg(), "t_gpu t_da t_a b_storage s_cache s_data m n_total"));
    static const char *const wrong[][2] = {{"t_gpu", "x"}, {"t_gpu", ""},      {"t_gpu", "-1"},
                                           {"nope", "1"},  {"nvlink", "some"}, {"s_cache", "1XB"},
                                           {"m", "nan"},   {"b_nic", "10GBs"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(larder__rates_set(&r, wrong[i][0], wrong[i][1]), LARDER_E_ARGS);
    r = rates_of(&platforms[0], 1e6, 1e5);
    check_ok(larder__rates_set(&r, "s_cache", "64GiB"));
    assert_true(r.s_cache == 0x1p36);
    check_ok(larder__rates_set(&r, "b_cache", "inf"));
    check_ok(larder__rates_set(&r, "n_total", "1.3e6"));
    check_ok(larder__rates_set(&r, "b_storage", "0"));
    assert_int_equal(larder__plan_make(&p, &r, LARDER_PLAN_SHARED), LARDER_E_ARGS);
    assert_non_null(strstr(larder_errmsg(), "b_storage"));
    static const char *const beyond[] = {"1e25", "1e308", "1e-25", "5e-324"};
    static const char *const of[] = {"n", "t_gpu", "s_data", "m", "m_decoded", "c_nw", "jobs"};
    for (size_t i = 0; i < 4 * sizeof of / sizeof *of; i++) { /* products would be no numbers */
        r = rates_of(&platforms[0], 1e6, 1e5);
        check_ok(larder__rates_set(&r, of[i / 4], beyond[i % 4]));
        assert_int_equal(larder__plan_make(&p, &r, LARDER_PLAN_PAPER), LARDER_E_ARGS);
        assert_non_null(strstr(larder_errmsg(), "no machine has that"));
    }
}

static void test_finite(void **st) {
    (void)st;
    static const char *const of[] = {"n", "t_gpu", "s_data", "m_decoded", "s_cache", "batch"};
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        larder_plan p;
        larder_rates r = rates_of(&platforms[0], 1e6, 1e5);
        check_ok(larder__rates_set(&r, of[i], "inf"));
        assert_int_equal(larder__plan_make(&p, &r, LARDER_PLAN_PAPER), LARDER_E_ARGS);
        assert_non_null(strstr(larder_errmsg(), "has to be finite"));
    }
}

/* What is allowed comes to a plan, also the extremes of it together. */
static void test_extremes(void **st) {
    (void)st;
    static const double values[] = {1e-24, 1, 1e24, INFINITY};
    larder_rng rng;
    larder_rng_seed(&rng, 5, 0);
    for (int i = 0; i < 300; i++) {
        larder_rates r = rates_of(&platforms[0], 1e6, 1e5);
        r.jobs = i % 3;
        double *any[] = {&r.t_da,    &r.t_a,    &r.t_d,   &r.b_nic,   &r.b_cache,  &r.b_storage,
                         &r.b_pcie,  &r.n,      &r.t_gpu, &r.gpus,    &r.batch,    &r.c_nw,
                         &r.s_cache, &r.s_data, &r.m,     &r.n_total, &r.m_decoded};
        enum { ANY = sizeof any / sizeof *any, RATES = 7 };
        for (size_t k = 0; k < ANY; k++)
            *any[k] = values[larder_rng_below(&rng, k < RATES ? 4 : 3)];
        for (int model = LARDER_PLAN_SHARED; model <= LARDER_PLAN_PAPER; model++) {
            larder_plan p;
            check_ok(larder__plan_make(&p, &r, (larder_plan_model)model));
            double sum = p.best.encoded + p.best.decoded + p.best.augmented + p.best.stored;
            assert_true(fabs(sum - 1) < 1e-6 && p.best.throughput >= 0);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_published_row),
        cmocka_unit_test(test_shared_has_inner_optima),
        cmocka_unit_test(test_brute_force_against_twin),
        cmocka_unit_test(test_corner_theorem),
        cmocka_unit_test(test_all_equal_is_a_tie),
        cmocka_unit_test(test_each_resource_can_be_the_bottleneck),
        cmocka_unit_test(test_jobs_remake_augmented),
        cmocka_unit_test(test_decoded_size),
        cmocka_unit_test(test_gradients),
        cmocka_unit_test(test_wrong_input),
        cmocka_unit_test(test_finite),
        cmocka_unit_test(test_extremes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
