/* The parts around the solver: weights, order of classes, models taken apart, steps, shrinking,
 * values near the border; each against the plain way. */
#include "svm_kit.h"

#include "base/mem.h"
#include "svm/near_border.h"
#include "svm/samples.h"
#include "svm/shrink.h"
#include "svm/smo.h"
#include "svm/svm_predict.h"
#include "svm/working_set.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- weights, orders, parts ------------------------------------------------------------------ */

static void weights_are_repeats(void **state) {
    (void)state;
    larder_svm_data *d = svm_clouds(300, 4, 2, 8), *repeated = NULL, *heavy = NULL;
    double weight[300];
    uint32_t pick[900];
    size_t n = 0;
    for (uint32_t i = 0; i < 300; i++) {
        weight[i] = 1 + larder_rng_below(&svm_rng, 3);
        for (double k = 0; k < weight[i]; k++)
            pick[n++] = i;
    }
    check_ok(larder__svm_data_pick(&repeated, d, pick, n));
    larder_svm_matrix weighed = {.size = sizeof weighed,
                                 .rows = d->rows,
                                 .start = d->start,
                                 .index = d->index,
                                 .value = d->value,
                                 .label = d->label,
                                 .weight = weight};
    check_ok(larder_svm_copy(&heavy, &weighed));
    for (larder_svm_task task = LARDER_SVM_C_SVC; task <= LARDER_SVM_NU_SVR; task++) {
        larder_svm_conf conf = svm_conf(task, 0.5, 1);
        larder_svm_model *a, *b;
        conf.tolerance = 1e-6, conf.nu = 0.3, conf.merge = false;
        check_ok(larder_svm_train(&a, heavy, &conf, NULL));
        check_ok(larder_svm_train(&b, repeated, &conf, NULL));
        assert_true(svm_largest_difference(a, b, d) < (task == LARDER_SVM_NU_SVC ? 1e-2 : 1e-3));
        larder_svm_model_close(&a);
        larder_svm_model_close(&b);
    }
    weight[5] = -1;
    larder_svm_data_close(&heavy);
    assert_int_equal(larder_svm_copy(&heavy, &weighed), LARDER_E_ARGS);
    larder_svm_data_close(&d);
    larder_svm_data_close(&repeated);
}

static void classes_in_order(void **state) {
    (void)state;
    larder_svm_data *d = svm_clouds(300, 4, 4, 9);
    larder_svm_conf conf = svm_conf(LARDER_SVM_C_SVC, 1, 1);
    larder_svm_model *a, *b;
    d->label[0] = 3;
    check_ok(larder_svm_train(&a, d, &conf, NULL));
    conf.sorted_classes = true;
    check_ok(larder_svm_train(&b, d, &conf, NULL));
    assert_true(a->label[0] == 3);
    double *x = calloc(d->rows, sizeof *x), *y = calloc(d->rows, sizeof *y);
    check_ok(larder_svm_predict(a, d, x, NULL, NULL));
    check_ok(larder_svm_predict(b, d, y, NULL, NULL));
    size_t apart = 0;
    for (size_t i = 0; i < d->rows; i++)
        apart += x[i] != y[i];
    assert_true(apart < 5); /* ties of votes go to the first class */
    for (size_t i = 0; i < 4; i++)
        assert_true(b->label[i] == (double)i);
    free(x), free(y);
    larder_svm_model_close(&a);
    larder_svm_model_close(&b);
    larder_svm_data_close(&d);
}

static void taken_apart(void **state) {
    (void)state;
    larder_svm_data *d = svm_clouds(400, 5, 3, 10);
    larder_svm_conf conf = svm_conf(LARDER_SVM_C_SVC, 1, 1);
    conf.probability = true;
    larder_svm_model *m, *again = NULL;
    check_ok(larder_svm_train(&m, d, &conf, NULL));
    larder_svm_parts parts = {.size = sizeof parts};
    check_ok(larder_svm_disassemble(m, &parts));
    assert_int_equal(parts.vector_count, parts.vectors->rows);
    assert_int_equal(parts.values, 3);
    assert_int_equal(parts.coef_lines, 2);
    const larder_svm_data *v = parts.vectors;
    for (size_t i = 0; i < parts.vector_count; i++) { /* each is the row it says */
        uint64_t at = v->start[i], row = d->start[parts.support[i]];
        size_t pairs = v->start[i + 1] - at;
        assert_int_equal(pairs, d->start[parts.support[i] + 1] - row);
        assert_memory_equal(v->index + at, d->index + row, pairs * sizeof *v->index);
        assert_memory_equal(v->value + at, d->value + row, pairs * sizeof *v->value);
    }
    check_ok(larder_svm_assemble(&again, &parts));
    assert_true(svm_largest_difference(m, again, d) == 0);
    assert_non_null(again->prob_a);
    larder_svm_data_close(&d);
    larder_svm_model_close(&m);
    larder_svm_model_close(&again);
}

