/* Samples of one fixed size that lie one after the other in a few files, with a byte of label each:
 * what MNIST and CIFAR are made of. Packed files are unpacked into memory at open; plain ones stay
 * where they are and every read costs storage. Filled by a source's open, then read by any thread.
 */
#ifndef LARDER_SOURCE_RECORDS_H
#define LARDER_SOURCE_RECORDS_H

#include "source/stamp.h"

#include <larder/plugin.h>

enum { LARDER__RECORD_PARTS = 8 };

typedef struct larder__part { /* one file of records */
    char *path;
    uint64_t first, count; /* its ids */
    uint64_t head;         /* bytes before the first record */
    unsigned char *bytes;  /* all of it after `head`, when it was packed */
    int fd;                /* when it is plain; -1 otherwise */
    larder__stamp stamp;   /* of the file, packed or not */
} larder__part;

typedef struct larder__records {
    larder__part parts[LARDER__RECORD_PARTS];
    uint32_t used;
    uint64_t count;
    uint32_t stride, skip; /* bytes from record to record; of those, labels in front */
    uint32_t bytes;        /* payload of one */
    unsigned char *labels; /* one a record */
    uint32_t classes;
    larder_shape raw;
    larder_layout layout;
} larder__records;

/* Adds a plain file, kept open, as the next part; `count` records follow `head` bytes. `seen` is
 * what it was when its labels or its head were read. */
int larder__records_add_plain(larder__records *, const char *path, const larder__stamp *seen,
                              uint64_t head, uint64_t count);
/* Adds a part that lies in memory; takes over `bytes`, also on failure. */
int larder__records_add_bytes(larder__records *, const char *path, const larder__stamp *seen,
                              unsigned char *bytes, uint64_t count);

/* The operations of larder_source, for sources whose state begins with a larder__records. */
void larder__records_close(void *st);
int larder__records_describe(void *st, larder_dataset *out);
int larder__records_stat(void *st, uint64_t id, larder_sample *out);
int larder__records_name(void *st, uint64_t id, char *out, size_t cap);
int larder__records_file(void *st, uint64_t id, uint64_t *out);
int larder__records_read(void *st, const uint64_t *ids, size_t n, larder_read *out);

#endif
