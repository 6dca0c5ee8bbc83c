/* Ranks of a job that share a cache, in Redis or in a daemon: together they do what one process
 * with the global batch and an embedded cache does, whatever the recipe: the same samples in the
 * same order, the same pixels, the same ledger but for what came late, and they go on so with
 * another number of ranks. */
#include "base/hash.h"
#include "loader_kit.h"
#include "look_kit.h"
#include "ranks_kit.h"

#include <larder/plugin.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N = 698, BYTES = 192, GLOBAL = 24, EPOCHS = 3, ROWS = N * EPOCHS + 64, MOST = 8 };
enum { BATCHES = (N / GLOBAL + 1) * EPOCHS };
#define SOURCE "mem:?n=698&h=8&w=8&c=3"

typedef struct course { /* what a run served, row by row */
    uint64_t rows[ROWS];
    size_t count;
    size_t sizes[BATCHES]; /* rows of each batch */
    size_t batches, epochs;
    larder_figures sum;
    uint64_t late, again; /* samples; rows of another rank taken once more */
} course;

typedef struct job {
    uint32_t world;
    larder_loader *l[MOST];
    const larder_batch *b[MOST];
} job;

static int evaluate(void *arg, const larder_batch *b, float *loss);
static kit_store server;
static unsigned jobs;

static void open_job(job *j, const char *recipe, const char *split, uint32_t world, bool embedded) {
    char cache[192], name[16];
    snprintf(cache, sizeof cache, "%s", split);
    snprintf(name, sizeof name, "t%u", jobs);
    if (!embedded)
        kit_store_cache(&server, cache, sizeof cache, split, name, 60);
    *j = (job){.world = world};
    for (uint32_t r = 0; r < world; r++) {
        larder_loader_conf c = kit_conf(SOURCE, recipe);
        c.cache = cache;
        c.batch = GLOBAL / world;
        c.epochs = EPOCHS;
        c.rank = embedded ? 0 : r;
        c.world = embedded ? 1 : world;
        c.threads = 1 + r % 2;
        c.prefetch = 2 + r % 2;
        c.ahead = 3;
        c.lag = 6;
        check_ok(larder_loader_open(&j->l[r], &c));
        if (strstr(recipe, "impact"))
            check_ok(larder_loader_evaluator(j->l[r], evaluate, NULL));
    }
}

static void close_job(job *j) {
    for (uint32_t r = 0; r < j->world; r++)
        larder_loader_close(&j->l[r]);
}

static uint64_t row_hash(const larder_batch *b, size_t i) {
    uint64_t about[] = {b->number, b->epoch, b->ids[i], b->served[i], (uint64_t)b->y[i]};
    uint64_t h = larder__hash_bytes(7, about, sizeof about);
    h = larder__hash_bytes(h, &b->weight[i], sizeof *b->weight);
    return larder__hash_bytes(h, (const unsigned char *)b->x + i * BYTES, BYTES);
}

/* Full batches are dealt out from another rank on each time, short ones from the first. */
static uint32_t whose(size_t turn, const job *j, uint64_t number, size_t whole) {
    return (uint32_t)((turn + (whole == GLOBAL ? number : 0)) % j->world);
}

/* All rows of the global batch in its order; what lies beyond its last was taken once more and is
 * left out. `rows` are those of each rank. */
static void note_batch(course *c, const uint64_t *const rows[], const size_t n[], const job *j,
                       size_t whole) {
    assert_true(c->batches < BATCHES);
    size_t all = 0, at = c->count;
    for (uint32_t r = 0; r < j->world; r++)
        all += n[r];
    for (size_t k = 0; k < whole && k < all; k++) {
        uint32_t r = whose(k, j, c->batches, whole);
        assert_true(c->count < ROWS && k / j->world < n[r]);
        c->rows[c->count++] = rows[r][k / j->world];
    }
    c->again += all - (c->count - at);
    c->sizes[c->batches++] = c->count - at;
}

