/* Scoring beside training: effects in order and never early, the rule for too much of it, and that
 * a run's timing can be saved, gone on from and repeated. The signal is a tiny one whose results
 * depend on the order in which it saw the reports, and that can be held up. */
#include "check.h"

#include "base/mem.h"
#include "base/state.h"
#include "loader/feedback/scoring.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { N = 200, ROWS = 10, LAG = 4 };

/* ---- the signal ------------------------------------------------------------------------------ */

static struct { /* how many more reports may be scored */
    pthread_mutex_t lock;
    pthread_cond_t change;
    int permits;
} gate = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0};

static void permit(int more) {
    pthread_mutex_lock(&gate.lock);
    gate.permits += more;
    pthread_cond_broadcast(&gate.change);
    pthread_mutex_unlock(&gate.lock);
}

/* Until they are used up: so many reports must be waiting. */
static void permit_and_see(int more) {
    permit(more);
    pthread_mutex_lock(&gate.lock);
    while (gate.permits)
        pthread_cond_wait(&gate.change, &gate.lock);
    pthread_mutex_unlock(&gate.lock);
}

typedef struct toy {
    uint64_t seen; /* a digest of all reports in the order they came */
} toy;

typedef struct toy_result {
    uint64_t n, seen;
    uint64_t ids[];
} toy_result;

static size_t toy_size(const void *st, size_t rows) {
    (void)st;
    return sizeof(toy_result) + rows * sizeof(uint64_t);
}

static void toy_prepare(void *st, const larder_report *r, void *out) {
    toy *t = st;
    toy_result *to = out;
    pthread_mutex_lock(&gate.lock);
    while (gate.permits == 0)
        pthread_cond_wait(&gate.change, &gate.lock);
    gate.permits--;
    pthread_cond_broadcast(&gate.change);
    pthread_mutex_unlock(&gate.lock);
    for (size_t i = 0; i < r->n; i++) {
        t->seen = t->seen * 31 + r->ids[i] + (uint64_t)(int64_t)r->embeddings[i * r->dim + 1];
        to->ids[i] = r->ids[i];
    }
    to->n = r->n;
    to->seen = t->seen;
}

static void toy_apply(const void *st, const void *result, float *scores, larder_relation_fn relate,
                      void *arg) {
    (void)st;
    const toy_result *r = result;
    for (uint64_t i = 0; i < r->n; i++)
        scores[r->ids[i]] = (float)(r->seen % 1009);
    if (r->n > 1)
        relate(arg, r->ids[0], r->ids + 1, r->n - 1);
}

static bool toy_check(const void *st, const void *result, size_t rows) {
    (void)st;
    const toy_result *r = result;
    for (size_t i = 0; r->n == rows && i < rows; i++)
        if (r->ids[i] >= N)
            return false;
    return r->n == rows;
}

static void toy_save(const void *st, larder_writer *w) {
    larder_write_u64(w, ((const toy *)st)->seen);
}
static int toy_load(void *st, larder_reader *r) {
    ((toy *)st)->seen = larder_read_u64(r);
    return larder_read_status(r);
}

static double toy_figure(const void *st, size_t i) {
    (void)i;
    return (double)(((const toy *)st)->seen % 7);
}

static const larder_figure toy_figures[] = {{"toy_seen", "", "what the toy saw"}, {0}};
static const larder_signal toy_signal = {.plugin = {.name = "toy", .state_size = sizeof(toy)},
                                         .result_size = toy_size,
                                         .prepare = toy_prepare,
                                         .apply = toy_apply,
                                         .check = toy_check,
                                         .save = toy_save,
                                         .load = toy_load,
                                         .figures = toy_figures,
                                         .figure = toy_figure};

/* ---- one run --------------------------------------------------------------------------------- */

typedef struct run {
    toy st;
    float scores[N];
    larder__stats *stats;
    larder__feedback *feedback;
    larder__scoring *scoring;
    uint64_t effects[256]; /* effect i: which ids it told about (digest), at which batch */
    size_t count;
    uint64_t number; /* the batch to draw next */
    uint64_t related;
} run;

static void on_relate(void *arg, uint64_t key, const uint64_t *ids, size_t n) {
    run *r = arg;
    for (size_t i = 0; i < n; i++)
        r->related = r->related * 17 + key + ids[i];
}

static void on_told(void *arg, const uint64_t *ids, size_t n) {
    run *r = arg;
    uint64_t digest = r->number;
    for (size_t i = 0; i < n; i++)
        digest = digest * 31 + ids[i];
    r->effects[r->count++] = digest;
}

static void open_run(run *r, larder__score_mode mode) {
    *r = (run){0};
    check_ok(larder__stats_open(&r->stats));
    check_ok(larder__feedback_open(&r->feedback, N, LAG));
    larder__scoring_conf conf = {.signal = &toy_signal,
                                 .state = &r->st,
                                 .scores = r->scores,
                                 .n = N,
                                 .lag = LAG,
                                 .mode = mode,
                                 .stats = r->stats};
    check_ok(larder__scoring_open(&r->scoring, &conf));
}

