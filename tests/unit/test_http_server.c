/* The page's server: where it serves and where not, and odd requests by odd visitors. */
#include "check.h"

#include "base/mem.h"
#include "see/expose.h"
#include "see/http_request.h"
#include "see/http_server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <malloc.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* ---- the linker's names for calls as they were, and as they are here ------------------------- */

FILE *__real_fopen(const char *path, const char *how);
FILE *__wrap_fopen(const char *path, const char *how);
FILE *__wrap_fopen64(const char *path, const char *how);
int __real_accept4(int fd, struct sockaddr *from, socklen_t *size, int flags);
int __wrap_accept4(int fd, struct sockaddr *from, socklen_t *size, int flags);
int __real_clock_gettime(clockid_t clock, struct timespec *out);
int __wrap_clock_gettime(clockid_t clock, struct timespec *out);

/* Of the names of sockets only those of this process: of jobs beside it there may be many, and much
 * to tell. */
FILE *__wrap_fopen(const char *path, const char *how) {
    FILE *f = __real_fopen(path, how), *ours;
    if (!f || strcmp(path, "/proc/net/unix") != 0)
        return f;
    char own[64], line[512];
    snprintf(own, sizeof own, "@" LARDER__SEE_NAME "%ld.%ld.", (long)geteuid(), (long)getpid());
    for (ours = tmpfile(); ours && fgets(line, sizeof line, f);)
        if (strstr(line, own))
            fputs(line, ours);
    fclose(f);
    if (ours)
        rewind(ours);
    return ours;
}
FILE *__wrap_fopen64(const char *path, const char *how) { return __wrap_fopen(path, how); }

static _Atomic int unheard; /* times that there was no descriptor for a visitor */
/* With the next visitor it is to stand still, and stands so until it is to go on, for a minute. */
static _Atomic enum { GOES_ON, IS_TO_STAND, STANDS } how;
static _Atomic int minutes;

int __wrap_accept4(int fd, struct sockaddr *from, socklen_t *size, int flags) {
    int visitor = __real_accept4(fd, from, size, flags);
    unheard += visitor < 0 && errno == EMFILE;
    if (visitor >= 0 && how == IS_TO_STAND) {
        how = STANDS;
        while (how == STANDS)
            usleep(1000);
        minutes++;
    }
    return visitor;
}

int __wrap_clock_gettime(clockid_t clock, struct timespec *out) {
    int rc = __real_clock_gettime(clock, out);
    out->tv_sec += 60 * minutes;
    return rc;
}

/* ---- where it serves ------------------------------------------------------------------------- */

static void addresses(void **state) {
    (void)state;
    static const char *const wrong[] = {
        "",
        "7433",
        ":7433",
        "localhost",
        "localhost:",
        "localhost:x",
        "127.0.0.1:70000",
        "127.0.0.1:1x",
        "localhos:0",
        "[::1:0",
        "[]:0",
        "[::g]:0",
        "::1]:0",
        "1.2.3:0",
        "300.0.0.1:0",
        "[::1]:-1",
        "a.very.long.name.that.is.longer.than.any.address.can.be.example.org:80"};
    larder__http *h = NULL;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        int rc = larder__http_open(&h, &(larder__http_server_conf){.address = wrong[i]});
        if (rc != LARDER_E_ARGS || !strstr(larder_errmsg(), "no address to serve at"))
            fail_msg("%s: %d, %s", wrong[i], rc, larder_errmsg());
        assert_null(h);
    }
    check_ok(larder__http_open(&h, &(larder__http_server_conf){.address = "localhost:0"}));
    assert_non_null(strstr(larder__http_url(h), "http://127.0.0.1:"));
    larder__http *second = NULL; /* the port is taken */
    char taken[64] = "";
    sscanf(larder__http_url(h), "http://%63[^/]", taken);
    assert_int_equal(larder__http_open(&second, &(larder__http_server_conf){.address = taken}),
                     LARDER_E_STATE);
    assert_non_null(strstr(larder_errmsg(), "another port"));
    larder__http_close(&h);
    if (larder__http_open(&h, &(larder__http_server_conf){.address = "[::1]:0"}) == 0)
        assert_non_null(strstr(larder__http_url(h), "http://[::1]:")); /* where there is IPv6 */
    larder__http_close(&h);
    /* Others may come: they need a token, which is made up. */
    check_ok(larder__http_open(&h, &(larder__http_server_conf){.address = "0.0.0.0:0"}));
    assert_non_null(strstr(larder__http_url(h), "/?token="));
    larder__http_close(&h);
    for (uint64_t at = 1;; at++) {
        larder__mem_fail_at(at, 0);
        int rc = larder__http_open(&h, &(larder__http_server_conf){.address = "127.0.0.1:0"});
        int failed = larder__mem_failed();
        larder__mem_fail_at(0, 0);
        larder__http_close(&h);
        assert_int_equal(rc, failed ? LARDER_E_NOMEM : 0);
        if (!failed)
            break;
    }
}

