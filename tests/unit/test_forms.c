/* Samples kept in several forms: the same rows whatever form they were kept in, the same figures in
 * loader and simulator, no effect of threads, exact resumption, budgets that hold. */
#include "loader_kit.h"
#include "look_kit.h"

#include "base/mem.h"
#include "pictures.h"
#include "sim/sim.h"
#include "stage/pipeline.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { N = 203, EPOCHS = 3, MANY = 128, PICTURES = 66 };

#define SOURCE "mem:?n=203&h=8&w=8&c=3"

static const char *const recipes[] = {"seneca:split=58/42/0",       "seneca:split=0/0/100",
                                      "seneca:split=30/30/40",      "seneca",
                                      "minio:split=0/100/0",        "lru:split=40/30/30",
                                      "quiver:split=0/0/100",       "random:split=20/20/60",
                                      "rotate:h=0.5,split=10/50/40"};
enum { RECIPES = sizeof recipes / sizeof *recipes };

static larder_loader *open_loader(const larder_loader_conf *c) {
    larder_loader *l = NULL;
    check_ok(larder_loader_open(&l, c));
    return l;
}

static size_t run_all(const larder_loader_conf *c, uint64_t *digests) {
    larder_loader *l = open_loader(c);
    size_t n = kit_run(l, digests, MANY);
    larder_loader_close(&l);
    return n;
}

static double stat_of(larder_loader *l, const char *name) {
    larder_stat_value v = {.size = sizeof v};
    for (size_t i = 0; larder_loader_stat(l, i, &v) == 0; i++)
        if (strcmp(v.name, name) == 0)
            return v.value;
    fail_msg("there is no statistic %s", name);
    return 0;
}

/* ---- a folder of pictures -------------------------------------------------------------------- */

static char folder[256], source[300];

/* JPEGs from 24 to 150 pixels wide, some of them much harder to encode; a few PNGs. */
static bool make_pictures(void) {
    char path[400];
    check_folder(folder);
    for (int class = 0; class < 2; class ++) {
        snprintf(path, sizeof path, "%s/c%d", folder, class);
        assert_int_equal(mkdir(path, 0700), 0);
    }
    for (uint32_t i = 0; i < PICTURES; i++) {
        check_jpeg_conf conf = {.w = 24 + i * 37 % 127,
                                .h = 24 + i * 53 % 101,
                                .channels = i % 7 ? 3 : 1,
                                .h_samp = 1 + (int)i % 2,
                                .v_samp = 1 + (int)i % 2,
                                .seed = i};
        size_t size;
        bool png = i % 11 == 3;
        unsigned char *bytes =
            png ? check_png(conf.w, conf.h, 2, 8, i % 2, &size) : check_jpeg(&conf, &size);
        if (!bytes)
            return false;
        snprintf(path, sizeof path, "%s/c%u/%03u.%s", folder, i % 2, i, png ? "png" : "jpg");
        check_write(path, bytes, size);
        free(bytes);
    }
    snprintf(source, sizeof source, "dir:%s", folder);
    return true;
}

static int begin(void **state) {
    *state = make_pictures() ? source : NULL;
    return 0;
}

static int end(void **state) {
    (void)state;
    check_folder_remove(folder);
    return 0;
}

#define need_pictures(state)                                                                       \
    if (!*(state)) {                                                                               \
        print_message("skipped: this build has no JPEG or PNG\n");                                 \
        skip();                                                                                    \
    }

static larder_loader_conf picture_conf(const char *recipe, const char *augment) {
    larder_loader_conf c = kit_conf(source, recipe);
    c.augment = augment;
    c.batch = 8;
    c.epochs = EPOCHS;
    return c;
}

/* ---- what is served -------------------------------------------------------------------------- */

/* Nothing is shrunk by the decoder here, so not a bit may differ. */
static void decoded_samples_make_the_same_rows(void **state) {
    const char *specs[] = {"crop:size=32,pad=12|flip", "rrc:size=48,gap=0|flip"};
    uint64_t plain[MANY], decoded[MANY];
    larder_loader_conf c = kit_conf(SOURCE, "minio");
    c.cache = "50%";
    c.epochs = EPOCHS;
    size_t n = run_all(&c, plain);
    c.cache = "50%:0/100/0";
    assert_int_equal(run_all(&c, decoded), n);
    assert_memory_equal(plain, decoded, n * sizeof *plain);
    need_pictures(state);
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
        c = picture_conf("minio", specs[i]);
        c.cache = "50%";
        n = run_all(&c, plain);
        c.cache = "800%:0/100/0";
        assert_int_equal(run_all(&c, decoded), n);
        assert_memory_equal(plain, decoded, n * sizeof *plain);
    }
}

