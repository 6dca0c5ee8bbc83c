/* All memory of the daemon counts against its cache, whatever clients claim: hostile and honest
 * extremes are attached, asked for, scored, left; and its own count and what the kernel says it has
 * stay within --cache and a little more, always. */
#include "base/clones.h"
#include "base/mem.h"
#include "base/world.h"
#include "daemon_kit.h"
#include "unix/attach.h"
#include "unix/cost.h"
#include "unix/frame.h"
#include "unix/rank_message.h"

#include <dirent.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MIB (1 << 20)
enum { CACHE = 16 * MIB, OWN = 12 * MIB, HEAP_SLACK = 4 * MIB, CLIENTS = 100 };

static pid_t daemon_pid;
static uint64_t at_rest; /* memory of the process itself */

/* ---- what it has ----------------------------------------------------------------------------- */

static uint64_t anonymous(void) {
    char name[64], line[256];
    unsigned long kib = 0;
    snprintf(name, sizeof name, "/proc/%d/smaps_rollup", (int)daemon_pid);
    FILE *f = fopen(name, "re");
    assert_non_null(f);
    while (fgets(line, sizeof line, f) && sscanf(line, "Anonymous: %lu kB", &kib) != 1) {
    }
    fclose(f);
    assert_true(kib > 0);
    return (uint64_t)kib << 10;
}

/* Of memory that it shares: pages that exist, whoever has touched them. What it lends to others for
 * reading alone it has open twice. */
static uint64_t shared(void) {
    char name[300], target[64];
    ino_t seen[256];
    size_t count = 0;
    uint64_t sum = 0;
    snprintf(name, sizeof name, "/proc/%d/fd", (int)daemon_pid);
    DIR *d = opendir(name);
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d));) {
        struct stat st;
        snprintf(name, sizeof name, "/proc/%d/fd/%.16s", (int)daemon_pid, e->d_name);
        ssize_t n = readlink(name, target, sizeof target - 1);
        target[n > 0 ? n : 0] = 0;
        if (strncmp(target, "/memfd:larder", 13) != 0 || stat(name, &st) != 0)
            continue;
        size_t at = 0;
        while (at < count && seen[at] != st.st_ino)
            at++;
        if (at < count)
            continue;
        assert_true(count < sizeof seen / sizeof *seen);
        seen[count++] = st.st_ino;
        sum += (uint64_t)st.st_blocks * 512;
    }
    closedir(d);
    return sum;
}

static int ask(const char *name, uint64_t *value) {
    char *json = NULL, key[40];
    larder__door door = larder__door_at(kit_door);
    snprintf(key, sizeof key, "\"%s\"", name);
    int rc = larder__attach_status(&door, &json);
    if (rc < 0)
        return rc;
    const char *at = strstr(json, key);
    assert_non_null(at);
    *value = strtoull(at + strlen(key) + strspn(at + strlen(key), ": "), NULL, 10);
    larder__free(json);
    return 0;
}

static uint64_t figure(const char *name) {
    uint64_t value = 0;
    check_ok(ask(name, &value));
    return value;
}

static void check_real(const char *when) {
    uint64_t heap = anonymous(), lent = shared();
    uint64_t real = heap - (at_rest < heap ? at_rest : heap) + lent;
#if LARDER__SANITIZED
    real = 0; /* a sanitizer keeps memory of its own, and what was freed */
#endif
    if (real > CACHE + OWN + HEAP_SLACK)
        fail_msg("%s: %llu bytes of heap and %llu shared in truth", when, (unsigned long long)heap,
                 (unsigned long long)lent);
}

static void check_said(const char *when, uint64_t counted, uint64_t promised) {
    if (counted > CACHE + OWN || promised > CACHE)
        fail_msg("%s: %llu bytes counted, %llu promised", when, (unsigned long long)counted,
                 (unsigned long long)promised);
}

static void check_within(const char *when) {
    check_said(when, figure("memory_bytes"), figure("promised_bytes"));
    check_real(when);
}

/* ---- the daemon ------------------------------------------------------------------------------ */

static void go_by_the_clock(void *unused) {
    (void)unused;
    kit_clock_go_on();
}

