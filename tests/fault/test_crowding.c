/* What a job of another user takes of the daemon: memory, time, descriptors and seats. However much
 * that is, root's jobs are served on. */
#include "base/mem.h"
#include "shared/relay.h"
#include "stranger_kit.h"
#include "unix/rank_link.h"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CLIENTS = 200 };

static void serve(void) { stranger_serve_many(true, CLIENTS); }

static int say_hello(stranger_line *c, const larder__hello *about) {
    larder__welcome m;
    return stranger_greet(c, about, &m);
}

/* Of STATUS, whose answer may be there already. */
static double read_figure(stranger_line *c, const char *name) {
    larder_reader body;
    check_ok(stranger_hear(c, LARDER__MSG_STATUS_IS, &body));
    char *json = strndup((const char *)body.at, larder__read_left(&body));
    assert_non_null(json);
    const char *at = strstr(json, name);
    assert_non_null(at);
    double value = strtod(at + strlen(name) + strspn(at + strlen(name), "\": "), NULL);
    free(json);
    return value;
}

static void ask_status(stranger_line *c) {
    check_ok(larder__frame_send(c->fd, LARDER__MSG_STATUS, NULL, 0, NULL, 0));
}

static double ask_figure(stranger_line *c, const char *name) {
    ask_status(c);
    return read_figure(c, name);
}

static bool shows(stranger_line *c, const char *name) {
    larder_reader body;
    ask_status(c);
    check_ok(stranger_hear(c, LARDER__MSG_STATUS_IS, &body));
    return memmem(body.at, larder__read_left(&body), name, strlen(name)) != NULL;
}

