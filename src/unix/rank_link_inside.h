/* What rank_link.c (the connection), rank_depot.c and rank_relay.c share. Nobody else includes
 * this. */
#ifndef LARDER_UNIX_RANK_LINK_INSIDE_H
#define LARDER_UNIX_RANK_LINK_INSIDE_H

#include "unix/frame.h"
#include "unix/rank_link.h"
#include "unix/rank_message.h"

#include <pthread.h>

/* The memory of one daemon's life; stays mapped until the last buffer in it is let go. */
typedef struct larder__unix_ranks_map {
    _Atomic uint32_t refs;
    unsigned char *arena;
    uint64_t bytes;
    pthread_mutex_t lock;          /* of what follows */
    larder__unix_ranks_link *link; /* NULL: that daemon is gone, and wants nothing back */
    uint32_t *released;
    size_t releases, cap;
    /* -1, or a connection that is done with and stays open: when it ends, the daemon gives to
     * others what is still read here. */
    int socket;
} larder__unix_ranks_map;

typedef struct larder__unix_ranks_question { /* a LOOKUP without its answer */
    struct larder__unix_ranks_question *next;
    uint32_t serial;
    double asked_at;
    size_t n;
    struct larder__unix_ranks_fetch *fetches[];
} larder__unix_ranks_question;

typedef struct larder__unix_ranks_put { /* a value on its way there */
    struct larder__unix_ranks_put *next;
    larder__value value;
    larder_buf *bytes;
    larder__depot_done_fn done;
    void *arg;
    uint32_t serial;
    double asked_at;
} larder__unix_ranks_put;

struct larder__unix_ranks_link {
    larder__door door;
    larder__join join;
    double patience;
    const larder__await *opening; /* NULL: that was long ago */
    uint64_t budget;
    larder__stats *stats;
    larder__stat lost, found;
    int wake; /* an eventfd */
    pthread_t thread;
    bool running;

    int fd; /* the thread's, as the next four; -1: the daemon is gone */
    larder__inbox in;
    larder_writer going; /* what the socket has not taken yet, from `gone` on */
    size_t gone;
    double retry_at;

    pthread_mutex_t lock; /* of all that follows */
    pthread_cond_t came;  /* answers */
    bool there, stop, ending, woken;
    larder_writer out;   /* frames for the thread to send */
    larder_writer drops; /* values, for its next DROP */
    uint32_t serial;
    larder__unix_ranks_question *questions, **last_question;
    larder__unix_ranks_put *puts, **last_put;
    uint64_t put_bytes;
    larder__unix_ranks_map *map; /* NULL: none */
    char note[300];              /* why the daemon was last away */

    pthread_mutex_t relaying; /* the relay is not closed meanwhile; taken before `lock` */
    struct larder__unix_ranks_relay *relay; /* NULL: none */
};

/* With the lock held: there is something to do for the thread. */
void larder__unix_ranks_wake(larder__unix_ranks_link *);
void larder__unix_ranks_ring(int wake); /* the same, without any lock */
/* Says what is left, and that this rank has ended; the thread is gone, and the daemon too. */
void larder__unix_ranks_halt(larder__unix_ranks_link *);
void larder__unix_ranks_map_unref(larder__unix_ranks_map **);

/* rank_depot.c, by the thread and without the lock. */
int larder__unix_ranks_found(larder__unix_ranks_link *, larder_reader *);
int larder__unix_ranks_placed(larder__unix_ranks_link *, larder_reader *);
/* What goes along whenever something goes: drops and releases. */
void larder__unix_ranks_depot_write(larder__unix_ranks_link *, larder_writer *to);
/* Nobody will answer any more. */
void larder__unix_ranks_depot_lost(larder__unix_ranks_link *);
/* Since when an answer is waited for; INFINITY: none is. With the lock held. */
double larder__unix_ranks_depot_since(const larder__unix_ranks_link *);

/* rank_relay.c, by the thread and without the lock. */
void larder__unix_ranks_relay_write(larder__unix_ranks_link *, larder_writer *to);
int larder__unix_ranks_relay_hear(larder__unix_ranks_link *, uint16_t type, larder_reader *);
void larder__unix_ranks_relay_attached(larder__unix_ranks_link *);
/* Is somebody, or the daemon, away for too long? `there`: it is not now. */
void larder__unix_ranks_relay_judge(larder__unix_ranks_link *, bool there, const char *trouble);
/* Since when a wish has not even been noticed; INFINITY: it has. */
double larder__unix_ranks_relay_since(larder__unix_ranks_link *);

#endif