/* Where it is shrunk, the two ways round differently. */
static void shrunk_ones_differ_by_little(void **state) {
    enum { SIDE = 20, BYTES = SIDE * SIDE * 3 };
    need_pictures(state);
    larder__pipeline_conf conf = {
        .spec = "resize:h=20,w=20", .dtype = LARDER_U8, .layout = LARDER_NHWC};
    larder__pipeline *p;
    larder__scratch *s;
    check_ok(larder__pipeline_open(&p, &conf));
    check_ok(larder__scratch_open(&s));
    uint64_t sum = 0;
    int worst = 0;
    for (uint32_t i = 0; i < 8; i++) {
        size_t size;
        check_jpeg_conf jpeg = {
            .w = 300 + i * 7, .h = 280, .channels = 3, .h_samp = 2, .v_samp = 2, .seed = i};
        unsigned char *bytes = check_jpeg(&jpeg, &size);
        larder_buf *encoded = larder_buf_new(size), *decoded;
        memcpy(larder_buf_data(encoded), bytes, size);
        uint64_t measured;
        check_ok(larder__pipeline_measure(p, s, bytes, size, &measured));
        check_ok(larder__pipeline_decode(p, s, encoded, measured - 1, &decoded));
        assert_null(decoded);
        check_ok(larder__pipeline_decode(p, s, encoded, measured, &decoded));
        assert_int_equal(larder_buf_size(decoded), measured);
        uint8_t a[BYTES], b[BYTES];
        check_ok(larder__pipeline_run(p, s, bytes, size, 1, a));
        check_ok(larder__pipeline_run_decoded(p, s, larder_buf_data(decoded), measured, 1, b));
        for (size_t k = 0; k < BYTES; k++) {
            int gap = abs(a[k] - b[k]);
            worst = gap > worst ? gap : worst;
            sum += (uint64_t)gap;
        }
        assert_int_equal(
            larder__pipeline_run_decoded(p, s, larder_buf_data(decoded), measured - 1, 1, b),
            LARDER_E_FORMAT);
        free(bytes);
        larder_buf_unref(&encoded);
        larder_buf_unref(&decoded);
    }
    print_message("shrunk by the decoder or not: %.2f levels apart on average, %d at most\n",
                  (double)sum / (8 * BYTES), worst);
    assert_true(sum < 8 * BYTES); /* under one level on average, although it is noise */
    assert_in_range(worst, 1, 16);
    larder__scratch_close(&s);
    larder__pipeline_close(&p);
}

/* Labels and ids belong to the rows also where rows were made long before. */
static void augmented_rows_are_the_served_samples(void **state) {
    (void)state;
    larder_loader_conf c = kit_conf(SOURCE, "seneca:split=0/0/100");
    c.augment = "flip"; /* each sample has two faces */
    c.cache = "40%";
    c.epochs = EPOCHS;
    larder_loader_conf whole = kit_conf(SOURCE, "lru");
    whole.augment = "";
    whole.epochs = 1;
    static uint8_t face[N][192];
    static int64_t label[N];
    const larder_batch *b;
    larder_loader *l = open_loader(&whole);
    while (larder_loader_next(l, &b) == 0) {
        for (size_t i = 0; i < b->n; i++) {
            memcpy(face[b->served[i]], (const uint8_t *)b->x + i * 192, 192);
            label[b->served[i]] = b->y[i];
        }
        check_ok(larder_loader_done(l, b));
    }
    larder_loader_close(&l);
    l = open_loader(&c);
    for (int rc; (rc = larder_loader_next(l, &b)) >= 0 && rc != LARDER_END;) {
        if (rc == LARDER_END_EPOCH)
            continue;
        for (size_t i = 0; i < b->n; i++) {
            const uint8_t *x = (const uint8_t *)b->x + i * 192, *was = face[b->served[i]];
            bool straight = memcmp(x, was, 192) == 0, turned = true;
            for (size_t at = 0; at < 192; at++)
                turned &= x[at] == was[at / 8 * 8 + 7 - at % 8];
            assert_true(straight || turned);
            assert_int_equal(b->y[i], label[b->served[i]]);
        }
        check_ok(larder_loader_done(l, b));
    }
    larder_figures f = {.size = sizeof f};
    check_ok(larder_loader_figures(l, 1, &f));
    assert_int_equal(f.form_hits[LARDER_AUGMENTED], f.hits);
    assert_true(f.hits > N / 2);
    assert_int_equal(look_audit(l), 0);
    larder_loader_close(&l);
}

