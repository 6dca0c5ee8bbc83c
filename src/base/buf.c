#include "base/buf.h"

#include "base/err.h"
#include "base/mem.h"

enum { DATA_AT = sizeof(larder_buf) };
static const uint32_t OUTSIDE = 1u << 31;

typedef struct outside { /* what stands behind the head where the data would */
    larder_buf head;
    void *data;
    larder__buf_done_fn done;
    void *arg;
    uint64_t tag;
} outside;
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
    if (!b)
        return;
    uint32_t refs = atomic_fetch_sub_explicit(&b->refs, 1, memory_order_acq_rel);
    if ((refs & ~OUTSIDE) != 1)
        return;
    if (b->account) {
        atomic_fetch_sub_explicit(&b->account->bytes, b->size, memory_order_relaxed);
        larder__account_unref(&b->account);
    }
    if (refs & OUTSIDE) {
        const outside *o = (const outside *)b;
        o->done(o->arg, o->tag);
    }
    larder__free(b);
}

larder_buf *larder__buf_outside(void *data, uint32_t size, larder__buf_done_fn done, void *arg,
                                uint64_t tag) {
    outside *o = larder__malloc(sizeof *o);
    if (!o)
        return NULL;
    *o = (outside){.head = {.size = size}, .data = data, .done = done, .arg = arg, .tag = tag};
    atomic_init(&o->head.refs, OUTSIDE | 1);
    return &o->head;
}

void *larder__buf_outside_arg(larder_buf *b, larder__buf_done_fn done) {
    bool out = atomic_load_explicit(&b->refs, memory_order_relaxed) & OUTSIDE;
    const outside *o = (const outside *)b;
    return out && o->done == done ? o->arg : NULL;
}

void *larder_buf_data(larder_buf *b) {
    bool out = atomic_load_explicit(&b->refs, memory_order_relaxed) & OUTSIDE;
    return out ? ((outside *)b)->data : (char *)b + DATA_AT;
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
