/* What a job of another user can do in a daemon whose socket lets it in: read what it could read
 * anyway, and make entries of its own. It cannot write where others read, by no way there is; it is
 * not given samples that it cannot read itself; and nobody trains on what it lies about. */
#include "base/hash.h"
#include "base/stat.h"
#include "daemon_kit.h"
#include "loader_kit.h"
#include "unix/attach.h"
#include "unix/connection.h"
#include "unix/frame.h"
#include "unix/rank_link.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

enum { KEYS = 40, NOBODY = 65534, LARGE = 600000, MIDDLE = 200000, CLIENTS = 16 };

static char folder[256], path[300];
static pid_t server_pid;

/* A daemon of root's that everybody may attach to. */
static void start(bool share_data) {
    larder__server_conf conf = {.socket = path,
                                .mode = 0666,
                                .cache = 256 << 20,
                                .clients = CLIENTS,
                                .share_data = share_data};
    server_pid = kit_daemon_start(&conf, NULL, NULL);
}

static int begin(void **st) {
    (void)st;
    check_folder(folder);
    snprintf(path, sizeof path, "%s/s", folder);
    return chmod(folder, 0777);
}

static int end(void **st) {
    (void)st;
    if (server_pid > 0) {
        kit_daemon_kill(server_pid);
    }
    server_pid = 0;
    check_folder_remove(folder);
    return 0;
}

/* Only root can be two users. */
#define root_or_skip()                                                                             \
    do {                                                                                           \
        if (geteuid() != 0) {                                                                      \
            print_message("skipped: only root can be two users\n");                                \
            skip();                                                                                \
        }                                                                                          \
    } while (0)

/* ---- jobs ------------------------------------------------------------------------------------ */

/* One is larger than a tray, and few of another fit in it. */
static uint32_t size_of(uint64_t key) {
    return key % 8 == 3 ? LARGE : key % 4 == 1 ? MIDDLE : 1000 + (uint32_t)key;
}

/* What a sample holds, as somebody sees it: truth is 0. */
static void paint(unsigned char *out, uint64_t key, unsigned lie) {
    for (uint32_t i = 0; i < size_of(key); i++)
        out[i] = (unsigned char)((key * 131 + i * 7 + (i >> 8) + lie * 89) * 2654435761u >> 13);
}

typedef struct job {
    larder__cache *cache;
    larder__stats *stats;
    unsigned lie;
    size_t made;
} job;

static int make(void *arg, const larder_access *want, larder_buf *have, larder_buf **out) {
    job *j = arg;
    (void)have;
    if (!(*out = larder_buf_new(want->size)))
        return LARDER_E_NOMEM;
    paint(larder_buf_data(*out), want->key, j->lie);
    j->made++;
    return 0;
}

static int see_truth(void *arg, uint64_t id, uint64_t nonce, uint64_t *out) {
    static unsigned char bytes[LARGE];
    paint(bytes, id, ((job *)arg)->lie);
    *out = larder__hash_bytes(nonce, bytes, size_of(id));
    return 0;
}

static int see_nothing(void *arg, uint64_t id, uint64_t nonce, uint64_t *out) {
    (void)arg, (void)id, (void)nonce, (void)out;
    return LARDER_E_IO;
}

typedef int (*prove_fn)(void *, uint64_t, uint64_t, uint64_t *);

static larder__hello hello(void) {
    larder__hello h = {.batch = 8,
                       .identity = 3,
                       .about.keys = KEYS,
                       .about.share = {1},
                       .about.policy = "lru",
                       .name = "test"};
    for (uint64_t k = 0; k < KEYS; k++)
        h.payload += size_of(k);
    snprintf(h.budget, sizeof h.budget, "20MiB");
    return h;
}