/* ---- what does not matter -------------------------------------------------------------------- */

static void threads_never_matter(void **state) {
    uint64_t first[MANY], again[MANY];
    for (size_t r = 0; r < RECIPES; r++)
        for (int pictures = 0; pictures <= (*state != NULL); pictures++) {
            larder_loader_conf c = pictures ? picture_conf(recipes[r], "rrc:size=24|flip")
                                            : kit_conf(SOURCE, recipes[r]);
            c.cache = !pictures ? "40%" : strstr(recipes[r], "split") ? "300%" : "90%";
            c.epochs = EPOCHS;
            c.threads = 1;
            size_t n = run_all(&c, first);
            for (uint32_t threads = 2; threads < 5; threads += 2) {
                c.threads = threads;
                assert_int_equal(run_all(&c, again), n);
                if (memcmp(first, again, n * sizeof *first) != 0)
                    fail_msg("%s: other rows with %u threads", recipes[r], threads);
            }
        }
}

static void resume_at(const larder_loader_conf *conf, size_t before, const uint64_t *whole,
                      size_t count) {
    larder_loader *l = kit_resume(conf, before, whole, count);
    larder_loader_close(&l);
}

static void all_forms_resume_exactly(void **state) {
    uint64_t whole[MANY];
    for (size_t r = 0; r < RECIPES; r++)
        for (int pictures = 0; pictures <= (*state != NULL); pictures++) {
            larder_loader_conf c = pictures ? picture_conf(recipes[r], "rrc:size=24|flip")
                                            : kit_conf(SOURCE, recipes[r]);
            c.cache = !pictures ? "40%" : strstr(recipes[r], "split") ? "300%" : "90%";
            c.epochs = EPOCHS;
            c.lag = 9; /* rotate listens */
            size_t count = run_all(&c, whole);
            static size_t turn; /* in a short run each at other moments than the one before it */
            size_t step = pictures ? 7 : getenv("LARDER_LONG") ? 1 : 4;
            for (size_t before = turn++ % step; before <= count; before += step)
                resume_at(&c, before, whole, count);
        }
}

static void the_simulator_is_right(void **state) {
    (void)state;
    for (size_t r = 0; r < RECIPES; r++) {
        larder__sim_conf sim = {.recipe = recipes[r],
                                .cache = "30%",
                                .n = N,
                                .epochs = EPOCHS,
                                .batch = 16,
                                .seed = 7,
                                .size = 192};
        larder__sim_result said;
        check_ok(larder__sim_run(&sim, &said));
        larder_loader_conf c = kit_conf(SOURCE, recipes[r]);
        c.cache = "30%";
        c.epochs = EPOCHS;
        larder_loader *l = open_loader(&c);
        uint64_t digests[MANY];
        kit_run(l, digests, MANY);
        for (uint64_t e = 0; e < EPOCHS; e++) {
            larder_figures real = {.size = sizeof real};
            check_ok(larder_loader_figures(l, e, &real));
            if (strncmp(recipes[r], "rotate", 6) == 0) /* its losses are not the simulator's */
                continue;
            real.requests = said.epochs[e].requests; /* measured: never more than was decided */
            assert_memory_equal(&real, &said.epochs[e], sizeof real);
            assert_int_equal(real.form_hits[0] + real.form_hits[1] + real.form_hits[2], real.hits);
        }
        larder_loader_close(&l);
        larder__sim_free(&said);
    }
}

/* Each rank has its own half for good, and its cache is about that half alone. */
static void ranks_keep_their_own(void **state) {
    (void)state;
    uint32_t times[N] = {0};
    for (uint32_t rank = 0; rank < 2; rank++) {
        larder_loader_conf c = kit_conf(SOURCE, "seneca:split=50/20/30");
        c.rank = rank;
        c.world = 2;
        c.cache = "20%";
        c.epochs = EPOCHS;
        larder_loader *l = open_loader(&c);
        const larder_batch *b;
        for (int rc; (rc = larder_loader_next(l, &b)) != LARDER_END;) {
            check_ok(rc);
            for (size_t i = 0; rc == 0 && i < b->n; i++)
                times[b->served[i]]++;
            if (rc == 0)
                check_ok(larder_loader_done(l, b));
        }
        larder_figures f = {.size = sizeof f};
        check_ok(larder_loader_figures(l, EPOCHS - 1, &f));
        assert_int_equal(look_audit(l), 0);
        assert_in_range(f.served, N / 2, N / 2 + 1);
        /* 70 % of the cache serve again and again: 28 of its 101 samples. */
        assert_in_range(f.misses + f.background_reads, f.served - 29, f.served - 27);
        larder_loader_close(&l);
    }
    for (size_t id = 0; id < N; id++)
        assert_int_equal(times[id], EPOCHS);
}

