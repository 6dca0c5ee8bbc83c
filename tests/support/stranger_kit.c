#include "stranger_kit.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static pid_t server_pid;
static bool all_share;

static pid_t serve(bool share_data, uint32_t clients, void (*first)(void *)) {
    larder__server_conf conf = {.socket = kit_door,
                                .mode = 0666,
                                .cache = STRANGER_CACHE,
                                .clients = clients,
                                .share_data = share_data};
    server_pid = kit_daemon_start(&conf, first, NULL);
    all_share = share_data;
    return server_pid;
}

pid_t stranger_serve_in_time(bool share_data, uint32_t clients) {
    return serve(share_data, clients, NULL);
}

void stranger_serve_many(bool share_data, uint32_t clients) {
    kit_clock_stop(NULL);
    serve(share_data, clients, kit_clock_stop);
}

void stranger_serve(bool share_data) { stranger_serve_many(share_data, STRANGER_CLIENTS); }

int stranger_begin(void **st) {
    kit_door_make(st);
    return chmod(kit_door_folder, 0777);
}

int stranger_end(void **st) {
    if (server_pid > 0)
        kit_daemon_kill(server_pid);
    server_pid = 0;
    kit_clock_go_on();
    return kit_door_remove(st);
}

/* One is larger than a tray, and few of another fit in it. */
uint32_t stranger_size(uint64_t key) {
    return key % 8 == 3 ? STRANGER_LARGE : key % 4 == 1 ? STRANGER_MIDDLE : 1000 + (uint32_t)key;
}

void stranger_paint(unsigned char *out, uint64_t key, unsigned lie) {
    for (uint32_t i = 0; i < stranger_size(key); i++)
        out[i] = (unsigned char)((key * 131 + i * 7 + (i >> 8) + lie * 89) * 2654435761u >> 13);
}

int stranger_make(void *arg, const larder_access *want, larder_buf *have, larder_buf **out) {
    stranger *j = arg;
    (void)have;
    if (!(*out = larder_buf_new(want->size)))
        return LARDER_E_NOMEM;
    stranger_paint(larder_buf_data(*out), want->key, j->lie);
    j->made++;
    return 0;
}

larder__hello stranger_hello(void) {
    larder__hello h = {.batch = 8,
                       .identity = 3,
                       .about.keys = STRANGER_KEYS,
                       .about.share = {1},
                       .about.policy = "lru",
                       .name = "test"};
    for (uint64_t k = 0; k < STRANGER_KEYS; k++)
        h.payload += stranger_size(k);
    snprintf(h.budget, sizeof h.budget, "20MiB");
    return h;
}

static int prove_each(void *arg, const uint64_t *ids, uint32_t n, uint64_t nonce, uint64_t *out) {
    int rc = 0;
    for (uint32_t i = 0; rc == 0 && i < n; i++)
        rc = ((stranger *)arg)->prove(arg, ids[i], nonce, &out[i]);
    return rc;
}

void stranger_attach(stranger *j, uid_t user, stranger_prove prove) {
    larder__attach_conf conf = {.door = larder__door_at(kit_door),
                                .hello = stranger_hello(),
                                .prove = prove ? prove_each : NULL,
                                .size_arg = j};
    j->prove = prove;
    check_ok(larder__stats_open(&j->stats));
    conf.stats = j->stats;
    uid_t own = geteuid();
    assert_int_equal(seteuid(user), 0);
    int rc = larder__attach_open(&j->cache, &conf);
    assert_int_equal(seteuid(own), 0);
    check_ok(rc);
    j->made = 0;
}

larder_buf *stranger_take(stranger *j, uint64_t key) {
    larder_access a = {.key = key, .size = stranger_size(key), .score = NAN};
    larder_buf *out = NULL;
    check_ok(larder__cache_get(j->cache, &a, 1, stranger_make, j, &out, NULL));
    return out;
}

size_t stranger_read_all(stranger *j) {
    static unsigned char right[STRANGER_LARGE];
    size_t wrong = 0;
    for (uint64_t k = 0; k < STRANGER_KEYS; k++) {
        larder_buf *out = stranger_take(j, k);
        stranger_paint(right, k, j->lie);
        wrong += larder_buf_size(out) != stranger_size(k) ||
                 memcmp(larder_buf_data(out), right, stranger_size(k)) != 0;
        larder_buf_unref(&out);
    }
    return wrong;
}

void stranger_leave(stranger *j) {
    larder__cache_close(&j->cache);
    larder__stats_close(&j->stats);
}

/* ---- clients of their own making ------------------------------------------------------------- */

void stranger_knock(stranger_line *l, uid_t user) {
    larder__door door = larder__door_at(kit_door);
    uid_t own = geteuid();
    assert_int_equal(seteuid(user), 0);
    l->fd = larder__daemon_connect(&door);
    assert_int_equal(seteuid(own), 0);
    assert_true(l->fd >= 0);
    larder__inbox_init(&l->in);
}

void stranger_hang_up(stranger_line *l) {
    close(l->fd);
    larder__inbox_free(&l->in);
}

int stranger_hear(stranger_line *l, uint16_t want, larder_reader *body) {
    const larder__patience ours = {.sign = 600, .answer = 600};
    return larder__daemon_hear_for(l->fd, &l->in, want, body, &ours);
}

int stranger_greet(stranger_line *l, const larder__hello *about, larder__welcome *out) {
    larder__hello h = *about;
    larder_writer w = {0};
    larder_reader body;
    h.magic = LARDER__WIRE_MAGIC;
    h.version = LARDER__WIRE_VERSION;
    h.at_once = 256;
    larder__hello_write(&h, &w);
    int rc = larder__frame_send(l->fd, LARDER__MSG_HELLO, w.bytes, w.size, NULL, 0);
    larder__writer_free(&w);
    if (rc == 0 && !all_share)
        rc = stranger_hear(l, LARDER__MSG_PROVE, &body);
    if (rc == 0 && !all_share)
        rc = larder__frame_send(l->fd, LARDER__MSG_PROOF, NULL, 0, NULL, 0);
    if (rc == 0)
        rc = stranger_hear(l, LARDER__MSG_WELCOME, &body);
    return rc == 0 ? larder__welcome_read(out, &body) : rc;
}

/* ---- ranks ----------------------------------------------------------------------------------- */

larder__unix_ranks_conf stranger_rank(const char *job, uint32_t rank, uint64_t keys) {
    larder__unix_ranks_conf conf = {.door = larder__door_at(kit_door),
                                    .join = {.world = 2,
                                             .rank = rank,
                                             .batch = 10,
                                             .turns = 2,
                                             .identity = 3,
                                             .keys = keys,
                                             .payload = 100 * keys,
                                             .want = 100 * keys,
                                             .name = "test"},
                                    .patience = 30};
    snprintf(conf.join.job, sizeof conf.join.job, "%s", job);
    return conf;
}

int stranger_join(larder__unix_ranks_link **out, uid_t user, const larder__unix_ranks_conf *conf) {
    assert_int_equal(seteuid(user), 0);
    int rc = larder__unix_ranks_open(out, conf);
    assert_int_equal(seteuid(0), 0);
    return rc;
}
