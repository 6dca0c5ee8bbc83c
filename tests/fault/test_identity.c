/* No wrong byte from a shared cache: data sets that differ in pixels alone (same names, sizes,
 * labels and times) are served at once and one after the other, and one is rewritten in place
 * between two jobs and while a job runs, through a daemon, Redis and a group in Redis. Every row is
 * compared with what the own files hold. */
#include "loader_kit.h"
#include "pictures.h"
#include "ranks_kit.h"
#include "tar_maker.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { N = 60, SIDE = 8, BATCH = 10, JPEG = 4096, ROW = 3072, SHARD = 20, FILES = 64 };
typedef enum { IDX, CIFAR, TAR, DIR_, KINDS } set_kind;
typedef enum { DAEMON, OWN, SHARED, CARRIERS } carrier;
static const char *const kind_names[] = {"idx", "cifar10", "tar", "dir"};

typedef struct set { /* one data set on disk, and what a loader without a cache serves of it */
    set_kind kind;
    char root[256], uri[320];
    char files[FILES][320];
    size_t count;
    size_t row; /* bytes */
    unsigned char right[N * ROW];
} set;

static kit_store daemon_, redis_;

/* ---- data sets ------------------------------------------------------------------------------- */

static unsigned char byte_of(uint32_t seed, size_t i, size_t k) {
    return (unsigned char)((i * 131 + k * 7 + seed * 89) * 2654435761u >> 13);
}

/* Every picture has as many bytes as any other: what follows a JPEG's end is nobody's. */
static void picture(unsigned char out[JPEG], uint32_t seed, size_t i) {
    check_jpeg_conf c = {.w = SIDE,
                         .h = SIDE,
                         .channels = 3,
                         .h_samp = 1,
                         .v_samp = 1,
                         .seed = seed * 1000 + (uint32_t)i};
    size_t size = 0;
    unsigned char *bytes = check_jpeg(&c, &size);
    assert_true(bytes && size <= JPEG);
    memset(out, 0, JPEG);
    memcpy(out, bytes, size);
    free(bytes);
}

static char *add_file(set *s, const char *name) {
    assert_true(s->count < FILES);
    snprintf(s->files[s->count], sizeof s->files[0], "%s/%s", s->root, name);
    return s->files[s->count++];
}

/* Over what is there, keeping its inode. */
static void put(const char *path, const void *bytes, size_t size) {
    int fd = open(path, O_WRONLY | O_CREAT, 0600);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, bytes, size, 0), (ssize_t)size);
    close(fd);
}

static void write_idx(set *s, uint32_t seed) {
    unsigned char images[16 + N * SIDE * SIDE] = {0, 0, 8, 3,    0, 0, 0, N,
                                                  0, 0, 0, SIDE, 0, 0, 0, SIDE};
    unsigned char labels[8 + N] = {0, 0, 8, 1, 0, 0, 0, N};
    for (size_t i = 0; i < N; i++) {
        labels[8 + i] = (unsigned char)(i % 10);
        for (size_t k = 0; k < SIDE * SIDE; k++)
            images[16 + i * SIDE * SIDE + k] = byte_of(seed, i, k);
    }
    put(add_file(s, "train-images-idx3-ubyte"), images, sizeof images);
    put(add_file(s, "train-labels-idx1-ubyte"), labels, sizeof labels);
}

static void write_cifar(set *s, uint32_t seed) {
    enum { EACH = N / 5, RECORD = 3073 };
    static unsigned char bytes[EACH * RECORD];
    for (size_t f = 0; f < 5; f++) {
        char name[32];
        for (size_t i = 0; i < EACH; i++) {
            bytes[i * RECORD] = (unsigned char)(i % 10);
            for (size_t k = 0; k < 3072; k++)
                bytes[i * RECORD + 1 + k] = byte_of(seed, f * EACH + i, k);
        }
        snprintf(name, sizeof name, "data_batch_%zu.bin", f + 1);
        put(add_file(s, name), bytes, sizeof bytes);
    }
}

static void write_tars(set *s, uint32_t seed) {
    for (size_t f = 0; f < N / SHARD; f++) {
        char name[32], key[32], *made = NULL;
        unsigned char jpeg[JPEG];
        size_t size = 0;
        FILE *out = open_memstream(&made, &size);
        for (size_t i = f * SHARD; i < (f + 1) * SHARD; i++) {
            snprintf(key, sizeof key, "%04zu", i);
            picture(jpeg, seed, i);
            tar_put_sample(out, key, jpeg, JPEG, i % 2 ? "1" : "0");
        }
        tar_put_end(out);
        fclose(out);
        snprintf(name, sizeof name, "%zu.tar", f);
        put(add_file(s, name), made, size);
        free(made);
    }
}

