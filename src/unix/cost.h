/* What a data set, or a job of several ranks, comes to in the daemon, all of it: so that it can be
 * promised or refused before there is anything. What clients say of their data goes into it, but
 * nothing that they say makes it smaller than what they then get (base/mem.h sees to that). */
#ifndef LARDER_UNIX_COST_H
#define LARDER_UNIX_COST_H

#include <stdint.h>

typedef struct larder__cost {
    uint64_t fixed;   /* bytes of tables, whatever the budget */
    uint64_t entries; /* as many as there can be */
    uint64_t mean;    /* bytes of one, at least 1 */
    uint64_t slack;   /* bytes that are on their way in or out */
    uint64_t staying; /* bytes that stay though they have left, at most the budget once more */
    uint64_t job;     /* bytes of each job besides */
} larder__cost;

/* Bytes that some jobs read, or are about to, beside what the cache holds: of batches of so many
 * entries. No more than an eighth of `all`. */
uint64_t larder__cost_slack(uint32_t batch, uint64_t mean, uint64_t all);
/* Of shared memory for that budget: its entries with their heads, rounded up, and the slack. */
uint64_t larder__cost_arena(const larder__cost *, uint64_t budget);
/* How many there are reckoned to be with that budget. */
uint64_t larder__cost_entries(const larder__cost *, uint64_t budget);
/* Everything, one job included. */
uint64_t larder__cost_all(const larder__cost *, uint64_t budget);
/* The largest budget up to `want` with which everything comes to `most` or less; 0: none. */
uint64_t larder__cost_fit(const larder__cost *, uint64_t want, uint64_t most);

#endif
