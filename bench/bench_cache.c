/* Cache hits in this process against a real redis-server on a Unix socket, in one run.
 *
 * Per core-second: the CPU time of this process, and for redis that of client and server together.
 * Ways: "reference" = larder__cache_get in batches, bytes are not touched; "copy" = the same, and
 * every entry is copied into a batch buffer; redis: a GET at a time, or 64 GETs in flight, each
 * copied into the same buffer. Rounds are interleaved. Without hiredis or redis-server, larder's
 * own figures alone. Usage: bench_cache [rounds] */
#include "base/clock.h"
#include "cache/local.h"
#include "measure.h"
#include "plugins.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#if LARDER_HAVE_HIREDIS
#include <hiredis/hiredis.h>
#endif

enum { LARGEST = 256, ROUNDS_MAX = 15, TOTAL = 192 << 20 };

typedef struct bench {
    uint32_t size;   /* of a value */
    uint32_t values; /* how many there are; about TOTAL bytes, far more than the processor caches */
    unsigned char *batch; /* room for LARGEST values */
    unsigned char *block; /* all values in a row, without any cache */
    larder__cache *cache;
    larder_rng rng;
    pid_t server; /* 0: none */
    void *redis;
} bench;

/* ---- larder ---------------------------------------------------------------------------------- */

static int make(void *arg, const larder_access *want, larder_buf *have, larder_buf **out) {
    (void)arg, (void)have;
    *out = larder_buf_new(want->size);
    if (*out)
        memset(larder_buf_data(*out), (int)(want->key & 0xff), want->size);
    return *out ? 0 : LARDER_E_NOMEM;
}

static void ask(bench *b, larder_access *a, size_t n) {
    for (size_t i = 0; i < n; i++)
        a[i].key = larder_rng_below(&b->rng, b->values);
}

/* Hits in batches of n; false when something else came. */
static bool larder_round(bench *b, size_t n, bool copy, uint64_t requests) {
    larder_access a[LARGEST] = {0};
    larder_buf *out[LARGEST];
    uint8_t kinds[LARGEST];
    for (size_t i = 0; i < n; i++)
        a[i].size = b->size;
    for (uint64_t done = 0; done < requests; done += n) {
        ask(b, a, n);
        if (larder__cache_get(b->cache, a, n, make, NULL, out, kinds) < 0)
            return false;
        for (size_t i = 0; i < n; i++) {
            if (kinds[i] != LARDER_HIT)
                return false;
            if (copy)
                memcpy(b->batch + i * b->size, larder_buf_data(out[i]), b->size);
            larder_buf_unref(&out[i]);
        }
    }
    return true;
}

/* The floor: the same bytes from random places of one block. */
static bool copy_round(bench *b, uint64_t requests) {
    for (uint64_t done = 0; done < requests; done++)
        memcpy(b->batch + done % LARGEST * b->size,
               b->block + (size_t)larder_rng_below(&b->rng, b->values) * b->size, b->size);
    return true;
}

static bool larder_fill(bench *b) {
    larder__cache_conf conf = {.policy = larder__policy_find("lru"),
                               .store = &larder__store_heap,
                               .keys = b->values,
                               .budget = (uint64_t)b->values * b->size,
                               .seed = 1};
    if (larder__cache_open(&b->cache, &conf) < 0)
        return false;
    for (uint32_t k = 0; k < b->values; k++) {
        larder_access a = {.key = k, .size = b->size};
        larder_buf *out;
        if (larder__cache_get(b->cache, &a, 1, make, NULL, &out, NULL) < 0)
            return false;
        larder_buf_unref(&out);
    }
    return true;
}

/* ---- redis ----------------------------------------------------------------------------------- */

/* CPU seconds of another process so far. */
static double cpu_of(pid_t pid) {
    clockid_t clock;
    return clock_getcpuclockid(pid, &clock) == 0 ? larder__seconds_of(clock) : 0;
}

#if LARDER_HAVE_HIREDIS
static char folder[] = "/tmp/larder-bench-XXXXXX", path[64];

static bool redis_start(bench *b) {
    if (!mkdtemp(folder))
        return false;
    snprintf(path, sizeof path, "%s/socket", folder);
    b->server = fork();
    if (b->server == 0) {
        int null = open("/dev/null", O_WRONLY);
        dup2(null, 1);
        dup2(null, 2);
        execlp("redis-server", "redis-server", "--port", "0", "--unixsocket", path, "--save", "",
               "--appendonly", "no", "--dir", folder, (char *)NULL);
        _exit(127);
    }
    for (int i = 0; b->server > 0 && i < 100; i++) {
        struct stat st;
        if (stat(path, &st) == 0 && (b->redis = redisConnectUnix(path)) &&
            !((redisContext *)b->redis)->err)
            return true;
        if (b->redis)
            redisFree(b->redis);
        b->redis = NULL;
        if (waitpid(b->server, NULL, WNOHANG) == b->server)
            break;
        larder__sleep_until(larder__now() + 0.05);
    }
    b->server = 0;
    rmdir(folder);
    return false;
}

static void redis_stop(bench *b) {
    if (!b->server)
        return;
    redisFree(b->redis);
    kill(b->server, SIGTERM);
    waitpid(b->server, NULL, 0);
    unlink(path);
    rmdir(folder);
}

static bool redis_reply(bench *b, unsigned char *to) {
    redisReply *r;
    if (redisGetReply(b->redis, (void **)&r) != REDIS_OK || !r)
        return false;
    bool fine = r->type == REDIS_REPLY_STRING && r->len == b->size;
    if (fine)
        memcpy(to, r->str, b->size);
    freeReplyObject(r);
    return fine;
}

