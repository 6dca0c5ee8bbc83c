/* A folder on a made disk, for whatever stands above it. */
#ifndef LARDER_SIMULATE_WORLD_DISK_H
#define LARDER_SIMULATE_WORLD_DISK_H

#include "disk/disk.h"
#include "worlds.h"

enum { WORLD_DISK_MISHAPS = 11 };
extern const char *const world_disk_mishaps[WORLD_DISK_MISHAPS];

int world_disk_open(larder__disk **out, uint32_t player);
void world_disk_begin(void);
void world_disk_happen(uint32_t own, const mishap *);
void world_disk_heal(void);
void world_disk_check(void);
void world_disk_ending(void); /* all jobs have left */
void world_disk_end(void);

#endif
