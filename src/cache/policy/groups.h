/* Which samples were brought in together, so that they can be brought in together again: the
 * packages of hilo, as far as deciding goes. Nobody here knows of files; the number of a group is
 * what the loader finds its bytes by.
 *
 * A key is in one group at most. A group is made by adding keys; a key that joins a new one leaves
 * its old one, whose bytes stay as they were laid down. When fewer than `share` of the keys it was
 * made with are left, a group is dropped; also the oldest, while all together are larger than
 * `limit`. Twelve bytes a key, allocated once. */
#ifndef LARDER_CACHE_GROUPS_H
#define LARDER_CACHE_GROUPS_H

#include "base/list.h"

#define LARDER__NO_GROUP UINT32_MAX

typedef struct larder__key_group {
    uint64_t number, bytes; /* as made */
    uint32_t count, live;   /* keys as made, and left */
    uint64_t looked_at;     /* the fetch that last counted its useful keys */
    larder__list members;   /* over keys */
    bool used, dropped;     /* dropped: waits until that was told */
} larder__key_group;

typedef struct larder__key_groups {
    uint32_t keys, room;
    double share;
    uint64_t limit; /* bytes; 0: none */
    uint64_t bytes, last_number, looks;
    larder__key_group *all;      /* `room` of them */
    larder__link *order, *mates; /* links of groups, and of keys */
    uint32_t *group_of;          /* of each key, or LARDER__NO_GROUP */
    larder__list standing, gone; /* groups by age; those dropped and not told yet */
    uint32_t empty;              /* where to look for an unused one first */
    uint32_t open;               /* being made now */
} larder__key_groups;

/* Zeroed before; close also of a half-open one. */
int larder__groups_open(larder__key_groups *, uint64_t keys, double share, uint64_t limit);
void larder__groups_close(larder__key_groups *);

/* Adds a key of `size` bytes to the group under way, which begins with the first. */
void larder__groups_add(larder__key_groups *, uint32_t key, uint32_t size);
/* It is whole: its index, or LARDER__NO_GROUP when it was too large for the limit, or none was. */
uint32_t larder__groups_finish(larder__key_groups *);
/* Numbers of dropped groups, each told once. */
size_t larder__groups_dropped(larder__key_groups *, uint64_t *numbers, size_t max);

void larder__groups_save(const larder__key_groups *, larder_writer *);
int larder__groups_load(larder__key_groups *, larder_reader *); /* into empty ones */

#endif
