/* Where the samples of one shard lie: built by going through its headers once, then kept in the
 * user's cache folder and taken from there while the shard stays the same. An index that cannot be
 * kept (no folder, full disk) is built again next time; one that was damaged is not believed. */
#ifndef LARDER_SOURCE_TAR_INDEX_H
#define LARDER_SOURCE_TAR_INDEX_H

#include "source/found.h"
#include "source/names.h"
#include "source/stamp.h"
#include "source/tar_scan.h"

typedef struct larder__tar_entry {
    uint64_t offset; /* of the image */
    uint32_t bytes;
    int32_t label; /* -1: none */
} larder__tar_entry;

typedef struct larder__tar_index {
    larder__tar_entry *entries;
    size_t cap;
    uint64_t count;
    larder__names names; /* path of each image member */
    larder__found found; /* in the shard that was added last, if its owner clears it before */
} larder__tar_index;

/* Adds the samples of a shard to `out`, in their order in the file. */
int larder__tar_index_build(larder__tar_index *out, larder__tar *);
void larder__tar_index_free(larder__tar_index *);
/* Counts, bytes, classes and the fingerprint, the same wherever the shards lie. */
larder_dataset larder__tar_index_about(const larder__tar_index *);

/* As bytes: entries [first, count) of one shard, and back. E_FORMAT when they are not what `write`
 * wrote, E_CHANGED when the shard is another or was changed; then nothing was added. */
int larder__tar_index_write(const larder__tar_index *, uint64_t first, const char *path,
                            const larder__stamp *, larder_writer *);
int larder__tar_index_parse(larder__tar_index *out, const char *path, const larder__stamp *,
                            const void *bytes, size_t size);
/* To and from the kept file of this name. Whether keeping it works out makes no difference but the
 * time of the next open. */
bool larder__tar_index_load(larder__tar_index *out, const char *kept, const char *path,
                            const larder__stamp *);
void larder__tar_index_keep(const larder__tar_index *, uint64_t first, const char *kept,
                            const char *path, const larder__stamp *);

#endif
