/* Residents kept shrunk: who is served which pixels, what they weigh and when that counts, the same
 * with any number of threads and after a resume, and what shrink= does not go with. */
#include "loader_kit.h"
#include "look_kit.h"
#include "pack_kit.h"

#include "base/spec.h"
#include "cache/local.h"
#include "loader/draw/picture_parts.h"
#include "pictures.h"
#include "plugins.h"
#include "stage/pipeline.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { PICTURES = 60, EPOCHS = 4, MANY = 128, BATCH = 6, SIDE = 24, ROW = SIDE * SIDE * 3 };
#define STAGES "rrc:size=24|flip"

static char folder[256], source[300];
static larder_buf *files[PICTURES];

/* JPEGs up to 300 pixels wide, a few PNGs, and some that are small already. */
static bool make_pictures(void) {
    char path[400];
    check_folder(folder);
    snprintf(path, sizeof path, "%s/c", folder);
    assert_int_equal(mkdir(path, 0700), 0);
    for (uint32_t i = 0; i < PICTURES; i++) {
        uint32_t scale = i % 5 ? 3 : 1;
        check_jpeg_conf conf = {.w = 20 + scale * (i * 37 % 80),
                                .h = 20 + scale * (i * 53 % 70),
                                .channels = i % 7 ? 3 : 1,
                                .h_samp = 1 + (int)i % 2,
                                .v_samp = 1 + (int)i % 2,
                                .progressive = i % 9 == 4,
                                .seed = i};
        size_t size;
        bool png = i % 11 == 3;
        unsigned char *bytes =
            png ? check_png(conf.w, conf.h, 2, 8, false, &size) : check_jpeg(&conf, &size);
        if (!bytes)
            return false;
        snprintf(path, sizeof path, "%s/c/%03u.%s", folder, i, png ? "png" : "jpg");
        check_write(path, bytes, size);
        files[i] = larder_buf_new(size);
        memcpy(larder_buf_data(files[i]), bytes, size);
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
    for (size_t i = 0; i < PICTURES; i++)
        larder_buf_unref(&files[i]);
    check_folder_remove(folder);
    return 0;
}

#define need_pictures(state)                                                                       \
    if (!*(state)) {                                                                               \
        print_message("skipped: this build has no JPEG or PNG\n");                                 \
        skip();                                                                                    \
    }

static larder_loader_conf conf_of(const char *recipe) {
    larder_loader_conf c = kit_conf(source, recipe);
    c.augment = STAGES;
    c.layout = LARDER_NHWC;
    c.batch = BATCH;
    c.epochs = EPOCHS;
    c.prefetch = 2;
    c.lag = 9;
    c.cache = "20%";
    return c;
}

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

/* ---- the obvious way ------------------------------------------------------------------------- */

typedef struct twin { /* a cache that never evicts, of 20 % of all bytes */
    larder__pipeline *p;
    larder__scratch *s;
    larder_buf *small[PICTURES]; /* what it would keep; the file itself where that saves nothing */
    bool shrunk[PICTURES], resident[PICTURES], settled[PICTURES];
    uint64_t entered[PICTURES]; /* the batch with which it did */
    double budget;
} twin;

static void open_twin(twin *t, uint32_t side, uint32_t quality) {
    larder__pipeline_conf conf = {.spec = STAGES, .dtype = LARDER_U8, .layout = LARDER_NHWC};
    *t = (twin){0};
    check_ok(larder__pipeline_open(&t->p, &conf));
    check_ok(larder__scratch_open(&t->s));
    for (size_t i = 0; i < PICTURES; i++) {
        check_ok(larder__pipeline_shrink(t->p, t->s, files[i], &(larder__shrink){side, quality},
                                         &t->small[i]));
        t->shrunk[i] = t->small[i];
        if (!t->small[i])
            t->small[i] = larder_buf_ref(files[i]);
        t->budget += 0.2 * (double)larder_buf_size(files[i]);
    }
}

static void close_twin(twin *t) {
    for (size_t i = 0; i < PICTURES; i++)
        larder_buf_unref(&t->small[i]);
    larder__pipeline_close(&t->p);
    larder__scratch_close(&t->s);
}

static double taken(const twin *t) {
    double sum = 0;
    for (size_t i = 0; i < PICTURES; i++)
        if (t->resident[i])
            sum += (double)larder_buf_size(t->settled[i] ? t->small[i] : files[i]);
    return sum;
}

/* What row `row` of a batch has to be. True: a hit. */
static bool serve(twin *t, uint64_t number, size_t row, uint64_t id, uint8_t *out) {
    uint64_t seed = larder__place_seed(7, BATCH, 0, 1, number, row);
    bool hit = t->resident[id];
    const larder_buf *b = hit ? t->small[id] : files[id];
    int (*run)(const larder__pipeline *, larder__scratch *, const void *, size_t, uint64_t,
               void *) = hit && t->shrunk[id] ? larder__pipeline_run_shrunk : larder__pipeline_run;
    check_ok(run(t->p, t->s, larder_buf_data((larder_buf *)(uintptr_t)b), larder_buf_size(b), seed,
                 out));
    if (!hit && taken(t) + (double)larder_buf_size(files[id]) <= t->budget) {
        t->resident[id] = true;
        t->entered[id] = number;
    }
    return hit;
}

/* A file counts for what it is until two batches later, as prefetch says. */
static void settle(twin *t, uint64_t number) {
    for (size_t i = 0; i < PICTURES; i++)
        t->settled[i] |= t->resident[i] && t->entered[i] + 2 <= number;
}

static void everything_is_as_the_obvious_way_says(void **state) {
    need_pictures(state);
    static const struct {
        const char *recipe;
        uint32_t side, quality;
    } all[] = {{"minio:shrink=auto:q=97", 35, 97},
               {"minio:shrink=auto", 35, 80},
               {"minio:shrink=40:q=70", 40, 70},
               {"minio:shrink=native:q=50", 0, 50}};
    for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
        larder_loader_conf c = conf_of(all[k].recipe);
        larder_loader *l = open_loader(&c);
        twin t;
        open_twin(&t, all[k].side, all[k].quality);
        size_t hits = 0, shrunk = 0;
        const larder_batch *b;
        for (int rc; (rc = larder_loader_next(l, &b)) != LARDER_END;) {
            check_ok(rc);
            if (rc == LARDER_END_EPOCH)
                continue;
            settle(&t, b->number);
            for (size_t i = 0; i < b->n; i++) {
                uint8_t row[ROW];
                uint64_t id = b->served[i];
                bool hit = serve(&t, b->number, i, id, row);
                assert_int_equal(b->kind[i], hit ? LARDER_HIT : LARDER_MISS);
                assert_memory_equal((const uint8_t *)b->x + i * ROW, row, ROW);
                hits += hit;
                shrunk += hit && t.shrunk[id];
            }
            check_ok(larder_loader_done(l, b));
        }
        /* Both sorts have come: some saved nothing. */
        assert_true(shrunk > 0 && (k > 0 || hits > shrunk));
        assert_true(k > 0 || stat_of(l, "cache_kept_encoded") > 0);
        uint64_t counted = 0;
        for (uint64_t e = 0; e < EPOCHS; e++) {
            larder_figures f = {.size = sizeof f};
            check_ok(larder_loader_figures(l, e, &f));
            assert_int_equal(f.form_hits[LARDER_SHRUNK], f.hits);
            counted += f.form_hits[LARDER_SHRUNK];
        }
        assert_int_equal(counted, hits);
        assert_int_equal(look_audit(l), 0);
        larder_loader_close(&l);
        close_twin(&t);
    }
}

