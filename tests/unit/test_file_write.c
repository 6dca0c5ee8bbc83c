/* Files that replace another: whole or not at all, with the rights of the one replaced, and nothing
 * of somebody else's written to on the way. */
#include "base/err.h"
#include "base/file.h"
#include "base/mem.h"
#include "check.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[256], path[300], other[300];

static char spare[320];         /* what changes places with `path` */
static unsigned swaps, call_no; /* before calls whose bit is set, of those about that name */
static bool swapping;

static int set_up(void **st) {
    (void)st;
    check_folder(folder);
    snprintf(path, sizeof path, "%s/out", folder);
    snprintf(other, sizeof other, "%s/other", folder);
    umask(022);
    swapping = false;
    return 0;
}

static int tear_down(void **st) {
    (void)st;
    check_folder_remove(folder);
    return 0;
}

static unsigned mode_of(const char *p) {
    struct stat s;
    assert_int_equal(lstat(p, &s), 0);
    assert_true(S_ISREG(s.st_mode));
    return s.st_mode & 07777;
}

static void holds(const char *p, const char *text) {
    unsigned char *bytes;
    size_t size;
    check_ok(larder__file_read(p, 1 << 20, &bytes, &size));
    assert_string_equal((char *)bytes, text);
    larder__free(bytes);
}

/* Files in the folder; those with a temporary's name into *temps. */
static int files(int *temps) {
    int n = 0;
    DIR *d = opendir(folder);
    *temps = 0;
    for (struct dirent *e; (e = readdir(d));) {
        n += e->d_name[0] != '.' || larder__temp_is(e->d_name);
        *temps += larder__temp_is(e->d_name);
    }
    closedir(d);
    return n;
}

static void only(int n) {
    int temps;
    assert_int_equal(files(&temps), n);
    assert_int_equal(temps, 0);
}

/* ---- names that change meanwhile ------------------------------------------------------------- */

static void swap(void) {
    char aside[320];
    snprintf(aside, sizeof aside, "%s.aside", path);
    assert_int_equal(rename(path, aside), 0);
    assert_int_equal(rename(spare, path), 0);
    assert_int_equal(rename(aside, spare), 0);
}

static void before_call(const char *p) { /* "": of what is held open */
    bool counts = swapping && (*p == 0 || strcmp(larder__name_in(p), "out") == 0);
    if (counts && call_no < 32 && swaps >> call_no++ & 1)
        swap();
}

/* The linker's names for a call as it was, and as it is here. */
#define WRAP(type, name, params, args)                                                             \
    type __real_##name params;                                                                     \
    type __wrap_##name params;                                                                     \
    type __wrap_##name params {                                                                    \
        before_call(p);                                                                            \
        return __real_##name args;                                                                 \
    }
#define WRAP_OPEN(name, params, args)                                                              \
    int __real_##name params;                                                                      \
    int __wrap_##name params;                                                                      \
    int __wrap_##name params {                                                                     \
        mode_t mode = 0;                                                                           \
        if (flags & O_CREAT) {                                                                     \
            va_list rest;                                                                          \
            va_start(rest, flags);                                                                 \
            mode = va_arg(rest, mode_t);                                                           \
            va_end(rest);                                                                          \
        }                                                                                          \
        before_call(p);                                                                            \
        return __real_##name args;                                                                 \
    }
WRAP_OPEN(open, (const char *p, int flags, ...), (p, flags, mode))
WRAP_OPEN(open64, (const char *p, int flags, ...), (p, flags, mode))
WRAP_OPEN(openat, (int at, const char *p, int flags, ...), (at, p, flags, mode))
WRAP_OPEN(openat64, (int at, const char *p, int flags, ...), (at, p, flags, mode))
WRAP(int, stat, (const char *p, struct stat *out), (p, out))
WRAP(int, stat64, (const char *p, struct stat *out), (p, out))
WRAP(int, lstat, (const char *p, struct stat *out), (p, out))
WRAP(int, lstat64, (const char *p, struct stat *out), (p, out))
WRAP(int, fstatat, (int at, const char *p, struct stat *out, int how), (at, p, out, how))
WRAP(int, fstatat64, (int at, const char *p, struct stat *out, int how), (at, p, out, how))
WRAP(ssize_t, readlinkat, (int at, const char *p, char *to, size_t n), (at, p, to, n))
WRAP(int, renameat, (int from, const char *q, int to, const char *p), (from, q, to, p))

