/* The recipe stream on real shards: exactly once, read block by block, resumed exactly and block by
 * block again, shared out among ranks; and what it does not go with is said. */
#include "loader_kit.h"
#include "look_kit.h"
#include "tar_maker.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { SHARDS = 4, EACH = 150, N = SHARDS * EACH, BYTES = 5000, EPOCHS = 3, MANY = 256 };
/* A sample is padded to 5120 bytes; with its header, label and the label's header it takes 6656. */

typedef struct place {
    char root[256], uri[400];
} place;

/* A picture of one colour, padded by a comment that nobody reads. */
static size_t picture(unsigned char *out, uint64_t id) {
    int head = snprintf((char *)out, BYTES, "P6\n#");
    memset(out + head, 'x', BYTES - (size_t)head);
    const unsigned char tail[] = "\n2 2\n255\n";
    size_t at = BYTES - 12 - (sizeof tail - 1);
    memcpy(out + at, tail, sizeof tail - 1);
    for (int i = 0; i < 12; i++)
        out[BYTES - 12 + i] = (unsigned char)(id >> (i % 3 * 8));
    return BYTES;
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
        for (uint64_t i = 0; i < EACH; i++, id++) {
            snprintf(key, sizeof key, "%06llu", (unsigned long long)id);
            snprintf(label, sizeof label, "%llu", (unsigned long long)(id % 10));
            size_t n = picture(bytes, id);
            tar_put(f, '0', strcat(strcpy(path, key), ".ppm"), bytes, n);
            tar_put(f, '0', strcat(strcpy(path, key), ".cls"), label, strlen(label));
        }
        tar_put_end(f);
        assert_int_equal(fclose(f), 0);
    }
    snprintf(p.uri, sizeof p.uri, "tar:%s/s-{0..3}.tar", p.root);
    *state = &p;
    return 0;
}

static int tear_down(void **state) {
    check_folder_remove(((place *)*state)->root);
    return 0;
}

/* Blocks of 20 samples, a window of 120 or so. */
static larder_loader_conf conf_of(const place *p) {
    larder_loader_conf c = kit_conf(p->uri, "stream:block=100000");
    c.augment = "resize:h=2,w=2";
    c.cache = "20%";
    c.epochs = EPOCHS;
    c.batch = 10;
    c.prefetch = 3;
    return c;
}

static larder_loader *open_loader(const larder_loader_conf *c) {
    larder_loader *l = NULL;
    check_ok(larder_loader_open(&l, c));
    return l;
}

static void exactly_once_and_in_blocks(void **state) {
    larder_loader_conf c = conf_of(*state);
    larder_loader *l = open_loader(&c);
    uint64_t digests[MANY];
    assert_int_equal(kit_run(l, digests, MANY), EPOCHS * (N / 10 + 1));
    for (uint64_t e = 0; e < EPOCHS; e++) {
        larder_figures f;
        check_ok(look_figures(l, e, &f));
        assert_int_equal(f.served, N);
        assert_int_equal(f.repeats, 0);
        assert_true(f.touched == 1);
        assert_int_equal(f.misses, e ? 0 : 10); /* the very first batch */
        assert_true(f.storage_bytes <= (uint64_t)(N + N / 5) * BYTES);
        /* 32 blocks; a few are cut by samples that are still there. */
        assert_true(f.requests < N / 5);
    }
    assert_int_equal(look_audit(l), 0);
    larder_loader_close(&l);
}

/* Labels and pixels are those of the ids: what came by one read was put apart rightly. */
static void what_comes_is_what_was_asked_for(void **state) {
    larder_loader_conf c = conf_of(*state);
    c.epochs = 1;
    larder_loader *l = open_loader(&c);
    const larder_batch *b;
    uint64_t seen = 0;
    while (larder_loader_next(l, &b) == 0) {
        const unsigned char *x = b->x;
        for (size_t i = 0; i < b->n; i++, seen++) {
            assert_int_equal(b->y[i], b->ids[i] % 10);
            assert_int_equal(x[i * 12] | x[i * 12 + 4] << 8, b->ids[i]);
        }
        check_ok(larder_loader_done(l, b));
    }
    assert_int_equal(seen, N);
    larder_loader_close(&l);
}

static void resumes_exactly_and_in_blocks(void **state) {
    larder_loader_conf c = conf_of(*state);
    larder_loader *l = open_loader(&c);
    uint64_t whole[MANY];
    size_t count = kit_run(l, whole, MANY);
    larder_loader_close(&l);
    for (size_t before = 1; before < count; before += 13) {
        l = kit_resume(&c, before, whole, count);
        larder_stat_value v = {.size = sizeof v};
        double reads = 0, requests = 0;
        for (size_t i = 0; larder_loader_stat(l, i, &v) == 0; i++) {
            reads = strcmp(v.name, "storage_reads") == 0 ? v.value : reads;
            requests = strcmp(v.name, "storage_requests") == 0 ? v.value : requests;
        }
        /* What was drawn before the save comes one by one, the rest of the window in blocks. */
        assert_true(reads < 200 || requests < reads / 2);
        assert_int_equal(look_audit(l), 0);
        larder_loader_close(&l);
    }
}

static void ranks_read_everything_once(void **state) {
    enum { WORLD = 3 };
    uint32_t times[N] = {0};
    uint64_t reads = 0;
    for (uint32_t rank = 0; rank < WORLD; rank++) {
        larder_loader_conf c = conf_of(*state);
        c.epochs = 1;
        c.rank = rank;
        c.world = WORLD;
        larder_loader *l = open_loader(&c);
        const larder_batch *b;
        while (larder_loader_next(l, &b) == 0) {
            for (size_t i = 0; i < b->n; i++)
                times[b->ids[i]]++;
            check_ok(larder_loader_done(l, b));
        }
        larder_figures f;
        check_ok(look_figures(l, 0, &f));
        reads += f.misses + f.background_reads;
        assert_int_equal(f.served, N / WORLD);
        larder_loader_close(&l);
    }
    for (int i = 0; i < N; i++)
        assert_int_equal(times[i], 1);
    assert_int_equal(reads, N);
}

static void refused(const larder_loader_conf *c, const char *words) {
    larder_loader *l = NULL;
    assert_true(larder_loader_open(&l, c) < 0);
    if (!strstr(larder_errmsg(), words))
        fail_msg("\"%s\" does not say \"%s\"", larder_errmsg(), words);
}

static void what_does_not_go_is_said(void **state) {
    const place *p = *state;
    larder_loader_conf c = conf_of(p);
    c.recipe = "stream";
    refused(&c, "smaller block=");
    c = conf_of(p);
    c.cache = "unix:/nowhere?budget=1MiB";
    refused(&c, "cache of its own");
    c = conf_of(p);
    c.recipe = "stream:block=100000,split=50/50/0";
    refused(&c, "whole and encoded");
    char folder[400], path[500];
    unsigned char bytes[BYTES];
    snprintf(folder, sizeof folder, "%s/files", p->root);
    assert_int_equal(mkdir(folder, 0700), 0);
    snprintf(path, sizeof path, "%s/a", folder);
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(path, sizeof path, "%s/a/1.ppm", folder);
    check_write(path, bytes, picture(bytes, 1));
    c = conf_of(p);
    c.source = folder;
    refused(&c, "larder pack");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exactly_once_and_in_blocks),
        cmocka_unit_test(what_comes_is_what_was_asked_for),
        cmocka_unit_test(resumes_exactly_and_in_blocks),
        cmocka_unit_test(ranks_read_everything_once),
        cmocka_unit_test(what_does_not_go_is_said),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
