/* A job in a user namespace that has no number for anybody, itself included, as `unshare -U` makes
 * one: every user is then shown to it by the number that it has itself, and is not believed. */
#include "base/file.h"
#include "base/keep.h"
#include "daemon_kit.h"
#include "disk_kit.h"
#include "see/discover.h"
#include "see/expose.h"
#include "unix/attach.h"
#include "unix/server_inside.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

enum { OTHER = 12345, JOB = 23456 };
enum { HOLDS, FAILS, NO_NAMESPACE = 77 };

static void become(uid_t uid) { must(setgid(uid) == 0 && setuid(uid) == 0); }

/* In a process of its own there. Does it hold, or is there none for this user on this system? */
static int inside(void (*check)(void)) {
    int status;
    pid_t child = fork();
    if (child == 0) {
        larder__server_trusts(geteuid()); /* what holds here is not what holds there */
        become(JOB);
        pid_t there = unshare(CLONE_NEWUSER) == 0 ? fork() : -1;
        if (there < 0)
            _exit(NO_NAMESPACE);
        if (there == 0) {
            check();
            _exit(HOLDS);
        }
        must(waitpid(there, &status, 0) == there);
        _exit(status == 0 ? HOLDS : FAILS);
    }
    if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status))
        return FAILS;
    return WEXITSTATUS(status);
}

static void judge(int result) {
    if (result == NO_NAMESPACE)
        skip_since("no user namespace can be made here");
    assert_int_equal(result, HOLDS);
}

static void refused(int rc, const char *word) {
    must(rc == LARDER_E_ARGS);
    must(strstr(larder_errmsg(), word) && strstr(larder_errmsg(), "may be anybody's"));
}

static const char *below(const char *name) {
    static char path[300];
    snprintf(path, sizeof path, "%s/%s", kit_door_folder, name);
    return path;
}

static int begin(void **st) {
    int rc = kit_door_make(st);
    return rc == 0 ? chmod(kit_door_folder, 0755) : rc;
}

/* ---- daemons --------------------------------------------------------------------------------- */

static void become_other(void *arg) {
    (void)arg;
    become(OTHER);
}

static void ask_daemon(void) {
    larder__door door = larder__door_at(kit_door);
    char *json = NULL;
    refused(larder__attach_status(&door, &json), "?owner=");
    door.owner = geteuid(); /* whoever it may be */
    must(larder__attach_status(&door, &json) == 0);
    larder_free(json);
}

static void the_daemon_of_another(void **st) {
    (void)st;
    root_or_skip();
    larder__server_conf conf = {.socket = kit_door, .mode = 0666, .cache = 16 << 20, .clients = 8};
    assert_int_equal(chmod(kit_door_folder, 0777), 0);
    kit_clock_stop(NULL);
    pid_t daemon = kit_daemon_start(&conf, become_other, NULL);
    int result = inside(ask_daemon);
    kit_clock_go_on();
    kit_daemon_kill(daemon);
    unlink(kit_door);
    judge(result);
}

static void trust_as_daemon(void) {
    must(!larder__server_trusts(geteuid()));
    must(larder__server_trusts(0));
}

static void a_client_of_a_daemon_there(void **st) {
    (void)st;
    root_or_skip();
    judge(inside(trust_as_daemon));
}

/* ---- files ----------------------------------------------------------------------------------- */

static void use_folder(void) {
    larder__disk *d = NULL;
    larder__disk_conf conf = disk_conf(below("theirs"), 64 << 20, 7, 10);
    char path[400];
    refused(larder__disk_open(&d, &conf), "belongs to another user");
    must(setenv("LARDER_CACHE_DIR", below("theirs"), 1) == 0);
    refused(larder__keep_path("x", path, sizeof path), "others may write there");
}

static void the_folder_of_another(void **st) {
    (void)st;
    root_or_skip();
    assert_int_equal(mkdir(below("theirs"), 0755), 0);
    assert_int_equal(chown(below("theirs"), OTHER, OTHER), 0);
    judge(inside(use_folder));
}