static void close_run(run *r) {
    larder__scoring_close(&r->scoring);
    larder__feedback_close(&r->feedback);
    larder__stats_close(&r->stats);
}

static void report(run *r, uint64_t batch) {
    uint64_t ids[ROWS];
    int64_t labels[ROWS] = {0};
    float loss[ROWS] = {0}, emb[ROWS * 3];
    for (size_t i = 0; i < ROWS; i++) {
        ids[i] = (batch * 7 + i * 13) % N;
        for (size_t k = 0; k < 3; k++)
            emb[i * 3 + k] = (float)(batch + 2 * i + k);
    }
    larder_feedback fb = {.size = sizeof fb, .loss = loss, .embeddings = emb, .dim = 3};
    check_ok(larder__feedback_note(r->feedback, batch, 0, ROWS, ids, labels, &fb, NULL, NULL));
    check_ok(larder__scoring_collect(r->scoring, r->feedback));
}

static void draw(run *r) {
    larder_report due;
    larder__scored to = {on_relate, on_told, r};
    check_ok(larder__scoring_collect(r->scoring, r->feedback));
    if (r->number >= LAG)
        larder__feedback_take(r->feedback, r->number - LAG, &due, &(larder__losses){0});
    check_ok(larder__scoring_collect(r->scoring, r->feedback));
    check_ok(larder__scoring_apply(r->scoring, r->number, &to));
    r->number++;
}

static double stat(const run *r, const char *name) {
    larder_stat_value v = {.size = sizeof v};
    for (size_t i = 0; larder__stat_read(r->stats, i, &v) == 0; i++)
        if (strcmp(v.name, name) == 0)
            return v.type == 'h' ? (double)v.count : v.value;
    fail_msg("no figure %s", name);
    return 0;
}

static void check_same(const run *a, const run *b) {
    assert_int_equal(a->count, b->count);
    assert_memory_equal(a->effects, b->effects, a->count * sizeof *a->effects);
    assert_memory_equal(a->scores, b->scores, sizeof a->scores);
    assert_int_equal(a->related, b->related);
}

/* Batch k is drawn, trained on and reported; every seventh is never reported. */
static void train(run *r, uint64_t until) {
    while (r->number < until) {
        uint64_t k = r->number;
        draw(r);
        if (k % 7 != 3)
            report(r, k);
    }
}

/* ---- tests ----------------------------------------------------------------------------------- */

static void waiting_gives_what_inline_gives(void **state) {
    (void)state;
    run a, b;
    permit(1000);
    open_run(&a, LARDER__SCORE_INLINE);
    open_run(&b, LARDER__SCORE_WAIT);
    train(&a, 60);
    train(&b, 60);
    assert_int_equal(a.count, 48); /* batches 0..55, less the eight that said nothing */
    check_same(&a, &b);
    assert_true(stat(&b, "score_late") == 0);
    assert_true(stat(&b, "score_seconds") >= 48);
    close_run(&a);
    close_run(&b);
    permit(-gate.permits);
}

static void too_much_is_thinned_then_dropped(void **state) {
    (void)state;
    run r;
    open_run(&r, LARDER__SCORE_BESIDE); /* and nothing may be scored */
    for (uint64_t k = 0; k < 30; k++) {
        draw(&r);
        report(&r, k);
    }
    assert_int_equal(r.count, 0); /* a draw never waited */
    /* Two whole, then 5, 4, 3, 2, 2 and 2 rows of ten, the rest dropped; when the thread takes one,
     * one more of some sort. */
    double thinned = stat(&r, "score_thinned"), dropped = stat(&r, "score_dropped");
    double lost = stat(&r, "score_rows_lost") - ROWS * dropped;
    assert_true(thinned == 6 || thinned == 7);
    assert_true(dropped == 21 || dropped == 22);
    assert_true(lost >= 42 && lost <= 50);
    assert_true(stat(&r, "score_rows_new") > 0);
    permit(1000);
    while (r.count < 8) {
        draw(&r);
        report(&r, r.number - 1);
    }
    assert_true(stat(&r, "score_late") >= 8);
    close_run(&r);
    permit(-gate.permits);
}

static void a_late_run_can_be_repeated(void **state) {
    (void)state;
    run a, b;
    open_run(&a, LARDER__SCORE_BESIDE);
    for (uint64_t k = 0; k < 80; k++) {
        draw(&a);
        report(&a, k);
        if (k % 5 == 4)
            permit_and_see(k < 40 ? 2 : 5); /* slower than training, then as fast */
    }
    assert_true(stat(&a, "score_late") > 0);
    assert_true(stat(&a, "score_thinned") > 0);
    larder_writer w = {0};
    larder__scoring_effects(a.scoring, &w);
    larder_reader in = {.at = w.bytes, .end = w.bytes + w.size};
    permit(1000);
    open_run(&b, LARDER__SCORE_BESIDE);
    check_ok(larder__scoring_follow(b.scoring, &in));
    for (uint64_t k = 0; k < 80; k++) {
        draw(&b);
        report(&b, k);
    }
    check_same(&a, &b);
    larder__writer_free(&w);
    close_run(&a);
    close_run(&b);
    permit(-gate.permits);
}

