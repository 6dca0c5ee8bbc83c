/* Power cuts and kills: a folder is opened again after a cut at any write, with any part of what
 * was written since the last sync missing, and after processes were killed at any point. No wrong
 * byte, the budget holds, and it works on. */
#include "check.h"
#include "disk_kit.h"

#include "base/file.h"
#include "disk/disk_form.h"

#include <dirent.h>
#include <fcntl.h>
#include <larder/plugin.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

enum { KEYS = 120, BUDGET = 400 << 10, BLOCK = 4096, SECTOR = 512, IDENTITY = 11 };

static larder_rng rng;
static uint32_t below(uint32_t n) { return larder_rng_below(&rng, n); }
static bool is_long(void) { return getenv("LARDER_LONG") != NULL; }
static uint32_t size_of(uint64_t key) { return (uint32_t)(key * 331 % 20000); }

/* Below memory where there is such a folder: thousands of cuts are no work for a disk. */
static void make_folder(char out[256]) {
    snprintf(out, 256, "%s/larder-test-XXXXXX",
             access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    assert_non_null(mkdtemp(out));
}

/* ---- a disk that remembers what it was given since the last sync ----------------------------- */

typedef struct block_before {
    off_t at;
    unsigned char bytes[BLOCK];
} block_before;

enum { LOG_MOST = 4096 };
static block_before *written;
static size_t written_count;
static unsigned boots;
static pthread_mutex_t disk_lock = PTHREAD_MUTEX_INITIALIZER;

static ssize_t logged_write(int fd, const void *bytes, size_t n, off_t at) {
    static _Alignas(BLOCK) unsigned char old[BLOCK];
    struct stat st;
    pthread_mutex_lock(&disk_lock);
    if (n % BLOCK == 0 && fstat(fd, &st) == 0)
        for (size_t i = 0; i < n && written_count < LOG_MOST; i += BLOCK) {
            block_before *b = &written[written_count++];
            b->at = at + (off_t)i;
            if (pread(fd, old, BLOCK, b->at) != BLOCK)
                memset(old, 0, BLOCK);
            memcpy(b->bytes, old, BLOCK);
        }
    ssize_t rc = pwrite(fd, bytes, n, at);
    pthread_mutex_unlock(&disk_lock);
    return rc;
}
static int reserve(int fd, off_t bytes) { return posix_fallocate(fd, 0, bytes); }
static int punch(int fd, off_t at, off_t bytes) { return (void)fd, (void)at, (void)bytes, 0; }
static int no_sync(int fd) { return (void)fd, 0; }
static void this_boot(char out[LARDER__DISK_WHO]) {
    memset(out, 0, LARDER__DISK_WHO);
    snprintf(out, LARDER__DISK_WHO, "boot %u", boots);
}
static void this_machine(char out[LARDER__DISK_WHO]) {
    memset(out, 0, LARDER__DISK_WHO);
    strcpy(out, "machine");
}
static const larder__disk_io logged = {.read = pread,
                                       .write = logged_write,
                                       .reserve = reserve,
                                       .resize = ftruncate,
                                       .punch = punch,
                                       .sync = no_sync,
                                       .boot = this_boot,
                                       .machine = this_machine};

/* ---- copies of a folder ---------------------------------------------------------------------- */

enum { FILES_MOST = 8 };
typedef struct kept_file {
    char name[256];
    unsigned char *bytes;
    size_t size;
} kept_file;
typedef struct kept {
    kept_file files[FILES_MOST];
    size_t count;
} kept;

static void keep(kept *k, const char *folder) {
    DIR *d = opendir(folder);
    struct stat st;
    assert_non_null(d);
    for (size_t i = 0; i < k->count; i++)
        free(k->files[i].bytes);
    k->count = 0;
    for (const struct dirent *e; (e = readdir(d));) {
        if (e->d_name[0] == '.')
            continue;
        int fd = openat(dirfd(d), e->d_name, O_RDONLY);
        assert_true(fd >= 0 && fstat(fd, &st) == 0 && k->count < FILES_MOST);
        kept_file *f = &k->files[k->count++];
        snprintf(f->name, sizeof f->name, "%s", e->d_name);
        f->size = (size_t)st.st_size;
        f->bytes = malloc(f->size + 1);
        assert_non_null(f->bytes);
        assert_int_equal(pread(fd, f->bytes, f->size, 0), f->size);
        close(fd);
    }
    closedir(d);
}

static const kept_file *find(const kept *k, const char *name) {
    for (size_t i = 0; i < k->count; i++)
        if (strcmp(k->files[i].name, name) == 0)
            return &k->files[i];
    return NULL;
}

/* Of mapped files each sector is the old or the new one; of `data`, blocks are taken back. */
static void cut_file(kept_file *now, const kept *before, uint32_t percent) {
    if (strcmp(now->name, "data") == 0) {
        for (size_t i = written_count; i-- > 0;)
            if (below(100) < percent && (size_t)written[i].at + BLOCK <= now->size)
                memcpy(now->bytes + written[i].at, written[i].bytes, BLOCK);
        return;
    }
    const kept_file *old = find(before, now->name);
    for (size_t at = 0; at < now->size; at += SECTOR) {
        if (below(100) >= percent)
            continue;
        if (old && at + SECTOR <= old->size)
            memcpy(now->bytes + at, old->bytes + at, SECTOR);
        else if (!old && below(4) == 0 && at > 0)
            memset(now->bytes + at, 0, SECTOR); /* a new file of which a part never came */
    }
}

static void put_files(const kept *k, const char *folder) {
    DIR *d = opendir(folder);
    assert_non_null(d);
    for (const struct dirent *e; (e = readdir(d));)
        if (e->d_name[0] != '.')
            unlinkat(dirfd(d), e->d_name, 0);
    closedir(d);
    for (size_t i = 0; i < k->count; i++) {
        char path[600];
        snprintf(path, sizeof path, "%s/%s", folder, k->files[i].name);
        check_write(path, k->files[i].bytes, k->files[i].size);
        assert_int_equal(chmod(path, 0600), 0);
    }
}

/* ---- what must hold afterwards --------------------------------------------------------------- */

static larder__disk *reopen(const char *folder, uint64_t identity) {
    larder__disk *d;
    larder__disk_conf conf = disk_conf(folder, BUDGET, identity, KEYS);
    check_ok(larder__disk_open(&d, &conf));
    return d;
}

/* None is wrong. */
static void check_all(larder__disk *d, uint64_t identity) {
    larder__disk_fetch *all[KEYS];
    for (uint64_t k = 0; k < KEYS; k++) {
        larder__value v = {.id = k, .form = DISK_FORM, .held = LARDER__ANY_FORM};
        all[k] = larder__disk_fetch_new(&v);
        assert_non_null(all[k]);
    }
    larder__disk_send(d, all, KEYS);
    for (uint64_t k = 0; k < KEYS; k++) {
        larder_buf *b = larder__disk_receive(d, all[k]);
        if (b && !disk_same(identity, k, size_of(k), b))
            fail_msg("key %llu has other bytes", (unsigned long long)k);
        larder_buf_unref(&b);
        larder__disk_fetch_unref(&all[k]);
    }
    assert_true(larder__disk_settle(d, 60));
}

static void some_work(larder__disk *d, uint64_t identity, uint32_t steps) {
    for (uint32_t i = 0; i < steps; i++) {
        uint64_t key = below(KEYS);
        disk_put(d, identity, key, size_of(key));
        if (below(2))
            larder__disk_spare(d, below(KEYS));
    }
    assert_true(larder__disk_settle(d, 60));
}

static void no_matter(void *arg, const larder__disk_set *s) { (void)arg, (void)s; }

/* What was not given its name before a kill. */
static bool has_temps(const char *folder) {
    bool has = false;
    DIR *d = opendir(folder);
    for (const struct dirent *e; d && (e = readdir(d));)
        has |= larder__temp_is(e->d_name);
    if (d)
        closedir(d);
    return has;
}

static void check_works(const char *folder) {
    larder__disk *d = reopen(folder, IDENTITY);
    assert_false(has_temps(folder));
    assert_true(disk_usage(folder) <= BUDGET);
    check_all(d, IDENTITY);
    larder__disk_figures f;
    check_ok(larder__disk_list(folder, &f, no_matter, NULL));
    assert_int_equal(disk_figures(d).used_bytes, f.used_bytes); /* none is lost or has two owners */
    assert_int_equal(disk_figures(d).entries, f.entries);
    some_work(d, IDENTITY, 10);
    larder__disk_spare(d, 1);
    check_all(d, IDENTITY);
    assert_true(disk_usage(folder) <= BUDGET);
    larder__disk_close(&d);
}

/* ---- power cuts ------------------------------------------------------------------------------ */

static void test_power(void **state) {
    (void)state;
    char a[256], b[256];
    make_folder(a);
    make_folder(b);
    larder_rng_seed(&rng, 3, 0);
    written = calloc(LOG_MOST, sizeof *written);
    assert_non_null(written);
    larder__disk_io_use(&logged);
    larder__disk *d = reopen(a, IDENTITY);
    kept before = {0}, now = {0};
    keep(&before, a);
    for (int cut = 0; cut < (is_long() ? 5000 : 400); cut++) {
        some_work(d, IDENTITY, 1 + below(25));
        if (below(10) == 0) { /* the next run, on the same boot or another one */
            larder__disk_close(&d);
            boots += below(2);
            d = reopen(a, IDENTITY);
        }
        keep(&now, a);
        uint32_t percent = below(4) * 33;
        for (size_t i = 0; i < now.count; i++)
            cut_file(&now.files[i], &before, percent);
        put_files(&now, b);
        size_t logged_now = written_count;
        boots += 1000;
        check_works(b);
        if (cut % 8 == 0)
            check_works(b);
        boots -= 1000;
        written_count = logged_now;
        if (below(3) == 0 || written_count > LOG_MOST / 2) { /* all is on the disk now */
            keep(&before, a);
            written_count = 0;
        }
    }
    larder__disk_close(&d);
    larder__disk_io_use(NULL);
    for (size_t i = 0; i < before.count; i++)
        free(before.files[i].bytes);
    for (size_t i = 0; i < now.count; i++)
        free(now.files[i].bytes);
    free(written);
    check_folder_remove(a);
    check_folder_remove(b);
}

/* ---- kills ----------------------------------------------------------------------------------- */

static int die_at; /* the so-many-th call from now; 0: never */
static void count_down(void) {
    if (die_at > 0 && --die_at == 0)
        raise(SIGKILL);
}
static ssize_t dying_write(int fd, const void *bytes, size_t n, off_t at) {
    if (die_at == 1 && pwrite(fd, bytes, n / 2 / BLOCK * BLOCK, at) < 0)
        abort();
    count_down();
    ssize_t rc = pwrite(fd, bytes, n, at);
    count_down();
    return rc;
}
static int dying_reserve(int fd, off_t bytes) {
    count_down();
    int rc = posix_fallocate(fd, 0, bytes);
    count_down();
    return rc;
}
static int dying_resize(int fd, off_t bytes) {
    count_down();
    int rc = ftruncate(fd, bytes);
    count_down();
    return rc;
}
static int dying_sync(int fd) {
    (void)fd;
    count_down();
    return 0;
}
static const larder__disk_io dying = {.read = pread,
                                      .write = dying_write,
                                      .reserve = dying_reserve,
                                      .resize = dying_resize,
                                      .punch = punch,
                                      .sync = dying_sync,
                                      .boot = this_boot,
                                      .machine = this_machine};

static larder__disk *must_open(const char *folder, uint64_t identity) {
    larder__disk *d;
    larder__disk_conf conf = disk_conf(folder, BUDGET, identity, KEYS);
    must(larder__disk_open(&d, &conf) == 0);
    return d;
}

static void child_work(const char *folder, uint64_t identity, uint64_t seed, uint32_t rounds) {
    larder_rng_seed(&rng, seed, 9);
    larder__disk *d = must_open(folder, identity);
    for (uint32_t i = 0; i < rounds; i++) {
        for (int k = 0; k < 6; k++) {
            uint64_t key = below(KEYS);
            disk_put(d, identity, key, size_of(key));
            larder__disk_spare(d, below(KEYS));
            key = below(KEYS);
            larder_buf *b = disk_get(d, key);
            must(!b || disk_same(identity, key, size_of(key), b));
            larder_buf_unref(&b);
        }
        must(larder__disk_settle(d, 60));
        must(disk_usage(folder) <= BUDGET);
    }
    larder__disk_close(&d);
    _exit(0);
}

/* One child after the other on one folder, each of them killed at its k-th operation. */
static void test_kill_at(void **state) {
    (void)state;
    char folder[256];
    make_folder(folder);
    larder__disk_io_use(&dying);
    unsigned killed = 0, temps = 0;
    for (int k = 1; k < (is_long() ? 1000 : 120); k++) {
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
            die_at = 1 + k % 40;
            child_work(folder, IDENTITY + (uint64_t)(k / 7 % 3), (uint64_t)k, 30);
        }
        int status;
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFSIGNALED(status) ? WTERMSIG(status) == SIGKILL : WEXITSTATUS(status) == 0);
        killed += WIFSIGNALED(status);
        temps += has_temps(folder);
        if (k % 4 == 0)
            check_works(folder);
    }
    assert_true(killed > 50 && temps > 0);
    larder__disk_io_use(NULL);
    check_folder_remove(folder);
}