/* It goes by the clock, and we wait for it however long it gets no processor. */
static void start_daemon(unsigned mode) {
    larder__server_conf conf = {
        .socket = kit_door, .mode = mode, .cache = CACHE, .clients = CLIENTS};
    kit_clock_stop(NULL);
    daemon_pid = kit_daemon_start(&conf, go_by_the_clock, NULL);
    at_rest = anonymous();
}

static int begin(void **st) {
    kit_door_make(st);
    start_daemon(0600);
    return 0;
}

static int end(void **st) {
    kit_daemon_kill(daemon_pid);
    kit_clock_go_on();
    return kit_door_remove(st);
}

/* ---- honest jobs ----------------------------------------------------------------------------- */

static larder__attach_conf job(uint64_t keys, uint64_t payload, const char *budget,
                               const char *policy) {
    larder__attach_conf conf = {.door = larder__door_at(kit_door),
                                .hello = {.batch = 256,
                                          .identity = keys * 31 + payload,
                                          .about.keys = keys,
                                          .payload = payload,
                                          .about.share = {1},
                                          .name = "test"}};
    snprintf(conf.hello.budget, sizeof conf.hello.budget, "%s", budget);
    snprintf(conf.hello.about.policy, sizeof conf.hello.about.policy, "%s", policy);
    return conf;
}

/* Asks for everything once, makes what is missing, and scores it. */
static void sweep(larder__cache *c, uint64_t keys, uint32_t size, size_t at_once) {
    larder_access *in = calloc(at_once, sizeof *in);
    larder__ticket *t = calloc(at_once, sizeof *t);
    uint64_t *scored = calloc(at_once, sizeof *scored);
    float *scores = calloc(at_once, sizeof *scores);
    assert_true(in && t && scored && scores);
    for (uint64_t from = 0; from < keys; from += at_once) {
        size_t n = keys - from < at_once ? (size_t)(keys - from) : at_once;
        for (size_t i = 0; i < n; i++) {
            in[i] = (larder_access){.key = from + i, .size = size, .score = NAN};
            scored[i] = from + i;
            scores[i] = (float)(from % 97);
        }
        check_ok(larder__cache_claim(c, in, n, t));
        for (size_t i = 0; i < n; i++) {
            if (t[i].task == LARDER__MAKE) {
                larder_buf *b = larder_buf_new(size);
                assert_non_null(b);
                memset(larder_buf_data(b), 7, size);
                t[i].held = LARDER_ENCODED;
                larder__cache_fill(c, &t[i], b);
                larder_buf_unref(&b);
            }
            larder__ticket_drop(&t[i]);
        }
        larder__cache_batch(c);
        larder__cache_score(c, scored, scores, n);
    }
    free(in), free(t), free(scored), free(scores);
}

static void small_samples(void **st) {
    (void)st;
    enum { KEYS = 60000, SIZE = 16 };
    static const char *const policies[] = {"lru", "minio", "hilo", "rotate"};
    for (size_t i = 0; i < sizeof policies / sizeof *policies; i++) {
        larder__cache *c[3];
        larder__attach_conf conf = job(KEYS, KEYS * SIZE, "", policies[i]);
        conf.hello.identity += i;
        for (size_t k = 0; k < 3; k++) {
            check_ok(larder__attach_open(&c[k], &conf));
            for (int round = 0; round < 2; round++) {
                sweep(c[k], KEYS, SIZE, k == 2 ? 5000 : 256);
                check_within(policies[i]);
            }
        }
        larder__cache_figures f;
        larder__cache_read_figures(c[0], &f); /* and it is of use */
        assert_true(f.resident > 5000);
        for (size_t k = 0; k < 3; k++)
            larder__cache_close(&c[k]);
    }
    check_within("all have left");
}

