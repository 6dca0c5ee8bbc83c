/* Packages in the scratch folder, through the whole loader: the same batches with and without them,
 * the simulator's books, and nothing left behind. */
#include "loader_kit.h"
#include "look_kit.h"

#include "base/mem.h"
#include "loader/fill/packages.h"
#include "sim/sim.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { N = 600, EPOCHS = 8, SIZE = 192, MANY = 400 };

static char folder[256];

static int set_up(void **state) {
    (void)state;
    unsetenv("LARDER_SCRATCH");
    check_folder(folder);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    check_folder_remove(folder);
    return 0;
}

static uint64_t names_in_folder(void) {
    uint64_t n = 0;
    DIR *d = opendir(folder);
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d));)
        n += e->d_name[0] != '.';
    closedir(d);
    return n;
}

static larder_loader *open_loader(const char *scratch, const char *more, uint32_t threads) {
    char recipe[400];
    snprintf(recipe, sizeof recipe, "icache:package=4KiB,repack=0.1%s%s%s",
             scratch ? ",scratch=" : "", scratch ? scratch : "", more);
    larder_loader_conf c = kit_conf("mem:?n=600&h=8&w=8&c=3", recipe);
    c.cache = "30%";
    c.epochs = EPOCHS;
    c.threads = threads;
    c.lag = 6;
    larder_loader *l = NULL;
    check_ok(larder_loader_open(&l, &c));
    return l;
}

typedef struct books {
    uint64_t background, storage, read, samples, written, refused;
    char why[256];
} books;

static books books_of(larder_loader *l) {
    books b = {0};
    for (uint64_t e = 0; e < EPOCHS; e++) {
        larder_figures f = {.size = sizeof f};
        check_ok(larder_loader_figures(l, e, &f));
        assert_int_equal(f.storage_bytes, (f.misses + f.background_reads) * SIZE);
        b.background += f.background_reads;
        b.storage += f.storage_bytes;
        b.samples += f.scratch_reads;
        b.read += f.scratch_bytes;
        b.written += f.scratch_written;
    }
    b.refused = look_about(l).refused;
    check_ok(larder_loader_says(l, LARDER_SAYS_SCRATCH, 0, b.why, sizeof b.why));
    return b;
}

static size_t run_all(const char *scratch, uint32_t threads, uint64_t digests[MANY], books *b) {
    larder_loader *l = open_loader(scratch, "", threads);
    size_t n = kit_run(l, digests, MANY);
    *b = books_of(l);
    larder_loader_close(&l);
    return n;
}

/* ---- the books ------------------------------------------------------------------------------- */

static void the_simulator_agrees(void **state) {
    (void)state;
    char trace[256], recipe[400];
    static float losses[EPOCHS * N];
    static uint8_t labels[N];
    for (uint64_t i = 0; i < EPOCHS * N; i++)
        losses[i] = kit_loss(i % N, i / N);
    check_folder(trace);
    kit_write_array(trace, "train_loss.npy", "<f4", EPOCHS, N, losses, sizeof losses);
    kit_write_array(trace, "labels.npy", "|u1", N, 1, labels, sizeof labels);
    snprintf(recipe, sizeof recipe, "icache:package=4KiB,repack=0.1,scratch=%s", folder);
    larder__sim_conf sim = {.recipe = recipe,
                            .cache = "30%",
                            .trace = trace,
                            .epochs = EPOCHS,
                            .batch = 16,
                            .seed = 7,
                            .size = SIZE};
    larder__sim_result said;
    check_ok(larder__sim_run(&sim, &said));
    check_folder_remove(trace);
    larder_loader *l = open_loader(folder, "", 3);
    uint64_t digests[MANY];
    kit_run(l, digests, MANY);
    for (uint64_t e = 0; e < EPOCHS; e++) {
        larder_figures f = {.size = sizeof f};
        check_ok(larder_loader_figures(l, e, &f));
        assert_int_equal(f.background_reads, said.epochs[e].background_reads);
        assert_int_equal(f.storage_bytes, said.epochs[e].storage_bytes);
        assert_int_equal(f.scratch_reads, said.epochs[e].scratch_reads);
        assert_int_equal(f.scratch_bytes, said.epochs[e].scratch_bytes);
        assert_int_equal(f.scratch_written, said.epochs[e].scratch_written);
    }
    books b = books_of(l);
    assert_true(b.samples > 50 && b.read >= b.samples * SIZE && b.written > 0);
    assert_int_equal(b.refused, 0);
    assert_int_equal(names_in_folder(), 0);
    larder__sim_free(&said);
    larder_loader_close(&l);
}