static void follow(void) {
    int fd;
    refused(larder__stream_open(&fd, below("link"), O_WRONLY), "is a link of another user");
    /* What the shell has opened is its own by any number. */
    must((fd = open("/dev/null", O_WRONLY)) >= 0);
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    must(larder__stream_open(&fd, path, O_WRONLY) == 0);
}

static void the_link_of_another(void **st) {
    (void)st;
    root_or_skip();
    assert_int_equal(symlink("/dev/null", below("link")), 0);
    assert_int_equal(lchown(below("link"), OTHER, OTHER), 0);
    judge(inside(follow));
}

/* ---- jobs that are seen ---------------------------------------------------------------------- */

static struct sockaddr_un name_of(uid_t user, socklen_t *size) {
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    int n = snprintf(a.sun_path + 1, sizeof a.sun_path - 1, LARDER__SEE_NAME "%ld.%ld.0",
                     (long)user, (long)getpid());
    *size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
    return a;
}

static int made_up; /* a listener of OTHER's, by the name of a job that there is not */

static void make_up(uid_t user) {
    socklen_t size;
    struct sockaddr_un a = name_of(user, &size);
    become(OTHER);
    made_up = socket(AF_UNIX, SOCK_STREAM, 0);
    must(bind(made_up, (struct sockaddr *)&a, size) == 0 && listen(made_up, 8) == 0);
}

static void answer(void) {
    static const char text[] = "{\"line\": \"larder\", \"version\": 1, \"jobs\": 1}\n"
                               "{\"line\": \"job\", \"pid\": 4000000000, \"number\": 7}\n"
                               "{\"line\": \"end\"}\n";
    for (int fd; (fd = accept(made_up, NULL, NULL)) >= 0; close(fd))
        if (send(fd, text, sizeof text - 1, MSG_NOSIGNAL) < 0)
            continue;
}

static void look_around(void) {
    larder__jobs jobs = {0};
    must(larder__discover(&jobs, 5) == 0);
    for (size_t i = 0; i < jobs.count; i++)
        must(jobs.at[i].pid != 4000000000);
    larder__jobs_free(&jobs);
}

/* The number that such a process has, as it would say itself. */
static uid_t number_inside(void) {
    unsigned number = 65534;
    FILE *f = fopen("/proc/sys/kernel/overflowuid", "re");
    if (f) {
        assert_int_equal(fscanf(f, "%9u", &number), 1);
        fclose(f);
    }
    return number;
}

static void a_made_up_job(void **st) {
    (void)st;
    int ready[2];
    char byte = 1;
    root_or_skip();
    uid_t user = number_inside();
    assert_int_equal(pipe(ready), 0);
    pid_t other = fork();
    assert_true(other >= 0);
    if (other == 0) {
        make_up(user);
        must(write(ready[1], &byte, 1) == 1);
        answer();
        _exit(0);
    }
    close(ready[1]); /* or one that ended would be waited for */
    assert_int_equal(read(ready[0], &byte, 1), 1);
    int result = inside(look_around);
    kill(other, SIGKILL);
    assert_int_equal(waitpid(other, NULL, 0), other);
    close(ready[0]);
    judge(result);
}

static void look(void *arg, larder__job *out) { (void)arg, (void)out; }

/* Whoever asks has the job's number, and that is all there is to tell of him. */
static void ask_own_job(void) {
    larder__exposed one;
    socklen_t size;
    char byte;
    struct sockaddr_un a = name_of(geteuid(), &size);
    must(larder__expose(&one, look, NULL) == 0);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    must(connect(fd, (struct sockaddr *)&a, size) == 0);
    must(read(fd, &byte, 1) == 0);
    close(fd);
    larder__expose_end(&one);
}

static void a_job_that_is_asked(void **st) {
    (void)st;
    root_or_skip();
    judge(inside(ask_own_job));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_daemon_of_another, begin, kit_door_remove),
        cmocka_unit_test(a_client_of_a_daemon_there),
        cmocka_unit_test_setup_teardown(the_folder_of_another, begin, kit_door_remove),
        cmocka_unit_test_setup_teardown(the_link_of_another, begin, kit_door_remove),
        cmocka_unit_test(a_made_up_job),
        cmocka_unit_test(a_job_that_is_asked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