/* ---- threads, budgets, resuming -------------------------------------------------------------- */

static const char *const recipes[] = {"minio:shrink=auto",
                                      "lru:shrink=32:q=80",
                                      "random:shrink=auto",
                                      "rotate:h=0.6,shrink=auto",
                                      "rotate:h=0.8,shrink=native:q=60",
                                      "seneca:shrink=auto",
                                      "seneca:shrink=auto,split=50/20/30",
                                      "minio:shrink=28,split=40/60/0",
                                      "shade:shrink=auto",
                                      "icache:shrink=auto",
                                      "spider:shrink=auto",
                                      "quiver:shrink=auto",
                                      "echo:shrink=auto",
                                      "impact:shrink=auto"};
enum { RECIPES = sizeof recipes / sizeof *recipes };

static void threads_never_matter(void **state) {
    need_pictures(state);
    uint64_t first[MANY], again[MANY];
    for (size_t r = 0; r < RECIPES; r++) {
        larder_loader_conf c = conf_of(recipes[r]);
        c.threads = 1;
        size_t n = run_all(&c, first);
        for (uint32_t threads = 2; threads < 6; threads += 3) {
            c.threads = threads;
            assert_int_equal(run_all(&c, again), n);
            if (memcmp(first, again, n * sizeof *first) != 0)
                fail_msg("%s: other rows with %u threads", recipes[r], threads);
        }
    }
}

