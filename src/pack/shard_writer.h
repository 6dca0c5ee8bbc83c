/* Writes one packed shard: a WebDataset tar, then the index beside it. Both appear whole or not at
 * all, the index last: a shard with an index is finished. */
#ifndef LARDER_PACK_SHARD_WRITER_H
#define LARDER_PACK_SHARD_WRITER_H

#include "base/file.h"
#include "pack/transcode.h"

typedef struct larder__shard_writer {
    larder__fresh tar;
    char path[4096];
    uint64_t at; /* bytes written */
    larder__pack_index index;
    bool open;
} larder__shard_writer;

/* `path` ends in ".tar". The index begins with the given plan and id. */
int larder__shard_begin(larder__shard_writer *, const char *path, uint64_t plan, uint64_t first);
/* `name` is the sample's own, kept in the index; in the tar it is a number. */
int larder__shard_add(larder__shard_writer *, const larder__transcoded *, int32_t label,
                      const char *name);
/* Puts both files in place when rc is 0, else leaves nothing behind; rc, or what went wrong. */
int larder__shard_end(larder__shard_writer *, int rc);

#endif
