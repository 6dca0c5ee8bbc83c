/* Where the bytes that the ranks of a job share lie: in Redis (redis/job_depot.h) or in larder's
 * own daemon (unix/rank_link.h). It keeps values by name and decides nothing. A name is written
 * once and never again with other bytes; so an answer that is late and a deletion that is late can
 * do no harm. */
#ifndef LARDER_SHARED_DEPOT_H
#define LARDER_SHARED_DEPOT_H

#include "shared/value_name.h"

#include <larder/larder.h>

typedef const larder__value *(*larder__value_of_fn)(larder_buf *token);
/* How writing went: from any thread, and maybe at once. */
typedef void (*larder__depot_done_fn)(void *arg, bool stored);

typedef struct larder__depot_ops {
    /* Sends for the values of all tokens, each of which becomes a promise that holds it; `value_of`
     * is NULL for what is no token. Where memory is short a token stays one, and will not come.
     * Does not wait. */
    void (*send)(void *depot, larder_buf **tokens, size_t n, larder__value_of_fn);
    /* Waits for a promise, and asks once more where nothing came. *out NULL: it is not to be had.
     * False: it is no promise. */
    bool (*receive)(void *depot, larder_buf *promise, larder_buf **out, uint8_t *held);
    /* Of a promise: what is asked for; and asks anew, as receive does at the end. */
    const larder__value *(*wanted)(larder_buf *promise);
    void (*again)(void *depot, larder_buf *promise, larder_buf **out, uint8_t *held);
    /* Writes in the background. */
    void (*put)(void *depot, const larder__value *, larder_buf *, larder__depot_done_fn, void *arg);
    void (*drop)(void *depot, const larder__value *);
    /* Optional: this rank ends, and what it drops from here on may stay for the others. */
    void (*ending)(void *depot);
    void (*note)(void *depot, char *out, size_t cap); /* why it was last away; "": it never was */
    void (*close)(void **depot); /* everything that was to be written is done, or never will be */
} larder__depot_ops;

typedef struct larder__depot {
    const larder__depot_ops *ops;
    void *state;
} larder__depot;

#endif
