/* How a rank introduces itself to the daemon. */
#ifndef LARDER_UNIX_RANK_JOIN_H
#define LARDER_UNIX_RANK_JOIN_H

#include "shared/job_name.h"

#include <stdint.h>

typedef struct larder__join {
    uint32_t magic, version, oldest, pid; /* as in larder__hello */
    uint32_t rank, world, batch;          /* batch: of all ranks */
    uint32_t turns;                       /* batches for which what has left the cache stays */
    uint32_t pixels;                      /* 1: more than the data set's own bytes may be kept */
    uint64_t fingerprint;                 /* with `job`: by this ranks find each other */
    uint64_t identity; /* of the bytes: only those that have the same share them */
    uint64_t keys, payload;
    uint64_t want;    /* bytes of cache; UINT64_MAX: whatever is left. The first rank decides */
    uint64_t session; /* the ranks have met under this number before; 0: they have not */
    char job[LARDER__JOB_NAME];
    char name[64]; /* for people */
} larder__join;

#endif
