#include "stranger_kit.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

char stranger_folder[256], stranger_path[300];
static pid_t server_pid;

/* A daemon of root's that everybody may attach to. */
void stranger_serve(bool share_data) {
    larder__server_conf conf = {.socket = stranger_path,
                                .mode = 0666,
                                .cache = 256 << 20,
                                .clients = STRANGER_CLIENTS,
                                .share_data = share_data};
    server_pid = kit_daemon_start(&conf, NULL, NULL);
}

int stranger_begin(void **st) {
    (void)st;
    check_folder(stranger_folder);
    snprintf(stranger_path, sizeof stranger_path, "%s/s", stranger_folder);
    return chmod(stranger_folder, 0777);
}

int stranger_end(void **st) {
    (void)st;
    if (server_pid > 0)
        kit_daemon_kill(server_pid);
    server_pid = 0;
    check_folder_remove(stranger_folder);
    return 0;
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

void stranger_attach(stranger *j, uid_t user, stranger_prove prove) {
    larder__attach_conf conf = {.door = larder__door_at(stranger_path),
                                .hello = stranger_hello(),
                                .prove = prove,
                                .size_arg = j};
    check_ok(larder__stats_open(&j->stats));
    conf.stats = j->stats;
    assert_int_equal(seteuid(user), 0);
    int rc = larder__attach_open(&j->cache, &conf);
    assert_int_equal(seteuid(0), 0);
    check_ok(rc);
    j->made = 0;
}

size_t stranger_read_all(stranger *j) {
    static unsigned char right[STRANGER_LARGE];
    size_t wrong = 0;
    for (uint64_t k = 0; k < STRANGER_KEYS; k++) {
        larder_access a = {.key = k, .size = stranger_size(k), .score = NAN};
        larder_buf *out = NULL;
        check_ok(larder__cache_get(j->cache, &a, 1, stranger_make, j, &out, NULL));
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