/* Attaches as that user. */
static void attach_as(job *j, uid_t user, prove_fn prove) {
    larder__attach_conf conf = {
        .door = larder__door_at(path), .hello = hello(), .prove = prove, .size_arg = j};
    check_ok(larder__stats_open(&j->stats));
    conf.stats = j->stats;
    assert_int_equal(seteuid(user), 0);
    int rc = larder__attach_open(&j->cache, &conf);
    assert_int_equal(seteuid(0), 0);
    check_ok(rc);
    j->made = 0;
}

/* Takes every sample; how many of them are not as the job sees them. */
static size_t read_all(job *j) {
    static unsigned char right[LARGE];
    size_t wrong = 0;
    for (uint64_t k = 0; k < KEYS; k++) {
        larder_access a = {.key = k, .size = size_of(k), .score = NAN};
        larder_buf *out = NULL;
        check_ok(larder__cache_get(j->cache, &a, 1, make, j, &out, NULL));
        paint(right, k, j->lie);
        wrong += larder_buf_size(out) != size_of(k) ||
                 memcmp(larder_buf_data(out), right, size_of(k)) != 0;
        larder_buf_unref(&out);
    }
    return wrong;
}

static void leave(job *j) {
    larder__cache_close(&j->cache);
    larder__stats_close(&j->stats);
}

static bool is_told(const job *j) {
    const char *note = larder__note_at(j->stats, 0);
    return note && strstr(note, "--share-data");
}

/* ---- sharing --------------------------------------------------------------------------------- */

/* What it makes goes through its tray, or over the socket in pieces where it is larger than that,
 * and is what others of its read. */
static void it_makes_its_own(void **st) {
    (void)st;
    root_or_skip();
    start(false);
    job first = {.lie = 0}, second = {.lie = 0};
    attach_as(&first, NOBODY, see_truth);
    assert_int_equal(read_all(&first), 0);
    assert_int_equal(first.made, KEYS);
    attach_as(&second, NOBODY, NULL); /* of the same user: nothing to show */
    assert_int_equal(read_all(&second), 0);
    assert_int_equal(second.made, 0);
    leave(&first);
    leave(&second);
}

/* More at once than its tray holds: some of it goes over the socket, among the rest. */
static void it_makes_much(void **st) {
    (void)st;
    enum { AT_ONCE = 32 };
    root_or_skip();
    start(false);
    job first = {.lie = 0}, second = {.lie = 0};
    larder_access a[AT_ONCE];
    larder__ticket t[AT_ONCE];
    attach_as(&first, NOBODY, NULL);
    for (uint64_t k = 0; k < AT_ONCE; k++)
        a[k] = (larder_access){.key = k, .size = size_of(k), .score = NAN};
    check_ok(larder__cache_claim(first.cache, a, AT_ONCE, t));
    for (size_t k = 0; k < AT_ONCE; k++) {
        larder_buf *b = NULL;
        assert_int_equal(t[k].task, LARDER__MAKE);
        check_ok(make(&first, &a[k], NULL, &b));
        t[k].held = LARDER_ENCODED;
        larder__cache_fill(first.cache, &t[k], b);
        larder_buf_unref(&b);
    }
    assert_int_equal(read_all(&first), 0); /* also what was just laid down */
    assert_int_equal(first.made, KEYS);
    attach_as(&second, NOBODY, NULL);
    assert_int_equal(read_all(&second), 0);
    assert_int_equal(second.made, 0);
    leave(&first);
    leave(&second);
}

/* What it fails to make is somebody else's to make at once. */
static void it_fails(void **st) {
    (void)st;
    root_or_skip();
    start(false);
    job first = {.lie = 0}, second = {.lie = 0};
    attach_as(&first, NOBODY, NULL);
    attach_as(&second, NOBODY, NULL);
    larder_access a = {.key = 1, .size = size_of(1), .score = NAN}, b = a;
    larder__ticket mine, theirs;
    larder_buf *out = NULL;
    check_ok(larder__cache_claim(first.cache, &a, 1, &mine));
    assert_int_equal(mine.task, LARDER__MAKE);
    check_ok(larder__cache_claim(second.cache, &b, 1, &theirs));
    assert_int_equal(theirs.task, LARDER__WAIT);
    larder__cache_fail(first.cache, &mine, LARDER_E_IO, "");
    assert_int_equal(larder__cache_wait(second.cache, &theirs, &out), LARDER__TAKE_OVER);
    assert_int_equal(read_all(&second), 0);
    leave(&first);
    leave(&second);
}

