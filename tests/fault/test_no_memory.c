/* Loaders of many kinds while one of their allocations or calls to the system fails. The
 * tables of stages and sources that make no sense stand here too: refused with a sentence. */
#include "array_kit.h"
#include "check.h"
#include "failing_loader.h"
#include "loader_kit.h"
#include "pack_kit.h"
#include "tar_maker.h"

#include "source/source.h"
#include "stage/pipeline.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static char root[256];
static size_t pictures;

/* Pictures that any build decodes, each with a class. */
static void write_shard(const char *path) {
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    for (int i = 0; i < 12; i++) {
        char key[16], class[8], picture[11 + 192];
        memset(picture, i * 9, sizeof picture);
        memcpy(picture, "P6 8 8 255\n", 11);
        snprintf(key, sizeof key, "%03d.ppm", i);
        tar_put(f, '0', key, picture, sizeof picture);
        snprintf(key, sizeof key, "%03d.cls", i);
        tar_put(f, '0', key, class, (size_t)snprintf(class, sizeof class, "%d", i % 3));
    }
    tar_put_end(f);
    assert_int_equal(fclose(f), 0);
}

static int set_up(void **state) {
    (void)state;
    char path[300];
    static const char csv[] = "name,label,x\na,1,0.5\nb,0,1.5\nc,2,2.5\nd,1,3\n";
    check_folder(root);
    snprintf(path, sizeof path, "%s/pictures", root);
    assert_int_equal(mkdir(path, 0700), 0);
    pictures = kit_pictures(path);
    if (pictures) {
        char to[300];
        larder__pack_result made;
        snprintf(to, sizeof to, "%s/packed", root);
        larder__pack_conf pack = kit_pack_conf(path, to);
        check_ok(larder__pack_run(&pack, &made));
    }
    snprintf(path, sizeof path, "%s/x.npy", root);
    kit_npy(path, "|u1", "(12, 4, 4, 3)", 12 * 48);
    snprintf(path, sizeof path, "%s/y.npy", root);
    kit_npy_of(path, "<i8", "(12,)", (const int64_t[12]){0, 1, 2, 1}, 96);
    snprintf(path, sizeof path, "%s/z.npy", root);
    kit_npy(path, "<f8", "(12, 2)", 12 * 16);
    snprintf(path, sizeof path, "%s/w.npy", root);
    kit_npy(path, "<u2", "(100,)", 200);
    snprintf(path, sizeof path, "%s/t.csv", root);
    check_write(path, csv, sizeof csv - 1);
    snprintf(path, sizeof path, "%s/shard.tar", root);
    write_shard(path);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    check_folder_remove(root);
    return 0;
}

/* "@" for the folder. */
static const char *placed(const char *text, char out[600]) {
    size_t used = 0;
    for (; *text; text++)
        used += (size_t)snprintf(out + used, 600 - used, "%s",
                                 *text == '@' ? root : (const char[]){*text, 0});
    out[used] = '\0';
    return out;
}

/* ---- loaders --------------------------------------------------------------------------------- */

typedef struct subject {
    const char *source, *recipe, *cache, *augment, *fields;
} subject;

static larder_loader_conf conf_of(const subject *s, char text[2][600]) {
    larder_loader_conf c = {.size = sizeof c};
    c.source = placed(s->source, text[0]);
    c.recipe = s->recipe;
    c.cache = placed(s->cache, text[1]);
    c.augment = s->augment;
    c.fields = s->fields;
    c.batch = 8;
    c.threads = 1;
    c.prefetch = 2;
    c.epochs = 2;
    c.seed = 3;
    c.dtype = LARDER_U8;
    return c;
}

