/* Redis' answers, one piece after the other, as they come from a connection. Payload goes straight
 * to where it belongs; only what comes in with a line waits in a small buffer. Believes nothing:
 * whatever does not fit is an error, after which the connection is of no use. */
#ifndef LARDER_REDIS_RESP_H
#define LARDER_REDIS_RESP_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

/* Reads some bytes, at least one, into the first iovec and maybe the next; or negative. */
typedef int (*larder__resp_read_fn)(void *arg, struct iovec *, int count);

typedef struct larder__resp {
    larder__resp_read_fn read;
    void *arg;
    unsigned char *buf;
    size_t at, end;
} larder__resp;

typedef struct larder__resp_reply {
    char type;      /* '+' text, '-' error, ':' number, '$' bytes follow, '*' pieces follow */
    int64_t number; /* of ':'; bytes or pieces that follow, -1: there is nothing */
    char text[200]; /* of '+' and '-', cut */
} larder__resp_reply;

enum { LARDER__RESP_BUFFER = 64 << 10 };

int larder__resp_open(larder__resp *, larder__resp_read_fn, void *arg);
void larder__resp_close(larder__resp *);
int larder__resp_next(larder__resp *, larder__resp_reply *out);
/* `n` bytes of a payload; then larder__resp_tail after its last. */
int larder__resp_bytes(larder__resp *, void *to, size_t n);
int larder__resp_skip(larder__resp *, uint64_t n);
int larder__resp_tail(larder__resp *);

#endif
