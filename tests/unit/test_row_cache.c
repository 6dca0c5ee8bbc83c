/* The row cache: what is taken has the right values, however it came; rows in hand outlive
 * everything; failures leave it usable. */
#include "check.h"

#include "base/mem.h"
#include "svm/row_cache.h"
#include "svm/row_pool.h"

#include <math.h>
#include <string.h>

enum { N = 400, Q = 20, ROUNDS = 120 };

/* The values of an imagined kernel. */
static float value(uint32_t row, size_t column) { return (float)row * 1000 + (float)column; }

static void fill(larder_buf *b, uint32_t row) {
    float *v = larder_buf_data(b);
    for (size_t c = 0; c < larder_buf_size(b) / sizeof(float); c++)
        v[c] = value(row, c);
}

static void check_row(larder_buf *b, uint32_t row, size_t length) {
    const float *v = larder_buf_data(b);
    assert_true(larder_buf_size(b) / sizeof(float) >= length);
    for (size_t c = 0; c < length; c++)
        if (v[c] != value(row, c))
            fail_msg("row %u, column %d: %g", row, (int)c, (double)v[c]);
}

static void draw(larder_rng *rng, uint32_t *ids) {
    static uint32_t seen[N], mark;
    mark++;
    for (size_t i = 0; i < Q;) {
        uint32_t id = larder_rng_below(rng, larder_rng_below(rng, 2) ? N : N / 4);
        if (seen[id] != mark) {
            seen[id] = mark;
            ids[i++] = id;
        }
    }
}

static larder__row_cache *open_cache(const char *policy) {
    larder__row_cache_conf conf = {
        .policy = policy, .rows = N, .budget = 80 * N * sizeof(float), .seed = 3};
    larder__row_cache *c;
    check_ok(larder__row_cache_open(&c, &conf));
    return c;
}

/* A run of rounds as a solver makes them: rows stay for two rounds. Returns the hits. */
static uint64_t run(larder__row_cache *c) {
    larder_rng rng;
    larder_rng_seed(&rng, 5, 5);
    larder_buf *held[2][Q] = {{NULL}};
    uint32_t ids[2][Q];
    bool missing[Q];
    float dist[N], left[Q];
    for (int round = 0; round < ROUNDS; round++) {
        larder_buf **mine = held[round % 2];
        uint32_t *rows = ids[round % 2];
        for (uint32_t k = 0; k < N; k++)
            dist[k] = (float)((k * 7919 + (uint32_t)round) % 97);
        if (larder__row_cache_listens(c))
            larder__row_cache_scores(c, dist);
        for (size_t i = 0; round >= 2 && i < Q; i++)
            left[i] = dist[rows[i]];
        if (round >= 2)
            larder__row_cache_leave(c, rows, left, Q);
        for (size_t i = 0; i < Q; i++)
            larder_buf_unref(&mine[i]);
        draw(&rng, rows);
        check_ok(larder__row_cache_take(c, rows, Q, mine, missing));
        for (size_t i = 0; i < Q; i++)
            if (missing[i])
                fill(mine[i], rows[i]);
            else
                check_row(mine[i], rows[i], N);
        larder__row_cache_filled(c);
        for (size_t i = 0; round && i < Q; i++) /* those of the last round are still there */
            check_row(held[(round + 1) % 2][i], ids[(round + 1) % 2][i], 1);
    }
    larder__row_cache_figures f;
    larder__row_cache_read(c, &f);
    assert_int_equal(f.asked, Q * ROUNDS);
    assert_true(f.resident_bytes <= 80 * N * sizeof(float));
    for (size_t i = 0; i < 2 * Q; i++)
        larder_buf_unref(&held[i / Q][i % Q]);
    return f.hits;
}

static void test_policies(void **st) {
    (void)st;
    static const char *const policies[] = {"lru",  "lfu",          "lat", "efu",
                                           "hcst", "hcst:guard=1", "kkt"};
    for (size_t i = 0; i < sizeof policies / sizeof *policies; i++) {
        larder__row_cache *c = open_cache(policies[i]);
        uint64_t hits = run(c);
        assert_true(hits > 50 && hits < Q * ROUNDS);
        larder__row_cache_close(&c);
    }
}