static void root_has_read(job *root) {
    attach_as(root, 0, see_truth);
    assert_int_equal(read_all(root), 0);
    assert_int_equal(root->made, KEYS);
}

/* Data that it cannot read is not served to it, and it is told. */
static void it_cannot_read(void **st) {
    (void)st;
    root_or_skip();
    start(false);
    const prove_fn ways[] = {NULL, see_nothing};
    job root = {.lie = 0};
    root_has_read(&root);
    for (size_t i = 0; i < 2; i++) {
        job other = {.lie = 1 + (unsigned)i};
        attach_as(&other, NOBODY - (uid_t)i, ways[i]);
        assert_true(is_told(&other));
        assert_int_equal(read_all(&other), 0);
        assert_int_equal(other.made, KEYS);
        leave(&other);
    }
    assert_int_equal(read_all(&root), 0); /* and nothing of theirs is root's */
    leave(&root);
}

/* Who can read it shares it, whoever has read it. */
static void it_can_read(void **st) {
    (void)st;
    root_or_skip();
    start(false);
    job root = {.lie = 0}, other = {.lie = 0};
    root_has_read(&root);
    attach_as(&other, NOBODY, see_truth);
    assert_false(is_told(&other));
    assert_int_equal(read_all(&other), 0);
    assert_int_equal(other.made, 0);
    leave(&root);
    leave(&other);
}

static void all_is_shared(void **st) {
    (void)st;
    root_or_skip();
    start(true);
    job root = {.lie = 0}, other = {.lie = 0};
    root_has_read(&root);
    attach_as(&other, NOBODY, NULL);
    assert_false(is_told(&other));
    assert_int_equal(read_all(&other), 0);
    assert_int_equal(other.made, 0);
    leave(&root);
    leave(&other);
}

/* One that came first and made up what samples hold: root compares, and does not train on it. */
static void it_lies(void **st) {
    (void)st;
    root_or_skip();
    start(false);
    job liar = {.lie = 5}, root = {.lie = 0};
    attach_as(&liar, NOBODY, NULL);
    assert_int_equal(read_all(&liar), 0);
    attach_as(&root, 0, see_truth);
    assert_true(is_told(&root));
    assert_int_equal(read_all(&root), 0);
    assert_int_equal(root.made, KEYS);
    leave(&liar);
    leave(&root);
}

/* One that came first and said that the data set has another number of samples. */
static void it_miscounts(void **st) {
    (void)st;
    root_or_skip();
    start(false);
    job liar = {.lie = 0}, root = {.lie = 0};
    larder__attach_conf conf = {.door = larder__door_at(path), .hello = hello()};
    conf.hello.about.keys = KEYS / 2;
    assert_int_equal(seteuid(NOBODY), 0);
    int rc = larder__attach_open(&liar.cache, &conf);
    assert_int_equal(seteuid(0), 0);
    check_ok(rc);
    root_has_read(&root);
    assert_int_equal(read_all(&root), 0);
    leave(&root);
    larder__cache_close(&liar.cache);
}

/* Connections that say nothing, as many as it gets. Others come in all the same, and it does again
 * once it has let go of some. */
static void it_crowds(void **st) {
    (void)st;
    root_or_skip();
    start(false);
    int fds[CLIENTS];
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    assert_true(strlen(path) < sizeof a.sun_path);
    memcpy(a.sun_path, path, strlen(path));
    assert_int_equal(seteuid(NOBODY), 0);
    for (size_t i = 0; i < CLIENTS; i++) {
        fds[i] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        assert_int_equal(connect(fds[i], (struct sockaddr *)&a, sizeof a), 0);
    }
    assert_int_equal(seteuid(0), 0);
    job root = {.lie = 0}, other = {.lie = 0}, late = {.lie = 0};
    root_has_read(&root);
    attach_as(&other, NOBODY - 1, see_truth);
    assert_int_equal(read_all(&other), 0);
    assert_int_equal(other.made, 0);
    for (size_t i = 0; i < CLIENTS; i++)
        close(fds[i]);
    attach_as(&late, NOBODY, see_truth);
    assert_int_equal(read_all(&late), 0);
    leave(&root);
    leave(&other);
    leave(&late);
}

