/* What larder wrote once it still reads: a file of each format in tests/golden, named after its
 * version, is read and understood. Formats whose bytes say all are also written the same today.
 * Files stay when a version is added to their format; with LARDER_GOLDEN=write those of today's are
 * written anew, which is right only until the version has been released. Those named old-0.1 were
 * written by 0.1.0 itself (commit 09656f29): what of them is not read is refused with a sentence.
 */
#include "base/file.h"
#include "base/parcel.h"
#include "base/versions.h"
#include "check.h"
#include "disk/disk_form.h"
#include "loader_kit.h"
#include "shared/value.h"
#include "svm/access.h"
#include "tape/tape.h"
#include "unix/message.h"
#include "unix/rank_message.h"

#include <ctype.h>
#include <glob.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N = 96, BEFORE = 4 };
#define SOURCE "mem:?n=96&h=8&w=8&c=3"

static bool writing(void) {
    const char *how = getenv("LARDER_GOLDEN");
    return how && strcmp(how, "write") == 0;
}

static void name_of(char out[128], const char *name) {
    snprintf(out, 128, "tests/golden/%s", name);
}

/* The file, whole; free it. */
static unsigned char *golden(const char *name, size_t *size) {
    char path[128];
    name_of(path, name);
    FILE *f = fopen(path, "rb");
    if (!f)
        fail_msg("%s is not there", path);
    unsigned char *bytes = malloc(1 << 20);
    assert_non_null(bytes);
    *size = fread(bytes, 1, 1 << 20, f);
    fclose(f);
    return bytes;
}

/* These bytes are what the file holds, then and now. */
static void same_as_golden(const char *name, const void *bytes, size_t size) {
    char path[128];
    size_t had;
    name_of(path, name);
    if (writing())
        check_write(path, bytes, size);
    unsigned char *then = golden(name, &had);
    if (had != size || memcmp(then, bytes, size) != 0)
        fail_msg("%s: larder writes other bytes today; a format that changes gets another version",
                 path);
    free(then);
}

/* ---- one of each ----------------------------------------------------------------------------- */

/* Every version that is read has a file: whoever adds one keeps those of before. */
static void every_version(void **st) {
    (void)st;
    static const struct {
        const char *name;
        uint32_t oldest, newest;
    } formats[] = {
#define XX(name, oldest, newest, remedy) {#name, oldest, newest},
        LARDER__FORMATS(XX)
#undef XX
    };
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        for (uint32_t v = formats[i].oldest; v <= formats[i].newest; v++) {
            char pattern[128], stem[16] = "";
            bool wire = strcmp(formats[i].name, "WIRE") == 0; /* it begins with a greeting */
            for (size_t k = 0; formats[i].name[k]; k++)
                stem[k] = (char)tolower((unsigned char)formats[i].name[k]);
            snprintf(pattern, sizeof pattern, "tests/golden/%s-%u*", wire ? "hello" : stem, v);
            glob_t found = {0};
            if (glob(pattern, 0, NULL, &found) != 0)
                fail_msg("there is no %s", pattern);
            globfree(&found);
        }
}

/* ---- saved states ---------------------------------------------------------------------------- */

static void save_state(const larder_loader_conf *c, const char *path) {
    larder_loader *l = NULL;
    uint64_t digests[BEFORE];
    void *bytes;
    size_t size;
    check_ok(larder_loader_open(&l, c));
    assert_int_equal(kit_run(l, digests, BEFORE), BEFORE);
    check_ok(larder_loader_save(l, LARDER_STATE, &bytes, &size));
    check_write(path, bytes, size);
    larder_free(bytes);
    larder_loader_close(&l);
}

static larder_loader_conf conf_of(const char *recipe) {
    larder_loader_conf c = kit_conf(SOURCE, recipe);
    c.epochs = 2;
    return c;
}

