/* Packing: what becomes of every sort of picture, the same bytes whatever happens on the way,
 * going on after a stop, finding damage, and the way back. */
#include "pack_kit.h"
#include "pictures.h"

#include "pack/compare.h"
#include "pack/extract.h"
#include "pack/inspect.h"
#include "source/source.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct world {
    char plain[256], packed[256], uri[300];
    size_t pictures, odd;
} world;

static int set_up(void **state) {
    world *w = calloc(1, sizeof *w);
    if (!w)
        return -1;
    check_folder(w->plain);
    check_folder(w->packed);
    w->pictures = kit_pictures(w->plain);
    w->odd = w->pictures ? kit_oddities(w->plain) : 0;
    snprintf(w->uri, sizeof w->uri, "dir:%s", w->plain);
    *state = w;
    return 0;
}

static int tear_down(void **state) {
    world *w = *state;
    check_folder_remove(w->plain);
    check_folder_remove(w->packed);
    free(w);
    return 0;
}

static world *begin(void **state) {
    world *w = *state;
    if (w->pictures == 0)
        skip();
    return w;
}

static larder__pack_result pack(const world *w, const char *folder, uint32_t jobs) {
    larder__pack_conf conf = kit_pack_conf(w->uri, folder);
    larder__pack_result r;
    conf.jobs = jobs;
    check_ok(larder__pack_run(&conf, &r));
    return r;
}

static larder__pack_tally inspect(const char *where, bool deep) {
    larder__inspect_conf conf = {.where = where, .deep = deep};
    larder__pack_tally t;
    check_ok(larder__pack_inspect(&conf, &t));
    return t;
}

/* ---- what becomes of them -------------------------------------------------------------------- */

static void test_kinds(void **state) {
    world *w = begin(state);
    larder__pack_result r = pack(w, w->packed, 2);
    assert_int_equal(r.samples, w->pictures + w->odd);
    assert_true(r.shards > 2);
    larder__pack_tally t = inspect(w->packed, true);
    assert_int_equal(t.bad, 0);
    assert_int_equal(t.samples, r.samples);
    assert_int_equal(t.shards, r.shards);
    /* One more is both progressive and arithmetic. */
    assert_int_equal(t.kinds[LARDER__PACK_PROGRESSIVE], 3);
    assert_int_equal(t.kinds[LARDER__PACK_ARITHMETIC], check_jpeg_arithmetic() ? 1 : 0);
    assert_int_equal(t.kinds[LARDER__PACK_BASELINE],
                     w->pictures - 3 - t.kinds[LARDER__PACK_ARITHMETIC]);
    assert_int_equal(t.kinds[LARDER__PACK_DAMAGED], 1);
    assert_int_equal(t.kinds[LARDER__PACK_NOT_JPEG], 3);
}

static void test_pixels_names_labels(void **state) {
    world *w = begin(state);
    pack(w, w->packed, 1);
    larder__data *a = NULL, *b = NULL, *tar = NULL;
    larder__comparer *c = NULL;
    char pattern[300];
    snprintf(pattern, sizeof pattern, "tar:%s/*.tar?index=off", w->packed);
    check_ok(larder__data_open(&a, w->uri));
    check_ok(larder__data_open(&b, w->packed)); /* found without being told what it is */
    check_ok(larder__data_open(&tar, pattern)); /* as any other reader of shards sees it */
    check_ok(larder__comparer_open(&c));
    assert_string_equal(larder__data_plugin(b)->name, "pack");
    uint64_t n = larder__data_about(a)->count;
    assert_int_equal(larder__data_about(b)->count, n);
    assert_int_equal(larder__data_about(tar)->count, n);
    assert_string_equal(larder__data_class(b, 1), "b");
    for (uint64_t i = 0; i < n; i++) {
        char one[300], two[300];
        larder_sample s, t, u;
        larder_read x = {0}, y = {0}, z = {0};
        check_ok(larder__data_name(a, i, one, sizeof one));
        check_ok(larder__data_name(b, i, two, sizeof two));
        assert_string_equal(one, two);
        check_ok(larder__data_stat(a, i, &s));
        check_ok(larder__data_stat(b, i, &t));
        check_ok(larder__data_stat(tar, i, &u));
        assert_int_equal(s.label, t.label);
        assert_int_equal(s.label, u.label);
        check_ok(larder__data_read(a, &i, 1, &x));
        check_ok(larder__data_read(b, &i, 1, &y));
        check_ok(larder__data_read(tar, &i, 1, &z));
        size_t size = larder_buf_size(y.buf);
        assert_int_equal(size, larder_buf_size(z.buf));
        assert_memory_equal(larder_buf_data(y.buf), larder_buf_data(z.buf), size);
        uint32_t width, height;
        check_ok(larder__data_extent(b, i, &width, &height));
        if (width)
            check_ok(larder__compare_pixels(c, larder_buf_data(x.buf), larder_buf_size(x.buf),
                                            larder_buf_data(y.buf), size));
        else { /* left as it is */
            assert_int_equal(size, larder_buf_size(x.buf));
            assert_memory_equal(larder_buf_data(x.buf), larder_buf_data(y.buf), size);
        }
        larder_buf_unref(&x.buf);
        larder_buf_unref(&y.buf);
        larder_buf_unref(&z.buf);
    }
    larder__comparer_close(&c);
    larder__data_close(&a);
    larder__data_close(&b);
    larder__data_close(&tar);
}