static void test_kept_across_solvers(void **st) {
    (void)st;
    larder__row_cache *c = open_cache("lru");
    uint32_t ids[Q];
    larder_buf *rows[Q];
    bool missing[Q];
    for (int solver = 0; solver < 2; solver++) {
        for (uint32_t i = 0; i < Q; i++)
            ids[i] = i * 3;
        check_ok(larder__row_cache_take(c, ids, Q, rows, missing));
        for (size_t i = 0; i < Q; i++) {
            assert_int_equal(missing[i], solver == 0);
            assert_int_equal((uintptr_t)larder_buf_data(rows[i]) % 64, 0);
            if (missing[i])
                fill(rows[i], ids[i]);
            check_row(rows[i], ids[i], N);
        }
        larder__row_cache_filled(c);
        larder__row_cache_leave(c, ids, NULL, Q);
        for (size_t i = 0; i < Q; i++)
            if (solver == 0 || i)
                larder_buf_unref(&rows[i]);
    }
    larder__row_cache_close(&c); /* the first row is still in hand */
    check_row(rows[0], 0, N);
    larder_buf_unref(&rows[0]);
}

static void test_wrong_use(void **st) {
    (void)st;
    larder__row_cache_conf conf = {.policy = "belady", .rows = N, .budget = 1000};
    larder__row_cache *c;
    assert_int_equal(larder__row_cache_open(&c, &conf), LARDER_E_ARGS);
    assert_null(c);
    conf.policy = "nothing";
    assert_int_equal(larder__row_cache_open(&c, &conf), LARDER_E_ARGS);
    conf.policy = "lru";
    conf.rows = (size_t)1 << 31;
    assert_int_equal(larder__row_cache_open(&c, &conf), LARDER_E_RANGE);
    larder__row_cache_close(&c);
    c = open_cache("lru");
    const uint32_t twice[] = {4, 4}, outside[] = {N};
    const uint32_t fine[] = {4, 5};
    larder_buf *rows[2];
    bool missing[2];
    assert_int_equal(larder__row_cache_take(c, twice, 2, rows, missing), LARDER_E_ARGS);
    assert_int_equal(larder__row_cache_take(c, outside, 1, rows, missing), LARDER_E_RANGE);
    check_ok(larder__row_cache_take(c, fine, 2, rows, missing));
    const uint32_t other[] = {7};
    larder_buf *more;
    assert_int_equal(larder__row_cache_take(c, other, 1, &more, missing), LARDER_E_STATE);
    for (size_t i = 0; i < 2; i++) {
        assert_true(missing[i]);
        fill(rows[i], fine[i]);
    }
    larder__row_cache_filled(c);
    for (size_t i = 0; i < 2; i++)
        larder_buf_unref(&rows[i]);
    larder__row_cache_close(&c);
}

static void test_no_memory(void **st) {
    (void)st;
    uint32_t ids[Q];
    bool missing[Q];
    larder_buf *rows[Q];
    for (uint64_t at = 1;; at++) {
        larder__row_cache_conf conf = {
            .policy = "kkt", .rows = N, .budget = 80 * N * sizeof(float)};
        larder__row_cache *c = NULL;
        larder_rng rng;
        larder_rng_seed(&rng, at, 1);
        larder__mem_fail_at(at, 0);
        int rc = larder__row_cache_open(&c, &conf);
        for (int round = 0; rc == 0 && round < 3; round++) {
            draw(&rng, ids);
            rc = larder__row_cache_take(c, ids, Q, rows, missing);
            if (rc < 0)
                break;
            for (size_t i = 0; i < Q; i++)
                fill(rows[i], ids[i]);
            larder__row_cache_filled(c);
            larder__row_cache_leave(c, ids, (const float[Q]){0}, Q);
            for (size_t i = 0; i < Q; i++)
                larder_buf_unref(&rows[i]);
        }
        bool failed = larder__mem_failed();
        larder__mem_fail_at(0, 0);
        larder__row_cache_close(&c);
        if (!failed) {
            check_ok(rc);
            return;
        }
        assert_int_equal(rc, LARDER_E_NOMEM);
    }
}

/* Memory comes back to the pool and is used again. */
static void test_pool(void **st) {
    (void)st;
    larder__row_pool *pool;
    check_ok(larder__row_pool_open(&pool, 256));
    larder_buf *a = larder__row_pool_take(pool), *b = larder__row_pool_take(pool), *c;
    const void *where = larder_buf_data(a);
    assert_int_equal((uintptr_t)where % 64, 0);
    larder_buf_unref(&a);
    c = larder__row_pool_take(pool);
    assert_ptr_equal(larder_buf_data(c), where);
    larder__row_pool_close(&pool); /* its rows keep it */
    memset(larder_buf_data(c), 1, 256);
    larder_buf_unref(&b);
    larder_buf_unref(&c);
    check_ok(larder__row_pool_open(&pool, 4)); /* a row of one value */
    a = larder__row_pool_take(pool);
    larder_buf_unref(&a);
    larder__row_pool_close(&pool);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_policies),  cmocka_unit_test(test_kept_across_solvers),
        cmocka_unit_test(test_wrong_use), cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_pool),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