/* Goes on where it was: the rest of the epoch, each sample at most once, and one more epoch. */
static void states(void **st) {
    (void)st;
    static const struct {
        const char *recipe;
        bool repeats; /* a sample may come again in an epoch */
    } saved[] = {{"lru", false},    {"minio", false},  {"sieve", false},
                 {"seneca", false}, {"quiver", false}, {"stream:block=8", false},
                 {"shade", true},   {"icache", true},  {"rotate:h=0.5", true},
                 {"spider", true},  {"echo", true},    {"impact", true}};
    for (size_t i = 0; i < sizeof saved / sizeof *saved; i++) {
        larder_loader_conf c = conf_of(saved[i].recipe);
        char name[64], path[128];
        bool seen[N] = {false};
        size_t size, rows = 0, epochs = 0;
        larder_loader *l = NULL;
        const larder_batch *b;
        int rc;
        snprintf(name, sizeof name, "state-6-%.*s", (int)strcspn(saved[i].recipe, ":"),
                 saved[i].recipe);
        name_of(path, name);
        if (writing())
            save_state(&c, path);
        unsigned char *bytes = golden(name, &size);
        check_ok(larder_loader_open(&l, &c));
        check_ok(larder_loader_restore(l, LARDER_STATE, bytes, size));
        while ((rc = larder_loader_next(l, &b)) != LARDER_END) {
            check_ok(rc);
            if (rc == LARDER_END_EPOCH) {
                epochs++;
                continue;
            }
            for (size_t k = 0; k < b->n && epochs == 0; k++, rows++) {
                bool twice = seen[b->ids[k]] && !saved[i].repeats;
                assert_false(twice);
                seen[b->ids[k]] = true;
            }
            check_ok(larder_loader_done(l, b));
        }
        assert_int_equal(rows, N - BEFORE * c.batch);
        assert_int_equal(epochs, 2);
        larder_loader_close(&l);
        free(bytes);
    }
}

/* Of 0.1, and of a version to come: what to do is said. */
static void other_states(void **st) {
    (void)st;
    larder_loader_conf c = conf_of("lru");
    larder_loader *l = NULL;
    size_t size;
    unsigned char *bytes = golden("old-0.1-state", &size);
    check_ok(larder_loader_open(&l, &c));
    assert_int_equal(larder_loader_restore(l, LARDER_STATE, bytes, size), LARDER_E_UNSUPPORTED);
    assert_non_null(strstr(larder_errmsg(), "version 2, of an older larder"));
    assert_non_null(strstr(larder_errmsg(), "go on with the larder that saved it, or begin anew"));
    free(bytes);
    bytes = golden("state-6-lru", &size);
    for (unsigned char v = 1; v < LARDER__STATE_VERSION + 3; v++) {
        if (v >= LARDER__STATE_OLDEST && v <= LARDER__STATE_VERSION)
            continue;
        bytes[6] = v;
        assert_int_equal(larder_loader_restore(l, LARDER_STATE, bytes, size), LARDER_E_UNSUPPORTED);
        assert_non_null(
            strstr(larder_errmsg(), v < LARDER__STATE_OLDEST ? "older larder" : "newer larder"));
        assert_non_null(strstr(larder_errmsg(), "begin anew"));
    }
    larder_loader_close(&l);
    free(bytes);
}

/* ---- records --------------------------------------------------------------------------------- */

static uint32_t about_sample(void *arg, uint64_t id, int64_t *label) {
    (void)arg;
    *label = (int64_t)id % 2;
    return 192;
}

