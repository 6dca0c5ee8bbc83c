/* Between source.c, which opens all data sets, and own.c. */
#ifndef LARDER_SOURCE_OWN_SOURCE_H
#define LARDER_SOURCE_OWN_SOURCE_H

#include <larder/plugin.h>

typedef struct larder__own {
    larder_own_source given;
    char *shown;
    uint32_t reserve; /* what a sample counts for before it is known what it comes to */
    double mean;      /* bytes of a sample, as far as seen at open */
    _Atomic uint32_t *came_to;
} larder__own;

extern const larder_source larder__source_own;
int larder__own_begin(larder__own *, const larder_own_source *, uint64_t *probes, uint64_t *bytes);

#endif