/* ---- chance that somebody guessed ------------------------------------------------------------ */

static bool guessed; /* of the next name */

ssize_t __real_getrandom(void *to, size_t n, unsigned flags);
ssize_t __wrap_getrandom(void *to, size_t n, unsigned flags);
ssize_t __wrap_getrandom(void *to, size_t n, unsigned flags) {
    if (!guessed)
        return __real_getrandom(to, n, flags);
    guessed = false;
    memset(to, 0x77, n);
    return (ssize_t)n;
}

/* ---- files and links ------------------------------------------------------------------------- */

static void test_rights(void **st) {
    (void)st;
    check_ok(larder__file_write(path, "new", 3));
    assert_int_equal(mode_of(path), 0644); /* as the umask says */
    static const mode_t modes[] = {0600, 0640, 0400, 0664, 0755};
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(chmod(path, modes[i]), 0);
        check_ok(larder__file_write(path, "again", 5));
        assert_int_equal(mode_of(path), modes[i]);
        holds(path, "again");
    }
    umask(077);
    check_ok(larder__file_write(other, "new", 3));
    assert_int_equal(mode_of(other), 0600);
    only(2);
}

static void test_owner(void **st) {
    (void)st;
    struct stat s;
    root_or_skip();
    check_write(path, "old", 3);
    assert_int_equal(chown(path, 12345, 23456), 0);
    chmod(path, 0660);
    check_ok(larder__file_write(path, "again", 5));
    assert_int_equal(stat(path, &s), 0);
    assert_int_equal(s.st_uid, 12345);
    assert_int_equal(s.st_gid, 23456);
    assert_int_equal(mode_of(path), 0660);
}

/* Not even as a name that was ours once, or as one that a process of ours would take. */
static void test_links(void **st) {
    (void)st;
    char guess[400];
    check_write(other, "precious", 8);
    chmod(other, 0600);
    for (int i = 0; i < 64; i++) {
        snprintf(guess, sizeof guess, "%s.%ld-%d.tmp", path, (long)getpid(), i);
        assert_int_equal(symlink(other, guess), 0);
    }
    check_ok(larder__file_write(path, "mine", 4));
    holds(path, "mine");
    holds(other, "precious");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(symlink(other, path), 0); /* where the file goes itself: the link goes */
    check_ok(larder__file_write(path, "mine", 4));
    holds(path, "mine");
    holds(other, "precious");
    assert_int_equal(mode_of(path), 0600); /* and gives nobody more rights */
}

/* Were one guessed all the same: what lies there is neither followed nor written to. */
static void test_guessed(void **st) {
    (void)st;
    char guess[320];
    snprintf(guess, sizeof guess, "%s/.larder-7777777777777777.tmp", folder);
    check_write(other, "precious", 8);
    for (int link = 0; link < 2; link++) {
        if (link)
            assert_int_equal(symlink(other, guess), 0);
        else
            check_write(guess, "theirs", 6);
        guessed = true;
        check_ok(larder__file_write(path, "mine", 4));
        assert_false(guessed);
        holds(path, "mine");
        holds(guess, link ? "precious" : "theirs");
        assert_int_equal(unlink(guess), 0);
    }
    holds(other, "precious");
    only(2);
}

/* To a device one's own link is meant. */
static void test_links_to_devices(void **st) {
    (void)st;
    struct stat s;
    assert_int_equal(symlink("/dev/null", path), 0);
    check_ok(larder__file_write(path, "mine", 4));
    assert_int_equal(lstat(path, &s), 0);
    assert_true(S_ISLNK(s.st_mode));
}

/* Another's is not followed there either: it might as well be root's disk. */
static void test_anothers_link_to_a_device(void **st) {
    (void)st;
    struct stat s;
    root_or_skip();
    assert_int_equal(symlink("/dev/null", path), 0);
    assert_int_equal(lchown(path, 12345, 12345), 0);
    check_ok(larder__file_write(path, "mine", 4));
    assert_int_equal(lstat(path, &s), 0);
    assert_true(S_ISREG(s.st_mode));
    holds(path, "mine");
}

