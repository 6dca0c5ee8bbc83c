/* A disk that fails, hangs, fills up or wears out, and folders that are not what they should be. */
#include "check.h"
#include "disk_kit.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/world.h"
#include "disk/disk_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MIB = 1 << 20, BLOCK = 4096, EIGHT = 8 * BLOCK - 40, PATIENCE = 60 };

/* ---- a clock and a disk of our own ----------------------------------------------------------- */

static _Atomic double ahead; /* of the real clock */
static double our_now(void) { return larder__now() + ahead; }
static void our_sleep(double when) {
    double now = our_now();
    if (when > now)
        ahead = ahead + (when - now);
}
static const larder__world our_world = {.now = our_now, .sleep_until = our_sleep};

static _Atomic int read_error, write_error, reserve_error, piece; /* piece: bytes at a time */
static _Atomic int interrupts;
static _Atomic bool reads_hang, writes_hang, dies_writing;
static _Atomic unsigned hanging, tries;
static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t moved = PTHREAD_COND_INITIALIZER;
static char who[2][LARDER__DISK_WHO];

static void pass_gate(const _Atomic bool *closed) {
    pthread_mutex_lock(&gate);
    hanging++;
    pthread_cond_broadcast(&moved);
    while (*closed)
        pthread_cond_wait(&moved, &gate);
    hanging--;
    pthread_cond_broadcast(&moved);
    pthread_mutex_unlock(&gate);
}
static void set_gate(_Atomic bool *which, bool closed) {
    pthread_mutex_lock(&gate);
    *which = closed;
    pthread_cond_broadcast(&moved);
    pthread_mutex_unlock(&gate);
}
static void await_hanging(void) {
    pthread_mutex_lock(&gate);
    while (!hanging)
        pthread_cond_wait(&moved, &gate);
    pthread_mutex_unlock(&gate);
}

static ssize_t our_read(int fd, void *to, size_t n, off_t at) {
    pass_gate(&reads_hang);
    if (interrupts > 0) {
        interrupts--;
        errno = EINTR;
        return -1;
    }
    if (read_error) {
        errno = read_error;
        return -1;
    }
    return pread(fd, to, piece && n > (size_t)piece ? (size_t)piece : n, at);
}
static ssize_t our_write(int fd, const void *from, size_t n, off_t at) {
    pass_gate(&writes_hang);
    tries++;
    if (dies_writing)
        _exit(7);
    if (interrupts > 0) {
        interrupts--;
        errno = EINTR;
        return -1;
    }
    if (write_error) {
        errno = write_error;
        return -1;
    }
    return pwrite(fd, from, piece && n > (size_t)piece ? (size_t)piece : n, at);
}
static _Atomic unsigned reserved; /* files */
static int our_reserve(int fd, off_t bytes) {
    reserved += !reserve_error;
    return reserve_error ? reserve_error : posix_fallocate(fd, 0, bytes);
}
static int our_punch(int fd, off_t at, off_t bytes) { return (void)fd, (void)at, (void)bytes, 0; }
static void (*on_sync)(void); /* once */
static int our_sync(int fd) {
    void (*then)(void) = on_sync;
    (void)fd;
    on_sync = NULL;
    if (then)
        then();
    return 0;
}
static void our_boot(char out[LARDER__DISK_WHO]) { memcpy(out, who[0], LARDER__DISK_WHO); }
static void our_machine(char out[LARDER__DISK_WHO]) { memcpy(out, who[1], LARDER__DISK_WHO); }
static const larder__disk_io our_io = {.read = our_read,
                                       .write = our_write,
                                       .reserve = our_reserve,
                                       .resize = ftruncate,
                                       .punch = our_punch,
                                       .sync = our_sync,
                                       .boot = our_boot,
                                       .machine = our_machine};

static char folder[256];
static int setup(void **state) {
    (void)state;
    check_folder(folder);
    ahead = 0;
    read_error = write_error = reserve_error = piece = interrupts = 0;
    memset(who, 0, sizeof who);
    strcpy(who[0], "boot 1");
    strcpy(who[1], "machine 1");
    larder__world_use(&our_world);
    larder__disk_io_use(&our_io);
    return 0;
}
static int teardown(void **state) {
    (void)state;
    larder__world_use(NULL);
    larder__disk_io_use(NULL);
    check_folder_remove(folder);
    return 0;
}

