/* A job that shares a cache with those before it: what they have made is there, however they left,
 * and where they decided something else than it asks for, it is told. */
#include "daemon_kit.h"
#include "loader_kit.h"
#include "look_kit.h"
#include "redis_kit.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define SOURCE "mem:?n=80&h=8&w=8&c=3"
enum { N = 80, BATCH = 8 };

typedef struct service {
    char folder[256], path[300];
    pid_t pid;
} service;

/* No time passes: nobody loses patience with who gets no processor for seconds. */
static void start_with(service *s, uint64_t cache) {
    check_folder(s->folder);
    snprintf(s->path, sizeof s->path, "%s/s", s->folder);
    larder__server_conf conf = {.socket = s->path, .mode = 0600, .cache = cache, .clients = 8};
    kit_clock_stop(NULL);
    s->pid = kit_daemon_start(&conf, kit_clock_stop, NULL);
}

static void start(service *s) { start_with(s, 32 << 20); }

static void stop(service *s) {
    kit_daemon_kill(s->pid);
    kit_clock_go_on();
    check_folder_remove(s->folder);
}

static larder_loader *begin(const char *cache, const char *recipe, uint64_t seed) {
    larder_loader_conf c = kit_conf(SOURCE, recipe);
    larder_loader *l = NULL;
    c.batch = BATCH;
    c.cache = cache;
    c.epochs = 1;
    c.seed = seed;
    if (larder_loader_open(&l, &c) < 0) {
        fprintf(stderr, "%s\n", larder_errmsg());
        abort();
    }
    return l;
}

static void train(larder_loader *l) {
    const larder_batch *b;
    int rc;
    while ((rc = larder_loader_next(l, &b)) >= 0 && rc != LARDER_END)
        if (rc == 0)
            must(larder_loader_done(l, b) == 0);
    must(rc == LARDER_END);
}

/* ---- what it finds --------------------------------------------------------------------------- */

/* One epoch of another process, which closes its loader, or is gone in the middle of things. Into
 * Redis all is written first: what a busy machine leaves over is given two seconds and no more. */
static void work(const char *cache, const char *recipe, bool killed) {
    int status;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        larder_loader *l = begin(cache, recipe, 1);
        train(l);
        while (strncmp(cache, "redis:", 6) == 0 && kit_stat(l, "redis_written") < N)
            kit_nap(0.01);
        if (killed)
            kill(getpid(), SIGKILL);
        larder_loader_close(&l);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(killed ? WIFSIGNALED(status) : status == 0);
}

static void finds_all(const char *cache, const char *recipe, bool killed) {
    larder_figures f = {.size = sizeof f};
    work(cache, recipe, killed);
    larder_loader *l = begin(cache, recipe, 2);
    train(l);
    check_ok(larder_loader_figures(l, 0, &f));
    if (f.hits != N || f.storage_bytes != 0)
        fail_msg("%s%s: %llu hits of %d, %llu bytes read", recipe, killed ? ", killed" : "",
                 (unsigned long long)f.hits, N, (unsigned long long)f.storage_bytes);
    larder_loader_close(&l);
}

/* TSan starts no threads after a fork of a process that had some. */
static void fork_or_skip(void) {
#if defined(__SANITIZE_THREAD__)
    print_message("skipped under TSan\n");
    skip();
#endif
}

static void in_a_daemon(void **st) {
    (void)st;
    fork_or_skip();
    static const char *const recipes[] = {"lru", "minio", "seneca", "quiver"};
    for (int killed = 0; killed < 2; killed++)
        for (size_t i = 0; i < sizeof recipes / sizeof *recipes; i++) {
            service s;
            char cache[400];
            start(&s);
            snprintf(cache, sizeof cache, "unix:%s?budget=100%%", s.path);
            finds_all(cache, recipes[i], killed);
            stop(&s);
        }
}

