#include "redis_kit.h"

#include "base/hash.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

void kit_nap(double seconds) {
    struct timespec t = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
    nanosleep(&t, NULL);
}

bool kit_redis_there(void) {
    bool there = strstr(larder_features(), "-redis") == NULL &&
                 system("redis-server --version >/dev/null 2>&1 && redis-cli --version >/dev/null "
                        "2>&1") == 0;
    if (!there)
        fprintf(stderr, "no redis-server, or built without hiredis: skipped\n");
    return there;
}

static int listen_somewhere(uint16_t *port) {
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t n = sizeof a;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0 && bind(fd, (struct sockaddr *)&a, sizeof a) == 0 && listen(fd, 64) == 0 &&
                getsockname(fd, (struct sockaddr *)&a, &n) == 0);
    *port = ntohs(a.sin_port);
    return fd;
}

static bool port_is_free(uint16_t port) {
    struct sockaddr_in a = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool there = fd >= 0 && bind(fd, (struct sockaddr *)&a, sizeof a) == 0;
    close(fd);
    return there;
}

/* A test that runs beside this one may look for a port at the same moment: each has a name
 * (ports.py gives the same) that only one process can hold, until it ends. */
static bool hold_port(uint16_t port) {
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    int n = snprintf(a.sun_path + 1, sizeof a.sun_path - 1, "larder-test-port-%u", port);
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool ours = fd >= 0 && bind(fd, (struct sockaddr *)&a, size) == 0;
    if (!ours)
        close(fd);
    return ours;
}

/* A port that nobody uses just now, and the one 10000 above, a cluster's second one. Both lie below
 * 32768, from where on the kernel takes those of outgoing connections: one that is free there may
 * be somebody's a moment later. */
uint16_t kit_free_port(void) {
    static uint64_t tried;
    for (;;) {
        uint64_t chance = larder__mix64((uint64_t)getpid() ^ ++tried << 32 ^ (uint64_t)time(NULL));
        uint16_t port = (uint16_t)(12000 + chance % 10000);
        uint16_t second = (uint16_t)(port + 10000);
        if (port_is_free(port) && port_is_free(second) && hold_port(port) && hold_port(second))
            return port;
    }
}

/* ---- servers --------------------------------------------------------------------------------- */

static void spawn(kit_redis *r) {
    char port[8], log[300];
    const char *argv[32] = {"redis-server", "--port",     port,     "--dir",
                            r->folder,      "--save",     "",       "--bind",
                            "127.0.0.1",    "--loglevel", "warning"};
    int n = 11;
    snprintf(port, sizeof port, "%u", r->port);
    for (int i = 0; i < r->option_count; i++)
        argv[n++] = r->options[i];
    snprintf(log, sizeof log, "%s/log", r->folder);
    r->pid = fork();
    assert_true(r->pid >= 0);
    if (r->pid > 0)
        return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    int fd = open(log, O_WRONLY | O_CREAT | O_APPEND, 0600);
    dup2(fd, 1);
    dup2(fd, 2);
    execvp(argv[0], (char *const *)(uintptr_t)argv);
    _exit(127);
}