static larder__disk *open_with(const larder__disk_conf *conf) {
    larder__disk *d;
    check_ok(larder__disk_open(&d, conf));
    return d;
}
static larder__disk *open_set(uint64_t budget) {
    larder__disk_conf conf = disk_conf(folder, budget, 1, 1000);
    return open_with(&conf);
}
static void put(larder__disk *d, uint64_t key, uint32_t size) {
    disk_put(d, 1, key, size);
    assert_true(larder__disk_settle(d, PATIENCE));
}
static void check_value(larder__disk *d, uint64_t key, uint32_t size) {
    larder_buf *b = disk_get(d, key);
    assert_non_null(b);
    assert_true(disk_same(1, key, size, b));
    larder_buf_unref(&b);
}
static void check_note(larder__disk *d, const char *word) {
    char note[600];
    larder__disk_note(d, note, sizeof note);
    if (!strstr(note, word) || !strstr(note, folder))
        fail_msg("\"%s\" does not speak of %s", note, word);
}
static void refused(uint64_t budget, int code, const char *word) {
    larder__disk *d;
    larder__disk_conf conf = disk_conf(folder, budget, 1, 1000);
    assert_int_equal(larder__disk_open(&d, &conf), code);
    assert_null(d);
    if (!strstr(larder_errmsg(), word) || !strstr(larder_errmsg(), folder))
        fail_msg("\"%s\" does not speak of %s", larder_errmsg(), word);
}
static void in_folder(char out[300], const char *name) {
    snprintf(out, 300, "%s/%s", folder, name);
}

/* ---- errors ---------------------------------------------------------------------------------- */

static void test_write_errors(void **state) {
    (void)state;
    static const int errors[] = {ENOSPC, EROFS, EIO};
    larder__disk *d = open_set(4 * MIB);
    put(d, 0, 5000);
    for (uint64_t i = 0; i < 3; i++) {
        uint64_t before = disk_figures(d).refused, used = disk_figures(d).used_bytes;
        write_error = errors[i];
        put(d, 10 + i, 5000);
        assert_false(larder__disk_has(d, 10 + i));
        check_note(d, strerror(errors[i]));
        write_error = 0;
        tries = 0;
        put(d, 20 + i, 5000); /* not even tried */
        assert_int_equal(tries, 0);
        assert_int_equal(disk_figures(d).refused, before + 1);
        check_value(d, 0, 5000);
        ahead = ahead + 31;
        put(d, 20 + i, 5000);
        check_value(d, 20 + i, 5000);
        assert_int_equal(disk_figures(d).used_bytes, used + 2 * BLOCK); /* none was lost */
    }
    larder__disk_close(&d);
}

static void test_read_error(void **state) {
    (void)state;
    larder__disk *d = open_set(4 * MIB);
    put(d, 0, 5000);
    put(d, 1, 5000);
    read_error = EIO;
    assert_null(disk_get(d, 0));
    check_note(d, strerror(EIO));
    read_error = 0;
    assert_false(larder__disk_has(d, 1)); /* the disk is left alone */
    assert_null(disk_get(d, 1));
    ahead = ahead + 31;
    check_value(d, 1, 5000);
    check_value(d, 0, 5000);
    assert_int_equal(disk_figures(d).damaged, 0);
    larder__disk_close(&d);
}

static void test_short(void **state) {
    (void)state;
    larder__disk *d = open_set(4 * MIB);
    piece = BLOCK;
    interrupts = 2;
    put(d, 0, 100000);
    interrupts = 3;
    check_value(d, 0, 100000);
    piece = 3 * BLOCK;
    check_value(d, 0, 100000);
    larder__disk_close(&d);
}

