/* A driver without a GPU: memory is this process's. Code that is launched does nothing, or what the
 * shared object FAKE_CUDA_CODE makes of it (code_on_cpu.cpp). FAKE_CUDA says what goes wrong:
 * "none" (no device), "mismatch", "stub", "full" (no memory beyond FAKE_CUDA_BYTES), "old" (takes
 * no code of this compiler), "lost" (launches fail). FAKE_CUDA_ARCH is what it would be: "90", if
 * nothing is said. A test that opens this library can have any call fail: see `fake_cuda_calls`.
 * Signatures are those of src/gpu/gpu_calls.def. */
#include "gpu/gpu.h"
#include "pieces.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define CALL(name, symbol, parameters) int symbol parameters;
#include "gpu/gpu_calls.def"
#undef CALL

enum { OK, NO_MEMORY = 2, STUB = 34, NO_DEVICE = 100, OLD = 222, LOST = 719, MISMATCH = 803 };

static int is(const char *fault) {
    const char *asked = getenv("FAKE_CUDA");
    return asked && strcmp(asked, fault) == 0;
}

static size_t bytes_left(void) {
    const char *n = getenv("FAKE_CUDA_BYTES");
    return n ? (size_t)strtoull(n, NULL, 10) : (size_t)1 << 30;
}

/* Calls so far, and which of them fail: those from first_bad to last_bad. */
_Atomic long fake_cuda_calls, fake_cuda_first_bad, fake_cuda_last_bad;

static int bad(void) {
    long call = atomic_fetch_add(&fake_cuda_calls, 1) + 1;
    return call >= fake_cuda_first_bad && call <= fake_cuda_last_bad;
}
#define MAY_FAIL                                                                                   \
    if (bad())                                                                                     \
    return LOST