static blkcnt_t blocks(int fd) {
    struct stat st;
    assert_int_equal(fstat(fd, &st), 0);
    return st.st_blocks;
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* Descriptors of what it could read that it keeps hold no memory once another data set takes the
 * place of that, bit by bit; what it could write, pins and tray, is its own. */
static void it_keeps_what_was_lent(void **st) {
    (void)st;
    root_or_skip();
    serve();
    stranger_line root, spy, next;
    larder__hello h = stranger_hello();
    int kept[LARDER__FRAME_FDS];
    stranger_knock(&root, 0);
    stranger_knock(&spy, STRANGER_NOBODY);
    h.payload = STRANGER_CACHE;
    snprintf(h.budget, sizeof h.budget, "150MiB"); /* two of these do not fit */
    check_ok(say_hello(&spy, &h));
    for (int i = 0; i < LARDER__FRAME_FDS; i++) {
        kept[i] = larder__inbox_take_fd(&spy.in);
        assert_true(kept[i] >= 0);
    }
    for (int i = 2; i < 4; i++)
        assert_int_equal(pwrite(kept[i], "x", 1, 5000), 1);
    for (int i = 0; i < 4; i++)
        assert_true(blocks(kept[i]) > 0);
    stranger_hang_up(&spy);
    while (ask_figure(&root, "\"jobs\"") > 0) { /* until that was heard */
    }
    assert_true(blocks(kept[0]) > 0); /* the data set stays for whoever comes next */
    h.identity++;
    stranger_knock(&next, STRANGER_NOBODY);
    check_ok(say_hello(&next, &h));
    while (blocks(kept[0]))
        assert_true(ask_figure(&root, "\"memory_bytes\"") <= STRANGER_CACHE + (12 << 20));
    assert_int_equal(blocks(kept[1]), 0);
    for (int i = 0; i < 4; i++)
        close(kept[i]);
    stranger_hang_up(&next);
    stranger_hang_up(&root);
}

static void *write_from(void *arg) {
    void *const *both = arg;
    ssize_t n = pwrite(*(const int *)both[0], both[1], 1, 0);
    (void)n;
    return NULL;
}

/* Writes there from memory that does not come, until it is killed: the kernel lets nobody else at
 * the file's length or pages meanwhile. Says so when it is at that; false: it cannot be done here.
 */
static void write_for_ever(int fd, int ready) {
    struct uffdio_api api = {.api = UFFD_API};
    struct uffd_msg wanted;
    pthread_t thread;
    int faults = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
    void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct uffdio_register all = {.range = {.start = (uintptr_t)page, .len = 4096},
                                  .mode = UFFDIO_REGISTER_MODE_MISSING};
    void *both[] = {&fd, page};
    bool can = faults >= 0 && page != MAP_FAILED && ioctl(faults, UFFDIO_API, &api) == 0 &&
               ioctl(faults, UFFDIO_REGISTER, &all) == 0 &&
               pthread_create(&thread, NULL, write_from, both) == 0 &&
               read(faults, &wanted, sizeof wanted) == sizeof wanted;
    must(write(ready, &can, 1) == 1);
    for (;;)
        pause();
}

/* Whoever is in the middle of writing to what it was lent, for as long as it likes, holds nobody up
 * when it leaves. */
static void it_never_ends_writing(void **st) {
    (void)st;
    root_or_skip();
    serve();
    stranger_line root, spy;
    const larder__hello h = stranger_hello();
    int kept[LARDER__FRAME_FDS], ready[2];
    pid_t writers[LARDER__FRAME_FDS];
    bool can = true;
    stranger_knock(&root, 0);
    stranger_knock(&spy, STRANGER_NOBODY);
    check_ok(say_hello(&spy, &h));
    assert_int_equal(pipe(ready), 0);
    for (int i = 0; i < LARDER__FRAME_FDS; i++) {
        kept[i] = larder__inbox_take_fd(&spy.in);
        assert_true(kept[i] >= 0);
    }
    for (int i = 2; i < 4; i++) { /* pins and tray */
        writers[i] = fork();
        assert_true(writers[i] >= 0);
        if (writers[i] == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            write_for_ever(kept[i], ready[1]);
        }
        bool so;
        assert_int_equal(read(ready[0], &so, 1), 1);
        can &= so;
    }
    shutdown(spy.fd, SHUT_RDWR); /* the writers have it, too */
    stranger_hang_up(&spy);
    while (can && ask_figure(&root, "\"jobs\"") > 0) {
    }
    for (int i = 2; i < 4; i++) {
        kill(writers[i], SIGKILL);
        assert_int_equal(waitpid(writers[i], NULL, 0), writers[i]);
    }
    for (int i = 0; i < LARDER__FRAME_FDS; i++)
        close(kept[i]);
    close(ready[0]);
    close(ready[1]);
    stranger_hang_up(&root);
    if (!can)
        skip_since("no userfaultfd here to write from");
}

static larder__server *ending;
static void end_server(int signal) {
    (void)signal;
    larder__server_stop(ending);
}

static void check_sample(larder_buf *b, uint64_t key) {
    static unsigned char right[STRANGER_LARGE];
    stranger_paint(right, key, 0);
    assert_memory_equal(larder_buf_data(b), right, stranger_size(key));
}

/* A daemon that ends leaves jobs what they read, and the pins they read it by. */
static void a_daemon_that_ends(void **st) {
    (void)st;
    larder__server_conf conf = {
        .socket = kit_door, .mode = 0600, .cache = STRANGER_CACHE, .clients = 8};
    kit_clock_stop(NULL);
    check_ok(larder__server_open(&ending, &conf));
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        signal(SIGTERM, end_server);
        larder__server_run(ending);
        larder__server_close(&ending);
        _exit(0);
    }
    stranger job = {.lie = 0};
    larder_buf *held[STRANGER_KEYS] = {NULL}, *more[STRANGER_KEYS] = {NULL};
    stranger_attach(&job, geteuid(), NULL);
    assert_int_equal(stranger_read_all(&job), 0);
    for (uint64_t k = 0; k < STRANGER_KEYS; k++)
        held[k] = stranger_take(&job, k);
    assert_int_equal(job.made, STRANGER_KEYS);
    kill(child, SIGTERM);
    assert_int_equal(waitpid(child, NULL, 0), child);
    for (uint64_t k = STRANGER_KEYS; k-- > 0;) /* it does not know yet that it is alone */
        more[k] = stranger_take(&job, k);
    for (uint64_t k = 0; k < STRANGER_KEYS; k++) {
        check_sample(held[k], k);
        check_sample(more[k], k);
        larder_buf_unref(&held[k]);
        larder_buf_unref(&more[k]);
    }
    stranger_leave(&job);
    larder__server_close(&ending); /* of this process; the socket is gone already */
}

