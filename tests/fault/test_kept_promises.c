/* Jobs of one thread that share a cache: whoever has to wait for another reads first what others
 * may be waiting for, however much of that is in batches that come later. */
#include "daemon_kit.h"
#include "loader/inside.h"
#include "loader_kit.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SIZE = 8 * 8 * 3, HELD = 150, MANY = 200 };

static larder__ticket claim(larder__cache *c, uint64_t key) {
    larder__ticket t;
    larder_access in = {.key = key, .size = SIZE, .group = LARDER_NO_GROUP};
    check_ok(larder__cache_claim(c, &in, 1, &t));
    larder__ticket_drop(&t);
    return t;
}

static void give_up(larder__cache *c, larder__ticket *t) {
    if (t->task == LARDER__MAKE)
        larder__cache_fail(c, t, LARDER_E_CANCELLED, "not made after all");
}

/* Has it read all it has drawn, though rows of that wait for somebody else? */
static bool all_is_read(larder_loader *l) {
    pthread_mutex_lock(&l->lock);
    bool all = l->planned == l->taken + l->conf.ahead;
    size_t waiting = 0;
    for (uint32_t k = 0; k < l->conf.ahead; k++) {
        larder__place *p = &l->ring[k];
        all = all && p->phase != LARDER__FREE && p->next_row == p->rows;
        for (size_t i = 0; all && i < p->plan.n; i++)
            waiting += p->plan.tickets[i].task == LARDER__WAIT;
    }
    pthread_mutex_unlock(&l->lock);
    return all && waiting > 0;
}

/* Samples it read since the daemon did not answer. */
static double unshared(larder_loader *l) {
    larder_stat_value v = {.size = sizeof v};
    for (size_t i = 0; larder_loader_stat(l, i, &v) == 0; i++)
        if (strcmp(v.name, "daemon_unshared") == 0)
            return v.value;
    fail_msg("no figure daemon_unshared");
    return 0;
}

static void *train(void *l) {
    uint64_t got[MANY];
    assert_true(kit_run(l, got, MANY) > 500 / 16);
    return NULL;
}

static void test_reads_before_it_waits(void **unused) {
    (void)unused;
    char folder[256], path[300], cache[340];
    pthread_t thread;
    larder_loader *first, *second;
    larder__ticket held[HELD];
    check_folder(folder);
    snprintf(path, sizeof path, "%s/s", folder);
    larder__server_conf conf = {.socket = path, .mode = 0600, .cache = 1 << 20, .clients = 4};
    pid_t pid = kit_daemon_start(&conf, kit_clock_stop, NULL);
    kit_clock_stop(NULL);
    snprintf(cache, sizeof cache, "unix:%s?budget=60%%", path);
    larder_loader_conf c = kit_conf("mem:?n=500&h=8&w=8&c=3", "lru");
    c.cache = cache;
    c.threads = 1;
    c.ahead = 8;
    c.epochs = 1;
    check_ok(larder_loader_open(&first, &c));
    train(first); /* from here on its cache is ours */
    larder__cache *mine = larder__draw_cache(first->draw);
    for (uint64_t i = 0; i < HELD; i++)
        held[i] = claim(mine, i);
    c.seed++;
    check_ok(larder_loader_open(&second, &c));
    assert_int_equal(pthread_create(&thread, NULL, train, second), 0);
    bool all = false;
    for (int i = 0; i < 20000 && !(all = all_is_read(second)); i++)
        usleep(10000);
    for (int i = 0; i < HELD; i++)
        give_up(mine, &held[i]); /* then the other one reads them */
    pthread_join(thread, NULL);
    assert_true(unshared(first) == 0 && unshared(second) == 0);
    larder_loader_close(&second);
    larder_loader_close(&first);
    kit_clock_go_on();
    kit_daemon_kill(pid);
    check_folder_remove(folder);
    assert_true(all);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_reads_before_it_waits)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