/* Other threads and fewer or more batches ahead: what had been entered and not made is made for its
 * size, when it is due. */
static void resume_at(const larder_loader_conf *conf, size_t before, const uint64_t *whole,
                      size_t count) {
    larder_loader *l = kit_resume(conf, before, whole, count);
    larder_loader_close(&l);
}

static void all_recipes_resume_exactly(void **state) {
    need_pictures(state);
    uint64_t whole[MANY];
    size_t step = getenv("LARDER_LONG") ? 1 : 9;
    for (size_t r = 0; r < RECIPES; r++) {
        larder_loader_conf c = conf_of(recipes[r]);
        size_t count = run_all(&c, whole);
        for (size_t before = r % step; before <= count; before += step)
            resume_at(&c, before, whole, count);
    }
}

/* Reads as counted, and as the ledger has them. */
static double reads_of(larder_loader *l, double *booked) {
    *booked = 0;
    for (uint64_t e = 0; e < EPOCHS; e++) {
        larder_figures f = {.size = sizeof f};
        if (larder_loader_figures(l, e, &f) == 0)
            *booked += (double)(f.misses + f.background_reads);
    }
    return stat_of(l, "storage_reads");
}

/* One batch ahead, nobody shares a read: what is read for a size alone is in the ledger, too. */
static void sizes_found_after_a_resume_are_booked(void **state) {
    need_pictures(state);
    enum { BEFORE = 7 };
    larder_loader_conf c = conf_of("minio:shrink=auto");
    c.threads = 1;
    larder_loader *l = open_loader(&c);
    uint64_t got[MANY];
    assert_int_equal(kit_run(l, got, BEFORE), BEFORE);
    void *bytes;
    size_t size;
    check_ok(larder_loader_save(l, LARDER_STATE, &bytes, &size));
    larder_loader_close(&l);
    c.prefetch = 1;
    l = open_loader(&c);
    check_ok(larder_loader_restore(l, LARDER_STATE, bytes, size));
    larder_free(bytes);
    double before, after;
    reads_of(l, &before);
    kit_run(l, got, MANY);
    double reads = reads_of(l, &after);
    assert_true(reads > 0 && reads == after - before);
    larder_loader_close(&l);
}