static void note_job(const job *j, course *c, size_t whole) {
    uint64_t hashes[MOST][GLOBAL];
    const uint64_t *rows[MOST];
    size_t n[MOST];
    for (uint32_t r = 0; r < j->world; r++) {
        rows[r] = hashes[r];
        n[r] = j->b[r]->n;
        for (size_t i = 0; i < n[r]; i++)
            hashes[r][i] = row_hash(j->b[r], i);
    }
    note_batch(c, rows, n, j, whole);
}

enum { DIM = 6 };
static void training_says(uint64_t id, uint64_t epoch, float *loss, float *embedding) {
    *loss = kit_loss(id, epoch);
    for (int k = 0; k < DIM; k++)
        embedding[k] = (float)(larder__mix64(id % 40 * 31 + (unsigned)k) % 100) +
                       (float)(larder__mix64(id * 7 + (unsigned)k + epoch) % 100) / 60.0f;
}

/* Everybody hears everything, as processes with gloo tell each other. */
static void report_whole(const job *j, size_t whole) {
    uint64_t served[2 * GLOBAL];
    int64_t labels[2 * GLOBAL];
    float loss[2 * GLOBAL], emb[2 * GLOBAL * DIM];
    size_t n = 0, all = 0; /* those taken once more come last */
    for (uint32_t r = 0; r < j->world; r++)
        all += j->b[r]->n;
    for (; n < all; n++) {
        const larder_batch *b = j->b[whose(n, j, j->b[0]->number, whole)];
        size_t i = n / j->world;
        assert_true(i < b->n);
        served[n] = b->served[i];
        labels[n] = b->y[i];
        training_says(served[n], b->epoch, &loss[n], &emb[n * DIM]);
    }
    larder_feedback fb = {.size = sizeof fb, .loss = loss, .embeddings = emb, .dim = DIM};
    larder_batch named = {.size = sizeof named,
                          .number = j->b[0]->number,
                          .epoch = j->b[0]->epoch,
                          .n = n,
                          .served = served,
                          .y = labels};
    fb.rows = LARDER_ROWS_ALL;
    for (uint32_t r = 0; r < j->world; r++)
        check_ok(larder_loader_report(j->l[r], &named, &fb));
}

/* Up to `steps` global batches; false: it is over. */
static bool run_job(job *j, course *c, const course *as, size_t steps) {
    for (size_t k = 0; k < steps; k++) {
        int rc = 0;
        for (uint32_t r = 0; r < j->world; r++) {
            int mine = larder_loader_next(j->l[r], &j->b[r]);
            check_ok(mine);
            if (r)
                assert_int_equal(mine, rc);
            rc = mine;
        }
        if (rc == LARDER_END)
            return false;
        if (rc == LARDER_END_EPOCH) {
            for (uint32_t r = 0; r < j->world; r++)
                check_ok(larder_loader_validate(j->l[r], 0.3 + 0.1 * (double)c->epochs));
            c->epochs++;
            continue;
        }
        note_job(j, c, as ? as->sizes[c->batches] : GLOBAL);
        report_whole(j, c->sizes[c->batches - 1]);
        for (uint32_t r = 0; r < j->world; r++)
            check_ok(larder_loader_done(j->l[r], j->b[r]));
    }
    return true;
}

/* ---- a thread for each rank, which reports its own rows -------------------------------------- */

typedef struct part { /* one rank's */
    job *j;
    uint32_t rank;
    size_t steps, epochs;
    course c;
    bool over;
} part;

static pthread_barrier_t together; /* as a step of training is */

static int evaluate(void *arg, const larder_batch *b, float *loss) {
    (void)arg;
    for (size_t i = 0; i < b->n; i++)
        loss[i] = kit_loss(b->served[i], 1000 + b->epoch);
    return 0;
}

