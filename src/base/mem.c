#include "base/mem.h"

#include "base/err.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static _Atomic int64_t countdown; /* 0: off */
static _Atomic int fail_all, failed;

void larder__mem_fail_at(uint64_t n, int all) {
    atomic_store(&failed, 0);
    atomic_store(&fail_all, all);
    atomic_store(&countdown, (int64_t)n);
}

int larder__mem_failed(void) { return atomic_load(&failed); }

static int deny(size_t bytes) {
    if (atomic_load_explicit(&countdown, memory_order_relaxed) == 0)
        return 0;
    int64_t left = atomic_fetch_sub(&countdown, 1);
    if (left == 1 && !atomic_load(&fail_all))
        atomic_store(&countdown, 0);
    else if (left <= 1)
        atomic_store(&countdown, 1);
    if (left > 1)
        return 0;
    atomic_store(&failed, 1);
    larder__fail(LARDER_E_NOMEM, "out of memory asking for %zu bytes", bytes);
    return 1;
}

static void *checked(void *p, size_t bytes) {
    if (!p && bytes)
        larder__fail(LARDER_E_NOMEM, "out of memory asking for %zu bytes", bytes);
    return p;
}

void *larder__malloc(size_t bytes) {
    return deny(bytes) ? NULL : checked(malloc(bytes ? bytes : 1), bytes);
}

void *larder__calloc(size_t count, size_t bytes) {
    return deny(count * bytes)
               ? NULL
               : checked(calloc(count ? count : 1, bytes ? bytes : 1), count * bytes);
}

void *larder__realloc(void *old, size_t bytes) {
    return deny(bytes) ? NULL : checked(realloc(old, bytes ? bytes : 1), bytes);
}

void *larder__memalign(size_t align, size_t bytes) {
    if (deny(bytes) || bytes > SIZE_MAX - align)
        return NULL;
    return checked(aligned_alloc(align, (bytes + align - 1) / align * align), bytes);
}

char *larder__strdup(const char *s) {
    size_t n = strlen(s) + 1;
    char *copy = larder__malloc(n);
    if (copy)
        memcpy(copy, s, n);
    return copy;
}

void larder__free(void *p) { free(p); }
void larder_free(void *p) { free(p); }
