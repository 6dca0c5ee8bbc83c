/* Parts of a data set and mixes of several: each against a slow list of what must be there. */
#include "base/err.h"
#include "check.h"
#include "root_kit.h"
#include "source/source.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ---- parts ----------------------------------------------------------------------------------- */

/* These ids of mem:n=…, in this order: by name, size and bytes. */
static void expect_ids(const char *uri, const uint64_t *ids, uint64_t n, const char *whole_uri) {
    larder__data *d = NULL, *whole = NULL;
    check_ok(larder__data_open(&d, uri));
    check_ok(larder__data_open(&whole, whole_uri));
    assert_int_equal(larder__data_about(d)->count, n);
    uint64_t bytes = 0;
    for (uint64_t i = 0; i < n; i++) {
        char a[64], b[64];
        larder_sample x, y;
        larder_read read[2];
        check_ok(larder__data_name(d, i, a, sizeof a));
        check_ok(larder__data_name(whole, ids[i], b, sizeof b));
        assert_string_equal(a, b);
        check_ok(larder__data_stat(d, i, &x));
        check_ok(larder__data_stat(whole, ids[i], &y));
        assert_true(x.bytes == y.bytes && x.label == y.label);
        check_ok(larder__data_read(d, &i, 1, &read[0]));
        check_ok(larder__data_read(whole, &ids[i], 1, &read[1]));
        assert_int_equal(larder_buf_size(read[0].buf), x.bytes);
        assert_memory_equal(larder_buf_data(read[0].buf), larder_buf_data(read[1].buf), x.bytes);
        larder_buf_unref(&read[0].buf);
        larder_buf_unref(&read[1].buf);
        bytes += x.bytes;
    }
    assert_int_equal(larder__data_about(d)->bytes, bytes);
    assert_true(larder__data_about(d)->fingerprint != larder__data_about(whole)->fingerprint);
    assert_true(larder__data_about(d)->identity != larder__data_about(whole)->identity);
    larder_sample s;
    assert_int_equal(larder__data_stat(d, n, &s), LARDER_E_RANGE);
    larder__data_close(&d);
    larder__data_close(&whole);
}

#define WHOLE "mem:?n=23&bytes=3-40"

static void part(const char *take, const uint64_t *ids, uint64_t n) {
    char uri[200];
    snprintf(uri, sizeof uri, WHOLE "&take=%s", take);
    expect_ids(uri, ids, n, WHOLE);
}
#define PART(take, ...)                                                                            \
    part(take, (const uint64_t[]){__VA_ARGS__}, sizeof((uint64_t[]){__VA_ARGS__}) / 8)

static void takes(void **state) {
    (void)state;
    PART("4:7", 4, 5, 6);
    PART(":3", 0, 1, 2);
    PART("21:", 21, 22);
    PART("4", 0, 5, 11, 17);
    PART("10%", 0, 11);
    PART("-3:", 0, 1, 2);
    PART("-:20", 20, 21, 22);
    PART("-90%", 11, 22); /* 21 of 23 are taken */
    /* A share and all but it have every id once, in order. */
    for (uint64_t n = 1; n < 23; n++) {
        uint64_t in[23], out[23], k = 0, o = 0;
        char take[16];
        for (uint64_t id = 0; id < 23; id++) {
            bool taken = false;
            for (uint64_t i = 0; i < n; i++)
                taken |= i * 23 / n == id;
            if (taken)
                in[k++] = id;
            else
                out[o++] = id;
        }
        assert_int_equal(k, n);
        snprintf(take, sizeof take, "%d", (int)n);
        part(take, in, k);
        snprintf(take, sizeof take, "-%d", (int)n);
        part(take, out, o);
    }
}

