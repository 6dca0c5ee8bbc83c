/* Jobs on another machine: over TCP with a token, bytes over the socket. They share with a job on
 * this machine, wait for what it makes, and nobody gets in without the token. */
#include "check.h"
#include "daemon/server.h"
#include "wire/attach.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { KEYS = 64, BATCH = 48 };

typedef struct world {
    char folder[32], path[64], token_file[64], far_away[64];
    larder__token token;
    larder__server *server;
    pthread_t thread;
    uint32_t size;
} world;

static void *serve(void *server) {
    larder__server_run(server);
    return NULL;
}

static void write_token(const char *path, const char *text, mode_t mode) {
    FILE *f = fopen(path, "we");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
    assert_int_equal(chmod(path, mode), 0);
}

static void open_world(world *w, uint32_t size) {
    *w = (world){.size = size};
    snprintf(w->folder, sizeof w->folder, "/tmp/larder-far-XXXXXX");
    assert_non_null(mkdtemp(w->folder));
    snprintf(w->path, sizeof w->path, "%s/s", w->folder);
    snprintf(w->token_file, sizeof w->token_file, "%s/token", w->folder);
    write_token(w->token_file, "0123456789abcdef-secret\n", 0600);
    check_ok(larder__token_read(&w->token, w->token_file));
    larder__server_conf conf = {.socket = w->path,
                                .mode = 0600,
                                .cache = 96 << 20,
                                .clients = 8,
                                .tcp = "127.0.0.1:0",
                                .token = &w->token};
    check_ok(larder__server_open(&w->server, &conf));
    snprintf(w->far_away, sizeof w->far_away, "tcp://127.0.0.1:%u", larder__server_port(w->server));
    assert_int_equal(pthread_create(&w->thread, NULL, serve, w->server), 0);
}

static void close_world(world *w) {
    larder__server_stop(w->server);
    pthread_join(w->thread, NULL);
    larder__server_close(&w->server);
    unlink(w->token_file);
    assert_int_equal(rmdir(w->folder), 0);
}

static int join(const world *w, const char *where, const char *token_file, larder__cache **out) {
    larder__attach_conf conf = {.socket = where,
                                .token_file = token_file,
                                .hello = {.batch = BATCH,
                                          .identity = 9,
                                          .keys = KEYS,
                                          .payload = (uint64_t)KEYS * w->size,
                                          .share = {1},
                                          .policy = "lru",
                                          .name = "test"}};
    return larder__attach_open(out, &conf);
}

static uint64_t made;

static int make(void *arg, const larder_access *want, larder_buf *have, larder_buf **out) {
    (void)arg, (void)have;
    made++;
    *out = larder_buf_new(want->size);
    if (*out)
        memset(larder_buf_data(*out), (int)(want->key + 1), want->size);
    return *out ? 0 : LARDER_E_NOMEM;
}

static bool is_of(larder_buf *b, uint64_t key, uint32_t size) {
    const unsigned char *at = larder_buf_data(b);
    return larder_buf_size(b) == size && at[0] == key + 1 && at[size / 2] == key + 1 &&
           at[size - 1] == key + 1;
}

/* One batch from key `from` on; how many had to be made. */
static uint64_t get(const world *w, larder__cache *c, uint64_t from) {
    larder_access a[BATCH];
    larder_buf *out[BATCH];
    made = 0;
    for (uint64_t i = 0; i < BATCH; i++)
        a[i] = (larder_access){.key = (from + i) % KEYS, .size = w->size, .score = NAN};
    check_ok(larder__cache_get(c, a, BATCH, make, NULL, out, NULL));
    for (uint64_t i = 0; i < BATCH; i++) {
        assert_true(is_of(out[i], (from + i) % KEYS, w->size));
        larder_buf_unref(&out[i]);
    }
    return made;
}

static void test_shares(void **st) {
    (void)st;
    world w;
    larder__cache *far_off, *near_by;
    open_world(&w, 3000);
    check_ok(join(&w, w.far_away, w.token_file, &far_off));
    check_ok(join(&w, w.path, NULL, &near_by));
    assert_int_equal(get(&w, far_off, 0), BATCH);
    assert_int_equal(get(&w, far_off, 0), 0);
    assert_int_equal(get(&w, near_by, 0), 0);
    assert_int_equal(get(&w, near_by, 16), KEYS - BATCH);
    assert_int_equal(get(&w, near_by, 16), 0);
    assert_int_equal(get(&w, far_off, 16), 0);
    larder__cache_close(&far_off);
    larder__cache_close(&near_by);
    close_world(&w);
}

