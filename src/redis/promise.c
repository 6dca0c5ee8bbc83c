#include "redis/promise.h"

#include "base/buf.h"

static void promise_done(void *arg, uint64_t unused) {
    (void)unused;
    larder__errand_unref(&(larder__errand *){arg});
}

larder_buf *larder__promise_new(larder__errand *e, uint32_t size) {
    larder_buf *out = e ? larder__buf_outside(NULL, size, promise_done, e, 0) : NULL;
    if (!out)
        larder__errand_unref(&e);
    return out;
}

larder__errand *larder__promise_errand(larder_buf *b) {
    return larder__buf_outside_arg(b, promise_done);
}

static larder__errand *begin(larder_buf **token, const larder__value *v) {
    larder__errand *e = v ? larder__errand_new(v) : NULL;
    larder_buf *promise = e ? larder__promise_new(e, v->size) : NULL;
    if (!promise)
        return NULL;
    larder__errand_hold(e, *token);
    *token = promise;
    return e;
}

void larder__promise_all(larder__far *f, larder_buf **tokens, size_t n,
                         const larder__value *(*value_of)(larder_buf *token)) {
    enum { AT_ONCE = 256 };
    larder__errand *errands[AT_ONCE];
    for (size_t i = 0; i < n;) {
        size_t m = 0;
        for (; i < n && m < AT_ONCE; i++)
            if ((errands[m] = begin(&tokens[i], value_of(tokens[i]))))
                m++;
        larder__far_send(f, errands, m);
    }
}
