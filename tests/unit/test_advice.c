/* Advice from records whose figures are made up: what a job waited for is taken from what it
 * measured, the first epoch included, and never made out of what a replay leaves unexplained. */
#include "check.h"

#include "sim/advice.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { SAMPLES = 2000, SIZE = 1000, BATCH = 50, STEPS = SAMPLES / BATCH };

static uint32_t about(void *arg, uint64_t id, int64_t *label) {
    (void)arg;
    *label = (int64_t)(id % 10);
    return SIZE;
}

typedef struct made { /* of a job; seconds */
    const char *cache;
    uint64_t epochs;
    double read;          /* storage, for a sample */
    double step;          /* training, for one */
    double waited, later; /* for a batch, in the first epoch and afterwards */
    double starved;       /* share of that: for storage */
    bool hits;            /* after the first epoch nothing is read */
} made;

static larder__advice advise(const made *m) {
    char folder[256], path[300];
    check_folder(folder);
    snprintf(path, sizeof path, "%s/job.tape", folder);
    larder__tape_job job = {.source = "made up",
                            .recipe = "minio",
                            .samples = SAMPLES,
                            .payload = (uint64_t)SAMPLES * SIZE,
                            .batch = BATCH,
                            .seed = 7,
                            .epochs = m->epochs,
                            .lag = 6,
                            .world = 1};
    snprintf(job.cache, sizeof job.cache, "%s", m->cache);
    larder__tape_writer *w = NULL;
    check_ok(larder__tape_create(&w, path, &job));
    for (uint64_t k = 0; k < m->epochs * STEPS; k++) {
        uint64_t ids[BATCH];
        uint8_t kinds[BATCH];
        bool read = k < STEPS || !m->hits;
        for (uint64_t i = 0; i < BATCH; i++) {
            ids[i] = (k * BATCH + i) % SAMPLES;
            kinds[i] = read ? LARDER_MISS : LARDER_HIT;
        }
        double waited = k < STEPS ? m->waited : m->later;
        larder__tape_batch b = {.number = k,
                                .epoch = k / STEPS,
                                .length = SAMPLES,
                                .n = BATCH,
                                .first = k % STEPS == 0,
                                .last = k % STEPS == STEPS - 1,
                                .waited = waited,
                                .starved = waited * m->starved,
                                .stepped = k ? m->step * BATCH : 0,
                                .pace = {.read_seconds = m->read, .step_seconds = m->step},
                                .read_bytes = read ? (uint64_t)BATCH * SIZE : 0};
        larder__tape_rows rows = {.ids = ids, .served = ids, .kinds = kinds, .about = about};
        larder__tape_add_batch(w, &b, &rows);
    }
    larder__tape_finish(&w);
    larder__tape t;
    larder__advice a;
    check_ok(larder__tape_read(&t, path));
    check_ok(larder__advise(&a, &t, &(larder__advice_conf){.memory = UINT64_MAX}));
    larder__tape_free(&t);
    check_folder_remove(folder);
    return a;
}

static bool says(const larder__advice *a, const char *words) {
    for (size_t i = 0; i < a->reason_count; i++)
        if (strstr(a->reasons[i], words))
            return true;
    return false;
}

/* Storage four times as slow as training, a cache that holds all of it: only the first epoch
 * waits. It is storage that it waited for, although a replay of the later epochs sees nothing. */
static void throttled_then_all_in_memory(void **state) {
    (void)state;
    for (uint64_t epochs = 1; epochs < 5; epochs++) {
        larder__advice a = advise(&(made){.cache = "100%",
                                          .epochs = epochs,
                                          .read = 4e-3,
                                          .step = 1e-3,
                                          .waited = 3e-3 * BATCH,
                                          .later = 0,
                                          .starved = 1,
                                          .hits = true});
        assert_int_equal(a.verdict, LARDER__VERDICT_CACHE);
        assert_true(a.knee > 50);
        assert_true(a.now.waiting < 0.01); /* of the later epochs */
        assert_true(fabs(a.explained - a.starved) < 0.1);
    }
}

static void throttled_throughout(void **state) {
    (void)state;
    larder__advice a = advise(&(made){.cache = "0",
                                      .epochs = 2,
                                      .read = 4e-3,
                                      .step = 1e-3,
                                      .waited = 3e-3 * BATCH,
                                      .later = 3e-3 * BATCH,
                                      .starved = 0.9});
    assert_int_equal(a.verdict, LARDER__VERDICT_CACHE);
    assert_false(says(&a, "decoding"));
}

static void fast_storage(void **state) {
    (void)state;
    larder__advice a =
        advise(&(made){.cache = "20%", .epochs = 2, .read = 1e-4, .step = 1e-3, .starved = 1});
    assert_int_equal(a.verdict, LARDER__VERDICT_KEEPS_UP);
    assert_int_equal(a.knee, 0);
}

static void fast_storage_slow_decoding(void **state) {
    (void)state;
    larder__advice a = advise(&(made){.cache = "20%",
                                      .epochs = 2,
                                      .read = 1e-4,
                                      .step = 1e-3,
                                      .waited = 1e-3 * BATCH,
                                      .later = 1e-3 * BATCH,
                                      .starved = 0.1});
    assert_int_equal(a.verdict, LARDER__VERDICT_ELSEWHERE);
    assert_true(says(&a, "The job waited for 50 % of its time, for storage only 5 %"));
}

/* It reads quickly, and yet it was waited for. */
static void late_storage(void **state) {
    (void)state;
    larder__advice a = advise(&(made){.cache = "20%",
                                      .epochs = 2,
                                      .read = 1e-5,
                                      .step = 1e-3,
                                      .waited = 1e-3 * BATCH,
                                      .later = 1e-3 * BATCH,
                                      .starved = 0.95});
    assert_int_equal(a.verdict, LARDER__VERDICT_LATE);
    assert_true(says(&a, "--ahead"));
    assert_string_equal(larder__verdict_name(a.verdict), "storage answers late");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(throttled_then_all_in_memory),
        cmocka_unit_test(throttled_throughout),
        cmocka_unit_test(fast_storage),
        cmocka_unit_test(fast_storage_slow_decoding),
        cmocka_unit_test(late_storage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