static void tokens(void **state) {
    (void)state;
    char long_one[200];
    memset(long_one, 'a', sizeof long_one - 1);
    long_one[sizeof long_one - 1] = '\0';
    const char *const wrong[] = {"", "short", "with blank", "slash/slash", long_one};
    larder__http *h = NULL;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        larder__http_server_conf conf = {.address = "127.0.0.1:0", .token = wrong[i]};
        assert_int_equal(larder__http_open(&h, &conf), LARDER_E_ARGS);
        assert_non_null(strstr(larder_errmsg(), "a token has 8 to"));
        assert_null(h);
    }
}

/* ---- visitors -------------------------------------------------------------------------------- */

static void hosts(void **state) {
    (void)state;
    static const char *const ours[] = {"localhost", "LocalHost:7433", "127.0.0.1", "127.0.0.1:80",
                                       "127.1",     "[::1]",          "[::1]:7433"};
    static const char *const others[] = {"",
                                         "evil.com",
                                         "evil.com:80",
                                         "localhost.evil.com",
                                         "127.0.0.1.evil.com",
                                         "[::1]x",
                                         "[::1].evil.com",
                                         "[::1]evil:80",
                                         "[::1]:80x",
                                         "[::1]:",
                                         "[::1",
                                         "[::1:80",
                                         "::1",
                                         "localhost:",
                                         "localhost:@evil.com",
                                         "localhost.",
                                         "localhost:80:80",
                                         "localhost:80@x",
                                         "127.0.0.1:80.x",
                                         "127.0.0.1:+8",
                                         "0.0.0.0",
                                         "localhost evil",
                                         "[localhost]",
                                         "x@localhost",
                                         "[::2]:80"};
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
        if (!larder__http_host_is_local(ours[i]))
            fail_msg("\"%s\" is this machine", ours[i]);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (larder__http_host_is_local(others[i]))
            fail_msg("\"%s\" is not this machine", others[i]);
}

static void *serve(void *h) { return (void *)(intptr_t)larder__http_run(h); }

static int connect_by(int fd, const larder__http *h) {
    unsigned port = 0;
    sscanf(larder__http_url(h), "http://127.0.0.1:%u", &port);
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    return fd;
}

static int visit(const larder__http *h) { return connect_by(socket(AF_INET, SOCK_STREAM, 0), h); }

/* Until it ends, or there is so much. */
static size_t hear(int fd, char *to, size_t most) {
    size_t n = 0;
    for (ssize_t got; n < most && (got = recv(fd, to + n, most - n, 0)) > 0;)
        n += (size_t)got;
    to[n] = '\0';
    return n;
}

/* Until another event has begun. */
static void await_event(int fd) {
    static const char begins[] = "data: ";
    static char some[1 << 16];
    size_t at = 0; /* of `begins`, across pieces */
    for (bool begun = false; !begun;) {
        ssize_t n = recv(fd, some, sizeof some, 0);
        assert_true(n > 0);
        for (ssize_t i = 0; i < n; i++) {
            at = some[i] == begins[at] ? at + 1 : some[i] == begins[0];
            begun |= !begins[at];
            at = begins[at] ? at : 0;
        }
    }
}

static void begin(larder__http **h, pthread_t *thread) {
    larder__http_server_conf conf = {.address = "127.0.0.1:0"};
    check_ok(larder__http_open(h, &conf));
    assert_int_equal(pthread_create(thread, NULL, serve, *h), 0);
}

static void end(larder__http **h, pthread_t thread) {
    void *rc = &rc;
    larder__http_stop(*h);
    assert_int_equal(pthread_join(thread, &rc), 0);
    assert_null(rc);
    larder__http_close(h);
}

