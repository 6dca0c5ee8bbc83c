#include "signal/graph_kernel.h"

#include <string.h>

static const larder__graph_kernel *const kernels[] = {
#if defined(__x86_64__)
    &larder__graph_kernel_vnni,
    &larder__graph_kernel_avx2,
#endif
    &larder__graph_kernel_plain,
};

static int can_run(const larder__graph_kernel *k) {
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (k == &larder__graph_kernel_vnni)
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
               __builtin_cpu_supports("avx512vnni");
    if (k == &larder__graph_kernel_avx2)
        return __builtin_cpu_supports("avx2");
#endif
    return k == &larder__graph_kernel_plain;
}

const larder__graph_kernel *larder__graph_kernel_named(const char *name) {
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++)
        if (strcmp(kernels[i]->name, name) == 0)
            return can_run(kernels[i]) ? kernels[i] : NULL;
    return NULL;
}

const larder__graph_kernel *larder__graph_kernel_best(void) {
    const size_t last = sizeof kernels / sizeof *kernels - 1; /* the plain one always can */
    for (size_t i = 0; i < last; i++)
        if (can_run(kernels[i]))
            return kernels[i];
    return kernels[last];
}