static void write_dir(set *s, uint32_t seed) {
    char name[32];
    for (int c = 0; c < 2; c++) {
        char folder[320];
        snprintf(folder, sizeof folder, "%s/%c", s->root, 'a' + c);
        mkdir(folder, 0700);
    }
    for (size_t i = 0; i < N; i++) {
        unsigned char jpeg[JPEG];
        picture(jpeg, seed, i);
        snprintf(name, sizeof name, "%c/%04zu.jpg", i % 2 ? 'b' : 'a', i);
        put(add_file(s, name), jpeg, JPEG);
    }
}

/* The same for all, so that nothing but the bytes tells one from the other. */
static void set_times(const set *s, time_t when) {
    struct timespec t[2] = {{.tv_sec = when}, {.tv_sec = when}};
    for (size_t i = 0; i < s->count; i++)
        assert_int_equal(utimensat(AT_FDCWD, s->files[i], t, 0), 0);
}

static larder_loader *open_loader(const set *s, const char *query, const char *recipe,
                                  const char *cache, uint64_t epochs, uint64_t seed) {
    char uri[400];
    larder_loader *l = NULL;
    snprintf(uri, sizeof uri, "%s%s", s->uri, query);
    larder_loader_conf c = kit_conf(uri, recipe);
    c.augment = s->kind == TAR || s->kind == DIR_ ? "resize:h=8,w=8" : NULL;
    c.cache = cache;
    c.batch = BATCH;
    c.epochs = epochs;
    c.seed = seed;
    check_ok(larder_loader_open(&l, &c));
    return l;
}

static size_t wrong_rows(const set *s, const larder_batch *b) {
    size_t wrong = 0;
    for (size_t i = 0; i < b->n; i++)
        wrong += memcmp((const unsigned char *)b->x + i * s->row, s->right + b->served[i] * s->row,
                        s->row) != 0;
    return wrong;
}

static void learn_rows(set *s) {
    larder_loader *l = open_loader(s, "", "lru", "0", 1, 1);
    const larder_batch *b;
    int rc;
    while ((rc = larder_loader_next(l, &b)) >= 0 && rc != LARDER_END) {
        if (rc)
            continue;
        s->row = (size_t)b->shape.h * b->shape.w * b->shape.c;
        for (size_t i = 0; i < b->n; i++)
            memcpy(s->right + b->served[i] * s->row, (const unsigned char *)b->x + i * s->row,
                   s->row);
        larder_loader_done(l, b);
    }
    check_ok(rc);
    larder_loader_close(&l);
}

/* Writes or rewrites it. */
static void fill(set *s, uint32_t seed, time_t when) {
    static void (*const how[])(set *, uint32_t) = {write_idx, write_cifar, write_tars, write_dir};
    s->count = 0;
    how[s->kind](s, seed);
    set_times(s, when);
}

static set *make(set_kind kind, uint32_t seed) {
    set *s = calloc(1, sizeof *s);
    assert_non_null(s);
    s->kind = kind;
    check_folder(s->root);
    snprintf(s->uri, sizeof s->uri, "%s:%s", kind_names[kind], s->root);
    fill(s, seed, 1700000000);
    learn_rows(s);
    return s;
}

static void drop(set *s) {
    check_folder_remove(s->root);
    free(s);
}

/* ---- jobs ------------------------------------------------------------------------------------ */

static unsigned scenes;

static const char *cache_text(carrier where, const char *budget, char out[192]) {
    if (where == DAEMON)
        snprintf(out, 192, "unix:%s?budget=%s", daemon_.socket, budget);
    else if (where == OWN)
        snprintf(out, 192, "redis://127.0.0.1:%u?budget=%s&timeout=30s", redis_.redis.port, budget);
    else
        snprintf(out, 192, "redis://127.0.0.1:%u?budget=%s&timeout=30s&shared=scene%u",
                 redis_.redis.port, budget, scenes);
    return out;
}

/* Next batch of a job, compared; false: it has come to its end. */
static bool step(const set *s, larder_loader *l, const char *when) {
    const larder_batch *b;
    int rc = larder_loader_next(l, &b);
    check_ok(rc);
    if (rc == LARDER_END)
        return false;
    if (rc == 0) {
        size_t wrong = wrong_rows(s, b);
        if (wrong)
            fail_msg("%s, %s: %zu of %zu rows of batch %zu are somebody else's",
                     kind_names[s->kind], when, wrong, b->n, (size_t)b->number);
        larder_loader_done(l, b);
    }
    return true;
}

