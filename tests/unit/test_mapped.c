/* A mapped file that is made shorter, or cannot be read, reads as zeroes and says so; any other
 * SIGBUS is whoever's it was before. */
#include "check.h"

#include "base/mapped.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 4096, PAGES = 3 };

static int file_of_sevens(void) {
    char name[] = "/tmp/larder-mapped-XXXXXX", bytes[PAGES * PAGE];
    int file = mkstemp(name);
    assert_true(file >= 0);
    unlink(name);
    memset(bytes, 7, sizeof bytes);
    assert_int_equal(write(file, bytes, sizeof bytes), sizeof bytes);
    return file;
}

typedef struct table {
    int file;
    unsigned char *at;
    _Atomic bool lost;
} table;

static void open_table(table *t) {
    void *at;
    t->file = file_of_sevens();
    atomic_init(&t->lost, false);
    assert_int_equal(larder__mapped_open(&at, PAGES * PAGE - 100, PROT_READ | PROT_WRITE,
                                         MAP_SHARED, t->file, &t->lost),
                     0);
    t->at = at;
}

static void close_table(table *t) {
    larder__mapped_close(t->at, PAGES * PAGE - 100);
    close(t->file);
}

static void expect(const table *t, size_t at, unsigned char byte, bool lost) {
    assert_int_equal(*(volatile unsigned char *)&t->at[at], byte);
    assert_int_equal(atomic_load(&t->lost), lost);
}

static void test_cut_off(void **state) {
    (void)state;
    table a, b;
    open_table(&a);
    open_table(&b);
    expect(&a, 0, 7, false);
    assert_int_equal(ftruncate(a.file, PAGE), 0);
    expect(&a, 0, 7, false); /* nothing has been missed yet */
    errno = ENOTTY;
    expect(&a, PAGES * PAGE - 101, 0, true);
    assert_int_equal(errno, ENOTTY);
    expect(&a, 0, 0, true); /* no part of it is kept */
    a.at[5] = 9;            /* this process's own, by now */
    expect(&a, 5, 9, true);
    expect(&b, PAGE, 7, false);
    assert_int_equal(ftruncate(b.file, 0), 0);
    *(volatile unsigned char *)&b.at[PAGE] = 1; /* writing is no other than reading */
    expect(&b, PAGE, 1, true);
    close_table(&a);
    close_table(&b);
}

/* More than one chunk of ranges; the places of closed ones are taken again. */
static void test_many(void **state) {
    (void)state;
    enum { MANY = 350 };
    static table all[MANY];
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < MANY; i++)
            open_table(&all[i]);
        for (int i = 0; i < MANY; i += 7) {
            assert_int_equal(ftruncate(all[i].file, 0), 0);
            expect(&all[i], PAGE, 0, true);
        }
        for (int i = 0; i < MANY; i++) {
            expect(&all[i], PAGE, i % 7 ? 7 : 0, i % 7 == 0);
            close_table(&all[i]);
        }
    }
}

static void test_refused(void **state) {
    (void)state;
    _Atomic bool lost = false;
    void *at = &at;
    assert_int_equal(larder__mapped_open(&at, PAGE, PROT_READ, MAP_SHARED, -1, &lost), EBADF);
    assert_null(at);
    larder__mapped_close(NULL, PAGE);
}

/* ---- SIGBUS of others ------------------------------------------------------------------------ */

static sigjmp_buf back;
static volatile sig_atomic_t seen, seen_code, seen_plain;
static void *volatile seen_at;
static void with_info(int number, siginfo_t *info, void *context) {
    (void)number, (void)context;
    seen++;
    seen_code = info->si_code;
    seen_at = info->si_addr;
    if (info->si_code > 0)
        siglongjmp(back, 1);
}
static void plain(int number) {
    (void)number;
    seen_plain++;
}
static void handle(void (*f)(int, siginfo_t *, void *)) {
    struct sigaction how = {.sa_sigaction = f, .sa_flags = SA_SIGINFO};
    assert_int_equal(sigaction(SIGBUS, &how, NULL), 0);
}

/* A mapping that is none of ours, whose file is gone. */
static volatile unsigned char *others(void) {
    int file = file_of_sevens();
    void *at = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, file, 0);
    assert_true(at != MAP_FAILED);
    assert_int_equal(ftruncate(file, 0), 0);
    close(file);
    return at;
}

static void test_handed_on(void **state) {
    (void)state;
    table t;
    volatile unsigned char *at = others();
    handle(with_info);
    seen = 0;
    open_table(&t);
    if (sigsetjmp(back, 1) == 0)
        fail_msg("%d came of nothing", *at);
    assert_int_equal(seen, 1);
    assert_ptr_equal(seen_at, at);
    raise(SIGBUS);
    assert_int_equal(seen, 2);
    assert_int_equal(seen_code, SI_TKILL);
    assert_int_equal(ftruncate(t.file, 0), 0);
    expect(&t, PAGE, 0, true);
    assert_int_equal(seen, 2);
    close_table(&t);
    signal(SIGBUS, plain);
    seen_plain = 0;
    open_table(&t);
    raise(SIGBUS);
    assert_int_equal(seen_plain, 1);
    assert_int_equal(seen, 2);
    close_table(&t);
    munmap((void *)(uintptr_t)at, PAGE);
}

/* One that was set over ours and hands on what it does not know. */
static struct sigaction under;
static void over(int number, siginfo_t *info, void *context) {
    seen++;
    under.sa_sigaction(number, info, context);
}

static void test_no_ring(void **state) {
    (void)state;
    table a, b;
    signal(SIGBUS, plain);
    seen = seen_plain = 0;
    open_table(&a);
    assert_int_equal(sigaction(SIGBUS, NULL, &under), 0);
    assert_true(under.sa_flags & SA_SIGINFO);
    handle(over);
    open_table(&b); /* sets ours over it */
    raise(SIGBUS);
    assert_int_equal(seen, 1);
    assert_int_equal(seen_plain, 1);
    assert_int_equal(ftruncate(b.file, 0), 0);
    expect(&b, PAGE, 0, true);
    assert_int_equal(seen, 1);
    handle(over); /* and it is itself asked first */
    assert_int_equal(ftruncate(a.file, 0), 0);
    expect(&a, PAGE, 0, true);
    assert_int_equal(seen, 2);
    assert_int_equal(seen_plain, 1);
    close_table(&a);
    close_table(&b);
}

/* Without a handler before, the process ends as it would have. */
static int ends(void (*handler)(int), bool fault) {
    const struct rlimit no_core = {0};
    int status;
    volatile unsigned char *at = others();
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        table t;
        setrlimit(RLIMIT_CORE, &no_core);
        signal(SIGBUS, handler);
        open_table(&t);
        if (fault)
            _exit(*at ? 1 : 2);
        raise(SIGBUS);
        _exit(3);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    munmap((void *)(uintptr_t)at, PAGE);
    return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

static void test_ends(void **state) {
    (void)state;
    assert_int_equal(ends(SIG_DFL, true), -SIGBUS);
    assert_int_equal(ends(SIG_DFL, false), -SIGBUS);
    assert_int_equal(ends(SIG_IGN, true), -SIGBUS); /* the system lets nobody ignore a fault */
    assert_int_equal(ends(SIG_IGN, false), 3);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ends),    cmocka_unit_test(test_cut_off),
        cmocka_unit_test(test_many),    cmocka_unit_test(test_refused),
        cmocka_unit_test(test_no_ring), cmocka_unit_test(test_handed_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
