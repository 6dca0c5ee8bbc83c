/* A buffer that stands for a value on its way here: whoever holds it gives it back for the bytes.
 */
#ifndef LARDER_REDIS_PROMISE_H
#define LARDER_REDIS_PROMISE_H

#include "redis/far.h"

/* Of this errand, which it takes over. NULL: no memory, and the errand is gone. */
larder_buf *larder__promise_new(larder__errand *, uint32_t size);
/* NULL: it is no promise. */
larder__errand *larder__promise_errand(larder_buf *);

/* Sends for the values of all tokens, each of which becomes a promise that holds it. `value_of` is
 * NULL for what is no token. Where memory is short a token stays one, and will not come. */
void larder__promise_all(larder__far *, larder_buf **tokens, size_t n,
                         const larder__value *(*value_of)(larder_buf *token));

#endif