static void tapes(void **st) {
    (void)st;
    char path[128];
    size_t size;
    larder__tape t;
    name_of(path, "tape-2");
    if (writing()) {
        const larder__tape_job job = {.source = SOURCE,
                                      .recipe = "lru",
                                      .version = LARDER_VERSION,
                                      .samples = N,
                                      .batch = 3,
                                      .world = 1,
                                      .budget = 1000};
        larder__tape_writer *w = NULL;
        const uint64_t ids[] = {5, 6, 7};
        const uint8_t kinds[] = {LARDER_HIT, LARDER_MISS, LARDER_MISS};
        const float loss[] = {0.5f, 1.5f, 2.5f};
        remove(path);
        check_ok(larder__tape_create(&w, path, &job));
        larder__tape_add_batch(
            w, &(larder__tape_batch){.number = 0, .length = N, .n = 3, .accuracy = NAN},
            &(larder__tape_rows){.ids = ids, .served = ids, .kinds = kinds, .about = about_sample});
        larder__tape_add_losses(w, 0, loss, 3);
        larder__tape_finish(&w);
    }
    check_ok(larder__tape_read(&t, path));
    assert_true(t.ended);
    assert_int_equal(t.count, 1);
    assert_int_equal(t.requests, 3);
    assert_int_equal(t.job.samples, N);
    assert_string_equal(t.job.recipe, "lru");
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(t.ids[i], 5 + i);
        assert_true(t.loss[i] == 0.5f + (float)i);
    }
    assert_int_equal(t.kinds[0], LARDER_HIT);
    larder__tape_free(&t);
    name_of(path, "old-0.1-tape");
    assert_int_equal(larder__tape_read(&t, path), LARDER_E_UNSUPPORTED);
    assert_non_null(strstr(larder_errmsg(), "old-0.1-tape: its format has version 1, of an older"));
    assert_non_null(strstr(larder_errmsg(), "record the job again"));
    unsigned char *bytes = golden("tape-2", &size);
    bytes[8] = 9;
    assert_int_equal(larder__tape_parse(&t, bytes, size, "new"), LARDER_E_UNSUPPORTED);
    assert_non_null(strstr(larder_errmsg(), "new: its format has version 9, of a newer larder"));
    free(bytes);
}

static void rows(void **st) {
    (void)st;
    char path[128];
    size_t size;
    larder__accesses a;
    const uint32_t ids[] = {3, 1, 2}, left[] = {9};
    const float dist[] = {0.25f};
    name_of(path, "rows-1");
    if (writing()) {
        larder__access_log *w = NULL;
        check_ok(larder__access_log_open(&w, path, 10));
        check_ok(larder__access_log_round(w, ids, 3, 0));
        check_ok(larder__access_log_leave(w, left, dist, 1));
        check_ok(larder__access_log_round(w, ids, 2, 4));
        check_ok(larder__access_log_close(&w, 0));
    }
    unsigned char *bytes = golden("rows-1", &size);
    check_ok(larder__accesses_parse(&a, bytes, size, path));
    assert_int_equal(a.rows, 10);
    assert_int_equal(a.rounds, 2);
    assert_int_equal(a.count, 5);
    assert_memory_equal(a.ids, ids, sizeof ids);
    larder__accesses_free(&a);
    bytes[8] = 9;
    assert_int_equal(larder__accesses_parse(&a, bytes, size, "new"), LARDER_E_UNSUPPORTED);
    assert_non_null(strstr(larder_errmsg(), "a newer larder"));
    free(bytes);
    bytes = golden("old-0.1-rows", &size);
    check_ok(larder__accesses_parse(&a, bytes, size, "old-0.1-rows")); /* of the same version */
    assert_int_equal(a.rows, 4);
    assert_true(a.count > 0);
    larder__accesses_free(&a);
    free(bytes);
}

/* ---- samples --------------------------------------------------------------------------------- */

static void parcels(void **st) {
    (void)st;
    static const unsigned char numbers[] = {1, 0, 2, 0};
    larder__field fields[] = {{.kind = LARDER__FIELD_TEXT,
                               .name = "said",
                               .name_bytes = 4,
                               .data = (const unsigned char *)"yes",
                               .bytes = 3},
                              {.kind = LARDER__FIELD_ARRAY,
                               .dtype = LARDER_I16,
                               .ndim = 1,
                               .shape = {2},
                               .name = "x",
                               .name_bytes = 1,
                               .data = numbers,
                               .bytes = 4}};
    larder_buf *b = NULL;
    larder__parcel p;
    larder__field f;
    size_t size;
    check_ok(larder__parcel_make(&b, fields, 2));
    same_as_golden("parcel-1", larder_buf_data(b), larder_buf_size(b));
    larder_buf_unref(&b);
    unsigned char *bytes = golden("parcel-1", &size);
    check_ok(larder__parcel_open(&p, bytes, size));
    assert_true(larder__parcel_find(&p, "said", &f));
    assert_memory_equal(f.data, "yes", 3);
    bytes[4] = 2;
    assert_int_equal(larder__parcel_open(&p, bytes, size), LARDER_E_UNSUPPORTED);
    free(bytes);
}

