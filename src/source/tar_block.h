/* What is in one shard: one block of bytes, the same in memory as in the file that is kept of it in
 * the user's cache folder. From there it is mapped, not read: the names and places of a hundred
 * million samples then take no memory of this process, and all processes of a machine share them.
 * Numbers are written as this machine has them, since the file never leaves it. What is in the file
 * is checked whole before it is believed. */
#ifndef LARDER_SOURCE_TAR_BLOCK_H
#define LARDER_SOURCE_TAR_BLOCK_H

#include "base/keep.h"
#include "source/stamp.h"
#include "source/tar_keys.h"

typedef struct larder__tar_block {
    larder__keep_file kept; /* all of it; what follows points into it */
    larder__names keys;     /* never freed or added to */
    uint32_t each;          /* parts of every key; 0: not the same, then */
    const uint32_t *firsts; /* as in larder__tar_keys */
    const int32_t *labels;
    const larder__tar_part *parts;
    const char *endings; /* one after the other, a zero behind each */
    uint32_t ending_count;
} larder__tar_block;

/* Of a shard at `path`, as found; the second goes through it. */
int larder__tar_block_make(larder__tar_block *, const larder__tar_keys *, const char *path,
                           const larder__stamp *);
int larder__tar_block_scan(larder__tar_block *, larder__tar *, const char *path,
                           const larder__stamp *);
/* From bytes that were kept, which it takes over: E_FORMAT when they are not what was kept,
 * E_CHANGED when the shard is another or was changed. */
int larder__tar_block_read(larder__tar_block *, larder__keep_file *, const char *path,
                           const larder__stamp *);
void larder__tar_block_free(larder__tar_block *);

static inline uint64_t larder__tar_block_first(const larder__tar_block *b, uint64_t key) {
    return b->each ? key * b->each : b->firsts[key];
}

/* The name under which the block of a local shard is kept. */
enum { LARDER__TAR_KEPT = 32 };
void larder__tar_block_name(const char *path, char out[LARDER__TAR_KEPT]);
/* To and from the kept file of this name. Whether keeping it works out makes no difference but the
 * time of the next open, and that it stays in memory. */
bool larder__tar_block_load(larder__tar_block *, const char *kept, const char *path,
                            const larder__stamp *);
void larder__tar_block_keep(larder__tar_block *, const char *kept, const char *path,
                            const larder__stamp *);

#endif