static void refused(larder_svm_parts p, const char *why) {
    larder_svm_model *m;
    assert_int_equal(larder_svm_assemble(&m, &p), LARDER_E_ARGS);
    assert_null(m);
    if (!strstr(larder_errmsg(), why))
        fail_msg("\"%s\" lacks \"%s\"", larder_errmsg(), why);
}

static larder_svm_data *vectors_of(uint32_t index, double value, size_t each) {
    uint64_t start[] = {0, each, 2 * each};
    uint32_t at[] = {index, index + 1, index, index + 1};
    double values[] = {value, value, value, value}, label[2] = {0};
    if (each == 1)
        at[1] = index;
    larder_svm_data *d;
    larder_svm_matrix m = {.size = sizeof m,
                           .rows = 2,
                           .features = 3,
                           .start = start,
                           .index = at,
                           .value = values,
                           .label = label,
                           .flags = LARDER_SVM_INDEX_ZERO};
    check_ok(larder_svm_copy(&d, &m));
    return d;
}

/* A pickle may say anything; what it says is looked at before a byte of it is used. */
static void parts_that_do_not_fit(void **state) {
    (void)state;
    larder_svm_data *d = svm_clouds(60, 4, 3, 10);
    larder_svm_conf conf = svm_conf(LARDER_SVM_C_SVC, 2, 0.5);
    conf.probability = true;
    larder_svm_model *m;
    check_ok(larder_svm_train(&m, d, &conf, NULL));
    larder_svm_parts good = {.size = sizeof good}, p;
    check_ok(larder_svm_disassemble(m, &good));
    const uint64_t *c = good.class_vectors;
    const uint64_t more[] = {c[0], c[1] + 1, c[2]}, round[] = {c[0], UINT64_MAX, c[1] + c[2] + 1},
                   fewer[] = {0, 0, 0};
#define WITHOUT(field, why) (p = good, p.field, refused(p, why))
    WITHOUT(class_vectors = more, "support vectors by class");
    WITHOUT(class_vectors = round, "support vectors by class");
    WITHOUT(class_vectors = fewer, "support vectors by class");
    WITHOUT(class_vectors = NULL, "a model wants");
    WITHOUT(label = NULL, "a model wants");
    WITHOUT(sigmoid_b = NULL, "a model wants");
    WITHOUT(vectors = NULL, "a model wants");
    WITHOUT(coef = NULL, "a model wants");
    WITHOUT(rho = NULL, "a model wants");
    WITHOUT(kernel = (larder_svm_kernel)9, "no kernel 9");
    WITHOUT(task = (larder_svm_task)77, "no task 77");
    WITHOUT(classes = 0, "1 to 65536 classes");
    WITHOUT(classes = 70000, "1 to 65536 classes");
    WITHOUT(degree = -1, "a degree of 0 to 1000");
    WITHOUT(degree = 1001, "a degree of 0 to 1000");
    p = good, p.one_vs_all = true;
    p.class_vectors = round;
    refused(p, "support vectors by class");
#undef WITHOUT
    /* Vectors of a kernel that is given are serial numbers. */
    const double coef[2] = {1, -1}, rho[1] = {0};
    p = (larder_svm_parts){.size = sizeof p,
                           .task = LARDER_SVM_EPSILON_SVR,
                           .kernel = LARDER_SVM_PRECOMPUTED,
                           .classes = 2,
                           .coef = coef,
                           .rho = rho};
    const struct {
        uint32_t index;
        double value;
        size_t each;
    } wrong[] = {{1, 3, 1}, {0, -1, 1}, {0, 1e12, 1}, {0, 3, 2}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        larder_svm_data *v = vectors_of(wrong[i].index, wrong[i].value, wrong[i].each);
        p.vectors = v;
        refused(p, "is not 0:serial alone");
        larder_svm_data_close(&v);
    }
    larder_svm_data *v = vectors_of(0, 3, 1);
    p.vectors = v, p.kernel = LARDER_SVM_RBF;
    refused(p, "has an index 0");
    larder_svm_data_close(&v);
    larder_svm_data_close(&d);
    larder_svm_model_close(&m);
}

