/* A rank's connection to the daemon in which its job has a cache in common: a depot for bytes
 * (unix/rank_depot.c) and a relay for what ranks tell each other (unix/rank_relay.c). A thread of
 * its own does all the talking; nobody who trains waits for it but for an answer. When the daemon
 * is gone every question is answered with "not there" at once, and it is looked for again. */
#ifndef LARDER_UNIX_RANK_LINK_H
#define LARDER_UNIX_RANK_LINK_H

#include "base/await.h"
#include "base/stat.h"
#include "shared/daemon_address.h"
#include "shared/depot.h"
#include "shared/relay.h"
#include "unix/rank_join.h"

typedef struct larder__unix_ranks_link larder__unix_ranks_link;

typedef struct larder__unix_ranks_conf {
    larder__door door;
    larder__join join; /* without magic, version, pid and session */
    double patience;   /* seconds that the daemon, or a rank of those that met, may be away */
    larder__stats *stats;
    larder__await await; /* ranks cannot do without: it always fails in the end */
} larder__unix_ranks_conf;

/* The first attachment has to work: a wrong path or a refusal is an error with its sentence, and a
 * daemon that has not come in time. */
int larder__unix_ranks_open(larder__unix_ranks_link **out, const larder__unix_ranks_conf *);
/* The depot and the relay come first. */
void larder__unix_ranks_close(larder__unix_ranks_link **);
uint64_t
larder__unix_ranks_budget(const larder__unix_ranks_link *); /* bytes of the cache, of all ranks */

/* One of each at most; both live on the link. */
larder__depot larder__unix_ranks_depot(larder__unix_ranks_link *);
int larder__unix_ranks_relay(larder__relay **out, larder__unix_ranks_link *);

#endif
