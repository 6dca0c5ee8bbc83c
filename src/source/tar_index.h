/* The samples of tar shards, chosen from what is in them: members that share a key are a sample if
 * it has a picture, or, where fields are wanted, if it has one of them. Each shard's members lie in
 * its block; nothing is stored for a sample, all is looked up there when it is asked for. */
#ifndef LARDER_SOURCE_TAR_INDEX_H
#define LARDER_SOURCE_TAR_INDEX_H

#include "base/parcel.h"
#include "source/found.h"
#include "source/tar_block.h"

enum { LARDER__TAR_WANTED = 64 };

typedef struct larder__tar_shard {
    larder__tar_block block;
    uint8_t *endings;  /* the index's number of each of the block's */
    uint32_t *samples; /* which keys are; NULL: all */
} larder__tar_shard;

typedef struct larder__tar_index {
    larder__tar_shard *shards;
    uint64_t shard_count;
    uint64_t *firsts; /* id of the first sample of each shard, and their count behind it */
    larder__names endings;
    larder__found found; /* what is no part of a sample */
    bool picture[LARDER__TAR_ENDINGS], label[LARDER__TAR_ENDINGS];
    char *wanted[LARDER__TAR_WANTED];  /* "jpg|png" */
    bool optional[LARDER__TAR_WANTED]; /* it was "json?": samples may lack it */
    size_t wanted_count;
    uint8_t rank[LARDER__TAR_WANTED][LARDER__TAR_ENDINGS]; /* of an ending among what will do; 0:
                                                              it will not */
} larder__tar_index;

typedef struct larder__tar_sample {
    uint64_t shard;
    uint64_t offset; /* of the image in it; with fields: of the first one */
    uint32_t bytes;  /* with fields: of the parcel of them */
    int32_t label;   /* -1: none */
} larder__tar_sample;

int larder__tar_index_open(larder__tar_index *, uint64_t shards);
/* The next one, whose block it takes over. */
int larder__tar_index_add(larder__tar_index *, larder__tar_block *);
/* Makes samples of what is there, once. A failure names the shard by label(arg, shard). */
typedef const char *(*larder__tar_label_fn)(void *arg, uint64_t shard);
int larder__tar_index_choose(larder__tar_index *, const char *const *names, size_t n,
                             larder__tar_label_fn, void *arg);
void larder__tar_index_free(larder__tar_index *);

const char *larder__tar_index_field(const larder__tar_index *, size_t i); /* NULL past the end */
/* Counts, bytes, classes and the fingerprint, the same wherever the shards lie. */
int larder__tar_index_about(const larder__tar_index *, larder_dataset *);
uint64_t larder__tar_index_count(const larder__tar_index *);
uint64_t larder__tar_index_shard(const larder__tar_index *, uint64_t id);
/* E_IO here and below: its shard's kept index was mapped and cannot be read any more. */
int larder__tar_index_sample(const larder__tar_index *, uint64_t id, larder__tar_sample *);
/* Path of the image's member; with fields: of the first one. */
enum { LARDER__TAR_NAME = LARDER__TAR_PATH + 64 };
void larder__tar_index_name(const larder__tar_index *, uint64_t id, char out[LARDER__TAR_NAME]);

/* With fields: the parts of a sample and the fields they are, without data, n of them; E_NOTFOUND
 * with a sentence for one that lacks what it must have. */
int larder__tar_index_parts(const larder__tar_index *, uint64_t id, larder__field *,
                            larder__tar_part *, size_t *n);

#endif
