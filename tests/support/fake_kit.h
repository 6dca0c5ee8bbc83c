/* A driver whose calls a test has fail, one after the other: tests/support/fake/fake_cuda.c. */
#ifndef LARDER_TESTS_FAKE_KIT_H
#define LARDER_TESTS_FAKE_KIT_H

#include "check.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct fake_cuda {
    _Atomic long *calls, *first_bad, *last_bad;
} fake_cuda;

/* The file of the stand-in for device code, "code_on_cpu.so" or "levels_on_cpu.so"; false: there is
 * none in this build. */
static inline bool fake_cuda_open(fake_cuda *f, const char *code, const char *cache) {
    char path[1024];
    const char *build = getenv("LARDER_BUILD");
    build = build ? build : "build/test";
    snprintf(path, sizeof path, "%s/fake/code/%s", build, code);
    if (access(path, R_OK) != 0)
        return false;
    setenv("FAKE_CUDA_CODE", path, 1);
    setenv("LARDER_CACHE_DIR", cache, 1);
    snprintf(path, sizeof path, "%s/fake/cuda:%s/fake/nvrtc:%s/fake/nvjpeg", build, build, build);
    setenv("LARDER_CUDA_LIBRARIES", path, 1);
    snprintf(path, sizeof path, "%s/fake/cuda/libcuda.so.1", build);
    void *lib = dlopen(path, RTLD_NOW); /* stays open: larder has the same one */
    assert_non_null(lib);
    f->calls = dlsym(lib, "fake_cuda_calls");
    f->first_bad = dlsym(lib, "fake_cuda_first_bad");
    f->last_bad = dlsym(lib, "fake_cuda_last_bad");
    assert_true(f->calls && f->first_bad && f->last_bad);
    return true;
}

/* From now on the n-th call fails, and all that follow if the device is lost. 0: none does. */
static inline void fake_cuda_fail(fake_cuda *f, long n, bool lost) {
    long now = *f->calls;
    *f->first_bad = n ? now + n : 0;
    *f->last_bad = n == 0 ? 0 : lost ? LONG_MAX : now + n;
}

#endif
