/* What job_crew.c (who is there) and crew_talk.c (what they say) share. Nobody else includes
 * this. */
#ifndef LARDER_DAEMON_JOB_CREW_INSIDE_H
#define LARDER_DAEMON_JOB_CREW_INSIDE_H

#include "daemon/crew_values.h"
#include "daemon/server_inside.h"
#include "wire/crew_message.h"

typedef struct larder__record { /* a piece of what a rank has said */
    struct larder__record *next;
    uint64_t number;
    uint32_t kind, piece, pieces;
    size_t size;
    unsigned char bytes[];
} larder__record;

typedef enum {
    LARDER__SEAT_EMPTY,
    LARDER__SEAT_TAKEN,
    LARDER__SEAT_ENDED,
    LARDER__SEAT_LOST
} larder__seat_state;

typedef struct larder__seat {
    larder__client *client; /* TAKEN alone */
    larder__seat_state state;
    larder__record *records, **last; /* in the order in which they were said */
    uint64_t record_bytes;
    uint32_t record_count;
} larder__seat;

struct larder__crew {
    struct larder__crew *next;
    char job[LARDER__JOB_NAME], name[64];
    uint64_t fingerprint, identity, budget, session;
    uint32_t world, there;
    bool met;   /* all were there at once */
    bool apart; /* one came that has other files: these will never be complete */
    bool again; /* of ranks that have met before, under another daemon: nobody else comes */
    larder__crew_values values;
    larder__seat seats[];
};

/* crew_talk.c */
int larder__crew_say(larder__server *, larder__client *, larder_reader *);
int larder__crew_forget(larder__client *, larder_reader *);
int larder__crew_wish(larder__server *, larder__client *, larder_reader *);
/* Whoever waits for this rank, which has left, waits in vain. */
void larder__crew_tell_gone(larder__server *, larder__crew *, uint32_t rank);
/* Who has yet to come: to one of them; to all of them. */
int larder__crew_tell(larder__server *, larder__client *);
void larder__crew_tell_all(larder__server *, const larder__crew *);
void larder__seat_clear(larder__seat *); /* forgets its records */

#endif