static void train(part *p, const larder_batch *b) {
    float loss[GLOBAL], emb[GLOBAL * DIM];
    larder_loader *l = p->j->l[p->rank];
    for (size_t i = 0; i < b->n; i++) {
        p->c.rows[p->c.count++] = row_hash(b, i);
        training_says(b->served[i], b->epoch, &loss[i], &emb[i * DIM]);
    }
    p->c.sizes[p->c.batches++] = b->n;
    larder_feedback fb = {.size = sizeof fb, .loss = loss, .embeddings = emb, .dim = DIM};
    check_ok(larder_loader_report(l, b, &fb));
    check_ok(larder_loader_done(l, b));
    pthread_barrier_wait(&together);
}

static void *run_rank(void *arg) {
    part *p = arg;
    for (size_t k = 0; k < p->steps && !p->over; k++) {
        const larder_batch *b;
        int rc = larder_loader_next(p->j->l[p->rank], &b);
        check_ok(rc);
        if (rc == LARDER_END_EPOCH) {
            check_ok(larder_loader_validate(p->j->l[p->rank], 0.3 + 0.1 * (double)p->epochs));
            p->epochs++;
        } else if (rc == LARDER_END)
            p->over = true;
        else
            train(p, b);
    }
    return NULL;
}

/* As run_job, each rank in a thread of its own. */
static bool run_ranks(job *j, course *c, const course *as, size_t steps) {
    static part parts[MOST];
    pthread_t threads[MOST];
    size_t at[MOST] = {0};
    pthread_barrier_init(&together, NULL, j->world);
    for (uint32_t r = 0; r < j->world; r++) {
        memset(&parts[r], 0, sizeof parts[r]);
        parts[r].j = j, parts[r].rank = r, parts[r].steps = steps, parts[r].epochs = c->epochs;
        assert_int_equal(pthread_create(&threads[r], NULL, run_rank, &parts[r]), 0);
    }
    for (uint32_t r = 0; r < j->world; r++)
        pthread_join(threads[r], NULL);
    pthread_barrier_destroy(&together);
    for (size_t k = 0; k < parts[0].c.batches; k++) {
        const uint64_t *rows[MOST];
        size_t n[MOST];
        for (uint32_t r = 0; r < j->world; r++) {
            n[r] = parts[r].c.sizes[k];
            rows[r] = parts[r].c.rows + at[r];
            at[r] += n[r];
        }
        note_batch(c, rows, n, j, as ? as->sizes[c->batches] : GLOBAL);
    }
    c->epochs = parts[0].epochs;
    return !parts[0].over;
}

static void add_told(course *c, const larder_figures *f) {
    c->sum.fresh_reported += f->fresh_reported;
    c->sum.reused_reported += f->reused_reported;
}

static void add_figures(const job *j, course *c) {
    for (uint32_t r = 0; r < j->world; r++) {
        for (uint64_t e = 0; e < EPOCHS; e++) {
            larder_figures f = {.size = sizeof f};
            check_ok(look_figures(j->l[r], e, &f));
            c->sum.served += f.served;
            c->sum.hits += f.hits;
            c->sum.misses += f.misses;
            c->sum.substitutes += f.substitutes;
            c->sum.background_reads += f.background_reads;
            c->sum.storage_bytes += f.storage_bytes;
            add_told(c, &f);
        }
        c->late += (uint64_t)kit_stat(j->l[r], "ranks_late");
    }
}

static void same_rows(const course *one, const course *many, const char *recipe, uint32_t world) {
    if (one->count != many->count)
        fail_msg("%s with %u ranks: %zu rows, not %zu", recipe, world, many->count, one->count);
    for (size_t i = 0; i < one->count; i++)
        if (one->rows[i] != many->rows[i])
            fail_msg("%s with %u ranks: row %zu of %zu is another", recipe, world, i, one->count);
}

static uint64_t all_late, all_hits;