/* Works until nobody holds the other end of the pipe. */
static void steady_work(const char *folder, int until_closed) {
    larder_rng_seed(&rng, 5, 0);
    larder__disk *d = must_open(folder, IDENTITY);
    struct pollfd p = {.fd = until_closed, .events = POLLIN};
    while (poll(&p, 1, 0) == 0) {
        for (uint64_t k = 0; k < KEYS; k++) {
            larder_buf *b = disk_get(d, k);
            must(!b || disk_same(IDENTITY, k, size_of(k), b));
            larder_buf_unref(&b);
            uint64_t key = below(KEYS);
            disk_put(d, IDENTITY, key, size_of(key));
        }
        must(larder__disk_settle(d, 60));
        must(disk_usage(folder) <= BUDGET);
    }
    must(disk_figures(d).reads > 0);
    larder__disk_close(&d);
    _exit(0);
}

static void killed_or_done(pid_t pid) {
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) ? WTERMSIG(status) == SIGALRM : WEXITSTATUS(status) == 0);
}

/* Several at once, killed by a timer wherever they are, while one lives on. */
static void test_kill_some(void **state) {
    (void)state;
    enum { CHILDREN = 4 };
    char folder[256];
    int ends[2];
    make_folder(folder);
    larder_rng_seed(&rng, 5, 0);
    assert_int_equal(pipe(ends), 0);
    pid_t steady = fork();
    assert_true(steady >= 0);
    if (steady == 0) {
        close(ends[1]);
        steady_work(folder, ends[0]);
    }
    for (int round = 0; round < (is_long() ? 600 : 40); round++) {
        pid_t pids[CHILDREN];
        for (int i = 0; i < CHILDREN; i++) {
            struct itimerval t = {.it_value = {.tv_usec = (suseconds_t)(300 + below(30000))}};
            pids[i] = fork();
            assert_true(pids[i] >= 0);
            if (pids[i] == 0) {
                close(ends[1]);
                signal(SIGALRM, SIG_DFL);
                if (i > 0) /* one of them gets to its end */
                    setitimer(ITIMER_REAL, &t, NULL);
                child_work(folder, IDENTITY + (uint64_t)(i % 2), (uint64_t)(round * 10 + i), 8);
            }
        }
        for (int i = 0; i < CHILDREN; i++)
            killed_or_done(pids[i]);
    }
    close(ends[1]);
    killed_or_done(steady);
    close(ends[0]);
    check_works(folder);
    check_folder_remove(folder);
}

/* The last to leave and the first to come meet at the door, over and over. */
static void test_come_and_go(void **state) {
    (void)state;
    enum { CHILDREN = 3, TIMES = 60 };
    char folder[256];
    make_folder(folder);
    pid_t pids[CHILDREN];
    for (int i = 0; i < CHILDREN; i++) {
        pids[i] = fork();
        assert_true(pids[i] >= 0);
        for (uint64_t n = 0; pids[i] == 0 && n < TIMES; n++) {
            larder__disk *d = must_open(folder, IDENTITY);
            disk_put(d, IDENTITY, n, size_of(n));
            must(larder__disk_settle(d, 60));
            larder__disk_close(&d);
        }
        if (pids[i] == 0)
            _exit(0);
    }
    for (int i = 0; i < CHILDREN; i++)
        killed_or_done(pids[i]);
    check_works(folder);
    check_folder_remove(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_power),
        cmocka_unit_test(test_kill_at),
        cmocka_unit_test(test_kill_some),
        cmocka_unit_test(test_come_and_go),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