/* Into a fresh run: feedback, scoring, scores and place. */
static void copy_state(run *from, run *to) {
    larder_writer w = {0};
    larder__feedback_save(from->feedback, &w);
    larder__scoring_save(from->scoring, &w);
    larder__scoring_effects(from->scoring, &w);
    assert_int_equal(w.code, 0);
    larder_reader r = {.at = w.bytes, .end = w.bytes + w.size};
    check_ok(larder__feedback_load(to->feedback, 0, &r));
    check_ok(larder__scoring_load(to->scoring, &r));
    check_ok(larder__scoring_past(to->scoring, &r));
    assert_int_equal(larder__read_left(&r), 0);
    memcpy(to->scores, from->scores, sizeof to->scores);
    memcpy(to->effects, from->effects, sizeof to->effects);
    to->count = from->count;
    to->number = from->number;
    to->related = from->related;
    larder__writer_free(&w);
}

static void saving_anywhere_changes_nothing(void **state) {
    (void)state;
    run whole, a, b;
    permit(100000);
    open_run(&whole, LARDER__SCORE_WAIT);
    train(&whole, 40);
    for (uint64_t at = 1; at < 40; at++) {
        open_run(&a, LARDER__SCORE_WAIT);
        open_run(&b, at % 2 ? LARDER__SCORE_WAIT : LARDER__SCORE_INLINE);
        train(&a, at);
        copy_state(&a, &b);
        train(&b, 40);
        check_same(&whole, &b);
        close_run(&a);
        close_run(&b);
    }
    close_run(&whole);
    permit(-gate.permits);
}

/* A state of waiting reports and ready results, cut and with every byte turned once. */
static void broken_states_are_refused(void **state) {
    (void)state;
    run a, b;
    permit(1000);
    open_run(&a, LARDER__SCORE_WAIT);
    train(&a, 20);
    larder_writer w = {0};
    larder__scoring_save(a.scoring, &w);
    larder__scoring_effects(a.scoring, &w);
    for (size_t cut = 0; cut < w.size; cut += 3) {
        larder_reader r = {.at = w.bytes, .end = w.bytes + cut};
        open_run(&b, LARDER__SCORE_INLINE);
        int rc = larder__scoring_load(b.scoring, &r);
        assert_true((rc == 0 ? larder__scoring_past(b.scoring, &r) : rc) == LARDER_E_FORMAT);
        close_run(&b);
    }
    for (size_t at = 0; at < w.size; at++) {
        w.bytes[at] ^= 0xff;
        larder_reader r = {.at = w.bytes, .end = w.bytes + w.size};
        open_run(&b, LARDER__SCORE_INLINE);
        if (larder__scoring_load(b.scoring, &r) == 0 && larder__scoring_past(b.scoring, &r) == 0)
            for (int k = 0; k < 30; k++)
                draw(&b); /* whatever it says, it stays within bounds */
        close_run(&b);
        w.bytes[at] ^= 0xff;
    }
    larder__writer_free(&w);
    close_run(&a);
    permit(-gate.permits);
}

static void memory_may_run_out(void **state) {
    (void)state;
    permit(100000);
    for (uint64_t n = 1; n < 40; n++) {
        run r;
        open_run(&r, LARDER__SCORE_INLINE);
        larder__mem_fail_at(n, 0);
        for (uint64_t k = 0; k < 12; k++) {
            larder__scored to = {on_relate, on_told, &r};
            uint64_t ids[2] = {k, k + 1};
            int64_t labels[2] = {0};
            float emb[6] = {0};
            larder_report due;
            larder_feedback fb = {.size = sizeof fb, .embeddings = emb, .dim = 3};
            int rc = larder__feedback_note(r.feedback, k, 0, 2, ids, labels, &fb, NULL, NULL);
            assert_true(rc == 0 || rc == LARDER_E_NOMEM);
            rc = larder__scoring_collect(r.scoring, r.feedback);
            assert_true(rc == 0 || rc == LARDER_E_NOMEM);
            if (k >= LAG)
                larder__feedback_take(r.feedback, k - LAG, &due, &(larder__losses){0});
            check_ok(larder__scoring_apply(r.scoring, k, &to));
        }
        larder__mem_fail_at(0, 0);
        close_run(&r);
    }
    permit(-gate.permits);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(waiting_gives_what_inline_gives),
        cmocka_unit_test(too_much_is_thinned_then_dropped),
        cmocka_unit_test(a_late_run_can_be_repeated),
        cmocka_unit_test(saving_anywhere_changes_nothing),
        cmocka_unit_test(broken_states_are_refused),
        cmocka_unit_test(memory_may_run_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