/* EXIF, profiles and comments stay, in one piece before what a reader of parts needs. */
static void test_metadata(void **state) {
    (void)begin(state);
    check_jpeg_conf conf = {100, 80, 3, 2, 2, false, 0, 3, false};
    size_t size;
    unsigned char *jpeg = check_jpeg(&conf, &size);
    static const unsigned char exif[] = {0xff, 0xe1, 0,   14,  'E', 'x', 'i', 'f',
                                         0,    0,    'r', 'o', 't', 'a', 't', 'e'};
    unsigned char *with = malloc(size + sizeof exif);
    assert_non_null(with);
    memcpy(with, jpeg, 20); /* start of image, JFIF */
    memcpy(with + 20, exif, sizeof exif);
    memcpy(with + 20 + sizeof exif, jpeg + 20, size - 20);
    for (int strip = 0; strip < 2; strip++) {
        larder__transcode_conf how = {.strip = strip, .verify = true};
        larder__transcoder *t = NULL;
        larder__transcoded out;
        check_ok(larder__transcoder_open(&t, &how));
        check_ok(larder__transcode(t, with, size + sizeof exif, &out));
        assert_int_equal(out.kind, LARDER__PACK_BASELINE);
        bool there = memmem(out.bytes, out.head_at, exif, sizeof exif) != NULL;
        assert_int_equal(there, !strip);
        assert_null(memmem(out.bytes + out.head_at, out.size - out.head_at, "Exif", 4));
        larder__transcoder_close(&t);
    }
    free(with);
    free(jpeg);
}

static void test_reencode(void **state) {
    (void)begin(state);
    check_jpeg_conf conf = {300, 200, 3, 2, 2, false, 0, 3, false},
                    small = {60, 40, 3, 2, 2, false, 0, 3, false};
    larder__transcode_conf how = {.max_side = 150};
    larder__transcoder *t = NULL;
    larder__transcoded out;
    size_t size;
    unsigned char *jpeg = check_jpeg(&conf, &size);
    check_ok(larder__transcoder_open(&t, &how));
    check_ok(larder__transcode(t, jpeg, size, &out));
    assert_int_equal(out.kind, LARDER__PACK_REENCODED);
    assert_int_equal(out.grid.w, 150);
    assert_int_equal(out.grid.h, 100);
    free(jpeg);
    jpeg = check_jpeg(&small, &size);
    check_ok(larder__transcode(t, jpeg, size, &out));
    assert_int_equal(out.kind, LARDER__PACK_BASELINE); /* small enough: untouched */
    larder__transcoder_close(&t);
    how = (larder__transcode_conf){.quality = 30};
    check_ok(larder__transcoder_open(&t, &how));
    check_ok(larder__transcode(t, jpeg, size, &out));
    assert_int_equal(out.kind, LARDER__PACK_REENCODED);
    assert_true(out.size < size);
    check_ok(larder__transcode(t, "no picture", 10, &out));
    assert_int_equal(out.kind, LARDER__PACK_NOT_JPEG);
    larder__transcoder_close(&t);
    free(jpeg);
}

/* ---- the same bytes -------------------------------------------------------------------------- */

