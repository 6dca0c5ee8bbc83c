/* Whom a client believes: a daemon of another user is refused, whatever it would say, and so is a
 * usual place that others could have made; memory is mapped only if it cannot be pulled away. */
#include "base/stat.h"
#include "daemon_kit.h"
#include "unix/attach.h"
#include "unix/frame.h"
#include "unix/lent_memory.h"
#include "unix/rank_link.h"
#include "unix/rank_message.h"
#include "unix/tray.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

enum { KEYS = 50, SIZE = 100, NOBODY = 65534 };

/* Nobody loses patience with a daemon that gets no processor for seconds. */
static int begin(void **st) {
    kit_clock_stop(NULL);
    return kit_door_make(st);
}

static int end(void **st) {
    kit_clock_go_on();
    return kit_door_remove(st);
}

static larder__attach_conf conf_of(const larder__door *door) {
    return (larder__attach_conf){.door = *door,
                                 .hello = {.batch = 10,
                                           .identity = 3,
                                           .about.keys = KEYS,
                                           .payload = KEYS * SIZE,
                                           .about.share = {1},
                                           .about.policy = "lru",
                                           .name = "test"}};
}

static int attach(const larder__door *door) {
    larder__cache *c = NULL;
    larder__attach_conf conf = conf_of(door);
    int rc = larder__attach_open(&c, &conf);
    larder__cache_close(&c);
    return rc;
}

static int join(const larder__door *door) {
    larder__unix_ranks_link *link = NULL;
    larder__unix_ranks_conf conf = {.door = *door,
                                    .join = {.world = 1,
                                             .batch = 10,
                                             .turns = 2,
                                             .identity = 3,
                                             .keys = KEYS,
                                             .payload = KEYS * SIZE,
                                             .want = KEYS * SIZE,
                                             .job = "run",
                                             .name = "test"},
                                    .patience = 30};
    int rc = larder__unix_ranks_open(&link, &conf);
    if (rc == 0)
        larder__unix_ranks_close(&link);
    return rc;
}

static int ask_status(const larder__door *door) {
    char *json = NULL;
    int rc = larder__attach_status(door, &json);
    larder_free(json);
    return rc;
}

/* ---- whose it is ----------------------------------------------------------------------------- */

/* A real daemon, which another user has started at that place. */
static void become(void *arg) {
    const uid_t *uid = arg;
    must(setgid(*uid) == 0 && setuid(*uid) == 0);
}

static pid_t daemon_of(uid_t uid) {
    larder__server_conf conf = {.socket = kit_door, .mode = 0666, .cache = 16 << 20, .clients = 8};
    return kit_daemon_start(&conf, become, &uid);
}

static void end_daemon(pid_t pid) {
    kit_daemon_kill(pid);
    unlink(kit_door);
}

static void refused(int rc, const char *word) {
    assert_int_equal(rc, LARDER_E_ARGS);
    if (!strstr(larder_errmsg(), word))
        fail_msg("\"%s\" does not say %s", larder_errmsg(), word);
}

static void a_foreign_daemon(void **st) {
    (void)st;
    root_or_skip();
    assert_int_equal(chmod(kit_door_folder, 0777), 0);
    larder__door door = larder__door_at(kit_door);
    pid_t daemon = daemon_of(NOBODY);
    int (*const ways[])(const larder__door *) = {attach, join, ask_status};
    for (size_t i = 0; i < 3; i++) {
        door.owner = 0;
        refused(ways[i](&door), "?owner=");
        assert_non_null(strstr(larder_errmsg(), "--owner "));
        assert_non_null(strstr(larder_errmsg(), kit_door));
        door.owner = NOBODY; /* it is trusted by name */
        check_ok(ways[i](&door));
    }
    end_daemon(daemon);
}

