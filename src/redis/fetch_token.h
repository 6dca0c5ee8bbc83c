/* A buffer that stands for a value on its way here: whoever holds it gives it back for the bytes.
 */
#ifndef LARDER_REDIS_FETCH_TOKEN_H
#define LARDER_REDIS_FETCH_TOKEN_H

#include "redis/values.h"

/* Of this fetch, which it takes over. NULL: no memory, and the fetch is gone. */
larder_buf *larder__fetch_token_new(larder__redis_fetch *, uint32_t size);
/* NULL: it is no promise. */
larder__redis_fetch *larder__fetch_token_of(larder_buf *);

/* Sends for the values of all tokens, each of which becomes a promise that holds it. `value_of` is
 * NULL for what is no token. Where memory is short a token stays one, and will not come. */
void larder__fetch_token_all(larder__redis_values *, larder_buf **tokens, size_t n,
                             const larder__value *(*value_of)(larder_buf *token));

#endif
