/* A connection to the daemon: the socket, the memory that came with it, and what is to go back with
 * the next question. It may end at any time; then the memory stays mapped as long as somebody reads
 * in it, and the daemon is looked for again now and then. */
#ifndef LARDER_UNIX_CONNECTION_H
#define LARDER_UNIX_CONNECTION_H

#include "base/await.h"
#include "base/buf.h"
#include "base/stat.h"
#include "shared/client.h"
#include "shared/daemon_address.h"
#include "unix/frame.h"
#include "unix/message.h"
#include "unix/resident_table.h"
#include "unix/tray.h"

#include <larder/plugin.h>
#include <pthread.h>

enum { LARDER__ANSWER_SECONDS = 2 };
/* Attaching makes tables of all samples, and that of a job beside may be in front of ours: so much
 * more for each sample, once the daemon has shown that it is alive. 10 million of them: 100
 * seconds. */
#define LARDER__ATTACH_SECONDS(keys) (LARDER__ANSWER_SECONDS + 1e-5 * (double)(keys))

/* Memory of one daemon's life; stays mapped until the last buffer in it is let go. */
typedef struct larder__mapping {
    struct larder__connection *owner;
    _Atomic uint32_t refs;
    unsigned char *arena;
    larder__table_head *table;
    larder__pins *pins;     /* NULL: everything has to be asked for */
    larder__outside *heads; /* one for every pin */
    uint32_t pin_limit;     /* at most so many */
    bool sealed;            /* the arena can only be read */
    larder__tray *tray;     /* NULL: none */
    uint32_t laid;          /* bytes, into it */
    uint64_t arena_bytes, table_bytes, keys;
    /* -1, or a connection that is done with and stays open: when it ends, the daemon gives to
     * others what is still read here. */
    int socket;
} larder__mapping;

typedef struct larder__connection {
    larder__client *client;
    larder__door door;
    larder__hello hello;
    larder__stats *stats;
    larder__stat lost, found, stuck, unasked;
    _Atomic int fd; /* -1: the daemon is gone */
    larder__inbox in;
    larder_writer out;      /* frames to send */
    uint32_t touched;       /* batches that the daemon does not know of yet, in `out` */
    larder__reply *answers; /* to the last question */
    uint64_t *keys;
    size_t answer_room, key_room;
    uint32_t (*size_of)(void *arg, uint64_t id);
    /* As larder__attach_conf.prove. */
    int (*prove)(void *arg, const uint64_t *ids, uint32_t n, uint64_t nonce, uint64_t *out);
    void *size_arg;
    double retry_at, retry_after;
    const larder__await *opening; /* NULL: that was long ago */
    double patient_until;         /* it has just been told of all samples, and may take its time */
    char note[300];               /* why it was last away; "": it never was */
    _Atomic double impatient_until;
    pthread_mutex_t lists; /* what is to be returned, and which memory it is about */
    larder__mapping *map;  /* NULL: none */
    uint32_t *released;
    larder__wire_made *made;
    size_t releases, release_cap, makes, make_cap;
    larder__resident_table window; /* which samples are resident */
} larder__connection;

void larder__mapping_unref(larder__mapping **);
larder__mapping *larder__mapping_ref(larder__mapping *);
/* larder__buf_done_fn of a lease: takes the mapping's reference. */
void larder__mapping_done(void *mapping, uint64_t lease);

/* A socket of a daemon that may be believed (shared/daemon_address.h), or a code with its sentence.
 */
int larder__daemon_connect(const larder__door *);
/* Is there an answer to a first word that was sent with this code? One that has no room says so and
 * hangs up, before it hears anything: that lies there although nothing more can be sent. */
static inline bool larder__daemon_may_say(int sent) { return sent == 0 || sent == LARDER_E_IO; }
/* The next frame, which has to be of that type; a refusal is its own error. */
int larder__daemon_hear(int fd, larder__inbox *, uint16_t want, larder_reader *body);
/* How long to wait for it. */
typedef struct larder__patience {
    double sign;                  /* seconds without a sign of life at first, */
    double answer;                /* and from the first byte on */
    const larder__await *opening; /* whoever may give up meanwhile; NULL: nobody */
} larder__patience;
int larder__daemon_hear_for(int fd, larder__inbox *, uint16_t want, larder_reader *body,
                            const larder__patience *);

/* All of these are called with the client's lock held. */
int larder__connection_attach(larder__connection *);
/* Is there a daemon to talk to? Looks for it now and then when there is none. */
bool larder__connection_there(larder__connection *);
void larder__connection_lose(larder__connection *);
/* It never was there: looked for as after a loss. */
void larder__connection_absent(larder__connection *);
/* Ends the connection, at the latest when the last buffer in the daemon's memory is let go. */
void larder__connection_part(larder__connection *);
/* To what is sent next: an operation; what was made and is no longer held. */
void larder__connection_add(larder__connection *, const larder__op *);
void larder__connection_add_returns(larder__connection *);
int larder__connection_flush(larder__connection *); /* on failure the daemon counts as gone */
/* And waits for the answer. */
int larder__connection_ask(larder__connection *, uint16_t answer, larder_reader *body);

/* From any thread. Both are about leases in that memory, and nothing once it is another's. */
void larder__connection_release(larder__connection *, const larder__mapping *, uint32_t lease);
void larder__connection_made(larder__connection *, const larder__mapping *, uint32_t lease,
                             int code);
/* What this lease promised, for the daemon to write, and the lease; a code: there is nothing. */
void larder__connection_bytes(larder__connection *, larder__mapping *, uint32_t lease, uint8_t held,
                              larder_buf *, int code);
/* Both lists belong to the memory they came with: after that is gone nobody wants them back. */
void larder__connection_forget(larder__connection *);

#endif
