/* A batch of 256 samples out of redis-server: by larder's fetches, checked and in buffers of their
 * own, against plain hiredis, one GET after the other, 256 GETs in flight, and one MGET. Same
 * server, same values, one round of each after the other; every byte is summed up by everybody.
 *
 *     build/bench_redis [--tcp] [--alone] [ROUNDS]
 *
 * --alone: as root, before all others on the machine, for a few seconds. */
#include "base/clock.h"
#include "base/err.h"
#include "base/hash.h"
#include "measure.h"
#include "redis/values.h"
#include "shared/cache_text.h"

#include <math.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#if LARDER_HAVE_HIREDIS
#include <hiredis/hiredis.h>

enum { BATCH = 256, ROUNDS_MOST = 99 };
typedef enum { LARDER, ONE_BY_ONE, PIPELINED, MGET, WAYS } way;
static const char *const names[] = {"larder", "hiredis, one GET at a time",
                                    "hiredis, 256 GETs in flight", "hiredis, one MGET"};

typedef struct bench {
    char path[64];
    pid_t server;
    redisContext *c;
    larder__redis_values *far;
    uint32_t size, count; /* of each value; values */
    uint64_t sum;         /* so that nobody leaves anything out */
} bench;

static void add(bench *b, const void *bytes, size_t n) {
    const unsigned char *p = bytes;
    uint64_t sum = 0;
    for (size_t i = 0; i + 8 <= n; i += 8) {
        uint64_t w;
        memcpy(&w, p + i, 8);
        sum += w;
    }
    b->sum += sum;
}

static int die(const char *why) {
    fprintf(stderr, "bench_redis: %s: %s\n", why, larder_errmsg());
    exit(1);
}

static void start_server(bench *b, bool tcp) {
    char port[8] = "0", folder[64];
    snprintf(folder, sizeof folder, "/tmp/larder-bench-XXXXXX");
    if (!mkdtemp(folder))
        die("no folder");
    snprintf(b->path, sizeof b->path, "%.40s/s", folder);
    if (tcp)
        snprintf(port, sizeof port, "%d", 20000 + (int)getpid() % 30000);
    b->server = fork();
    if (b->server == 0) {
        execlp("redis-server", "redis-server", "--port", port, "--unixsocket", b->path, "--save",
               "", "--loglevel", "warning", (char *)NULL);
        _exit(127);
    }
    for (int i = 0; i < 200; i++) {
        usleep(20000);
        b->c = tcp ? redisConnect("127.0.0.1", atoi(port)) : redisConnectUnix(b->path);
        if (b->c && !b->c->err)
            break;
        redisFree(b->c);
        b->c = NULL;
    }
    if (!b->c)
        die("redis-server does not start");
    char text[160];
    if (tcp)
        snprintf(text, sizeof text, "redis://127.0.0.1:%s?timeout=20s", port);
    else
        snprintf(text, sizeof text, "redis+unix://%s?timeout=20s", b->path);
    larder__cache_text cache;
    if (larder__cache_text_parse(&cache, text, "") < 0 ||
        larder__redis_values_open(
            &b->far, &(larder__redis_values_conf){.redis = &cache.redis, .owner = "bench"}) < 0)
        die("no connection");
}

static void stop_server(bench *b) {
    larder__redis_values_close(&b->far);
    redisFree(b->c);
    kill(b->server, SIGTERM);
    waitpid(b->server, NULL, 0);
    unlink(b->path);
    *strrchr(b->path, '/') = '\0';
    rmdir(b->path);
}

static larder__value value(const bench *b, uint32_t k) {
    return (larder__value){.id = k, .mark = 1, .size = b->size};
}

static void key_text(uint32_t k, char out[64]) {
    snprintf(out, 64, "larder:3:0000000000000000:bench:0:%u:1", k);
}

