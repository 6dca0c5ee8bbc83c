/* Values for tests of src/disk: each key's bytes follow from the data set, the key and the size. */
#ifndef LARDER_TEST_DISK_KIT_H
#define LARDER_TEST_DISK_KIT_H

#include "disk/disk.h"

enum { DISK_FORM = 1 };

larder_buf *disk_bytes(uint64_t identity, uint64_t key, uint32_t size);
bool disk_same(uint64_t identity, uint64_t key, uint32_t size, larder_buf *);
void disk_put(larder__disk *, uint64_t identity, uint64_t key, uint32_t size);
/* Sends, receives and lets go of the question; NULL: not there. */
larder_buf *disk_get(larder__disk *, uint64_t key);
/* Bytes of all files there, as the file system counts them. */
uint64_t disk_usage(const char *folder);
larder__disk_conf disk_conf(const char *folder, uint64_t budget, uint64_t identity, uint64_t keys);
larder__disk_figures disk_figures(larder__disk *);

#endif