static void indices(void **state) {
    (void)state;
    larder__data *d;
    char uri[600], name[64], text[200];
    check_ok(larder__data_open(&d, WHOLE));
    check_ok(larder__data_name(d, 9, name, sizeof name));
    larder__data_close(&d);
    snprintf(text, sizeof text, "22\r\n%s\n\n0\n17", name);
    kit_put("some.txt", text);
    snprintf(uri, sizeof uri, WHOLE "&ids=%s/some.txt", kit_root);
    expect_ids(uri, (const uint64_t[]){22, 9, 0, 17}, 4, WHOLE);
    snprintf(uri, sizeof uri, WHOLE "&ids=%s/some.txt&take=2", kit_root);
    expect_ids(uri, (const uint64_t[]){22, 0}, 2, WHOLE);
}

static void refused(const char *query, const char *says) {
    larder__data *d = NULL;
    char uri[700];
    snprintf(uri, sizeof uri, WHOLE "&%s", query);
    assert_true(larder__data_open(&d, uri) < 0);
    assert_null(d);
    if (!strstr(larder_errmsg(), says))
        fail_msg("%s: %s", uri, larder_errmsg());
}

static void wrong_parts(void **state) {
    (void)state;
    static const char *const takes[] = {"0",    "24",  "0%",    "101%", "7:7", "9:7",
                                        "0:24", "x",   "1e3",   "1 ",   "5%5", "-23",
                                        "-",    "--1", "1:2:3", "nan",  "-:",  "0.1%"};
    for (size_t i = 0; i < sizeof takes / sizeof *takes; i++) {
        char query[64];
        snprintf(query, sizeof query, "take=%s", takes[i]);
        refused(query, "is no part of 23 samples");
    }
    char query[400];
    kit_put("far.txt", "3\n23\n");
    kit_put("twice.txt", "3\n4\n3\n");
    kit_put("empty.txt", "\n\n");
    kit_put("none.txt", "3\nnobody\n");
    static const struct {
        const char *file, *says;
    } files[] = {{"far.txt", "far.txt, line 2: there is no sample \"23\""},
                 {"twice.txt", "twice.txt, line 3: sample 3 has come before"},
                 {"empty.txt", "names no sample"},
                 {"none.txt", "none.txt, line 2: there is no sample \"nobody\""},
                 {"gone.txt", "gone.txt"}};
    for (size_t i = 0; i < 5; i++) {
        snprintf(query, sizeof query, "ids=%s/%s", kit_root, files[i].file);
        refused(query, files[i].says);
    }
}

/* ---- mixes ----------------------------------------------------------------------------------- */

enum { SOURCES = 3 };

/* How often each sample of each source comes, by its name. */
static void expect_mix(const char *head, const uint64_t count[SOURCES], const double share[SOURCES],
                       uint64_t epoch) {
    char uri[400];
    larder__data *d = NULL;
    size_t at = (size_t)snprintf(uri, sizeof uri, "mix:%s", head);
    double sum = 0, cover = 0;
    for (size_t i = 0; i < SOURCES; i++) {
        at += (size_t)snprintf(uri + at, sizeof uri - at, "%s%g*mem:?n=%d&bytes=5&seed=%d",
                               i ? "," : "", share[i], (int)count[i], (int)i + 1);
        sum += share[i];
    }
    for (size_t i = 0; i < SOURCES; i++)
        cover = fmax(cover, ceil((double)count[i] * sum / share[i] - 1e-9));
    check_ok(larder__data_open(&d, uri));
    uint64_t n = larder__data_about(d)->count, times[SOURCES][64] = {0}, all[SOURCES] = {0};
    assert_int_equal(n, epoch ? epoch : (uint64_t)cover);
    for (uint64_t id = 0; id < n; id++) {
        char name[64];
        unsigned source, sample, again = 1;
        check_ok(larder__data_name(d, id, name, sizeof name));
        char *colon = strchr(name, ':'), *digits = colon + strcspn(colon, "0123456789");
        source = (unsigned)atoi(name);
        sample = (unsigned)strtoul(digits, NULL, 10);
        assert_true(source >= 1 && source <= SOURCES && sample < count[source - 1]);
        if (strchr(name, '('))
            again = (unsigned)atoi(strchr(name, '(') + 1);
        assert_int_equal(again, ++times[source - 1][sample]);
        all[source - 1]++;
        larder_read r;
        check_ok(larder__data_read(d, &id, 1, &r));
        check_ok(r.code);
        larder_buf_unref(&r.buf);
    }
    for (size_t i = 0; i < SOURCES; i++) {
        assert_true(fabs((double)all[i] - share[i] / sum * (double)n) < 1);
        assert_true(epoch || all[i] >= count[i]);
        for (uint64_t s = 0; s < count[i]; s++)
            assert_true(times[i][s] == all[i] / count[i] || times[i][s] == all[i] / count[i] + 1);
        assert_true(larder__data_figure(d, i) == (double)all[i]); /* each was read once */
    }
    larder__data_close(&d);
}

