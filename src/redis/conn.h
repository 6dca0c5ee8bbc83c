/* One connection to one Redis server. hiredis makes it, over TCP, a Unix socket or TLS; what goes
 * through it is sent and read here, so that bytes land where they belong, no signal is raised when
 * the other side is gone, and nothing waits longer than the time-out. One thread at a time sends,
 * one reads. */
#ifndef LARDER_REDIS_CONN_H
#define LARDER_REDIS_CONN_H

#include "redis/resp.h"
#include "redis/tls.h"
#include "shared/redis_address.h"

struct redisReply; /* hiredis' own; freeReplyObject frees it */

typedef struct larder__conn {
    void *context; /* hiredis' own; NULL: not open */
    larder__resp in;
    double timeout, until; /* seconds for an answer; when the one under way has to be here */
    larder__tls *tls;      /* NULL: in the clear */
    bool loading;          /* the server reads its data from disk: it answers nothing yet */
    bool elsewhere;        /* it has said that another one has to be asked */
    char name[300];        /* "host:port", for sentences */
} larder__conn;

/* Connects, says who we are and asks for a sign of life. A server that is loading is fine. */
int larder__conn_open(larder__conn *, const larder__redis_conf *, const char *host, uint16_t port,
                      bool replica);
void larder__conn_close(larder__conn *);
/* Whoever waits on it wakes up with an error; from any thread. */
void larder__conn_cut(larder__conn *);

/* Everything, or an error. The pieces are used up. */
int larder__conn_send(larder__conn *, struct iovec *, int count);
/* From now on the next answer may take so long; call it before reading one. */
void larder__conn_expect(larder__conn *, double more);
/* A question and its answer, where nothing else is under way. E_STATE with Redis' own sentence
 * where it answers with an error. */
int larder__conn_ask(larder__conn *, struct redisReply **out, int argc, const char *const *argv,
                     const size_t *lengths);

#endif