static bool answers(const kit_redis *r) {
    struct sockaddr_in a = {
        .sin_family = AF_INET, .sin_port = htons(r->port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    char byte;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct timeval t = {.tv_usec = 200000};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof t);
    bool there = connect(fd, (struct sockaddr *)&a, sizeof a) == 0 &&
                 send(fd, "PING\r\n", 6, MSG_NOSIGNAL) == 6 && recv(fd, &byte, 1, 0) == 1;
    close(fd);
    return there;
}

/* Until it answers; false: it has ended. */
static bool awaken(kit_redis *r) {
    spawn(r);
    for (int i = 0; i < 600 && !answers(r); i++) {
        int status;
        if (waitpid(r->pid, &status, WNOHANG) == r->pid)
            return false;
        kit_nap(0.05);
    }
    return true;
}

void kit_redis_again(kit_redis *r) {
    if (!awaken(r))
        fail_msg("redis-server on port %u has ended: see %s/log", r->port, r->folder);
}

void kit_redis_start(kit_redis *r, ...) {
    va_list more;
    *r = (kit_redis){0};
    check_folder(r->folder);
    va_start(more, r);
    for (const char *o; (o = va_arg(more, const char *)) && r->option_count < 16;)
        snprintf(r->options[r->option_count++], sizeof r->options[0], "%s", o);
    va_end(more);
    bool there = false;
    for (int i = 0; i < 5 && !there; i++) { /* another test may be quicker at the port */
        r->port = kit_free_port();
        there = awaken(r);
    }
    if (!there)
        fail_msg("redis-server does not start: see %s/log", r->folder);
}

void kit_redis_kill(kit_redis *r) {
    if (!r->pid)
        return;
    kill(r->pid, SIGKILL);
    waitpid(r->pid, NULL, 0);
    r->pid = 0;
}

void kit_redis_stop(kit_redis *r) {
    kit_redis_kill(r);
    if (r->folder[0])
        check_folder_remove(r->folder);
    r->folder[0] = '\0';
}

const char *kit_redis_cli(const kit_redis *r, const char *command, char *out, size_t cap) {
    char line[600];
    snprintf(line, sizeof line, "redis-cli -p %u %s 2>&1", r->port, command);
    FILE *f = popen(line, "r");
    assert_non_null(f);
    size_t n = fread(out, 1, cap - 1, f);
    while (n && (out[n - 1] == '\n' || out[n - 1] == '\r'))
        n--;
    out[n] = '\0';
    pclose(f);
    return out;
}

long kit_redis_number(const kit_redis *r, const char *command) {
    char out[4096];
    return strtol(kit_redis_cli(r, command, out, sizeof out), NULL, 10);
}

void kit_cluster_start(kit_cluster *c) {
    char line[600] = "--cluster create", out[8192];
    char patience[16];
    snprintf(patience, sizeof patience, "%d", KIT_CLUSTER_PATIENCE * 1000);
    for (int i = 0; i < 6; i++) {
        kit_redis_start(&c->nodes[i], "--cluster-enabled", "yes", "--cluster-node-timeout",
                        patience, "--appendonly", "no", NULL);
        size_t n = strlen(line);
        snprintf(line + n, sizeof line - n, " 127.0.0.1:%u", c->nodes[i].port);
    }
    size_t n = strlen(line);
    snprintf(line + n, sizeof line - n, " --cluster-replicas 1 --cluster-yes");
    kit_redis_cli(&c->nodes[0], line, out, sizeof out);
    bool ready = false;
    for (int k = 0; k < 600 && !ready; k++) { /* and all replicas have caught up */
        ready = true;
        for (int i = 0; ready && i < 6; i++) {
            kit_redis_cli(&c->nodes[i], "cluster info", out, sizeof out);
            ready = strstr(out, "cluster_state:ok") && strstr(out, "cluster_known_nodes:6");
            kit_redis_cli(&c->nodes[i], "info replication", out, sizeof out);
            ready = ready &&
                    (strstr(out, "connected_slaves:1") || strstr(out, "master_link_status:up"));
        }
        if (!ready)
            kit_nap(0.1);
    }
    if (!ready)
        fail_msg("no cluster: %s", out);
}

void kit_cluster_patience(const kit_cluster *c, int seconds) {
    char command[100], out[100];
    snprintf(command, sizeof command, "config set cluster-node-timeout %d", seconds * 1000);
    for (int i = 0; i < 6; i++)
        if (c->nodes[i].pid)
            assert_string_equal(kit_redis_cli(&c->nodes[i], command, out, sizeof out), "OK");
}

int kit_cluster_heir(const kit_cluster *c, int node) {
    char out[4096], of[32];
    snprintf(of, sizeof of, "\n%u\n", c->nodes[node].port);
    for (int i = 0; i < 6; i++)
        if (strncmp(kit_redis_cli(&c->nodes[i], "role", out, sizeof out), "slave", 5) == 0 &&
            strstr(out, of))
            return i;
    fail_msg("node %d has no replica", node);
    return -1;
}

static bool is_master(const kit_redis *r) {
    char out[4096];
    return strncmp(kit_redis_cli(r, "role", out, sizeof out), "master", 6) == 0;
}

int kit_cluster_owner(const kit_cluster *c, const char *pattern) {
    char command[200], out[8192];
    snprintf(command, sizeof command, "keys '%s'", pattern);
    for (int i = 0; i < 6; i++)
        if (c->nodes[i].pid && is_master(&c->nodes[i]) &&
            strncmp(kit_redis_cli(&c->nodes[i], command, out, sizeof out), "larder:", 7) == 0)
            return i;
    fail_msg("no node has any %s", pattern);
    return -1;
}

void kit_cluster_wait_master(const kit_cluster *c, int node) {
    while (!is_master(&c->nodes[node]))
        kit_nap(0.05);
}

/* It gives up after five seconds of its own: then it is told once more. */
void kit_cluster_take_over(const kit_cluster *c, int node) {
    char out[100];
    for (int i = 0; !is_master(&c->nodes[node]); i++) {
        if (i % 200 == 0)
            kit_redis_cli(&c->nodes[node], "cluster failover", out, sizeof out);
        kit_nap(0.05);
    }
}

void kit_cluster_move(kit_cluster *c, int owner, int heir) {
    kit_cluster_patience(c, 5); /* an election that comes to nothing is repeated after four times */
    kit_cluster_take_over(c, heir);
    while (is_master(&c->nodes[owner]))
        kit_nap(0.05);
}

void kit_cluster_move_back(kit_cluster *c, int owner, int heir) {
    char out[4096];
    while (!strstr(kit_redis_cli(&c->nodes[owner], "info replication", out, sizeof out),
                   "master_link_status:up"))
        kit_nap(0.05);
    kit_cluster_patience(c, 1);
    kit_redis_kill(&c->nodes[heir]);
    kit_cluster_wait_master(c, owner);
    kit_cluster_patience(c, KIT_CLUSTER_PATIENCE);
}

void kit_cluster_stop(kit_cluster *c) {
    for (int i = 0; i < 6; i++)
        kit_redis_stop(&c->nodes[i]);
}

/* ---- in between ------------------------------------------------------------------------------ */

enum { PAIRS = 64 };

static int connect_to(uint16_t port) {
    struct sockaddr_in a = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(fd, (struct sockaddr *)&a, sizeof a) == 0)
        return fd;
    close(fd);
    return -1;
}