static void threads_and_trouble_change_no_batch(void **state) {
    (void)state;
    uint64_t a[MANY], b[MANY];
    char missing[300];
    books good, other;
    snprintf(missing, sizeof missing, "%s/not/there", folder);
    size_t n = run_all(folder, 1, a, &good);
    assert_int_equal(run_all(folder, 4, b, &other), n);
    assert_memory_equal(a, b, n * sizeof *a);
    assert_int_equal(other.read, good.read);
    assert_int_equal(other.written, good.written);
    assert_int_equal(run_all(missing, 2, b, &other), n);
    assert_memory_equal(a, b, n * sizeof *a);
    assert_int_equal(other.read + other.written, 0);
    assert_int_equal(other.background, good.background + good.samples); /* storage gave it all */
    assert_true(other.refused > 0);
    assert_non_null(strstr(other.why, "not/there"));
    assert_non_null(strstr(other.why, "No such file"));
}

static void an_unwritable_folder_is_told(void **state) {
    (void)state;
    if (geteuid() == 0) { /* root may write anywhere: a file is no folder either */
        char path[300];
        snprintf(path, sizeof path, "%s/file", folder);
        check_write(path, "x", 1);
        books b;
        uint64_t a[MANY];
        run_all(path, 2, a, &b);
        assert_true(b.refused > 0 && b.written == 0);
        assert_non_null(strstr(b.why, "Not a directory"));
        unlink(path);
        return;
    }
    check_ok(chmod(folder, 0500));
    books b;
    uint64_t a[MANY];
    run_all(folder, 2, a, &b);
    check_ok(chmod(folder, 0700));
    assert_true(b.refused > 0 && b.written == 0);
    assert_non_null(strstr(b.why, "denied"));
}

static void a_limit_holds(void **state) {
    (void)state;
    larder_loader *l = open_loader(folder, ",scratch_limit=20000", 2);
    uint64_t digests[MANY];
    kit_run(l, digests, MANY);
    books b = books_of(l);
    assert_true(b.written > 20000 && b.refused == 0); /* old ones left for new ones */
    larder_loader_close(&l);
    l = open_loader(folder, ",scratch_limit=1000", 2); /* less than one package */
    kit_run(l, digests, MANY);
    b = books_of(l);
    assert_int_equal(b.written + b.read, 0);
    larder_loader_close(&l);
}

static void the_environment_names_a_folder(void **state) {
    (void)state;
    uint64_t a[MANY], b[MANY];
    books given, found;
    size_t n = run_all(folder, 2, a, &given);
    setenv("LARDER_SCRATCH", folder, 1);
    assert_int_equal(run_all(NULL, 2, b, &found), n);
    assert_memory_equal(a, b, n * sizeof *a);
    assert_int_equal(found.read, given.read);
    static char huge[5000];
    memset(huge, 'x', sizeof huge - 1);
    setenv("LARDER_SCRATCH", huge, 1);
    larder_loader_conf c = kit_conf("mem:?n=600&h=8&w=8&c=3", "icache");
    larder_loader *l = NULL;
    assert_int_equal(larder_loader_open(&l, &c), LARDER_E_ARGS);
    unsetenv("LARDER_SCRATCH");
}

/* ---- going on -------------------------------------------------------------------------------- */

static void resumes_anywhere(void **state) {
    (void)state;
    uint64_t whole[MANY], got[MANY];
    books b;
    size_t count = run_all(folder, 2, whole, &b);
    for (size_t before = 45; before < count; before += 23) {
        larder_loader *l = open_loader(folder, "", 2);
        assert_int_equal(kit_run(l, got, before), before);
        void *bytes;
        size_t size;
        check_ok(larder_loader_save(l, LARDER_STATE, &bytes, &size));
        larder_loader_close(&l);
        l = open_loader(folder, "", 3);
        check_ok(larder_loader_restore(l, LARDER_STATE, bytes, size));
        larder_free(bytes);
        assert_int_equal(kit_run(l, got + before, MANY - before), count - before);
        assert_memory_equal(got, whole, count * sizeof *got);
        assert_int_equal(look_about(l).refused,
                         0); /* what was lost with the process is laid down again */
        larder_loader_close(&l);
    }
}

static void a_state_wants_its_folder(void **state) {
    (void)state;
    uint64_t digests[MANY];
    void *bytes;
    size_t size;
    setenv("LARDER_SCRATCH", folder, 1);
    larder_loader *l = open_loader(NULL, "", 2);
    kit_run(l, digests, 100);
    check_ok(larder_loader_save(l, LARDER_STATE, &bytes, &size));
    larder_loader_close(&l);
    unsetenv("LARDER_SCRATCH");
    l = open_loader(NULL, "", 2);
    assert_int_equal(larder_loader_restore(l, LARDER_STATE, bytes, size), LARDER_E_FORMAT);
    assert_non_null(strstr(larder_errmsg(), "LARDER_SCRATCH"));
    larder_loader_close(&l);
    larder_free(bytes);
}

/* ---- a full disk, a killed process ----------------------------------------------------------- */

