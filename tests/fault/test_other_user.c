/* What a job of another user can do in a daemon whose socket lets it in: read what it could read
 * anyway, and make entries of its own. It cannot write where others read, by no way there is; it is
 * not given samples that it cannot read itself; and nobody trains on what it lies about. */
#include "base/hash.h"
#include "loader_kit.h"
#include "stranger_kit.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- jobs ------------------------------------------------------------------------------------ */

static int see_truth(void *arg, uint64_t id, uint64_t nonce, uint64_t *out) {
    static unsigned char bytes[STRANGER_LARGE];
    stranger_paint(bytes, id, ((stranger *)arg)->lie);
    *out = larder__hash_bytes(nonce, bytes, stranger_size(id));
    return 0;
}

static int see_nothing(void *arg, uint64_t id, uint64_t nonce, uint64_t *out) {
    (void)arg, (void)id, (void)nonce, (void)out;
    return LARDER_E_IO;
}

static bool is_told(const stranger *j) {
    const char *note = larder__note_at(j->stats, 0);
    return note && strstr(note, "--share-data");
}

/* ---- sharing --------------------------------------------------------------------------------- */

/* What it makes goes through its tray, or over the socket in pieces where it is larger than that,
 * and is what others of its read. */
static void it_makes_its_own(void **st) {
    (void)st;
    root_or_skip();
    stranger_serve(false);
    stranger first = {.lie = 0}, second = {.lie = 0};
    stranger_attach(&first, STRANGER_NOBODY, see_truth);
    assert_int_equal(stranger_read_all(&first), 0);
    assert_int_equal(first.made, STRANGER_KEYS);
    stranger_attach(&second, STRANGER_NOBODY, NULL); /* of the same user: nothing to show */
    assert_int_equal(stranger_read_all(&second), 0);
    assert_int_equal(second.made, 0);
    stranger_leave(&first);
    stranger_leave(&second);
}

static void root_has_read(stranger *root) {
    stranger_attach(root, 0, see_truth);
    assert_int_equal(stranger_read_all(root), 0);
    assert_int_equal(root->made, STRANGER_KEYS);
}

/* Data that it cannot read is not served to it, and it is told. */
static void it_cannot_read(void **st) {
    (void)st;
    root_or_skip();
    stranger_serve(false);
    const stranger_prove ways[] = {NULL, see_nothing};
    stranger root = {.lie = 0};
    root_has_read(&root);
    for (size_t i = 0; i < 2; i++) {
        stranger other = {.lie = 1 + (unsigned)i};
        stranger_attach(&other, STRANGER_NOBODY - (uid_t)i, ways[i]);
        assert_true(is_told(&other));
        assert_int_equal(stranger_read_all(&other), 0);
        assert_int_equal(other.made, STRANGER_KEYS);
        stranger_leave(&other);
    }
    assert_int_equal(stranger_read_all(&root), 0); /* and nothing of theirs is root's */
    stranger_leave(&root);
}

/* Who can read it shares it, whoever has read it. */
static void it_can_read(void **st) {
    (void)st;
    root_or_skip();
    stranger_serve(false);
    stranger root = {.lie = 0}, other = {.lie = 0};
    root_has_read(&root);
    stranger_attach(&other, STRANGER_NOBODY, see_truth);
    assert_false(is_told(&other));
    assert_int_equal(stranger_read_all(&other), 0);
    assert_int_equal(other.made, 0);
    stranger_leave(&root);
    stranger_leave(&other);
}

/* So do those who came when nothing was read yet. */
static void they_begin_together(void **st) {
    (void)st;
    root_or_skip();
    stranger_serve(false);
    stranger root = {.lie = 0}, other = {.lie = 0};
    stranger_attach(&other, STRANGER_NOBODY, see_truth);
    stranger_attach(&root, 0, see_truth);
    assert_false(is_told(&root));
    assert_int_equal(stranger_read_all(&other), 0);
    assert_int_equal(stranger_read_all(&root), 0);
    assert_int_equal(root.made, 0);
    stranger_leave(&root);
    stranger_leave(&other);
}

/* Samples that it does not know it makes up. */
static size_t known;
static int see_some(void *arg, uint64_t id, uint64_t nonce, uint64_t *out) {
    see_truth(arg, id, nonce, out);
    *out += id >= known;
    return 0;
}

static void read_one(stranger *j, uint64_t key) {
    larder_buf *out = stranger_take(j, key);
    larder_buf_unref(&out);
}

/* It knows one sample, or all but a quarter, and does not get to see the others: neither by coming
 * first and making those alone, nor by coming after root has made those alone. */
