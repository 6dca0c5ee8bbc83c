/* Many threads read one data set, each source, with files that fail among them. */
#include "check.h"

#include "source/source.h"
#include "tar_maker.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

enum { THREADS = 8, SHARDS = 40, EACH = 10, N = SHARDS * EACH, BATCH = 20 };

typedef struct job {
    larder__data *data;
    unsigned seed;
    uint64_t gone;     /* id whose file was removed; N: none */
    const char *wrong; /* NULL: all went well */
} job;

static void *reader(void *arg) {
    job *j = arg;
    larder_rng rng;
    larder_rng_seed(&rng, j->seed, 0);
    for (int round = 0; round < 40 && !j->wrong; round++) {
        uint64_t ids[BATCH];
        larder_read out[BATCH];
        for (size_t i = 0; i < BATCH; i++)
            ids[i] = larder_rng_below(&rng, N);
        if (larder__data_read(j->data, ids, BATCH, out) < 0)
            j->wrong = "the whole read failed";
        for (size_t i = 0; i < BATCH && !j->wrong; i++) {
            char text[32];
            snprintf(text, sizeof text, "text %03zu", (size_t)ids[i]);
            if (ids[i] == j->gone ? out[i].code != LARDER_E_NOTFOUND : out[i].code != 0)
                j->wrong = "another code than expected";
            else if (out[i].buf && (larder_buf_size(out[i].buf) != 8 ||
                                    memcmp(larder_buf_data(out[i].buf), text, 8) != 0))
                j->wrong = "other bytes than expected";
            larder_buf_unref(&out[i].buf);
        }
    }
    return NULL;
}

static void run(const char *uri, const char *gone) {
    job jobs[THREADS];
    pthread_t ids[THREADS];
    larder__data *d;
    check_ok(larder__data_open(&d, uri));
    assert_int_equal(larder__data_about(d)->count, N);
    if (gone)
        assert_int_equal(remove(gone), 0);
    for (unsigned t = 0; t < THREADS; t++) {
        jobs[t] = (job){d, t, gone ? 13 : N, NULL};
        assert_int_equal(pthread_create(&ids[t], NULL, reader, &jobs[t]), 0);
    }
    for (unsigned t = 0; t < THREADS; t++)
        pthread_join(ids[t], NULL);
    larder__data_close(&d);
    for (unsigned t = 0; t < THREADS; t++)
        if (jobs[t].wrong)
            fail_msg("%s: %s", uri, jobs[t].wrong);
}

static void test_files(void **state) {
    (void)state;
    char root[256], path[400], gone[400], uri[400], text[32];
    check_folder(root);
    for (size_t s = 0; s < SHARDS; s++) {
        snprintf(path, sizeof path, "%s/%02zu", root, s);
        mkdir(path, 0700);
        for (size_t i = 0; i < EACH; i++) {
            snprintf(path, sizeof path, "%s/%02zu/%03zu.jpg", root, s, s * EACH + i);
            snprintf(text, sizeof text, "text %03zu", s * EACH + i);
            check_write(path, text, 8);
        }
    }
    snprintf(gone, sizeof gone, "%s/01/013.jpg", root);
    snprintf(uri, sizeof uri, "dir:%s?io=plain", root);
    run(uri, gone);
    check_write(gone, "text 013", 8);
    snprintf(uri, sizeof uri, "dir:%s", root);
    run(uri, gone);
    check_write(gone, "text 013", 8);
    snprintf(uri, sizeof uri, "slow:bandwidth=100MB,latency=10us:dir:%s", root);
    run(uri, gone);
    check_folder_remove(root);
}

static void test_shards(void **state) {
    (void)state;
    char root[256], path[400], uri[400];
    check_folder(root);
    for (size_t s = 0; s < SHARDS; s++) {
        snprintf(path, sizeof path, "%s/%02zu.tar", root, s);
        FILE *f = fopen(path, "wb");
        assert_non_null(f);
        for (size_t i = 0; i < EACH; i++) {
            char key[16], text[32];
            snprintf(key, sizeof key, "%zu", i);
            snprintf(text, sizeof text, "text %03zu", s * EACH + i);
            tar_put_sample(f, key, text, 8, "1");
        }
        tar_put_end(f);
        fclose(f);
    }
    snprintf(uri, sizeof uri, "tar:%s/{00..39}.tar?index=off", root);
    run(uri, NULL);
    struct rlimit old, few;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
    few = old;
    few.rlim_cur = 48; /* so a dozen stay open */
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    run(uri, NULL);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
    check_folder_remove(root);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_shards),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