/* Given up; the read comes when nobody waits any more, and may be asked for again later. */
static void test_slow_read(void **state) {
    (void)state;
    larder__disk_conf conf = disk_conf(folder, 4 * MIB, 1, 1000);
    conf.patience = 0.02;
    larder__disk *d = open_with(&conf);
    put(d, 0, 50000);
    set_gate(&reads_hang, true);
    larder__disk_fetch *f = larder__disk_fetch_new(
        &(larder__value){.id = 0, .form = DISK_FORM, .held = LARDER__ANY_FORM});
    larder__disk_send(d, &f, 1);
    assert_null(larder__disk_receive(d, f));
    check_note(d, "too long");
    assert_false(larder__disk_has(d, 0));
    ahead = ahead + 31;
    assert_true(larder__disk_has(d, 0));
    larder__disk_send(d, &f, 1); /* its memory is still out */
    assert_null(larder__disk_receive(d, f));
    larder__disk_fetch_unref(&f);
    await_hanging();
    set_gate(&reads_hang, false);
    larder__disk_close(&d);
    d = open_set(4 * MIB);
    check_value(d, 0, 50000);
    larder__disk_close(&d);
}

/* Closed while a read hangs: what it writes to stays, for good. */
static void test_close_while_hanging(void **state) {
    (void)state;
    larder__disk_conf conf = disk_conf(folder, 4 * MIB, 1, 1000);
    conf.patience = 0.02;
    larder__disk *d = open_with(&conf);
    put(d, 0, 50000);
    set_gate(&reads_hang, true);
    assert_null(disk_get(d, 0));
    await_hanging();
    larder__disk_close(&d);
    set_gate(&reads_hang, false);
    pthread_mutex_lock(&gate);
    while (hanging) /* the thread lets go of it by itself */
        pthread_cond_wait(&moved, &gate);
    pthread_mutex_unlock(&gate);
}

/* ---- what is not written --------------------------------------------------------------------- */

static void test_spare_stops_a_write(void **state) {
    (void)state;
    larder__disk *d = open_set(4 * MIB);
    set_gate(&writes_hang, true);
    disk_put(d, 1, 0, 5000);
    await_hanging();
    disk_put(d, 1, 1, 5000);
    disk_put(d, 1, 2, 5000);
    larder__disk_spare(d, 0); /* on its way already: it is spare when it comes */
    larder__disk_spare(d, 1);
    set_gate(&writes_hang, false);
    assert_true(larder__disk_settle(d, PATIENCE));
    assert_false(larder__disk_has(d, 1));
    check_value(d, 2, 5000);
    uint64_t freed;
    check_ok(larder__disk_trim(folder, 0, &freed));
    assert_false(larder__disk_has(d, 0));
    assert_true(larder__disk_has(d, 2));
    larder__disk_close(&d);
}

static void test_full_queue(void **state) {
    (void)state;
    larder__disk *d = open_set(128 * MIB);
    set_gate(&writes_hang, true);
    for (uint64_t k = 0; k < 20; k++) /* 16 of them are 64 MiB */
        disk_put(d, 1, k, 4 * MIB - 40);
    assert_int_equal(disk_figures(d).refused, 4);
    assert_false(larder__disk_settle(d, 0));
    set_gate(&writes_hang, false);
    assert_true(larder__disk_settle(d, PATIENCE));
    assert_int_equal(disk_figures(d).writes, 16);
    larder__disk_close(&d);
}

/* So many bytes a second, ten seconds' worth at once. */
static void test_wear(void **state) {
    (void)state;
    larder__disk_conf conf = disk_conf(folder, 8 * MIB, 1, 1000);
    conf.wear = 8 * BLOCK;
    larder__disk *d = open_with(&conf);
    ahead = ahead + 1000;
    for (uint64_t k = 0; k < 50; k++)
        put(d, k, EIGHT);
    uint64_t first = disk_figures(d).writes;
    assert_true(first >= 10 && first <= 10 + PATIENCE); /* and one a second of this test's own */
    assert_int_equal(disk_figures(d).refused, 50 - first);
    ahead = ahead + 5;
    for (uint64_t k = 100; k < 150; k++)
        put(d, k, EIGHT);
    assert_true(disk_figures(d).writes >= first + 5);
    larder__disk_close(&d);
}

/* Nobody reads what is written: values that displace others are written ever more rarely, and
 * again when they are read. */