static void it_knows_some(void **st) {
    (void)st;
    root_or_skip();
    for (int way = 0; way < 4; way++) {
        bool first = way % 2 == 0;
        stranger_serve(false);
        stranger spy = {.lie = 0}, root = {.lie = 0};
        known = way < 2 ? 1 : STRANGER_KEYS * 3 / 4;
        stranger_attach(first ? &spy : &root, first ? STRANGER_NOBODY : 0,
                        first ? see_some : see_truth);
        for (uint64_t k = 0; k < known; k++)
            read_one(first ? &spy : &root, k);
        stranger_attach(first ? &root : &spy, first ? 0 : STRANGER_NOBODY,
                        first ? see_truth : see_some);
        assert_true(is_told(first ? &root : &spy));
        assert_int_equal(stranger_read_all(&root), 0);
        assert_int_equal(root.made, STRANGER_KEYS);
        assert_int_equal(stranger_read_all(&spy), 0);
        assert_int_equal(spy.made, STRANGER_KEYS);
        stranger_leave(&spy);
        stranger_leave(&root);
        stranger_end(NULL);
        stranger_begin(NULL);
    }
}

static void all_is_shared(void **st) {
    (void)st;
    root_or_skip();
    stranger_serve(true);
    stranger root = {.lie = 0}, other = {.lie = 0};
    root_has_read(&root);
    stranger_attach(&other, STRANGER_NOBODY, NULL);
    assert_false(is_told(&other));
    assert_int_equal(stranger_read_all(&other), 0);
    assert_int_equal(other.made, 0);
    stranger_leave(&root);
    stranger_leave(&other);
}

/* One that came first and made up what samples hold: root compares, and does not train on it. */
static void it_lies(void **st) {
    (void)st;
    root_or_skip();
    stranger_serve(false);
    stranger liar = {.lie = 5}, root = {.lie = 0};
    stranger_attach(&liar, STRANGER_NOBODY, NULL);
    assert_int_equal(stranger_read_all(&liar), 0);
    stranger_attach(&root, 0, see_truth);
    assert_true(is_told(&root));
    assert_int_equal(stranger_read_all(&root), 0);
    assert_int_equal(root.made, STRANGER_KEYS);
    stranger_leave(&liar);
    stranger_leave(&root);
}

/* One that came first and said that the data set has another number of samples. */
static void it_miscounts(void **st) {
    (void)st;
    root_or_skip();
    stranger_serve(false);
    stranger liar = {.lie = 0}, root = {.lie = 0};
    larder__attach_conf conf = {.door = larder__door_at(kit_door), .hello = stranger_hello()};
    conf.hello.about.keys = STRANGER_KEYS / 2;
    assert_int_equal(seteuid(STRANGER_NOBODY), 0);
    int rc = larder__attach_open(&liar.cache, &conf);
    assert_int_equal(seteuid(0), 0);
    check_ok(rc);
    root_has_read(&root);
    assert_int_equal(stranger_read_all(&root), 0);
    stranger_leave(&root);
    larder__cache_close(&liar.cache);
}

/* Connections that say nothing, as many as it gets. Others come in all the same, and it does again
 * once it has let go of some. */
static void it_crowds(void **st) {
    (void)st;
    root_or_skip();
    stranger_serve(false);
    stranger_line crowd[STRANGER_CLIENTS];
    for (size_t i = 0; i < STRANGER_CLIENTS; i++)
        stranger_knock(&crowd[i], STRANGER_NOBODY);
    stranger root = {.lie = 0}, other = {.lie = 0}, late = {.lie = 0};
    root_has_read(&root);
    stranger_attach(&other, STRANGER_NOBODY - 1, see_truth);
    assert_int_equal(stranger_read_all(&other), 0);
    assert_int_equal(other.made, 0);
    for (size_t i = 0; i < STRANGER_CLIENTS; i++)
        stranger_hang_up(&crowd[i]);
    stranger_attach(&late, STRANGER_NOBODY, see_truth);
    assert_int_equal(stranger_read_all(&late), 0);
    stranger_leave(&root);
    stranger_leave(&other);
    stranger_leave(&late);
}

/* A range of numbers, as user namespaces have them, is many users, each of whom takes a few. */
static void they_crowd(void **st) {
    (void)st;
    root_or_skip();
    stranger_serve(false);
    stranger_line crowd[STRANGER_CLIENTS];
    for (size_t i = 0; i < STRANGER_CLIENTS; i++)
        stranger_knock(&crowd[i], STRANGER_NOBODY - 1 - (uid_t)i);
    stranger root = {.lie = 0};
    root_has_read(&root);
    stranger_leave(&root);
    for (size_t i = 0; i < STRANGER_CLIENTS; i++)
        stranger_hang_up(&crowd[i]);
}