/* Values in Redis; where the version is not this one's they are as good as absent. */
static void values(void **st) {
    (void)st;
    const larder__value v = {.id = 7, .mark = 77, .size = 5, .form = 0, .held = 0};
    unsigned char whole[LARDER__VALUE_HEAD + 5];
    larder__value_write(whole, &v, "bytes");
    memcpy(whole + LARDER__VALUE_HEAD, "bytes", 5);
    same_as_golden("value-3", whole, sizeof whole);
    assert_true(larder__value_fits(whole, &v, 5));
    assert_true(larder__value_sound(whole, whole + LARDER__VALUE_HEAD, 5));
    whole[4]++;
    assert_false(larder__value_fits(whole, &v, 5));
}

/* What a folder on disk and its indices begin with, and a word that says where a value lies. */
static void disks(void **st) {
    (void)st;
    struct {
        larder__disk_head head;
        larder__disk_index_head index;
        uint64_t word;
    } all;
    memset(&all, 0, sizeof all);
    if (*(const unsigned char *)&(uint32_t){1} != 1)
        skip(); /* a folder is of its machine's byte order; the file of the usual one */
    all.head.clean = 1;
    all.head.budget = 1 << 20;
    snprintf(all.head.boot, sizeof all.head.boot, "once");
    snprintf(all.head.machine, sizeof all.head.machine, "here");
    all.head.limit = 256;
    all.head.era = 3;
    larder__disk_head_seal(&all.head);
    all.index.identity = 7;
    all.index.keys = 100;
    snprintf(all.index.name, sizeof all.index.name, "flowers");
    larder__disk_index_seal(&all.index);
    all.word = larder__disk_word(all.index.id, 5, 77, 2, 3);
    same_as_golden("disk-1", &all, sizeof all);
    uint64_t bytes = larder__disk_index_bytes(all.index.keys);
    assert_int_equal(larder__disk_head_judge(&all.head, sizeof all.head), LARDER__DISK_FINE);
    assert_int_equal(larder__disk_index_judge(&all.index, sizeof all.index, bytes),
                     LARDER__DISK_FINE);
    assert_int_equal(larder__disk_place(all.word), 77);
    all.head.version++;
    all.index.version++;
    assert_int_equal(larder__disk_head_judge(&all.head, sizeof all.head), LARDER__DISK_OTHER);
    assert_int_equal(larder__disk_index_judge(&all.index, sizeof all.index, bytes),
                     LARDER__DISK_OTHER);
}

/* Packed pictures, their index beside them: labels say how many there are of a class. */
static void read_pack(const char *name, size_t samples, size_t of_each) {
    char path[128];
    name_of(path, name);
    larder_loader_conf c = kit_conf(path, "lru");
    larder_loader *l = NULL;
    const larder_batch *b;
    size_t rows = 0;
    int rc;
    c.batch = 2;
    c.epochs = 1;
    c.cache = "0";
    check_ok(larder_loader_open(&l, &c));
    while ((rc = larder_loader_next(l, &b)) != LARDER_END) {
        if (rc == LARDER_E_UNSUPPORTED) {
            larder_loader_close(&l);
            skip_since("a core without decoders");
        }
        check_ok(rc);
        if (rc == LARDER_END_EPOCH)
            continue;
        for (size_t i = 0; i < b->n; i++, rows++)
            assert_int_equal(b->y[i], b->ids[i] / of_each);
        check_ok(larder_loader_done(l, b));
    }
    assert_int_equal(rows, samples);
    larder_loader_close(&l);
}