/* A limit on file sizes is the disk that fills which a test may have. */
static void a_full_disk_falls_back(void **state) {
    (void)state;
    uint64_t a[MANY], b[MANY];
    books good, full;
    size_t n = run_all(folder, 2, a, &good);
    struct rlimit old, small = {.rlim_cur = 10000};
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    small.rlim_max = old.rlim_max;
    void (*was)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    size_t m = run_all(folder, 2, b, &full);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    signal(SIGXFSZ, was);
    assert_int_equal(m, n);
    assert_memory_equal(a, b, n * sizeof *a);
    assert_true(full.refused > 0 && full.written > 0 && full.written <= 10000);
    assert_non_null(strstr(full.why, "File too large"));
    assert_true(full.storage > good.storage);
    assert_int_equal(names_in_folder(), 0);
}

static void killed_it_leaves_nothing(void **state) {
    (void)state;
    int pipes[2];
    assert_int_equal(pipe(pipes), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        larder_loader *l = open_loader(folder, "", 2);
        uint64_t digests[MANY];
        kit_run(l, digests, 200);
        books b = {0};
        larder_figures f = {.size = sizeof f};
        for (uint64_t e = 0; larder_loader_figures(l, e, &f) == 0; e++)
            b.written += f.scratch_written;
        _exit(write(pipes[1], &b.written, sizeof b.written) == sizeof b.written && pause() ? 0 : 1);
    }
    uint64_t written = 0;
    assert_int_equal(read(pipes[0], &written, sizeof written), sizeof written);
    assert_true(written > 0);
    kill(child, SIGKILL);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    close(pipes[0]);
    close(pipes[1]);
    assert_int_equal(names_in_folder(), 0);
}

/* ---- crates alone ---------------------------------------------------------------------------- */

static larder_buf *text(const char *s) {
    larder_buf *b = larder_buf_new(strlen(s));
    assert_non_null(b);
    memcpy(larder_buf_data(b), s, strlen(s));
    return b;
}

static void packages_come_and_go(void **state) {
    (void)state;
    larder__packages *s = NULL;
    check_ok(larder__packages_open(&s, folder, 0));
    uint64_t ids[3] = {5, 9, 2}, asked[3] = {2, 77, 5};
    larder_buf *in[3] = {text("five"), NULL, text("two")}, *out[3];
    bool writes = false;
    larder__package *p = larder__packages_find(s, 8, &writes);
    assert_true(p && writes);
    assert_int_equal(larder__package_put(s, p, ids, in, 3), 7);
    larder__package *q = larder__packages_find(s, 8, &writes);
    assert_true(q == p && !writes);
    assert_int_equal(larder__package_take(s, q, asked, 3, out), 7);
    assert_null(out[1]);
    assert_memory_equal(larder_buf_data(out[0]), "two", 3);
    assert_memory_equal(larder_buf_data(out[2]), "five", 4);
    larder__packages_drop(s, 8); /* while it is in use */
    larder__package_leave(s, &q);
    larder__package_leave(s, &p);
    p = larder__packages_find(s, 8, &writes);
    assert_true(p && writes); /* gone: it would be laid down anew */
    larder__package_leave(s, &p);
    for (int i = 0; i < 3; i++) {
        larder_buf_unref(&in[i]);
        larder_buf_unref(&out[i]);
    }
    larder__packages_close(&s);
}

static void every_allocation_may_fail(void **state) {
    (void)state;
    bool failed = true;
    for (uint64_t k = 1; failed; k++) {
        larder__packages *s = NULL;
        larder__mem_fail_at(k, 0);
        bool writes;
        uint64_t id = 1;
        int rc = larder__packages_open(&s, folder, 0);
        larder__package *p = rc == 0 ? larder__packages_find(s, 1, &writes) : NULL;
        larder_buf *b = larder_buf_new(4), *out = NULL;
        if (b)
            memcpy(larder_buf_data(b), "abcd", 4);
        if (p && b && larder__package_put(s, p, &id, &b, 1) == 4 &&
            larder__package_take(s, p, &id, 1, &out) == 4 && out)
            assert_memory_equal(larder_buf_data(out), "abcd", 4);
        failed = larder__mem_failed();
        larder__mem_fail_at(0, 0);
        assert_true(failed || out);
        larder_buf_unref(&b);
        larder_buf_unref(&out);
        if (s)
            larder__package_leave(s, &p);
        larder__packages_close(&s);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_simulator_agrees),
        cmocka_unit_test(threads_and_trouble_change_no_batch),
        cmocka_unit_test(an_unwritable_folder_is_told),
        cmocka_unit_test(a_limit_holds),
        cmocka_unit_test(the_environment_names_a_folder),
        cmocka_unit_test(resumes_anywhere),
        cmocka_unit_test(a_state_wants_its_folder),
        cmocka_unit_test(a_full_disk_falls_back),
        cmocka_unit_test(killed_it_leaves_nothing),
        cmocka_unit_test(packages_come_and_go),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