static void requests(void **state) {
    (void)state;
#define END "\r\nConnection: close\r\n\r\n"
    static const struct {
        const char *asked, *status;
    } cases[] = {
        {"GET / HTTP/1.1\r\nHost: localhost" END, "200"},
        {"GET /?token=nonsense HTTP/1.1\r\nHost: 127.0.0.1:80" END, "200"},
        {"HEAD / HTTP/1.1\r\nHost: localhost" END, "200"},
        {"HEAD /events HTTP/1.1\r\nHost: localhost" END, "401"},
        {"HEAD /events?token=open-sesame HTTP/1.1\r\nHost: localhost" END, "200"},
        {"GET /state.json HTTP/1.1\r\nHost: localhost" END, "401"},
        {"GET /state.json?token=open-sesam HTTP/1.1\r\nHost: localhost" END, "401"},
        {"GET /state.json?token=open-sesame HTTP/1.1\r\nHost: localhost" END, "200"},
        {"GET /metrics HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer open-sesame" END, "200"},
        {"GET /history.json?token=open-sesame HTTP/1.0\r\n\r\n", "200"},
        {"GET /../../etc/passwd HTTP/1.1\r\nHost: localhost" END, "404"},
        {"GET /%2e%2e/etc/passwd HTTP/1.1\r\nHost: localhost" END, "404"},
        {"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0" END, "405"},
        {"GET / HTTP/3.0\r\nHost: localhost" END, "505"},
        {"nonsense\r\n\r\n", "400"},
        {"\r\n\r\n\r\n", "400"},
        {"GET / HTTP/1.1\r\nno colon" END, "400"},
        {"GET / HTTP/1.1" END, "400"},                                       /* no host, */
        {"GET / HTTP/1.1\r\nHost: localhost\r\nhost: localhost" END, "400"}, /* two, */
        {"GET / HTTP/1.1\r\nHost : localhost" END, "400"},                   /* and perhaps one */
        {"GET / HTTP/1.1\r\nHost: localhost\r\nX\t: y" END, "400"},
        {"GET / HTTP/1.1\r\nHost: localhost\r\n: y" END, "400"},
        {"GET /state.json?token=open-sesame HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: "
         "a" END,
         "200"}, /* two at once */
    };
    larder__http *h = NULL;
    larder__http_server_conf conf = {.address = "127.0.0.1:0", .token = "open-sesame"};
    check_ok(larder__http_open(&h, &conf));
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, serve, h), 0);
    static char text[1 << 20];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int fd = visit(h);
        size_t n = strlen(cases[i].asked), half = i % 2 ? n / 2 : n; /* some in two pieces */
        assert_int_equal(send(fd, cases[i].asked, half, MSG_NOSIGNAL), half);
        if (half < n)
            assert_true(send(fd, cases[i].asked + half, n - half, MSG_NOSIGNAL) > 0);
        hear(fd, text, sizeof text - 1);
        close(fd);
        if (strncmp(text, "HTTP/1.1 ", 9) != 0 || strncmp(text + 9, cases[i].status, 3) != 0)
            fail_msg("%s: %.60s", cases[i].asked, text);
        if (cases[i].status[0] == '2')
            assert_non_null(strstr(text, "Content-Security-Policy: default-src 'none'"));
    }
    /* A head without an end. */
    int fd = visit(h);
    static char endless[1 << 16];
    memset(endless, 'a', sizeof endless);
    memcpy(endless, "GET /", 5);
    send(fd, endless, sizeof endless, MSG_NOSIGNAL);
    hear(fd, text, 12);
    if (text[0]) /* it may be cut off before the answer is heard */
        assert_memory_equal(text, "HTTP/1.1 431", 12);
    close(fd);
    /* Those who leave in the middle: of a question, of an answer, of events, with and without a
     * word. */
    static const char *const left[] = {
        "", "GET", "GET /events?token=open-sesame HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: localhost\r\n\r\nGET / HTTP/1.1\r\nHost: localhost\r\n\r\n"};
    for (size_t i = 0; i < 2 * (sizeof left / sizeof *left); i++) {
        fd = visit(h);
        struct linger now = {.l_onoff = 1};
        send(fd, left[i / 2], strlen(left[i / 2]), MSG_NOSIGNAL);
        if (i / 2 == 2)
            hear(fd, text, 12);
        if (i % 2)
            setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
        close(fd);
    }
    /* Events come, and whatever their reader says is not heard. */
    fd = visit(h);
    send(fd, left[2], strlen(left[2]), MSG_NOSIGNAL);
    size_t n = hear(fd, text, 100);
    send(fd, "what?", 5, MSG_NOSIGNAL);
    while (!strstr(text, "data: ")) {
        assert_int_equal(hear(fd, text + n, 1), 1);
        n++;
    }
    assert_non_null(strstr(text, "text/event-stream"));
    await_event(fd); /* a second state */
    /* It still serves others, and ends with a reader there. */
    int other = visit(h);
    send(other, cases[0].asked, strlen(cases[0].asked), MSG_NOSIGNAL);
    hear(other, text, sizeof text - 1);
    assert_memory_equal(text, "HTTP/1.1 200", 12);
    close(other);
    larder__http_stop(h);
    void *rc = &rc;
    assert_int_equal(pthread_join(thread, &rc), 0);
    assert_null(rc);
    close(fd);
    larder__http_close(&h);
    larder__http_close(&h);
}

