/* What those who ask a shared cache get: for each row of a batch what was decided and where its
 * bytes are. */
#ifndef LARDER_SHARED_REPLY_H
#define LARDER_SHARED_REPLY_H

#include "cache/cache.h"

#define LARDER__NO_LEASE UINT32_MAX

typedef struct larder__reply {
    uint32_t key;
    uint32_t lease;  /* of bytes in a daemon; NO_LEASE: make it for yourself alone */
    uint64_t offset; /* of the block in the daemon's memory */
    uint64_t mark;   /* as the rest, of larder__ticket */
    uint32_t size;   /* bytes of the entry; MAKE: at most */
    uint8_t task, kind, form, make, held;
    uint8_t kept;
    uint8_t zero[6];
} larder__reply;
_Static_assert(sizeof(larder__reply) == 40, "no holes");

/* What was decided; where its bytes are is to be said yet. */
static inline larder__reply larder__reply_of(const larder__ticket *t) {
    return (larder__reply){.key = (uint32_t)t->key,
                           .lease = LARDER__NO_LEASE,
                           .mark = t->mark,
                           .size = t->size,
                           .task = t->task,
                           .kind = t->kind,
                           .form = t->form,
                           .make = t->make,
                           .held = t->held};
}

/* To one question. Belongs to whoever was asked, until the next. */
typedef struct larder__replies {
    const larder__reply *at; /* of CLAIM and EXCHANGE: rows, then what is fetched besides */
    const uint64_t *keys;    /* of PICKS and FETCH: `rows` of them */
    size_t rows, fetched;
} larder__replies;

#endif