static void mixes(void **state) {
    (void)state;
    for (int i = 0; i < 60; i++) {
        uint64_t count[SOURCES];
        double share[SOURCES];
        for (size_t k = 0; k < SOURCES; k++) {
            count[k] = 1 + ((uint64_t)i * 7 + k * 13) % 40;
            share[k] = (double)(1 + ((uint64_t)i + k * 5) % 7) / (i % 2 ? 10 : 1);
        }
        expect_mix("", count, share, 0);
        expect_mix("epoch=50:", count, share, 50);
    }
}

/* Classes by their names: cat is cat wherever it stands. */
static void classes(void **state) {
    (void)state;
    static const char *const files[] = {"a", "a/cat", "a/dog", "b", "b/ant", "b/cat"};
    char path[512], uri[1200];
    for (size_t i = 0; i < 6; i++) {
        snprintf(path, sizeof path, "%s/%s", kit_root, files[i]);
        mkdir(path, 0700);
    }
    kit_put("a/cat/1.jpg", "1"), kit_put("a/dog/2.jpg", "2"), kit_put("b/ant/3.jpg", "3"),
        kit_put("b/cat/4.jpg", "4");
    larder__data *d;
    snprintf(uri, sizeof uri, "mix:1*dir:%s/a,1*dir:%s/b", kit_root, kit_root);
    check_ok(larder__data_open(&d, uri));
    static const char *const want[] = {"cat", "dog", "ant", "cat"};
    assert_int_equal(larder__data_about(d)->classes, 3);
    for (uint64_t id = 0; id < 4; id++) {
        larder_sample s;
        check_ok(larder__data_stat(d, id, &s));
        assert_string_equal(larder__data_class(d, (uint32_t)s.label), want[id]);
    }
    larder__data_close(&d);
}

static void wrong_mixes(void **state) {
    (void)state;
    static const char *const cases[][2] = {
        {"mix:", "of nothing"},
        {"mix:mem:?n=3", "does not begin with a share"},
        {"mix:0*mem:?n=3", "which is nothing"},
        {"mix:1*mem:?n=3,0.5*mix:1*mem:?n=3", "multiply the shares"},
        {"mix:1*mem:?n=3,1*mem:?n=3&h=2&w=2&c=1", "cannot be "},
        {"mix:epoch=2:1*mem:?n=3,1000*mem:?n=3", "has no share in an epoch of 2"},
        {"mix:epoch=no:1*mem:?n=3", "neither all nor a number"},
        {"mix:0.000000001*mem:?n=30,1*mem:?n=3", "too small for its source"},
        {"mix:1*mem:?n=0", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        larder__data *d = NULL;
        assert_true(larder__data_open(&d, cases[i][0]) < 0);
        assert_null(d);
        if (!strstr(larder_errmsg(), cases[i][1]))
            fail_msg("%s: %s", cases[i][0], larder_errmsg());
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(takes), cmocka_unit_test(indices), cmocka_unit_test(wrong_parts),
        cmocka_unit_test(mixes), cmocka_unit_test(classes), cmocka_unit_test(wrong_mixes),
    };
    return cmocka_run_group_tests(tests, kit_root_make, kit_root_remove);
}
