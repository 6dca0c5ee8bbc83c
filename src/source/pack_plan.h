/* What a rectangle needs of a packed picture: which of its bytes, and the part that they make. */
#ifndef LARDER_SOURCE_PACK_PLAN_H
#define LARDER_SOURCE_PACK_PLAN_H

#include "source/pack_index.h"

typedef struct larder__pack_plan { /* zeroed is empty; used again for one sample after another */
    larder__segment part;
    uint16_t *lengths; /* of the picture's segments */
    larder__segment_run *runs;
    size_t lengths_cap, runs_cap; /* in elements */
} larder__pack_plan;

/* `fd` is the shard's index. The pixels within `margin` of the rectangle come too; runs of segments
 * with at most `gap` bytes between them are made one. */
int larder__pack_plan_make(larder__pack_plan *, const larder__pack_file *, int fd,
                           const larder__pack_entry *, const larder_rect *, uint32_t margin,
                           uint32_t gap);
void larder__pack_plan_free(larder__pack_plan *);
/* Bytes of the part; 0: 4 GiB or more. */
uint32_t larder__pack_plan_size(const larder__pack_plan *);
/* Writes what comes before the picture's own bytes; returns how much. */
size_t larder__pack_plan_begin(const larder__pack_plan *, void *out);
/* What has to be read of the shard, in order: n bytes from `at` on, one piece after the other. */
typedef int (*larder__pack_piece_fn)(void *arg, uint64_t at, size_t n);
int larder__pack_plan_pieces(const larder__pack_plan *, const larder__pack_entry *,
                             larder__pack_piece_fn, void *arg);
/* Of a rectangle that is the whole picture the size is known without the index. */
bool larder__pack_part_whole(const larder__pack_entry *, const larder_rect *, uint32_t *bytes);

#endif
