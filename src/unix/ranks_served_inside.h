/* What ranks_served.c (who is there) and ranks_heard.c (what they say) share. Nobody else includes
 * this. */
#ifndef LARDER_UNIX_RANKS_SERVED_INSIDE_H
#define LARDER_UNIX_RANKS_SERVED_INSIDE_H

#include "unix/rank_message.h"
#include "unix/rank_values.h"
#include "unix/server_inside.h"

typedef struct larder__rank_record { /* a piece of what a rank has said */
    struct larder__rank_record *next;
    uint64_t number;
    uint32_t kind, piece, pieces;
    size_t size;
    unsigned char bytes[];
} larder__rank_record;

typedef enum {
    LARDER__SEAT_EMPTY,
    LARDER__SEAT_TAKEN,
    LARDER__SEAT_ENDED,
    LARDER__SEAT_LOST
} larder__seat_state;

typedef struct larder__rank_seat {
    larder__server_client *client; /* TAKEN alone */
    larder__seat_state state;
    larder__rank_record *records, **last; /* in the order in which they were said */
    uint64_t record_bytes;
    uint32_t record_count;
} larder__rank_seat;

struct larder__unix_ranks {
    struct larder__unix_ranks *next;
    char job[LARDER__JOB_NAME], name[64];
    uint64_t fingerprint, identity, budget, session;
    uint64_t promise; /* bytes that all of it may come to */
    uint32_t user;    /* whose they all are */
    uint32_t world, there;
    uint32_t holders; /* connections that may still read here */
    bool met;         /* all were there at once */
    bool apart;       /* one came that has other files: these will never be complete */
    bool again;       /* of ranks that have met before, under another daemon: nobody else comes */
    larder__unix_ranks_values values;
    larder__rank_seat seats[];
};

/* ranks_heard.c */
int larder__unix_ranks_say(larder__server *, larder__server_client *, larder_reader *);
int larder__unix_ranks_forget(larder__server_client *, larder_reader *);
int larder__unix_ranks_wish(larder__server *, larder__server_client *, larder_reader *);
/* Whoever waits for this rank, which has left, waits in vain. */
void larder__unix_ranks_tell_gone(larder__server *, larder__unix_ranks *, uint32_t rank);
/* Who has yet to come: to one of them; to all of them. */
int larder__unix_ranks_tell(larder__server *, larder__server_client *);
void larder__unix_ranks_tell_all(larder__server *, const larder__unix_ranks *);
void larder__seat_clear(larder__rank_seat *); /* forgets its records */

#endif