static void test_guard(void **state) {
    (void)state;
    larder__disk *d = open_set(2 * MIB);
    uint64_t room = larder__disk_room(d) / (8 * BLOCK), key = 0;
    for (; key < room; key++)
        put(d, key, EIGHT);
    assert_int_equal(disk_figures(d).writes, room);
    uint64_t writes[2];
    for (int i = 0; i < 2; i++) {
        uint64_t before = disk_figures(d).writes;
        for (int n = 0; n < 320; n++) {
            for (uint64_t k = 0; k < 1000; k++)
                larder__disk_spare(d, k);
            put(d, key++ % 1000, EIGHT);
        }
        writes[i] = disk_figures(d).writes - before;
    }
    assert_true(writes[0] < 100 && writes[0] > 5);
    assert_in_range(writes[1], 3, 12); /* one in 64, and what its bounds admit */
    for (int i = 0; i < 2; i++) {
        uint64_t before = disk_figures(d).writes;
        for (int n = 0; n < 320; n++) {
            for (uint64_t k = 0, read = 0; k < 1000; k++) {
                if (read < 2 && larder__disk_has(d, k)) {
                    check_value(d, k, EIGHT);
                    read++;
                }
                larder__disk_spare(d, k);
            }
            put(d, key++ % 1000, EIGHT);
        }
        writes[i] = disk_figures(d).writes - before;
    }
    assert_in_range(writes[1], 319, 320);
    larder__disk_close(&d);
}

/* ---- folders --------------------------------------------------------------------------------- */

static void test_no_room(void **state) {
    (void)state;
    reserve_error = ENOSPC;
    refused(4 * MIB, LARDER_E_FULL, strerror(ENOSPC));
    reserve_error = 0;
    larder__disk *d = open_set(4 * MIB);
    put(d, 0, 5000);
    reserve_error = ENOSPC; /* a second data set finds none; the first one goes on */
    larder__disk *other;
    larder__disk_conf conf = disk_conf(folder, 4 * MIB, 2, 1000);
    assert_int_equal(larder__disk_open(&other, &conf), LARDER_E_FULL);
    check_value(d, 0, 5000);
    put(d, 1, 5000);
    check_value(d, 1, 5000);
    larder__disk_close(&d);
}

/* A table that could not be made as long as it is to be is not taken for whole by the next one: a
 * full disk would end whoever writes to it where it is mapped. */
static void test_no_room_for_bits(void **state) {
    (void)state;
    larder__disk *d = open_set(4 * MIB);
    put(d, 0, 5000);
    larder__disk_close(&d);
    char path[300];
    in_folder(path, "space");
    assert_int_equal(unlink(path), 0);
    reserve_error = ENOSPC;
    refused(4 * MIB, LARDER_E_FULL, "space");
    reserve_error = 0;
    reserved = 0;
    d = open_set(4 * MIB);
    assert_int_equal(reserved, 1);
    check_value(d, 0, 5000);
    larder__disk_close(&d);
}

/* Files that are mapped are read before: a disk that cannot says so then, and does not end whoever
 * looks at them. */
static void test_unreadable(void **state) {
    (void)state;
    larder__disk *d = open_set(4 * MIB);
    put(d, 0, 5000);
    larder__disk_close(&d);
    read_error = EIO;
    refused(4 * MIB, LARDER_E_IO, "head: cannot be read");
    read_error = 0;
    d = open_set(4 * MIB);
    check_value(d, 0, 5000);
    larder__disk_close(&d);
}

/* Another one makes the folder meanwhile, and clears away what looks like left behind. */
static larder__disk *first_one;
static void come_first(void) { first_one = open_set(4 * MIB); }
static void test_both_make_it(void **state) {
    (void)state;
    on_sync = come_first;
    larder__disk *d = open_set(4 * MIB);
    assert_non_null(first_one);
    put(first_one, 0, 5000);
    check_value(d, 0, 5000);
    larder__disk_close(&d);
    larder__disk_close(&first_one);
}

static void test_other_machine(void **state) {
    (void)state;
    larder__disk *d = open_set(4 * MIB);
    put(d, 0, 5000);
    larder__disk_close(&d);
    strcpy(who[0], "boot 2");
    strcpy(who[1], "machine 2");
    pid_t pid = fork(); /* left cleanly, it may be taken over; but this one dies */
    assert_true(pid >= 0);
    if (pid == 0) {
        larder__disk_conf conf = disk_conf(folder, 4 * MIB, 1, 1000);
        must(larder__disk_open(&d, &conf) == 0);
        must(larder__disk_has(d, 0));
        _exit(0);
    }
    int status;
    waitpid(pid, &status, 0);
    assert_int_equal(status, 0);
    strcpy(who[0], "boot 3");
    strcpy(who[1], "machine 1");
    refused(4 * MIB, LARDER_E_STATE, "another machine (machine 2");
    strcpy(who[0], "boot 4"); /* the other one, after its power came back */
    strcpy(who[1], "machine 2");
    d = open_set(4 * MIB);
    check_value(d, 0, 5000);
    larder__disk_close(&d);
}

