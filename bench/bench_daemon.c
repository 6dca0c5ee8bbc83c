/* A batch of 256 resident samples out of another process: larder's daemon, whose bytes are read
 * where they lie, against redis-server with 256 GETs in flight and memcached with one get of 256
 * keys, all on Unix sockets in one run, and against the cache in this process. Every way looks at
 * every byte of every sample. Rounds are interleaved; the median of their rates and the extremes,
 * by the clock and by CPU time of client and server together. Usage: bench_daemon [rounds [alone |
 * fill]]; alone: without redis and memcached, for profilers; fill: how fast it gets full */
#include "base/clock.h"
#include "cache/local.h"
#include "measure.h"
#include "plugins.h"
#include "unix/attach.h"
#include "unix/server.h"

#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
#if LARDER_HAVE_HIREDIS
#include <hiredis/hiredis.h>
#endif

enum { BATCH = 256, ROUNDS_MAX = 15, TOTAL = 96 << 20, ROOM = 64 << 20 };
enum { EMBEDDED, DAEMON, OTHER, REDIS, MEMCACHED, WAYS };
static const char *const names[] = {"in this process", "larder serve", "of another user", "redis",
                                    "memcached"};

typedef struct bench {
    uint32_t size, values;
    uint32_t among;          /* of each 256th of the values so many are asked for */
    larder__cache *cache[3]; /* EMBEDDED, DAEMON, OTHER */
    double filled[3];        /* seconds that it took to fill it */
    bool full;               /* it holds a quarter of them, and is full before that is measured */
    pid_t server[WAYS];      /* 0: none */
    void *redis;
    int memcached;
    unsigned char *room; /* for memcached's answers */
    larder_rng rng;
    uint64_t sum; /* of all bytes seen, so that they have to be looked at */
} bench;

static char folder[] = "/tmp/larder-bench-XXXXXX";

static void path_of(char out[64], int way) { snprintf(out, 64, "%s/%d", folder, way); }

static void look_at(bench *b, const void *bytes, size_t n) {
    const unsigned char *at = bytes;
    uint64_t sum = 0, word;
    for (size_t i = 0; i + 8 <= n; i += 8) {
        memcpy(&word, at + i, 8);
        sum += word;
    }
    b->sum += sum;
}

/* ---- larder ---------------------------------------------------------------------------------- */

static int make(void *arg, const larder_access *want, larder_buf *have, larder_buf **out) {
    (void)arg, (void)have;
    *out = larder_buf_new(want->size);
    if (*out)
        memset(larder_buf_data(*out), (int)(want->key & 0xff), want->size);
    return *out ? 0 : LARDER_E_NOMEM;
}

static bool cache_batch(bench *b, int way, const uint32_t *keys) {
    larder_access a[BATCH];
    larder_buf *out[BATCH];
    for (size_t i = 0; i < BATCH; i++)
        a[i] = (larder_access){.key = keys[i], .size = b->size, .score = NAN};
    if (larder__cache_get(b->cache[way], a, BATCH, make, NULL, out, NULL) < 0)
        return false;
    for (size_t i = 0; i < BATCH; i++) {
        look_at(b, larder_buf_data(out[i]), b->size);
        larder_buf_unref(&out[i]);
    }
    return true;
}

static bool larder_fill(bench *b, int way) {
    double begun = larder__now();
    for (uint32_t k = 0; k < b->values; k++) {
        larder_access a = {.key = k, .size = b->size, .score = NAN};
        larder_buf *out;
        if (larder__cache_get(b->cache[way], &a, 1, make, NULL, &out, NULL) < 0)
            return false;
        larder_buf_unref(&out);
    }
    b->filled[way] = larder__now() - begun;
    return true;
}

static bool embedded_open(bench *b) {
    larder__cache_conf conf = {.policy = larder__policy_find("lru"),
                               .store = &larder__store_heap,
                               .keys = b->values,
                               .budget = (uint64_t)b->values * b->size,
                               .seed = 1};
    return larder__cache_open(&b->cache[EMBEDDED], &conf) == 0 && larder_fill(b, EMBEDDED);
}