/* Messages that never end: it is thrown out with those, and root's jobs stay. */
static void it_hoards(void **st) {
    (void)st;
    enum { MANY = 20, BEGUN = 3 << 20 };
    static unsigned char noise[BEGUN];
    root_or_skip();
    serve();
    stranger job = {.lie = 0};
    stranger_line root, hoards[MANY];
    stranger_attach(&job, 0, NULL);
    assert_int_equal(stranger_read_all(&job), 0);
    stranger_knock(&root, 0);
    const larder__frame_head head = {.bytes = 4 << 20, .type = LARDER__MSG_HELLO};
    for (size_t i = 0; i < MANY; i++) {
        stranger_knock(&hoards[i], STRANGER_NOBODY);
        /* Some of them come to nothing, as they are thrown out meanwhile. */
        if (send(hoards[i].fd, &head, sizeof head, MSG_NOSIGNAL) == sizeof head)
            for (size_t at = 0; at < BEGUN;) {
                ssize_t n = send(hoards[i].fd, noise + at, BEGUN - at, MSG_NOSIGNAL);
                if (n <= 0)
                    break;
                at += (size_t)n;
            }
        ask_status(&root);
        assert_true(read_figure(&root, "\"memory_bytes\"") <= STRANGER_CACHE + (12 << 20));
    }
    stranger late = {.lie = 0};
    stranger_attach(&late, 0, NULL);
    assert_int_equal(stranger_read_all(&late), 0);
    assert_int_equal(late.made, 0);
    job.made = 0;
    assert_int_equal(stranger_read_all(&job), 0);
    assert_int_equal(job.made, 0); /* it is attached as it was */
    for (size_t i = 0; i < MANY; i++)
        stranger_hang_up(&hoards[i]);
    stranger_hang_up(&root);
    stranger_leave(&job);
    stranger_leave(&late);
}

/* One that has a job is let go of when it hangs up, as any that was thrown out. */
static void it_hoards_with_a_job(void **st) {
    (void)st;
    enum { BEGUN = 3 << 20, TURNS = 100000 };
    static unsigned char noise[BEGUN];
    root_or_skip();
    serve();
    stranger_line root, hoards[2];
    larder__hello h = stranger_hello();
    const larder__frame_head head = {.bytes = 4 << 20, .type = LARDER__MSG_RETURNS};
    snprintf(h.name, sizeof h.name, "hoarder");
    stranger_knock(&root, 0);
    for (size_t i = 0; i < 2; i++) {
        stranger_knock(&hoards[i], STRANGER_NOBODY);
        check_ok(say_hello(&hoards[i], &h));
    }
    assert_true(shows(&root, "hoarder"));
    for (size_t i = 0; i < 2; i++) /* both is too much */
        if (send(hoards[i].fd, &head, sizeof head, MSG_NOSIGNAL) == sizeof head)
            send(hoards[i].fd, noise, BEGUN, MSG_NOSIGNAL);
    for (size_t i = 0; i < 2; i++)
        stranger_hang_up(&hoards[i]);
    int turns = 0;
    while (shows(&root, "hoarder"))
        assert_true(++turns < TURNS);
    stranger_hang_up(&root);
}

/* Small ones, on as many connections as it gets, are few bytes. */
static void it_hesitates(void **st) {
    (void)st;
    enum { MANY = CLIENTS / 2 - 2 };
    root_or_skip();
    serve();
    stranger_line root, slow[MANY];
    stranger_knock(&root, 0);
    const larder__frame_head head = {.bytes = 100, .type = LARDER__MSG_HELLO};
    for (size_t i = 0; i < MANY; i++) {
        stranger_knock(&slow[i], STRANGER_NOBODY);
        assert_int_equal(send(slow[i].fd, &head, sizeof head, MSG_NOSIGNAL), sizeof head);
    }
    ask_status(&root); /* comes after all of these */
    assert_true(read_figure(&root, "\"memory_bytes\"") < (double)MANY * 8192);
    char byte;
    for (size_t i = 0; i < MANY; i++) /* and none was thrown out for it */
        assert_int_equal(recv(slow[i].fd, &byte, 1, MSG_DONTWAIT), -1);
    for (size_t i = 0; i < MANY; i++)
        stranger_hang_up(&slow[i]);
    stranger_hang_up(&root);
}

/* ---- time ------------------------------------------------------------------------------------ */

/* Words that take the daemon long, many at once from several connections, and then a question:
 * questions of root and of a third user, which came after them, are answered before. By the
 * daemon's own clock. */
