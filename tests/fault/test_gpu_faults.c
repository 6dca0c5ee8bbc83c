/* GPUs that are not there, do not fit or break: each has its sentence. The driver and the compiler
 * are stand-ins (tests/support/fake), opened anew in a process each. */
#include "check.h"

#include "gpu/code.h"
#include "gpu/gpu.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[256];

static void fakes(const char *libraries, const char *fault) {
    char path[1024];
    const char *build = getenv("LARDER_BUILD");
    snprintf(path, sizeof path, "%s/fake/cuda:%s/fake/%s", build ? build : "build/test",
             build ? build : "build/test", libraries);
    setenv("LARDER_CUDA_LIBRARIES", path, 1);
    setenv("FAKE_CUDA", fault, 1);
    setenv("LARDER_CACHE_DIR", folder, 1);
}

static void in_process(void (*f)(void)) {
    int status;
    pid_t child = fork();
    if (child == 0) {
        f();
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

/* ---- opening --------------------------------------------------------------------------------- */

static void refused(const char *fault, const char *sentence) {
    larder__gpu *g;
    fakes("nvrtc", fault);
    must(larder__gpu_open(&g, 0) == LARDER_E_UNSUPPORTED);
    must(g == NULL);
    if (!strstr(larder_errmsg(), sentence))
        fprintf(stderr, "%s: %s\n", fault, larder_errmsg());
    must(strstr(larder_errmsg(), sentence));
}
static void no_device(void) { refused("none", "sees no GPU"); }
static void mismatch(void) { refused("mismatch", "different versions"); }
static void stub(void) { refused("stub", "stub"); }

static void opening(void **state) {
    (void)state;
    in_process(no_device);
    in_process(mismatch);
    in_process(stub);
}

static void no_such_device_here(void) {
    larder__gpu *g;
    fakes("nvrtc", "");
    must(larder__gpu_open(&g, 7) == LARDER_E_ARGS);
    must(strstr(larder_errmsg(), "GPU 7: there is 1"));
    must(larder__gpu_open(&g, -1) == LARDER_E_ARGS);
    larder__gpu_close(&g);
}

static void no_such_device(void **state) {
    (void)state;
    in_process(no_such_device_here);
}

/* Nothing but a name that is not there: no driver is opened, and the sentence says where to look.
 */
static void no_library(void **state) {
    static const char *const names[] = {"libno-such-thing.so.1", NULL};
    void *lib;
    (void)state;
    assert_int_equal(larder__gpu_library(&lib, names, "a thing", "nowhere"), LARDER_E_UNSUPPORTED);
    assert_non_null(strstr(larder_errmsg(), "a thing (libno-such-thing.so.1) cannot be opened"));
    assert_non_null(strstr(larder_errmsg(), "LARDER_CUDA_LIBRARIES"));
}

/* ---- memory, work ---------------------------------------------------------------------------- */

static void too_little_memory_here(void) {
    larder__gpu *g;
    larder__gpu_ptr at;
    fakes("nvrtc", "full");
    setenv("FAKE_CUDA_BYTES", "10485760", 1);
    must(larder__gpu_open(&g, 0) == 0);
    must(larder__gpu_alloc(g, &at, 11 << 20, "rows") == LARDER_E_NOMEM);
    must(at == 0);
    must(strstr(larder_errmsg(), "10 MiB free of 1024 MiB, and 12 MiB are wanted for rows"));
    must(larder__gpu_alloc(g, &at, 9 << 20, "rows") == 0);
    larder__gpu_free(g, at);
    larder__gpu_free(g, 0);
    larder__gpu_close(&g);
}

static void lost_here(void) {
    larder__gpu *g;
    larder__gpu_stream s;
    larder__gpu_event e;
    fakes("nvrtc", "lost");
    must(larder__gpu_open(&g, 0) == 0);
    must(larder__gpu_stream_open(g, &s, false) == 0);
    must(larder__gpu_event_open(g, &e) == 0);
    must(larder__gpu_launch(g, NULL, (larder__gpu_shape){{1}, {32}, 0}, s, NULL) == LARDER_E_IO);
    must(strstr(larder_errmsg(), "cannot run larder's code: unspecified launch failure"));
    must(larder__gpu_wait(g, s) == LARDER_E_IO);
    must(larder__gpu_event_wait(g, e) == LARDER_E_IO);
    larder__gpu_event_close(g, &e);
    larder__gpu_stream_close(g, &s);
    larder__gpu_close(&g);
}

static void work(void **state) {
    (void)state;
    in_process(too_little_memory_here);
    in_process(lost_here);
}

/* Bytes go there and come back, streams and events open and close. */
static void round_trip_here(void) {
    larder__gpu *g;
    larder__gpu_ptr a, b;
    larder__gpu_stream s;
    larder__gpu_event e;
    char from[5] = "bytes", to[5];
    void *pinned;
    fakes("nvrtc", "");
    must(larder__gpu_open(&g, 0) == 0);
    must(larder__gpu_about_it(g)->major == 9 && larder__gpu_about_it(g)->driver == 12020);
    must(larder__gpu_alloc(g, &a, 5, "a") == 0 && larder__gpu_alloc(g, &b, 5, "b") == 0);
    must(larder__gpu_stream_open(g, &s, true) == 0 && larder__gpu_event_open(g, &e) == 0);
    must(larder__gpu_put(g, a, from, 5, s) == 0 && larder__gpu_put(g, b, from, 5, s) == 0);
    must(larder__gpu_zero(g, a, 5, s) == 0 && larder__gpu_get(g, to, b, 5, s) == 0);
    must(larder__gpu_event_record(g, e, s) == 0 && larder__gpu_event_wait(g, e) == 0);
    must(memcmp(from, to, 5) == 0);
    must(larder__gpu_get(g, to, a, 5, s) == 0 && memcmp(to, "\0\0\0\0\0", 5) == 0);
    must(larder__gpu_pinned(g, &pinned, 100) == 0);
    larder__gpu_unpin(g, pinned);
    larder__gpu_free(g, a);
    larder__gpu_free(g, b);
    larder__gpu_event_close(g, &e);
    larder__gpu_stream_close(g, &s);
    larder__gpu_close(&g);
    larder__gpu_close(&g);
}

static void round_trip(void **state) {
    (void)state;
    in_process(round_trip_here);
}

/* ---- code ------------------------------------------------------------------------------------ */

static void no_such_file_here(void) {
    larder__gpu *g;
    larder__gpu_module m;
    fakes("nvrtc", "");
    must(larder__gpu_open(&g, 0) == 0);
    must(larder__gpu_module_get(g, &m, "nothing.cu", NULL) == LARDER_E_NOTFOUND);
    larder__gpu_close(&g);
}

static void code(void **state) {
    (void)state;
    in_process(no_such_file_here);
}

/* ---- code that was kept ---------------------------------------------------------------------- */

static void get_first_file(int wanted) {
    larder__gpu *g;
    larder__gpu_module m;
    fakes("nvrtc", "");
    must(larder__gpu_open(&g, 0) == 0);
    must(larder__gpu_module_get(g, &m, larder__code_files[0].name, NULL) == wanted);
    larder__gpu_close(&g);
}
static void compiled(void) { get_first_file(0); }
/* With a compiler that refuses, code comes from the folder or not at all. */
static void found(void) {
    setenv("FAKE_NVRTC", "refuse", 1);
    get_first_file(0);
}
static void not_believed(void) {
    setenv("FAKE_NVRTC", "refuse", 1);
    get_first_file(LARDER_E_UNSUPPORTED);
    must(strstr(larder_errmsg(), "refuses"));
}

/* "code" and its hash, of which one byte may be another; by whom, and who may write to it. */
static void plant(const char *path, int byte, uid_t owner, mode_t mode) {
    unsigned char bytes[100];
    FILE *f = fopen(path, "r+");
    assert_non_null(f);
    size_t n = fread(bytes, 1, sizeof bytes, f);
    assert_int_equal(n, 4 + 32);
    if (byte >= 0) {
        bytes[byte] ^= 1;
        rewind(f);
        assert_int_equal(fwrite(bytes, 1, n, f), n);
    }
    assert_int_equal(fclose(f), 0);
    assert_int_equal(chown(path, owner, (gid_t)-1), 0);
    assert_int_equal(chmod(path, mode), 0);
}

static void kept_file(char path[300]) {
    char pattern[300];
    glob_t g;
    in_process(compiled);
    snprintf(pattern, sizeof pattern, "%s/cuda-*.cubin", folder);
    assert_int_equal(glob(pattern, 0, NULL, &g), 0);
    assert_int_equal(g.gl_pathc, 1);
    snprintf(path, 300, "%s", g.gl_pathv[0]);
    globfree(&g);
    in_process(found);
}

static void kept_code(void **state) {
    char file[300];
    (void)state;
    uid_t me = geteuid();
    kept_file(file);
    for (int byte = 0; byte < 36; byte += 7) { /* of the code and of its hash */
        plant(file, byte, me, 0644);
        in_process(not_believed);
        plant(file, byte, me, 0644);
        in_process(found);
    }
    plant(file, -1, me, 0666);
    in_process(not_believed);
    plant(file, -1, me, 0644);
    assert_int_equal(chmod(folder, 0777), 0); /* whoever may write there could have put it there */
    in_process(not_believed);
    assert_int_equal(chmod(folder, 0700), 0);
    in_process(found);
}

/* In a file of another user's, and in another user's folder. */
static void code_of_others(void **state) {
    enum { NOBODY = 65534 };
    char file[300];
    (void)state;
    root_or_skip();
    kept_file(file);
    plant(file, -1, NOBODY, 0644);
    in_process(not_believed);
    plant(file, -1, 0, 0644);
    in_process(found);
    assert_int_equal(chown(folder, NOBODY, (gid_t)-1), 0);
    in_process(not_believed);
    assert_int_equal(chown(folder, 0, (gid_t)-1), 0);
    in_process(found);
}

static int set_up(void **state) {
    (void)state;
    check_folder(folder);
    return 0;
}
static int tear_down(void **state) {
    (void)state;
    check_folder_remove(folder);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(opening),   cmocka_unit_test(no_such_device), cmocka_unit_test(no_library),
        cmocka_unit_test(work),      cmocka_unit_test(round_trip),     cmocka_unit_test(code),
        cmocka_unit_test(kept_code), cmocka_unit_test(code_of_others),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
