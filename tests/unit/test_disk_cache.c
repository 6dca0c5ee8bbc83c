/* A loader whose cache lies on a disk does what one with a cache in memory does: the same samples
 * and pixels, whatever the recipe, the split, the tiers and the number of threads; and what it left
 * there the next one finds. */
#include "loader_kit.h"
#include "look_kit.h"

#include <dirent.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SOURCE "mem:?n=700&h=8&w=8&c=3"
#define OTHER "mem:?n=700&h=8&w=8&c=3&seed=9"
enum { MOST = 400 };

static char folder[200]; /* of one test */

static void empty_folder(void) {
    char command[300];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    assert_int_equal(system(command), 0);
}

static int set_up(void **unused) {
    (void)unused;
    snprintf(folder, sizeof folder, "%s/larder-test-disk-%d",
             getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp", (int)getpid());
    empty_folder();
    return 0;
}

static int tear_down(void **unused) {
    (void)unused;
    empty_folder();
    return 0;
}

/* Where machines stand still now and then, a disk is not slow for that. */
static const char *on_disk(const char *front, const char *options) {
    static char text[300];
    snprintf(text, sizeof text, "%sdisk:%s?patience=600s%s%s", front, folder, *options ? "&" : "",
             options);
    return text;
}

static uint64_t disk_usage(void) {
    uint64_t all = 0;
    DIR *d = opendir(folder);
    struct dirent *e;
    struct stat st;
    while (d && (e = readdir(d)))
        if (e->d_name[0] != '.' && fstatat(dirfd(d), e->d_name, &st, 0) == 0)
            all += (uint64_t)st.st_blocks * 512;
    if (d)
        closedir(d);
    return all;
}

typedef struct outcome {
    uint64_t digests[MOST];
    size_t count;
    larder_figures figures[3];
} outcome;

static void run(outcome *out, const char *source, const char *recipe, const char *cache,
                uint32_t threads) {
    larder_loader_conf c = kit_conf(source, recipe);
    larder_loader *l;
    c.cache = cache;
    c.epochs = 3;
    c.threads = threads;
    *out = (outcome){0};
    check_ok(larder_loader_open(&l, &c));
    out->count = kit_run(l, out->digests, MOST);
    for (uint64_t e = 0; e < 3; e++)
        check_ok(look_figures(l, e, &out->figures[e]));
    larder_loader_close(&l);
}

static void same_batches(const outcome *a, const outcome *b, const char *what) {
    if (a->count != b->count || memcmp(a->digests, b->digests, a->count * sizeof *a->digests) != 0)
        fail_msg("%s: other samples or pixels", what);
}

/* How many hits there are is a matter of what the disk takes, but for those who never evict. */
static void compare(const char *recipe, const char *memory, const char *front, const char *options,
                    bool same_figures) {
    static outcome a, b;
    run(&a, SOURCE, recipe, memory, 2);
    for (uint32_t threads = 1; threads <= 3; threads += 2) {
        empty_folder();
        run(&b, SOURCE, recipe, on_disk(front, options), threads);
        same_batches(&a, &b, recipe);
        for (int e = 0; e < 3 && same_figures; e++)
            assert_memory_equal(&a.figures[e], &b.figures[e], offsetof(larder_figures, front_hits));
    }
}

static void test_as_in_memory(void **unused) {
    (void)unused;
    static const char *const recipes[] = {"lru",   "minio",  "rotate:h=0.5",
                                          "shade", "seneca", "icache"};
    for (size_t i = 0; i < sizeof recipes / sizeof *recipes; i++)
        compare(recipes[i], "30%", "", "budget=30%", strcmp(recipes[i], "minio") == 0);
    compare("minio", "30%", "10%+", "budget=30%", true);
    compare("lru", "30%", "10%+", "budget=30%", false);
    compare("rotate:h=0.5", "30%", "10%+", "budget=30%", false);
    compare("lru", "90%:50/50/0", "", "budget=90%:50/50/0", false);
    compare("seneca", "90%:50/50/0", "", "budget=90%:50/50/0", false);
    compare("minio", "100%", "", "budget=60%&quota=100%", false);
}

/* The next run finds everything, and its front is filled from there. */
static void test_starts_warm(void **unused) {
    (void)unused;
    static outcome cold, warm;
    run(&cold, SOURCE, "minio", on_disk("", "budget=100%"), 2);
    assert_int_equal(cold.figures[0].misses, 700);
    for (int i = 0; i < 2; i++) {
        run(&warm, SOURCE, "minio", on_disk(i ? "20%+" : "", "budget=100%"), 3);
        same_batches(&cold, &warm, "a warm start");
        for (int e = 0; e < 3; e++) {
            assert_int_equal(warm.figures[e].misses, 0);
            assert_int_equal(warm.figures[e].storage_bytes, 0);
        }
        assert_true(i == 0 ? warm.figures[2].front_hits == 0 : warm.figures[2].front_hits > 100);
    }
    /* A recipe that looks at who is resident decides as on an empty disk, and reads from it. */
    static outcome alone, beside;
    run(&beside, SOURCE, "rotate:h=0.5", on_disk("", "quota=30%"), 2);
    assert_int_equal(beside.figures[0].storage_bytes, 0);
    run(&warm, SOURCE, "minio", on_disk("", ""), 1); /* its size is known by now */
    assert_int_equal(warm.figures[0].misses, 0);
    empty_folder();
    run(&alone, SOURCE, "rotate:h=0.5", on_disk("", "budget=100%&quota=30%"), 2);
    assert_true(alone.figures[0].storage_bytes > 0);
    same_batches(&alone, &beside, "rotate on a warm disk");
}

static void test_data_sets_apart(void **unused) {
    (void)unused;
    static outcome a, b;
    run(&a, OTHER, "minio", "0", 2);
    run(&b, SOURCE, "minio", on_disk("", "budget=100%"), 2);
    run(&b, OTHER, "minio", on_disk("", "budget=100%"), 2);
    same_batches(&a, &b, "another data set of the same shape");
    assert_int_equal(b.figures[0].hits, 0);
    run(&a, OTHER, "lru", "90%:0/100/0", 2); /* pixels: kept apart from files */
    run(&b, OTHER, "lru", on_disk("", "budget=90%:0/100/0"), 2);
    same_batches(&a, &b, "another form");
}

static void test_two_at_once(void **unused) {
    (void)unused;
    static uint64_t alone[2][MOST], both[2][MOST];
    static const char *const recipes[2] = {"minio", "lru"};
    larder_loader *l[2];
    size_t n[2], at[2] = {0, 0};
    for (int j = 0; j < 2; j++) {
        larder_loader_conf c = kit_conf(SOURCE, recipes[j]);
        c.epochs = 2;
        c.seed = 30 + (uint64_t)j;
        c.cache = "0";
        check_ok(larder_loader_open(&l[j], &c));
        n[j] = kit_run(l[j], alone[j], MOST);
        larder_loader_close(&l[j]);
        c.cache = on_disk(j ? "5%+" : "", "budget=70%");
        check_ok(larder_loader_open(&l[j], &c));
    }
    while (at[0] < n[0] || at[1] < n[1])
        for (int j = 0; j < 2; j++)
            at[j] += kit_run(l[j], both[j] + at[j], n[j] - at[j] < 3 ? n[j] - at[j] : 3);
    for (int j = 0; j < 2; j++) {
        assert_memory_equal(alone[j], both[j], n[j] * sizeof *alone[j]);
        larder_loader_close(&l[j]);
    }
}

/* Somebody empties a table in the middle of an epoch: the job reads from storage and says why. */
static void cut_table(const char *name) {
    char pattern[300];
    glob_t g;
    snprintf(pattern, sizeof pattern, "%s/%s", folder, name);
    assert_int_equal(glob(pattern, 0, NULL, &g), 0);
    assert_int_equal(g.gl_pathc, 1);
    assert_int_equal(truncate(g.gl_pathv[0], 0), 0);
    globfree(&g);
}

static bool says_why(larder_loader *l) {
    const char *text;
    for (size_t i = 0; (text = look_note(l, i)); i++)
        if (strstr(text, "a table there cannot be read") && strstr(text, folder))
            return true;
    return false;
}

static void test_table_cut_off(void **unused) {
    (void)unused;
    static const char *const tables[] = {"head", "space", "*.index"};
    static outcome whole;
    static uint64_t digests[MOST];
    run(&whole, SOURCE, "lru", "0", 2);
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        larder_loader_conf c = kit_conf(SOURCE, "lru");
        larder_loader *l;
        size_t before = 20;
        empty_folder();
        c.cache = on_disk("", "budget=100%");
        c.epochs = 3;
        check_ok(larder_loader_open(&l, &c));
        assert_int_equal(kit_run(l, digests, before), before);
        cut_table(tables[i]);
        size_t n = before + kit_run(l, digests + before, MOST - before);
        assert_int_equal(n, whole.count);
        assert_memory_equal(digests, whole.digests, n * sizeof *digests);
        /* The thread that writes may come to it when all has been served. Which blocks are free
         * nobody may ask any more: all may be written by then. */
        while (strcmp(tables[i], "space") != 0 && !says_why(l))
            usleep(1000);
        larder_loader_close(&l);
    }
}

