/* Blocks of the arena that nobody here needs any more but that a client may still read, having
 * taken them without asking (unix/pins.h). They are given back when no job pins them. Also the
 * table of places, from which clients take: a place is struck out before its block comes here. */
#ifndef LARDER_UNIX_PINNED_BLOCKS_H
#define LARDER_UNIX_PINNED_BLOCKS_H

#include "unix/arena.h"
#include "unix/message.h"

typedef struct larder__pinned {
    larder__arena *arena;
    _Atomic larder__block_place *places;
    struct {
        const larder__pins *pins; /* NULL: none */
        int fd;
    } * jobs;
    uint32_t job_count;
    larder__arena_block *waiting;
    size_t cap;
    uint32_t count;
    uint32_t out;     /* blocks that will come here one day */
    uint32_t enough;  /* so many wait: look at them */
    uint64_t looks;   /* at so many pins and blocks more, for want of room in this batch */
    uint32_t *pinned; /* room for all pins of all jobs */
    size_t pinned_cap;
} larder__pinned;

int larder__pinned_open(larder__pinned *, larder__arena *, _Atomic larder__block_place *,
                        uint32_t jobs);
void larder__pinned_close(larder__pinned *); /* gives everything back */

/* Memory for the pins of a job; *fd is lent. */
int larder__pinned_join(larder__pinned *, uint32_t job, int *fd);
void larder__pinned_leave(larder__pinned *, uint32_t job);

/* A batch begins. Where no block is free all pins are looked at, and jobs have as many of them as
 * they like: so not for every entry of a large batch. */
void larder__pinned_begin(larder__pinned *);
/* As larder__arena_take; such a block comes back here. */
larder__arena_block larder__pinned_take(larder__pinned *, uint64_t bytes);
/* From now on clients may take these bytes of `key` without asking; */
void larder__pinned_publish(larder__pinned *, uint64_t key, uint64_t offset, uint8_t held,
                            uint32_t size);
/* and from now on not. The block is free as soon as nobody reads it. */
void larder__pinned_give(larder__pinned *, larder__arena_block, uint64_t key);
/* Gives back what nobody pins; their number. */
uint32_t larder__pinned_sweep(larder__pinned *);

#endif
