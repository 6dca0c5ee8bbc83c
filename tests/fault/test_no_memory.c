/* Loaders of many kinds while one of their allocations or calls to the system fails: opened,
 * trained through, saved and restored, they go on or end with a sentence, and leak nothing. The
 * tables of stages and sources that make no sense stand here too: refused with a sentence. */
#include "array_kit.h"
#include "check.h"
#include "failing_calls.h"
#include "loader_kit.h"
#include "pack_kit.h"

#include "base/mem.h"
#include "source/source.h"
#include "stage/pipeline.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static char root[256];
static size_t pictures;

static int set_up(void **state) {
    (void)state;
    char path[300];
    static const char csv[] = "name,label,x\na,1,0.5\nb,0,1.5\nc,2,2.5\nd,1,3\n";
    check_folder(root);
    snprintf(path, sizeof path, "%s/pictures", root);
    assert_int_equal(mkdir(path, 0700), 0);
    pictures = kit_pictures(path);
    snprintf(path, sizeof path, "%s/x.npy", root);
    kit_npy(path, "|u1", "(12, 4, 4, 3)", 12 * 48);
    snprintf(path, sizeof path, "%s/y.npy", root);
    kit_npy_of(path, "<i8", "(12,)", (const int64_t[12]){0, 1, 2, 1}, 96);
    snprintf(path, sizeof path, "%s/t.csv", root);
    check_write(path, csv, sizeof csv - 1);
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

/* Some batches with losses and embeddings, an end of an epoch, a state. */
static int train(larder_loader *l, int batches, void **state, size_t *size) {
    const larder_batch *b;
    int rc = 0;
    for (int i = 0; rc >= 0 && i < batches; i++) {
        rc = larder_loader_next(l, &b);
        if (rc == LARDER_END || rc < 0)
            break;
        if (rc == LARDER_END_EPOCH) {
            rc = larder_loader_validate(l, 0.5);
            continue;
        }
        float loss[8], embeddings[8 * 4];
        for (size_t r = 0; r < b->n; r++)
            loss[r] = (float)(b->served[r] % 7);
        for (size_t k = 0; k < 8 * 4; k++)
            embeddings[k] = (float)(k * 5 % 9);
        larder_feedback f = {.size = sizeof f, .loss = loss, .embeddings = embeddings, .dim = 4};
        rc = larder_loader_report(l, b, &f);
        if (larder_loader_done(l, b) < 0)
            rc = rc < 0 ? rc : LARDER_E_STATE;
    }
    if (rc >= 0 && state)
        rc = larder_loader_save(l, LARDER_STATE, state, size);
    return rc;
}

static int live(const larder_loader_conf *c) {
    larder_loader *l = NULL, *again = NULL;
    void *state = NULL;
    size_t size = 0;
    int rc = larder_loader_open(&l, c);
    if (rc == 0)
        rc = train(l, 5, &state, &size);
    if (rc >= 0)
        rc = larder_loader_open(&again, c);
    if (rc >= 0)
        rc = larder_loader_restore(again, LARDER_STATE, state, size);
    if (rc >= 0)
        rc = train(again, 20, NULL, NULL);
    larder_free(state);
    larder_loader_close(&l);
    larder_loader_close(&again);
    return rc;
}

/* The first two of each call to the system, one at a time. */
static void fail_calls(const larder_loader_conf *c) {
    for (size_t which = 0; which < failing_count(); which++) {
        bool failed = true;
        for (unsigned at = 1; failed && at <= 2; at++) {
            failing_arm(which, at);
            int rc = live(c);
            failed = failing_did();
            failing_arm(0, 0);
            if (rc < 0 && larder_errmsg()[0] == '\0')
                fail_msg("%s, %s: no sentence when %s fails for the %u. time", c->source, c->recipe,
                         failing_name(which), at);
        }
    }
    failing_interrupt(3);
    int rc = live(c);
    failing_interrupt(0);
    if (rc < 0)
        fail_msg("%s, %s: signals disturb it: %s", c->source, c->recipe, larder_errmsg());
}

/* One by one at first, then wider and wider apart. */
static void loaders_go_on_or_end(void **unused) {
    (void)unused;
    static const char raw[] = "mem:?n=40&h=8&w=8&c=3&classes=3";
    static const char files[] = "@/pictures";
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
        {files, "minio", "40%:40/30/30", "rrc:size=8|flip", NULL},
        {files, "minio:shrink=16", "40%", "rrc:size=8|flip", NULL},
        {files, "lru", "40%", "resize:h=8,w=8|jitter:brightness=0.2|randaugment|erase", NULL},
    };
    for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
        char text[2][600];
        larder_loader_conf c = conf_of(&all[k], text);
        if (all[k].source == files && !pictures)
            continue;
        int rc = live(&c);
        if (rc < 0)
            fail_msg("%s, %s: %s", all[k].source, all[k].recipe, larder_errmsg());
        bool failed = true;
        uint64_t at = 1;
        for (int i = 0; failed && i < 150; i++, at += 1 + (i > 90 ? at / 12 : 0)) {
            larder__mem_fail_at(at, 0);
            rc = live(&c);
            failed = larder__mem_failed();
            larder__mem_fail_at(0, 0);
            if (rc < 0 && larder_errmsg()[0] == '\0')
                fail_msg("%s, %s: no sentence when allocation %llu fails", all[k].source,
                         all[k].recipe, (unsigned long long)at);
        }
        fail_calls(&c);
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_stages_are_refused),
        cmocka_unit_test(wrong_sources_are_refused),
        cmocka_unit_test(loaders_go_on_or_end),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
