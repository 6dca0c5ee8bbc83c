/* Fresh and reused samples told apart: against a twin that remembers every service, round the
 * clock's face and over a break; which rows of a batch a report is about; and what their losses
 * come to. */
#include "check.h"

#include "loader/draw/recent.h"

#include <larder/plugin.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 64 };

typedef struct rig {
    larder__recent *r;
    larder__recent_conf conf;
    uint64_t number, served; /* batches and services so far */
    uint64_t *last;          /* by id: when it was served last, + 1 */
    larder__ticket rows[MOST];
    bool reused[MOST], sure[MOST]; /* of the batch served last, as the twin has it */
    size_t n;
} rig;

static void rig_open(rig *g, uint64_t n, uint64_t share, uint32_t batches) {
    *g = (rig){.conf = {.n = n, .share = share, .batch = MOST, .batches = batches}};
    check_ok(larder__recent_open(&g->r, &g->conf));
    g->last = calloc(n, sizeof *g->last);
}

static void rig_close(rig *g) {
    larder__recent_close(&g->r);
    free(g->last);
}

/* The slow way: how many services ago, exactly. Within a step of the boundary the clock may say
 * either. */
static void rig_serve(rig *g, const uint64_t *ids, size_t n) {
    uint64_t step = (g->conf.share + 63) / 64, slack = g->conf.share <= 64 ? 0 : step;
    for (size_t i = 0; i < n; i++) {
        uint64_t age = g->last[ids[i]] ? g->served + 1 - g->last[ids[i]] : UINT64_MAX;
        g->rows[i] = (larder__ticket){.key = ids[i]};
        g->reused[i] = age <= g->conf.share;
        g->sure[i] = age == UINT64_MAX || age + slack <= g->conf.share ||
                     age > g->conf.share + slack || slack == 0;
    }
    larder__recent_serve(g->r, g->number, g->rows, n);
    for (size_t i = 0; i < n; i++)
        g->last[ids[i]] = g->served + 1;
    g->served += n;
    g->n = n;
    for (size_t i = 0; i < n; i++)
        if (g->sure[i] && larder__recent_reused(g->r, g->number, i) != g->reused[i])
            fail_msg("batch %d, row %d, id %d: the twin says %d", (int)g->number, (int)i,
                     (int)ids[i], g->reused[i]);
    g->number++;
}

static void run_over_break(rig *g) {
    larder_writer w = {0};
    larder__recent_save(g->r, &w);
    larder__recent_close(&g->r);
    check_ok(larder__recent_open(&g->r, &g->conf));
    larder_reader in = {.at = w.bytes, .end = w.bytes + w.size};
    check_ok(larder__recent_load(g->r, &in));
    assert_int_equal(larder__read_left(&in), 0);
    larder__writer_free(&w);
}

/* Ids that come often, seldom and once in a long while, until the clock has gone round many times.
 */
static void agrees_with_its_twin(void **state) {
    (void)state;
    const uint64_t shares[] = {1, 7, 63, 64, 65, 300, 1000};
    larder_rng rng;
    larder_rng_seed(&rng, 5, 0);
    for (size_t k = 0; k < sizeof shares / sizeof *shares; k++) {
        rig g;
        uint64_t n = 2 * shares[k] + 40, unsure = 0, rows = 0;
        rig_open(&g, n, shares[k], 5);
        for (int b = 0; b < 6000; b++) {
            uint64_t ids[MOST];
            size_t count = 1 + larder_rng_below(&rng, MOST);
            /* For long stretches a part of the ids alone: the others' times grow old. */
            uint64_t from = b / 700 % 2 ? n / 2 : 0;
            for (size_t i = 0; i < count; i++)
                ids[i] = from + larder_rng_below(&rng, (uint32_t)(n - from));
            rig_serve(&g, ids, count);
            for (size_t i = 0; i < count; i++, rows++)
                unsure += !g.sure[i];
            if (b % 1500 == 700)
                run_over_break(&g);
        }
        assert_true(unsure * 10 < rows); /* the twin had something to say */
        rig_close(&g);
    }
}

/* Served at one step of the clock, and again when its hand shows the same: long ago all the same.
 */
static void once_around_is_long_ago(void **state) {
    (void)state;
    for (uint64_t pause = 1; pause < 800; pause++) {
        rig g;
        rig_open(&g, 3, 10, 2);
        rig_serve(&g, (uint64_t[]){0}, 1);
        for (uint64_t i = 0; i < pause; i++)
            rig_serve(&g, (uint64_t[]){1}, 1);
        rig_serve(&g, (uint64_t[]){0, 2}, 2);
        assert_int_equal(larder__recent_reused(g.r, g.number - 1, 0), pause < 10);
        rig_close(&g);
    }
    rig g; /* and batches that go round by themselves */
    uint64_t ids[MOST] = {0};
    rig_open(&g, 3, 10, 2);
    for (int b = 0; b < 100; b++) {
        rig_serve(&g, ids, MOST);
        assert_false(larder__recent_reused(g.r, g.number - 1, MOST - 1)); /* twice in one batch */
    }
    rig_close(&g);
}