/* One that takes the place of the own daemon while a job runs: it goes on without, and is told. */
static void a_foreign_successor(void **st) {
    (void)st;
    larder__stats *stats;
    larder__cache *c = NULL;
    root_or_skip();
    assert_int_equal(chmod(kit_door_folder, 0777), 0);
    check_ok(larder__stats_open(&stats));
    pid_t daemon = daemon_of(0);
    larder__door door = larder__door_at(kit_door);
    larder__attach_conf conf = conf_of(&door);
    conf.stats = stats;
    check_ok(larder__attach_open(&c, &conf));
    end_daemon(daemon);
    kit_clock_go_on();
    char lock[320];
    snprintf(lock, sizeof lock, "%s.lock", kit_door);
    unlink(lock);
    daemon = daemon_of(NOBODY);
    while (!larder__note_at(stats, 0)) { /* it looks now and then */
        larder_access a = {.key = 1, .size = SIZE};
        larder__ticket t;
        check_ok(larder__cache_claim(c, &a, 1, &t));
        assert_int_equal(t.task, LARDER__MAKE); /* by itself */
        larder__cache_fail(c, &t, LARDER_E_CANCELLED, "");
        usleep(10000);
    }
    assert_non_null(strstr(larder__note_at(stats, 0), "?owner="));
    larder__cache_close(&c);
    end_daemon(daemon);
    larder__stats_close(&stats);
}

/* One's own daemon is oneself. */
static void ones_own(void **st) {
    (void)st;
    larder__door door = larder__door_at(kit_door);
    pid_t daemon = daemon_of(geteuid());
    check_ok(attach(&door));
    end_daemon(daemon);
}

/* Root may read everything anyway. */
static void roots(void **st) {
    (void)st;
    root_or_skip();
    assert_int_equal(chmod(kit_door_folder, 0777), 0);
    larder__door door = larder__door_at(kit_door);
    pid_t daemon = daemon_of(0), child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        must(setgid(NOBODY) == 0 && setuid(NOBODY) == 0);
        must(attach(&door) == 0);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    end_daemon(daemon);
}

/* The name in a cache's text, in the environment and as a number. */
static void owners_by_name(void **st) {
    (void)st;
    larder__door door;
    uint32_t uid = 5;
    check_ok(larder__door_owner("root", &uid));
    assert_int_equal(uid, 0);
    check_ok(larder__door_owner("1234", &uid));
    assert_int_equal(uid, 1234);
    refused(larder__door_owner("no such user", &uid), "no such user");
    refused(larder__door_owner("12x", &uid), "12x");
    refused(larder__door_owner("", &uid), "owner=");
    setenv("LARDER_SOCKET", "/run/x?owner=77", 1);
    check_ok(larder__door_usual(&door, false));
    assert_string_equal(door.path, "/run/x");
    assert_int_equal(door.owner, 77);
    setenv("LARDER_SOCKET", "/run/x?user=77", 1);
    refused(larder__door_usual(&door, false), "?owner=USER");
    unsetenv("LARDER_SOCKET");
}

/* ---- the usual place ------------------------------------------------------------------------- */

static void the_runtime_folder(void **st) {
    (void)st;
    larder__door door;
    char want[400], link[300];
    unsetenv("LARDER_SOCKET");
    setenv("XDG_RUNTIME_DIR", kit_door_folder, 1);
    assert_int_equal(chmod(kit_door_folder, 0700), 0);
    check_ok(larder__door_usual(&door, true));
    snprintf(want, sizeof want, "%s/larder.sock", kit_door_folder);
    assert_string_equal(door.path, want);
    snprintf(want, sizeof want, "/tmp/larder-%u/larder.sock", (unsigned)geteuid());
    assert_int_equal(chmod(kit_door_folder, 0770), 0); /* others may write there: another place */
    check_ok(larder__door_usual(&door, false));
    assert_string_equal(door.path, want);
    assert_int_equal(chmod(kit_door_folder, 0700), 0);
    snprintf(link, sizeof link, "%s/link", kit_door_folder); /* a link may lead anywhere */
    assert_int_equal(symlink(kit_door_folder, link), 0);
    setenv("XDG_RUNTIME_DIR", link, 1);
    check_ok(larder__door_usual(&door, false));
    assert_string_equal(door.path, want);
    unlink(link);
    unsetenv("XDG_RUNTIME_DIR");
}

/* As a user of whom there is surely no folder yet: in a process of its own, since it cannot come
 * back. */
static void in_tmp(uid_t uid, const char *made, int wrong) {
    larder__door door;
    char own[64];
    snprintf(own, sizeof own, "/tmp/larder-%u", (unsigned)uid);
    must(setgid(uid) == 0 && setuid(uid) == 0);
    if (wrong) { /* somebody else's folder, or a link */
        must(larder__door_usual(&door, false) == LARDER_E_ARGS);
        must(strstr(larder_errmsg(), own));
        must(larder__door_usual(&door, true) == LARDER_E_ARGS);
        _exit(0);
    }
    struct stat is;
    must(larder__door_usual(&door, false) == 0 && lstat(own, &is) < 0);
    must(attach(&door) == LARDER_E_IO); /* away, not wrong: whoever serves makes the folder */
    must(larder__door_usual(&door, true) == 0 && strcmp(door.path, made) == 0);
    must(lstat(own, &is) == 0 && S_ISDIR(is.st_mode) && (is.st_mode & 0777) == 0700);
    must(larder__door_usual(&door, true) == 0); /* it is there already */
    must(chmod(own, 0750) == 0 && larder__door_usual(&door, true) == LARDER_E_ARGS);
    must(rmdir(own) == 0);
    _exit(0);
}