static double run_job(const set *s, const char *query, const char *cache, uint64_t seed,
                      const char *when) {
    larder_loader *l = open_loader(s, query, "lru", cache, 3, seed);
    while (step(s, l, when))
        ;
    double reads = kit_stat(l, "storage_reads");
    larder_loader_close(&l);
    return reads;
}

static void twins_at_once(set_kind kind, carrier where) {
    char cache[192];
    set *s[2] = {make(kind, 1), make(kind, 2)};
    larder_loader *l[2];
    cache_text(where, "100%", cache);
    for (int k = 0; k < 2; k++)
        l[k] = open_loader(s[k], "", "lru", cache, 3, 5);
    for (bool more = true; more;) {
        more = step(s[0], l[0], "twins at once");
        more |= step(s[1], l[1], "twins at once");
    }
    for (int k = 0; k < 2; k++) {
        larder_loader_close(&l[k]);
        drop(s[k]);
    }
}

static void twins_in_turn(set_kind kind, carrier where) {
    char cache[192];
    set *s[2] = {make(kind, 3), make(kind, 4)};
    cache_text(where, "100%", cache);
    for (int round = 0; round < 4; round++)
        run_job(s[round % 2], "", cache, (uint64_t)round, "twins in turn");
    drop(s[0]);
    drop(s[1]);
}

/* Size and time stay what they were. */
static void rewritten_between(set_kind kind, carrier where) {
    char cache[192];
    set *s = make(kind, 5);
    cache_text(where, "100%", cache);
    run_job(s, "", cache, 1, "before");
    kit_nap(0.05); /* a clock of a file system may be that coarse */
    fill(s, 6, 1700000000);
    learn_rows(s);
    run_job(s, "", cache, 2, "rewritten between two jobs");
    drop(s);
}

/* What is served until somebody notices is as it was; then the job ends and names the file; the
 * next one has the new bytes alone. */
static void rewritten_meanwhile(set_kind kind, carrier where) {
    char cache[192];
    set *s = make(kind, 7), *then = malloc(sizeof *then);
    larder_loader *l[2];
    const larder_batch *b;
    int rc = 0;
    cache_text(where, "50%", cache);
    memcpy(then, s, sizeof *then);
    for (int k = 0; k < 2; k++)
        l[k] = open_loader(s, "", "lru", cache, 50, 3 + (uint64_t)k);
    for (int i = 0; i < 2; i++)
        assert_true(step(s, l[i], "before") && step(s, l[i], "before"));
    kit_nap(0.05);
    fill(s, 8, 1700000001);
    for (int k = 0; k < 2; k++) {
        while ((rc = larder_loader_next(l[k], &b)) >= 0 && rc != LARDER_END) {
            if (rc)
                continue;
            if (wrong_rows(then, b))
                fail_msg("%s: batch %zu has rows of what was written while the job ran",
                         kind_names[kind], (size_t)b->number);
            larder_loader_done(l[k], b);
        }
        if (rc != LARDER_E_CHANGED)
            fail_msg("%s: %d, %s", kind_names[kind], rc, larder_errmsg());
        assert_non_null(strstr(larder_errmsg(), s->root));
        assert_non_null(strstr(larder_errmsg(), "start again"));
    }
    learn_rows(s);
    run_job(s, "", cache, 9, "after it was rewritten");
    for (int k = 0; k < 2; k++)
        larder_loader_close(&l[k]);
    run_job(s, "", cache, 10, "after those have gone");
    free(then);
    drop(s);
}

/* The user says that two copies are one: what one job has read, the other need not. */
static void vouched_copies(set_kind kind, carrier where) {
    char cache[192];
    set *s[3] = {make(kind, 11), make(kind, 11), make(kind, 12)};
    cache_text(where, "100%", cache);
    larder_loader *stays = open_loader(s[0], "?content=both", "lru", cache, 3, 1);
    while (step(s[0], stays, "a copy"))
        ;
    double reads = run_job(s[1], "?content=both", cache, 2, "its copy");
    if (where != OWN)
        assert_int_equal((int)reads, 0);
    run_job(s[2], "?content=both", cache, 3, "what is said to be a copy and is none");
    larder_loader_close(&stays);
    for (int k = 0; k < 3; k++)
        drop(s[k]);
}

typedef void (*scene)(set_kind, carrier);