/* One end's bytes to the other; false: an end is closed. */
static bool pass_on(int from, int to) {
    char bytes[65536];
    ssize_t n = recv(from, bytes, sizeof bytes, 0);
    for (ssize_t at = 0; at < n;) {
        ssize_t m = send(to, bytes + at, (size_t)(n - at), MSG_NOSIGNAL);
        if (m <= 0)
            return false;
        at += m;
    }
    return n > 0;
}

static void drop_pair(int pairs[PAIRS][2], int i) {
    close(pairs[i][0]);
    close(pairs[i][1]);
    pairs[i][0] = pairs[i][1] = -1;
}

static void accept_pair(kit_proxy *p, int pairs[PAIRS][2]) {
    int fd = accept(p->listener, NULL, NULL), i = 0;
    while (i < PAIRS && pairs[i][0] >= 0)
        i++;
    int to = fd >= 0 && i < PAIRS && p->mode != KIT_CUT ? connect_to(p->to) : -1;
    if (to < 0) {
        if (fd >= 0)
            close(fd);
        return;
    }
    pairs[i][0] = fd;
    pairs[i][1] = to;
}

static void *proxy(void *arg) {
    kit_proxy *p = arg;
    int pairs[PAIRS][2];
    memset(pairs, -1, sizeof pairs);
    while (!p->stop) {
        struct pollfd fds[1 + 2 * PAIRS];
        fds[0] = (struct pollfd){p->listener, POLLIN, 0};
        for (int i = 0; i < PAIRS; i++) {
            if (p->mode == KIT_CUT && pairs[i][0] >= 0)
                drop_pair(pairs, i);
            for (int k = 0; k < 2; k++) /* poll skips what is negative */
                fds[1 + 2 * i + k] =
                    (struct pollfd){p->mode == KIT_STALL ? -1 : pairs[i][k], POLLIN, 0};
        }
        if (poll(fds, 1 + 2 * PAIRS, 20) <= 0)
            continue;
        for (int i = 0; i < PAIRS; i++)
            for (int k = 0; k < 2 && pairs[i][0] >= 0; k++)
                if (fds[1 + 2 * i + k].revents && !pass_on(pairs[i][k], pairs[i][1 - k]))
                    drop_pair(pairs, i);
        if (fds[0].revents)
            accept_pair(p, pairs);
    }
    for (int i = 0; i < PAIRS; i++)
        if (pairs[i][0] >= 0)
            drop_pair(pairs, i);
    return NULL;
}