static void test_names(void **st) {
    (void)st;
    char one[LARDER__TEMP_BYTES], two[LARDER__TEMP_BYTES];
    int at = open(folder, O_RDONLY | O_DIRECTORY);
    int a = larder__temp_open(at, one), b = larder__temp_open(at, two);
    assert_true(a >= 0 && b >= 0);
    assert_string_not_equal(one, two);
    assert_true(larder__temp_is(one) && larder__temp_is(two));
    assert_true(fcntl(a, F_GETFD) & FD_CLOEXEC);
    assert_false(larder__temp_is(".larder-0123.tmp"));
    assert_false(larder__temp_is("larder-0123456789abcdef.tmp"));
    assert_false(larder__temp_is(".larder-0123456789abcdeg.tmp"));
    close(a), close(b), close(at);
    char longest[600] = "";
    size_t n = (size_t)snprintf(longest, sizeof longest, "%s/", folder);
    memset(longest + n, 'x', 255);
    check_ok(larder__file_write(longest, "x", 1));
}

/* A folder that may be entered and written, but not listed. */
static void test_closed_folder(void **st) {
    (void)st;
    if (geteuid() == 0 && chmod(folder, 0777) == 0) {
        pid_t child = fork();
        if (child == 0) {
            chmod(folder, 0333);
            _exit(setuid(12345) != 0 || larder__file_write(path, "x", 1) != 0);
        }
        int status;
        waitpid(child, &status, 0);
        chmod(folder, 0700);
        assert_int_equal(status, 0);
        holds(path, "x");
    } else {
        chmod(folder, 0333);
        int rc = larder__file_write(path, "x", 1);
        chmod(folder, 0700);
        check_ok(rc);
    }
}

/* A full disk, told by a limit on the size of files: what was there stays, and nothing else. */
static void test_full(void **st) {
    (void)st;
    check_write(path, "old", 3);
    int status;
    pid_t child = fork();
    if (child == 0) {
        static char many[1 << 20];
        signal(SIGXFSZ, SIG_IGN);
        setrlimit(RLIMIT_FSIZE, &(struct rlimit){4096, 4096});
        _exit(larder__file_write(path, many, sizeof many) == 0 || !strstr(larder_errmsg(), path));
    }
    waitpid(child, &status, 0);
    assert_int_equal(status, 0);
    holds(path, "old");
    only(1);
    assert_int_equal(larder__file_write("/dev/full", "x", 1), LARDER_E_FULL);
    assert_non_null(strstr(larder_errmsg(), "/dev/full"));
}

static void test_refused(void **st) {
    (void)st;
    assert_int_equal(mkdir(path, 0755), 0);
    assert_true(larder__file_write(path, "x", 1) < 0);
    assert_int_equal(larder__file_write("", "x", 1), LARDER_E_NOTFOUND);
    assert_true(larder__file_write("/tmp/", "x", 1) < 0);
    snprintf(other, sizeof other, "%s/no/such", folder);
    assert_int_equal(larder__file_write(other, "x", 1), LARDER_E_NOTFOUND);
    only(1);
}

/* Killed while it writes: a file that can be told by its name, and the old one. */
static void test_killed(void **st) {
    (void)st;
    check_write(path, "old", 3);
    int ends[2], status, temps;
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        larder__fresh f;
        int bad = larder__fresh_open(&f, path) != 0 || fputs("half", f.to) < 0 || fflush(f.to) != 0;
        bad |= write(ends[1], "x", 1) != 1;
        for (;;)
            pause();
        _exit(bad);
    }
    char x;
    assert_int_equal(read(ends[0], &x, 1), 1);
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    close(ends[0]), close(ends[1]);
    holds(path, "old");
    assert_int_equal(files(&temps), 2);
    assert_int_equal(temps, 1);
}

/* What standard output goes to is opened by the shell, and is no file to replace. */
static void test_stdout(void **st) {
    (void)st;
    struct stat before, after;
    assert_int_equal(lstat("/dev/stdout", &before), 0);
    pid_t child = fork();
    if (child == 0) {
        int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
        _exit(dup2(fd, 1) != 1 || write(1, "one ", 4) != 4 ||
              larder__file_write("/dev/stdout", "two", 3) != 0);
    }
    int status;
    waitpid(child, &status, 0);
    assert_int_equal(status, 0);
    holds(path, "one two");
    assert_int_equal(lstat("/dev/stdout", &after), 0);
    assert_int_equal(before.st_ino, after.st_ino);
}

/* Where that is closed nothing takes its place. By a link of our own: root's would be gone for all.
 */