static void fill(bench *b) {
    redisReply *r = redisCommand(b->c, "FLUSHALL");
    freeReplyObject(r);
    for (uint32_t k = 0; k < b->count; k++) {
        larder_buf *buf = larder_buf_new(b->size);
        larder__value v = value(b, k);
        unsigned char *bytes = larder_buf_data(buf);
        for (uint32_t i = 0; i < b->size; i += 4) {
            uint32_t w = (uint32_t)larder__mix64((uint64_t)k << 32 | i);
            memcpy(bytes + i, &w, b->size - i < 4 ? b->size - i : 4);
        }
        larder__redis_values_put(b->far, &v, buf, 0, NULL, NULL);
        larder_buf_unref(&buf);
        if (k % 64 == 63 && !larder__redis_values_settle(b->far, 20))
            die("cannot write");
    }
    if (!larder__redis_values_settle(b->far, 20))
        die("cannot write");
}

static void by_larder(bench *b, const uint32_t *keys) {
    larder__redis_fetch *e[BATCH];
    for (int i = 0; i < BATCH; i++) {
        larder__value v = value(b, keys[i]);
        e[i] = larder__redis_fetch_new(&v);
    }
    larder__redis_values_send(b->far, e, BATCH);
    for (int i = 0; i < BATCH; i++) {
        larder_buf *got = larder__redis_values_receive(b->far, e[i]);
        if (!got)
            die("a value did not come");
        add(b, larder_buf_data(got), b->size);
        larder_buf_unref(&got);
        larder__redis_fetch_unref(&e[i]);
    }
}

/* Behind the head of 40 bytes that larder's values have. */
static void take(bench *b, redisReply *r) {
    if (!r || r->type != REDIS_REPLY_STRING || r->len != b->size + 40)
        die("a value did not come");
    add(b, r->str + 40, b->size);
}

static void one_by_one(bench *b, const uint32_t *keys) {
    for (int i = 0; i < BATCH; i++) {
        char key[64];
        key_text(keys[i], key);
        redisReply *r = redisCommand(b->c, "GET %s", key);
        take(b, r);
        freeReplyObject(r);
    }
}

static void pipelined(bench *b, const uint32_t *keys) {
    for (int i = 0; i < BATCH; i++) {
        char key[64];
        key_text(keys[i], key);
        redisAppendCommand(b->c, "GET %s", key);
    }
    for (int i = 0; i < BATCH; i++) {
        redisReply *r = NULL;
        redisGetReply(b->c, (void **)&r);
        take(b, r);
        freeReplyObject(r);
    }
}

static void by_mget(bench *b, const uint32_t *keys) {
    char text[BATCH][64];
    const char *argv[BATCH + 1] = {"MGET"};
    for (int i = 0; i < BATCH; i++) {
        key_text(keys[i], text[i]);
        argv[i + 1] = text[i];
    }
    redisReply *r = redisCommandArgv(b->c, BATCH + 1, argv, NULL);
    if (!r || r->elements != BATCH)
        die("values did not come");
    for (int i = 0; i < BATCH; i++)
        take(b, r->element[i]);
    freeReplyObject(r);
}

/* Seconds that the server's one thread was on a processor. */
static double server_seconds(const bench *b) {
    char path[64];
    unsigned long long ns = 0;
    snprintf(path, sizeof path, "/proc/%d/schedstat", (int)b->server);
    FILE *f = fopen(path, "r");
    if (!f || fscanf(f, "%llu", &ns) != 1) // NOLINT(cert-err34-c)
        ns = 0;
    if (f)
        fclose(f);
    return (double)ns * 1e-9;
}

static double own_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

typedef struct took { /* seconds of a batch: by the clock, of the server's and of our processors */
    double wall, server, own;
} took;

static took run(bench *b, way w, uint32_t batches, uint64_t seed) {
    uint32_t keys[BATCH];
    double began = larder__now(), server = server_seconds(b), own = own_seconds();
    for (uint32_t n = 0; n < batches; n++) {
        for (int i = 0; i < BATCH; i++)
            keys[i] = (uint32_t)(larder__mix64(seed + n * BATCH + (uint64_t)i) % b->count);
        if (w == LARDER)
            by_larder(b, keys);
        else if (w == ONE_BY_ONE)
            one_by_one(b, keys);
        else if (w == PIPELINED)
            pipelined(b, keys);
        else
            by_mget(b, keys);
    }
    return (took){.wall = (larder__now() - began) / batches,
                  .server = (server_seconds(b) - server) / batches,
                  .own = (own_seconds() - own) / batches};
}

/* What the kernel alone takes to bring as many bytes through such a socket, from memory where they
 * lie ready to a buffer, each side on a processor of its own. */
