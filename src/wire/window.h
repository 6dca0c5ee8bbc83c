/* Where a client sees which samples are resident: a table that stays at one address as long as the
 * client lives. Samplers read in it at any time and from any thread, without a lock, so what lies
 * there is exchanged under them in one step: the daemon's table while there is a daemon, else one
 * that says that nothing is resident. */
#ifndef LARDER_WIRE_WINDOW_H
#define LARDER_WIRE_WINDOW_H

#include "wire/message.h"

typedef struct larder__window {
    larder__table_head *table; /* the slots follow, the places do not */
    uint64_t bytes;
    int nothing; /* memory of the table that says so */
} larder__window;

/* Shows that nothing is resident. After a failure it may be closed. */
int larder__window_open(larder__window *, uint64_t keys);
/* A daemon's table, which is known to be fit (wire/lent.h); -1: nothing is resident. On failure it
 * shows what it showed. */
int larder__window_show(larder__window *, int fd);
void larder__window_close(larder__window *);

#endif