/* Where there is room, all that was asked for is given, and no more is promised than it takes. */
static void as_asked(void **st) {
    (void)st;
    enum { KEYS = 1000, SIZE = 3000 };
    static const char *const budgets[] = {"", "100%", "2MiB"};
    for (size_t i = 0; i < 3; i++) {
        larder__cache *c = NULL;
        larder__cache_figures f;
        larder__attach_conf conf = job(KEYS, KEYS * SIZE, budgets[i], "minio");
        conf.hello.identity += i;
        uint64_t want = i < 2 ? KEYS * SIZE : 2 << 20, before = figure("promised_bytes");
        check_ok(larder__attach_open(&c, &conf));
        sweep(c, KEYS, SIZE, 256);
        sweep(c, KEYS, SIZE, 256);
        larder__cache_read_figures(c, &f);
        assert_int_equal(f.budget, want);
        assert_int_equal(f.resident, want / SIZE);
        uint64_t promised = figure("promised_bytes");
        assert_true(promised > want && promised < before + want + want / 2 + 3 * MIB);
        larder__cache_close(&c);
        check_within("as asked");
    }
}

/* What does not fit is refused before it is there, with how much would be needed. */
static void too_many_samples(void **st) {
    (void)st;
    static const struct {
        uint64_t keys, payload;
        const char *budget;
    } all[] = {{10000000, 10000000, ""},
               {10000000, (uint64_t)1 << 50, ""},
               {5000000, 5000000, "1"},
               {100000, 100000, "100%"},
               {1000, (uint64_t)1 << 30, "900MiB"},
               {1000, (uint64_t)1 << 60, "100%"}};
    static const char *const policies[] = {"lru", "ods", "hilo", "spider"};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        for (size_t p = 0; p < 4; p++) {
            larder__cache *c = NULL;
            larder__attach_conf conf = job(all[i].keys, all[i].payload, all[i].budget, policies[p]);
            conf.exchanges = false;
            int rc = larder__attach_open(&c, &conf);
            if (rc != LARDER_E_FULL || !strstr(larder_errmsg(), "needed") ||
                !strstr(larder_errmsg(), "16.0 MiB"))
                fail_msg("%llu samples with %s: %d, %s", (unsigned long long)all[i].keys,
                         policies[p], rc, larder_errmsg());
            check_within("refused");
        }
}

/* A budget of a byte, and one that asks for all there is, again and again. */
static void odd_budgets(void **st) {
    (void)st;
    static const char *const budgets[] = {"1", "0%", "100%", "", "15MiB", "4MiB"};
    for (uint64_t i = 0; i < 60; i++) {
        larder__cache *c = NULL;
        uint64_t keys = 1 + i * 37 % 5000, size = 1 + i * i * 13;
        larder__attach_conf conf = job(keys, keys * size, budgets[i % 6], i % 2 ? "lru" : "minio");
        int rc = larder__attach_open(&c, &conf);
        if (rc == 0)
            sweep(c, keys, (uint32_t)size, 256);
        else
            assert_true(rc == LARDER_E_FULL || rc == LARDER_E_ARGS);
        larder__cache_close(&c);
        check_within("odd");
    }
}

/* ---- others ---------------------------------------------------------------------------------- */

static int raw(void) {
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    struct timeval second = {.tv_sec = 1};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    memcpy(a.sun_path, kit_door, strlen(kit_door));
    assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof a), 0);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &second, sizeof second);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &second, sizeof second);
    return fd;
}

static void say(int fd, uint16_t type, const larder_writer *w) {
    larder__frame_send(fd, type, w->bytes, w->size, NULL, 0); /* it may have hung up */
}

static larder__hello hostile_hello(uint64_t keys, uint64_t payload, uint32_t at_once) {
    larder__hello h = {.magic = LARDER__WIRE_MAGIC,
                       .version = LARDER__WIRE_VERSION,
                       .batch = at_once,
                       .at_once = at_once,
                       .identity = 99,
                       .about.keys = keys,
                       .payload = payload,
                       .about.share = {1},
                       .about.policy = "lru",
                       .name = "hostile"};
    return h;
}

/* Samples of one byte, of which it says that they are large, or the other way round; batches of
 * any size; nothing is given back. */
