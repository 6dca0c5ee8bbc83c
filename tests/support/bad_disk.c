#include "bad_disk.h"

#include "base/clock.h"
#include "base/world.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

bad_disk_switches bad_disk;

static double our_now(void) { return larder__now() + bad_disk.ahead; }
static void our_sleep(double when) {
    double now = our_now();
    if (when > now)
        bad_disk.ahead = bad_disk.ahead + (when - now);
}
static const larder__world our_world = {.now = our_now, .sleep_until = our_sleep};

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t moved = PTHREAD_COND_INITIALIZER;

static void pass_gate(const _Atomic bool *closed) {
    pthread_mutex_lock(&gate);
    bad_disk.hanging++;
    pthread_cond_broadcast(&moved);
    while (*closed)
        pthread_cond_wait(&moved, &gate);
    bad_disk.hanging--;
    pthread_cond_broadcast(&moved);
    pthread_mutex_unlock(&gate);
}
void bad_disk_gate(_Atomic bool *which, bool closed) {
    pthread_mutex_lock(&gate);
    *which = closed;
    pthread_cond_broadcast(&moved);
    pthread_mutex_unlock(&gate);
}
void bad_disk_await_hanging(void) {
    pthread_mutex_lock(&gate);
    while (!bad_disk.hanging)
        pthread_cond_wait(&moved, &gate);
    pthread_mutex_unlock(&gate);
}

void bad_disk_await_none(void) {
    pthread_mutex_lock(&gate);
    while (bad_disk.hanging)
        pthread_cond_wait(&moved, &gate);
    pthread_mutex_unlock(&gate);
}

static bool fails(int error) {
    bool interrupted = bad_disk.interrupts > 0;
    bad_disk.interrupts -= interrupted;
    if (interrupted || error)
        errno = interrupted ? EINTR : error;
    return interrupted || error;
}

static size_t cut(size_t n) {
    size_t piece = (size_t)bad_disk.piece;
    return piece && n > piece ? piece : n;
}

static ssize_t our_read(int fd, void *to, size_t n, off_t at) {
    pass_gate(&bad_disk.reads_hang);
    return fails(bad_disk.read_error) ? -1 : pread(fd, to, cut(n), at);
}
static ssize_t our_write(int fd, const void *from, size_t n, off_t at) {
    pass_gate(&bad_disk.writes_hang);
    bad_disk.tries++;
    if (bad_disk.dies_writing)
        _exit(7);
    return fails(bad_disk.write_error) ? -1 : pwrite(fd, from, cut(n), at);
}
static int our_reserve(int fd, off_t bytes) {
    bad_disk.reserved += !bad_disk.reserve_error;
    return bad_disk.reserve_error ? bad_disk.reserve_error : posix_fallocate(fd, 0, bytes);
}
static int our_punch(int fd, off_t at, off_t bytes) { return (void)fd, (void)at, (void)bytes, 0; }
static int our_sync(int fd) {
    void (*then)(void) = bad_disk.on_sync;
    (void)fd;
    bad_disk.on_sync = NULL;
    if (then)
        then();
    return 0;
}
static void our_boot(char out[LARDER__DISK_WHO]) { memcpy(out, bad_disk.boot, LARDER__DISK_WHO); }
static void our_machine(char out[LARDER__DISK_WHO]) {
    memcpy(out, bad_disk.machine, LARDER__DISK_WHO);
}
const larder__disk_io bad_disk_io = {.read = our_read,
                                     .write = our_write,
                                     .reserve = our_reserve,
                                     .resize = ftruncate,
                                     .punch = our_punch,
                                     .sync = our_sync,
                                     .boot = our_boot,
                                     .machine = our_machine};

int bad_disk_setup(void **state) {
    (void)state;
    check_folder(bad_disk.folder);
    bad_disk.ahead = 0; /* one by one: a thread that hung may still look */
    bad_disk.read_error = bad_disk.write_error = bad_disk.reserve_error = 0;
    bad_disk.piece = bad_disk.interrupts = 0;
    memcpy(bad_disk.boot, (char[LARDER__DISK_WHO]){"boot 1"}, LARDER__DISK_WHO);
    memcpy(bad_disk.machine, (char[LARDER__DISK_WHO]){"machine 1"}, LARDER__DISK_WHO);
    larder__world_use(&our_world);
    larder__disk_io_use(&bad_disk_io);
    return 0;
}
int bad_disk_teardown(void **state) {
    (void)state;
    larder__world_use(NULL);
    larder__disk_io_use(NULL);
    check_folder_remove(bad_disk.folder);
    return 0;
}

larder__disk *bad_disk_open_with(const larder__disk_conf *conf) {
    larder__disk *d;
    check_ok(larder__disk_open(&d, conf));
    return d;
}
larder__disk *bad_disk_open(uint64_t budget) {
    larder__disk_conf conf = disk_conf(bad_disk.folder, budget, 1, 1000);
    return bad_disk_open_with(&conf);
}
void bad_disk_put(larder__disk *d, uint64_t key, uint32_t size) {
    disk_put(d, 1, key, size);
    assert_true(larder__disk_settle(d, PATIENCE));
}
void bad_disk_check(larder__disk *d, uint64_t key, uint32_t size) {
    larder_buf *b = disk_get(d, key);
    assert_non_null(b);
    assert_true(disk_same(1, key, size, b));
    larder_buf_unref(&b);
}
void bad_disk_noted(larder__disk *d, const char *word) {
    char note[600];
    larder__disk_note(d, note, sizeof note);
    if (!strstr(note, word) || !strstr(note, bad_disk.folder))
        fail_msg("\"%s\" does not speak of %s", note, word);
}
void bad_disk_refuses(uint64_t budget, int code, const char *word) {
    larder__disk *d;
    larder__disk_conf conf = disk_conf(bad_disk.folder, budget, 1, 1000);
    assert_int_equal(larder__disk_open(&d, &conf), code);
    assert_null(d);
    if (!strstr(larder_errmsg(), word) || !strstr(larder_errmsg(), bad_disk.folder))
        fail_msg("\"%s\" does not speak of %s", larder_errmsg(), word);
}
void bad_disk_path(char out[300], const char *name) {
    snprintf(out, 300, "%s/%s", bad_disk.folder, name);
}
