/* What the files behind redis/values.h share. Nobody else includes this. */
#ifndef LARDER_REDIS_VALUES_INSIDE_H
#define LARDER_REDIS_VALUES_INSIDE_H

#include "redis/conn.h"
#include "redis/slots.h"
#include "redis/values.h"

#include <pthread.h>
#include <stdatomic.h>

enum { LARDER__LANES = 16, LARDER__NODES = 512, LARDER__NO_NODE = 0xffff, LARDER__KEY = 192 };

enum larder__redis_fetch_state {
    LARDER__ON_ITS_WAY,
    LARDER__ARRIVED,
    LARDER__GONE,
    LARDER__NO_ANSWER
};

struct larder__redis_fetch {
    _Atomic uint32_t refs;
    _Atomic uint32_t state;
    struct larder__lane *_Atomic lane;
    larder__value value;
    uint8_t hops; /* times it was sent elsewhere */
    bool foreign; /* something lay there, but not this */
    unsigned char head[LARDER__VALUE_HEAD];
    larder_buf *bytes, *token;
};

typedef struct larder__due {    /* an answer that is to come */
    larder__redis_fetch *fetch; /* NULL: the head of so many, or none: a plain word */
    uint32_t many;
    uint32_t text;  /* bytes of its question; 0: it goes with the one before */
    uint32_t bytes; /* that the answer will have, about */
} larder__due;

/* A connection for reading: questions go out as they come, answers come in the same order and are
 * read by whoever needs one of them. */
typedef struct larder__lane {
    pthread_mutex_t send, recv; /* who has both took recv first */
    larder__conn conn;          /* replaced under both and the node's gate */
    _Atomic bool up;
    larder__due *due; /* a ring, under send as all that follows */
    size_t head, count, cap;
    size_t sent;     /* of these were asked for already */
    uint64_t flying; /* bytes of their answers */
    char *out;       /* questions that are to be sent: from out + from on, up to out + size */
    size_t from, size, room;
    struct larder__node *node;
} larder__lane;

typedef struct larder__node {
    char host[256];
    uint16_t port;
    bool replica;
    larder__lane lanes[LARDER__LANES];
    pthread_mutex_t gate;    /* connections come and go under it */
    _Atomic bool up, wanted; /* all of it can be used; some slot lies here */
    larder__conn writer;     /* the writing thread's, as all that follows */
    double retry_at, retry_after;
    bool was_up;
    char scan[24];   /* where the look for what nobody owns has come to; "": done */
    uint32_t sweeps; /* that it has begun */
} larder__node;

typedef struct larder__write { /* something to write */
    struct larder__write *next;
    larder__value value;
    larder_buf *bytes; /* NULL: to delete */
    larder__redis_values_done_fn done;
    void *arg;
    uint32_t ttl;
    uint8_t tries;
} larder__write;

typedef struct larder__writes { /* first in, first out */
    larder__write *first, **last;
    size_t count;
} larder__writes;

struct larder__redis_values {
    larder__redis_conf conf;
    char space[120]; /* what every key begins with */
    bool lease, many;
    larder__node *_Atomic nodes[LARDER__NODES]; /* only ever more of them */
    _Atomic uint32_t node_count;
    _Atomic uint16_t master[LARDER__REDIS_SLOTS], reader[LARDER__REDIS_SLOTS];
    _Atomic uint32_t turn;
    _Atomic bool lost_way; /* the map is out of date */
    pthread_mutex_t grow;

    pthread_mutex_t lock; /* all below */
    pthread_cond_t work, settled;
    larder__writes queue, parked; /* parked: deletions for nodes that are away */
    double unpark_at;             /* those are tried again, if all nodes are there */
    uint64_t queued_bytes;
    size_t under_way;
    bool stop, woken; /* woken: something is to be tended that was not when it was last looked at */
    char note[300];
    pthread_t writer;
    bool keeping;
    struct { /* of our own values, those with another mark are to go; sweeps: which look this is */
        uint64_t bits, mark;
        uint32_t sweeps;
    } stale;

    double lease_at, map_at, hosts_at; /* the writer's, */
    bool holes;                        /* too: some slots are nobody's */
    larder__stats *stats;
    struct {
        larder__stat asked, bytes, gone, damaged, unanswered, written, written_bytes, refused, lost,
            found;
    } stat;
};

static inline void larder__redis_values_count(larder__redis_values *f, larder__stat s, uint64_t n) {
    if (f->stats)
        larder__stat_add(f->stats, s, n);
}

/* nodes.c: nodes and the map of slots. */
int larder__redis_nodes_open(larder__redis_values *); /* once more where it failed */
void larder__redis_nodes_absent(
    larder__redis_values *); /* nobody was there: the writer looks for them */
void larder__redis_nodes_close(larder__redis_values *);
larder__node *larder__redis_nodes_at(larder__redis_values *, uint32_t i); /* NULL: there is none */
/* Where a key is written, or read. NULL: nobody has it. */
larder__node *larder__redis_nodes_find(larder__redis_values *, const char *key, size_t n,
                                       bool write);
/* What a node said about a slot; the node that has it, if it is one that can be used. */
larder__node *larder__redis_nodes_learn(larder__redis_values *, const larder__node *from,
                                        const larder__moved *);
/* A connection of somebody's own to the node where a key is written; theirs was closed. */
int larder__redis_nodes_connect(larder__redis_values *, const char *key, larder__conn *);
/* A node that should have a key does not serve it: the map is looked at once more. Whoever talks
 * over a connection of their own says so; the others find out when they read or write. */
void larder__redis_nodes_doubt(larder__redis_values *);
/* It does not answer: nothing more is asked of it until the writer has found it again. */
void larder__node_lose(larder__redis_values *, larder__node *, const char *why);
/* The writer's: connects to nodes that are due, and learns the map where it is out of date.
 * Returns when there is something to do again. */
double larder__redis_nodes_tend(larder__redis_values *, double now);

/* fetching.c */
void larder__lane_open(larder__lane *, larder__node *);
void larder__lane_close(larder__lane *);
void larder__lane_drain(larder__lane *); /* all that is on its way is lost */

/* writing.c */
int larder__redis_writer_start(larder__redis_values *);
void larder__redis_writer_stop(larder__redis_values *);
void larder__redis_writer_wake(larder__redis_values *);

/* sweep.c, the writer's: values whose owner is gone are deleted, a few at a time. False: done. */
bool larder__sweep_some(larder__redis_values *, larder__node *);
void larder__lease_renew(larder__redis_values *, double now);
void larder__lease_end(larder__redis_values *);

/* values.c */
/* Writes a number there, without an end; where it ended. */
char *larder__redis_digits(char *to, uint64_t n, unsigned base);
size_t larder__redis_values_key(const larder__redis_values *, const larder__value *,
                                char out[LARDER__KEY]);
void larder__redis_values_say(larder__redis_values *, const char *why);

#endif