static void assert_same_folder(const char *a, const char *b, uint64_t shards) {
    for (uint64_t i = 0; i < shards; i++)
        for (int which = 0; which < 2; which++) {
            char one[400], two[400];
            const char *ending = which ? "larder" : "tar";
            snprintf(one, sizeof one, "%s/shard-%06llu.%s", a, (unsigned long long)i, ending);
            snprintf(two, sizeof two, "%s/shard-%06llu.%s", b, (unsigned long long)i, ending);
            size_t n, m;
            unsigned char *x = kit_read(one, &n), *y = kit_read(two, &m);
            assert_int_equal(n, m);
            assert_memory_equal(x, y, n);
            free(x);
            free(y);
        }
}

static void test_same_bytes(void **state) {
    world *w = begin(state);
    char other[256];
    check_folder(other);
    larder__pack_result r = pack(w, w->packed, 1);
    pack(w, other, 5);
    assert_same_folder(w->packed, other, r.shards);
    /* One shard lost, one index damaged, one tar cut: these three are made again. */
    char path[400];
    snprintf(path, sizeof path, "%s/shard-000000.tar", other);
    assert_int_equal(unlink(path), 0);
    snprintf(path, sizeof path, "%s/shard-000001.larder", other);
    check_write(path, "LARDERIX and then nothing", 25);
    snprintf(path, sizeof path, "%s/shard-000002.tar", other);
    assert_int_equal(truncate(path, 1000), 0);
    snprintf(path, sizeof path, "%s/.larder-0123456789abcdef.tmp", other);
    check_write(path, "left by a killed run", 20);
    larder__pack_result again = pack(w, other, 2);
    assert_int_equal(again.found, r.shards - 3);
    assert_same_folder(w->packed, other, r.shards);
    struct stat st;
    assert_int_equal(stat(path, &st), -1);
    check_folder_remove(other);
}

static _Atomic int stop_now;
static void stop_soon(void *arg, uint64_t done, uint64_t all, uint64_t bytes) {
    (void)all, (void)bytes;
    stop_now = done >= *(uint64_t *)arg;
}

static void test_stop_and_go_on(void **state) {
    world *w = begin(state);
    char other[256];
    check_folder(other);
    larder__pack_result r = pack(w, w->packed, 1), part;
    uint64_t at = 9;
    larder__pack_conf conf = kit_pack_conf(w->uri, other);
    conf.stop = &stop_now;
    conf.progress = stop_soon;
    conf.arg = &at;
    stop_now = 0;
    assert_int_equal(larder__pack_run(&conf, &part), LARDER_E_CANCELLED);
    stop_now = 0;
    conf.progress = NULL;
    check_ok(larder__pack_run(&conf, &part));
    assert_true(part.found > 0 && part.found < part.shards);
    assert_same_folder(w->packed, other, r.shards);
    check_folder_remove(other);
}

static void test_refusals(void **state) {
    world *w = begin(state);
    larder__pack_result r;
    pack(w, w->packed, 1);
    larder__pack_conf conf = kit_pack_conf(w->uri, w->packed);
    conf.how.restart = 7; /* other settings in the same folder */
    assert_int_equal(larder__pack_run(&conf, &r), LARDER_E_STATE);
    assert_non_null(strstr(larder_errmsg(), "other settings"));
    int fd = open(w->packed, O_RDONLY | O_DIRECTORY);
    assert_int_equal(flock(fd, LOCK_EX | LOCK_NB), 0);
    conf.how.restart = 0;
    assert_int_equal(larder__pack_run(&conf, &r), LARDER_E_STATE);
    assert_non_null(strstr(larder_errmsg(), "another larder pack"));
    close(fd);
    conf = kit_pack_conf("mem:?n=10&h=8&w=8&c=3", w->packed);
    assert_true(larder__pack_run(&conf, &r) < 0);
    conf = kit_pack_conf("dir:/nowhere/at/all", w->packed);
    assert_int_equal(larder__pack_run(&conf, &r), LARDER_E_NOTFOUND);
}

/* ---- damage ---------------------------------------------------------------------------------- */

static size_t complaints;
static void count_complaint(void *arg, const char *sentence) {
    (void)arg;
    assert_non_null(strstr(sentence, "shard-00000"));
    complaints++;
}

