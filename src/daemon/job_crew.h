/* The ranks of one distributed job in the daemon: a crew. They have values in common
 * (daemon/crew_values.h) and tell each other records (wire/crew_message.h); a rank is there as long
 * as its connection is, so the others hear at once when it is gone. A crew ends with its last rank,
 * and everything it had is given back. */
#ifndef LARDER_DAEMON_JOB_CREW_H
#define LARDER_DAEMON_JOB_CREW_H

#include "base/json.h"
#include "base/state.h"
#include "daemon/lease.h"

struct larder__server;
struct larder__client;
typedef struct larder__crew larder__crew;

typedef struct larder__berth { /* of a client that is a rank */
    larder__crew *crew;        /* NULL: it is none */
    uint32_t rank;
    bool ended;            /* it said so */
    larder__leases leases; /* `making`: the name of the value that is to be stored there */
    bool *wish;            /* by rank: whose record it waits for; NULL before the first wish */
    uint32_t serial, kind;
    uint64_t number;
} larder__berth;

/* JOIN, and what a rank says from then on. */
int larder__crew_join(struct larder__server *, struct larder__client *, larder_reader *);
int larder__crew_hear(struct larder__server *, struct larder__client *, uint16_t type,
                      larder_reader *);
/* Its connection is gone, or will be. */
void larder__crew_leave(struct larder__server *, struct larder__client *);

void larder__crews_write(const larder__crew *first, larder__json *);

#endif
