/* A disk below a cache that others order (a daemon's, Redis): whoever has to make a value looks for
 * it on the disk before it asks storage, and leaves there what storage gave. What stays on the disk
 * the disk itself decides: what was not read for longest makes room. */
#ifndef LARDER_LOADER_FILL_BELOW_H
#define LARDER_LOADER_FILL_BELOW_H

#include "loader/fill/joint.h"

int larder__below_open(larder_loader *); /* if the cache's text names one */
void larder__below_close(larder_loader *);

/* Of m reads that are to be made, those that lie on the disk: their buffers are set, and they stand
 * behind the others. Answers how many are left to read from storage. */
size_t larder__below_take(larder_loader *, larder__joint *, size_t m);
void larder__below_keep(larder_loader *, const larder__joint *,
                        size_t m); /* as storage gave them */

/* One sample that nobody else will bring: from the disk, or else from storage. */
int larder__below_alone(larder_loader *, larder__place *, uint64_t id, larder_buf **out);

#endif
