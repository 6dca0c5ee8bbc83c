/* Bytes in this process: one pointer a slot. */
#include "base/buf.h"
#include "base/mem.h"
#include "cache/store.h"

static int heap_open(void **st, uint64_t slots) {
    *st = larder__calloc(slots, sizeof(larder_buf *));
    return *st ? 0 : LARDER_E_NOMEM;
}

static void heap_close(void **st) {
    larder__free(*st);
    *st = NULL;
}

static void heap_drop(void *st, larder_slot s) { larder_buf_unref(&((larder_buf **)st)[s]); }

static void heap_put(void *st, larder_slot s, larder_buf *b, const larder__entry *e) {
    (void)e;
    heap_drop(st, s);
    ((larder_buf **)st)[s] = larder_buf_ref(b);
}

static larder_buf *heap_get(void *st, larder_slot s) {
    larder_buf *b = ((larder_buf **)st)[s];
    return b ? larder_buf_ref(b) : NULL;
}

static void heap_prefetch(const void *st, larder_slot s, bool head) {
    larder_buf *const *at = (larder_buf *const *)st + s;
    if (head)
        __builtin_prefetch(*at, 1);
    else
        __builtin_prefetch(at);
}

const larder__store larder__store_heap = {
    .name = "heap",
    .real = true,
    .slot_size = sizeof(larder_buf *),
    .open = heap_open,
    .close = heap_close,
    .put = heap_put,
    .get = heap_get,
    .drop = heap_drop,
    .prefetch = heap_prefetch,
};
