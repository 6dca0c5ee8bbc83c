/* A daemon that goes away, or stands still, while a job asks it something. Daemons here are threads
 * of this process; one that stands still is a socket that nobody accepts at. No test asserts a time
 * but that what must not take minutes does not. */
#include "base/clock.h"
#include "base/world.h"
#include "daemon_kit.h"
#include "unix/attach.h"
#include "unix/connection.h"
#include "unix/frame.h"
#include "unix/rank_link.h"
#include "unix/server.h"

#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { KEYS = 5000, SIZE = 100 };

static larder__attach_conf conf_of(uint64_t keys) {
    return (larder__attach_conf){.door = larder__door_at(kit_door),
                                 .hello = {.batch = 10,
                                           .identity = 3,
                                           .about.keys = keys,
                                           .payload = keys * SIZE,
                                           .about.share = {1},
                                           .size = SIZE,
                                           .about.policy = "lru",
                                           .name = "test"}};
}

/* ---- it goes away ---------------------------------------------------------------------------- */

static void *serve(void *server) {
    larder__server_run(server);
    return NULL;
}

static void by_pick(larder__cache *c) {
    larder_rng rng;
    uint64_t key;
    larder_rng_seed(&rng, 1, 0);
    assert_false(larder__cache_pick(c, &rng, &key));
}
static void by_stream(larder__cache *c) {
    larder__cache_stream(c, &(larder_stream){.seed = 1}, false);
}
static void by_score(larder__cache *c) {
    larder__cache_score(c, (uint64_t[]){1}, (float[]){0.5f}, 1);
}
static void by_accuracy(larder__cache *c) { larder__cache_accuracy(c, 0.5); }
static void by_epoch(larder__cache *c) { larder__cache_epoch(c, 1); }
static void by_fetch(larder__cache *c) {
    uint64_t keys[4];
    assert_int_equal(larder__cache_fetch(c, keys, 4), 0);
}

static uint64_t count_residents(const larder__cache *c) {
    uint64_t n = 0;
    for (uint64_t k = 0; k < KEYS; k++)
        n += larder__cache_resident(c, k);
    return n;
}

/* Residents are looked up at any time, also when another question than a claim has just found that
 * the daemon and its memory are gone. */
static void residents_stay_readable(void **st) {
    (void)st;
    void (*const ways[])(larder__cache *) = {by_pick,     by_stream, by_score,
                                             by_accuracy, by_epoch,  by_fetch};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        larder__server *server;
        pthread_t thread;
        larder__cache *c;
        larder__ticket t;
        larder_access a = {.key = 7, .size = SIZE, .next_use = LARDER_UNKNOWN, .score = NAN};
        larder__server_conf conf = {
            .socket = kit_door, .mode = 0600, .cache = 16 << 20, .clients = 8};
        larder__attach_conf attach = conf_of(KEYS);
        char why[300] = "";
        check_ok(larder__server_open(&server, &conf));
        assert_int_equal(pthread_create(&thread, NULL, serve, server), 0);
        check_ok(larder__attach_open(&c, &attach));
        check_ok(larder__cache_claim(c, &a, 1, &t));
        assert_int_equal(t.task, LARDER__MAKE);
        larder__cache_fail(c, &t, LARDER_E_CANCELLED, "");
        assert_int_equal(count_residents(c), 1);
        larder__server_stop(server);
        pthread_join(thread, NULL);
        larder__server_close(&server);
        ways[i](c);
        larder__cache_note(c, why, sizeof why);
        assert_true(why[0]); /* it has found out */
        assert_int_equal(count_residents(c), 0);
        larder__cache_close(&c);
    }
}

/* ---- it stands still ------------------------------------------------------------------------- */

enum { MANY = 10000000 }; /* attaching to a daemon that is alive may take 102 seconds */

static int listen_here(void) {
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    memcpy(a.sun_path, kit_door, strlen(kit_door));
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(listen(fd, 8), 0);
    return fd;
}

static int take_hello(int listener) {
    larder__inbox in;
    larder_reader body;
    uint16_t type;
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC), rc;
    larder__inbox_init(&in);
    while ((rc = larder__inbox_next(&in, &type, &body)) == 0 && larder__inbox_read(&in, fd) > 0) {
    }
    must(rc == 1 && type == LARDER__MSG_HELLO);
    larder__inbox_free(&in);
    return fd;
}

static int lend(uint64_t bytes) {
    int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    must(fd >= 0 && ftruncate(fd, (off_t)bytes) == 0 &&
         fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0);
    return fd;
}

static void welcome(int to) {
    larder_writer body = {0};
    larder__welcome w = {.version = LARDER__WIRE_VERSION,
                         .arena_bytes = 1 << 20,
                         .about.keys = MANY,
                         .about.budget = SIZE,
                         .about.policy = "lru",
                         .about.share = {1}};
    int fds[] = {lend(1 << 20), lend(larder__table_bytes(MANY))};
    larder__welcome_write(&w, &body);
    must(larder__frame_send(to, LARDER__MSG_WELCOME, body.bytes, body.size, fds, 2) == 0);
    larder__writer_free(&body);
    close(fds[0]);
    close(fds[1]);
}