/* ---- small parts ----------------------------------------------------------------------------- */

static void samples_by_cell(void **state) {
    (void)state;
    larder_svm_data *d = svm_clouds(200, 2, 3, 11);
    uint64_t keys[200];
    uint32_t cell[200], also[200], row[200], before[200];
    size_t start[5];
    for (size_t i = 0; i < 200; i++)
        keys[i] = 0, cell[i] = larder_rng_below(&svm_rng, 4), also[i] = (uint32_t)i;
    cell[0] = 2;
    memcpy(before, cell, sizeof cell);
    larder__samples s;
    check_ok(larder__samples_open(&s, d, NULL, 200, keys, false));
    check_ok(larder__samples_sort(&s, 200, cell, also, 4, start));
    memcpy(row, s.row, sizeof row);
    for (size_t i = 0; i < 200; i++) {
        assert_int_equal(cell[i], before[row[i]]);
        assert_int_equal(also[i], row[i]);
        assert_int_equal(s.sample_of[row[i]], i);
        assert_true(i >= start[cell[i]] && i < start[cell[i] + 1]);
        assert_true(i == 0 || cell[i] > cell[i - 1] || row[i] > row[i - 1]);
    }
    larder__samples_close(&s);
    larder_svm_data_close(&d);
}

static int by_key(const void *a, const void *b) {
    const larder__candidate *x = a, *y = b;
    return x->key < y->key ? -1 : x->key > y->key ? 1 : x->id < y->id ? -1 : x->id > y->id;
}

static void first_candidates(void **state) {
    (void)state;
    enum { MOST = 400 };
    larder__candidate a[MOST], b[MOST];
    for (size_t trial = 0; trial < 300; trial++) {
        size_t n = larder_rng_below(&svm_rng, MOST), k = larder_rng_below(&svm_rng, MOST);
        for (uint32_t i = 0; i < n; i++)
            a[i] = b[i] = (larder__candidate){larder_rng_below(&svm_rng, 50), i};
        qsort(b, n, sizeof *b, by_key);
        size_t got = larder__candidates_first(a, n, k);
        assert_int_equal(got, k < n ? k : n);
        for (size_t i = 0; i < got; i++)
            assert_int_equal(a[i].id, b[i].id);
    }
}

/* A made problem of two svm_clouds that overlap a little, in one block of memory. */
enum { SLOTS = 512, SLOT_ROOM = SLOTS * 3 / 8 };
typedef struct slots_block {
    larder__smo smo;
    larder__smo_part part;
    float k[SLOTS * (SLOTS + 16)], part_k[SLOT_ROOM * (SLOT_ROOM + 16)];
    float diagonal[SLOTS], part_diagonal[SLOT_ROOM];
    double f[SLOTS], beta[SLOTS], lo[SLOTS], hi[SLOTS], linear[SLOTS];
    double part_f[SLOT_ROOM], part_beta[SLOT_ROOM], part_lo[SLOT_ROOM], part_hi[SLOT_ROOM];
    double before[SLOT_ROOM];
    uint32_t place[SLOTS], part_place[SLOT_ROOM], slot[SLOT_ROOM];
    uint8_t bits[10][SLOTS / 8 + 2];
    bool made[SLOTS], part_made[SLOT_ROOM];
    size_t asked;
} slots_block;

static void count_row(void *arg, size_t slot) {
    slots_block *b = arg;
    assert_false(b->made[slot]);
    b->made[slot] = true, b->asked++;
}

