/* Memory for whole kernel rows, used again instead of freed: fresh memory costs a page fault every
 * 4 KiB, more than a row of bits takes to compute. A pool lives until it is closed and the last of
 * its rows is gone. Rows are 64-byte aligned. Thread-safe but for close. */
#ifndef LARDER_SVM_ROW_POOL_H
#define LARDER_SVM_ROW_POOL_H

#include <larder/larder.h>

typedef struct larder__row_pool larder__row_pool;

int larder__row_pool_open(larder__row_pool **out, uint32_t row_bytes);
void larder__row_pool_close(larder__row_pool **);
/* A row from the pool: one reference. NULL: no memory. */
larder_buf *larder__row_pool_take(larder__row_pool *);

#endif
