#include "base/buf.h"

#include "base/mem.h"

enum { DATA_AT = 64 };
_Static_assert(sizeof(larder_buf) <= DATA_AT, "the header must leave the data aligned");

larder_buf *larder_buf_new(size_t bytes) {
    if (bytes > SIZE_MAX - 2 * DATA_AT)
        return NULL;
    larder_buf *b = larder__memalign(DATA_AT, bytes + DATA_AT);
    if (!b)
        return NULL;
    atomic_init(&b->refs, 1);
    b->account = NULL;
    b->size = bytes;
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
    if (b->account) {
        atomic_fetch_sub_explicit(&b->account->bytes, b->size, memory_order_relaxed);
        larder__account_unref(&b->account);
    }
    larder__free(b);
}

void *larder_buf_data(larder_buf *b) { return (char *)b + DATA_AT; }
size_t larder_buf_size(const larder_buf *b) { return b->size; }

larder__account *larder__account_new(void) {
    larder__account *a = larder__calloc(1, sizeof *a);
    if (a)
        atomic_init(&a->refs, 1);
    return a;
}

void larder__account_unref(larder__account **pa) {
    larder__account *a = *pa;
    *pa = NULL;
    if (a && atomic_fetch_sub_explicit(&a->refs, 1, memory_order_acq_rel) == 1)
        larder__free(a);
}

void larder__buf_enter(larder_buf *b, larder__account *a) {
    if (b->account)
        return;
    b->account = a;
    atomic_fetch_add_explicit(&a->refs, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&a->bytes, b->size, memory_order_relaxed);
}