static void test_resumes(void **unused) {
    (void)unused;
    static const char *const recipes[] = {"minio", "rotate:h=0.5", "lru"};
    static outcome whole;
    for (size_t i = 0; i < sizeof recipes / sizeof *recipes; i++) {
        run(&whole, SOURCE, recipes[i], "40%", 2);
        for (size_t before = 5; before < 120; before += 37) {
            empty_folder();
            larder_loader_conf c = kit_conf(SOURCE, recipes[i]);
            c.cache = on_disk(i == 2 ? "10%+" : "", "budget=40%");
            c.epochs = 3;
            larder_loader *l = kit_resume(&c, before, whole.digests, whole.count);
            larder_loader_close(&l);
        }
    }
}

static void test_within_budget(void **unused) {
    (void)unused;
    static const struct {
        const char *options;
        uint64_t most;
    } sizes[] = {{"budget=2MiB", 2 << 20}, {"budget=1500KiB", 1500 << 10}};
    uint64_t digest[1];
    for (size_t i = 0; i < 2; i++) {
        larder_loader_conf c = kit_conf(i ? OTHER : SOURCE, i ? "lru" : "minio");
        larder_loader *l;
        c.cache = on_disk("", sizes[i].options);
        c.epochs = 2;
        check_ok(larder_loader_open(&l, &c));
        while (kit_run(l, digest, 1))
            assert_true(disk_usage() <= sizes[i].most);
        larder_loader_close(&l);
        assert_true(disk_usage() > 1 << 20 && disk_usage() <= sizes[i].most);
    }
}

