/* Memory for whole blocks of a disk, aligned as reads past the page cache want it, and kept for the
 * next read when the last reader lets go: fresh pages for every value would cost more than reading
 * it does. It lies in huge pages where the system has them: a value in one piece costs the system
 * and the disk's driver a third less than one in 28. Lives until the last of its spans is back. */
#ifndef LARDER_DISK_DISK_SPAN_H
#define LARDER_DISK_DISK_SPAN_H

#include "base/buf.h"

typedef struct larder__disk_pool larder__disk_pool;
typedef struct larder__disk_span {
    struct larder__disk_slab *slab;
    struct larder__disk_span *next, *before; /* while idle */
    unsigned char *bytes;
    uint32_t blocks;         /* at least as many as were asked for */
    larder__outside outside; /* of what is handed out */
} larder__disk_span;

larder__disk_pool *larder__disk_pool_new(void);
void larder__disk_pool_unref(larder__disk_pool **);
larder__disk_span *larder__disk_span_get(larder__disk_pool *,
                                         uint32_t blocks); /* NULL: no memory */
void larder__disk_span_back(larder__disk_span *);
/* Bytes from `at` on as a buffer, which takes the span with it. */
larder_buf *larder__disk_span_hand_out(larder__disk_span *, size_t at, uint32_t size);

#endif