static void same_ledger(const course *one, const course *many, const char *recipe) {
    const larder_figures *a = &one->sum, *b = &many->sum;
    if (b->served != a->served + many->again)
        fail_msg("%s: other counts", recipe);
    /* What came late was a hit or a stand-in, and was read. A row taken once more may be read. */
    assert_int_equal(a->substitutes, b->substitutes);
    assert_int_equal(a->background_reads, b->background_reads);
    assert_true(b->hits + many->late >= a->hits && b->hits <= a->hits + many->again);
    /* Each rank compares losses of its own rows, of which fewer lie together. */
    assert_true(b->fresh_reported <= a->fresh_reported + many->again);
    assert_true(b->reused_reported <= a->reused_reported + many->again);
    assert_int_equal(b->fresh_reported > 0, a->fresh_reported > 0);
    uint64_t more = b->storage_bytes - a->storage_bytes;
    assert_true(b->storage_bytes >= a->storage_bytes && more % BYTES == 0);
    assert_true(more / BYTES >= many->late && more / BYTES <= many->late + many->again);
    all_late += many->late;
    all_hits += a->hits;
}

/* Goes where losses of fresh and of reused samples send it: ranks that had heard another sum, or
 * the same one later, would draw other samples. */
typedef struct follower {
    const larder_draw_env *env;
    uint64_t taken, drawn;
} follower;

static int follower_init(void *st, const larder_draw_env *env, const larder_args *args) {
    (void)args;
    *(follower *)st = (follower){.env = env};
    return 0;
}
static int follower_epoch(void *st, uint64_t epoch) {
    (void)epoch;
    ((follower *)st)->taken = 0;
    return 0;
}
static uint64_t follower_length(const void *st) { return ((const follower *)st)->env->n; }
static size_t follower_draw(void *st, larder_pick *out, size_t want) {
    follower *w = st;
    const larder_memorised *m = w->env->memorised;
    const double told[] = {m->fresh_loss, m->reused_loss};
    uint64_t way = larder__hash_bytes(3, told, m->fresh > 0 ? sizeof told : 0);
    size_t n = 0;
    for (; n < want && w->taken < w->env->n; n++, w->taken++, w->drawn++)
        out[n].id = (n % 2 ? way + n : w->drawn) % w->env->n;
    return n;
}
static void follower_save(const void *st, larder_writer *w) {
    larder_write_u64(w, ((const follower *)st)->taken);
    larder_write_u64(w, ((const follower *)st)->drawn);
}
static int follower_load(void *st, larder_reader *r) {
    ((follower *)st)->taken = larder_read_u64(r);
    ((follower *)st)->drawn = larder_read_u64(r);
    return larder_read_status(r);
}
static bool follower_watches(const larder_args *args) {
    (void)args;
    return true;
}
static const larder_sampler follower_sampler = {
    .plugin = {.name = "follower",
               .summary = "goes by what is memorised",
               .state_size = sizeof(follower)},
    .repeats = true,
    .init = follower_init,
    .epoch = follower_epoch,
    .draw = follower_draw,
    .length = follower_length,
    .save = follower_save,
    .load = follower_load,
    .watches = follower_watches,
};

static const char *const recipes[] = {
    "lru",
    "minio",
    "nopfs",
    "quiver",
    "rotate:h=0.5",
    "echo",
    "shade",
    "shade:repeat=3",
    "icache",
    "impact",
    "seneca",
    "spider:scoring=wait",
    "lru:sampler=weighted,signal=loss",
    "lru:sampler=follower",
    "stream:block=1KiB",
};

static void one_process(course *c, const char *recipe, const char *split) {
    job j;
    memset(c, 0, sizeof *c);
    open_job(&j, recipe, split, 1, true);
    while (run_job(&j, c, NULL, 100))
        ;
    for (uint64_t e = 0; e < EPOCHS; e++) {
        larder_figures f = {.size = sizeof f};
        check_ok(look_figures(j.l[0], e, &f));
        c->sum.served += f.served;
        c->sum.hits += f.hits;
        c->sum.misses += f.misses;
        c->sum.substitutes += f.substitutes;
        c->sum.background_reads += f.background_reads;
        c->sum.storage_bytes += f.storage_bytes;
        add_told(c, &f);
    }
    close_job(&j);
}

