/* Orders in which every class is evenly spread. */
#include "check.h"

#include "base/mem.h"
#include "sample/permute.h"
#include "sample/strata.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { N = 20000, CLASSES = 50 };

/* Sizes that fall from class to class; the last few samples have none. */
static uint32_t falling(void *arg, uint64_t id) {
    const uint32_t *of = arg;
    return of[id];
}

static uint32_t *make_classes(uint64_t n) {
    uint32_t *of = calloc(n, sizeof *of);
    larder_rng rng;
    larder_rng_seed(&rng, 5, 0);
    for (uint64_t id = 0; id < n; id++)
        of[id] = id >= n - n / 100
                     ? LARDER_NO_GROUP
                     : (uint32_t)(pow(larder_rng_unit(&rng), 3) * CLASSES); /* ~100 : 1 */
    return of;
}

typedef struct rig {
    larder_draw_env env;
    larder__strata s;
    uint32_t *of, *order;
} rig;

static void rig_open(rig *g, uint64_t n) {
    *g = (rig){.of = make_classes(n), .order = larder__malloc(n * sizeof *g->order)};
    g->env = (larder_draw_env){.n = n, .class_of = falling, .class_arg = g->of};
    check_ok(larder__strata_open(&g->s, &g->env));
}

static void rig_close(rig *g) {
    larder__strata_close(&g->s);
    larder__free(g->order);
    free(g->of);
}

static void rig_order(rig *g, uint64_t seed, uint64_t sweep) {
    larder__permute(g->order, (uint32_t)g->env.n, seed, sweep);
    larder__strata_spread(&g->s, &g->order, seed, sweep);
}

/* The largest distance of a class from its share over all beginnings of the order, in samples. */
static double farthest(const rig *g, double *allowed) {
    double count[CLASSES + 1] = {0}, seen[CLASSES + 1] = {0}, worst = 0;
    for (uint64_t i = 0; i < g->env.n; i++)
        count[g->of[i] == LARDER_NO_GROUP ? CLASSES : g->of[i]]++;
    *allowed = 0;
    for (uint64_t i = 0; i < g->env.n; i++) {
        uint32_t c = g->of[g->order[i]] == LARDER_NO_GROUP ? CLASSES : g->of[g->order[i]];
        seen[c]++;
        double due = count[c] * (double)(i + 1) / (double)g->env.n;
        worst = fmax(worst, fabs(seen[c] - due));
        /* One of its own, and its share of what the ends of stretches may be off by. */
        *allowed =
            fmax(*allowed, 2 + (CLASSES + 1 + LARDER__STRATUM) * count[c] / (double)g->env.n);
    }
    return worst;
}

static void every_class_keeps_its_share(void **state) {
    (void)state;
    rig g;
    rig_open(&g, N);
    for (uint64_t sweep = 0; sweep < 5; sweep++) {
        double allowed, plain;
        rig_order(&g, 3, sweep);
        double worst = farthest(&g, &allowed);
        if (worst > allowed)
            fail_msg("sweep %d: a class is %.1f samples off, %.1f allowed", (int)sweep, worst,
                     allowed);
        larder__permute(g.order, N, 3, sweep);
        plain = farthest(&g, &allowed);
        assert_true(plain > allowed); /* what chance alone does */
    }
    rig_close(&g);
}

static void every_id_comes_once(void **state) {
    (void)state;
    static const uint64_t sizes[] = {4, 63, 64, 65, 1000, 4097};
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        rig g;
        rig_open(&g, sizes[k]);
        uint8_t *seen = calloc(sizes[k], 1);
        rig_order(&g, 7, 2);
        for (uint64_t i = 0; i < sizes[k]; i++) {
            assert_true(g.order[i] < sizes[k]);
            assert_false(seen[g.order[i]]++);
        }
        free(seen);
        rig_close(&g);
    }
}

/* A source that knows more labels with time, and other ones, still gets every sample. */
static void labels_may_change_between_sweeps(void **state) {
    (void)state;
    rig g;
    uint8_t seen[1000] = {0};
    rig_open(&g, sizeof seen);
    for (size_t id = 0; id < sizeof seen; id++)
        g.of[id] = id % 3 ? 1 : (uint32_t)(CLASSES + id);
    rig_order(&g, 1, 1);
    for (size_t i = 0; i < sizeof seen; i++)
        assert_false(seen[g.order[i]]++);
    rig_close(&g);
}

/* Sweeps differ, and the same one repeats, whatever was made between. */
static void orders_follow_from_the_seed(void **state) {
    (void)state;
    rig g;
    rig_open(&g, N);
    uint32_t *first = malloc(N * sizeof *first);
    rig_order(&g, 1, 4);
    memcpy(first, g.order, N * sizeof *first);
    rig_order(&g, 1, 5);
    assert_true(memcmp(first, g.order, N * sizeof *first) != 0);
    rig_order(&g, 1, 4);
    assert_memory_equal(first, g.order, N * sizeof *first);
    free(first);
    rig_close(&g);
}

static uint32_t name(void *arg, uint64_t id) {
    (void)arg;
    return (uint32_t)id;
}

static uint32_t alone(void *arg, uint64_t id) {
    (void)arg, (void)id;
    return 0;
}

/* Nothing to spread: the order stays as it is. */
static void without_classes_it_is_left_alone(void **state) {
    (void)state;
    uint32_t (*const kinds[])(void *, uint64_t) = {NULL, name, alone};
    for (int k = 0; k < 3; k++) {
        larder_draw_env env = {.n = 100, .class_of = kinds[k]};
        larder__strata s;
        uint32_t *order = malloc(100 * sizeof *order), same[100];
        check_ok(larder__strata_open(&s, &env));
        larder__permute(order, 100, 1, 1);
        larder__permute(same, 100, 1, 1);
        larder__strata_spread(&s, &order, 1, 1);
        assert_memory_equal(order, same, sizeof same);
        larder__strata_close(&s);
        free(order);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_class_keeps_its_share),
        cmocka_unit_test(every_id_comes_once),
        cmocka_unit_test(labels_may_change_between_sweeps),
        cmocka_unit_test(orders_follow_from_the_seed),
        cmocka_unit_test(without_classes_it_is_left_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
