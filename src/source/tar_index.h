/* Where the samples of one shard lie: built by going through its headers once, then kept in the
 * user's cache folder and taken from there while the shard stays the same. An index that cannot be
 * kept (no folder, full disk) is built again next time; one that was damaged is not believed. */
#ifndef LARDER_SOURCE_TAR_INDEX_H
#define LARDER_SOURCE_TAR_INDEX_H

#include "base/parcel.h"
#include "source/found.h"
#include "source/names.h"
#include "source/stamp.h"
#include "source/tar_scan.h"

enum { LARDER__TAR_ENDINGS = 256, LARDER__TAR_WANTED = 64 };

typedef struct larder__tar_entry {
    uint64_t offset; /* of the image; with fields: which of the keys it is */
    uint32_t bytes;
    int32_t label; /* -1: none */
} larder__tar_entry;

typedef struct larder__tar_part { /* a member, whose name is its sample's key and an ending */
    uint32_t block;               /* where its bytes begin, in 512 bytes */
    uint32_t bytes;               /* UINT32_MAX: 4 GiB and more */
    uint32_t ending;
} larder__tar_part;

/* All that is in some shards, and what is made of it: members that share a key are a sample if it
 * has a picture, or, where fields are wanted, if it has one of them. */
typedef struct larder__tar_index {
    larder__tar_entry *entries; /* the samples */
    size_t cap;
    uint64_t count;
    larder__names names; /* path of each image member; with fields: of the first one */
    larder__found found; /* what is no part of them */
    /* What they are chosen from: empty once they are, unless there are fields. */
    larder__names keys, endings; /* the first ending is "": none, or one of too many */
    int32_t *labels;             /* of each key; -1: none */
    uint64_t *firsts;            /* the first part of each key; the next one's follows its last */
    larder__tar_part *parts;
    size_t labels_cap, firsts_cap, parts_cap;
    uint64_t part_count;
    char *wanted[LARDER__TAR_WANTED];  /* "jpg|png" */
    bool optional[LARDER__TAR_WANTED]; /* it was "json?": samples may lack it */
    size_t wanted_count;
    uint8_t rank[LARDER__TAR_WANTED][LARDER__TAR_ENDINGS]; /* of an ending among what will do; 0:
                                                              it will not */
} larder__tar_index;

/* Adds the keys of a shard to `out`, in their order in the file. */
int larder__tar_index_build(larder__tar_index *out, larder__tar *);
/* Adds those of another index. */
int larder__tar_index_append(larder__tar_index *to, const larder__tar_index *from);
/* Makes samples of them, once. `shards` are where each shard's keys begin, and their count behind
 * that; they become where its samples begin. A failure names the shard by label(arg, shard). */
typedef const char *(*larder__tar_label_fn)(void *arg, uint64_t shard);
int larder__tar_index_choose(larder__tar_index *, const char *const *names, size_t n,
                             uint64_t *shards, uint64_t shard_count, larder__tar_label_fn,
                             void *arg);
const char *larder__tar_index_field(const larder__tar_index *, size_t i); /* NULL past the end */
void larder__tar_index_free(larder__tar_index *);
/* Counts, bytes, classes and the fingerprint, the same wherever the shards lie. */
larder_dataset larder__tar_index_about(const larder__tar_index *);

/* With fields: the parts of a sample and the fields they are, without data, n of them; E_NOTFOUND
 * with a sentence for one that lacks what it must have. */
int larder__tar_index_parts(const larder__tar_index *, uint64_t id, larder__field *,
                            const larder__tar_part **, size_t *n);

/* From the bytes of a kept one: E_FORMAT when they are not what was kept, E_CHANGED when the shard
 * is another or was changed; then nothing was added. */
int larder__tar_index_parse(larder__tar_index *out, const char *path, const larder__stamp *,
                            const void *bytes, size_t size);
/* To and from the kept file of this name: keys from `first` on. Whether keeping it works out makes
 * no difference but the time of the next open. */
bool larder__tar_index_load(larder__tar_index *out, const char *kept, const char *path,
                            const larder__stamp *);
void larder__tar_index_keep(const larder__tar_index *, uint64_t first, const char *kept,
                            const char *path, const larder__stamp *);

#endif
