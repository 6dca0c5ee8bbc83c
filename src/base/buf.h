/* Bytes shared between stations: refcounted, unchangeable once published. An account, if any,
 * counts the bytes of all living buffers opened on it: what readers still hold of an evicted entry
 * stays visible. */
#ifndef LARDER_BASE_BUF_H
#define LARDER_BASE_BUF_H

#include <larder/larder.h>
#include <stdatomic.h>

typedef struct larder__account { /* shared by a cache and its buffers; lives until the last goes */
    _Atomic uint64_t bytes;      /* of living buffers */
    _Atomic uint32_t refs;
} larder__account;

larder__account *larder__account_new(void);
void larder__account_unref(larder__account **);

/* Enters a fresh, unpublished buffer into an account. A buffer is in at most one. */
void larder__buf_enter(larder_buf *, larder__account *);

/* Sixteen bytes in front of the data: a cache of millions of small entries pays for each of them.
 */
struct larder_buf {
    larder__account *account;
    uint32_t size;
    _Atomic uint32_t refs; /* the highest bit says that the data lie outside, the next that this
                              head does too */
};

/* Bytes that lie somewhere else: `done` is called once, by whoever lets go last, from any thread.
 */
typedef void (*larder__buf_done_fn)(void *arg, uint64_t tag);
larder_buf *larder__buf_outside(void *data, uint32_t size, larder__buf_done_fn, void *arg,
                                uint64_t tag);

bool larder__buf_is_outside(const larder_buf *);
/* Whose bytes: `arg` if they lie outside with this `done`, else NULL. */
void *larder__buf_outside_arg(larder_buf *, larder__buf_done_fn);

/* The same in memory of the caller, who gets it back when `done` is called. */
typedef struct larder__outside {
    larder_buf head;
    void *data;
    larder__buf_done_fn done;
    void *arg;
    uint64_t tag;
} larder__outside;
larder_buf *larder__buf_outside_at(larder__outside *, void *data, uint32_t size,
                                   larder__buf_done_fn, void *arg, uint64_t tag);

#endif
