/* What the folders of unpacked files do not tell: their order and labels, as a manifest. */
#ifndef LARDER_PACK_LABELS_H
#define LARDER_PACK_LABELS_H

#include "source/names.h"
#include "source/source.h"

/* `names` are the files in the order of the samples. Writes a manifest beside them unless dir:
 * gives the very same data set; *wrote says which. */
int larder__labels_keep(larder__data *from, const larder__names *names, const char *folder,
                        bool *wrote);

#endif
