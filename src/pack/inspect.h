/* Looking into packed shards: what became of the samples, and is every byte still the one that was
 * packed? */
#ifndef LARDER_PACK_INSPECT_H
#define LARDER_PACK_INSPECT_H

#include "source/pack_index.h"

typedef struct larder__pack_tally {
    uint64_t shards, samples, bytes, segments;
    uint64_t shard_bytes, index_bytes; /* of the files */
    uint64_t kinds[LARDER__PACK_KIND_END];
    uint64_t bad; /* shards and samples that are not what they should be; with `deep` alone */
} larder__pack_tally;

typedef struct larder__inspect_conf {
    const char *where; /* a folder, shards, patterns: as the source takes them */
    bool deep;         /* read every byte: checksums, tar members, ends of segments */
    const _Atomic int *stop;
    void (*progress)(void *arg, uint64_t done, uint64_t all, uint64_t bytes); /* with `deep` */
    /* Of samples that were left as they are; may be NULL. */
    void (*passed)(void *arg, uint64_t id, uint8_t kind, const char *name);
    /* Of what is bad: a sentence that names shard and sample. */
    void (*complain)(void *arg, const char *sentence);
    void *arg; /* of all three */
} larder__inspect_conf;

/* Without `deep` the first unsound index ends it with a negative code. With it, everything bad is
 * counted and told, and the answer is 0 unless looking itself was not possible. */
int larder__pack_inspect(const larder__inspect_conf *, larder__pack_tally *out);

#endif
