/* Recorded row accesses come back as they were written, and nothing else is taken for them. */
#include "check.h"

#include "base/file.h"
#include "base/mem.h"
#include "svm/access.h"

#include <larder/plugin.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROWS = 70000, ROUNDS = 40, MOST = 300 };

typedef struct folder {
    char at[256], file[300];
} folder;

static int setup(void **st) {
    static folder f;
    check_folder(f.at);
    snprintf(f.file, sizeof f.file, "%s/run.rows", f.at);
    *st = &f;
    return 0;
}

static int teardown(void **st) {
    check_folder_remove(((folder *)*st)->at);
    return 0;
}

typedef struct recorded {
    uint32_t ids[MOST], left[MOST], length, solver;
    float dist[MOST];
    size_t n, leaving;
} recorded;
static recorded rounds[ROUNDS];

static float scores[ROWS];

static void draw_rounds(void) {
    larder_rng rng;
    larder_rng_seed(&rng, 11, 1);
    for (int k = 0; k < ROWS; k++)
        scores[k] = k == 20 ? INFINITY : (float)k * 0.25f - 3;
    for (int r = 0; r < ROUNDS; r++) {
        recorded *to = &rounds[r];
        to->n = larder_rng_below(&rng, MOST + 1);
        to->leaving = r % 3 ? larder_rng_below(&rng, MOST + 1) : 0;
        to->length = r % 2 ? larder_rng_below(&rng, ROWS) : 0;
        to->solver = (uint32_t)r / 10;
        for (int i = 0; i < MOST; i++) {
            to->ids[i] = larder_rng_below(&rng, i % 2 ? 200 : ROWS);
            to->left[i] = larder_rng_below(&rng, ROWS);
            to->dist[i] = i == 7 ? INFINITY : (float)larder_rng_unit(&rng) - 0.25f;
        }
    }
}

static void write_rounds(const char *path) {
    larder__access_log *w;
    check_ok(larder__access_log_open(&w, path, ROWS));
    for (int r = 0; r < ROUNDS; r++) {
        const recorded *from = &rounds[r];
        if (r % 10 == 0)
            check_ok(larder__access_log_solver(w, from->solver));
        if (r % 4 == 3)
            check_ok(larder__access_log_scores(w, scores));
        if (from->leaving)
            check_ok(larder__access_log_leave(w, from->left, from->dist, from->leaving));
        check_ok(larder__access_log_round(w, from->ids, from->n, from->length));
    }
    check_ok(larder__access_log_close(&w, 0));
}

/* Every row asked for in earlier rounds, by rising id, to within a hundredth. */
static void check_scores(const larder__accesses *a, uint64_t r) {
    static bool seen[ROWS];
    memset(seen, 0, sizeof seen);
    for (uint64_t i = 0; i < a->round[r].begin; i++)
        seen[a->ids[i]] = true;
    uint64_t at = a->round[r].scored_begin;
    for (uint32_t k = 0; k < ROWS && r % 4 == 3; k++)
        if (seen[k]) {
            assert_int_equal(a->scored.ids[at], k);
            float got = a->scored.dist[at++];
            assert_true(got == scores[k] || fabsf(got - scores[k]) <= fabsf(scores[k]) / 100);
        }
    assert_int_equal(at, a->round[r].scored_end);
}

static void test_round_trip(void **st) {
    const folder *f = *st;
    draw_rounds();
    write_rounds(f->file);
    assert_true(larder__accesses_probe(f->file));
    larder__accesses a;
    check_ok(larder__accesses_read(&a, f->file));
    assert_int_equal(a.rows, ROWS);
    assert_int_equal(a.rounds, ROUNDS);
    for (int r = 0; r < ROUNDS; r++) {
        const recorded *want = &rounds[r];
        const larder__access_round *got = &a.round[r];
        assert_int_equal(got->end - got->begin, want->n);
        assert_int_equal(got->left_end - got->left_begin, want->leaving);
        assert_int_equal(got->length, want->length);
        assert_int_equal(got->solver, want->solver);
        assert_memory_equal(a.ids + got->begin, want->ids, want->n * sizeof *want->ids);
        assert_memory_equal(a.left.ids + got->left_begin, want->left,
                            want->leaving * sizeof *want->left);
        assert_memory_equal(a.left.dist + got->left_begin, want->dist,
                            want->leaving * sizeof *want->dist);
        check_scores(&a, (uint64_t)r);
    }
    larder__accesses_free(&a);
}

