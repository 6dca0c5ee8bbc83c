/* From a part of a JPEG to a small JPEG that any decoder reads: the head with other sides, the
 * segments under a rectangle with their restart markers numbered afresh, and where a segment is
 * not there but has to be, one of flat colour. */
#ifndef LARDER_STAGE_SPLICE_H
#define LARDER_STAGE_SPLICE_H

#include "base/segments.h"

typedef struct larder__splice {
    larder__part_view part;
    /* MCUs of the small picture, and the segments that make them up: `lines` times `per_line`, the
     * first one being `first`, each line `stride` after the one before. */
    uint32_t first, per_line, lines, stride;
    uint32_t x, y, w, h; /* the small picture inside the whole one, in pixels */
    size_t size;         /* of the small JPEG, at most */
    uint32_t filler;     /* bytes of a segment of flat colour, its marker included */
} larder__splice;

/* What a rectangle needs; E_FORMAT when the part lacks a segment under it or is malformed. Pixels
 * of `margin` around it are taken along as far as the part has them. */
int larder__splice_plan(larder__splice *, const void *bytes, size_t size, larder_rect want,
                        uint32_t margin);
/* Writes the small JPEG; `out` has room for s->size. Returns its bytes, or a negative code. */
int64_t larder__splice_write(const larder__splice *, unsigned char *out);

#endif
