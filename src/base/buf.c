#include "base/buf.h"

#include "base/err.h"
#include "base/mem.h"

enum { DATA_AT = sizeof(larder_buf) };
_Static_assert(DATA_AT % 16 == 0, "the data are aligned as malloc aligns");

larder_buf *larder_buf_new(size_t bytes) {
    if (bytes > UINT32_MAX) {
        larder__fail(LARDER_E_RANGE, "%zu bytes: a buffer has less than 4 GiB", bytes);
        return NULL;
    }
    larder_buf *b = larder__malloc(bytes + DATA_AT);
    if (!b)
        return NULL;
    atomic_init(&b->refs, 1);
    b->account = NULL;
    b->size = (uint32_t)bytes;
    return b;
}

larder_buf *larder_buf_ref(larder_buf *b) {
    atomic_fetch_add_explicit(&b->refs, 1, memory_order_relaxed);
    return b;
}

void larder_buf_unref(larder_buf **pb) {
    larder_buf *b = *pb;
    *pb = NULL;
    if (!b || atomic_fetch_sub_explicit(&b->refs, 1, memory_order_acq_rel) != 1)
        return;
    larder__account *a = b->account;
    if (a)
        atomic_fetch_sub_explicit(&a->bytes, b->size, memory_order_relaxed);
    if (a && a->recycle)
        a->recycle(a, b);
    else
        larder__free(b);
    larder__account_unref(&a);
}

void *larder_buf_data(larder_buf *b) { return (char *)b + DATA_AT; }
size_t larder_buf_size(const larder_buf *b) { return b->size; }

larder__account *larder__account_new(void) {
    larder__account *a = larder__calloc(1, sizeof *a);
    if (a)
        atomic_init(&a->refs, 1);
    return a;
}

larder__account *larder__account_ref(larder__account *a) {
    atomic_fetch_add_explicit(&a->refs, 1, memory_order_relaxed);
    return a;
}

void larder__account_unref(larder__account **pa) {
    larder__account *a = *pa;
    *pa = NULL;
    if (!a || atomic_fetch_sub_explicit(&a->refs, 1, memory_order_acq_rel) != 1)
        return;
    if (a->end)
        a->end(a);
    else
        larder__free(a);
}

void larder__buf_enter(larder_buf *b, larder__account *a) {
    if (b->account)
        return;
    b->account = larder__account_ref(a);
    atomic_fetch_add_explicit(&a->bytes, b->size, memory_order_relaxed);
}