/* Every byte of a shard and its index is held by something: turn one round, and it is noticed. */
static void test_damage_is_found(void **state) {
    world *w = begin(state);
    pack(w, w->packed, 1);
    larder__inspect_conf conf = {.where = w->packed, .deep = true, .complain = count_complaint};
    for (int which = 0; which < 2; which++) {
        char path[400];
        size_t size, found = 0, tried = 0;
        snprintf(path, sizeof path, "%s/shard-000001.%s", w->packed, which ? "larder" : "tar");
        unsigned char *bytes = kit_read(path, &size);
        for (size_t at = 0; at < size; at += which ? 37 : 401, tried++) {
            larder__pack_tally t;
            bytes[at] ^= 0x55;
            check_write(path, bytes, size);
            complaints = 0;
            check_ok(larder__pack_inspect(&conf, &t));
            assert_int_equal(t.bad, complaints);
            found += t.bad > 0;
            bytes[at] ^= 0x55;
        }
        check_write(path, bytes, size);
        /* In a tar the zeros between members and a label's digits are nobody's. */
        if (which)
            assert_int_equal(found, tried);
        else
            assert_true(found * 10 > tried * 8);
        free(bytes);
    }
    assert_int_equal(inspect(w->packed, true).bad, 0);
}

static void test_source_refuses(void **state) {
    world *w = begin(state);
    pack(w, w->packed, 1);
    char path[400];
    larder__data *d = NULL;
    snprintf(path, sizeof path, "%s/shard-000000.tar", w->packed);
    assert_int_equal(truncate(path, 2000), 0);
    assert_int_equal(larder__data_open(&d, w->packed), LARDER_E_CHANGED);
    assert_non_null(strstr(larder_errmsg(), "shard-000000.tar"));
    snprintf(path, sizeof path, "%s/shard-000001.larder", w->packed);
    assert_int_equal(unlink(path), 0);
    snprintf(path, sizeof path, "pack:%s/shard-000001.tar", w->packed);
    assert_int_equal(larder__data_open(&d, path), LARDER_E_NOTFOUND);
    assert_non_null(strstr(larder_errmsg(), "no index"));
    snprintf(path, sizeof path, "%s/shard-000002.larder", w->packed);
    size_t size;
    unsigned char *bytes = kit_read(path, &size);
    bytes[8] = 9; /* a version to come */
    check_write(path, bytes, size);
    free(bytes);
    snprintf(path, sizeof path, "pack:%s/shard-000002.tar", w->packed);
    assert_int_equal(larder__data_open(&d, path), LARDER_E_UNSUPPORTED);
}

/* ---- the way back ---------------------------------------------------------------------------- */

static void test_unpack(void **state) {
    world *w = begin(state);
    pack(w, w->packed, 1);
    char out[256], path[500];
    check_folder(out);
    larder__extract_conf conf = {.source = w->packed, .folder = out};
    larder__extract_result r;
    check_ok(larder__extract_run(&conf, &r));
    assert_int_equal(r.written, w->pictures + w->odd);
    check_ok(larder__extract_run(&conf, &r)); /* again: all there */
    assert_int_equal(r.written, 0);
    assert_int_equal(r.there, w->pictures + w->odd);
    snprintf(path, sizeof path, "%s/a/000.jpg", out);
    check_write(path, "mine", 4);
    check_ok(larder__extract_run(&conf, &r));
    assert_int_equal(r.renamed, 1);
    size_t size;
    unsigned char *mine = kit_read(path, &size);
    assert_int_equal(size, 4); /* not overwritten */
    free(mine);
    check_folder_remove(out);
}

static void test_names_stay_inside(void **state) {
    (void)state;
    static const char *const names[][2] = {
        {"a/b.jpg", "a/b.jpg"},          {"/etc/passwd", "etc/passwd"}, {"../../x.jpg", "x.jpg"},
        {"s.tar:k/../y.jpg", "k/y.jpg"}, {"..", "000000007.bin"},       {"", "000000007.bin"},
        {"a\nb\x7f.jpg", "a_b_.jpg"},    {"x//y/./z.png", "x/y/z.png"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char out[64];
        larder__extract_name(out, sizeof out, names[i][0], 7);
        assert_string_equal(out, names[i][1]);
    }
}

int main(void) {
#define WITH(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {WITH(test_kinds),
                                       WITH(test_pixels_names_labels),
                                       WITH(test_metadata),
                                       WITH(test_reencode),
                                       WITH(test_same_bytes),
                                       WITH(test_stop_and_go_on),
                                       WITH(test_refusals),
                                       WITH(test_damage_is_found),
                                       WITH(test_source_refuses),
                                       WITH(test_unpack),
                                       cmocka_unit_test(test_names_stay_inside)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