/* A loader shows what it is asked to by itself. */
static void a_loader(void **st) {
    (void)st;
    root_or_skip();
    start(false);
    char cache[400];
    snprintf(cache, sizeof cache, "unix:%s?budget=100%%", path);
    size_t hits[2] = {0};
    for (int i = 0; i < 2; i++) {
        larder_loader_conf conf = kit_conf("mem:?n=64&h=8&w=8&c=3", "minio");
        larder_loader *l = NULL;
        const larder_batch *b;
        conf.cache = cache;
        conf.epochs = 1;
        assert_int_equal(seteuid(i == 0 ? 0 : NOBODY), 0);
        int rc = larder_loader_open(&l, &conf);
        assert_int_equal(seteuid(0), 0);
        check_ok(rc);
        while (larder_loader_next(l, &b) == 0) {
            for (size_t k = 0; k < b->n; k++)
                hits[i] += b->kind[k] == LARDER_HIT;
            larder_loader_done(l, b);
        }
        larder_loader_close(&l);
    }
    assert_int_equal(hits[0], 0);
    assert_int_equal(hits[1], 64);
}

/* Ranks write where all of them read, so they are one user's: another's of that name is another
 * job. */
static void ranks_of_one_user(void **st) {
    (void)st;
    root_or_skip();
    start(false);
    larder__unix_ranks_link *link[2] = {NULL, NULL};
    for (int i = 0; i < 2; i++) { /* both are rank 0: one job could not have two */
        larder__unix_ranks_conf conf = {.door = larder__door_at(path),
                                        .join = {.world = 2,
                                                 .batch = 10,
                                                 .turns = 2,
                                                 .identity = 3,
                                                 .keys = KEYS,
                                                 .payload = 100 * KEYS,
                                                 .want = 100 * KEYS,
                                                 .job = "run",
                                                 .name = "test"},
                                        .patience = 30};
        conf.join.rank = (uint32_t)i;
        assert_int_equal(seteuid(i == 0 ? 0 : NOBODY), 0);
        int rc = larder__unix_ranks_open(&link[i], &conf);
        assert_int_equal(seteuid(0), 0);
        check_ok(rc);
    }
    char *json = NULL;
    larder__door door = larder__door_at(path);
    check_ok(larder__attach_status(&door, &json));
    const char *first = strstr(json, "\"job\": \"run\"");
    assert_non_null(first);
    assert_non_null(strstr(first + 1, "\"job\": \"run\""));
    assert_null(strstr(json, "\"met\": true"));
    larder_free(json);
    for (int i = 0; i < 2; i++)
        larder__unix_ranks_close(&link[i]);
}

/* ---- writing --------------------------------------------------------------------------------- */

/* A hostile client: greets, takes the memory and tries to write there, by every way. */
static void try_to_write(int fd, const char *what) {
    char name[64];
    must(fd >= 0);
    must(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED);
    void *at = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
    must(at != MAP_FAILED);
    must(mprotect(at, 4096, PROT_READ | PROT_WRITE) < 0);
    must(pwrite(fd, "x", 1, 100) < 0);
    must(ftruncate(fd, 0) < 0);
    must(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096) < 0);
    must(fchmod(fd, 0777) < 0);
    const int ways[] = {O_RDWR, O_WRONLY, O_RDWR | O_TRUNC};
    for (size_t i = 0; i < 3; i++) {
        snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
        if (open(name, ways[i]) >= 0) {
            fprintf(stderr, "the %s was opened again for writing\n", what);
            _exit(1);
        }
        snprintf(name, sizeof name, "/proc/%d/fd/%d", (int)getpid(), fd);
        must(open(name, ways[i]) < 0);
    }
}