static bool redis_fill(bench *b) {
    redisReply *r = redisCommand(b->redis, "FLUSHALL");
    freeReplyObject(r);
    for (uint32_t k = 0; k < b->values; k++) {
        memset(b->batch, (int)(k & 0xff), b->size);
        r = redisCommand(b->redis, "SET %u %b", k, b->batch, (size_t)b->size);
        bool fine = r && r->type == REDIS_REPLY_STATUS;
        freeReplyObject(r);
        if (!fine)
            return false;
    }
    return true;
}

static bool redis_round(bench *b, size_t depth, uint64_t requests) {
    for (uint64_t done = 0; done < requests; done += depth) {
        for (size_t i = 0; i < depth; i++)
            redisAppendCommand(b->redis, "GET %u", larder_rng_below(&b->rng, b->values));
        for (size_t i = 0; i < depth; i++)
            if (!redis_reply(b, b->batch + i * b->size))
                return false;
    }
    return true;
}
#else
static bool redis_start(bench *b) { return (void)b, false; }
static void redis_stop(bench *b) { (void)b; }
static bool redis_fill(bench *b) { return (void)b, false; }
static bool redis_round(bench *b, size_t n, uint64_t k) { return (void)b, (void)n, (void)k, false; }
#endif

/* ---- the table ------------------------------------------------------------------------------- */

enum { REFER_64, REFER_256, COPY_64, COPY_256, MEMCPY, REDIS_1, REDIS_64, WAYS };
static const char *const ways[] = {"larder reference, batch 64",
                                   "larder reference, batch 256",
                                   "larder copy, batch 64",
                                   "larder copy, batch 256",
                                   "memcpy alone",
                                   "redis GET, single",
                                   "redis GET, 64 in flight"};

static bool run_way(bench *b, int way, uint64_t requests) {
    switch (way) {
    case REFER_64:
    case COPY_64:
        return larder_round(b, 64, way == COPY_64, requests);
    case REFER_256:
    case COPY_256:
        return larder_round(b, 256, way == COPY_256, requests);
    case MEMCPY:
        return copy_round(b, requests);
    default:
        return redis_round(b, way == REDIS_1 ? 1 : 64, requests);
    }
}

/* Thousand hits a core-second of each way, interleaved. */
static bool measure(bench *b, int rounds, double rate[WAYS][ROUNDS_MAX]) {
    const uint64_t base = 64 * (1 + 3000000 / b->size); /* about 0.2 GB a round when copied */
    const uint64_t requests[WAYS] = {base * 16, base * 16, base * 2, base * 2,
                                     base * 2,  base / 2,  base};
    int count = b->server ? WAYS : REDIS_1;
    for (int r = -1; r < rounds; r++) /* round -1 warms up */
        for (int w = 0; w < count; w++) {
            uint64_t n = requests[w] / 256 * 256 + 256;
            double start = larder__cpu_seconds() + (b->server ? cpu_of(b->server) : 0);
            if (!run_way(b, w, n))
                return false;
            double spent = larder__cpu_seconds() + (b->server ? cpu_of(b->server) : 0) - start;
            if (r >= 0)
                rate[w][r] = (double)n / spent / 1e3;
        }
    return true;
}

static void report(const bench *b, int rounds, double rate[WAYS][ROUNDS_MAX]) {
    double mid[WAYS] = {0};
    printf("\n%u bytes, %u values\n%-28s %12s %21s\n", b->size, b->values, "", "k/core-s",
           "(least .. most)");
    for (int w = 0; w < (b->server ? WAYS : REDIS_1); w++) {
        mid[w] = measure_median(rate[w], (size_t)rounds);
        printf("%-28s %12.1f  (%9.1f .. %9.1f)\n", ways[w], mid[w], rate[w][0],
               rate[w][rounds - 1]);
    }
    if (b->server)
        printf("copy of 64 against redis: %.1f x 64 in flight, %.1f x single\n",
               mid[COPY_64] / mid[REDIS_64], mid[COPY_64] / mid[REDIS_1]);
}

int main(int argc, char **argv) {
    int rounds = argc > 1 ? atoi(argv[1]) : 5;
    rounds = rounds < 1 ? 1 : rounds > ROUNDS_MAX ? ROUNDS_MAX : rounds;
    static const uint32_t sizes[] = {3072, 20 << 10, 110 << 10};
    static double rate[WAYS][ROUNDS_MAX];
    bench b = {0};
    int failed = 0;
    if (!redis_start(&b))
        puts("redis left out: no redis-server, or built without hiredis (apt: redis-server "
             "libhiredis-dev)");
    for (int i = 0; i < 3 && !failed; i++) {
        b.size = sizes[i];
        b.values = TOTAL / b.size;
        larder_rng_seed(&b.rng, 1, (uint64_t)i);
        b.batch = malloc((size_t)LARGEST * b.size);
        b.block = malloc((size_t)b.values * b.size);
        if (b.block)
            memset(b.block, 1, (size_t)b.values * b.size);
        failed = !b.batch || !b.block || !larder_fill(&b) || (b.server && !redis_fill(&b)) ||
                 !measure(&b, rounds, rate);
        if (!failed)
            report(&b, rounds, rate);
        larder__cache_close(&b.cache);
        free(b.batch);
        free(b.block);
        fflush(stdout);
    }
    redis_stop(&b);
    if (failed)
        fprintf(stderr, "bench_cache: %s\n", larder_errmsg());
    return failed;
}