/* ---- crowds ---------------------------------------------------------------------------------- */

enum { JOBS = LARDER__JOBS_AT_ONCE, FIGURES = 50, CROWD = 100, LARGE = 1 << 20 };
enum { LITTLE = 4096, ROOM = 1 << 16 }; /* bytes that the system keeps for a reader, about */

/* A job of many figures, so that what is told of JOBS of them fills no socket's memory alone. */
static void look_at(void *arg, larder__job *out) {
    (void)arg;
    for (int i = 0; i < FIGURES; i++) {
        char name[32];
        snprintf(name, sizeof name, "figure_%d", i);
        larder__job_show(out,
                         &(larder_stat_value){
                             .name = name, .unit = "", .help = "made up", .type = 'h', .count = 9});
    }
}

static void ask(int fd, const char *path) {
    char said[100];
    int n = snprintf(said, sizeof said, "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", path);
    assert_int_equal(send(fd, said, (size_t)n, MSG_NOSIGNAL), n);
}

/* Asks for the figures, thrice at once, and reads the head of the first answer: its length. */
static size_t ask_and_wait(const larder__http *h, int room, int *fd) {
    char head[1024];
    size_t n = 0;
    *fd = visit(h);
    setsockopt(*fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof room);
    for (int i = 0; i < 3; i++)
        ask(*fd, "/metrics");
    while (n < 4 || memcmp(head + n - 4, "\r\n\r\n", 4) != 0) {
        assert_true(n + 1 < sizeof head);
        assert_int_equal(hear(*fd, head + n, 1), 1);
        n++;
    }
    const char *length = strstr(head, "Content-Length: ");
    assert_non_null(length);
    return strtoul(length + 16, NULL, 10);
}

/* As above, of a look that all jobs answered in time. */
static size_t ask_for_much(const larder__http *h, int room, int *fd) {
    for (;;) {
        size_t n = ask_and_wait(h, room, fd);
        if (n >= LARGE)
            return n;
        close(*fd);
    }
}

/* Until there are newer figures. */
static void await_look(const larder__http *h) {
    int fd = visit(h);
    ask(fd, "/events");
    for (int i = 0; i < 2; i++)
        await_event(fd);
    close(fd);
}

