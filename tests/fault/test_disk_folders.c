/* Folders of a disk tier that are not what they should be: without room, unreadable, of another
 * machine, left behind by one that died, removed, cut off or rotten. */
#include "bad_disk.h"

#include "disk/disk_folder.h"
#include "disk/disk_space.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static void test_no_room(void **state) {
    (void)state;
    bad_disk.reserve_error = ENOSPC;
    bad_disk_refuses(4 * MIB, LARDER_E_FULL, strerror(ENOSPC));
    bad_disk.reserve_error = 0;
    larder__disk *d = bad_disk_open(4 * MIB);
    bad_disk_put(d, 0, 5000);
    bad_disk.reserve_error = ENOSPC; /* a second data set finds none; the first one goes on */
    larder__disk *other;
    larder__disk_conf conf = disk_conf(bad_disk.folder, 4 * MIB, 2, 1000);
    assert_int_equal(larder__disk_open(&other, &conf), LARDER_E_FULL);
    bad_disk_check(d, 0, 5000);
    bad_disk_put(d, 1, 5000);
    bad_disk_check(d, 1, 5000);
    larder__disk_close(&d);
}

/* A table that could not be made as long as it is to be is not taken for whole by the next one: a
 * full disk would end whoever writes to it where it is mapped. */
static void test_no_room_for_bits(void **state) {
    (void)state;
    larder__disk *d = bad_disk_open(4 * MIB);
    bad_disk_put(d, 0, 5000);
    larder__disk_close(&d);
    char path[300];
    bad_disk_path(path, "space");
    assert_int_equal(unlink(path), 0);
    bad_disk.reserve_error = ENOSPC;
    bad_disk_refuses(4 * MIB, LARDER_E_FULL, "space");
    bad_disk.reserve_error = 0;
    bad_disk.reserved = 0;
    d = bad_disk_open(4 * MIB);
    assert_int_equal(bad_disk.reserved, 1);
    bad_disk_check(d, 0, 5000);
    larder__disk_close(&d);
}

/* Files that are mapped are read before: a disk that cannot says so then, and does not end whoever
 * looks at them. */
static void test_unreadable(void **state) {
    (void)state;
    larder__disk *d = bad_disk_open(4 * MIB);
    bad_disk_put(d, 0, 5000);
    larder__disk_close(&d);
    bad_disk.read_error = EIO;
    bad_disk_refuses(4 * MIB, LARDER_E_IO, "head: cannot be read");
    bad_disk.read_error = 0;
    d = bad_disk_open(4 * MIB);
    bad_disk_check(d, 0, 5000);
    larder__disk_close(&d);
}

/* Another one makes the folder meanwhile, and clears away what looks like left behind. */
static larder__disk *first_one;
static void come_first(void) { first_one = bad_disk_open(4 * MIB); }
static void test_both_make_it(void **state) {
    (void)state;
    bad_disk.on_sync = come_first;
    larder__disk *d = bad_disk_open(4 * MIB);
    assert_non_null(first_one);
    bad_disk_put(first_one, 0, 5000);
    bad_disk_check(d, 0, 5000);
    larder__disk_close(&d);
    larder__disk_close(&first_one);
}

static void test_other_machine(void **state) {
    (void)state;
    larder__disk *d = bad_disk_open(4 * MIB);
    bad_disk_put(d, 0, 5000);
    larder__disk_close(&d);
    strcpy(bad_disk.boot, "boot 2");
    strcpy(bad_disk.machine, "machine 2");
    pid_t pid = fork(); /* left cleanly, it may be taken over; but this one dies */
    assert_true(pid >= 0);
    if (pid == 0) {
        larder__disk_conf conf = disk_conf(bad_disk.folder, 4 * MIB, 1, 1000);
        must(larder__disk_open(&d, &conf) == 0);
        must(larder__disk_has(d, 0));
        _exit(0);
    }
    int status;
    waitpid(pid, &status, 0);
    assert_int_equal(status, 0);
    strcpy(bad_disk.boot, "boot 3");
    strcpy(bad_disk.machine, "machine 1");
    bad_disk_refuses(4 * MIB, LARDER_E_STATE, "another machine (machine 2");
    strcpy(bad_disk.boot, "boot 4"); /* the other one, after its power came back */
    strcpy(bad_disk.machine, "machine 2");
    d = bad_disk_open(4 * MIB);
    bad_disk_check(d, 0, 5000);
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
        bad_disk.dies_writing = true;
        larder__disk *d;
        larder__disk_conf conf = disk_conf(bad_disk.folder, 4 * MIB, 1, 1000);
        must(larder__disk_open(&d, &conf) == 0);
        disk_put(d, 1, 7, EIGHT);
        larder__disk_settle(d, PATIENCE);
        _exit(1); /* not reached */
    }
    larder__disk *d = bad_disk_open(4 * MIB);
    bad_disk_put(d, 0, EIGHT);
    assert_int_equal(write(ends[1], "g", 1), 1);
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 7);
    assert_int_equal(disk_figures(d).used_bytes, 16 * BLOCK);
    assert_false(larder__disk_has(d, 7));
    larder__disk_close(&d);
    d = bad_disk_open(4 * MIB);
    assert_int_equal(disk_figures(d).used_bytes, 8 * BLOCK);
    bad_disk_check(d, 0, EIGHT);
    larder__disk_close(&d);
    close(ends[0]);
    close(ends[1]);
}