/* One dies with blocks that no entry names yet, while another one stays: they are nobody's until
 * somebody is alone there again. */
static void test_left_behind(void **state) {
    (void)state;
    int ends[2];
    char go;
    assert_int_equal(pipe(ends), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        must(read(ends[0], &go, 1) == 1);
        dies_writing = true;
        larder__disk *d;
        larder__disk_conf conf = disk_conf(folder, 4 * MIB, 1, 1000);
        must(larder__disk_open(&d, &conf) == 0);
        disk_put(d, 1, 7, EIGHT);
        larder__disk_settle(d, PATIENCE);
        _exit(1); /* not reached */
    }
    larder__disk *d = open_set(4 * MIB);
    put(d, 0, EIGHT);
    assert_int_equal(write(ends[1], "g", 1), 1);
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 7);
    assert_int_equal(disk_figures(d).used_bytes, 16 * BLOCK);
    assert_false(larder__disk_has(d, 7));
    larder__disk_close(&d);
    d = open_set(4 * MIB);
    assert_int_equal(disk_figures(d).used_bytes, 8 * BLOCK);
    check_value(d, 0, EIGHT);
    larder__disk_close(&d);
    close(ends[0]);
    close(ends[1]);
}

/* Somebody removes the files of a folder in use: who has it open goes on with what he has. */
static void test_removed(void **state) {
    (void)state;
    larder__disk *d = open_set(4 * MIB);
    put(d, 0, 5000);
    char path[300];
    in_folder(path, "head");
    assert_int_equal(unlink(path), 0);
    put(d, 1, 5000);
    check_value(d, 0, 5000);
    check_value(d, 1, 5000);
    refused(4 * MIB, LARDER_E_STATE, "no head");
    in_folder(path, "data");
    unlink(path);
    in_folder(path, "space");
    unlink(path);
    larder__disk *fresh = open_set(4 * MIB);
    put(fresh, 2, 5000);
    check_value(fresh, 2, 5000);
    check_value(d, 0, 5000);
    larder__disk_close(&d);
    check_value(fresh, 2, 5000);
    larder__disk_close(&fresh);
}

static void test_shortened_data(void **state) {
    (void)state;
    larder__disk *d = open_set(4 * MIB);
    for (uint64_t k = 0; k < 10; k++)
        put(d, k, EIGHT);
    char path[300];
    in_folder(path, "data");
    assert_int_equal(truncate(path, 5 * 8 * BLOCK + 100), 0);
    for (uint64_t k = 0; k < 5; k++)
        check_value(d, k, EIGHT);
    for (uint64_t k = 5; k < 10; k++)
        assert_null(disk_get(d, k));
    assert_int_equal(disk_figures(d).damaged, 5);
    larder__disk_close(&d);
}

/* What SECURITY.md does not promise: a table that its own user makes shorter while it is mapped
 * ends the process. The next one is told, or begins anew; it reads no wrong byte. */
static void cut_and_use(const char *table) {
    const struct rlimit no_core = {0};
    char pattern[300];
    glob_t g;
    larder__disk *d;
    larder__disk_conf conf = disk_conf(folder, 4 * MIB, 1, 1000);
    setrlimit(RLIMIT_CORE, &no_core);
    signal(SIGBUS, SIG_DFL); /* cmocka's, or a sanitizer's */
    must(larder__disk_open(&d, &conf) == 0);
    disk_put(d, 1, 0, EIGHT);
    must(larder__disk_settle(d, PATIENCE));
    in_folder(pattern, table);
    must(glob(pattern, 0, NULL, &g) == 0 && g.gl_pathc == 1);
    must(truncate(g.gl_pathv[0], 0) == 0);
    globfree(&g);
    larder_buf *b = disk_get(d, 0);
    must(!b || disk_same(1, 0, EIGHT, b));
    larder_buf_unref(&b);
    disk_put(d, 1, 1, EIGHT);
    larder__disk_settle(d, PATIENCE);
    larder__disk_close(&d);
    _exit(0);
}

