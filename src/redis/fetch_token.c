#include "redis/fetch_token.h"

#include "base/buf.h"

static void promise_done(void *arg, uint64_t unused) {
    (void)unused;
    larder__redis_fetch_unref(&(larder__redis_fetch *){arg});
}

larder_buf *larder__fetch_token_new(larder__redis_fetch *e, uint32_t size) {
    larder_buf *out = e ? larder__buf_outside(NULL, size, promise_done, e, 0) : NULL;
    if (!out)
        larder__redis_fetch_unref(&e);
    return out;
}

larder__redis_fetch *larder__fetch_token_of(larder_buf *b) {
    return larder__buf_outside_arg(b, promise_done);
}

static larder__redis_fetch *begin(larder_buf **token, const larder__value *v) {
    larder__redis_fetch *e = v ? larder__redis_fetch_new(v) : NULL;
    larder_buf *promise = e ? larder__fetch_token_new(e, v->size) : NULL;
    if (!promise)
        return NULL;
    larder__redis_fetch_hold(e, *token);
    *token = promise;
    return e;
}

void larder__fetch_token_all(larder__redis_values *f, larder_buf **tokens, size_t n,
                             const larder__value *(*value_of)(larder_buf *token)) {
    enum { AT_ONCE = 256 };
    larder__redis_fetch *fetches[AT_ONCE];
    for (size_t i = 0; i < n;) {
        size_t m = 0;
        for (; i < n && m < AT_ONCE; i++)
            if ((fetches[m] = begin(&tokens[i], value_of(tokens[i]))))
                m++;
        larder__redis_values_send(f, fetches, m);
    }
}
