/* The ranks of one distributed job in the daemon. They have values in common
 * (unix/rank_values.h) and tell each other records (unix/rank_message.h); a rank is there as long
 * as its connection is, so the others hear at once when it is gone. The job ends with its
 * last rank, and everything it had is given back. */
#ifndef LARDER_UNIX_RANKS_SERVED_H
#define LARDER_UNIX_RANKS_SERVED_H

#include "base/json.h"
#include "base/state.h"
#include "unix/lease.h"

struct larder__server;
struct larder__server_client;
typedef struct larder__unix_ranks larder__unix_ranks;

typedef struct larder__berth { /* of a client that is a rank */
    larder__unix_ranks *ranks; /* NULL: it is none */
    uint32_t rank;
    bool ended;            /* it said so */
    larder__leases leases; /* `making`: the name of the value that is to be stored there */
    bool *wish;            /* by rank: whose record it waits for; NULL before the first wish */
    uint32_t serial, kind;
    uint64_t number;
} larder__berth;

/* JOIN, and what a rank says from then on. */
int larder__unix_ranks_join(struct larder__server *, struct larder__server_client *,
                            larder_reader *);
int larder__unix_ranks_hear(struct larder__server *, struct larder__server_client *, uint16_t type,
                            larder_reader *);
/* Bytes of answers that it may leave unread: a rank waits for the records of all others, for which
 * its job has memory. */
size_t larder__unix_ranks_unread(const struct larder__server *,
                                 const struct larder__server_client *);
/* It counts as gone, and what it holds stays its own until it leaves. */
void larder__unix_ranks_lose(struct larder__server *, struct larder__server_client *);
/* Its connection is gone, or will be. */
void larder__unix_ranks_leave(struct larder__server *, struct larder__server_client *);

void larder__unix_rankss_write(const larder__unix_ranks *first, larder__json *);

#endif