/* OTHER: the job is of another user than the daemon, who can only read in its memory. */
static bool daemon_open(bench *b, int way) {
    char path[64];
    path_of(path, way);
    if (way == OTHER && (geteuid() != 0 || chmod(folder, 0711) < 0))
        return false;
    b->server[way] = fork();
    if (b->server[way] == 0) {
        larder__server *server;
        larder__server_conf conf = {.socket = path, .mode = 0666, .cache = 2 * TOTAL, .clients = 4};
        if (larder__server_open(&server, &conf) == 0)
            larder__server_run(server);
        _exit(0);
    }
    larder__attach_conf conf = {.door = larder__door_at(path),
                                .hello = {.batch = BATCH,
                                          .identity = 1,
                                          .about.keys = b->values,
                                          .payload = (uint64_t)b->values * b->size,
                                          .about.share = {1},
                                          .about.policy = "lru",
                                          .name = "bench"}};
    if (b->full)
        snprintf(conf.hello.budget, sizeof conf.hello.budget, "%d", TOTAL / 4);
    for (int i = 0; i < 100; i++) {
        enum { NOBODY = 65534 };
        bool two = way == OTHER && seteuid(NOBODY) == 0;
        int rc = larder__attach_open(&b->cache[way], &conf);
        if ((two && seteuid(0) < 0) || rc == 0)
            return larder_fill(b, way) && (!b->full || larder_fill(b, way));
        larder__sleep_until(larder__now() + 0.02);
    }
    return false;
}

/* ---- the others ------------------------------------------------------------------------------ */

static pid_t start(char *const argv[]) {
    pid_t pid = fork();
    if (pid == 0) {
        int null = open("/dev/null", O_WRONLY);
        dup2(null, 1);
        dup2(null, 2);
        execvp(argv[0], argv);
        _exit(127);
    }
    return pid;
}

static int connect_to(const char *path) {
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    snprintf(to.sun_path, sizeof to.sun_path, "%s", path);
    for (int i = 0; i < 100; i++) {
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd >= 0 && connect(fd, (struct sockaddr *)&to, sizeof to) == 0)
            return fd;
        close(fd);
        larder__sleep_until(larder__now() + 0.02);
    }
    return -1;
}

#if LARDER_HAVE_HIREDIS
static bool redis_open(bench *b) {
    char path[64];
    path_of(path, REDIS);
    b->server[REDIS] = start((char *[]){"redis-server", "--port", "0", "--unixsocket", path,
                                        "--save", "", "--appendonly", "no", "--dir", folder, NULL});
    int fd = connect_to(path);
    if (fd < 0)
        return false;
    close(fd);
    b->redis = redisConnectUnix(path);
    unsigned char *value = calloc(1, b->size);
    bool fine = b->redis && value;
    for (uint32_t k = 0; fine && k < b->values; k++) {
        memset(value, (int)(k & 0xff), b->size);
        redisReply *r = redisCommand(b->redis, "SET %u %b", k, value, (size_t)b->size);
        fine = r && r->type == REDIS_REPLY_STATUS;
        freeReplyObject(r);
    }
    free(value);
    return fine;
}

static bool redis_batch(bench *b, const uint32_t *keys) {
    for (size_t i = 0; i < BATCH; i++)
        redisAppendCommand(b->redis, "GET %u", keys[i]);
    for (size_t i = 0; i < BATCH; i++) {
        redisReply *r;
        if (redisGetReply(b->redis, (void **)&r) != REDIS_OK || !r || r->len != b->size)
            return false;
        look_at(b, r->str, r->len);
        freeReplyObject(r);
    }
    return true;
}

static void redis_close(bench *b) {
    if (b->redis)
        redisFree(b->redis);
}
#else
static bool redis_open(bench *b) { return (void)b, false; }
static bool redis_batch(bench *b, const uint32_t *keys) { return (void)b, (void)keys, false; }
static void redis_close(bench *b) { (void)b; }
#endif

static bool send_all(int fd, const void *bytes, size_t n) {
    for (const char *at = bytes; n;) {
        ssize_t sent = send(fd, at, n, MSG_NOSIGNAL);
        if (sent <= 0)
            return false;
        at += sent;
        n -= (size_t)sent;
    }
    return true;
}

