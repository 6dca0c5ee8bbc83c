/* What the daemon is made of, for the files that make it up: server.c (sockets, clients, the loop)
 * and server_hears.c (what clients say). */
#ifndef LARDER_UNIX_SERVER_INSIDE_H
#define LARDER_UNIX_SERVER_INSIDE_H

#include "base/mem.h"
#include "unix/cost.h"
#include "unix/frame.h"
#include "unix/ranks_served.h"
#include "unix/served_set.h"
#include "unix/server.h"
#include "unix/server_shown.h"
#include "unix/status.h"

#include <stddef.h>
#include <sys/un.h>

typedef struct larder__pending { /* what a client wants, as soon as it has shown that it may */
    larder__hello hello;
    larder__witness asked; /* as it was then */
} larder__pending;

typedef struct larder__server_client {
    struct larder__server_client *next;
    int fd;
    bool leaving; /* what is left to send, then goodbye */
    /* Thrown out: nothing is said or heard any more, and what it holds is its own until it hangs
     * up, since it may still read there. */
    bool expelled;
    bool deaf; /* has closed: nothing is sent any more, and what it said before is still heard */
    uint32_t user;            /* whose process it is */
    larder__pending *pending; /* NULL: it was not asked to show anything */
    uint32_t wire;            /* the version of the protocol that it speaks */
    uint64_t promise;         /* bytes that it may come to */
    uint32_t at_once;         /* requests in one message */
    larder__inbox in;
    larder_writer out; /* not yet taken by the socket */
    size_t sent;
    larder__client_about about; /* set is NULL before HELLO */
    larder__berth berth;        /* ranks is NULL before JOIN */
} larder__server_client;

struct larder__server {
    larder__server_conf conf;
    char path[sizeof((struct sockaddr_un *)0)->sun_path];
    int listener, lock, epoll, stop;
    larder__server_client *clients;
    uint32_t count;
    larder__served *sets[LARDER__SETS];
    larder__unix_ranks *rank_jobs;
    uint64_t promised;   /* bytes that sets, their jobs and jobs of ranks may come to */
    larder__purse purse; /* what there is, of all kinds; most: --cache and a little more */
    larder_writer body, room;
    double started, watch_at;
    double shut_at; /* since when nobody new is let in, if `shut`: there was no descriptor left */
    bool shut;
    larder__inbox idle;         /* room for what comes in, of whoever it comes from */
    bool making;                /* something was being made when we last looked */
    larder__server_shown *seen; /* NULL: not shown */
    double seen_at; /* when that was brought up to date; `stale`: not since something happened */
    bool stale;
};

/* One message; a code means goodbye. */
int larder__server_hear(larder__server *, larder__server_client *, uint16_t type, larder_reader *);
/* Bytes of cache for one more: `want`, or if it need not be exactly that, as much as there is room
 * for with everything that belongs to it. */
int larder__server_budget(larder__server *, const larder__cost *, uint64_t want, bool exactly,
                          uint64_t *out);
/* How it is now; free `clients` with larder__free. */
int larder__server_about(larder__server *, larder__status_conf *out);
/* Sends s->body. */
int larder__server_reply(larder__server *, larder__server_client *, larder__message);
int larder__server_flush(larder__server *, larder__server_client *); /* what is queued in c->out */
/* Says why and hangs up once that is sent. */
int larder__server_refuse(larder__server *, larder__server_client *, int code);
__attribute__((format(printf, 2, 3))) void larder__server_say(larder__server *, const char *, ...);

#endif
