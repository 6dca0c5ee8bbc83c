#include "source/names.h"

#include "base/grow.h"

#include <string.h>

enum { BLOCK = LARDER__NAMES_BLOCK };

int larder__names_add(larder__names *n, const char *text, size_t len) {
    int rc = larder__grow(&n->bytes, &n->cap, n->size + len + 1, 1);
    if (rc == 0 && n->count % BLOCK == 0) {
        rc = larder__grow(&n->starts, &n->starts_cap, n->count / BLOCK + 1, sizeof *n->starts);
        if (rc == 0)
            n->starts[n->count / BLOCK] = n->size;
    }
    if (rc < 0)
        return rc;
    memcpy(n->bytes + n->size, text, len);
    n->bytes[n->size + len] = 0;
    n->size += len + 1;
    n->count++;
    return 0;
}

const char *larder__names_get(const larder__names *n, uint64_t i) {
    const char *at = n->bytes + n->starts[i / BLOCK];
    for (uint64_t k = i % BLOCK; k > 0; k--)
        at += strlen(at) + 1;
    return at;
}

void larder__names_trim(larder__names *n) {
    if (n->size == 0 || n->size == n->cap)
        return;
    char *less = larder__realloc(n->bytes, n->size);
    if (!less)
        return; /* then it just stays large */
    n->bytes = less;
    n->cap = n->size;
}

void larder__names_free(larder__names *n) {
    larder__free(n->bytes);
    larder__free(n->starts);
    *n = (larder__names){0};
}
