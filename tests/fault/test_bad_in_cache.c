/* A cache that holds what is no good: before a sample is bad it is read again from storage, once;
 * one that is bad there too is bad. */
#include "base/stat.h"
#include "check.h"
#include "loader_kit.h"
#include "ranks_kit.h"
#include "source/source.h"
#include "unix/attach.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { N = 20, PIXELS = 192, HEAD = 11, SIZE = PIXELS + HEAD };

static char folder[256], uri[300], cache[400];
static kit_store store;

/* Pictures of one size; no decoder takes one without a largest value. */
static void picture(unsigned char out[SIZE], uint64_t i, bool good) {
    memcpy(out, good ? "P6 8 8 255\n" : "P6 8 8 000\n", HEAD);
    for (size_t k = 0; k < PIXELS; k++)
        out[HEAD + k] = (unsigned char)(i * 3 + k);
}

static void write_files(uint64_t bad) {
    char path[400];
    unsigned char bytes[SIZE];
    snprintf(path, sizeof path, "%s/class", folder);
    assert_int_equal(mkdir(path, 0700), 0);
    for (uint64_t i = 0; i < N; i++) {
        snprintf(path, sizeof path, "%s/class/%02u.ppm", folder, (unsigned)i);
        picture(bytes, i, i != bad);
        check_write(path, bytes, sizeof bytes);
    }
}

static int make_bad(void *arg, const larder_access *want, larder_buf *have, larder_buf **out) {
    (void)arg, (void)have;
    if (!(*out = larder_buf_new(SIZE)))
        return LARDER_E_NOMEM;
    picture(larder_buf_data(*out), want->key, false);
    return 0;
}

/* Another job of this user has put that into the daemon for every third sample. */
static size_t spoil(void) {
    larder__data *data = NULL;
    larder__cache *c = NULL;
    size_t spoilt = 0;
    check_ok(larder__data_open(&data, uri));
    larder__attach_conf conf = {.door = larder__door_at(store.socket),
                                .hello = {.batch = 16,
                                          .identity = larder__data_about(data)->identity,
                                          .about.keys = N,
                                          .payload = N * SIZE,
                                          .about.share = {1},
                                          .about.policy = "minio",
                                          .name = "careless",
                                          .budget = "100%"}};
    check_ok(larder__attach_open(&c, &conf));
    for (uint64_t i = 0; i < N; i += 3, spoilt++) {
        larder_access a = {.key = i, .size = SIZE, .score = NAN};
        larder_buf *out = NULL;
        check_ok(larder__cache_get(c, &a, 1, make_bad, NULL, &out, NULL));
        larder_buf_unref(&out);
    }
    larder__cache_close(&c);
    larder__data_close(&data);
    return spoilt;
}

static double figure(larder_loader *l, const char *name) {
    larder_stat_value v = {.size = sizeof v};
    for (size_t i = 0; larder_loader_stat(l, i, &v) == 0; i++)
        if (strcmp(v.name, name) == 0)
            return v.value;
    fail_msg("no figure %s", name);
    return NAN;
}

static larder_loader *open_loader(larder_on_bad on_bad) {
    larder_loader_conf c = kit_conf(uri, "minio");
    larder_loader *l = NULL;
    c.augment = "resize:h=8,w=8";
    c.cache = cache;
    c.epochs = 1;
    c.on_bad = on_bad;
    check_ok(larder_loader_open(&l, &c));
    return l;
}

/* Every row is what its file holds. */
static size_t check_rows(larder_loader *l) {
    const larder_batch *b;
    size_t rows = 0;
    int rc;
    while ((rc = larder_loader_next(l, &b)) != LARDER_END) {
        check_ok(rc);
        if (rc == LARDER_END_EPOCH)
            continue;
        for (size_t i = 0; i < b->n; i++, rows++) {
            unsigned char right[SIZE];
            picture(right, b->served[i], true);
            const unsigned char *x = (const unsigned char *)b->x + i * PIXELS;
            for (size_t k = 0; k < 64; k++) /* planes in a batch, pixels in a file */
                for (size_t channel = 0; channel < 3; channel++)
                    assert_int_equal(x[channel * 64 + k], right[HEAD + k * 3 + channel]);
        }
        check_ok(larder_loader_done(l, b));
    }
    return rows;
}

static void begin(uint64_t bad) {
    check_folder(folder);
    write_files(bad);
    snprintf(uri, sizeof uri, "dir:%s", folder);
    kit_store_start(&store, KIT_DAEMON);
    snprintf(cache, sizeof cache, "unix:%s?budget=100%%", store.socket);
}

static void end(void) {
    kit_store_stop(&store);
    check_folder_remove(folder);
}

static void read_again(void **st) {
    (void)st;
    begin(UINT64_MAX);
    size_t spoilt = spoil();
    larder_loader *l = open_loader(LARDER_BAD_FAIL);
    assert_int_equal(check_rows(l), N);
    assert_true(figure(l, "cache_healed") == (double)spoilt);
    assert_true(figure(l, "bad_samples") == 0);
    larder_loader_close(&l);
    end();
}

static void bad_in_storage_too(void **st) {
    (void)st;
    begin(6);
    size_t spoilt = spoil();
    larder_loader *l = open_loader(LARDER_BAD_SKIP);
    assert_int_equal(check_rows(l), N - 1);
    assert_true(figure(l, "cache_healed") == (double)spoilt - 1);
    assert_true(figure(l, "bad_samples") == 1);
    larder_loader_close(&l);
    end();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(read_again),
        cmocka_unit_test(bad_in_storage_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