static void budgets_hold_and_more_fit(void **state) {
    need_pictures(state);
    for (size_t r = 0; r < RECIPES; r++)
        for (int absolute = 0; absolute < 2; absolute++) {
            larder_loader_conf c = conf_of(recipes[r]);
            c.cache = absolute ? "100KiB" : "20%";
            larder_loader *l = open_loader(&c);
            const larder_batch *b;
            for (int rc; (rc = larder_loader_next(l, &b)) != LARDER_END;) {
                check_ok(rc);
                double tables = absolute ? stat_of(l, "cache_metadata_bytes") : 0;
                assert_true(stat_of(l, "cache_resident_bytes") + tables <=
                            stat_of(l, "cache_budget_bytes"));
                assert_true(stat_of(l, "cache_encoded_bytes") == 0);
                if (rc == 0)
                    check_ok(larder_loader_done(l, b));
            }
            larder_loader_close(&l);
        }
    double resident[2];
    for (int shrinks = 0; shrinks < 2; shrinks++) {
        uint64_t digests[MANY];
        larder_loader_conf c = conf_of(shrinks ? "minio:shrink=auto" : "minio");
        larder_loader *l = open_loader(&c);
        kit_run(l, digests, MANY);
        resident[shrinks] = stat_of(l, "cache_resident");
        larder_loader_close(&l);
    }
    assert_true(resident[1] > 2 * resident[0]);
}

static uint64_t hits_of_first_epoch(const char *from, const char *recipe) {
    uint64_t digests[MANY];
    larder_loader_conf c = conf_of(recipe);
    c.source = from;
    c.cache = "11%"; /* two batches and one sample */
    larder_loader *l = open_loader(&c);
    kit_run(l, digests, MANY);
    larder_figures f = {.size = sizeof f};
    check_ok(larder_loader_figures(l, 0, &f));
    larder_loader_close(&l);
    return f.hits;
}

/* Reuse begins when the cache is full for the first time, and a cache of shrunk samples has room
 * again before every draw as long as new ones come. */
static void reuse_begins_as_early(void **state) {
    need_pictures(state);
    enum { ALIKE = 120 };
    char alike[256], path[400], from[300];
    check_folder(alike);
    snprintf(path, sizeof path, "%s/c", alike);
    assert_int_equal(mkdir(path, 0700), 0);
    for (int i = 0; i < ALIKE; i++) {
        snprintf(path, sizeof path, "%s/c/%03d.jpg", alike, i);
        check_write(path, larder_buf_data(files[1]), larder_buf_size(files[1]));
    }
    snprintf(from, sizeof from, "dir:%s", alike);
    uint64_t plain = hits_of_first_epoch(from, "rotate:h=0.8"),
             shrunk = hits_of_first_epoch(from, "rotate:h=0.8,shrink=auto");
    if (plain == 0 || shrunk < plain * 3 / 4)
        fail_msg("%d hits, and %d kept shrunk", (int)plain, (int)shrunk);
    check_folder_remove(alike);
}

/* ---- the cache alone ------------------------------------------------------------------------- */

static larder__cache *open_cache(uint64_t budget) {
    larder__forms forms = {.share = {[LARDER_SHRUNK] = 1}};
    const larder_policy *lru = larder__policy_find("lru");
    larder_args args;
    check_ok(larder__args_parse(&args, "policy", &lru->plugin, "", ',', NULL));
    larder__cache_conf conf = {.policy = lru,
                               .args = &args,
                               .store = &larder__store_heap,
                               .keys = 10,
                               .budget = budget,
                               .forms = &forms};
    larder__cache *c;
    check_ok(larder__cache_open(&c, &conf));
    larder__args_free(&args);
    return c;
}

static larder__ticket ask(larder__cache *c, uint64_t key) {
    larder__ticket t;
    larder_access a = {.key = key, .size = 100, .next_use = LARDER_UNKNOWN};
    check_ok(larder__cache_claim(c, &a, 1, &t));
    return t;
}

static void fill(larder__cache *c, larder__ticket *t, size_t bytes, larder_form held) {
    larder_buf *b = larder_buf_new(bytes);
    t->held = (uint8_t)held;
    larder__cache_fill(c, t, b);
    larder_buf_unref(&b);
}

static uint64_t bytes_in(larder__cache *c) {
    larder__cache_figures f;
    larder__cache_read_figures(c, &f);
    assert_int_equal(f.form_bytes[LARDER_SHRUNK], f.resident_bytes);
    return f.resident_bytes;
}