/* What a crowd leaves unread is held once, not once for each; and whoever is far behind goes. */
static void those_who_do_not_read(void **state) {
    (void)state;
    static larder__exposed jobs[JOBS];
    static char text[8 << 20];
    larder__http *h;
    pthread_t thread;
    int crowd[CROWD], first, last = -1;
    unsetenv("LARDER_SEE");
    for (int i = 0; i < JOBS; i++)
        larder__expose(&jobs[i], look_at, NULL);
    begin(&h, &thread);
    ask_for_much(h, ROOM, &first);
    close(first);
    size_t before = check_heap(), left = 0;
    for (int i = 0; i < CROWD; i++)
        left += ask_for_much(h, LITTLE, &crowd[i]);
    size_t after = check_heap();
    if (after > before + (16 << 20))
        fail_msg("%zu KiB more for %d visitors who left %zu KiB unread", (after - before) >> 10,
                 CROWD, left >> 10);
    for (int i = 0; i < CROWD; i++)
        close(crowd[i]);

    size_t due = ask_for_much(h, ROOM, &first), of_last = 0, late = 0;
    for (int i = 0; late < (4 << 20); i++) {
        await_look(h);
        of_last = ask_for_much(h, ROOM, &last);
        late += of_last;
        crowd[i] = last;
    }
    assert_true(hear(first, text, due) < due);
    assert_int_equal(hear(last, text, of_last), of_last);
    close(first);
    for (size_t i = 0; crowd[i] != last; i++)
        close(crowd[i]);
    close(last);
    end(&h, thread);
    for (int i = 0; i < JOBS; i++)
        larder__expose_end(&jobs[i]);
}

/* More than there are places for, who all take their events: somebody else is served still, and who
 * was there first hears on. */
static void a_crowd_keeps_nobody_out(void **state) {
    (void)state;
    enum { MANY = 300 };
    static int crowd[MANY];
    larder__http *h;
    pthread_t thread;
    char text[16];
    begin(&h, &thread);
    int first = visit(h);
    ask(first, "/events");
    for (int i = 0; i < 2; i++)
        await_event(first);
    for (int i = 0; i < MANY; i++) {
        crowd[i] = visit(h);
        ask(crowd[i], "/events");
        hear(crowd[i], text, 12);
    }
    for (int i = 0; i < 4; i++) {
        int fd = visit(h);
        ask(fd, "/state.json");
        hear(fd, text, 12);
        assert_string_equal(text, "HTTP/1.1 200");
        close(fd);
        await_event(first);
    }
    for (int i = 0; i < MANY; i++)
        close(crowd[i]);
    close(first);
    end(&h, thread);
}

/* A server that stood still for a minute hears what was said to it meanwhile. */
static void it_stands_still(void **state) {
    (void)state;
    larder__http *h;
    pthread_t thread;
    char text[16];
    begin(&h, &thread);
    how = IS_TO_STAND;
    int fd = visit(h);
    while (how != STANDS)
        usleep(1000);
    ask(fd, "/state.json");
    how = GOES_ON;
    hear(fd, text, 12);
    assert_string_equal(text, "HTTP/1.1 200");
    close(fd);
    end(&h, thread);
}

/* The visitors of this test are of the process too. */
static void few_descriptors(void **state) {
    (void)state;
    enum { FEW = 400, SOME = 200 };
    larder__http *h = NULL;
    pthread_t thread;
    struct rlimit before, few;
    int crowd[SOME];
    char text[16];
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    few = before;
    few.rlim_cur = FEW;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    begin(&h, &thread);
    for (int i = 0; i < SOME; i++) { /* each has its answer, and holds its place */
        crowd[i] = visit(h);
        ask(crowd[i], "/events");
        hear(crowd[i], text, 12);
        assert_string_equal(text, "HTTP/1.1 200");
    }
    /* None is left at all: who comes waits for one, and the server does not run in circles. */
    int others[FEW], n = 0, last = socket(AF_INET, SOCK_STREAM, 0);
    while ((others[n] = dup(crowd[0])) >= 0)
        n++;
    assert_true(n > 0);
    unheard = 0;
    connect_by(last, h);
    ask(last, "/state.json");
    for (int i = 0; i < 3; i++)
        await_event(crowd[0]);
    assert_in_range(unheard, 1, 10); /* after each look */
    while (n > 0)
        close(others[--n]);
    hear(last, text, 12);
    assert_string_equal(text, "HTTP/1.1 200");
    close(last);
    for (int i = 0; i < SOME; i++)
        close(crowd[i]);
    end(&h, thread);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
}

int main(void) {
#ifdef __GLIBC__
    mallopt(M_ARENA_MAX, 1); /* threads have none of their own, which would not be counted */
#endif
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(addresses),
        cmocka_unit_test(tokens),
        cmocka_unit_test(hosts),
        cmocka_unit_test(requests),
        cmocka_unit_test(those_who_do_not_read),
        cmocka_unit_test(a_crowd_keeps_nobody_out),
        cmocka_unit_test(it_stands_still),
        cmocka_unit_test(few_descriptors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