static void test_closed_stdout(void **st) {
    (void)st;
    struct stat after;
    assert_int_equal(symlink("/proc/self/fd/1", path), 0);
    pid_t child = fork();
    if (child == 0) {
        close(1);
        _exit(larder__file_write(path, "two", 3) == 0 ||
              !strstr(larder_errmsg(), "cannot be written"));
    }
    int status;
    waitpid(child, &status, 0);
    assert_int_equal(status, 0);
    assert_int_equal(lstat(path, &after), 0);
    assert_true(S_ISLNK(after.st_mode));
}

static void test_streams(void **st) {
    (void)st;
    int fd;
    check_ok(larder__stream_open(&fd, path, O_WRONLY | O_TRUNC));
    assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    close(fd);
    assert_int_equal(mode_of(path), 0644);
    chmod(path, 0600);
    check_ok(larder__stream_open(&fd, path, O_WRONLY | O_TRUNC));
    close(fd);
    assert_int_equal(mode_of(path), 0600);
    check_write(other, "precious", 8);
    unlink(path);
    assert_int_equal(symlink(other, path), 0);
    check_ok(larder__stream_open(&fd, path, O_WRONLY)); /* one's own link is meant */
    close(fd);
}

static void test_anothers_link_to_a_stream(void **st) {
    (void)st;
    int fd;
    root_or_skip();
    check_write(other, "precious", 8);
    assert_int_equal(symlink(other, path), 0);
    assert_int_equal(lchown(path, 12345, 12345), 0);
    assert_int_equal(larder__stream_open(&fd, path, O_WRONLY | O_TRUNC), LARDER_E_ARGS);
    assert_non_null(strstr(larder_errmsg(), "link of another user"));
    holds(other, "precious");
}

/* One's own links are followed as far as they lead, from the folder that each lies in; another's is
 * not, behind one's own either. */
static void test_chains(void **st) {
    (void)st;
    int fd;
    char sub[300], in_sub[320], text[8] = "";
    struct stat s;
    snprintf(sub, sizeof sub, "%s/sub", folder);
    snprintf(in_sub, sizeof in_sub, "%s/link", sub);
    assert_int_equal(mkdir(sub, 0755), 0);
    assert_int_equal(symlink("sub/link", path), 0);
    assert_int_equal(symlink("../other", in_sub), 0);
    check_ok(larder__stream_open(&fd, path, O_WRONLY)); /* and made, where they lead to nothing */
    assert_int_equal(write(fd, "mine", 4), 4);
    close(fd);
    holds(other, "mine");
    assert_int_equal(unlink(in_sub), 0);
    assert_int_equal(symlink("../out", in_sub), 0); /* round and round */
    assert_true(larder__stream_open(&fd, path, O_WRONLY) < 0);
    assert_non_null(strstr(larder_errmsg(), strerror(ELOOP)));
    assert_int_equal(unlink(in_sub), 0);
    assert_int_equal(symlink("../no/such", in_sub), 0);
    assert_int_equal(larder__stream_open(&fd, path, O_WRONLY), LARDER_E_NOTFOUND);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(symlink("sub/", path), 0);
    assert_true(larder__stream_open(&fd, path, O_WRONLY) < 0);
    assert_true(larder__stream_open(&fd, "", O_WRONLY) < 0);
    int ends[2]; /* what a shell gives for >(a command) */
    assert_int_equal(pipe(ends), 0);
    snprintf(in_sub, sizeof in_sub, "/dev/fd/%d", ends[1]);
    check_ok(larder__stream_open(&fd, in_sub, O_WRONLY | O_TRUNC));
    assert_int_equal(write(fd, "a", 1), 1);
    close(fd);
    check_ok(larder__file_write(in_sub, "b", 1));
    assert_int_equal(unlink(path), 0);
    assert_int_equal(symlink(in_sub, path), 0);
    check_ok(larder__file_write(path, "c", 1));
    assert_int_equal(read(ends[0], text, sizeof text), 3);
    assert_string_equal(text, "abc");
    close(ends[0]), close(ends[1]);
    snprintf(in_sub, sizeof in_sub, "%s/link", sub);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(unlink(in_sub), 0);
    assert_int_equal(symlink("sub/link", path), 0);
    assert_int_equal(symlink("../other", in_sub), 0);
    if (lchown(in_sub, 12345, 12345) != 0)
        skip();
    assert_int_equal(larder__stream_open(&fd, path, O_WRONLY | O_TRUNC), LARDER_E_ARGS);
    assert_non_null(strstr(larder_errmsg(), "leads to a link of another user (12345)"));
    assert_int_equal(unlink(in_sub), 0);
    assert_int_equal(symlink("/dev/null", in_sub), 0);
    assert_int_equal(lchown(in_sub, 12345, 12345), 0);
    check_ok(larder__file_write(path, "new", 3));
    assert_int_equal(lstat(in_sub, &s), 0);
    assert_true(S_ISLNK(s.st_mode));
    holds(path, "new");
    holds(other, "mine");
}

