/* Two tiers of one cache: which of its residents lie in front, in memory, and which in the store
 * behind. Decided with everything else, in the order of requests, without touching a byte. Called
 * under the lock. */
#ifndef LARDER_CACHE_TIER_H
#define LARDER_CACHE_TIER_H

#include "cache/local.h"

struct larder__local;

typedef struct larder__tier_table {
    larder__tiers conf; /* front == 0: there is one tier, and nothing below is in use */
    uint8_t *front;     /* slot -> 1: in front */
    uint8_t *wanted;    /* slot -> requests for it, halved for all when one comes to 255 */
    larder_slot hand;   /* goes round the slots */
    uint64_t front_bytes, back_bytes; /* of residents; inclusive: all of them lie behind */
} larder__tier_table;

int larder__tier_open(struct larder__local *, const larder__tiers *);
void larder__tier_close(struct larder__local *);
/* Is there a tier with room for `size` bytes? Of an entry that grows in slot `growing`: in the one
 * where it lies. `empty`: if nobody were there. */
bool larder__tier_room(const struct larder__local *, uint64_t size, larder_slot growing,
                       bool empty);
void larder__tier_enter(struct larder__local *, larder_slot);
void larder__tier_leave(struct larder__local *, larder_slot);
void larder__tier_grow(struct larder__local *, larder_slot, uint64_t more);
void larder__tier_shrink(struct larder__local *, larder_slot, uint64_t less);
/* It is asked for: does it lie in front? It may from here on. */
bool larder__tier_hit(struct larder__local *, larder_slot);
void larder__tier_save(const struct larder__local *, larder_writer *);
int larder__tier_load(struct larder__local *, larder_reader *); /* once the slots are there */

#endif
