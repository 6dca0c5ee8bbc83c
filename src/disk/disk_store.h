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
 * follow what else happens to lie there. `keys` samples of `payload` bytes in all, alike in size or
 * not. What `bytes` of them take on the disk, and what of them `budget` has room for. */
uint64_t larder__disk_takes(uint64_t bytes, uint64_t keys, uint64_t payload, bool alike);
uint64_t larder__disk_holds(uint64_t budget, uint64_t keys, uint64_t payload, bool alike);

/* State for larder__cache_conf.store_state. */
int larder__disk_store_open(void **out, const larder__disk_store_conf *);
const larder__disk *larder__disk_store_disk(const void *st);

#endif