int cuInit(unsigned flags) {
    (void)flags;
    return is("none") ? NO_DEVICE : is("mismatch") ? MISMATCH : is("stub") ? STUB : OK;
}
int cuDriverGetVersion(int *out) { return *out = 12020, OK; }
int cuGetErrorString(int error, const char **out) {
    *out = error == NO_MEMORY   ? "out of memory"
           : error == MISMATCH  ? "system has unsupported display driver / cuda driver combination"
           : error == LOST      ? "unspecified launch failure"
           : error == NO_DEVICE ? "no CUDA-capable device is detected"
                                : "an error of the fake driver";
    return OK;
}
int cuDeviceGetCount(int *out) {
    MAY_FAIL;
    return *out = 1, OK;
}
int cuDeviceGet(int *out, int number) {
    MAY_FAIL;
    return *out = number, OK;
}
int cuDeviceGetName(char *out, int cap, int device) {
    MAY_FAIL;
    (void)device;
    strncpy(out, "a GPU that is none", (size_t)cap);
    return OK;
}
int cuDeviceGetAttribute(int *out, int what, int device) {
    MAY_FAIL;
    (void)device;
    const char *arch = getenv("FAKE_CUDA_ARCH");
    int is_a = arch ? atoi(arch) : 90;
    *out = what == 75 ? is_a / 10 : what == 76 ? is_a % 10 : 132;
    return OK;
}
int cuDevicePrimaryCtxRetain(larder__gpu_context *out, int device) {
    MAY_FAIL;
    static char context;
    (void)device;
    memcpy(out, &(char *){&context}, sizeof *out);
    return OK;
}
int cuDevicePrimaryCtxRelease_v2(int device) { return (void)device, OK; }
int cuCtxPushCurrent_v2(larder__gpu_context context) {
    MAY_FAIL;
    return context ? OK : 201;
}
int cuCtxPopCurrent_v2(larder__gpu_context *out) { return *out = NULL, OK; }
int cuMemGetInfo_v2(size_t *out_free, size_t *out_all) {
    MAY_FAIL;
    *out_free = bytes_left();
    *out_all = (size_t)1 << 30;
    return OK;
}
int cuMemAlloc_v2(larder__gpu_ptr *out, size_t n) {
    MAY_FAIL;
    void *at = is("full") && n > bytes_left() ? NULL : take(n);
    *out = (larder__gpu_ptr)(uintptr_t)at;
    return at ? OK : NO_MEMORY;
}
static void *host(larder__gpu_ptr at) {
    void *p;
    memcpy(&p, &at, sizeof p);
    return p;
}
int cuMemFree_v2(larder__gpu_ptr at) { return give(host(at)), bad() ? LOST : OK; }
int cuMemAllocHost_v2(void **out, size_t n) {
    MAY_FAIL;
    return (*out = take(n)) ? OK : NO_MEMORY;
}
int cuMemFreeHost(void *at) { return give(at), bad() ? LOST : OK; }
int cuMemcpyHtoDAsync_v2(larder__gpu_ptr to, const void *from, size_t n, larder__gpu_stream s) {
    MAY_FAIL;
    (void)s;
    return memcpy(host(to), from, n), OK;
}
int cuMemcpyDtoHAsync_v2(void *to, larder__gpu_ptr from, size_t n, larder__gpu_stream s) {
    MAY_FAIL;
    (void)s;
    return memcpy(to, host(from), n), OK;
}
int cuMemsetD8Async(larder__gpu_ptr to, unsigned char value, size_t n, larder__gpu_stream s) {
    MAY_FAIL;
    (void)s;
    return memset(host(to), value, n), OK;
}
int cuCtxGetStreamPriorityRange(int *least, int *most) {
    MAY_FAIL;
    return *least = 0, *most = -5, OK;
}
static void *something(void) { return take(1); }
int cuStreamCreateWithPriority(larder__gpu_stream *out, unsigned flags, int priority) {
    MAY_FAIL;
    (void)flags, (void)priority;
    return (*out = something()) ? OK : NO_MEMORY;
}
int cuStreamDestroy_v2(larder__gpu_stream s) { return give(s), bad() ? LOST : OK; }
int cuStreamSynchronize(larder__gpu_stream s) {
    MAY_FAIL;
    return (void)s, is("lost") ? LOST : OK;
}
int cuEventCreate(larder__gpu_event *out, unsigned flags) {
    MAY_FAIL;
    (void)flags;
    return (*out = something()) ? OK : NO_MEMORY;
}
int cuEventDestroy_v2(larder__gpu_event e) { return give(e), bad() ? LOST : OK; }
int cuEventRecord(larder__gpu_event e, larder__gpu_stream s) {
    MAY_FAIL;
    return (void)e, (void)s, OK;
}
int cuEventSynchronize(larder__gpu_event e) {
    MAY_FAIL;
    return (void)e, is("lost") ? LOST : OK;
}
int cuModuleLoadData(larder__gpu_module *out, const void *image) {
    MAY_FAIL;
    (void)image;
    return is("old") ? OLD : (*out = something()) ? OK : NO_MEMORY;
}
int cuModuleUnload(larder__gpu_module m) { return give(m), bad() ? LOST : OK; }
static void *code_symbol(const char *name) {
    const char *path = getenv("FAKE_CUDA_CODE");
    void *lib = path ? dlopen(path, RTLD_NOW | RTLD_GLOBAL) : NULL;
    return lib ? dlsym(lib, name) : NULL;
}
int cuModuleGetFunction(larder__gpu_function *out, larder__gpu_module m, const char *name) {
    MAY_FAIL;
    static char code;
    const void *(*find)(const char *);
    void *at = code_symbol("fake_code_find");
    (void)m;
    memcpy(&find, &at, sizeof find);
    const void *found = at ? find(name) : &code;
    memcpy(out, &found, sizeof *out);
    return found ? OK : 500;
}
int cuLaunchKernel(larder__gpu_function f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                   unsigned by, unsigned bz, unsigned bytes, larder__gpu_stream s, void **args,
                   void **extra) {
    MAY_FAIL;
    void (*run)(const void *, const unsigned *, const unsigned *, void **);
    static _Atomic(void *) known; /* several threads launch */
    void *at = known;
    if (!at)
        known = at = code_symbol("fake_code_run");
    (void)bytes, (void)s, (void)extra;
    memcpy(&run, &at, sizeof run);
    if (at)
        run(f, (unsigned[]){gx, gy, gz}, (unsigned[]){bx, by, bz}, args);
    return is("lost") ? LOST : OK;
}