/* Cut anywhere, or with any byte changed: refused, or at least within its own bounds. */
static void test_hostile(void **st) {
    const folder *f = *st;
    draw_rounds();
    write_rounds(f->file);
    unsigned char *bytes;
    size_t size;
    check_ok(larder__file_read(f->file, 1 << 24, &bytes, &size));
    larder__accesses a;
    const size_t part = getenv("LARDER_LONG") ? 1 : 10; /* one in so many */
    for (size_t cut = 0; cut < size; cut += cut < 100 ? 1 : 97 * part)
        assert_int_equal(larder__accesses_parse(&a, bytes, cut, "cut"), LARDER_E_FORMAT);
    for (size_t at = 0; at < size; at += at < 100 ? 1 : 89 * part) {
        static const unsigned char other[] = {0, 1, 2, 3, 0x7f, 0x80, 0xff};
        unsigned char was = bytes[at];
        for (size_t i = 0; i < sizeof other; i++) {
            bytes[at] = other[i];
            if (larder__accesses_parse(&a, bytes, size, "changed") == 0) {
                for (uint64_t k = 0; k < a.count; k++)
                    assert_true(a.ids[k] < a.rows);
                larder__accesses_free(&a);
            }
        }
        bytes[at] = was;
    }
    larder__free(bytes);
}

static void test_wrong_use(void **st) {
    const folder *f = *st;
    larder__access_log *w;
    larder__accesses a;
    const uint32_t good = 3, bad = 5;
    const float nan_dist = NAN, nan_scores[] = {NAN, NAN, NAN, NAN, NAN};
    assert_int_equal(larder__access_log_open(&w, f->file, UINT32_MAX), LARDER_E_RANGE);
    assert_null(w);
    assert_int_equal(larder__access_log_open(&w, "/nowhere/at/all", 5), LARDER_E_NOTFOUND);
    assert_null(w);
    check_ok(larder__access_log_open(&w, f->file, 5));
    assert_int_equal(larder__access_log_round(w, &bad, 1, 0), LARDER_E_RANGE);
    assert_int_equal(larder__access_log_leave(w, &good, &nan_dist, 1), LARDER_E_ARGS);
    check_ok(larder__access_log_round(w, &good, 1, 0));
    assert_int_equal(larder__access_log_scores(w, nan_scores), LARDER_E_ARGS);
    check_ok(larder__access_log_round(w, &good, 1, 0)); /* a refusal leaves nothing behind */
    assert_int_equal(larder__access_log_close(&w, LARDER_E_CANCELLED), LARDER_E_CANCELLED);
    assert_int_not_equal(access(f->file, F_OK), 0);
    assert_int_equal(larder__access_log_close(&w, 0), 0); /* NULL */
    check_ok(larder__access_log_open(&w, f->file, 5));
    check_ok(larder__access_log_close(&w, 0));
    check_ok(larder__accesses_read(&a, f->file)); /* no rounds at all */
    assert_int_equal(a.count + a.rounds + a.left.count + a.scored.count, 0);
    larder__accesses_free(&a);
    check_write(f->file, "LARDR", 5);
    assert_false(larder__accesses_probe(f->file));
    assert_int_equal(larder__accesses_read(&a, f->file), LARDER_E_FORMAT);
    assert_false(larder__accesses_probe("/nowhere/at/all"));
    if (access("/dev/full", W_OK) == 0) { /* a full disk is said, if only at the end */
        check_ok(larder__access_log_open(&w, "/dev/full", 5));
        assert_int_equal(larder__access_log_close(&w, 0), LARDER_E_FULL);
    }
}

static void test_no_memory(void **st) {
    const folder *f = *st;
    const uint32_t ids[] = {0, 1, 2};
    const float dist[] = {0, 1, 2, 3, 4};
    for (uint64_t at = 1;; at++) {
        larder__access_log *w = NULL;
        larder__accesses a = {0};
        larder__mem_fail_at(at, 0);
        int rc = larder__access_log_open(&w, f->file, 5);
        if (rc == 0)
            rc = larder__access_log_leave(w, ids, dist, 3);
        if (rc == 0)
            rc = larder__access_log_round(w, ids, 3, 0);
        if (rc == 0)
            rc = larder__access_log_scores(w, dist);
        rc = larder__access_log_close(&w, rc);
        if (rc == 0)
            rc = larder__accesses_read(&a, f->file);
        bool failed = larder__mem_failed();
        larder__mem_fail_at(0, 0);
        larder__accesses_free(&a);
        if (!failed) {
            check_ok(rc);
            return;
        }
        assert_int_equal(rc, LARDER_E_NOMEM);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_round_trip, setup, teardown),
        cmocka_unit_test_setup_teardown(test_hostile, setup, teardown),
        cmocka_unit_test_setup_teardown(test_wrong_use, setup, teardown),
        cmocka_unit_test_setup_teardown(test_no_memory, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