/* That a look fails makes no file of what is no file: one's own link to a device stays. */
static void test_no_descriptors(void **st) {
    (void)st;
    int status;
    assert_int_equal(symlink("/dev/null", path), 0);
    for (rlim_t room = 0; room < 8; room++) {
        pid_t child = fork();
        if (child == 0) {
            struct stat s;
            int first = open("/", O_RDONLY);
            for (int fd = first; fd < 1024; fd++)
                close(fd);
            setrlimit(RLIMIT_NOFILE, &(struct rlimit){(rlim_t)first + room, 1024});
            int rc = larder__file_write(path, "x", 1);
            _exit(lstat(path, &s) != 0 || !S_ISLNK(s.st_mode) || (room == 7 && rc != 0));
        }
        waitpid(child, &status, 0);
        assert_int_equal(status, 0);
    }
}

typedef enum what { FILE_OF_OURS, LINK_OF_OURS, LINK_TO_DEVICE, WHATS } what;

/* A stranger's link to `other` lies at `path`, and what is ours beside it; or the other way round.
 * `via` is a link of ours that leads there. */
static void lay_out(const char *via, what ours, bool swapped) {
    char mine[320];
    snprintf(mine, sizeof mine, "%s.mine", path);
    snprintf(spare, sizeof spare, "%s.spare", path);
    unlink(path), unlink(spare), unlink(via);
    check_write(mine, "", 0);
    if (ours == FILE_OF_OURS)
        check_write(spare, "", 0);
    else
        assert_int_equal(symlink(ours == LINK_OF_OURS ? mine : "/dev/null", spare), 0);
    assert_int_equal(symlink(other, path), 0);
    assert_int_equal(lchown(path, 12345, 12345), 0);
    assert_int_equal(symlink(path, via), 0);
    if (swapped)
        swap();
    swapping = true;
    call_no = 0;
}

static void not_other(const char *by, int fd) {
    struct stat s, o;
    swapping = false;
    assert_int_equal(stat(other, &o), 0);
    if (o.st_size != 8 || (fstat(fd, &s) == 0 && s.st_dev == o.st_dev && s.st_ino == o.st_ino))
        fail_msg("%s: through a stranger's link, swapped before calls %#x", by, swaps);
}

/* A folder where another user may change names, between any two calls of ours: before each of the
 * first calls the stranger's link is there, or what is ours, in all ways there are. */
static void test_swapped(void **st) {
    (void)st;
    enum { CALLS = 7 }; /* more than two looks and openings */
    char via[320];
    snprintf(via, sizeof via, "%s.via", path);
    check_write(other, "precious", 8);
    assert_int_equal(symlink(other, path), 0);
    if (lchown(path, 12345, 12345) != 0)
        skip();
    for (unsigned way = 0; way < 4 * WHATS << CALLS; way++) {
        larder__fresh f;
        int fd;
        what ours = (what)(way >> CALLS >> 2);
        bool swapped = way >> CALLS & 1;
        const char *asked = way >> CALLS & 2 ? via : path;
        swaps = way & ((1U << CALLS) - 1);
        lay_out(via, ours, swapped);
        larder__stream_open(&fd, asked, O_WRONLY | O_TRUNC);
        not_other("a file that grows", fd);
        close(fd);
        lay_out(via, ours, swapped);
        if (larder__fresh_open(&f, asked) == 0) {
            f.brief = true;
            not_other("a file in place of another", fileno(f.to));
            swapping = true;
            larder__fresh_close(&f, 0);
        }
        not_other("a file in place of another", -1);
    }
}

int main(void) {
#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        T(test_rights),
        T(test_owner),
        T(test_links),
        T(test_guessed),
        T(test_links_to_devices),
        T(test_anothers_link_to_a_device),
        T(test_names),
        T(test_closed_folder),
        T(test_full),
        T(test_refused),
        T(test_killed),
        T(test_stdout),
        T(test_closed_stdout),
        T(test_streams),
        T(test_anothers_link_to_a_stream),
        T(test_chains),
        T(test_no_descriptors),
        T(test_swapped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
