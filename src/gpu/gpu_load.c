/* CUDA's libraries by name. They are never closed: their threads and memory outlive whoever opened
 * them. */
#include "base/err.h"
#include "gpu/gpu_inside.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Where CUDA and its parts lie on most machines, behind what the system's loader knows. */
static const char *const usual[] = {"/usr/local/cuda/lib64",
                                    "/usr/local/cuda/targets/x86_64-linux/lib",
                                    "/usr/local/cuda/targets/sbsa-linux/lib",
                                    "/usr/local/nvidia/lib64",
                                    "/opt/cuda/lib64",
                                    NULL};

static void *open_in(const char *folder, size_t length, const char *name) {
    char path[4096];
    int n = snprintf(path, sizeof path, "%.*s/%s", (int)length, folder, name);
    return n > 0 && (size_t)n < sizeof path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
}

/* Folders joined by colons; an empty one is none, not the current one. */
static void *open_in_any(const char *folders, const char *name) {
    void *found = NULL;
    while (folders && *folders && !found) {
        size_t length = strcspn(folders, ":");
        found = length && length < 4000 ? open_in(folders, length, name) : NULL;
        folders += length + (folders[length] == ':');
    }
    return found;
}

static void *open_usual(const char *name) {
    void *found = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    for (size_t i = 0; usual[i] && !found; i++)
        found = open_in(usual[i], strlen(usual[i]), name);
    return found;
}

int larder__gpu_library(void **out, const char *const *names, const char *what, const char *from) {
    const char *own = getenv("LARDER_CUDA_LIBRARIES");
    *out = NULL;
    for (size_t i = 0; names[i] && !*out; i++)
        *out = open_in_any(own, names[i]);
    for (size_t i = 0; names[i] && !*out; i++)
        *out = open_usual(names[i]);
    if (*out)
        return 0;
    return larder__fail(LARDER_E_UNSUPPORTED,
                        "%s (%s) cannot be opened; it comes with %s; where it lies elsewhere, "
                        "LARDER_CUDA_LIBRARIES names the folder",
                        what, names[0], from);
}

int larder__gpu_symbol(void *library, const char *name, void *out_function, const char *what) {
    void *at = dlsym(library, name);
    if (!at)
        return larder__fail(LARDER_E_UNSUPPORTED, "%s: it has no function %s; is it too old?", what,
                            name);
    memcpy(out_function, &at, sizeof at); /* as POSIX has it: a pointer to a function fits */
    return 0;
}

/* ---- the driver ------------------------------------------------------------------------------ */

static larder__gpu_calls calls;
static bool ready;

static int find_calls(void) {
    static const char *const names[] = {"libcuda.so.1", NULL};
    void *driver;
    int rc = larder__gpu_library(&driver, names, "NVIDIA's driver", "the GPU's driver");
#define CALL(name, symbol, parameters)                                                             \
    if (rc == 0)                                                                                   \
        rc = larder__gpu_symbol(driver, #symbol, &calls.name, "NVIDIA's driver");
#include "gpu/gpu_calls.def"
#undef CALL
    return rc;
}

static int say_failed(int answer) {
    enum { NO_DEVICE = 100, STUB = 34, MISMATCH = 803, NOT_FOR_THIS = 804 };
    const char *why = NULL;
    calls.error_text(answer, &why);
    if (answer == NO_DEVICE)
        return larder__fail(LARDER_E_UNSUPPORTED,
                            "NVIDIA's driver sees no GPU here (is CUDA_VISIBLE_DEVICES set?)");
    if (answer == STUB)
        return larder__fail(LARDER_E_UNSUPPORTED,
                            "libcuda.so.1 is the CUDA toolkit's stub, not a driver's: the path of "
                            "libraries names the wrong folder");
    return larder__fail(LARDER_E_UNSUPPORTED, "NVIDIA's driver does not start: %s%s",
                        why ? why : "it does not say why",
                        answer == MISMATCH || answer == NOT_FOR_THIS
                            ? " (kernel module and libcuda.so.1 are of different versions: reboot, "
                              "or install them anew)"
                            : "");
}

int larder__gpu_driver(const larder__gpu_calls **out) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&lock);
    int rc = ready ? 0 : find_calls();
    if (rc == 0 && !ready) {
        int answer = calls.init(0);
        rc = answer ? say_failed(answer) : 0;
        ready = rc == 0;
    }
    pthread_mutex_unlock(&lock);
    *out = &calls;
    return rc;
}
