/* Keeps nothing: the simulator runs the cache's own code and never makes a byte. */
#include "cache/store.h"

static int null_open(void **st, uint64_t slots) {
    (void)slots;
    *st = NULL;
    return 0;
}
static void null_close(void **st) { (void)st; }
static void null_put(void *st, larder_slot s, larder_buf *b, const larder__entry *e) {
    (void)st, (void)s, (void)b, (void)e;
}
static larder_buf *null_get(void *st, larder_slot s) {
    (void)st, (void)s;
    return NULL;
}
static void null_drop(void *st, larder_slot s) { (void)st, (void)s; }

const larder__store larder__store_null = {
    .name = "null",
    .open = null_open,
    .close = null_close,
    .put = null_put,
    .get = null_get,
    .drop = null_drop,
};