static bool memcached_open(bench *b) {
    char path[64], head[64];
    path_of(path, MEMCACHED);
    b->server[MEMCACHED] =
        start((char *[]){"memcached", "-s", path, "-m", "512", "-I", "1m", "-u", "root", NULL});
    b->memcached = connect_to(path);
    unsigned char *value = calloc(1, b->size + 2);
    bool fine = b->memcached >= 0 && value;
    for (uint32_t k = 0; fine && k < b->values; k++) {
        int n = snprintf(head, sizeof head, "set %u 0 0 %u noreply\r\n", k, b->size);
        memset(value, (int)(k & 0xff), b->size);
        memcpy(value + b->size, "\r\n", 2);
        fine =
            send_all(b->memcached, head, (size_t)n) && send_all(b->memcached, value, b->size + 2);
    }
    free(value);
    return fine;
}

/* Reads until the answer ends with END; the values lie in it behind their heads. */
static bool memcached_batch(bench *b, const uint32_t *keys) {
    char ask[BATCH * 12 + 8];
    size_t n = (size_t)snprintf(ask, sizeof ask, "get"), have = 0;
    for (size_t i = 0; i < BATCH; i++)
        n += (size_t)snprintf(ask + n, sizeof ask - n, " %u", keys[i]);
    n += (size_t)snprintf(ask + n, sizeof ask - n, "\r\n");
    if (!send_all(b->memcached, ask, n))
        return false;
    while (have < 5 || memcmp(b->room + have - 5, "END\r\n", 5) != 0) {
        ssize_t got = recv(b->memcached, b->room + have, ROOM - have, 0);
        if (got <= 0)
            return false;
        have += (size_t)got;
    }
    size_t count = 0;
    for (size_t at = 0; at + 5 < have; count++) {
        const unsigned char *end = memchr(b->room + at, '\n', have - at);
        if (!end || memcmp(b->room + at, "VALUE ", 6) != 0)
            return false;
        at = (size_t)(end + 1 - b->room);
        look_at(b, b->room + at, b->size);
        at += b->size + 2;
    }
    return count == BATCH;
}

/* ---- the table ------------------------------------------------------------------------------- */

static double cpu_of(pid_t pid) {
    clockid_t clock;
    return pid && clock_getcpuclockid(pid, &clock) == 0 ? larder__seconds_of(clock) : 0;
}

static bool one_round(bench *b, int way, uint64_t batches) {
    uint32_t keys[BATCH];
    for (uint64_t i = 0; i < batches; i++) {
        for (uint32_t k = 0; k < BATCH; k++) /* none twice */
            keys[k] = k * (b->values / BATCH) + larder_rng_below(&b->rng, b->among);
        bool fine = way == REDIS       ? redis_batch(b, keys)
                    : way == MEMCACHED ? memcached_batch(b, keys)
                                       : cache_batch(b, way, keys);
        if (!fine)
            return false;
    }
    return true;
}

static void table(bench *b, const bool *there, size_t rounds) {
    double wall[WAYS][ROUNDS_MAX], cpu[WAYS][ROUNDS_MAX], median[WAYS] = {0}, busy[WAYS] = {0};
    uint64_t batches = b->size < 10000 ? 200 : 12;
    for (size_t r = 0; r < rounds; r++)
        for (int w = 0; w < WAYS; w++) {
            if (!there[w])
                continue;
            double t = larder__now(), c = larder__seconds_of(CLOCK_PROCESS_CPUTIME_ID),
                   s = cpu_of(b->server[w]);
            if (!one_round(b, w, batches)) {
                printf("%s: failed\n", names[w]);
                return;
            }
            double n = (double)(batches * BATCH);
            wall[w][r] = n / (larder__now() - t);
            cpu[w][r] =
                n / (larder__seconds_of(CLOCK_PROCESS_CPUTIME_ID) - c + cpu_of(b->server[w]) - s);
        }
    printf("%u bytes a sample, batches of %d, among %u samples, %zu rounds\n", b->size, BATCH,
           b->among * BATCH, rounds);
    printf("%-16s %28s %10s %14s %10s\n", "", "thousand samples a second", "daemon is",
           "a CPU second", "daemon is");
    for (int w = 0; w < WAYS; w++)
        if (there[w]) {
            median[w] = measure_median(wall[w], rounds);
            busy[w] = measure_median(cpu[w], rounds);
        }
    for (int w = 0; w < WAYS; w++)
        if (there[w])
            printf("%-16s %10.1f (%6.1f to %6.1f) %9.2fx %14.1f %9.2fx\n", names[w],
                   median[w] / 1e3, wall[w][0] / 1e3, wall[w][rounds - 1] / 1e3,
                   median[DAEMON] / median[w], busy[w] / 1e3, busy[DAEMON] / busy[w]);
}