/* Exactly-once epochs in random order: half of the ids come again within an epoch. */
static void plain_training_comes_again_by_halves(void **state) {
    (void)state;
    enum { N = 6400, EPOCHS = 12 };
    rig g;
    rig_open(&g, N, N, 2);
    uint64_t order[N], reused = 0;
    larder_rng rng;
    larder_rng_seed(&rng, 1, 0);
    for (int e = 0; e < EPOCHS; e++) {
        for (uint32_t i = 0; i < N; i++) {
            uint32_t j = larder_rng_below(&rng, i + 1);
            order[i] = order[j];
            order[j] = i;
        }
        for (size_t at = 0; at < N; at += MOST) {
            rig_serve(&g, order + at, MOST);
            for (size_t i = 0; i < MOST; i++)
                reused += e > 0 && larder__recent_reused(g.r, g.number - 1, i);
        }
    }
    double share = (double)reused / (N * (EPOCHS - 1));
    assert_true(share > 0.49 && share < 0.52); /* half a step of 1/64 more */
    rig_close(&g);
}

/* ---- reports --------------------------------------------------------------------------------- */

static larder__losses told(rig *g, const larder__ranks *ranks, uint64_t number, size_t n,
                           const uint64_t *ids, const float *loss) {
    larder__losses out;
    larder_report said = {.batch = number, .n = n, .ids = ids, .loss = loss};
    larder__recent_tell(g->r, ranks, &said, &out);
    return out;
}

static void check_told(larder__losses l, uint64_t fresh, uint64_t reused, double fresh_sum,
                       double reused_sum) {
    assert_int_equal(l.count[0], fresh);
    assert_int_equal(l.count[1], reused);
    assert_true(fabs(l.sum[0] - fresh_sum) < 1e-12 && fabs(l.sum[1] - reused_sum) < 1e-12);
}

static void rows_are_found_in_their_batch(void **state) {
    (void)state;
    rig g;
    larder__ranks all = {0};
    rig_open(&g, 100, 50, 3);
    rig_serve(&g, (uint64_t[]){1, 3}, 2);
    rig_serve(&g, (uint64_t[]){0, 1, 2, 3, 4}, 5); /* 1 and 3 are reused */
    const uint64_t ids[] = {0, 1, 2, 3, 4}, some[] = {1, 2, 4}, instead[] = {0, 1, 77, 3, 4},
                   more[] = {50, 51, 0, 1, 2, 3, 4, 52};
    const float loss[] = {1, 2, 4, 8, 16}, odd[] = {1, NAN, 4, INFINITY, 16},
                long_loss[] = {64, 64, 1, 2, 4, 8, 16, 64};
    check_told(told(&g, &all, 1, 5, ids, loss), 3, 2, 21, 10);
    check_told(told(&g, &all, 1, 5, ids, odd), 3, 0, 21, 0);
    check_told(told(&g, &all, 1, 3, some, loss), 2, 1, 6, 1);
    check_told(told(&g, &all, 1, 5, instead, loss), 2, 2, 17, 10);
    check_told(told(&g, &all, 1, 8, more, long_loss), 3, 2, 21, 10);
    check_told(told(&g, &all, 2, 5, ids, loss), 0, 0, 0, 0); /* not served yet */
    /* Dealt out to two ranks, each says its own; one that hears of all takes its own. */
    for (uint32_t rank = 0; rank < 2; rank++) {
        larder__ranks r = {.rank = rank, .world = 2, .batch = 6};
        const uint64_t own[2][3] = {{0, 2, 4}, {1, 3}};
        const float own_loss[2][3] = {{1, 4, 16}, {2, 8}};
        larder__losses want = {.count = {rank ? 0 : 3, rank ? 2 : 0}};
        check_told(told(&g, &r, 1, rank ? 2 : 3, own[rank], own_loss[rank]), want.count[0],
                   want.count[1], rank ? 0 : 21, rank ? 10 : 0);
        check_told(told(&g, &r, 1, 5, ids, loss), want.count[0], want.count[1], rank ? 0 : 21,
                   rank ? 10 : 0);
    }
    larder__losses twice;
    larder_report said = {.batch = 1, .n = 5, .ids = ids, .loss = loss};
    larder__recent_tell_once(g.r, &all, &said, &twice);
    check_told(twice, 3, 2, 21, 10);
    larder__recent_tell_once(g.r, &all, &said, &twice);
    check_told(twice, 0, 0, 0, 0);
    for (int i = 0; i < 3; i++)
        rig_serve(&g, (uint64_t[]){9}, 1);
    check_told(told(&g, &all, 1, 5, ids, loss), 0, 0, 0, 0); /* forgotten */
    rig_close(&g);
}

