/* Every file of src/gpu/code compiles, for GPUs of several ages: by CUDA's own compiler where this
 * machine has it (no GPU is needed for that), and what comes out is kept and found again. */
#include "check.h"

#include "base/clones.h"
#include "gpu/code.h"
#include "gpu/gpu.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char folder[256];

static void fakes(const char *further) {
    char path[1024];
    const char *build = getenv("LARDER_BUILD");
    build = build ? build : "build/test";
    snprintf(path, sizeof path, "%s/fake/cuda%s%s%s", build, *further ? ":" : "",
             *further ? build : "", further);
    setenv("LARDER_CUDA_LIBRARIES", path, 1);
    setenv("LARDER_CACHE_DIR", folder, 1);
}

static int kept_files(void) {
    int n = 0;
    DIR *d = opendir(folder);
    for (struct dirent *e; d && (e = readdir(d));)
        n += strncmp(e->d_name, "cuda-", 5) == 0;
    if (d)
        closedir(d);
    return n;
}

static void compile_all(const char *arch) {
    larder__gpu *g;
    larder__gpu_module m, again;
    setenv("FAKE_CUDA_ARCH", arch, 1);
    check_ok(larder__gpu_open(&g, 0));
    for (const larder__carried *f = larder__code_files; f->name; f++) {
        check_ok(larder__gpu_module_get(g, &m, f->name, NULL));
        check_ok(larder__gpu_module_get(g, &again, f->name, NULL));
        assert_ptr_equal(m, again);
    }
    larder__gpu_close(&g);
}

/* Not under a sanitizer, with which that compiler is not built. */
static bool have_compiler(void) {
#if LARDER__SANITIZED
    return false;
#else
    void *lib;
    return larder__gpu_compiler(&lib) == 0;
#endif
}

static void real_compiler(void **state) {
    static const char *const archs[] = {"90", "75", "80"};
    size_t ages = getenv("LARDER_LONG") ? 3 : 1; /* seconds each */
    (void)state;
    fakes("");
    if (!have_compiler()) {
        printf("skipped: no CUDA compiler here (libnvrtc), or a sanitizer\n");
        skip();
    }
    for (size_t i = 0; i < ages; i++)
        compile_all(archs[i]);
    int files = kept_files();
    assert_true(files > 0);
    compile_all("90"); /* found, so nothing is added */
    assert_int_equal(kept_files(), files);
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
    const struct CMUnitTest tests[] = {cmocka_unit_test(real_compiler)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