static void open_slots(slots_block *b, unsigned groups, uint64_t seed, bool part) {
    double x[SLOTS];
    larder_rng_seed(&svm_rng, seed, 0);
    memset(b, 0, sizeof *b);
    b->smo = (larder__smo){.n = SLOTS,
                           .groups = groups,
                           .k = b->k,
                           .place = b->place,
                           .stride = SLOTS + 16,
                           .f = b->f,
                           .beta = b->beta,
                           .lo = b->lo,
                           .hi = b->hi,
                           .diagonal = b->diagonal,
                           .up = b->bits[0],
                           .low = b->bits[1],
                           .in_group = {b->bits[2], b->bits[3]},
                           .made = b->made,
                           .make = count_row,
                           .make_arg = b,
                           .part = part ? &b->part : NULL};
    b->part = (larder__smo_part){.smo = {.k = b->part_k,
                                         .place = b->part_place,
                                         .f = b->part_f,
                                         .beta = b->part_beta,
                                         .lo = b->part_lo,
                                         .hi = b->part_hi,
                                         .diagonal = b->part_diagonal,
                                         .up = b->bits[4],
                                         .low = b->bits[5],
                                         .in_group = {b->bits[6], b->bits[7]},
                                         .made = b->part_made},
                                 .room = larder__smo_part_room(SLOTS),
                                 .slot = b->slot,
                                 .before = b->before,
                                 .wanted = b->bits[8]};
    for (size_t i = 0; i < SLOTS - 5; i++) { /* the last are empty */
        double y = i % 2 ? 1 : -1;
        x[i] = 0.8 * y + 2 * larder_rng_unit(&svm_rng) - 1;
        b->lo[i] = y > 0 ? 0 : -3, b->hi[i] = y > 0 ? 3 : 0;
        b->f[i] = b->linear[i] = -y, b->diagonal[i] = 1;
        size_t g = groups > 1 ? i / 2 % 2 : 0;
        b->smo.in_group[g][i / 8] |= (uint8_t)(1u << i % 8);
    }
    for (size_t i = 0; i < SLOTS; i++)
        b->place[i] = (uint32_t)i;
    for (size_t i = 0; i < SLOTS - 5; i++)
        for (size_t j = 0; j < SLOTS - 5; j++)
            b->k[i * b->smo.stride + j] = (float)exp(-4 * (x[i] - x[j]) * (x[i] - x[j]));
}

static double worth(const slots_block *b) {
    double sum = 0;
    for (size_t i = 0; i < SLOTS; i++) {
        double f = b->linear[i];
        for (size_t j = 0; j < SLOTS; j++)
            f += b->beta[j] * (double)b->k[j * b->smo.stride + i];
        if (i < SLOTS - 5)
            assert_true(fabs(f - b->f[i]) < 1e-9); /* also of those that were left out */
        sum += b->beta[i] * (f + b->linear[i]) / 2;
    }
    return sum;
}

/* Steps that leave slots out for a while end where others do. */
static void slots_left_out(void **state) {
    (void)state;
    slots_block *a = malloc(sizeof *a), *b = malloc(sizeof *b);
    assert_true(a && b);
    for (unsigned turn = 0; turn < 8; turn++) {
        uint64_t most = turn < 6 ? 100000 : 500; /* also where steps run out inside */
        unsigned seed = turn < 6 ? turn : (turn - 6) * 3;
        open_slots(a, 1 + seed % 2, seed, false);
        open_slots(b, 1 + seed % 2, seed, true);
        uint64_t plain = larder__smo_run(&a->smo, 1e-5, 0, most);
        uint64_t steps = larder__smo_run(&b->smo, 1e-5, 0, most);
        assert_true(steps <= most && plain <= most);
        assert_true(b->part.smo.n > 0 && b->asked < SLOTS); /* it was left for a part */
        double one = worth(a), other = worth(b);
        if (turn < 6)
            assert_true(fabs(one - other) < 1e-4 * fabs(one));
    }
    free(a), free(b);
}

