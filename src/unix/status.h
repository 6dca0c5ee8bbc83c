/* How a daemon is: its data sets and its jobs, as JSON. */
#ifndef LARDER_UNIX_STATUS_H
#define LARDER_UNIX_STATUS_H

#include "unix/ranks_served.h"
#include "unix/served_set.h"

enum { LARDER__SETS = 32 };

typedef struct larder__client_about {
    larder__served *set;
    uint32_t job, pid;
    char name[64];
    double since;
    uint64_t epoch, requests, hits, substitutes, misses, shared; /* shared: another job's read */
    uint64_t background; /* reads of what nobody had asked for yet */
} larder__client_about;

void larder__client_count(larder__client_about *, const larder__reply *, size_t n);

typedef struct larder__status_conf {
    larder__served *const *sets;         /* LARDER__SETS, NULL: none */
    const larder__unix_ranks *rank_jobs; /* the first of a list */
    const larder__client_about *const *clients;
    size_t count;
    uint64_t cache, promised, used; /* used: memory of all kinds, now */
    double uptime;
} larder__status_conf;

int larder__status_write(const larder__status_conf *, larder_writer *);

#endif