void kit_proxy_start(kit_proxy *p, uint16_t to) {
    *p = (kit_proxy){.to = to, .mode = KIT_PASS};
    p->listener = listen_somewhere(&p->port);
    assert_int_equal(pthread_create(&p->thread, NULL, proxy, p), 0);
}

void kit_proxy_stop(kit_proxy *p) {
    p->stop = true;
    pthread_join(p->thread, NULL);
    close(p->listener);
}

static void answer_with_noise(int fd, uint64_t *seed, unsigned asked) {
    static const char *const begins[] = {
        "$",       "$40\r\nLRDV", "*256\r\n",      "-MOVED 5 :1\r\n", "-ASK ",
        "$-1\r\n", ":7\r\n",      "+OK\r\n",       "-ERR ",           "$2000000000\r\n",
        "*-1\r\n", "\r\n",        "$3\r\nabc\r\n", "-LOADING x\r\n",  "*3\r\n$"};
    char noise[512];
    if (asked < 6) { /* let it in first */
        send(fd, "+PONG\r\n", 7, MSG_NOSIGNAL);
        return;
    }
    const char *begin = begins[(*seed = larder__mix64(*seed + 1)) % 15];
    send(fd, begin, strlen(begin), MSG_NOSIGNAL);
    size_t n = (*seed = larder__mix64(*seed + 1)) % sizeof noise;
    for (size_t i = 0; i < n; i++)
        noise[i] = (char)(larder__mix64(*seed + i) >> 7);
    send(fd, noise, n, MSG_NOSIGNAL);
}

static void *hostile(void *arg) {
    kit_hostile *h = arg;
    struct pollfd fds[PAIRS + 1];
    int count = 1;
    uint64_t seed = h->seed;
    unsigned asked[PAIRS + 1] = {0};
    fds[0] = (struct pollfd){h->listener, POLLIN, 0};
    while (!h->stop) {
        if (poll(fds, (nfds_t)count, 20) <= 0)
            continue;
        if (fds[0].revents && count <= PAIRS) {
            asked[count] = 0;
            fds[count++] = (struct pollfd){accept(h->listener, NULL, NULL), POLLIN, 0};
        }
        for (int i = 1; i < count; i++) {
            char bytes[65536];
            if (fds[i].revents == 0)
                continue;
            if (recv(fds[i].fd, bytes, sizeof bytes, MSG_DONTWAIT) > 0) {
                /* Few of the first, so that some connections are let in and some are not. */
                asked[i] += asked[i] < 1 ? 1 : 6;
                answer_with_noise(fds[i].fd, &seed, asked[i]);
                continue;
            }
            close(fds[i].fd);
            count--;
            fds[i] = fds[count];
            asked[i] = asked[count];
            i--;
        }
    }
    for (int i = 1; i < count; i++)
        close(fds[i].fd);
    return NULL;
}

void kit_hostile_start(kit_hostile *h, uint64_t seed) {
    *h = (kit_hostile){.seed = seed};
    h->listener = listen_somewhere(&h->port);
    assert_int_equal(pthread_create(&h->thread, NULL, hostile, h), 0);
}

void kit_hostile_stop(kit_hostile *h) {
    h->stop = true;
    pthread_join(h->thread, NULL);
    close(h->listener);
}

double kit_stat(larder_loader *l, const char *name) {
    larder_stat_value v = {.size = sizeof v};
    for (size_t i = 0; larder_loader_stat(l, i, &v) == 0; i++)
        if (strcmp(v.name, name) == 0)
            return v.value;
    fail_msg("no figure %s", name);
    return 0;
}