static void it_talks(void **st) {
    (void)st;
    enum { WORDS = 24, KEYS = 1000000, TALK = 3 };
    root_or_skip();
    pid_t daemon = stranger_serve_in_time(true, CLIENTS);
    stranger_line root, third, talk[TALK];
    int status;
    larder__hello h = stranger_hello();
    larder_writer w = {0};
    h.about.keys = KEYS;
    h.payload = (uint64_t)KEYS * 100;
    h.size = 100;
    snprintf(h.about.policy, sizeof h.about.policy, "ods");
    snprintf(h.budget, sizeof h.budget, "1MiB");
    stranger_knock(&root, 0);
    stranger_knock(&third, STRANGER_NOBODY - 1);
    for (size_t i = 0; i < TALK; i++) {
        stranger_knock(&talk[i], STRANGER_NOBODY);
        check_ok(say_hello(&talk[i], &h));
    }
    for (uint64_t i = 0; i < WORDS; i++) {
        size_t frame = larder__frame_begin(&w, LARDER__MSG_OP + LARDER__OP_EPOCH);
        larder__op_write(&(larder__op){.type = LARDER__OP_EPOCH, .number = {i}}, &w);
        larder__frame_end(&w, frame);
    }
    larder__frame_end(&w, larder__frame_begin(&w, LARDER__MSG_STATUS));
    kill(daemon, SIGSTOP);
    assert_int_equal(waitpid(daemon, &status, WUNTRACED), daemon);
    for (size_t i = 0; i < TALK; i++)
        check_ok(larder__frames_send(talk[i].fd, &w));
    ask_status(&third);
    ask_status(&root);
    kill(daemon, SIGCONT);
    double roots = read_figure(&root, "\"uptime_seconds\""),
           thirds = read_figure(&third, "\"uptime_seconds\"");
    for (size_t i = 0; i < TALK; i++) {
        double theirs = read_figure(&talk[i], "\"uptime_seconds\"");
        if (roots >= theirs || thirds >= theirs)
            fail_msg("root was answered at %g s, the third user at %g, who talks at %g", roots,
                     thirds, theirs);
        stranger_hang_up(&talk[i]);
    }
    larder__writer_free(&w);
    stranger_hang_up(&third);
    stranger_hang_up(&root);
}

/* Ranks have memory of their job for what they tell each other: they are not the ones who hoard. */
static void ranks_with_much_to_say(void **st) {
    (void)st;
    enum { SIZE = 8 << 20 };
    root_or_skip();
    serve();
    larder__unix_ranks_link *link[2] = {NULL};
    larder__relay *relay[2];
    for (uint32_t r = 0; r < 2; r++) {
        larder__unix_ranks_conf conf = stranger_rank("run", r, 2000000);
        conf.join.payload = 20000000;
        conf.join.want = 1 << 20;
        conf.patience = 600;
        check_ok(stranger_join(&link[r], STRANGER_NOBODY, &conf));
        check_ok(larder__unix_ranks_relay(&relay[r], link[r]));
    }
    char *bytes = calloc(1, SIZE);
    assert_non_null(bytes);
    bytes[SIZE - 1] = 7;
    for (uint32_t r = 0; r < 2; r++)
        check_ok(larder__relay_post(relay[r], 's', 1, bytes, SIZE));
    larder__relayed out[2] = {{.size = 1}, {.size = 0}};
    check_ok(larder__relay_gather(relay[1], 's', 1, 600, out));
    assert_int_equal(out[0].size, SIZE);
    assert_memory_equal(out[0].bytes, bytes, SIZE);
    for (int r = 0; r < 2; r++) {
        larder__free(out[r].bytes);
        larder__relay_close(&relay[r]);
        larder__unix_ranks_close(&link[r]);
    }
    free(bytes);
}

/* ---- descriptors ----------------------------------------------------------------------------- */

static int send_with(int to, const void *bytes, size_t n, int fd) {
    union {
        struct cmsghdr head;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {.bytes = {0}};
    struct iovec v = {(void *)(uintptr_t)bytes, n};
    struct msghdr m = {.msg_iov = &v,
                       .msg_iovlen = 1,
                       .msg_control = control.bytes,
                       .msg_controllen = sizeof control.bytes};
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(c), &fd, sizeof fd);
    return (int)sendmsg(to, &m, MSG_NOSIGNAL);
}

/* They are not passed, or it is thrown out. */
static void it_passes_descriptors(void **st) {
    (void)st;
    serve();
    stranger_line c;
    larder_reader body;
    const larder__frame_head head = {.type = LARDER__MSG_STATUS};
    stranger_knock(&c, geteuid());
    if (send_with(c.fd, &head, sizeof head, STDERR_FILENO) == sizeof head)
        assert_int_equal(stranger_hear(&c, LARDER__MSG_STATUS_IS, &body), LARDER_E_FORMAT);
    stranger_hang_up(&c);
    stranger_knock(&c, geteuid());
    ask_status(&c);
    assert_true(read_figure(&c, "\"memory_bytes\"") > 0); /* and others are served on */
    stranger_hang_up(&c);
}