static void attack(void) {
    larder__door door = larder__door_at(path);
    larder__hello h = hello();
    larder_writer w = {0};
    larder__inbox in;
    larder_reader body;
    larder__welcome m = {0};
    must(setgid(NOBODY) == 0 && setuid(NOBODY) == 0);
    h.magic = LARDER__WIRE_MAGIC;
    h.version = LARDER__WIRE_VERSION;
    h.at_once = 256;
    int fd = larder__daemon_connect(&door);
    must(fd >= 0);
    larder__inbox_init(&in);
    larder__hello_write(&h, &w);
    must(larder__frame_send(fd, LARDER__MSG_HELLO, w.bytes, w.size, NULL, 0) == 0);
    must(larder__daemon_hear(fd, &in, LARDER__MSG_WELCOME, &body) == 0);
    must(larder__welcome_read(&m, &body) == 0 && m.sealed == 1);
    try_to_write(larder__inbox_take_fd(&in), "arena");
    try_to_write(larder__inbox_take_fd(&in), "table");
    /* Bytes for a promise that nobody gave are nobody's; those beyond one are the end. */
    larder__wire_piece p = {.lease = 7, .whole = 10};
    must(larder__frame_send_two(fd, LARDER__MSG_BYTES, &p, sizeof p, "0123456789", 10) == 0);
    must(larder__frame_send(fd, LARDER__MSG_STATUS, NULL, 0, NULL, 0) == 0);
    must(larder__daemon_hear(fd, &in, LARDER__MSG_STATUS_IS, &body) == 0);
    _exit(0);
}

