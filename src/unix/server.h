/* The daemon: a socket, its clients, and a served set for every data set they train on. One thread,
 * one loop; nothing in it waits for a client. */
#ifndef LARDER_UNIX_SERVER_H
#define LARDER_UNIX_SERVER_H

#include <larder/larder.h>

typedef struct larder__server larder__server;

typedef struct larder__server_conf {
    const char *socket; /* path */
    unsigned mode;      /* permissions of the socket: who may attach */
    uint64_t cache;     /* bytes for all data sets together */
    uint64_t quota;     /* bytes one job may bring in, 0: all */
    uint32_t clients;   /* connections at most */
    bool share_data; /* users share what they read, whether they could read it themselves or not */
    /* Lines for people: who came, who left, what went wrong. NULL: none. */
    void (*say)(void *arg, const char *line);
    void *arg;
} larder__server_conf;

/* Binds the socket. A file left behind by a daemon that was killed is replaced; one that is served
 * is E_STATE. */
int larder__server_open(larder__server **out, const larder__server_conf *);
/* Serves until larder__server_stop, which any thread or signal handler may call. */
int larder__server_run(larder__server *);
/* Waits at most that long and serves whoever has something to say. 1: go on, 0: stopped. */
int larder__server_turn(larder__server *, int milliseconds);
/* A connection that came some other way; takes `fd`. */
void larder__server_adopt(larder__server *, int fd);
uint32_t larder__server_clients(const larder__server *);
void larder__server_stop(larder__server *);
void larder__server_close(larder__server **);

#endif
