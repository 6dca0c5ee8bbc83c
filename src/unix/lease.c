#include "unix/lease.h"

#include "base/mem.h"

enum { NONE = 0x7fffffff };

int larder__leases_reserve(larder__leases *l, size_t n) {
    if (l->cap - l->count >= n)
        return 0;
    if (n > NONE / 4 - l->cap)
        return LARDER_E_NOMEM;
    uint32_t cap = l->cap * 2 > l->count + (uint32_t)n ? l->cap * 2 : l->count + (uint32_t)n;
    larder__lease *grown = larder__realloc(l->at, cap * sizeof *grown);
    if (!grown)
        return LARDER_E_NOMEM;
    if (l->cap == 0)
        l->unused = NONE;
    for (uint32_t i = cap; i-- > l->cap;) {
        grown[i] = (larder__lease){.next = l->unused};
        l->unused = i;
    }
    l->at = grown;
    l->cap = cap;
    return 0;
}

uint32_t larder__leases_add(larder__leases *l, larder_buf *b, void *making) {
    uint32_t i = l->unused;
    l->unused = l->at[i].next;
    l->at[i] = (larder__lease){.buf = b, .making = making};
    l->count++;
    l->bytes += larder_buf_size(b);
    return i;
}

larder__lease *larder__leases_find(larder__leases *l, uint32_t i) {
    return i < l->cap && l->at[i].buf ? &l->at[i] : NULL;
}

void larder__leases_drop(larder__leases *l, uint32_t i) {
    l->bytes -= larder_buf_size(l->at[i].buf);
    l->count--;
    larder_buf_unref(&l->at[i].buf);
    l->at[i] = (larder__lease){.next = l->unused};
    l->unused = i;
}

void larder__leases_free(larder__leases *l) {
    for (uint32_t i = 0; i < l->cap; i++)
        if (l->at[i].buf)
            larder__leases_drop(l, i);
    larder__free(l->at);
    *l = (larder__leases){0};
}