/* Points that take part and those that do not, laid out; sums find their way back. */
static void shrunk_points(void **state) {
    (void)state;
    larder_svm_data *d = svm_clouds(150, 6, 2, 12);
    larder__kernel_conf conf = {.type = LARDER_SVM_RBF, .gamma = 1};
    larder__kernel k;
    larder__panel all;
    larder__shrunk s;
    uint32_t ids[150];
    double beta[150], f[150] = {0};
    for (uint32_t i = 0; i < 150; i++)
        ids[i] = i, beta[i] = i;
    check_ok(larder__kernel_open(&k, &conf, d, NULL, LARDER__ENGINE_AUTO));
    check_ok(larder__panel_fill(&all, &k, d, ids, 150));
    check_ok(larder__shrunk_open(&s, 150, 150));
    for (int round = 0; round < 3; round++) {
        size_t idle = 0;
        for (size_t i = 0; i < 150; i++)
            idle += s.idle[i] = larder_rng_below(&svm_rng, 3) == 0;
        check_ok(larder__shrunk_begin(&s, &k, &all, beta, 150));
        assert_true(s.on && s.active == 150 - idle && s.part.n == s.active && s.rest.n == idle);
        for (size_t i = 0; i < 150; i++) {
            const larder__panel *in = i < s.active ? &s.part : &s.rest;
            size_t at = i < s.active ? i : i - s.active;
            assert_true(s.idle[s.ids[i]] == (i >= s.active));
            assert_true(i == 0 || i == s.active || s.ids[i] > s.ids[i - 1]);
            assert_true(in->norm[at] == all.norm[s.ids[i]]);
            assert_memory_equal(in->dense + at * k.dim, all.dense + s.ids[i] * k.dim,
                                k.dim * sizeof(float));
        }
        for (size_t i = 0; i < s.active; i++)
            s.sum[i] = s.ids[i] + 1;
        memset(f, 0, sizeof f);
        larder__shrunk_spread(&s, f, s.ids, 0, s.active);
        for (size_t i = 0; i < 150; i++)
            assert_true(f[i] == (s.idle[i] ? 0 : (double)i + 1) && s.sum[i] == 0);
        assert_memory_equal(s.beta, beta, sizeof beta);
    }
    assert_int_equal(s.times, 3);
    larder__shrunk_close(&s);
    larder__panel_free(&all);
    larder__kernel_close(&k);
    larder_svm_data_close(&d);
}

/* What is in doubt is the sum in doubles; what is not stays as it was. */
static void near_the_border(void **state) {
    (void)state;
    larder_svm_data *d = svm_clouds(500, 4, 3, 13);
    larder_svm_conf conf = svm_conf(LARDER_SVM_C_SVC, 1, 1);
    larder_svm_model *m;
    check_ok(larder_svm_train(&m, d, &conf, NULL));
    larder__kernel k;
    check_ok(larder__kernel_open(&k, &m->kernel, m->vectors, d, LARDER__ENGINE_AUTO));
    larder__border b;
    check_ok(larder__border_open(&b, m, &k, 1));
    size_t a = 0, c = 1;
    for (size_t v = 0; v < m->values; v++) {
        for (size_t row = 0; row < 40; row++) {
            double sum = -m->rho[v];
            size_t at = 0;
            for (size_t class = 0; class < 3; class ++)
                for (size_t i = 0; i < m->class_vectors[class]; i++, at++) {
                    double distance = 0, coef = class == a
                                                    ? m->coef[(c - 1) * m->vectors->rows + at]
                                                : class == c ? m->coef[a * m->vectors->rows + at]
                                                             : 0;
                    for (size_t f = 0; f < 4; f++) {
                        double x = d->value[row * 4 + f] - m->vectors->value[at * 4 + f];
                        distance += x * x;
                    }
                    sum += coef * exp(-distance);
                }
            double error = larder__border_error(&b, d, row, 1) * b.spread[v];
            double doubt = larder__border_settle(&b, v, d, row, error, 1e-12);
            assert_true(fabs(doubt - sum) < 1e-9 * (1 + fabs(sum)));
            assert_true(larder__border_settle(&b, v, d, row, error, 0.5) == 0.5);
        }
        if (++c == 3)
            a++, c = a + 1;
    }
    larder__border_close(&b);
    larder__kernel_close(&k);
    larder_svm_model_close(&m);
    larder_svm_data_close(&d);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights_are_repeats), cmocka_unit_test(classes_in_order),
        cmocka_unit_test(taken_apart),         cmocka_unit_test(parts_that_do_not_fit),
        cmocka_unit_test(samples_by_cell),     cmocka_unit_test(first_candidates),
        cmocka_unit_test(slots_left_out),      cmocka_unit_test(shrunk_points),
        cmocka_unit_test(near_the_border),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
