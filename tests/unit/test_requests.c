/* Requests to storage: what a source makes of a read, and that ledger and counters have them. */
#include "check.h"

#include "base/asked.h"
#include "loader_kit.h"
#include "look_kit.h"
#include "source/source.h"
#include "tar_maker.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { SAMPLES = 200, SHARDS = 2, BYTES = 700 };

typedef struct place {
    char root[256], uri[400];
} place;

static void fill(unsigned char *bytes, uint64_t id) {
    for (size_t i = 0; i < BYTES; i++)
        bytes[i] = (unsigned char)(id * 31 + i);
}

static int set_up(void **state) {
    static place p;
    char path[400], key[32], label[8];
    unsigned char bytes[BYTES];
    check_folder(p.root);
    snprintf(path, sizeof path, "%s/index", p.root);
    setenv("LARDER_CACHE_DIR", path, 1);
    for (uint64_t s = 0, id = 0; s < SHARDS; s++) {
        snprintf(path, sizeof path, "%s/s-%llu.tar", p.root, (unsigned long long)s);
        FILE *f = fopen(path, "wb");
        assert_non_null(f);
        for (uint64_t i = 0; i < SAMPLES / SHARDS; i++, id++) {
            fill(bytes, id);
            snprintf(key, sizeof key, "%06llu", (unsigned long long)id);
            snprintf(label, sizeof label, "%llu", (unsigned long long)(id % 10));
            tar_put_sample(f, key, bytes, BYTES, label);
        }
        tar_put_end(f);
        assert_int_equal(fclose(f), 0);
    }
    snprintf(p.uri, sizeof p.uri, "tar:%s/s-{0..1}.tar", p.root);
    *state = &p;
    return 0;
}

static int tear_down(void **state) {
    check_folder_remove(((place *)*state)->root);
    return 0;
}

/* Reads n ids from `from` on, each `step` behind the last, and checks every byte. */
static uint64_t asked(larder__data *d, uint64_t from, size_t n, uint64_t step) {
    uint64_t ids[SAMPLES], before = larder__requests();
    static larder_read out[SAMPLES];
    unsigned char want[BYTES];
    for (size_t i = 0; i < n; i++)
        ids[i] = from + i * step;
    check_ok(larder__data_read(d, ids, n, out));
    for (size_t i = 0; i < n; i++) {
        fill(want, ids[i]);
        assert_int_equal(out[i].code, 0);
        assert_int_equal(larder_buf_size(out[i].buf), BYTES);
        assert_memory_equal(larder_buf_data(out[i].buf), want, BYTES);
        larder_buf_unref(&out[i].buf);
    }
    return larder__requests() - before;
}

static void neighbours_come_by_one_request(void **state) {
    const place *p = *state;
    larder__data *d;
    check_ok(larder__data_open(&d, p->uri));
    assert_int_equal(asked(d, 0, 1, 1), 1);
    assert_int_equal(asked(d, 0, SAMPLES, 1), SHARDS);
    assert_int_equal(asked(d, 10, 40, 1), 1);
    assert_int_equal(asked(d, 90, 20, 1), 2); /* the end of one shard, the beginning of another */
    assert_int_equal(asked(d, 3, 20, 9), 20); /* too far apart */
    larder__data_close(&d);
}

static void a_source_that_says_nothing_made_one_each(void **state) {
    (void)state;
    larder__data *d;
    uint64_t ids[] = {3, 4, 5, 9}, before = larder__requests();
    larder_read out[4];
    check_ok(larder__data_open(&d, "slow:latency=1us:mem:?n=10&bytes=100"));
    check_ok(larder__data_read(d, ids, 4, out));
    assert_int_equal(larder__requests() - before, 4);
    for (int i = 0; i < 4; i++)
        larder_buf_unref(&out[i].buf);
    larder__data_close(&d);
}

static double counted(larder_loader *l, const char *name) {
    larder_stat_value v = {.size = sizeof v};
    for (size_t i = 0; larder_loader_stat(l, i, &v) == 0; i++)
        if (strcmp(v.name, name) == 0)
            return v.value;
    fail_msg("no figure %s", name);
    return 0;
}

/* A miss that waits for another's read asks for nothing, so there are never more than misses. */
static void ledger_and_counters_have_them(void **state) {
    (void)state;
    larder_loader_conf c = kit_conf("mem:?n=160&h=8&w=8&c=3", "minio");
    c.cache = "25%";
    c.threads = 1;
    c.epochs = 3;
    larder_loader *l = NULL;
    check_ok(larder_loader_open(&l, &c));
    uint64_t digests[64], all = 0;
    kit_run(l, digests, 64);
    for (uint64_t e = 0; e < 3; e++) {
        larder_figures f;
        check_ok(look_figures(l, e, &f));
        assert_true(f.requests > 0 && f.requests <= f.misses + f.background_reads);
        assert_true(e || f.requests == 160);
        all += f.requests;
    }
    assert_true(counted(l, "storage_requests") == (double)all);
    larder_loader_close(&l);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(neighbours_come_by_one_request, set_up, tear_down),
        cmocka_unit_test(a_source_that_says_nothing_made_one_each),
        cmocka_unit_test(ledger_and_counters_have_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