/* Lets one in, slowly; leaves; is there once more and says nothing. */
static void *stand_still(void *listener) {
    const char *fault = NULL;
    int fd = take_hello(*(int *)listener);
    must(larder__frame_send(fd, LARDER__MSG_COMING, NULL, 0, NULL, 0) == 0);
    sleep(LARDER__ANSWER_SECONDS + 1); /* it is at its tables */
    welcome(fd);
    close(fd);
    fd = take_hello(*(int *)listener);
    struct pollfd on = {.fd = fd, .events = POLLIN};
    if (poll(&on, 1, 60000) != 1)
        fault = "it waits for minutes for one that shows no sign of life";
    close(fd);
    return (void *)(uintptr_t)fault;
}

static void ask(larder__cache *c) {
    larder_access a = {.key = 1, .size = SIZE, .next_use = LARDER_UNKNOWN, .score = NAN};
    larder__ticket t;
    check_ok(larder__cache_claim(c, &a, 1, &t));
    assert_int_equal(t.task, LARDER__MAKE);
    larder__cache_fail(c, &t, LARDER_E_CANCELLED, "");
}

/* One that is alive may take its time; one that shows nothing of itself is not waited for longer
 * the more samples there are, neither at the opening nor in the middle of a run. */
static void only_the_living_are_waited_for(void **st) {
    (void)st;
    larder__cache *c;
    larder__attach_conf conf = conf_of(MANY);
    pthread_t thread;
    void *fault = NULL;
    int listener = listen_here();
    assert_int_equal(pthread_create(&thread, NULL, stand_still, &listener), 0);
    check_ok(larder__attach_open(&c, &conf));
    do { /* finds it gone, and looks for it now and then */
        ask(c);
        usleep(10000);
    } while (pthread_tryjoin_np(thread, &fault) != 0);
    larder__cache_close(&c);
    if (fault)
        fail_msg("%s", (const char *)fault);
    conf.await.seconds = 0.1;
    double began = larder__now(); /* nobody accepts */
    assert_int_equal(larder__attach_open(&c, &conf), LARDER_E_IO);
    assert_non_null(strstr(larder_errmsg(), "does not answer"));
    assert_non_null(strstr(larder_errmsg(), kit_door));
    assert_true(larder__now() - began < 60);
    close(listener);
}

/* Of a process that is stopped for a minute whenever it waits, or a machine that is. */
static double our_now(void) {
    static _Atomic int looks;
    return larder__now() + 60 * atomic_fetch_add(&looks, 1);
}

static void *take_a_moment(void *listener) {
    int fd = take_hello(*(int *)listener);
    usleep(300000); /* and the job looks several times meanwhile */
    welcome(fd);
    close(fd);
    return NULL;
}

/* Time in which the job stood still itself is not held against the daemon. */
static void who_stood_still_waits_on(void **st) {
    (void)st;
    larder__cache *c;
    larder__attach_conf conf = conf_of(MANY);
    pthread_t thread;
    int listener = listen_here();
    const larder__world *real = larder__world_use(NULL);
    larder__world ours = *real;
    ours.now = our_now;
    larder__world_use(&ours);
    assert_int_equal(pthread_create(&thread, NULL, take_a_moment, &listener), 0);
    int rc = larder__attach_open(&c, &conf);
    pthread_join(thread, NULL);
    check_ok(rc);
    larder__cache_close(&c);
    larder__world_use(real);
    close(listener);
}

static bool give_up(void *left) { return --*(int *)left > 0; }

/* Also while an answer is waited for: it is looked for only once. */
static void opening_is_given_up(void **st) {
    (void)st;
    larder__cache *c;
    larder__unix_ranks_link *link;
    int left = 3, listener = listen_here();
    larder__attach_conf conf = conf_of(KEYS);
    conf.await = (larder__await){.still = give_up, .arg = &left};
    assert_int_equal(larder__attach_open(&c, &conf), LARDER_E_CANCELLED);
    assert_int_equal(left, 0);
    left = 3;
    larder__unix_ranks_conf ranks = {.door = conf.door,
                                     .join = {.world = 1,
                                              .batch = 10,
                                              .turns = 2,
                                              .keys = KEYS,
                                              .payload = KEYS * SIZE,
                                              .want = KEYS * SIZE,
                                              .job = "run",
                                              .name = "test"},
                                     .patience = 30,
                                     .await = conf.await};
    assert_int_equal(larder__unix_ranks_open(&link, &ranks), LARDER_E_CANCELLED);
    assert_int_equal(left, 0);
    close(listener);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(residents_stay_readable, kit_door_make, kit_door_remove),
        cmocka_unit_test_setup_teardown(only_the_living_are_waited_for, kit_door_make,
                                        kit_door_remove),
        cmocka_unit_test_setup_teardown(who_stood_still_waits_on, kit_door_make, kit_door_remove),
        cmocka_unit_test_setup_teardown(opening_is_given_up, kit_door_make, kit_door_remove),
    };
    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