/* Where the kernel passes them: they are closed, and the bytes are nobody's. */
static void an_inbox_for_bytes(void **st) {
    (void)st;
    int ends[2], pipes[2];
    char byte;
    larder__inbox in;
    const larder__frame_head head = {.type = LARDER__MSG_STATUS};
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    assert_int_equal(pipe(pipes), 0);
    larder__inbox_init(&in);
    in.bytes_alone = true;
    assert_int_equal(send_with(ends[0], &head, sizeof head, pipes[1]), sizeof head);
    close(pipes[1]);
    assert_int_equal(larder__inbox_read(&in, ends[1]), LARDER_E_FORMAT);
    assert_int_equal(larder__inbox_take_fd(&in), -1);
    assert_int_equal(read(pipes[0], &byte, 1), 0); /* the last writer is gone */
    larder__inbox_free(&in);
    assert_true(in.bytes_alone);
    close(pipes[0]);
    close(ends[0]);
    close(ends[1]);
}

static char said[200];
static void hear_line(void *arg, const char *line) {
    (void)arg;
    snprintf(said, sizeof said, "%s", line);
}

/* Connections are no more than there are descriptors for, and that is said. */
static void few_descriptors(void **st) {
    (void)st;
    struct rlimit usual, few = {300, 300};
    larder__server *s = NULL;
    larder__server_conf conf = {
        .socket = kit_door, .mode = 0600, .cache = 1 << 20, .clients = 1000, .say = hear_line};
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &usual), 0);
    few.rlim_max = usual.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    int rc = larder__server_open(&s, &conf);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &usual), 0);
    check_ok(rc);
    assert_non_null(strstr(said, "enough for 36 connections, not 1000"));
    larder__server_close(&s);
}

/* ---- seats ----------------------------------------------------------------------------------- */

/* Half of a data set's, at most: the other half is root's and others'. */
static void it_takes_seats(void **st) {
    (void)st;
    root_or_skip();
    serve();
    stranger_line jobs[64], root;
    const larder__hello h = stranger_hello();
    size_t got = 0;
    for (int rc = 0; rc == 0; got++) {
        assert_true(got < 64);
        stranger_knock(&jobs[got], STRANGER_NOBODY);
        rc = say_hello(&jobs[got], &h);
        assert_true(rc == 0 || rc == LARDER_E_FULL);
    }
    assert_int_equal(got - 1, 32);
    assert_non_null(strstr(larder_errmsg(), "none is left for this user"));
    stranger_knock(&root, 0);
    check_ok(say_hello(&root, &h));
    stranger_hang_up(&root);
    for (size_t i = 0; i < got; i++)
        stranger_hang_up(&jobs[i]);
}

static int join(larder__unix_ranks_link **out, uid_t user, size_t number) {
    char job[32];
    snprintf(job, sizeof job, "run%zu", number);
    larder__unix_ranks_conf conf = stranger_rank(job, 0, 10);
    return stranger_join(out, user, &conf);
}

/* The same of jobs of ranks. */
static void it_takes_jobs_of_ranks(void **st) {
    (void)st;
    enum { MOST = 32 };
    root_or_skip();
    serve();
    larder__unix_ranks_link *link[MOST + 1] = {NULL};
    size_t got = 0;
    int rc;
    while ((rc = join(&link[got], STRANGER_NOBODY, got)) == 0)
        assert_true(++got < MOST);
    assert_int_equal(rc, LARDER_E_FULL);
    assert_int_equal(got, MOST / 2);
    check_ok(join(&link[MOST], 0, MOST));
    for (size_t i = 0; i <= MOST; i++)
        larder__unix_ranks_close(&link[i]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(it_never_ends_writing, stranger_begin, stranger_end),
        cmocka_unit_test_setup_teardown(it_keeps_what_was_lent, stranger_begin, stranger_end),
        cmocka_unit_test_setup_teardown(a_daemon_that_ends, stranger_begin, stranger_end),
        cmocka_unit_test_setup_teardown(it_hoards, stranger_begin, stranger_end),
        cmocka_unit_test_setup_teardown(it_hoards_with_a_job, stranger_begin, stranger_end),
        cmocka_unit_test_setup_teardown(it_hesitates, stranger_begin, stranger_end),
        cmocka_unit_test_setup_teardown(it_talks, stranger_begin, stranger_end),
        cmocka_unit_test_setup_teardown(ranks_with_much_to_say, stranger_begin, stranger_end),
        cmocka_unit_test_setup_teardown(it_passes_descriptors, stranger_begin, stranger_end),
        cmocka_unit_test_setup_teardown(an_inbox_for_bytes, stranger_begin, stranger_end),
        cmocka_unit_test_setup_teardown(few_descriptors, stranger_begin, stranger_end),
        cmocka_unit_test_setup_teardown(it_takes_seats, stranger_begin, stranger_end),
        cmocka_unit_test_setup_teardown(it_takes_jobs_of_ranks, stranger_begin, stranger_end),
    };
    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