/* Whoever enters is served what was read. So nobody who enters may wait for one that is being made,
 * or what it gets would depend on whether that is over. */
static void who_enters_waits_for_nobody(void **state) {
    (void)state;
    larder__cache *c = open_cache(100);
    larder_buf *b;
    larder__ticket one = ask(c, 1), hit = ask(c, 1), two = ask(c, 2), again = ask(c, 1);
    assert_true(one.task == LARDER__MAKE && one.make == LARDER_SHRUNK);
    assert_int_equal(one.form, LARDER_ENCODED);
    assert_true(hit.task == LARDER__WAIT && hit.form == LARDER_SHRUNK && hit.kind == LARDER_HIT);
    assert_true(again.task == LARDER__MAKE && again.form == LARDER_ENCODED);
    fill(c, &one, 30, LARDER_SHRUNK); /* it has left meanwhile */
    check_ok(larder__cache_wait(c, &hit, &b));
    assert_true(hit.held == LARDER_SHRUNK && larder_buf_size(b) == 30);
    larder_buf_unref(&b);
    fill(c, &two, 40, LARDER_SHRUNK);
    fill(c, &again, 30, LARDER_SHRUNK);
    larder__ticket there = ask(c, 1);
    assert_true(there.task == LARDER__READY && there.form == LARDER_SHRUNK);
    assert_int_equal(there.held, LARDER_SHRUNK);
    larder__ticket_drop(&there);
    larder__cache_close(&c);
}

static void it_weighs_what_is_settled(void **state) {
    (void)state;
    larder__cache *c = open_cache(250);
    larder__ticket t[6];
    assert_true(larder__cache_settle(c, 5, 0)); /* not there: nothing to do */
    for (uint64_t k = 0; k < 2; k++)
        t[k] = ask(c, k);
    assert_false(larder__cache_settle(c, 0, 0)); /* not made yet */
    fill(c, &t[0], 30, LARDER_SHRUNK);
    fill(c, &t[1], 100, LARDER_ENCODED); /* saved nothing */
    assert_int_equal(bytes_in(c), 200);
    assert_true(larder__cache_settle(c, 0, 0) && larder__cache_settle(c, 1, 0));
    assert_int_equal(bytes_in(c), 130);
    t[2] = ask(c, 2);
    assert_false(larder__cache_settle(c, 2, 0));
    assert_true(larder__cache_settle(c, 2, 20)); /* by who has found out */
    assert_int_equal(bytes_in(c), 150);
    fill(c, &t[2], 20, LARDER_SHRUNK);
    t[3] = ask(c, 3);
    fill(c, &t[3], 99, LARDER_SHRUNK);
    assert_int_equal(bytes_in(c), 250);
    t[4] = ask(c, 4); /* the oldest, 0 and 1, make room */
    fill(c, &t[4], 50, LARDER_SHRUNK);
    assert_int_equal(bytes_in(c), 220);
    t[0] = ask(c, 0); /* what it comes to is known: nobody has to leave */
    assert_int_equal(t[0].size, 30);
    assert_int_equal(bytes_in(c), 250);
    fill(c, &t[0], 31,
         LARDER_SHRUNK); /* no longer: it is not kept, and made again when asked for */
    t[5] = ask(c, 0);
    assert_true(t[5].task == LARDER__MAKE && t[5].form == LARDER_SHRUNK);
    fill(c, &t[5], 30, LARDER_SHRUNK);
    larder__cache_close(&c);
}

/* ---- by id ----------------------------------------------------------------------------------- */