typedef bool (*run_fn)(job *, course *, const course *, size_t);

static void compare(const char *recipe, const char *split, uint32_t first, run_fn run) {
    static course one, many;
    one_process(&one, recipe, split);
    for (uint32_t world = first; world <= 3; world++) {
        job j;
        memset(&many, 0, sizeof many);
        jobs++;
        open_job(&j, recipe, split, world, false);
        assert_int_equal(look_about(j.l[0]).batches, (N + GLOBAL - 1) / GLOBAL);
        while (run(&j, &many, &one, 100))
            ;
        same_rows(&one, &many, recipe, world);
        add_figures(&j, &many);
        same_ledger(&one, &many, recipe);
        close_job(&j);
    }
}

static void test_as_one_process(void **kind) {
    kit_store_or_skip(*(kit_store_kind *)*kind);
    kit_store_start(&server, *(kit_store_kind *)*kind);
    for (size_t i = 0; i < sizeof recipes / sizeof *recipes; i++)
        compare(recipes[i], "30%", 1 + i % 2, run_ranks);
    compare("lru", "90%:40/30/30", 2, run_ranks);
    compare("seneca", "90%:40/30/30", 2, run_ranks);
    assert_true(all_hits > 1000 && all_late < all_hits / 2);
    all_hits = all_late = 0;
    assert_true(kit_store_emptied(&server));
    kit_store_stop(&server);
}

/* Whoever has heard the others already (by gloo, say) reports for all. */
static void test_reports_of_all(void **kind) {
    kit_store_or_skip(*(kit_store_kind *)*kind);
    kit_store_start(&server, *(kit_store_kind *)*kind);
    compare("rotate:h=0.5", "30%", 3, run_job);
    compare("shade:repeat=3", "30%", 2, run_job);
    compare("spider:scoring=wait", "30%", 3, run_job);
    compare("lru:sampler=follower", "30%", 3, run_job);
    kit_store_stop(&server);
}

/* Rank by rank another world, each time from the state of any one of them. */
static void chain(const char *recipe, const uint32_t *worlds, size_t n, size_t steps) {
    static course one, many;
    void *state = NULL;
    size_t size = 0;
    one_process(&one, recipe, "30%");
    memset(&many, 0, sizeof many);
    for (size_t k = 0; k < n; k++) {
        job j;
        jobs++;
        open_job(&j, recipe, "30%", worlds[k], false);
        for (uint32_t r = 0; state && r < j.world; r++)
            check_ok(larder_loader_restore(j.l[r], LARDER_STATE, state, size));
        larder_free(state);
        state = NULL;
        if (k + 1 < n) {
            assert_true(run_ranks(&j, &many, &one, steps));
            check_ok(larder_loader_save(j.l[k % j.world], LARDER_STATE, &state, &size));
        } else
            while (run_ranks(&j, &many, &one, 100))
                ;
        close_job(&j);
    }
    same_rows(&one, &many, recipe, worlds[n - 1]);
}

static void test_another_world(void **kind) {
    static const uint32_t worlds[] = {2, 3, 1, 4, 2};
    kit_store_or_skip(*(kit_store_kind *)*kind);
    kit_store_start(&server, *(kit_store_kind *)*kind);
    for (size_t i = 0; i < sizeof recipes / sizeof *recipes; i++)
        chain(recipes[i], worlds, 5, 9 + i % 5);
    kit_store_stop(&server);
}

int main(void) {
    static kit_store_kind redis = KIT_REDIS, daemon = KIT_DAEMON;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(test_as_one_process, &daemon),
        cmocka_unit_test_prestate(test_reports_of_all, &daemon),
        cmocka_unit_test_prestate(test_another_world, &daemon),
        cmocka_unit_test_prestate(test_as_one_process, &redis),
        cmocka_unit_test_prestate(test_reports_of_all, &redis),
        cmocka_unit_test_prestate(test_another_world, &redis),
    };
    check_ok(larder_register_sampler(&follower_sampler));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
