/* What spider promises about evenness, recounted from outside over a whole training under its own
 * sampler: the radius suits the median of all samples, not of those it likes to draw; no hub stands
 * in more often than its limits say; nobody is substituted over and over. */
#include "graph_kit.h"
#include "loader_kit.h"

#include "base/hash.h"

#include <math.h>
#include <string.h>

enum { N = 1500, DIM = 16, BATCH = 50, EPOCHS = 8, DEGREE = 60 };
#define SOURCE "mem:?n=1500&h=8&w=8&c=3&classes=5"

static double noise(uint64_t x) { return (double)(larder__mix64(x) % 20001) / 10000 - 1; }

/* Four in five stand close together with their class, the fifth far from everybody. */
static void embed(uint64_t id, int64_t label, float *out) {
    double spread = id % 5 ? 0.3 : 3;
    for (uint64_t k = 0; k < DIM; k++)
        out[k] =
            (float)(2 * noise((uint64_t)label * DIM + k + 7) + spread * noise((id + 11) * DIM + k));
}

typedef struct seen {             /* of one training */
    uint64_t running[N], longest; /* substitutions of an id since it was last served itself */
    uint64_t lent[N], most_epoch, most_batch;
    uint64_t substitutes;
    double radius;
    double drawn_below; /* share of the last epoch's rows with fewer neighbours than wanted */
    graph_twin twin;
} seen;

static void look_at(seen *s, const larder_batch *b) {
    uint64_t here[N] = {0};
    for (size_t i = 0; i < b->n; i++) {
        uint64_t id = b->ids[i], served = b->served[i];
        bool other = b->kind[i] == LARDER_SUBSTITUTE;
        s->running[id] = other ? s->running[id] + 1 : 0;
        s->longest = s->running[id] > s->longest ? s->running[id] : s->longest;
        if (!other)
            continue;
        s->substitutes++;
        s->lent[served]++;
        here[served]++;
        s->most_epoch = s->lent[served] > s->most_epoch ? s->lent[served] : s->most_epoch;
        s->most_batch = here[served] > s->most_batch ? here[served] : s->most_batch;
    }
}

static bool is_below(const seen *s, uint64_t id) {
    double same, other;
    graph_twin_count(&s->twin, id, s->radius, &same, &other);
    return same + other < DEGREE;
}

static double radius_of(larder_loader *l) {
    larder_stat_value v = {.size = sizeof v};
    for (size_t i = 0; larder_loader_stat(l, i, &v) == 0; i++)
        if (strcmp(v.name, "graph_radius") == 0)
            return v.value;
    fail_msg("no graph_radius");
    return 0;
}

static void train(const char *recipe, seen *s) {
    static uint64_t last[N];
    float emb[BATCH * DIM];
    *s = (seen){0};
    graph_twin_open(&s->twin, N, DIM, true);
    larder_loader_conf c = kit_conf(SOURCE, recipe);
    c.cache = "20%";
    c.epochs = EPOCHS;
    c.batch = BATCH;
    larder_loader *l = NULL;
    check_ok(larder_loader_open(&l, &c));
    size_t rows = 0;
    for (;;) {
        const larder_batch *b;
        int rc = larder_loader_next(l, &b);
        check_ok(rc);
        if (rc == LARDER_END)
            break;
        if (rc == LARDER_END_EPOCH) {
            memset(s->lent, 0, sizeof s->lent);
            rows = 0;
            continue;
        }
        look_at(s, b);
        for (size_t i = 0; i < b->n; i++) {
            embed(b->served[i], b->y[i], emb + i * DIM);
            last[rows++] = b->served[i];
        }
        larder_report rep = {
            .n = b->n, .dim = DIM, .ids = b->served, .labels = b->y, .embeddings = emb};
        graph_twin_update(&s->twin, &rep);
        check_ok(larder_loader_report(
            l, b,
            &(larder_feedback){.size = sizeof(larder_feedback), .embeddings = emb, .dim = DIM}));
        check_ok(larder_loader_done(l, b));
        if (b->epoch == EPOCHS - 1)
            s->radius = radius_of(l);
    }
    larder_loader_close(&l);
    for (size_t i = 0; i < N; i++)
        s->drawn_below += is_below(s, last[i]) / (double)N;
}

static void the_radius_suits_all_samples(void **state) {
    (void)state;
    static seen s;
    train("spider:degree=60,hubs=16", &s);
    double below = 0;
    for (uint64_t id = 0; id < N; id++)
        below += is_below(&s, id) / (double)N;
    graph_twin_close(&s.twin);
    if (below < 0.4 || below > 0.6) /* half of all samples, but for what 1024 of them may err */
        fail_msg("%g of all samples have fewer than %d neighbours within %g", below, DEGREE,
                 s.radius);
    if (s.drawn_below < 0.7) /* or the test would show nothing */
        fail_msg("%g of the drawn have fewer", s.drawn_below);
}

static void hubs_and_the_substituted_have_limits(void **state) {
    (void)state;
    static const struct {
        const char *recipe;
        uint64_t epoch, batch, again;
    } tries[] = {{"spider:degree=60,hubs=16,hub_epoch=4,hub_batch=1,again=1", 4, 1, 1},
                 {"spider:degree=60,hubs=16,hub_epoch=0,hub_batch=2,again=3", N, 2, 3},
                 {"spider:degree=60,hubs=16,hub_epoch=7,hub_batch=0,again=0", 7, BATCH, N}};
    static seen s;
    for (size_t i = 0; i < sizeof tries / sizeof *tries; i++) {
        train(tries[i].recipe, &s);
        graph_twin_close(&s.twin);
        assert_true(s.substitutes > 100);
        /* Each limit holds, and is reached; where there is none, more than the others' comes. */
        assert_true(s.most_epoch <= tries[i].epoch);
        assert_true(s.most_epoch >= (tries[i].epoch == N ? 8 : tries[i].epoch));
        assert_true(s.most_batch <= tries[i].batch);
        assert_true(s.most_batch >= (tries[i].batch == BATCH ? 3 : tries[i].batch));
        assert_true(s.longest <= tries[i].again);
        assert_true(s.longest >= (tries[i].again == N ? 4 : tries[i].again));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_radius_suits_all_samples),
        cmocka_unit_test(hubs_and_the_substituted_have_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
