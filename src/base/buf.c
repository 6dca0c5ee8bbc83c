#include "base/buf.h"

#include "base/err.h"
#include "base/mem.h"

#include <assert.h>

enum { DATA_AT = sizeof(larder_buf) };
static const uint32_t OUTSIDE = 1u << 31, LENT = 1u << 30;
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
    assert((atomic_load_explicit(&b->refs, memory_order_relaxed) & ~(OUTSIDE | LENT)) > 0);
    atomic_fetch_add_explicit(&b->refs, 1, memory_order_relaxed);
    return b;
}

void larder_buf_unref(larder_buf **pb) {
    larder_buf *b = *pb;
    *pb = NULL;
    if (!b)
        return;
    uint32_t refs = atomic_fetch_sub_explicit(&b->refs, 1, memory_order_acq_rel);
    assert((refs & ~(OUTSIDE | LENT)) > 0); /* given back once too often */
    if ((refs & ~(OUTSIDE | LENT)) != 1)
        return;
    if (b->account) {
        atomic_fetch_sub_explicit(&b->account->bytes, b->size, memory_order_relaxed);
        larder__account_unref(&b->account);
    }
    if (refs & OUTSIDE) {
        const larder__outside *o = (const larder__outside *)b;
        o->done(o->arg, o->tag); /* a lent head is gone from here on */
    }
    if (!(refs & LENT))
        larder__free(b);
}

static larder_buf *set_outside(larder__outside *o, void *data, uint32_t size,
                               larder__buf_done_fn done, void *arg, uint64_t tag, uint32_t how) {
    *o = (larder__outside){
        .head = {.size = size}, .data = data, .done = done, .arg = arg, .tag = tag};
    atomic_init(&o->head.refs, how | 1);
    return &o->head;
}

larder_buf *larder__buf_outside(void *data, uint32_t size, larder__buf_done_fn done, void *arg,
                                uint64_t tag) {
    larder__outside *o = larder__malloc(sizeof *o);
    return o ? set_outside(o, data, size, done, arg, tag, OUTSIDE) : NULL;
}

larder_buf *larder__buf_outside_at(larder__outside *o, void *data, uint32_t size,
                                   larder__buf_done_fn done, void *arg, uint64_t tag) {
    return set_outside(o, data, size, done, arg, tag, OUTSIDE | LENT);
}

bool larder__buf_is_outside(const larder_buf *b) {
    return atomic_load_explicit(&b->refs, memory_order_relaxed) & OUTSIDE;
}

void *larder__buf_outside_arg(larder_buf *b, larder__buf_done_fn done) {
    bool out = atomic_load_explicit(&b->refs, memory_order_relaxed) & OUTSIDE;
    const larder__outside *o = (const larder__outside *)b;
    return out && o->done == done ? o->arg : NULL;
}

void *larder_buf_data(larder_buf *b) {
    bool out = atomic_load_explicit(&b->refs, memory_order_relaxed) & OUTSIDE;
    return out ? ((larder__outside *)b)->data : (char *)b + DATA_AT;
}
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
