/* What one job holds: a table of references, each with a number the client knows. */
#ifndef LARDER_UNIX_LEASE_H
#define LARDER_UNIX_LEASE_H

#include <larder/larder.h>
#include <stdbool.h>

typedef struct larder__lease {
    larder_buf *buf; /* NULL: this number is not in use */
    void *making;    /* the entry this job has promised to make, or NULL */
    uint32_t next;   /* of the unused ones */
} larder__lease;

typedef struct larder__leases {
    larder__lease *at;
    uint32_t cap, count, unused;
    uint64_t bytes;
} larder__leases;

/* Makes sure that n more can be given without allocating. */
int larder__leases_reserve(larder__leases *, size_t n);
uint32_t larder__leases_add(larder__leases *, larder_buf *, void *making); /* takes the reference */
larder__lease *larder__leases_find(larder__leases *, uint32_t number);     /* NULL: not held */
void larder__leases_drop(larder__leases *, uint32_t number);
void larder__leases_free(larder__leases *); /* drops all that are left */

#endif