static void greedy(void **st) {
    (void)st;
    const uint64_t payloads[] = {0, 1, 20000, (uint64_t)1 << 40, (uint64_t)1 << 59};
    for (size_t i = 0; i < 5; i++)
        for (uint32_t at_once = 1; at_once <= 1 << 17; at_once *= 16) {
            larder_writer w = {0};
            int fd = raw();
            larder__hello h = hostile_hello(20000, payloads[i], at_once);
            h.identity += i * 100 + at_once;
            larder__hello_write(&h, &w);
            say(fd, LARDER__MSG_HELLO, &w);
            larder__row *all = calloc(60000, sizeof *all);
            assert_non_null(all);
            for (uint32_t k = 0; k < 60000; k++)
                all[k] = (larder__row){.key = k % 20000, .size = 1};
            for (int round = 0; round < 3; round++) {
                uint32_t n = round || at_once > 60000 ? 60000 : at_once;
                larder__op o = {.type = round == 2 ? LARDER__OP_EXCHANGE : LARDER__OP_CLAIM,
                                .number = {UINT32_MAX},
                                .n = n,
                                .rows = all};
                w.size = 0;
                larder__op_write(&o, &w);
                say(fd, (uint16_t)(LARDER__MSG_OP + o.type), &w);
            }
            check_within("greedy");
            free(all);
            larder__writer_free(&w);
            close(fd);
        }
    const uint64_t keys[] = {0, 1, 40000000, 4000000000, UINT32_MAX, UINT64_MAX};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        larder_writer w = {0};
        int fd = raw();
        larder__hello h = hostile_hello(keys[i], 1 << 20, 1);
        larder__hello_write(&h, &w);
        say(fd, LARDER__MSG_HELLO, &w);
        check_within("of any number");
        larder__writer_free(&w);
        close(fd);
    }
    check_within("the greedy have left");
}

/* Many who begin a long message and never end it, or never read their answers. */
/* What clients say may take all that is left, to the last byte if they stop half-way: then the
 * daemon does not even say how much that is. */
static bool check_crowded(const char *when) {
    uint64_t counted, promised;
    bool said = ask("memory_bytes", &counted) == 0 && ask("promised_bytes", &promised) == 0;
    if (said)
        check_said(when, counted, promised);
    check_real(when);
    return said;
}

static void many_clients(void **st) {
    (void)st;
    enum { MANY = CLIENTS - 2 };
    static unsigned char noise[64 << 10];
    int fds[MANY];
    const larder__frame_head heads[] = {{.bytes = 16 << 20, .type = LARDER__MSG_HELLO},
                                        {.bytes = 4 << 20, .type = LARDER__MSG_HELLO},
                                        {.bytes = 0, .type = LARDER__MSG_STATUS}};
    for (size_t i = 0; i < MANY; i++) {
        const larder__frame_head *h = &heads[i % 3];
        fds[i] = raw();
        struct timeval soon = {.tv_usec = 20000};
        setsockopt(fds[i], SOL_SOCKET, SO_SNDTIMEO, &soon, sizeof soon);
        bool taken = true;
        for (int k = 0; taken && k < (h->bytes ? 60 : 2000); k++) {
            if (k == 0 || h->bytes == 0)
                taken = send(fds[i], h, sizeof *h, MSG_NOSIGNAL) == sizeof *h;
            if (taken && h->bytes)
                taken = send(fds[i], noise, sizeof noise, MSG_NOSIGNAL) > 0;
        }
        if (i % 10 == 0)
            check_crowded("many");
    }
    check_crowded("all of many");
    for (size_t i = 0; i < MANY; i++)
        close(fds[i]);
    while (!check_crowded("none of many")) /* until it has seen that they left */
        usleep(1000);
}