/* There a job that is killed may not have sent what it had made last. */
static void in_redis(void **st) {
    (void)st;
    static const char *const recipes[] = {"lru", "minio", "seneca"};
    kit_redis r;
    fork_or_skip();
    kit_redis_or_skip();
    kit_redis_start(&r, NULL);
    for (size_t i = 0; i < sizeof recipes / sizeof *recipes; i++) {
        char cache[128];
        snprintf(cache, sizeof cache, "redis://127.0.0.1:%u?budget=100%%&timeout=30s&shared=g%zu",
                 r.port, i);
        finds_all(cache, recipes[i], false);
    }
    kit_redis_stop(&r);
}

/* ---- what it is told ------------------------------------------------------------------------- */

static bool told(larder_loader *l, const char *a, const char *b) {
    const char *says;
    for (size_t i = 0; (says = look_note(l, i)); i++)
        if (strstr(says, a) && strstr(says, b))
            return true;
    return false;
}

static void another_cache_holds(void **st) {
    (void)st;
    service s;
    char cache[4][400];
    start(&s);
    const char *budgets[] = {"?budget=20%", "?budget=40%", "", "?budget=20%:50/50/0"};
    for (int i = 0; i < 4; i++)
        snprintf(cache[i], sizeof cache[i], "unix:%s%s", s.path, budgets[i]);
    larder_loader *first = begin(cache[0], "minio", 1), *same = begin(cache[0], "minio", 2);
    larder_loader *other = begin(cache[1], "seneca", 3), *any = begin(cache[2], "minio", 4);
    assert_null(look_note(first, 0));
    assert_null(look_note(same, 0));
    assert_null(look_note(any, 0)); /* it asked for nothing in particular */
    assert_true(told(other, "ruled by minio", "ods"));
    assert_true(told(other, "3.0 KiB", "40%"));
    assert_null(look_note(other, 2));
    larder_loader *split = begin(cache[3], "seneca", 5); /* pixels are another cache */
    assert_null(look_note(split, 0));
    larder_loader_close(&split);
    snprintf(cache[3], sizeof cache[3], "unix:%s?budget=20%%:10/90/0", s.path);
    split = begin(cache[3], "seneca", 5);
    assert_true(told(split, "split 50/50/0", "as this one asks"));
    assert_null(look_note(split, 1));
    larder_loader *all[] = {first, same, other, any, split};
    for (size_t i = 0; i < 5; i++)
        larder_loader_close(&all[i]);
    stop(&s);
}

/* A daemon that only the environment names stops nobody, but that it is not used is said. */
static void the_daemon_is_full(void **st) {
    (void)st;
    service s;
    start_with(&s, 16 << 10);
    setenv("LARDER_SOCKET", s.path, 1);
    larder_loader *l = begin("100%", "minio", 1);
    unsetenv("LARDER_SOCKET");
    assert_true(told(l, s.path, "one of its own"));
    train(l);
    larder_loader_close(&l);
    stop(&s);
}

/* A group refuses another policy; a budget is said. */
static void another_group_holds(void **st) {
    (void)st;
    kit_redis r;
    char cache[2][128];
    kit_redis_or_skip();
    kit_redis_start(&r, NULL);
    for (int i = 0; i < 2; i++)
        snprintf(cache[i], sizeof cache[i], "redis://127.0.0.1:%u?budget=%d%%&timeout=30s&shared=g",
                 r.port, 20 + 20 * i);
    larder_loader *first = begin(cache[0], "minio", 1), *other = begin(cache[1], "minio", 2);
    assert_null(look_note(first, 0));
    assert_true(told(other, "holds 3.0 KiB", "6.0 KiB"));
    larder_loader_close(&first);
    larder_loader_close(&other);
    kit_redis_stop(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_a_daemon),         cmocka_unit_test(in_redis),
        cmocka_unit_test(another_cache_holds), cmocka_unit_test(the_daemon_is_full),
        cmocka_unit_test(another_group_holds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