/* Of many classes a few rows are enough, the same ones whoever reports them. */
static void few_rows_of_many_classes(void **state) {
    (void)state;
    enum { CLASSES = 640 };
    float *logits = calloc(MOST * CLASSES, sizeof *logits);
    int64_t labels[MOST] = {0};
    uint64_t many[MOST], looked = 0;
    for (uint64_t b = 0; b < 40; b++) {
        for (size_t i = 0; i < MOST; i++)
            many[i] = (b * 7 + i) % 100;
        larder_report all_rows = {.batch = b,
                                  .n = MOST,
                                  .ids = many,
                                  .labels = labels,
                                  .logits = logits,
                                  .classes = CLASSES};
        larder_report last = all_rows;
        last.n = 1, last.ids = many + MOST - 1;
        for (size_t i = 0; i < MOST; i++)
            looked += isnan(larder__recent_loss(&all_rows, i)) ? 0 : 1;
        assert_int_equal(isnan(larder__recent_loss(&all_rows, MOST - 1)),
                         isnan(larder__recent_loss(&last, 0)));
    }
    free(logits);
    assert_true(looked > 40 * MOST / 15 && looked < 40 * MOST / 7); /* one in ten */
}

/* ---- the gap --------------------------------------------------------------------------------- */

static void add(larder__gap *g, uint64_t block, uint64_t fresh, double f, uint64_t reused, double r,
                double keep) {
    larder__losses l = {
        .block = block, .count = {fresh, reused}, .sum = {f * (double)fresh, r * (double)reused}};
    larder__gap_add(g, &l, keep);
}

static void losses_of_one_time_are_compared(void **state) {
    (void)state;
    larder__gap g = {0};
    larder_memorised m = larder__gap_read(&g);
    assert_true(isnan(m.fresh_loss) && isnan(m.reused_loss) && m.fresh == 0);
    /* A cache fills while losses are high, then both sorts come: they differ by 0.5, not more. */
    for (uint64_t b = 0; b < 20; b++)
        add(&g, b, 30, 9, 0, 0, 1);
    m = larder__gap_read(&g);
    assert_true(isnan(m.fresh_loss) && m.fresh == 0);
    for (uint64_t b = 20; b < 64; b++) /* losses fall, and reuse grows: still 0.5 apart */
        add(&g, b, 64 - b, 5 - 0.05 * (double)b, b, 4.5 - 0.05 * (double)b, 1);
    m = larder__gap_read(&g);
    assert_true(fabs(m.fresh_loss - m.reused_loss - 0.5) < 1e-12);
    assert_true(m.fresh == 990 && m.reused == 1826);
    /* Several reports of a block are one, whatever is in each. */
    larder__gap whole = {0}, parts = {0};
    add(&whole, 3, 2, 1, 4, 0.25, 1);
    add(&parts, 3, 2, 1, 0, 0, 1);
    add(&parts, 3, 0, 0, 1, 0.25, 1);
    add(&parts, 3, 0, 0, 3, 0.25, 1);
    larder_memorised a = larder__gap_read(&whole), b = larder__gap_read(&parts);
    assert_memory_equal(&a, &b, sizeof a);
    assert_true(a.first_loss == 0.5);
    for (int i = 0; i < 100; i++) /* what training began with rests on 64, not on one or on all */
        add(&parts, 4, i < 58, i < 58 ? 0.5 : 0, 1, i < 58 ? 0.5 : 9, 1);
    assert_true(fabs(larder__gap_read(&parts).first_loss - 0.5) < 1e-12);
    assert_true(a.fresh == 2 && a.reused == 4 && a.fresh_loss == 1 && a.reused_loss == 0.25);
}

static void old_blocks_fade(void **state) {
    (void)state;
    larder__gap g = {0};
    add(&g, 0, 10, 4, 10, 1, 0.5);
    add(&g, 2, 10, 2, 10, 1, 0.5);
    add(&g, 3, 10, 2, 10, 1, 0.5);
    larder_memorised m =
        larder__gap_read(&g); /* weights 1/8, 1/2 and 1, the first two blocks ago */
    double sum = 1.0 / 8 + 1.0 / 2 + 1;
    assert_true(fabs(m.fresh_loss - (4.0 / 8 + 2 * 1.5) / sum) < 1e-12);
    assert_true(fabs(m.fresh - 10 * sum) < 1e-12 && m.reused == m.fresh && m.reused_loss == 1);
    larder_writer w = {0};
    larder__gap_save(&g, &w);
    assert_int_equal(w.size, LARDER__GAP_BYTES);
    larder__gap back = {0};
    larder_reader in = {.at = w.bytes, .end = w.bytes + w.size};
    check_ok(larder__gap_load(&back, &in));
    larder_memorised again = larder__gap_read(&back);
    assert_memory_equal(&m, &again, sizeof m);
    larder__writer_free(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_with_its_twin),
        cmocka_unit_test(once_around_is_long_ago),
        cmocka_unit_test(plain_training_comes_again_by_halves),
        cmocka_unit_test(rows_are_found_in_their_batch),
        cmocka_unit_test(few_rows_of_many_classes),
        cmocka_unit_test(losses_of_one_time_are_compared),
        cmocka_unit_test(old_blocks_fade),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