static void close_all(bench *b) {
    larder__cache_close(&b->cache[EMBEDDED]);
    larder__cache_close(&b->cache[DAEMON]);
    larder__cache_close(&b->cache[OTHER]);
    redis_close(b);
    if (b->memcached >= 0)
        close(b->memcached);
    for (int w = 0; w < WAYS; w++) {
        char path[80];
        if (b->server[w] > 0) {
            kill(b->server[w], SIGTERM);
            waitpid(b->server[w], NULL, 0);
        }
        path_of(path, w);
        unlink(path);
        snprintf(path + strlen(path), 8, ".lock");
        unlink(path);
    }
    free(b->room);
}

static void run(uint32_t size, size_t rounds, bool peers) {
    bench b = {.size = size, .values = TOTAL / size, .memcached = -1, .room = malloc(ROOM)};
    larder_rng_seed(&b.rng, 1, 0);
    bool there[WAYS] = {embedded_open(&b), daemon_open(&b, DAEMON), daemon_open(&b, OTHER),
                        peers && redis_open(&b), peers && b.room && memcached_open(&b)};
    for (int w = 0; w < WAYS; w++)
        if (!there[w])
            printf("%s: not there, left out\n", names[w]);
    printf("%u bytes a sample: filled at", size);
    for (int w = 0; w <= OTHER; w++)
        if (there[w])
            printf("%s %.1f thousand a second (%s)", w ? "," : "", b.values / b.filled[w] / 1e3,
                   names[w]);
    printf("\n");
    uint32_t part = b.values / BATCH;
    for (b.among = part < 4 ? part : 4; there[DAEMON]; b.among = part) {
        table(&b, there, rounds);
        if (b.among == part)
            break;
    }
    close_all(&b);
}

/* An empty cache, or one in which each sample takes the place of another, filled one after the
 * other by the daemon's own user and by another, in turn. */
static void run_fills(uint32_t size, bool full, size_t rounds) {
    double wall[WAYS][ROUNDS_MAX], cpu[WAYS][ROUNDS_MAX];
    for (size_t r = 0; r < rounds; r++) {
        bench b = {.size = size, .values = TOTAL / size, .memcached = -1, .full = full};
        for (int i = 0; i < 2; i++) {
            int w = ((size_t)i + r) % 2 ? OTHER : DAEMON;
            double c = larder__seconds_of(CLOCK_PROCESS_CPUTIME_ID);
            if (!daemon_open(&b, w)) {
                printf("%s: not there\n", names[w]);
                close_all(&b);
                return;
            }
            c = larder__seconds_of(CLOCK_PROCESS_CPUTIME_ID) - c + cpu_of(b.server[w]);
            wall[w][r] = b.values / b.filled[w];
            cpu[w][r] = (full ? 2 : 1) * b.values / c;
        }
        close_all(&b);
    }
    printf("%u bytes a sample, %s filled %zu times; thousand a second, and a CPU second\n", size,
           full ? "a full cache" : "an empty cache", rounds);
    for (int w = DAEMON; w <= OTHER; w++) {
        double median = measure_median(wall[w], rounds), busy = measure_median(cpu[w], rounds);
        printf("%-16s %10.1f (%6.1f to %6.1f) %14.1f (%6.1f to %6.1f)\n", names[w], median / 1e3,
               wall[w][0] / 1e3, wall[w][rounds - 1] / 1e3, busy / 1e3, cpu[w][0] / 1e3,
               cpu[w][rounds - 1] / 1e3);
    }
}

int main(int argc, char **argv) {
    size_t rounds = argc > 1 ? strtoul(argv[1], NULL, 10) : 7;
    rounds = rounds < 1 ? 1 : rounds > ROUNDS_MAX ? ROUNDS_MAX : rounds;
    if (!mkdtemp(folder))
        return 1;
    bool peers = argc < 3;
    if (!peers && strcmp(argv[2], "fill") == 0) {
        for (int full = 0; full < 2; full++) {
            run_fills(3072, full, rounds);
            run_fills(110 << 10, full, rounds);
        }
    } else {
        run(3072, rounds, peers);
        run(110 << 10, rounds, peers);
    }
    rmdir(folder);
    return 0;
}