static void by_id_they_come_shrunk_and_whole_where_asked(void **state) {
    need_pictures(state);
    larder_loader_conf c = conf_of("minio:shrink=auto");
    c.cache = "100%";
    larder_loader *l = open_loader(&c);
    twin t;
    open_twin(&t, 35, 80);
    for (int time = 0; time < 2; time++)
        for (uint64_t id = 0; id < PICTURES; id++) {
            uint8_t x[ROW], row[ROW];
            int64_t y;
            uint64_t chance = id * 31 + 5;
            check_ok(larder_loader_get(l, &id, 1, &chance, x, &y));
            bool small = time && t.shrunk[id];
            larder_buf *b = small ? t.small[id] : files[id];
            check_ok((small ? larder__pipeline_run_shrunk : larder__pipeline_run)(
                t.p, t.s, larder_buf_data(b), larder_buf_size(b), chance, row));
            assert_memory_equal(x, row, ROW);
            larder_item item = {.size = sizeof item};
            check_ok(larder_loader_item(l, id, LARDER_ENCODED, &item));
            assert_int_equal(item.bytes, larder_buf_size(files[id]));
            assert_memory_equal(item.data, larder_buf_data(files[id]), item.bytes);
            larder_buf_unref(&item.buf);
        }
    double kept = 0;
    for (size_t i = 0; i < PICTURES; i++)
        kept += (double)larder_buf_size(t.small[i]);
    assert_true(stat_of(l, "cache_resident_bytes") == kept); /* settled at once */
    close_twin(&t);
    larder_loader_close(&l);
}

/* ---- what goes wrong ------------------------------------------------------------------------- */

/* One that ends early is bad where a row needs its end and good where it does not, shrunk or not:
 * it stays as it is, and the others are kept. */
static void a_damaged_file_stays_as_it_is(void **state) {
    need_pictures(state);
    char path[400];
    size_t size = larder_buf_size(files[8]) * 9 / 10;
    snprintf(path, sizeof path, "%s/c/008.jpg", folder);
    check_write(path, larder_buf_data(files[8]), size);
    for (int shrinks = 0; shrinks < 2; shrinks++) {
        larder_loader_conf c = conf_of(shrinks ? "minio:shrink=auto" : "minio");
        static uint64_t digests[2][MANY];
        c.cache = "100%";
        c.on_bad = LARDER_BAD_SKIP;
        c.epochs = 1; /* all are read: the same rows either way */
        larder_loader *l = open_loader(&c);
        size_t n = kit_run(l, digests[shrinks], MANY);
        larder_loader_close(&l);
        if (shrinks)
            assert_memory_equal(digests[0], digests[1], n * sizeof **digests);
        c.epochs = EPOCHS;
        run_all(&c, digests[shrinks]);
    }
    check_write(path, larder_buf_data(files[8]), larder_buf_size(files[8]));
}

