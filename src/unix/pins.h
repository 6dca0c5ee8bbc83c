/* Residents that are taken where they lie, without asking the daemon.
 *
 * The table that the daemon shares says of most residents where their bytes are. Before a client
 * reads them it writes the place into its pins, which the daemon can read, and looks at the table
 * again: if the place still stands there, the daemon has not given up the block, and it looks at
 * all pins before it uses a block for something else. One barrier on each side makes sure that at
 * least one of the two sees the other. Letting go is a store. When a client dies, its pins die with
 * its connection.
 *
 * The policy hears of these hits a little later, in the order in which they happened, at the latest
 * after sixteen batches and always before the next question. */
#ifndef LARDER_UNIX_PINS_H
#define LARDER_UNIX_PINS_H

#include "cache/cache.h"
#include "unix/connection.h"

/* With the client's lock held: tickets for the whole batch. False: something has to be asked for,
 * and nothing has changed. */
bool larder__pins_take(void *attachment, const larder_access *, size_t n, larder__ticket *out);

#endif