static void it_cannot_write(void **st) {
    (void)st;
    int status;
    root_or_skip();
    start(false);
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        attack();
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

/* ---- handing over ---------------------------------------------------------------------------- */

typedef struct raw {
    int fd;
    larder__inbox in;
    larder__tray *tray;
} raw;

/* A client that says what it likes; the first sample is its to make, at lease 0. */
static void come_in(raw *c, uid_t user) {
    larder__door door = larder__door_at(path);
    larder__hello h = hello();
    larder_writer w = {0};
    larder_reader body;
    larder__welcome m = {0};
    int fds[LARDER__FRAME_FDS];
    h.magic = LARDER__WIRE_MAGIC;
    h.version = LARDER__WIRE_VERSION;
    h.at_once = 256;
    assert_int_equal(seteuid(user), 0);
    c->fd = larder__daemon_connect(&door);
    assert_int_equal(seteuid(0), 0);
    assert_true(c->fd >= 0);
    larder__inbox_init(&c->in);
    larder__hello_write(&h, &w);
    check_ok(larder__frame_send(c->fd, LARDER__MSG_HELLO, w.bytes, w.size, NULL, 0));
    check_ok(larder__daemon_hear(c->fd, &c->in, LARDER__MSG_WELCOME, &body));
    check_ok(larder__welcome_read(&m, &body));
    assert_int_equal(m.tray, user != 0);
    for (int i = 0; i < LARDER__FRAME_FDS; i++)
        fds[i] = larder__inbox_take_fd(&c->in);
    c->tray = NULL;
    if (m.tray) {
        c->tray = mmap(NULL, sizeof *c->tray, PROT_READ | PROT_WRITE, MAP_SHARED, fds[3], 0);
        assert_true(c->tray != MAP_FAILED);
    }
    for (int i = 0; i < LARDER__FRAME_FDS; i++)
        close(fds[i]);
    larder__row row = {.key = 0, .size = size_of(0)};
    larder__op claim = {.type = LARDER__OP_CLAIM, .n = 1, .rows = &row};
    w.size = 0;
    larder__op_write(&claim, &w);
    check_ok(
        larder__frame_send(c->fd, LARDER__MSG_OP + LARDER__OP_CLAIM, w.bytes, w.size, NULL, 0));
    check_ok(larder__daemon_hear(c->fd, &c->in, LARDER__MSG_TICKETS, &body));
    larder__writer_free(&w);
}

static int ask_how_it_is(raw *c) {
    larder_reader body;
    larder__frame_send(c->fd, LARDER__MSG_STATUS, NULL, 0, NULL, 0); /* it may have hung up */
    return larder__daemon_hear(c->fd, &c->in, LARDER__MSG_STATUS_IS, &body);
}

static void go(raw *c) {
    larder__inbox_free(&c->in);
    if (c->tray)
        munmap(c->tray, sizeof *c->tray);
    close(c->fd);
}

/* Pieces of what was promised that do not fit are the end of the connection, and nothing is kept.
 */
static void pieces_that_do_not_fit(void **st) {
    (void)st;
    root_or_skip();
    start(true);
    const larder__wire_piece bad[] = {
        {.lease = 0, .whole = 2000, .at = 0},            /* longer than promised */
        {.lease = 0, .whole = 1000, .at = 5},            /* not from the beginning */
        {.lease = 0, .whole = 4, .at = 0},               /* more than it says itself */
        {.lease = 0, .whole = 1000, .at = 0, .held = 9}, /* in no form there is */
        {.lease = 0, .whole = 1000, .at = UINT32_MAX},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        raw c;
        come_in(&c, i % 2 ? NOBODY : 0);
        check_ok(
            larder__frame_send_two(c.fd, LARDER__MSG_BYTES, &bad[i], sizeof bad[i], "01234567", 8));
        assert_int_equal(ask_how_it_is(&c), LARDER_E_FORMAT);
        assert_non_null(strstr(larder_errmsg(), "promised to make"));
        go(&c);
    }
}

/* One that says after its first piece that all is less than that has no room left: what it sends
 * then would lie in the entries behind its own. */
static void pieces_that_shrink(void **st) {
    (void)st;
    root_or_skip();
    start(true);
    const uint16_t ways[] = {LARDER__MSG_BYTES, LARDER__MSG_LAID};
    static unsigned char bytes[MIDDLE];
    for (size_t i = 0; i < 2; i++) {
        raw c;
        come_in(&c, NOBODY);
        larder__wire_piece p = {.lease = 0, .whole = size_of(0)};
        check_ok(larder__frame_send_two(c.fd, LARDER__MSG_BYTES, &p, sizeof p, bytes, 990));
        p.at = 990;
        p.whole = 989;
        check_ok(larder__frame_send_two(c.fd, ways[i], &p, sizeof p, bytes,
                                        ways[i] == LARDER__MSG_BYTES ? sizeof bytes : 0));
        int rc = ask_how_it_is(&c);
        assert_int_equal(rc == 0 ? ask_how_it_is(&c) : rc, LARDER_E_FORMAT);
        assert_non_null(strstr(larder_errmsg(), "promised to make"));
        go(&c);
    }
}

/* The same of what lies in a tray. */
static void trays_that_do_not_fit(void **st) {
    (void)st;
    root_or_skip();
    start(true);
    const struct {
        larder__wire_piece p;
        uid_t user;
        const char *says;
    } bad[] = {
        {{.lease = 0, .whole = 2000}, NOBODY, "promised to make"},
        {{.lease = 0, .whole = 1000, .at = 5}, NOBODY, "promised to make"},
        {{.lease = 0, .whole = 1000, .held = 9}, NOBODY, "promised to make"},
        {{.lease = 7, .whole = LARDER__TRAY_BYTES + 1}, NOBODY, "tray"},
        {{.lease = 7, .whole = UINT32_MAX, .code = -1}, NOBODY, "tray"},
        {{.lease = 0, .whole = 1000}, 0, "tray"}, /* it has none, and needs none */
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        raw c;
        come_in(&c, bad[i].user);
        check_ok(larder__frame_send(c.fd, LARDER__MSG_LAID, &bad[i].p, sizeof bad[i].p, NULL, 0));
        int rc = ask_how_it_is(&c);
        assert_int_equal(rc == 0 ? ask_how_it_is(&c) : rc, LARDER_E_FORMAT);
        assert_non_null(strstr(larder_errmsg(), bad[i].says));
        go(&c);
    }
}

/* What nobody waits for is passed over; and what others read does not lie in the tray. */
static void it_scribbles(void **st) {
    (void)st;
    root_or_skip();
    start(false);
    raw c;
    job after = {.lie = 0};
    uint32_t laid = 0;
    unsigned char right[2000] = {0};
    come_in(&c, NOBODY);
    const larder__wire_piece all[] = {{.lease = 7, .whole = 1001},
                                      {.lease = 7, .whole = 999, .code = -1},
                                      {.lease = 0, .whole = size_of(0)}};
    for (size_t i = 0; i < 3; i++) {
        if (i == 2)
            paint(right, 0, 0);
        assert_true(larder__tray_lay(c.tray, &laid, right, all[i].whole));
        atomic_store(&c.tray->taken, 12345); /* the daemon does not go by it */
        check_ok(larder__frame_send(c.fd, LARDER__MSG_LAID, &all[i], sizeof all[i], NULL, 0));
        for (int k = 0; k < 2; k++) /* questions of the same breath come first */
            check_ok(ask_how_it_is(&c));
        assert_int_equal(atomic_load(&c.tray->taken), laid);
    }
    memset(c.tray, 0x5a, sizeof *c.tray);
    attach_as(&after, NOBODY, NULL);
    assert_int_equal(read_all(&after), 0);
    assert_int_equal(after.made, KEYS - 1);
    leave(&after);
    go(&c);
}

/* One that knows of no tray says all in BYTES. */
static void it_has_no_tray(void **st) {
    (void)st;
    root_or_skip();
    start(false);
    raw c;
    job after = {.lie = 0};
    unsigned char right[2000];
    paint(right, 0, 0);
    come_in(&c, NOBODY);
    larder__wire_piece p = {.lease = 0, .whole = size_of(0)};
    check_ok(larder__frame_send_two(c.fd, LARDER__MSG_BYTES, &p, sizeof p, right, 100));
    p.at = 100;
    check_ok(larder__frame_send_two(c.fd, LARDER__MSG_BYTES, &p, sizeof p, right + 100,
                                    size_of(0) - 100));
    check_ok(ask_how_it_is(&c));
    attach_as(&after, NOBODY, NULL);
    assert_int_equal(read_all(&after), 0);
    assert_int_equal(after.made, KEYS - 1);
    leave(&after);
    go(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(it_makes_its_own, begin, end),
        cmocka_unit_test_setup_teardown(it_makes_much, begin, end),
        cmocka_unit_test_setup_teardown(it_fails, begin, end),
        cmocka_unit_test_setup_teardown(it_cannot_read, begin, end),
        cmocka_unit_test_setup_teardown(it_can_read, begin, end),
        cmocka_unit_test_setup_teardown(all_is_shared, begin, end),
        cmocka_unit_test_setup_teardown(it_lies, begin, end),
        cmocka_unit_test_setup_teardown(it_miscounts, begin, end),
        cmocka_unit_test_setup_teardown(it_crowds, begin, end),
        cmocka_unit_test_setup_teardown(a_loader, begin, end),
        cmocka_unit_test_setup_teardown(ranks_of_one_user, begin, end),
        cmocka_unit_test_setup_teardown(it_cannot_write, begin, end),
        cmocka_unit_test_setup_teardown(pieces_that_do_not_fit, begin, end),
        cmocka_unit_test_setup_teardown(pieces_that_shrink, begin, end),
        cmocka_unit_test_setup_teardown(trays_that_do_not_fit, begin, end),
        cmocka_unit_test_setup_teardown(it_scribbles, begin, end),
        cmocka_unit_test_setup_teardown(it_has_no_tray, begin, end),
    };
    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
