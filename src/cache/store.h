/* Where a cache keeps its bytes, by slot. A store does not decide anything and is called under the
 * cache's lock. `null` keeps nothing and answers every get: the simulator's store. */
#ifndef LARDER_CACHE_STORE_H
#define LARDER_CACHE_STORE_H

#include <larder/plugin.h>

typedef struct larder__entry { /* what is put */
    uint64_t key, mark;        /* mark: whose chance an augmented entry has */
    uint8_t form, held;        /* larder_form it is kept as, and that of the bytes */
    bool front;                /* in the tier in front; false: there is none, or it is behind */
} larder__entry;

typedef struct larder__store {
    const char *name;
    bool real;        /* false: entries count as filled at once, nobody makes or reads bytes */
    bool lasts;       /* what it holds stays for the next cache: nothing is dropped at the end */
    size_t slot_size; /* its bytes of metadata a slot */
    int (*open)(void **st, uint64_t slots); /* NULL: whoever opens the cache brings its state */
    void (*close)(void **st);
    void (*put)(void *st, larder_slot, larder_buf *, const larder__entry *); /* own reference */
    larder_buf *(*get)(void *st, larder_slot); /* a new reference; NULL: bytes are gone */
    void (*drop)(void *st, larder_slot);
    void (*place)(void *st, larder_slot, bool front); /* optional: it changes its tier */
    /* Optional, of a store that lasts: bytes that lie there without having been put by this cache,
     * or a token for them; NULL: none. They are the slot's from now on, unless it is NO_SLOT. */
    larder_buf *(*find)(void *st, larder_slot, uint32_t size, const larder__entry *);
    /* Optional: soon asked for. First where the entry is noted, and later its head. */
    void (*prefetch)(const void *st, larder_slot, bool head);
    /* Optional, of a store behind a network, where get may give a token for bytes that are not
     * here: `send` asks for the bytes of n of them, whatever of these are tokens, and does not
     * wait. `receive` waits, takes over the token and gives the bytes, or NULL: they are not to be
     * had. Neither is called under the lock. A token stands for the entry until it is let go. */
    void (*send)(void *st, larder_buf **tokens, size_t n);
    /* *held: larder_form of the bytes, where that is known only now. */
    larder_buf *(*receive)(void *st, larder_buf *token, uint8_t *held);
    /* Optional, of a store that several processes put into: the entry will come from another of
     * them, `size` bytes at most; get gives a token for it. */
    void (*expect)(void *st, larder_slot, uint32_t size, const larder__entry *);
    /* With expect: what was decided to leave before it was made here is made now. Others may expect
     * it still. */
    void (*pass)(void *st, larder_buf *, const larder__entry *);
    void (*turn)(void *st);                        /* optional: a batch has been decided */
    void (*note)(void *st, char *out, size_t cap); /* optional: why it was last away; "": never */
} larder__store;

extern const larder__store larder__store_heap, larder__store_null;

#endif