static void packs(void **st) {
    (void)st;
    read_pack("pack-1", 4, 2);
    read_pack("old-0.1-pack", 2, 1); /* of the same version */
}

static void other_packs(void **st) {
    (void)st;
    enum { VERSION_AT = 8 };
    static const char *const files[] = {"shard-000000.tar", "shard-000000.larder"};
    char folder[256], path[400], name[128];
    check_folder(folder);
    for (unsigned char v = 0; v < LARDER__PACK_VERSION + 3; v++) {
        if (v >= LARDER__PACK_OLDEST && v <= LARDER__PACK_VERSION)
            continue;
        for (int i = 0; i < 2; i++) {
            size_t size;
            snprintf(name, sizeof name, "pack-1/%s", files[i]);
            unsigned char *bytes = golden(name, &size);
            if (i == 1)
                bytes[VERSION_AT] = v;
            snprintf(path, sizeof path, "%s/%s", folder, files[i]);
            check_write(path, bytes, size);
            free(bytes);
        }
        larder_loader_conf c = kit_conf(folder, "lru");
        larder_loader *l = NULL;
        assert_int_equal(larder_loader_open(&l, &c), LARDER_E_UNSUPPORTED);
        assert_non_null(
            strstr(larder_errmsg(), v < LARDER__PACK_OLDEST ? "older larder" : "newer larder"));
        assert_non_null(strstr(larder_errmsg(), "pack it again (larder pack)"));
    }
    check_folder_remove(folder);
}

/* ---- the wire -------------------------------------------------------------------------------- */

static const larder__hello greeting = {
    .magic = LARDER__WIRE_MAGIC,
    .version = 10,
    .oldest = 10,
    .pid = 2,
    .batch = 3,
    .at_once = 300,
    .identity = 4,
    .payload = 5000,
    .size = 6,
    .again = 1,
    .about = {.keys = 7, .seed = 8, .share = {1, 0, 0}, .policy = "lru"},
    .name = "job",
    .budget = "20%"};

static void wire(void **st) {
    (void)st;
    larder_writer w = {0};
    larder__hello h;
    larder__welcome m = {.version = 10,
                         .job = 1,
                         .arena_bytes = 4096,
                         .pins = 2,
                         .about = {.keys = 7, .share = {1, 0, 0}, .policy = "lru"}},
                    read;
    larder__hello_write(&greeting, &w);
    same_as_golden("hello-10", w.bytes, w.size);
    larder_reader r = {.at = w.bytes, .end = w.bytes + w.size};
    check_ok(larder__hello_read(&h, &r));
    assert_int_equal(h.about.keys, 7);
    assert_string_equal(h.budget, "20%");
    w.size = 0;
    larder__welcome_write(&m, &w);
    same_as_golden("welcome-10", w.bytes, w.size);
    r = (larder_reader){.at = w.bytes, .end = w.bytes + w.size};
    check_ok(larder__welcome_read(&read, &r));
    assert_int_equal(read.arena_bytes, 4096);
    assert_int_equal(read.tray, 0);
    w.size = 0;
    larder__join j = {.magic = LARDER__WIRE_MAGIC,
                      .version = 10,
                      .oldest = 10,
                      .world = 2,
                      .rank = 1,
                      .batch = 4,
                      .turns = 2,
                      .keys = 7,
                      .payload = 700,
                      .want = 100,
                      .job = "run",
                      .name = "job"},
                 joined;
    larder__join_write(&j, &w);
    same_as_golden("join-10", w.bytes, w.size);
    r = (larder_reader){.at = w.bytes, .end = w.bytes + w.size};
    check_ok(larder__join_read(&joined, &r));
    assert_string_equal(joined.job, "run");
    larder__writer_free(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_version), cmocka_unit_test(states), cmocka_unit_test(other_states),
        cmocka_unit_test(tapes),         cmocka_unit_test(rows),   cmocka_unit_test(parcels),
        cmocka_unit_test(values),        cmocka_unit_test(disks),  cmocka_unit_test(packs),
        cmocka_unit_test(other_packs),   cmocka_unit_test(wire),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