static void test_shortened_tables(void **state) {
    static const char *const tables[] = {"head", "space", "*.index"};
    (void)state;
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        int status;
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0)
            cut_and_use(tables[i]);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGBUS)
            fail_msg("%s: %d", tables[i], status);
        larder__disk *d = NULL;
        larder__disk_conf conf = disk_conf(folder, 4 * MIB, 1, 1000);
        if (larder__disk_open(&d, &conf) < 0)
            assert_non_null(strstr(larder_errmsg(), folder));
        else {
            larder_buf *b = disk_get(d, 0);
            assert_true(!b || disk_same(1, 0, EIGHT, b));
            larder_buf_unref(&b);
            put(d, 2, EIGHT);
            check_value(d, 2, EIGHT);
            larder__disk_close(&d);
        }
        check_folder_remove(folder);
        assert_int_equal(mkdir(folder, 0700), 0);
    }
}

/* Past the page cache nothing can be read from the middle of a sector on. */
static ssize_t read_sectors(int fd, void *to, size_t n, off_t at) {
    if (at % 512 == 0)
        return pread(fd, to, n, at);
    errno = EINVAL;
    return -1;
}

static void test_shortened_inside_a_sector(void **state) {
    (void)state;
    larder__disk_io io = our_io;
    io.read = read_sectors;
    larder__disk_io_use(&io);
    larder__disk *d = open_set(4 * MIB);
    put(d, 0, EIGHT);
    put(d, 1, EIGHT);
    char path[300];
    in_folder(path, "data");
    assert_int_equal(truncate(path, 8 * BLOCK + 100), 0);
    assert_null(disk_get(d, 1));
    assert_int_equal(disk_figures(d).damaged, 1);
    check_value(d, 0, EIGHT); /* it is not left alone */
    larder__disk_close(&d);
}

static void test_torn_head(void **state) {
    (void)state;
    larder__disk *d = open_set(4 * MIB);
    put(d, 0, 5000);
    larder__disk_close(&d);
    char path[300];
    in_folder(path, "head");
    int file = open(path, O_RDWR);
    assert_int_equal(pwrite(file, "xxxx", 4, 40), 4);
    close(file);
    larder__disk_figures f;
    assert_int_equal(larder__disk_list(folder, &f, NULL, NULL), LARDER_E_STATE);
    refused(0, LARDER_E_STATE, "damaged");
    d = open_set(4 * MIB);
    check_value(d, 0, 5000);
    larder__disk_close(&d);
    assert_int_equal(truncate(path, 100), 0);
    d = open_set(4 * MIB);
    check_value(d, 0, 5000);
    larder__disk_close(&d);
}

/* A process that is stopped while it gives out blocks: nobody waits for it for long. */
static void test_stuck_lock(void **state) {
    (void)state;
    larder__disk *d = open_set(4 * MIB);
    put(d, 0, 5000);
    larder__disk_folder *f;
    check_ok(larder__disk_folder_open(&f, folder, &(larder__disk_ask){0}));
    check_ok(larder__disk_giving(f, 1));
    put(d, 1, 5000);
    assert_false(larder__disk_has(d, 1));
    check_note(d, "does not go on");
    check_value(d, 0, 5000);
    larder__disk_given(f);
    larder__disk_folder_close(&f);
    ahead = ahead + 31;
    put(d, 1, 5000);
    check_value(d, 1, 5000);
    larder__disk_close(&d);
}

/* Words of an index that are rotten name nothing that is moved, or that others make room for, when
 * the folder gets smaller. */