static void loaders_go_on_or_end(void **unused) {
    (void)unused;
    static const char raw[] = "mem:?n=40&h=8&w=8&c=3&classes=3";
    static const char files[] = "@/pictures", packed[] = "pack:@/packed";
    const subject all[] = {
        {raw, "minio", "30%", NULL, NULL},
        {raw, "rotate:h=0.5,strata=class", "30%", NULL, NULL},
        {raw, "spider:scoring=wait,ratio=0.6,degree=4,list=8", "30%", NULL, NULL},
        {raw, "shade", "30%", NULL, NULL},
        {raw, "impact", "30%", NULL, NULL},
        {raw, "icache", "30%", NULL, NULL},
        {raw, "nopfs", "30%:40/30/30", KIT_PIXELS, NULL},
        {raw, "seneca", "40%:40/30/30", KIT_PIXELS, NULL},
        {raw, "stream:block=4", "80%", NULL, NULL},
        {raw, "minio", "disk:@/disk?budget=1MiB", NULL, NULL},
        {"npy:@/x.npy?labels=@/y.npy", "lru", "30%", NULL, NULL},
        {"npy:@/x.npy?labels=@/z.npy", "lru", "30%", NULL, NULL},
        {"window:length=8,stride=3:npy:@/w.npy", "minio", "30%", NULL, NULL},
        {"csv:@/t.csv?target=label", "minio", "50%", NULL, NULL},
        {"csv:@/t.csv?target=x", "lru", "50%", NULL, "name"},
        {"mix:1*npy:@/x.npy,3*npy:@/x.npy", "lru", "30%", NULL, NULL},
        {"tar:@/shard.tar", "lru", "30%", KIT_PIXELS, NULL},
        {"tar:@/shard.tar", "minio", "30%", KIT_PIXELS, "ppm,cls"},
        {raw, "quiver", "30%", NULL, NULL},
        {raw, "echo", "30%", NULL, NULL},
        {raw, "icache:package=1KiB", "30%", NULL, NULL},
        {raw, "lru", "10%+disk:@/front?budget=1MiB", NULL, NULL},
        {raw, "seneca", "disk:@/forms?budget=1MiB:50/50/0", KIT_PIXELS, NULL},
        {raw, "minio:plan=auto", "30%:40/30/30", KIT_PIXELS, NULL},
        {files, "minio", "40%:40/30/30", "rrc:size=8|flip", NULL},
        {files, "minio:shrink=16", "40%", "rrc:size=8|flip", NULL},
        {packed, "lru", "40%", "rrc:size=8|flip", NULL},
        {packed, "icache:package=4KiB", "40%", "rrc:size=8|flip", NULL},
        {files, "lru", "40%", "resize:h=8,w=8|jitter:brightness=0.2|randaugment|erase", NULL},
    };
    for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
        char text[2][600];
        larder_loader_conf c = conf_of(&all[k], text);
        if ((all[k].source == files || all[k].source == packed) && !pictures)
            continue;
        goes_on_or_ends(&c);
    }
}

/* ---- what makes no sense --------------------------------------------------------------------- */

static void wrong_stages_are_refused(void **unused) {
    (void)unused;
    static const char *const wrong[] = {
        "affine:degrees=x",
        "affine:translate=2/2",
        "affine:translate=0.1/0.1/0.1",
        "affine:shear=95",
        "affine:shear=5/1",
        "affine:scale=2/1",
        "blur:kernel=4",
        "blur:kernel=0",
        "blur:kernel=2.5",
        "blur:kernel=x",
        "blur:sigma=0",
        "crop:size=0",
        "crop:size=8,pad=-1",
        "crop:size=x",
        "erase:value=x",
        "erase:scale=2/1",
        "erase:ratio=0",
        "jitter:brightness=x",
        "jitter:hue=2",
        "jitter:brightness=3/1",
        "normalize:mean=x",
        "normalize:mean=1/2/3,std=0/1/1",
        "normalize:mean=1/2",
        "pad:by=1/2/3",
        "pad:by=-1",
        "pad:by=0.5",
        "pad:by=999999999",
        "pad:by=x",
        "resize:h=0,w=3",
        "resize",
        "rrc:size=0",
        "rrc:size=8,scale=0/2",
        "rotation:degrees=x",
        "rotation:degrees=30/10",
        "nonsense",
        "flip|nonsense",
        "flip|",
        "|",
        "flip:p=2",
        "mixup:alpha=-1",
        "cutmix:alpha=x",
        "randaugment:magnitude=99",
        "autoaugment:policy=none",
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        larder_loader_conf c = kit_conf("mem:?n=20&h=8&w=8&c=3", "lru");
        larder_loader *l = NULL;
        c.augment = wrong[i];
        int rc = larder_loader_open(&l, &c);
        if (rc >= 0 || larder_errmsg()[0] == '\0')
            fail_msg("%s: %d, %s", wrong[i], rc, larder_errmsg());
        assert_null(l);
    }
}

