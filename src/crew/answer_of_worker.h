/* What a worker answers, checked: bytes in memory that another process writes. */
#ifndef LARDER_CREW_ANSWER_OF_WORKER_H
#define LARDER_CREW_ANSWER_OF_WORKER_H

#include <larder/crew.h>

enum { LARDER__CREW_PROGRESS = 64, LARDER__CREW_TRACE = 16 << 10 }; /* bytes */

typedef struct larder__crew_request { /* the messages, and what lies in memory, as crew.h says */
    uint32_t magic, task;
    uint64_t number;
    uint32_t n, zero;
    uint64_t used, size, zeros;
} larder__crew_request;

typedef struct larder__crew_asked {
    uint64_t id, chance, offset, bytes;
} larder__crew_asked;

typedef struct larder__crew_answer {
    uint32_t magic, n;
    uint64_t number, size, used, flags;
} larder__crew_answer;

typedef struct larder__crew_record {
    uint64_t offset, bytes;
    int32_t code;
    uint32_t zero;
} larder__crew_record;

/* The message; E_FORMAT: it is none, or not the answer to this request. */
int larder__crew_message(larder__crew_answer *, const void *bytes, size_t size, uint64_t number,
                         size_t n);

/* A failure has more to it than fits a sentence: called with all of it, where there is more. */
typedef void (*larder__crew_trace_fn)(void *arg, uint64_t id, const char *text, size_t bytes);

/* A buffer of what lies there, without a copy, or NULL: it is to be copied. */
typedef larder_buf *(*larder__crew_lend_fn)(void *arg, unsigned char *at, uint32_t bytes);

typedef struct larder__crew_taker { /* both get `arg`; `lend` may be NULL */
    larder__crew_trace_fn trace;
    larder__crew_lend_fn lend;
    void *arg;
} larder__crew_taker;

/* Fills every out[i] from the worker's memory, of which `size` bytes are mapped. */
int larder__crew_take(const larder__crew_answer *, unsigned char *memory, size_t size,
                      const uint64_t *ids, larder_read *out, const larder__crew_taker *);

#endif