/* Ranks: a budget that follows from claims, and records that nobody forgets. */
static void talkative_ranks(void **st) {
    (void)st;
    static unsigned char piece[LARDER__PIECE];
    const uint64_t payloads[] = {0, 100000, (uint64_t)1 << 50};
    for (size_t i = 0; i < 3; i++) {
        larder_writer w = {0};
        int fd = raw();
        larder__join j = {.magic = LARDER__WIRE_MAGIC,
                          .version = LARDER__WIRE_VERSION,
                          .world = 2,
                          .batch = UINT32_MAX,
                          .turns = UINT32_MAX,
                          .identity = i,
                          .keys = (uint64_t)1 << 40,
                          .payload = payloads[i],
                          .want = UINT64_MAX,
                          .job = "talk"};
        larder__join_write(&j, &w);
        say(fd, LARDER__MSG_JOIN, &w);
        check_within("joined");
        for (uint32_t k = 0; k < 200; k++) {
            w.size = 0;
            larder_write_u32(&w, 't');
            larder_write_u32(&w, 0);
            larder_write_u32(&w, 1);
            larder_write_u64(&w, k);
            larder_write_bytes(&w, piece, sizeof piece);
            say(fd, LARDER__MSG_SAY, &w);
            if (k % 20 == 0)
                check_within("talkative");
        }
        check_within("talked");
        larder__writer_free(&w);
        close(fd);
    }
    check_within("talked out");
}

/* Jobs of another user, each with a tray as long as there is room for one, fill and leave. Those
 * that come after the first, which asks for all there is, find room for theirs too. */
static void strangers(void **st) {
    (void)st;
    enum { NOBODY = 65534, KEYS = 100, SIZE = 300000, JOBS = 40, LEFT_FREE = 3 };
    larder__cache *c[JOBS] = {NULL};
    size_t trays = 0, in = 0;
    root_or_skip();
    kit_daemon_kill(daemon_pid);
    assert_int_equal(chmod(kit_door_folder, 0777), 0);
    start_daemon(0666);
    for (size_t i = 0; i < JOBS; i++) {
        larder__attach_conf one = job(KEYS, (uint64_t)KEYS * SIZE, "", "lru");
        uint64_t before = shared();
        assert_int_equal(seteuid(NOBODY), 0);
        int rc = larder__attach_open(&c[i], &one);
        assert_int_equal(seteuid(0), 0);
        if (rc < 0)
            assert_int_equal(rc, LARDER_E_FULL);
        else {
            in++;
            before = shared();
            sweep(c[i], KEYS, SIZE, 16);
            trays += shared() > before + MIB / 4; /* pages that were not there */
        }
        check_within("a stranger");
    }
    assert_true(trays >= LEFT_FREE && trays <= in);
    for (size_t i = 0; i < JOBS; i++)
        larder__cache_close(&c[i]);
    check_within("strangers have left");
}

/* ---- descriptors ----------------------------------------------------------------------------- */

static double stopped_clock;
static double our_now(void) { return stopped_clock; }

/* Somebody waits at the door and there is no descriptor for him: the daemon does not look after him
 * without end, but now and then. */
static void no_descriptors(void **st) {
    struct rlimit before, none;
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    larder__server *s = NULL;
    kit_door_make(st);
    assert_true(strlen(kit_door) < sizeof a.sun_path);
    memcpy(a.sun_path, kit_door, strlen(kit_door));
    larder__server_conf conf = {
        .socket = kit_door, .mode = 0600, .cache = CACHE, .clients = CLIENTS};
    const larder__world *real = larder__world_use(NULL);
    larder__world ours = *real;
    ours.now = our_now;
    larder__world_use(&ours);
    check_ok(larder__server_open(&s, &conf));
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = before;
    none.rlim_cur = 0;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    assert_int_equal(larder__server_turn(s, 0), 1);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(larder__server_turn(s, 0), 1);
    assert_int_equal(larder__server_clients(s), 0); /* it is not looked after */
    stopped_clock += 1;
    assert_int_equal(larder__server_turn(s, 0), 1);
    assert_int_equal(larder__server_clients(s), 1);
    close(fd);
    assert_int_equal(larder__server_turn(s, 0), 1);
    assert_int_equal(larder__server_clients(s), 0);
    larder__server_close(&s);
    larder__world_use(real);
    kit_door_remove(st);
}

/* ---- sums ------------------------------------------------------------------------------------ */