static void refused(const char *cache, const char *because) {
    larder_loader_conf c = kit_conf(SOURCE, "minio");
    larder_loader *l = NULL;
    c.cache = cache;
    if (larder_loader_open(&l, &c) == 0)
        fail_msg("\"%s\" is taken", cache);
    if (!strstr(larder_errmsg(), because))
        fail_msg("\"%s\" does not say \"%s\"", larder_errmsg(), because);
    larder_loader_close(&l);
}

static void test_refused(void **unused) {
    (void)unused;
    char text[300];
    refused(on_disk("", ""), "budget="); /* nobody knows how large */
    refused(on_disk("", "budget=4KiB"), folder);
    refused(on_disk("", "size=4GiB"), "budget, quota");
    refused(on_disk("", "budget=1GiB:50/0/50"), "augmented");
    refused("disk:?budget=1GiB", "which folder?");
    refused(on_disk("1KiB+", "budget=100MiB"), "tables");
    empty_folder();
    FILE *f = fopen(folder, "w");
    assert_non_null(f);
    fclose(f);
    refused(on_disk("", "budget=100MiB"), folder);
    assert_int_equal(unlink(folder), 0);
    snprintf(text, sizeof text, "disk:%s/not/there?budget=100MiB", folder);
    refused(text, folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_as_in_memory, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_starts_warm, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_data_sets_apart, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_two_at_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_table_cut_off, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_resumes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_within_budget, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_refused, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