/* Somebody removes the files of a folder in use: who has it open goes on with what he has. */
static void test_removed(void **state) {
    (void)state;
    larder__disk *d = bad_disk_open(4 * MIB);
    bad_disk_put(d, 0, 5000);
    char path[300];
    bad_disk_path(path, "head");
    assert_int_equal(unlink(path), 0);
    bad_disk_put(d, 1, 5000);
    bad_disk_check(d, 0, 5000);
    bad_disk_check(d, 1, 5000);
    bad_disk_refuses(4 * MIB, LARDER_E_STATE, "no head");
    bad_disk_path(path, "data");
    unlink(path);
    bad_disk_path(path, "space");
    unlink(path);
    larder__disk *fresh = bad_disk_open(4 * MIB);
    bad_disk_put(fresh, 2, 5000);
    bad_disk_check(fresh, 2, 5000);
    bad_disk_check(d, 0, 5000);
    larder__disk_close(&d);
    bad_disk_check(fresh, 2, 5000);
    larder__disk_close(&fresh);
}

static void test_shortened_data(void **state) {
    (void)state;
    larder__disk *d = bad_disk_open(4 * MIB);
    for (uint64_t k = 0; k < 10; k++)
        bad_disk_put(d, k, EIGHT);
    char path[300];
    bad_disk_path(path, "data");
    assert_int_equal(truncate(path, 5 * 8 * BLOCK + 100), 0);
    for (uint64_t k = 0; k < 5; k++)
        bad_disk_check(d, k, EIGHT);
    for (uint64_t k = 5; k < 10; k++)
        assert_null(disk_get(d, k));
    assert_int_equal(disk_figures(d).damaged, 5);
    larder__disk_close(&d);
}

/* A table is made shorter while it is mapped, before `key` is looked up: whatever is read is right,
 * nothing is written any more, and a word is said where a page was missed. */
static void cut_and_use(const char *table, off_t bytes) {
    char pattern[300];
    glob_t g;
    larder__disk *d = bad_disk_open(4 * MIB);
    bad_disk_put(d, 0, EIGHT);
    bad_disk_put(d, 999, EIGHT);
    bad_disk_path(pattern, table);
    assert_int_equal(glob(pattern, 0, NULL, &g), 0);
    assert_int_equal(g.gl_pathc, 1);
    assert_int_equal(truncate(g.gl_pathv[0], bytes), 0);
    globfree(&g);
    for (uint64_t key = 0; key < 1000; key += 999) {
        larder_buf *b = disk_get(d, key);
        assert_true(!b || disk_same(1, key, EIGHT, b));
        larder_buf_unref(&b);
    }
    bad_disk.tries = 0;
    for (uint64_t key = 1; key < 4; key++) {
        bad_disk_put(d, key, EIGHT);
        larder__disk_spare(d, key);
    }
    if (bytes == 0) { /* for good */
        bad_disk_noted(d, "a table there cannot be read any more");
        bad_disk.ahead = bad_disk.ahead + 1000;
        bad_disk_put(d, 4, EIGHT);
        assert_int_equal(bad_disk.tries, 0);
        assert_false(larder__disk_has(d, 4));
        assert_null(disk_get(d, 0));
        assert_int_equal(disk_figures(d).damaged, 0);
    }
    larder__disk_close(&d);
}

/* The next one is told, or begins anew. */
static void open_again(void) {
    larder__disk *d = NULL;
    larder__disk_conf conf = disk_conf(bad_disk.folder, 4 * MIB, 1, 1000);
    if (larder__disk_open(&d, &conf) < 0) {
        assert_non_null(strstr(larder_errmsg(), bad_disk.folder));
        return;
    }
    larder_buf *b = disk_get(d, 0);
    assert_true(!b || disk_same(1, 0, EIGHT, b));
    larder_buf_unref(&b);
    bad_disk_put(d, 2, EIGHT);
    bad_disk_check(d, 2, EIGHT);
    larder__disk_close(&d);
}