static void run_in_tmp(uid_t uid, int wrong) {
    char made[80];
    int status;
    snprintf(made, sizeof made, "/tmp/larder-%u/larder.sock", (unsigned)uid);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        in_tmp(uid, made, wrong);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static void the_folder_in_tmp(void **st) {
    (void)st;
    char own[64];
    uid_t uid = 1000000 + (uid_t)getpid();
    root_or_skip();
    unsetenv("LARDER_SOCKET");
    unsetenv("XDG_RUNTIME_DIR");
    snprintf(own, sizeof own, "/tmp/larder-%u", (unsigned)uid);
    run_in_tmp(uid, 0);
    assert_int_equal(mkdir(own, 0700), 0); /* root's, and it was first */
    run_in_tmp(uid, 1);
    assert_int_equal(rmdir(own), 0);
    assert_int_equal(symlink(kit_door_folder, own), 0);
    assert_int_equal(lchown(own, uid, uid), 0); /* even one of its own */
    assert_int_equal(chown(kit_door_folder, uid, uid), 0);
    run_in_tmp(uid, 1);
    assert_int_equal(chown(kit_door_folder, 0, 0), 0);
    assert_int_equal(unlink(own), 0);
}

/* ---- memory ---------------------------------------------------------------------------------- */

typedef enum { GOOD, MISSING, SMALL, UNSEALED, GROWING, FILE_ON_DISK, PIPE, FAULTS } fault;

static int memory(uint64_t bytes, fault f) {
    int ends[2], fd;
    if (f == MISSING)
        return -1;
    if (f == PIPE) {
        assert_int_equal(pipe(ends), 0);
        close(ends[1]);
        return ends[0];
    }
    if (f == FILE_ON_DISK) {
        char file[300];
        snprintf(file, sizeof file, "%s/file", kit_door_folder);
        fd = open(file, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        assert_true(fd >= 0);
        assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
        return fd;
    }
    fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, (off_t)(f == SMALL ? bytes - 1 : bytes)), 0);
    int seals = f == UNSEALED ? 0 : f == GROWING ? F_SEAL_SHRINK : F_SEAL_SHRINK | F_SEAL_GROW;
    assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
    return fd;
}

typedef struct fake { /* a daemon of one's own user that means no good: one answer */
    int listener;
    uint16_t answer;
    unsigned char body[256];
    size_t size;
    int fds[LARDER__FRAME_FDS];
    size_t count;
} fake;

static void *run_fake(void *arg) {
    fake *f = arg;
    char greeting[4096];
    int fd = accept(f->listener, NULL, NULL);
    if (fd < 0 || read(fd, greeting, sizeof greeting) <= 0 ||
        larder__frame_send(fd, f->answer, f->body, f->size, f->fds, f->count) < 0)
        return "the fake daemon was not heard";
    for (size_t i = 0; i < f->count; i++) /* and away with the ground; a sealed one stays */
        if (ftruncate(f->fds[i], 0) < 0)
            continue;
    while (read(fd, greeting, sizeof greeting) > 0) {
    }
    close(fd);
    return NULL;
}