/* A loader shows what it is asked to by itself. */
static void a_loader(void **st) {
    (void)st;
    root_or_skip();
    stranger_serve(false);
    char cache[400];
    snprintf(cache, sizeof cache, "unix:%s?budget=100%%", kit_door);
    size_t hits[2] = {0};
    for (int i = 0; i < 2; i++) {
        larder_loader_conf conf = kit_conf("mem:?n=64&h=8&w=8&c=3", "minio");
        larder_loader *l = NULL;
        const larder_batch *b;
        conf.cache = cache;
        conf.epochs = 1;
        assert_int_equal(seteuid(i == 0 ? 0 : STRANGER_NOBODY), 0);
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
    stranger_serve(false);
    larder__unix_ranks_link *link[2] = {NULL, NULL};
    for (int i = 0; i < 2; i++) { /* of one user they would have met */
        larder__unix_ranks_conf conf = stranger_rank("run", (uint32_t)i, STRANGER_KEYS);
        check_ok(stranger_join(&link[i], i == 0 ? 0 : STRANGER_NOBODY, &conf));
    }
    char *json = NULL;
    larder__door door = larder__door_at(kit_door);
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

/* Nothing of root's lies where it may look. */
static void look_for_samples(int fd, size_t bytes) {
    static unsigned char sample[STRANGER_LARGE];
    const void *all = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0);
    must(all != MAP_FAILED);
    for (uint64_t k = 0; k < STRANGER_KEYS; k++) {
        stranger_paint(sample, k, 0);
        must(!memmem(all, bytes, sample, 64));
    }
}

static void attack(void) {
    larder__door door = larder__door_at(kit_door);
    larder__hello h = stranger_hello();
    stranger_line l;
    larder_reader body;
    larder__welcome m = {0};
    must(setgid(STRANGER_NOBODY) == 0 && setuid(STRANGER_NOBODY) == 0);
    l.fd = larder__daemon_connect(&door);
    must(l.fd >= 0);
    larder__inbox_init(&l.in);
    must(stranger_greet(&l, &h, &m) == 0 && m.sealed == 1);
    int arena = larder__inbox_take_fd(&l.in);
    look_for_samples(arena, m.arena_bytes);
    try_to_write(arena, "arena");
    try_to_write(larder__inbox_take_fd(&l.in), "table");
    /* Bytes for a promise that nobody gave are nobody's; those beyond one are the end. */
    larder__wire_piece p = {.lease = 7, .whole = 10};
    must(larder__frame_send_two(l.fd, LARDER__MSG_BYTES, &p, sizeof p, "0123456789", 10) == 0);
    must(larder__frame_send(l.fd, LARDER__MSG_STATUS, NULL, 0, NULL, 0) == 0);
    must(stranger_hear(&l, LARDER__MSG_STATUS_IS, &body) == 0);
    _exit(0);
}

static void it_cannot_write(void **st) {
    (void)st;
    int status;
    root_or_skip();
    stranger_serve(false);
    stranger root = {.lie = 0};
    root_has_read(&root);
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        attack();
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    stranger_leave(&root);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(it_makes_its_own, stranger_begin, stranger_end),
        cmocka_unit_test_setup_teardown(it_cannot_read, stranger_begin, stranger_end),
        cmocka_unit_test_setup_teardown(it_can_read, stranger_begin, stranger_end),
        cmocka_unit_test_setup_teardown(they_begin_together, stranger_begin, stranger_end),
        cmocka_unit_test_setup_teardown(it_knows_some, stranger_begin, stranger_end),
        cmocka_unit_test_setup_teardown(all_is_shared, stranger_begin, stranger_end),
        cmocka_unit_test_setup_teardown(it_lies, stranger_begin, stranger_end),
        cmocka_unit_test_setup_teardown(it_miscounts, stranger_begin, stranger_end),
        cmocka_unit_test_setup_teardown(it_crowds, stranger_begin, stranger_end),
        cmocka_unit_test_setup_teardown(they_crowd, stranger_begin, stranger_end),
        cmocka_unit_test_setup_teardown(a_loader, stranger_begin, stranger_end),
        cmocka_unit_test_setup_teardown(ranks_of_one_user, stranger_begin, stranger_end),
        cmocka_unit_test_setup_teardown(it_cannot_write, stranger_begin, stranger_end),
    };
    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
