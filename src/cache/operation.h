/* One word to a cache, as a value: what the list in cache/operations.def is about. It is handed to
 * the cache in this process, or written to whoever keeps it and read there. */
#ifndef LARDER_CACHE_OPERATION_H
#define LARDER_CACHE_OPERATION_H

#include "base/state.h"

typedef enum larder__op_type {
    LARDER__NO_OP,
#define LARDER_OP(NAME, numbers, values, list, help) LARDER__OP_##NAME,
#define LARDER_WORD(NAME, numbers, values, list, group, call, args, help) LARDER__OP_##NAME,
#include "cache/operations.def"
#undef LARDER_OP
#undef LARDER_WORD
    LARDER__OPS
} larder__op_type;

enum {
    LARDER__OP_NUMBERS = 3,
    LARDER__OP_VALUES = 5,
    LARDER__OP_ROWS = 1 << 20, /* of one operation, at most */
};

/* Elements of a list, as they are written. */
typedef struct larder__row { /* one request of a batch */
    uint32_t key, size, tag, group;
    float score;
} larder__row;
typedef struct larder__touch { /* a hit that was served without asking */
    uint32_t key, tag;         /* as in larder_access */
    float score;
} larder__touch;
typedef struct larder__made { /* an entry; `mark` tells which making of it */
    uint64_t mark;
    uint32_t key, zero;
} larder__made;
_Static_assert(sizeof(larder__row) == 20 && sizeof(larder__touch) == 12, "no holes");
_Static_assert(sizeof(larder__made) == 16, "no holes");

typedef struct larder__op {
    larder__op_type type;
    uint64_t number[LARDER__OP_NUMBERS];
    double value[LARDER__OP_VALUES];
    size_t n; /* elements of its list */
    union {
        const larder__row *rows;
        const uint64_t *ids;
        const larder__touch *touched;
        const larder__made *made;
        const uint32_t *sizes;
        const uint64_t *words;
    };
    const float *scores; /* beside ids, where they have some */
} larder__op;

/* Without its type, which whoever carries it says. */
void larder__op_write(const larder__op *, larder_writer *);
/* E_FORMAT: it is of another length than it can have, or about a sample of `keys` that does not
 * exist. Its list is copied to `room` and lies there until the next. */
int larder__op_read(larder__op *, uint32_t type, larder_reader *, uint64_t keys,
                    larder_writer *room);

#endif