/* ---- budgets --------------------------------------------------------------------------------- */

static void budgets_hold_by_form(void **state) {
    need_pictures(state);
    const char *caches[] = {"20%:50/50/0", "150%:0/100/0", "500%:20/50/30", "60KiB:40/40/20"};
    for (size_t i = 0; i < sizeof caches / sizeof *caches; i++) {
        larder_loader_conf c = picture_conf("seneca", "rrc:size=24|flip");
        c.cache = caches[i];
        c.epochs = 0;
        larder_loader *l = open_loader(&c);
        for (int step = 0; step < 60; step++) {
            const larder_batch *b;
            int rc = larder_loader_next(l, &b);
            check_ok(rc);
            if (rc == 0)
                check_ok(larder_loader_done(l, b));
            double budget = stat_of(l, "cache_budget_bytes"), share[3];
            assert_int_equal(
                sscanf(strchr(caches[i], ':'), ":%lf/%lf/%lf", &share[0], &share[1], &share[2]), 3);
            double in[3] = {stat_of(l, "cache_encoded_bytes"), stat_of(l, "cache_decoded_bytes"),
                            stat_of(l, "cache_augmented_bytes")};
            for (int f = 0; f < 3; f++)
                assert_true(in[f] <= share[f] / 100 * budget);
            if (strstr(caches[i], "KiB")) /* absolute sizes cover the tables as well */
                assert_true(in[0] + in[1] + in[2] + stat_of(l, "cache_metadata_bytes") <= budget);
        }
        larder_loader_close(&l);
    }
}

/* One size for all is learned where all pictures have it, though their files differ; else what does
 * not fit stays encoded and is counted. */
static void reserves_are_learned_from_the_data(void **state) {
    need_pictures(state);
    larder_loader_conf c = picture_conf("minio", "rrc:size=24|flip");
    c.cache = "3000%:0/100/0";
    uint64_t digests[MANY];
    larder_loader *l = open_loader(&c);
    kit_run(l, digests, MANY);
    larder_figures f = {.size = sizeof f};
    check_ok(larder_loader_figures(l, 0, &f));
    assert_int_equal(f.background_reads, 48); /* looked at, and said so */
    assert_true(stat_of(l, "cache_kept_encoded") < PICTURES / 2);
    check_ok(larder_loader_figures(l, 2, &f));
    assert_int_equal(f.hits, PICTURES);
    assert_int_equal(f.form_hits[LARDER_DECODED], PICTURES);
    larder_loader_close(&l);

    char same[256], path[400];
    check_folder(same);
    snprintf(path, sizeof path, "%s/c", same);
    assert_int_equal(mkdir(path, 0700), 0);
    for (uint32_t i = 0; i < 20; i++) {
        size_t size;
        check_jpeg_conf jpeg = {.w = 40, .h = 30, .channels = 3, .h_samp = 1, .v_samp = 1};
        jpeg.seed = i;
        unsigned char *bytes = check_jpeg(&jpeg, &size);
        snprintf(path, sizeof path, "%s/c/%u.jpg", same, i);
        check_write(path, bytes, size);
        free(bytes);
    }
    snprintf(path, sizeof path, "dir:%s", same);
    c.source = path;
    l = open_loader(&c);
    kit_run(l, digests, MANY);
    assert_true(stat_of(l, "cache_kept_encoded") == 0);
    assert_true(stat_of(l, "cache_decoded_bytes") == 20 * (8 + 40 * 30 * 3));
    larder_loader_close(&l);
    check_folder_remove(same);
}

/* ---- what goes wrong ------------------------------------------------------------------------- */

