/* Between the files that read rows, prepare them and fetch packages. */
#ifndef LARDER_LOADER_FILL_JOINT_H
#define LARDER_LOADER_FILL_JOINT_H

#include "loader/inside.h"

typedef struct larder__joint { /* room for one joint read of several rows */
    uint64_t *ids;
    size_t *rows;
    larder_read *reads;
    larder_rect *rects; /* of each read; unused where samples are read whole */
    larder_buf **bytes; /* of each row, one reference or NULL */
} larder__joint;

/* rows_read.c: reads what has to be made, all together, and hands it to the cache. */
void larder__joint_read(larder_loader *, larder__place *, size_t from, size_t n, larder__joint *);

/* rows_prepare.c: why a row stays empty. */
void larder__row_failed(larder__place *, size_t row, int code, const char *why);
/* The entry that the cache wants, from what was read; `held` says what became of it. */
int larder__entry_make(larder_loader *, larder__scratch *, const larder__ticket *, larder_buf *read,
                       larder_buf **out, uint8_t *held);

#endif
