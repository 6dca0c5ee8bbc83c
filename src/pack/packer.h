/* Packing: any data set of encoded samples into shards that can be read in parts.
 *
 * Which samples go into which shard follows from the data set and the settings alone, and so does
 * every byte that is written: neither the number of threads nor an interruption changes it. A run
 * that was stopped or killed goes on with the first shard that is not finished. */
#ifndef LARDER_PACK_PACKER_H
#define LARDER_PACK_PACKER_H

#include "pack/transcode.h"

struct larder__data;

typedef struct larder__pack_conf {
    const char *source, *folder; /* from where, to where */
    uint64_t shard_bytes;        /* payload of a shard, before packing; 0: 256 MiB */
    uint32_t jobs;               /* threads; 0: as many as cores */
    larder__transcode_conf how;
    const _Atomic int *stop; /* becomes non-zero: end cleanly; NULL: never */
    /* Now and then: samples done and in all, bytes read so far. NULL: none. */
    void (*progress)(void *arg, uint64_t done, uint64_t all, uint64_t bytes);
    /* What is read from, so that a reading that takes long can be interrupted; NULL before it goes
     * away. Optional. */
    void (*opened)(void *arg, struct larder__data *);
    void *arg;
} larder__pack_conf;

typedef struct larder__pack_result {
    uint64_t samples, bytes; /* of the source */
    uint64_t shards, found;  /* in all; of these, finished by an earlier run */
} larder__pack_result;

/* 0, E_CANCELLED, or another negative code; finished shards stay in any case. */
int larder__pack_run(const larder__pack_conf *, larder__pack_result *out);

#endif