static void wrong_splits_are_refused(void **state) {
    (void)state;
    const char *wrong[][2] = {{"lru", "20%:50/50"},
                              {"lru", "20%:50/50/50"},
                              {"lru", "20%:"},
                              {"lru", "20%:-1/101/0"},
                              {"lru", "120%"},
                              {"lru", "120%:100/0/0"},
                              {"lru", ":50/50/0"},
                              {"lru:split=1/2/3", "20%"},
                              {"lru", "20%:50/50/0/0"},
                              {"lru", "20%:nan/50/50"},
                              {"lru:split=50/50/0", "20%:100/0/0"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        larder_loader_conf c = kit_conf(SOURCE, wrong[i][0]);
        larder_loader *l = NULL;
        c.cache = wrong[i][1];
        assert_int_equal(larder_loader_open(&l, &c), LARDER_E_ARGS);
        assert_null(l);
    }
    larder_loader_conf c = kit_conf(SOURCE, "lru:split=50/50/0");
    c.cache = "20%:50/50/0"; /* said twice, but the same */
    larder_loader *l = open_loader(&c);
    larder_loader_close(&l);
}

/* A state of other forms is refused, not misread. */
static void states_of_other_forms_are_refused(void **state) {
    (void)state;
    larder_loader_conf c = kit_conf(SOURCE, "seneca");
    uint64_t digests[MANY];
    c.cache = "40%:50/0/50";
    larder_loader *l = open_loader(&c);
    kit_run(l, digests, 20);
    void *bytes;
    size_t size;
    check_ok(larder_loader_save(l, LARDER_STATE, &bytes, &size));
    larder_loader_close(&l);
    c.cache = "40%:50/50/0";
    l = open_loader(&c);
    assert_int_equal(larder_loader_restore(l, LARDER_STATE, bytes, size), LARDER_E_FORMAT);
    larder_loader_close(&l);
    larder_free(bytes);
}

static void bad_samples_are_as_bad_in_any_form(void **state) {
    (void)state;
    for (size_t r = 0; r < RECIPES; r++) {
        if (strncmp(recipes[r], "rotate", 6) == 0)
            continue;
        larder_loader_conf c = kit_conf("mem:?n=203&h=8&w=8&c=3&bad=3/77/200", recipes[r]);
        c.cache = "40%";
        c.epochs = EPOCHS;
        c.on_bad = LARDER_BAD_SKIP;
        larder_loader *l = open_loader(&c);
        uint64_t digests[MANY];
        kit_run(l, digests, MANY);
        for (uint64_t e = 0; e < EPOCHS; e++) {
            larder_figures f = {.size = sizeof f};
            check_ok(larder_loader_figures(l, e, &f));
            assert_int_equal(f.bad, 3);
            assert_int_equal(f.served, N - 3);
        }
        larder_loader_close(&l);
    }
}

static void starve(const larder_loader_conf *c) {
    int failed = 1;
    for (uint64_t at = 1; failed; at += at < 60 ? 1 : at < 400 ? 7 : 61) {
        larder_loader *l = NULL;
        const larder_batch *b;
        larder__mem_fail_at(at, 0);
        int rc = larder_loader_open(&l, c);
        while (rc == 0 && (rc = larder_loader_next(l, &b)) == 0) {
            void *bytes = NULL;
            size_t size;
            rc = larder_loader_save(l, LARDER_STATE, &bytes, &size);
            larder_free(bytes);
            if (rc == 0)
                rc = larder_loader_done(l, b);
        }
        failed = larder__mem_failed();
        larder__mem_fail_at(0, 0);
        if (rc != LARDER_E_NOMEM && rc != LARDER_END_EPOCH && rc != LARDER_E_STATE) /* save */
            fail_msg("%s: allocation %d: %d, %s", c->recipe, (int)at, rc, larder_errmsg());
        if (!failed)
            assert_int_equal(rc, LARDER_END_EPOCH);
        larder_loader_close(&l);
    }
}

static void memory_may_run_out_anywhere(void **state) {
    for (size_t r = 0; r < RECIPES; r += 2) {
        larder_loader_conf c = kit_conf("mem:?n=60&h=8&w=8&c=3", recipes[r]);
        c.cache = "40%";
        starve(&c);
    }
    need_pictures(state);
    larder_loader_conf c = picture_conf("seneca:split=20/50/30", "rrc:size=24|flip");
    c.cache = "300%";
    starve(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decoded_samples_make_the_same_rows),
        cmocka_unit_test(shrunk_ones_differ_by_little),
        cmocka_unit_test(augmented_rows_are_the_served_samples),
        cmocka_unit_test(threads_never_matter),
        cmocka_unit_test(all_forms_resume_exactly),
        cmocka_unit_test(the_simulator_is_right),
        cmocka_unit_test(ranks_keep_their_own),
        cmocka_unit_test(budgets_hold_by_form),
        cmocka_unit_test(reserves_are_learned_from_the_data),
        cmocka_unit_test(wrong_splits_are_refused),
        cmocka_unit_test(states_of_other_forms_are_refused),
        cmocka_unit_test(bad_samples_are_as_bad_in_any_form),
        cmocka_unit_test(memory_may_run_out_anywhere),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
