/* What the ranks of a distributed job tell each other, through Redis (redis/redis_relay.h) or
 * larder's own daemon (unix/rank_link.h): records under a kind and a number, one of each rank. A
 * thread of its own sends and asks, so nobody who trains waits for it.
 *
 * The ranks meet first: only records of processes that have found each other count, never those of
 * an earlier run of the same name. A rank that is gone, or a server that is, makes `gather` fail
 * with a sentence; one that is only slow is waited for. What a rank has given and not taken back is
 * given again when the server comes back empty. */
#ifndef LARDER_SHARED_RELAY_H
#define LARDER_SHARED_RELAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct larder__relay larder__relay;

typedef struct larder__relayed { /* of one rank; larder__free the bytes */
    void *bytes;
    size_t size;
} larder__relayed;

enum { LARDER__RELAY_RANKS = 4096 };

void larder__relay_close(larder__relay **);
/* Whoever waits in gather, now or later, fails with E_CANCELLED. Any thread. */
void larder__relay_interrupt(larder__relay *);

/* Gives a record to the others; does not wait. Any thread. */
int larder__relay_post(larder__relay *, char kind, uint64_t number, const void *bytes, size_t size);
/* All have used it. */
void larder__relay_forget(larder__relay *, char kind, uint64_t number);
/* The records of those ranks of which out[rank].size is not 0 on entry, `out` having one for each
 * rank; waits for them, and answers 1 when so many seconds are over. Unless 0 no bytes are given.
 */
int larder__relay_gather(larder__relay *, char kind, uint64_t number, double seconds,
                         larder__relayed *out);

#endif