static void wrong_sources_are_refused(void **unused) {
    (void)unused;
    static const char *const wrong[] = {
        "",
        "nonsense:x",
        "@/none",
        "dir:@/none",
        "dir:@/t.csv",
        "dir:@/pictures?io=fast",
        "dir:@/pictures?nonsense=1",
        "tar:@/none.tar",
        "tar:@/t.csv",
        "tar:@/{0..",
        "idx:@/pictures",
        "cifar10:@/pictures",
        "cifar100:@/pictures?split=both",
        "list:@/none",
        "list:@/t.csv?root=@/none",
        "pack:@/pictures",
        "npy:@/t.csv",
        "npy:@/none.npy",
        "npy:@/x.npy?labels=@/t.csv",
        "npy:@/x.npy?labels=@/none",
        "raw:@/t.csv?shape=0",
        "raw:@/t.csv?shape=7&dtype=nonsense",
        "window:@/t.csv",
        "window:@/t.csv?length=0",
        "csv:@/none.csv",
        "csv:@/t.csv?value=none",
        "table:@/t.csv",
        "table:@/none",
        "lmdb:@/none",
        "lmdb:@/pictures",
        "hdf5:@/none",
        "hdf5:@/t.csv",
        "mix:",
        "mix:x*mem:?n=3&h=4&w=4&c=1",
        "mix:mem:?n=3&h=4&w=4&c=1|@/none",
        "slow:nonsense:mem:?n=3&h=4&w=4&c=1",
        "slow:latency=x:mem:?n=3&h=4&w=4&c=1",
        "mem:?n=x",
        "mem:?n=3&h=0&w=4&c=1",
        "mem:?n=3&h=4&w=4&c=9",
        "mem:?n=3&h=4&w=4&c=1&ids=5-9",
        "mem:?n=3&h=4&w=4&c=1&take=x",
        "http://",
        "s3://",
        "gs://",
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char text[600];
        larder__data *d = NULL;
        int rc = larder__data_open(&d, placed(wrong[i], text));
        if (rc >= 0 || larder_errmsg()[0] == '\0')
            fail_msg("%s: %d, %s", wrong[i], rc, larder_errmsg());
        assert_null(d);
    }
}

static void loader_refused(const larder_loader_conf *c, int code, const char *why) {
    larder_loader *l = NULL;
    int rc = larder_loader_open(&l, c);
    if (rc != code || !strstr(larder_errmsg(), why))
        fail_msg("%d and not %d: \"%s\" does not say \"%s\"", rc, code, larder_errmsg(), why);
    assert_null(l);
}

static void wrong_settings_are_refused(void **unused) {
    (void)unused;
    const larder_loader_conf good = kit_conf("mem:?n=20&h=8&w=8&c=3", "lru");
    static const char many[] = "at most 1024 threads", none[] = "is none of the known ones",
                      views[] = "at most 64 views";
#define WRONG(field, value, why)                                                                   \
    do {                                                                                           \
        larder_loader_conf c = good;                                                               \
        c.field = (value);                                                                         \
        loader_refused(&c, LARDER_E_ARGS, why);                                                    \
    } while (0)
    WRONG(threads, 1025, many);
    WRONG(prefetch, 1025, many);
    WRONG(ahead, 1025, many);
    WRONG(inflight, 1025, many);
    WRONG(lag, (1u << 20) + 1, many);
    WRONG(lag, 1, "must be more than the 4 batches ahead");
    WRONG(ahead, 1, "but only 1 read ahead");
    WRONG(on_bad, LARDER_BAD_REPLACE + 1, none);
    WRONG(dtype, LARDER_BF16 + 1, none);
    WRONG(layout, LARDER_NHWC + 1, none);
    WRONG(parts, LARDER_PARTS_OFF + 1, none);
    WRONG(views, 65, views);
    WRONG(patience, -1, "makes no sense");
    WRONG(source, NULL, "no source given");
#undef WRONG
    larder_loader_conf c = good;
    c.views = 2;
    c.fields = "x";
    loader_refused(&c, LARDER_E_ARGS, views);
    c.fields = NULL;
    c.target = "csv:@/k.csv";
    loader_refused(&c, LARDER_E_ARGS, views);
}

