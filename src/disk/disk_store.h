/* A store for a cache of one's own whose bytes lie on a local disk (disk/disk.h), and those of
 * residents that the cache has placed in front in memory, too. It decides nothing. What a run left
 * there the next one finds. */
#ifndef LARDER_DISK_DISK_STORE_H
#define LARDER_DISK_DISK_STORE_H

#include "cache/store.h"
#include "disk/disk.h"

extern const larder__store larder__store_disk;

typedef struct larder__disk_store_conf {
    larder__disk *disk; /* taken over, also where opening fails */
    uint64_t slots;
    bool tiered; /* some residents are in front */
    bool forms;  /* entries may have another size than they were asked for with */
} larder__disk_store_conf;

/* How large a folder is and how much of a data set it holds, by arithmetic: decisions must not
 * follow what else happens to lie there. */
typedef struct larder__disk_measure {
    uint64_t keys, payload; /* samples and their bytes in all */
    double each;            /* bytes of a sample on the disk, on average */
} larder__disk_measure;

/* `each` from some of the samples, which are `size` bytes or what size_of says. */
larder__disk_measure larder__disk_measured(uint64_t keys, uint64_t payload, uint32_t size,
                                           uint32_t (*size_of)(void *arg, uint64_t id), void *arg);
uint64_t larder__disk_takes(const larder__disk_measure *, uint64_t bytes); /* so many of them */
uint64_t larder__disk_holds(const larder__disk_measure *, uint64_t budget);

/* State for larder__cache_conf.store_state. */
int larder__disk_store_open(void **out, const larder__disk_store_conf *);
const larder__disk *larder__disk_store_disk(const void *st);

#endif
