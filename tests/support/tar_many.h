/* Shards of many samples, of which only the kept indexes are really there: the shards themselves
 * are empty files of the right size. For tests and benchmarks of what a sample costs before it is
 * read. LARDER_CACHE_DIR says where indexes are kept. */
#ifndef LARDER_TEST_TAR_MANY_H
#define LARDER_TEST_TAR_MANY_H

#include "source/tar_block.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { TAR_MANY_SHARD = 10000, TAR_MANY_BYTES = 110000, TAR_MANY_CLASSES = 1000 };

/* A picture and a class each, as tar lays them down; room for them is there. */
static inline int tar_many_keys(larder__tar_keys *k, uint64_t first) {
    enum { BLOCKS = 1 + (TAR_MANY_BYTES + LARDER__TAR_BLOCK - 1) / LARDER__TAR_BLOCK };
    int rc = 0;
    for (uint64_t i = 0; rc == 0 && i < TAR_MANY_SHARD; i++) {
        char key[32];
        int n = snprintf(key, sizeof key, "%09llu", (unsigned long long)(first + i));
        uint32_t block = (uint32_t)(i * (BLOCKS + 2));
        rc = larder__names_add(&k->keys, key, (size_t)n);
        k->labels[i] = (int32_t)((first + i) % TAR_MANY_CLASSES);
        k->firsts[i] = (uint32_t)(2 * i);
        k->parts[2 * i] = (larder__tar_part){block + 1, TAR_MANY_BYTES, 1};
        k->parts[2 * i + 1] = (larder__tar_part){block + BLOCKS + 1, 3, 2};
    }
    k->firsts[TAR_MANY_SHARD] = k->part_count = 2 * TAR_MANY_SHARD;
    return rc;
}

static inline int tar_many_put(larder__tar_keys *k, const char *path, uint64_t number) {
    char real[PATH_MAX], kept[LARDER__TAR_KEPT];
    larder__tar_block block = {0};
    struct stat st;
    larder__stamp stamp;
    uint32_t unused;
    k->keys.count = k->keys.size = 0;
    int rc = tar_many_keys(k, number * TAR_MANY_SHARD), fd = open(path, O_CREAT | O_RDWR, 0600);
    uint64_t bytes = ((uint64_t)k->parts[k->part_count - 1].block + 3) * LARDER__TAR_BLOCK;
    if (fd < 0 || ftruncate(fd, (off_t)bytes) != 0 || !larder__stamp_fd(fd, &st, &stamp) ||
        !realpath(path, real) || close(fd) != 0)
        return -1;
    if (rc == 0)
        rc = larder__tar_ending(&k->endings, "jpg", &unused);
    if (rc == 0)
        rc = larder__tar_ending(&k->endings, "cls", &unused);
    larder__tar_block_name(real, kept);
    if (rc == 0)
        rc = larder__tar_block_make(&block, k, real, &stamp);
    if (rc == 0)
        rc = larder__keep_store(kept, block.kept.bytes, block.kept.size);
    larder__tar_block_free(&block);
    return rc;
}

/* Shards FOLDER/s-000000.tar and so on, from one number up to another; negative: it failed. */
static inline int tar_many(const char *folder, uint64_t from, uint64_t to) {
    larder__tar_keys k = {.labels = calloc(TAR_MANY_SHARD, sizeof *k.labels),
                          .firsts = calloc(TAR_MANY_SHARD + 1, sizeof *k.firsts),
                          .parts = calloc(2 * TAR_MANY_SHARD, sizeof *k.parts)};
    int rc = k.labels && k.firsts && k.parts ? 0 : -1;
    for (uint64_t i = from; rc == 0 && i < to; i++) {
        char path[PATH_MAX];
        snprintf(path, sizeof path, "%s/s-%06llu.tar", folder, (unsigned long long)i);
        rc = tar_many_put(&k, path, i);
    }
    larder__tar_keys_free(&k);
    return rc;
}

#endif