/* One epoch; `sum` of all labels. */
static int with_target(const char *target, const char *table, int64_t *sum) {
    char text[2][600], path[300];
    snprintf(path, sizeof path, "%s/k.csv", root);
    check_write(path, table, strlen(table));
    larder_loader_conf c = kit_conf(placed("tar:@/shard.tar", text[0]), "lru");
    c.target = placed(target, text[1]);
    c.epochs = 1;
    larder_loader *l = NULL;
    const larder_batch *b;
    *sum = 0;
    int rc = larder_loader_open(&l, &c);
    while (rc == 0 && (rc = larder_loader_next(l, &b)) == 0) {
        for (size_t i = 0; i < b->n; i++)
            *sum += b->y[i];
        rc = larder_loader_done(l, b);
    }
    larder_loader_close(&l);
    return rc < 0 ? rc : 0;
}

/* Tables of what samples are: by name, in a file beside them or anywhere. */
static void targets_are_read_or_refused(void **unused) {
    (void)unused;
    char good[400], two[400], names[400];
    size_t n = 0, m = 0, k = 0;
    int64_t sum;
    n += (size_t)snprintf(good, sizeof good, "name,label\n");
    m += (size_t)snprintf(two, sizeof two, "a,name,b\n");
    k += (size_t)snprintf(names, sizeof names, "name,label\n");
    for (int i = 0; i < 12; i++) {
        n += (size_t)snprintf(good + n, sizeof good - n, "%03d,%d\n", i, i);
        m += (size_t)snprintf(two + m, sizeof two - m, "%d.5,%03d,%d\n", i, i, i * 2);
        k += (size_t)snprintf(names + k, sizeof names - k, "%03d,%s\n", i, i % 2 ? "cat" : "ape");
    }
    check_ok(with_target("csv:@/k.csv", good, &sum));
    assert_int_equal(sum, 66);
    check_ok(with_target("csv:k.csv?key=name&value=label", good, &sum)); /* beside the shard */
    assert_int_equal(sum, 66);
    check_ok(with_target("csv:@/k.csv", names, &sum)); /* classes in the order of their names */
    assert_int_equal(sum, 6);
    check_ok(with_target("csv:@/k.csv?key=name&value=*", two, &sum));
    check_ok(with_target("csv:@/k.csv?key=name&value=a/b", two, &sum));
    static const struct {
        const char *target, *table, *why;
    } wrong[] = {
        {"csv:", "name,label\n000,1\n", "csv:file.csv"},
        {"csv:none.csv", "name,label\n000,1\n", "none.csv"},
        {"csv:@/k.csv?value=none", "name,label\n000,1\n", "there is no column"},
        {"csv:@/k.csv?key=none", "name,label\n000,1\n", "there is no column"},
        {"csv:@/k.csv?nonsense=1", "name,label\n000,1\n", "nonsense"},
        {"csv:@/k.csv", "name\n000\n", "no two columns"},
        {"csv:@/k.csv?value=label/label/label", "name,label\n000,1\n", "more columns than"},
        {"csv:@/k.csv?value=*", "name,label\n000,one\n", ""},
        {"csv:@/k.csv", "name,label\n000,1\n000,2\n", ""},
        {"csv:@/k.csv", "name,label\nx,1\n", ""},
        {"csv:@/k.csv", "name,label\n", ""},
        {"csv:@/k.csv", "", ""},
        {"csv:@/k.csv", "name,label\n000,1,2\n", ""},
        {"csv:@/k.csv", "name,label\n000,\"1\n", ""},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        int rc = with_target(wrong[i].target, wrong[i].table, &sum);
        if (rc >= 0 || !larder_errmsg()[0] || !strstr(larder_errmsg(), wrong[i].why))
            fail_msg("%s of \"%s\": %d, \"%s\"", wrong[i].target, wrong[i].table, rc,
                     larder_errmsg());
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_settings_are_refused), cmocka_unit_test(targets_are_read_or_refused),
        cmocka_unit_test(wrong_stages_are_refused),   cmocka_unit_test(wrong_sources_are_refused),
        cmocka_unit_test(loaders_go_on_or_end),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