static void test_shortened_tables(void **state) {
    static const char *const tables[] = {"head", "space", "*.index"};
    static const off_t lengths[] = {0, 100, 600, BLOCK, BLOCK + 8};
    (void)state;
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        for (size_t k = 0; k < sizeof lengths / sizeof *lengths; k++) {
            cut_and_use(tables[i], lengths[k]);
            open_again();
            check_folder_remove(bad_disk.folder);
            assert_int_equal(mkdir(bad_disk.folder, 0700), 0);
        }
}

/* In the middle of giving out blocks: what looks free then may be another's, so nothing goes there.
 */
static void test_cut_while_giving(void **state) {
    (void)state;
    larder__disk *d = bad_disk_open(4 * MIB);
    bad_disk_put(d, 0, EIGHT);
    larder__disk_folder *f;
    check_ok(larder__disk_folder_open(&f, bad_disk.folder, &(larder__disk_ask){0}));
    check_ok(larder__disk_giving(f, 1));
    char path[300];
    bad_disk_path(path, "space");
    assert_int_equal(truncate(path, 0), 0);
    assert_int_not_equal(larder__disk_take(f, 8), LARDER__DISK_NOWHERE); /* zeroes: all is free */
    larder__disk_punch(f);
    larder__disk_given(f);
    assert_int_equal(larder__disk_whole(f), LARDER_E_IO);
    assert_non_null(strstr(larder_errmsg(), bad_disk.folder));
    assert_int_equal(larder__disk_giving(f, 1), LARDER_E_IO);
    assert_int_equal(larder__disk_shorten(f, 8), LARDER_E_IO);
    larder__disk_folder_close(&f);
    bad_disk_check(d, 0, EIGHT); /* whose index is whole, and so are its bytes */
    bad_disk.tries = 0;
    bad_disk_put(d, 1, EIGHT);
    assert_int_equal(bad_disk.tries, 0);
    bad_disk_noted(d, "used no more by this job");
    larder__disk_close(&d);
}

/* `larder disk check` and `trim` say that they did not come to their end. */
static bool cut_index(void *arg, uint64_t done, uint64_t all) {
    glob_t *g = arg;
    (void)done, (void)all;
    assert_int_equal(truncate(g->gl_pathv[0], LARDER__DISK_BLOCK), 0);
    return true;
}
static void test_cut_while_checked(void **state) {
    (void)state;
    larder__disk *d = bad_disk_open(4 * MIB);
    bad_disk_put(d, 0, EIGHT);
    bad_disk_put(d, 999, EIGHT);
    larder__disk_close(&d);
    char pattern[300];
    glob_t g;
    uint64_t sound, damaged;
    bad_disk_path(pattern, "*.index");
    assert_int_equal(glob(pattern, 0, NULL, &g), 0);
    assert_int_equal(larder__disk_check(bad_disk.folder, &sound, &damaged, cut_index, &g),
                     LARDER_E_IO);
    assert_non_null(strstr(larder_errmsg(), "a table there cannot be read any more"));
    assert_int_equal(sound, 1);
    assert_int_equal(damaged, 0);
    globfree(&g);
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
    larder__disk_io io = bad_disk_io;
    io.read = read_sectors;
    larder__disk_io_use(&io);
    larder__disk *d = bad_disk_open(4 * MIB);
    bad_disk_put(d, 0, EIGHT);
    bad_disk_put(d, 1, EIGHT);
    char path[300];
    bad_disk_path(path, "data");
    assert_int_equal(truncate(path, 8 * BLOCK + 100), 0);
    assert_null(disk_get(d, 1));
    assert_int_equal(disk_figures(d).damaged, 1);
    bad_disk_check(d, 0, EIGHT); /* it is not left alone */
    larder__disk_close(&d);
}

static void test_torn_head(void **state) {
    (void)state;
    larder__disk *d = bad_disk_open(4 * MIB);
    bad_disk_put(d, 0, 5000);
    larder__disk_close(&d);
    char path[300];
    bad_disk_path(path, "head");
    int file = open(path, O_RDWR);
    assert_int_equal(pwrite(file, "xxxx", 4, 40), 4);
    close(file);
    larder__disk_figures f;
    assert_int_equal(larder__disk_list(bad_disk.folder, &f, NULL, NULL), LARDER_E_STATE);
    bad_disk_refuses(0, LARDER_E_STATE, "damaged");
    d = bad_disk_open(4 * MIB);
    bad_disk_check(d, 0, 5000);
    larder__disk_close(&d);
    assert_int_equal(truncate(path, 100), 0);
    d = bad_disk_open(4 * MIB);
    bad_disk_check(d, 0, 5000);
    larder__disk_close(&d);
}