/* More than one answer may be long: the rest is made by who asked. */
static void test_long_answers(void **st) {
    (void)st;
    world w;
    larder__cache *far_off;
    open_world(&w, 1 << 20);
    check_ok(join(&w, w.far_away, w.token_file, &far_off));
    assert_int_equal(get(&w, far_off, 0), BATCH);
    uint64_t again = BATCH;
    for (int i = 0; i < 50 && again == BATCH; i++) { /* a slow machine is cut off for a while */
        again = get(&w, far_off, 0);
        usleep(again == BATCH ? 200000 : 0);
    }
    assert_in_range(again, 1, BATCH - 1);
    larder__cache_close(&far_off);
    close_world(&w);
}

static void claim_one(const world *w, larder__cache *c, uint64_t key, larder__ticket *t) {
    larder_access a = {.key = key, .size = w->size, .score = NAN};
    check_ok(larder__cache_claim(c, &a, 1, t));
}

typedef struct waiting {
    larder__cache *cache;
    larder__ticket ticket;
    larder_buf *bytes;
    int rc;
} waiting;

static void *wait_for_it(void *arg) {
    waiting *w = arg;
    w->rc = larder__cache_wait(w->cache, &w->ticket, &w->bytes);
    return NULL;
}

static void test_waits(void **st) {
    (void)st;
    world w;
    larder__cache *far_off, *near_by;
    open_world(&w, 3000);
    check_ok(join(&w, w.far_away, w.token_file, &far_off));
    check_ok(join(&w, w.path, NULL, &near_by));
    for (uint64_t key = 0; key < 2; key++) { /* the second is never made */
        larder__ticket maker;
        waiting x = {.cache = far_off};
        pthread_t thread;
        claim_one(&w, near_by, key, &maker);
        assert_int_equal(maker.task, LARDER__MAKE);
        claim_one(&w, far_off, key, &x.ticket);
        assert_int_equal(x.ticket.task, LARDER__WAIT);
        assert_int_equal(pthread_create(&thread, NULL, wait_for_it, &x), 0);
        usleep(50000);
        if (key == 0) {
            larder_buf *b;
            check_ok(make(NULL, &(larder_access){.key = key, .size = w.size}, NULL, &b));
            larder__cache_fill(near_by, &maker, b);
            larder_buf_unref(&b);
        } else
            larder__cache_fail(near_by, &maker, LARDER_E_IO, "as the test wants it");
        pthread_join(thread, NULL);
        assert_int_equal(x.rc, key == 0 ? 0 : LARDER__TAKE_OVER);
        assert_true(key || is_of(x.bytes, 0, w.size));
        larder_buf_unref(&x.bytes);
    }
    larder__cache_close(&far_off);
    larder__cache_close(&near_by);
    close_world(&w);
}

static void check_fails(int rc, int code, const char *word) {
    assert_int_equal(rc, code);
    if (!strstr(larder_errmsg(), word))
        fail_msg("\"%s\" does not say \"%s\"", larder_errmsg(), word);
}

static void test_token(void **st) {
    (void)st;
    world w;
    larder__cache *c = NULL;
    larder__token t;
    open_world(&w, 100);
    char other[80];
    snprintf(other, sizeof other, "%s/other", w.folder);
    write_token(other, "0123456789abcdef-secreT\n", 0600);
    check_fails(join(&w, w.far_away, other, &c), LARDER_E_ARGS, "token");
    write_token(other, "0123456789abcdef-secret-and-more", 0600);
    check_fails(join(&w, w.far_away, other, &c), LARDER_E_ARGS, "token");
    check_fails(join(&w, w.far_away, NULL, &c), LARDER_E_ARGS, "token-file");
    write_token(other, "short\n", 0600);
    check_fails(join(&w, w.far_away, other, &c), LARDER_E_FORMAT, "openssl");
    write_token(other, "0123456789abcdef-secret\n", 0644);
    check_fails(join(&w, w.far_away, other, &c), LARDER_E_ARGS, "chmod 600");
    check_fails(join(&w, "tcp://nowhere", w.token_file, &c), LARDER_E_ARGS, "HOST:PORT");
    assert_true(larder__token_same(&w.token, "0123456789abcdef-secret", 23));
    assert_false(larder__token_same(&w.token, "0123456789abcdef-secret", 22));
    assert_false(larder__token_same(&w.token, "0123456789abcdef-secret\0", 24));
    t = (larder__token){0};
    assert_false(larder__token_same(&t, "", 0)); /* no token lets nobody in */
    unlink(other);
    close_world(&w);
}

/* Without a word, or with too many before the token, nobody is heard. */
static void test_strangers(void **st) {
    (void)st;
    world w;
    char *json = NULL;
    open_world(&w, 100);
    check_fails(larder__attach_status(w.far_away, &json), LARDER_E_ARGS, "token");
    larder__cache *c = NULL;
    check_ok(join(&w, w.far_away, w.token_file, &c));
    larder__cache_close(&c);
    close_world(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shares),    cmocka_unit_test(test_long_answers),
        cmocka_unit_test(test_waits),     cmocka_unit_test(test_token),
        cmocka_unit_test(test_strangers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