static void everywhere(scene play) {
    for (int where = 0; where < CARRIERS; where++)
        for (int kind = 0; kind < KINDS; kind++) {
            if (where != DAEMON && !redis_.redis.pid)
                continue;
            scenes++;
            play((set_kind)kind, (carrier)where);
        }
}

#define SCENE(name)                                                                                \
    static void test_##name(void **state) {                                                        \
        (void)state;                                                                               \
        everywhere(name);                                                                          \
    }
SCENE(twins_at_once)
SCENE(twins_in_turn)
SCENE(rewritten_between)
SCENE(rewritten_meanwhile)
SCENE(vouched_copies)

/* ---- ranks on copies ------------------------------------------------------------------------- */

typedef struct rank {
    const set *s;
    const kit_store *store;
    const char *query;
    uint32_t rank;
    int rc;
    size_t rows;
    char why[512];
} rank;

static void *run_rank(void *arg) {
    rank *r = arg;
    char uri[400], cache[192];
    larder_loader *l = NULL;
    const larder_batch *b;
    snprintf(uri, sizeof uri, "%s%s", r->s->uri, r->query);
    larder_loader_conf c = kit_conf(uri, "shade");
    c.augment = NULL;
    c.cache =
        kit_store_cache(r->store, cache, sizeof cache, "50%", r->query[0] ? "said" : "not", 60);
    c.batch = BATCH / 2;
    c.epochs = 2;
    c.rank = r->rank;
    c.world = 2;
    r->rc = larder_loader_open(&l, &c);
    while (r->rc >= 0 && (r->rc = larder_loader_next(l, &b)) >= 0 && r->rc != LARDER_END) {
        float loss[BATCH];
        if (r->rc)
            continue;
        must(wrong_rows(r->s, b) == 0);
        r->rows += b->n;
        for (size_t i = 0; i < b->n; i++)
            loss[i] = kit_loss(b->served[i], b->epoch);
        larder_feedback fb = {.size = sizeof fb, .loss = loss};
        must(larder_loader_report(l, b, &fb) == 0 && larder_loader_done(l, b) == 0);
    }
    snprintf(r->why, sizeof r->why, "%s", r->rc < 0 ? larder_errmsg() : "");
    larder_loader_close(&l);
    return NULL;
}

/* Ranks whose files are copies meet, and all are told what to do; then they share. */
static void test_ranks_on_copies(void **state) {
    (void)state;
    set *s[2] = {make(IDX, 13), make(IDX, 13)};
    for (int said = 0; said < 2; said++)
        for (int k = 0; k < 2; k++) {
            const kit_store *store = k ? &redis_ : &daemon_;
            rank r[2] = {{.rank = 0}, {.rank = 1}};
            pthread_t other;
            if (k && !redis_.redis.pid)
                continue;
            for (int i = 0; i < 2; i++) {
                r[i].s = s[i];
                r[i].store = store;
                r[i].query = said ? "?content=both" : "";
            }
            pthread_create(&other, NULL, run_rank, &r[0]);
            run_rank(&r[1]);
            pthread_join(other, NULL);
            int told = 0;
            for (int i = 0; i < 2; i++) {
                told += strstr(r[i].why, "?content=") != NULL;
                if (said && (r[i].rc != LARDER_END || r[i].rows != N))
                    fail_msg("rank %d: %d, %s, %zu rows", i, r[i].rc, r[i].why, r[i].rows);
                if (!said && r[i].rc >= 0)
                    fail_msg("rank %d came to its end", i);
            }
            if (told != (said ? 0 : 2))
                fail_msg("\"%s\", \"%s\"", r[0].why, r[1].why);
        }
    drop(s[0]);
    drop(s[1]);
}

static int start(void **state) {
    (void)state;
    size_t size;
    unsigned char *jpeg = check_jpeg(
        &(check_jpeg_conf){.w = 8, .h = 8, .channels = 3, .h_samp = 1, .v_samp = 1}, &size);
    if (!jpeg)
        exit(77);
    free(jpeg);
    kit_store_start(&daemon_, KIT_DAEMON);
    if (kit_redis_there())
        kit_store_start(&redis_, KIT_REDIS);
    return 0;
}

static int stop(void **state) {
    (void)state;
    kit_store_stop(&daemon_);
    if (redis_.redis.pid)
        kit_store_stop(&redis_);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_twins_at_once),     cmocka_unit_test(test_twins_in_turn),
        cmocka_unit_test(test_rewritten_between), cmocka_unit_test(test_rewritten_meanwhile),
        cmocka_unit_test(test_vouched_copies),    cmocka_unit_test(test_ranks_on_copies),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
