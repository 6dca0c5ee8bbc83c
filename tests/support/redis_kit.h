/* Real Redis servers for tests, on loopback, stopped by their process id; and things in between
 * that go wrong. */
#ifndef LARDER_TEST_REDIS_KIT_H
#define LARDER_TEST_REDIS_KIT_H

#include "check.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

/* Skips the test where there is no redis-server, or larder was built without hiredis. */
#define kit_redis_or_skip()                                                                        \
    do {                                                                                           \
        if (!kit_redis_there())                                                                    \
            skip_since("no redis-server, or a build without hiredis");                             \
    } while (0)
bool kit_redis_there(void);

typedef struct kit_redis {
    pid_t pid; /* 0: not running */
    uint16_t port;
    char folder[256];
    char options[16][256]; /* as they were given, for a restart */
    int option_count;
} kit_redis;

/* Starts a server on a free port, with further options ("--requirepass", "x", …, NULL), and waits
 * until it answers anything at all. */
void kit_redis_start(kit_redis *, ...);
void kit_redis_kill(kit_redis *);  /* at once; its port stays */
void kit_redis_again(kit_redis *); /* on the same port */
void kit_redis_stop(kit_redis *);  /* and its folder is gone */
/* A command by redis-cli: what it printed, without the last line end. */
const char *kit_redis_cli(const kit_redis *, const char *command, char *out, size_t cap);
long kit_redis_number(const kit_redis *, const char *command);

uint16_t kit_free_port(void); /* for a second one of the same server */

/* Three masters with a replica each. */
typedef struct kit_cluster {
    kit_redis nodes[6];
} kit_cluster;
void kit_cluster_start(kit_cluster *);
/* How long nodes wait for one that is silent until its replica takes over: at first so long that on
 * a busy machine none is given up that lives. */
enum { KIT_CLUSTER_PATIENCE = 15 }; /* seconds */
void kit_cluster_patience(const kit_cluster *, int seconds);
int kit_cluster_owner(const kit_cluster *, const char *pattern); /* the master with such keys */
int kit_cluster_heir(const kit_cluster *, int node);             /* the replica of a master */
void kit_cluster_wait_master(const kit_cluster *, int node);
void kit_cluster_take_over(const kit_cluster *, int node); /* a replica, its master being well */
/* Its replica takes over from a master that is well; and back, after that one was killed. */
void kit_cluster_move(kit_cluster *, int owner, int heir);
void kit_cluster_move_back(kit_cluster *, int owner, int heir);
void kit_cluster_stop(kit_cluster *);

/* Passes bytes on between a port of its own and a server's, or does not. */
typedef enum { KIT_PASS, KIT_CUT, KIT_STALL } kit_proxy_mode;
typedef struct kit_proxy {
    uint16_t port, to;
    int listener;
    _Atomic int mode;
    _Atomic bool stop;
    pthread_t thread;
} kit_proxy;
void kit_proxy_start(kit_proxy *, uint16_t to);
void kit_proxy_stop(kit_proxy *);

/* Greets like Redis, then answers everything with noise that begins as an answer may. */
typedef struct kit_hostile {
    uint16_t port;
    int listener;
    uint64_t seed;
    _Atomic bool stop;
    pthread_t thread;
} kit_hostile;
void kit_hostile_start(kit_hostile *, uint64_t seed);
void kit_hostile_stop(kit_hostile *);

double kit_stat(larder_loader *, const char *name); /* a loader's figure by name */
void kit_nap(double seconds);

#endif