static void test_rotten_words(void **state) {
    (void)state;
    enum { FIRST_ROTTEN = 5 };
    larder__disk *d = open_set(MIB);
    for (uint64_t k = 0; k < FIRST_ROTTEN; k++) {
        put(d, k, EIGHT);
        larder__disk_spare(d, k);
    }
    larder__disk_folder *f;
    check_ok(larder__disk_folder_open(&f, folder, &(larder__disk_ask){0}));
    uint64_t id = larder__disk_id(1, 1000), far_away = (uint64_t)1 << 33;
    larder__disk_index *x = larder__disk_folder_find(f, id);
    atomic_store(&x->words[FIRST_ROTTEN], far_away); /* of no block */
    atomic_store(&x->words[FIRST_ROTTEN + 1], larder__disk_word(id, FIRST_ROTTEN + 1, far_away, 170,
                                                                atomic_load(&f->head->era)));
    larder__disk_folder_close(&f);
    larder__disk_conf conf =
        disk_conf(folder, MIB, 2, 1000); /* its index takes room of the values */
    larder__disk *other = open_with(&conf);
    for (uint64_t k = 0; k < FIRST_ROTTEN; k++)
        check_value(d, k, EIGHT);
    assert_false(larder__disk_has(d, FIRST_ROTTEN));
    assert_false(larder__disk_has(d, FIRST_ROTTEN + 1));
    larder__disk_close(&other);
    larder__disk_close(&d);
}

/* Blocks that could not be given back are found by the next one, whoever left last. */
static void test_lost_blocks(void **state) {
    (void)state;
    larder__disk *d = open_set(4 * MIB), *other = open_set(4 * MIB);
    put(d, 0, EIGHT);
    put(d, 1, EIGHT);
    char path[300], spoilt[BLOCK] = {0};
    in_folder(path, "data");
    int file = open(path, O_RDWR);
    assert_int_equal(pwrite(file, spoilt, BLOCK, 0), BLOCK);
    close(file);
    larder__disk_folder *f;
    check_ok(larder__disk_folder_open(&f, folder, &(larder__disk_ask){0}));
    check_ok(larder__disk_giving(f, 1));
    assert_null(disk_get(d, 0));
    assert_true(larder__disk_settle(d, PATIENCE));
    larder__disk_given(f);
    larder__disk_folder_close(&f);
    larder__disk_close(&d);
    assert_int_equal(disk_figures(other).used_bytes, 16 * BLOCK);
    larder__disk_close(&other);
    d = open_set(4 * MIB);
    assert_int_equal(disk_figures(d).used_bytes, 8 * BLOCK);
    check_value(d, 1, EIGHT);
    larder__disk_close(&d);
}

/* Each allocation fails once: the call says so, or does without. */
static void test_no_memory(void **state) {
    (void)state;
    larder__disk *d = open_set(4 * MIB);
    larder__disk_close(&d);
    larder_buf *b = disk_bytes(1, 3, 5000);
    larder__value v = {.id = 3, .size = 5000, .form = DISK_FORM, .held = DISK_FORM};
    bool failed = true;
    for (uint64_t n = 1; failed; n++) {
        larder__disk_conf conf = disk_conf(folder, 4 * MIB, 1, 1000);
        larder__mem_fail_at(n, 0);
        int rc = larder__disk_open(&d, &conf);
        if (rc == 0) {
            larder__disk_put(d, &v, b);
            larder__disk_settle(d, PATIENCE);
            larder__disk_fetch *f = larder__disk_fetch_new(&v);
            if (f) {
                larder__disk_send(d, &f, 1);
                larder_buf *got = larder__disk_receive(d, f);
                assert_true(!got || disk_same(1, 3, 5000, got));
                larder_buf_unref(&got);
            }
            larder__disk_fetch_unref(&f);
        }
        failed = larder__mem_failed();
        larder__mem_fail_at(0, 0);
        assert_true(rc == 0 || (failed && rc == LARDER_E_NOMEM));
        larder__disk_close(&d);
    }
    larder_buf_unref(&b);
    d = open_set(4 * MIB);
    check_value(d, 3, 5000);
    larder__disk_close(&d);
}

int main(void) {
    const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        T(test_write_errors),
        T(test_read_error),
        T(test_short),
        T(test_slow_read),
        T(test_close_while_hanging),
        T(test_spare_stops_a_write),
        T(test_full_queue),
        T(test_wear),
        T(test_guard),
        T(test_no_room),
        T(test_no_room_for_bits),
        T(test_unreadable),
        T(test_both_make_it),
        T(test_other_machine),
        T(test_left_behind),
        T(test_removed),
        T(test_shortened_data),
        T(test_shortened_tables),
        T(test_shortened_inside_a_sector),
        T(test_torn_head),
        T(test_stuck_lock),
        T(test_lost_blocks),
        T(test_rotten_words),
        T(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