static double bare_socket(const bench *b) {
    enum { TIMES = 3 };
    uint64_t size = b->size + 47, left = TIMES * BATCH * size;
    int ends[2];
    char *bytes = calloc(1, size);
    if (!bytes || socketpair(AF_UNIX, SOCK_STREAM, 0, ends) < 0)
        die("no socket");
    pid_t child = fork();
    if (child == 0) {
        for (int i = 0; i < TIMES * BATCH; i++)
            for (uint64_t at = 0; at < size;) {
                ssize_t n = write(ends[1], bytes + at, size - at);
                if (n <= 0)
                    _exit(1);
                at += (uint64_t)n;
            }
        _exit(0);
    }
    double began = larder__now();
    while (left > 0) {
        ssize_t n = read(ends[0], bytes, left < size ? left : size);
        if (n <= 0)
            die("no bytes");
        left -= (uint64_t)n;
    }
    double each = (larder__now() - began) / TIMES;
    waitpid(child, NULL, 0);
    close(ends[0]);
    close(ends[1]);
    free(bytes);
    return each;
}

static void compare(bench *b, uint32_t size, uint32_t count, uint32_t batches, int rounds) {
    double t[WAYS][ROUNDS_MOST], ratio[WAYS][ROUNDS_MOST], server[WAYS][ROUNDS_MOST],
        own[WAYS][ROUNDS_MOST], bare[ROUNDS_MOST];
    b->size = size;
    b->count = count;
    fill(b);
    for (int r = 0; r < rounds; r++) {
        uint64_t sums[WAYS];
        for (int w = 0; w < WAYS; w++) {
            b->sum = 0;
            took of = run(b, (way)w, batches, (uint64_t)r * 1000003);
            t[w][r] = of.wall;
            server[w][r] = of.server;
            own[w][r] = of.own;
            sums[w] = b->sum;
            if (sums[w] != sums[0])
                die("the ways disagree");
        }
        for (int w = 0; w < WAYS; w++)
            ratio[w][r] = t[w][r] / t[LARDER][r];
        bare[r] = bare_socket(b);
    }
    printf("%u bytes, %u values\n", size, count);
    for (int w = 0; w < WAYS; w++) {
        double m = measure_median(t[w], (size_t)rounds),
               x = measure_median(ratio[w], (size_t)rounds),
               at = measure_median(server[w], (size_t)rounds),
               here = measure_median(own[w], (size_t)rounds);
        printf("  %-28s %9.2f ms a batch (%.2f of redis-server's processor, %.2f of ours) %6.0f "
               "MB/s   larder is %.2f times as fast (%.2f to %.2f)\n",
               names[w], m * 1e3, at * 1e3, here * 1e3, BATCH * (double)size / m / 1e6, x,
               ratio[w][0], ratio[w][rounds - 1]);
    }
    double floor = measure_median(bare, (size_t)rounds);
    printf("  %-28s %9.2f ms a batch %*s %6.0f MB/s\n", "a bare socket, no server", floor * 1e3, 55,
           "", BATCH * (double)size / floor / 1e6);
}

int main(int argc, char **argv) {
    bool tcp = false;
    int rounds = 7;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--tcp") == 0)
            tcp = true;
        else if (strcmp(argv[i], "--alone") != 0)
            rounds = atoi(argv[i]);
        else if (sched_setscheduler(0, SCHED_RR, &(struct sched_param){.sched_priority = 1}) < 0)
            printf("bench_redis: others on this machine cannot be kept off\n");
    }
    rounds = rounds < 1 ? 1 : rounds > ROUNDS_MOST ? ROUNDS_MOST : rounds;
    bench b = {0};
    if (access("/usr/bin/redis-server", X_OK) != 0) {
        printf("bench_redis: no redis-server, left out\n");
        return 0;
    }
    start_server(&b, tcp);
    compare(&b, 3 << 10, 8192, 40, rounds);
    compare(&b, 20 << 10, 2048, 20, rounds);
    compare(&b, 110 << 10, 768, 4, rounds);
    stop_server(&b);
    return 0;
}
#else
int main(void) {
    printf("bench_redis: built without hiredis, left out\n");
    return 0;
}
#endif