/* A process that is stopped while it gives out blocks: nobody waits for it for long. */
static void test_stuck_lock(void **state) {
    (void)state;
    larder__disk *d = bad_disk_open(4 * MIB);
    bad_disk_put(d, 0, 5000);
    larder__disk_folder *f;
    check_ok(larder__disk_folder_open(&f, bad_disk.folder, &(larder__disk_ask){0}));
    check_ok(larder__disk_giving(f, 1));
    bad_disk_put(d, 1, 5000);
    assert_false(larder__disk_has(d, 1));
    bad_disk_noted(d, "does not go on");
    bad_disk_check(d, 0, 5000);
    larder__disk_given(f);
    larder__disk_folder_close(&f);
    bad_disk.ahead = bad_disk.ahead + 31;
    bad_disk_put(d, 1, 5000);
    bad_disk_check(d, 1, 5000);
    larder__disk_close(&d);
}

/* Words of an index that are rotten name nothing that is moved, or that others make room for, when
 * the folder gets smaller. */
static void test_rotten_words(void **state) {
    (void)state;
    enum { FIRST_ROTTEN = 5 };
    larder__disk *d = bad_disk_open(MIB);
    for (uint64_t k = 0; k < FIRST_ROTTEN; k++) {
        bad_disk_put(d, k, EIGHT);
        larder__disk_spare(d, k);
    }
    larder__disk_folder *f;
    check_ok(larder__disk_folder_open(&f, bad_disk.folder, &(larder__disk_ask){0}));
    uint64_t id = larder__disk_id(1, 1000), far_away = (uint64_t)1 << 33;
    larder__disk_index *x = larder__disk_folder_find(f, id);
    atomic_store(&x->words[FIRST_ROTTEN], far_away); /* of no block */
    atomic_store(&x->words[FIRST_ROTTEN + 1], larder__disk_word(id, FIRST_ROTTEN + 1, far_away, 170,
                                                                atomic_load(&f->head->era)));
    larder__disk_folder_close(&f);
    larder__disk_conf conf =
        disk_conf(bad_disk.folder, MIB, 2, 1000); /* its index takes room of the values */
    larder__disk *other = bad_disk_open_with(&conf);
    for (uint64_t k = 0; k < FIRST_ROTTEN; k++)
        bad_disk_check(d, k, EIGHT);
    assert_false(larder__disk_has(d, FIRST_ROTTEN));
    assert_false(larder__disk_has(d, FIRST_ROTTEN + 1));
    larder__disk_close(&other);
    larder__disk_close(&d);
}

/* Blocks that could not be given back are found by the next one, whoever left last. */
static void test_lost_blocks(void **state) {
    (void)state;
    larder__disk *d = bad_disk_open(4 * MIB), *other = bad_disk_open(4 * MIB);
    bad_disk_put(d, 0, EIGHT);
    bad_disk_put(d, 1, EIGHT);
    char path[300], spoilt[BLOCK] = {0};
    bad_disk_path(path, "data");
    int file = open(path, O_RDWR);
    assert_int_equal(pwrite(file, spoilt, BLOCK, 0), BLOCK);
    close(file);
    larder__disk_folder *f;
    check_ok(larder__disk_folder_open(&f, bad_disk.folder, &(larder__disk_ask){0}));
    check_ok(larder__disk_giving(f, 1));
    assert_null(disk_get(d, 0));
    assert_true(larder__disk_settle(d, PATIENCE));
    larder__disk_given(f);
    larder__disk_folder_close(&f);
    larder__disk_close(&d);
    assert_int_equal(disk_figures(other).used_bytes, 16 * BLOCK);
    larder__disk_close(&other);
    d = bad_disk_open(4 * MIB);
    assert_int_equal(disk_figures(d).used_bytes, 8 * BLOCK);
    bad_disk_check(d, 1, EIGHT);
    larder__disk_close(&d);
}

int main(void) {
    const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, bad_disk_setup, bad_disk_teardown)
        T(test_no_room),          T(test_no_room_for_bits),
        T(test_unreadable),       T(test_both_make_it),
        T(test_other_machine),    T(test_left_behind),
        T(test_removed),          T(test_shortened_data),
        T(test_shortened_tables), T(test_shortened_inside_a_sector),
        T(test_cut_while_giving), T(test_cut_while_checked),
        T(test_torn_head),        T(test_stuck_lock),
        T(test_rotten_words),     T(test_lost_blocks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
