/* What lies beside the samples, what nobody can decode and who has no label: said, not dropped. */
#include "check.h"
#include "source/found.h"
#include "source/source.h"
#include "tar_maker.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

typedef struct place {
    char root[64];
} place;

static int open_place(void **st) {
    place *p = calloc(1, sizeof *p);
    snprintf(p->root, sizeof p->root, "/tmp/larder-found-XXXXXX");
    if (!mkdtemp(p->root))
        return -1;
    setenv("LARDER_CACHE_DIR", p->root, 1);
    *st = p;
    return 0;
}

static int close_place(void **st) {
    char command[100];
    snprintf(command, sizeof command, "rm -rf %s", ((place *)*st)->root);
    free(*st);
    return system(command);
}

static void put(const place *p, const char *name, const char *text) {
    char path[200];
    snprintf(path, sizeof path, "%s/%s", p->root, name);
    for (char *slash = strchr(path + strlen(p->root) + 1, '/'); slash;
         slash = strchr(slash + 1, '/')) {
        *slash = 0;
        mkdir(path, 0777);
        *slash = '/';
    }
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

/* The sentences of a data set, which begin with its URI, are these and no more. */
static void expect(const char *scheme, const place *p, const char *name, const char *const *says) {
    char uri[200], whole[600], out[512];
    larder__data *d = NULL;
    snprintf(uri, sizeof uri, "%s%s%s", scheme, p->root, name);
    check_ok(larder__data_open(&d, uri));
    size_t i = 0;
    for (; says[i]; i++) {
        snprintf(whole, sizeof whole, "%s: %s", uri, says[i]);
        assert_non_null(larder__data_note(d, i, out, sizeof out));
        assert_string_equal(out, whole);
    }
    if (larder__data_note(d, i, out, sizeof out))
        fail_msg("%s", out);
    larder__data_close(&d);
}
#define EXPECT(scheme, p, name, ...) expect(scheme, p, name, (const char *const[]){__VA_ARGS__})

static void test_folders(void **st) {
    place *p = *st;
    put(p, "plain/cat/1.jpg", "x");
    put(p, "plain/dog/1.PNG", "x");
    put(p, "plain/dog/.hidden.txt", "x");
    EXPECT("dir:", p, "/plain", NULL);
    put(p, "mixed/cat/1.jpg", "x");
    put(p, "mixed/cat/2.webp", "x");
    put(p, "mixed/cat/deep/3.TIF", "x");
    put(p, "mixed/cat/deep/4.tif", "x");
    put(p, "mixed/cat/a.b.txt", "x");
    put(p, "mixed/cat/deep/c.TXT", "x");
    put(p, "mixed/cat/README", "x");
    put(p, "mixed/classes.csv", "x");
    put(p, "mixed/9.jpg", "x");
    char slow[100];
    snprintf(slow, sizeof slow, "slow:latency=1us:dir:");
    for (int i = 0; i < 2; i++) {
        char uri[200], out[512];
        larder__data *d;
        snprintf(uri, sizeof uri, "%s%s/mixed", i ? slow : "dir:", p->root);
        check_ok(larder__data_open(&d, uri));
        assert_non_null(larder__data_note(d, 0, out, sizeof out));
        assert_memory_equal(out, uri, strlen(uri));
        assert_non_null(strstr(out, ": 5 files are not used: "));
        assert_non_null(strstr(out, "2 .txt"));
        assert_non_null(strstr(out, "1 .csv"));
        assert_non_null(strstr(out, "1 .jpg"));
        assert_non_null(strstr(out, ", 1 others"));
        if (strstr(larder_features(), "-") == NULL) /* else some decoder may be missing */
            assert_null(larder__data_note(d, 1, out, sizeof out));
        larder__data_close(&d);
    }
}

static void put_tar(const place *p, const char *name, int samples, bool labels, bool more) {
    char path[200], member[64];
    snprintf(path, sizeof path, "%s/%s", p->root, name);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    for (int i = 0; i < samples; i++) {
        snprintf(member, sizeof member, "%06d", i);
        tar_put_sample(f, member, "bytes", 5, labels && i != 1 ? "3" : NULL);
        for (int k = 0; more && k < 3; k++) {
            static const char *const endings[] = {"json", "txt", "seg.png"};
            snprintf(member, sizeof member, "%06d.%s", i, endings[k]);
            tar_put(f, '0', member, "{}", 2);
        }
    }
    tar_put_end(f);
    fclose(f);
}

/* Built, and from the kept index. */
static void test_tars(void **st) {
    place *p = *st;
    put_tar(p, "plain.tar", 1, true, false);
    put_tar(p, "s0.tar", 3, true, true);
    put_tar(p, "s1.tar", 2, false, true);
    for (int i = 0; i < 2; i++) {
        EXPECT("tar:", p, "/plain.tar", NULL);
        EXPECT(
            "tar:", p, "/s0.tar",
            "9 members are not used: 3 .json, 3 .txt, 3 .seg.png; fields= takes them",
            "1 of 3 samples have no label, the first is s0.tar:000001.jpg; labels come from "
            "class folders, from .cls members of tar shards, from a manifest, or from what target= "
            "names",
            NULL);
        EXPECT(
            "tar:", p, "/s{0..1}.tar",
            "15 members are not used: 5 .json, 5 .txt, 5 .seg.png; fields= takes them",
            "3 of 5 samples have no label, the first is s0.tar:000001.jpg; labels come from "
            "class folders, from .cls members of tar shards, from a manifest, or from what target= "
            "names",
            NULL);
    }
}

static void test_strange(void **st) {
    (void)st;
    larder__found f = {0};
    larder__found_says says;
    larder__found_sample(&f, "a/1.jpg");
    larder__found_sample(&f, "a/2.heic");
    larder__found_sample(&f, "a/3.Heic");
    if (strstr(larder_features(), "-jpeg"))
        return;
    assert_string_equal(
        larder__found_note(&f, "files", 0, &says),
        "larder does not decode 2 samples, by their names (2 .heic; larder --version "
        "says what this build has), the first is a/2.heic: convert them, leave them "
        "to PIL (pil=True in Python), pass over them (on_bad=skip) or take their "
        "bytes as they are");
}

static void test_many_endings(void **st) {
    (void)st;
    larder__found f = {0}, all = {0};
    larder__found_says says;
    assert_null(larder__found_note(&f, "files", 0, &says));
    for (int i = 0; i < 12; i++) {
        char ending[16], path[32];
        snprintf(ending, sizeof ending, "e%d", i);
        snprintf(path, sizeof path, "x.%s", ending);
        larder__found_unused(&f, path, ending, 1);
    }
    larder__found_unused(&f, "a.b", "an-ending-that-no-file-should-ever-have", 1);
    larder__found_add(&all, &f);
    larder__found_add(&all, &f);
    assert_string_equal(larder__found_note(&all, "files", 0, &says),
                        "26 files are not used: 2 .e0, 2 .e1, 2 .e2, 2 .e3, 2 .e4, 2 .e5, 2 .e6, 2 "
                        ".e7, 10 others");
    assert_null(larder__found_note(&all, "files", 1, &says));
}

int main(void) {
#if !LARDER_HAVE_JPEG || !LARDER_HAVE_SPNG || !LARDER_HAVE_WEBP || !LARDER_HAVE_TIFF
    print_message("skipped: what is said depends on what this build decodes\n");
    return 77;
#endif
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_folders, open_place, close_place),
        cmocka_unit_test_setup_teardown(test_tars, open_place, close_place),
        cmocka_unit_test(test_strange),
        cmocka_unit_test(test_many_endings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
