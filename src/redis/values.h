/* Bytes that lie in Redis, on one server or a cluster: asked for by the batch, written in the
 * background. It decides nothing. When Redis is away every question is answered with "gone" at
 * once, and a thread of its own looks for it again, so nobody who trains ever waits for more than
 * one time-out.
 *
 * A name (larder__value: id, form and mark) is written once and never again with other bytes; so
 * an answer that is late, a deletion that is late and a value of somebody else can do no harm. */
#ifndef LARDER_REDIS_VALUES_H
#define LARDER_REDIS_VALUES_H

#include "base/stat.h"
#include "shared/redis_address.h"
#include "shared/value.h"

#include <larder/larder.h>

typedef struct larder__redis_values larder__redis_values;
typedef struct larder__redis_fetch larder__redis_fetch; /* one value on its way here */

typedef struct larder__redis_values_conf {
    const larder__redis_conf *redis; /* copied */
    uint64_t identity;               /* of the bytes: no two data sets mix */
    const char *owner;               /* whose values these are: part of every key */
    bool lease;           /* the owner is this process: when it is gone its values may be deleted,
                             and those of owners who are gone already are */
    bool many;            /* several processes are that owner: the lease ends by itself */
    larder__stats *stats; /* NULL: none */
} larder__redis_values_conf;

/* Connects; a server that refuses us is an error here, and only here. One that cannot be reached is
 * waited for, then looked for in the background, or an error, as redis->await says. */
int larder__redis_values_open(larder__redis_values **out, const larder__redis_values_conf *);
void larder__redis_values_close(larder__redis_values **); /* writes what is left, for a moment */

/* A value to ask for. NULL: no memory. */
larder__redis_fetch *larder__redis_fetch_new(const larder__value *);
/* The fetch takes over this reference, and lets it go when it ends. */
void larder__redis_fetch_hold(larder__redis_fetch *, larder_buf *token);
larder_buf *larder__redis_fetch_token(const larder__redis_fetch *);
void larder__redis_fetch_unref(larder__redis_fetch **);
const larder__value *larder__redis_fetch_value(const larder__redis_fetch *);
/* The larder_form of the bytes that came, where it was asked for with LARDER__ANY_FORM. */
uint8_t larder__redis_fetch_held(const larder__redis_fetch *);
/* Sends for all of them: one round trip to each node that has any. Does not wait. */
void larder__redis_values_send(larder__redis_values *, larder__redis_fetch *const *, size_t n);
/* Waits for one. NULL: it is not to be had. */
larder_buf *larder__redis_values_receive(larder__redis_values *, larder__redis_fetch *);
/* The same for what need not be there yet: nobody counts it as gone. */
larder_buf *larder__redis_values_look(larder__redis_values *, larder__redis_fetch *);
bool larder__redis_fetch_over(const larder__redis_fetch *); /* its answer is here, */
bool larder__redis_fetch_came(const larder__redis_fetch *); /* and is a value */

/* Writes in the background, to stay for `ttl` seconds (0: for ever), and says how it went: from
 * another thread, or at once if there is too much to write already. */
typedef void (*larder__redis_values_done_fn)(void *arg, bool stored);
void larder__redis_values_put(larder__redis_values *, const larder__value *, larder_buf *,
                              uint32_t ttl, larder__redis_values_done_fn, void *arg);
void larder__redis_values_drop(larder__redis_values *, const larder__value *);
/* Deletes in the background what this owner has there whose mark differs from `mark` in `bits`. */
void larder__redis_values_sweep(larder__redis_values *, uint64_t bits, uint64_t mark);
/* Until what was given so far is written or given up; false: it takes longer than that. */
bool larder__redis_values_settle(larder__redis_values *, double seconds);

bool larder__redis_values_away(const larder__redis_values *); /* is any node out of reach? */
/* Why Redis was last away or refused something; "": it never did. */
void larder__redis_values_note(larder__redis_values *, char *out, size_t cap);

#endif
