/* One io_uring that opens, reads and closes up to LARDER__RING_FILES files in one go. Used by one
 * thread at a time. */
#ifndef LARDER_SOURCE_RING_H
#define LARDER_SOURCE_RING_H

#include "source/files.h"

enum { LARDER__RING_FILES = 64 };

typedef struct larder__ring larder__ring;

/* E_UNSUPPORTED with the reason where the build or the kernel has none. */
int larder__ring_open(larder__ring **out);
void larder__ring_close(larder__ring **);

/* Reads file i below the folder into into[i] and one byte beyond, to notice that it grew.
 * results[i]: bytes read (more than wanted when it grew), or a negative errno. Returns false when
 * the ring broke: then it must be closed, and results that are INT64_MIN were never tried. */
bool larder__ring_read(larder__ring *, int folder, const larder__file_want *, void *const *into,
                       size_t n, int64_t *results);

#endif
