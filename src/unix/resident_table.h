/* Where a client sees which samples are resident: a table that stays at one address as long as the
 * client lives. Samplers read in it at any time and from any thread, without a lock, so what lies
 * there is exchanged under them in one step: the daemon's table while there is a daemon, else one
 * that says that nothing is resident. */
#ifndef LARDER_UNIX_RESIDENT_TABLE_H
#define LARDER_UNIX_RESIDENT_TABLE_H

#include "unix/message.h"

typedef struct larder__resident_table {
    larder__table_head *table; /* the slots follow, the places do not */
    uint64_t bytes;
    int nothing; /* memory of the table that says so */
} larder__resident_table;

/* Shows that nothing is resident. After a failure it may be closed. */
int larder__resident_table_open(larder__resident_table *, uint64_t keys);
/* A daemon's table, which is known to be fit (unix/lent_memory.h); -1: nothing is resident. On
 * failure it shows what it showed. */
int larder__resident_table_show(larder__resident_table *, int fd);
void larder__resident_table_close(larder__resident_table *);

#endif