static void wrong_texts_and_company_are_refused(void **state) {
    need_pictures(state);
    static const struct {
        const char *recipe, *cache, *says;
    } wrong[] = {
        {"minio:shrink=0", "20%", "shrink \"0\" is not a side"},
        {"minio:shrink=big", "20%", "shrink \"big\" is not a side"},
        {"minio:shrink=256:85", "20%", "as in 256:q=85"},
        {"minio:shrink=256:q=0", "20%", "quality from 1 to 100"},
        {"minio:shrink=256:q=101", "20%", "quality from 1 to 100"},
        {"minio:shrink=99999999999999999999", "20%", "is not a side"},
        {"minio:shrink=auto,plan=auto", "20%", "does not go with plan=auto"},
        {"minio:shrink=auto,split=0/100/0", "20%", "none are"},
        {"oracle:shrink=auto", "20%", "all are kept as they are"},
        {"minio:shrink=auto", "unix:?budget=20%", "does not go with a cache that is"},
        {"minio:shrink=auto", "redis://127.0.0.1/?budget=20%", "does not go with a cache that is"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        larder_loader_conf c = conf_of(wrong[i].recipe);
        larder_loader *l = NULL;
        c.cache = wrong[i].cache;
        if (larder_loader_open(&l, &c) >= 0)
            fail_msg("%s, %s: opened", wrong[i].recipe, wrong[i].cache);
        if (!strstr(larder_errmsg(), wrong[i].says))
            fail_msg("%s, %s: %s", wrong[i].recipe, wrong[i].cache, larder_errmsg());
    }
    larder_loader_conf c = conf_of("minio:shrink=auto");
    larder_loader *l = NULL;
    c.order_only = true;
    assert_int_equal(larder_loader_open(&l, &c), LARDER_E_UNSUPPORTED);
}

static void states_of_another_size_are_refused(void **state) {
    need_pictures(state);
    larder_loader_conf c = conf_of("minio:shrink=auto");
    uint64_t digests[MANY];
    larder_loader *l = open_loader(&c);
    kit_run(l, digests, 9);
    void *bytes;
    size_t size;
    check_ok(larder_loader_save(l, LARDER_STATE, &bytes, &size));
    larder_loader_close(&l);
    c.augment = "rrc:size=32|flip";
    l = open_loader(&c);
    assert_int_equal(larder_loader_restore(l, LARDER_STATE, bytes, size), LARDER_E_FORMAT);
    assert_non_null(strstr(larder_errmsg(), "shrunk to another size"));
    larder_loader_close(&l);
    larder_free(bytes);
}

/* Raw samples, of which nothing but the loader knows the size. */
static void raw_samples_too(void **state) {
    need_pictures(state);
    uint64_t first[MANY], again[MANY];
    larder_loader_conf c = conf_of("minio:shrink=auto");
    c.source = "mem:?n=60&h=32&w=32&c=3";
    c.augment = "crop:size=32,pad=4|flip";
    size_t n = run_all(&c, first);
    for (size_t before = 3; before < n; before += 11)
        resume_at(&c, before, first, n);
    c.threads = 4;
    assert_int_equal(run_all(&c, again), n);
    assert_memory_equal(first, again, n * sizeof *first);
}

/* Of these only parts are read where nothing is kept. */
static void packed_samples_too(void **state) {
    need_pictures(state);
    char packed[256], uri[300];
    uint64_t first[MANY], again[MANY];
    check_folder(packed);
    larder__pack_conf pack = kit_pack_conf(source, packed);
    larder__pack_result made;
    pack.how.restart = 2;
    check_ok(larder__pack_run(&pack, &made));
    snprintf(uri, sizeof uri, "pack:%s", packed);
    larder_loader_conf c = conf_of("rotate:h=0.5,shrink=auto");
    c.source = uri;
    size_t n = run_all(&c, first);
    for (size_t before = 2; before < n; before += 9)
        resume_at(&c, before, first, n);
    c.threads = 1;
    larder_loader *l = open_loader(&c);
    assert_int_equal(kit_run(l, again, MANY), n);
    assert_memory_equal(first, again, n * sizeof *first);
    larder_figures f = {.size = sizeof f};
    check_ok(larder_loader_figures(l, EPOCHS - 1, &f));
    assert_true(f.form_hits[LARDER_SHRUNK] > PICTURES / 4);
    assert_true(stat_of(l, "cache_kept_encoded") < PICTURES);
    larder_loader_close(&l);
    c.parts = LARDER_PARTS_KEEP;
    assert_int_equal(larder_loader_open(&l, &c), LARDER_E_ARGS);
    check_folder_remove(packed);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everything_is_as_the_obvious_way_says),
        cmocka_unit_test(threads_never_matter),
        cmocka_unit_test(all_recipes_resume_exactly),
        cmocka_unit_test(sizes_found_after_a_resume_are_booked),
        cmocka_unit_test(budgets_hold_and_more_fit),
        cmocka_unit_test(reuse_begins_as_early),
        cmocka_unit_test(who_enters_waits_for_nobody),
        cmocka_unit_test(it_weighs_what_is_settled),
        cmocka_unit_test(by_id_they_come_shrunk_and_whole_where_asked),
        cmocka_unit_test(a_damaged_file_stays_as_it_is),
        cmocka_unit_test(wrong_texts_and_company_are_refused),
        cmocka_unit_test(states_of_another_size_are_refused),
        cmocka_unit_test(raw_samples_too),
        cmocka_unit_test(packed_samples_too),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
