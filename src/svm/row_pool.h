/* Buffers for whole kernel rows, used again instead of freed: fresh memory costs a page fault every
 * 4 KiB, more than a row of bits takes to compute. The pool is an account (base/buf.h), so it lives
 * until the last of its rows is gone. Rows are 64-byte aligned. Thread-safe. */
#ifndef LARDER_SVM_ROW_POOL_H
#define LARDER_SVM_ROW_POOL_H

#include "base/buf.h"

int larder__row_pool_new(larder__account **out, uint32_t row_bytes); /* one reference */
/* A row of that many bytes from the pool, or a plain buffer where they are fewer; entered into the
 * account. NULL: no memory. */
larder_buf *larder__row_pool_take(larder__account *, uint32_t bytes);

#endif