static void costs(void **st) {
    (void)st;
    larder__cost c = {.fixed = 1000, .entries = 50, .mean = 100, .slack = 10, .staying = 5};
    c.job = 7;
    uint64_t before = 0;
    for (uint64_t b = 0; b < 20000; b += 50) {
        uint64_t all = larder__cost_all(&c, b);
        assert_true(all > before && all >= larder__cost_arena(&c, b) + c.fixed + c.job);
        assert_true(larder__cost_fit(&c, UINT64_MAX, all) >= b);
        assert_true(larder__cost_all(&c, larder__cost_fit(&c, UINT64_MAX, all)) <= all);
        assert_int_equal(larder__cost_fit(&c, b, UINT64_MAX), b);
        before = all;
    }
    assert_int_equal(larder__cost_fit(&c, UINT64_MAX, 100), 0);
    const uint64_t huge[] = {UINT64_MAX, (uint64_t)1 << 60, (uint64_t)1 << 48};
    for (size_t i = 0; i < 3; i++) {
        larder__cost h = {.fixed = huge[i], .entries = huge[i], .mean = 1, .slack = 0};
        assert_true(larder__cost_all(&h, huge[i]) > (uint64_t)1 << 47);
        assert_true(larder__cost_slack(UINT32_MAX, huge[i], huge[i]) <= 8 << 20);
    }
}

static void purses(void **st) {
    (void)st;
    larder__purse p = {.most = 100000};
    assert_null(larder__mem_charge(&p));
    void *a = larder__malloc(1000), *b = larder__calloc(100, 10);
    assert_true(a && b && p.used >= 2000 && p.used < 2200);
    a = larder__realloc(a, 50000);
    assert_true(a && p.used >= 51000 && p.used < 51500);
    assert_null(larder__malloc(60000));
    assert_null(larder__realloc(b, 60000));
    assert_true(larder__mem_take(40000) && !larder__mem_take(40000));
    larder__mem_give(40000);
    assert_ptr_equal(larder__mem_charge(NULL), &p);
    void *other = larder__malloc(70000); /* of nobody's purse */
    assert_non_null(other);
    larder__free(other);
    larder__mem_charge(&p);
    larder__free(a);
    larder__free(b);
    assert_int_equal(p.used, 0);
    larder__mem_charge(NULL);
}

static bool sell(void *stock) { /* what somebody has and can do without */
    uint64_t *left = stock;
    if (*left == 0)
        return false;
    *left -= 10000;
    larder__mem_give(10000);
    return true;
}

/* What one takes comes out of both, and where the other has not enough it gives up what it can. */
static void purse_of_a_purse(void **st) {
    (void)st;
    uint64_t stock = 30000;
    larder__purse all = {.most = 50000, .more = sell, .arg = &stock};
    larder__purse part = {.most = 100000, .of = &all};
    larder__mem_charge(&all);
    assert_true(larder__mem_take(stock));
    assert_ptr_equal(larder__mem_charge(&part), &all);
    void *a = larder__malloc(15000);
    assert_true(a && stock == 30000 && part.used >= 15000 && all.used == 30000 + part.used);
    void *b = larder__malloc(15000); /* one and no more of what there is to sell */
    assert_true(b && stock == 20000 && all.used == 20000 + part.used && all.used <= all.most);
    assert_null(larder__malloc(25000)); /* not for all of it */
    assert_true(stock == 0 && all.used == part.used);
    larder__mem_charge(&all);
    part.most = part.used + 100; /* the inner one is looked at too, and has nothing to sell */
    larder__mem_charge(&part);
    assert_false(larder__mem_take(101));
    assert_true(larder__mem_take(100));
    larder__mem_give(100);
    larder__free(a);
    larder__free(b);
    assert_true(part.used == 0 && all.used == 0);
    larder__mem_charge(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(purses),
        cmocka_unit_test(purse_of_a_purse),
        cmocka_unit_test(costs),
        cmocka_unit_test(no_descriptors),
        cmocka_unit_test_setup_teardown(as_asked, begin, end),
        cmocka_unit_test_setup_teardown(small_samples, begin, end),
        cmocka_unit_test_setup_teardown(too_many_samples, begin, end),
        cmocka_unit_test_setup_teardown(odd_budgets, begin, end),
        cmocka_unit_test_setup_teardown(greedy, begin, end),
        cmocka_unit_test_setup_teardown(many_clients, begin, end),
        cmocka_unit_test_setup_teardown(talkative_ranks, begin, end),
        cmocka_unit_test_setup_teardown(strangers, begin, end),
    };
    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
