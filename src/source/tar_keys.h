/* The members of one shard as they are found by going through its headers: those that share a key
 * belong together. The key ends at the first dot of a file's own name. */
#ifndef LARDER_SOURCE_TAR_KEYS_H
#define LARDER_SOURCE_TAR_KEYS_H

#include "source/names.h"
#include "source/tar_scan.h"

enum { LARDER__TAR_ENDINGS = 256 };

typedef struct larder__tar_part { /* a member, whose name is its sample's key and an ending */
    uint32_t block;               /* where its bytes begin, in 512 bytes */
    uint32_t bytes;               /* UINT32_MAX: 4 GiB and more */
    uint32_t ending;
} larder__tar_part;

typedef struct larder__tar_keys {
    larder__names keys, endings; /* the first ending is "": none, or one of too many */
    int32_t *labels;             /* of each key; -1: none */
    uint32_t *firsts;            /* the first part of each key; the next one's follows its last */
    larder__tar_part *parts;
    size_t labels_cap, firsts_cap, parts_cap;
    uint32_t part_count;
} larder__tar_keys;

/* Adds what is in a shard, in its order there. */
int larder__tar_keys_scan(larder__tar_keys *, larder__tar *);
void larder__tar_keys_free(larder__tar_keys *);

/* The number of an ending among those there are, which it is added to; 0 and "" where it has too
 * many letters or is one too many, as dots in names make endings without end. */
int larder__tar_ending(larder__names *endings, const char *ending, uint32_t *number);
/* "cls" is. */
bool larder__is_class(const char *ending);

#endif