/* Answers one who attaches, with this fault in the `at`-th piece of memory. */
static int meet_fake(int (*way)(const larder__door *), uint16_t answer, const larder_writer *body,
                     const uint64_t *bytes, size_t count, size_t at, fault wrong) {
    fake f = {.answer = answer, .size = body->size};
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    pthread_t thread;
    void *said;
    larder__door door = larder__door_at(kit_door);
    memcpy(f.body, body->bytes, body->size);
    for (size_t i = 0; i < count; i++) {
        int fd = memory(bytes[i], i == at ? wrong : GOOD);
        if (fd >= 0)
            f.fds[f.count++] = fd;
    }
    memcpy(a.sun_path, kit_door, strlen(kit_door));
    unlink(kit_door);
    f.listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(f.listener, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(listen(f.listener, 1), 0);
    assert_int_equal(pthread_create(&thread, NULL, run_fake, &f), 0);
    int rc = way(&door);
    pthread_join(thread, &said);
    if (said)
        fail_msg("%s", (const char *)said);
    close(f.listener);
    for (size_t i = 0; i < f.count; i++)
        close(f.fds[i]);
    return rc;
}

static void try_all(int (*way)(const larder__door *), uint16_t answer, const larder_writer *body,
                    const uint64_t *bytes, size_t count) {
    check_ok(meet_fake(way, answer, body, bytes, count, 0, GOOD));
    for (size_t at = 0; at < count; at++)
        for (fault f = MISSING; f < FAULTS; f++) {
            int rc = meet_fake(way, answer, body, bytes, count, at, f);
            if (rc != LARDER_E_FORMAT || !strstr(larder_errmsg(), "not mapped"))
                fail_msg("piece %zu with fault %d: %d, %s", at, (int)f, rc, larder_errmsg());
        }
}

static void memory_of_a_cache(void **st) {
    (void)st;
    larder_writer body = {0};
    larder__welcome w = {.version = LARDER__WIRE_VERSION,
                         .arena_bytes = 1 << 20,
                         .about.keys = KEYS,
                         .about.share = {1},
                         .about.budget = KEYS * SIZE,
                         .pins = 16,
                         .tray = 1};
    larder__welcome_write(&w, &body);
    const uint64_t bytes[] = {1 << 20, larder__table_bytes(KEYS), sizeof(larder__pins),
                              sizeof(larder__tray)};
    try_all(attach, LARDER__MSG_WELCOME, &body, bytes, 4);
    larder__writer_free(&body);
}

static void memory_of_ranks(void **st) {
    (void)st;
    larder_writer body = {0};
    larder__joined j = {
        .version = LARDER__WIRE_VERSION, .arena_bytes = 1 << 20, .budget = KEYS * SIZE};
    larder__joined_write(&j, &body);
    const uint64_t bytes[] = {1 << 20};
    try_all(join, LARDER__MSG_JOINED, &body, bytes, 1);
    larder__writer_free(&body);
}

/* ---- no room --------------------------------------------------------------------------------- */

enum { TRIES = 100 };

/* One that refuses whoever comes and hangs up, whether it was told something by then or not. */
static void *turn_away(void *arg) {
    for (int i = 0; i < TRIES; i++) {
        larder_writer w = {0};
        int fd = accept(*(int *)arg, NULL, NULL);
        larder__refused_write(&w, LARDER_E_FULL, "there is no room");
        int rc =
            fd < 0 ? -1 : larder__frame_send(fd, LARDER__MSG_REFUSED, w.bytes, w.size, NULL, 0);
        larder__writer_free(&w);
        close(fd);
        if (rc < 0)
            return "nobody was turned away";
    }
    return NULL;
}

static void turned_away(void **st) {
    (void)st;
    int (*const ways[])(const larder__door *) = {attach, join, ask_status};
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    larder__door door = larder__door_at(kit_door);
    pthread_t thread;
    void *said;
    memcpy(a.sun_path, kit_door, strlen(kit_door));
    int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(listen(listener, 1), 0);
    for (size_t way = 0; way < 3; way++) {
        assert_int_equal(pthread_create(&thread, NULL, turn_away, &listener), 0);
        for (int i = 0; i < TRIES; i++) {
            int rc = ways[way](&door);
            if (rc != LARDER_E_FULL || !strstr(larder_errmsg(), "there is no room"))
                fail_msg("way %zu: %d, %s", way, rc, larder_errmsg());
        }
        pthread_join(thread, &said);
        assert_null(said);
    }
    close(listener);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_foreign_daemon, begin, end),
        cmocka_unit_test_setup_teardown(a_foreign_successor, begin, end),
        cmocka_unit_test_setup_teardown(ones_own, begin, end),
        cmocka_unit_test_setup_teardown(roots, begin, end),
        cmocka_unit_test(owners_by_name),
        cmocka_unit_test_setup_teardown(the_runtime_folder, begin, end),
        cmocka_unit_test_setup_teardown(the_folder_in_tmp, begin, end),
        cmocka_unit_test_setup_teardown(memory_of_a_cache, begin, end),
        cmocka_unit_test_setup_teardown(memory_of_ranks, begin, end),
        cmocka_unit_test_setup_teardown(turned_away, begin, end),
    };
    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
