/* What the ranks of a distributed job and the daemon say to each other.
 *
 * A rank says JOIN and gets JOINED with the arena as a descriptor, or REFUSED. From then on both
 * sides speak when they have something to say. Values: LOOKUP is answered by FOUND, PLACE by PLACED
 * and, when the bytes lie there, followed by STORED; what was found is read in place until RELEASE.
 * Records: what a rank says stays with the daemon until FORGET; whoever wishes for some hears each
 * as soon as it is there, or that it will never be. RANKS comes when somebody joins, and with every
 * wish. Bytes of values never cross the socket. */
#ifndef LARDER_UNIX_RANK_MESSAGE_H
#define LARDER_UNIX_RANK_MESSAGE_H

#include "shared/value_name.h"
#include "unix/message.h"
#include "unix/rank_join.h"

typedef enum larder__why_gone {
    LARDER__RANK_LOST,  /* without a word */
    LARDER__RANK_ENDED, /* it said BYE */
    LARDER__RANK_APART  /* it was not let in: its files are others */
} larder__why_gone;

typedef struct larder__joined {
    uint32_t version;
    uint64_t arena_bytes, budget;
} larder__joined;

typedef struct larder__wire_value { /* as larder__value */
    uint64_t id, mark;
    uint32_t size;
    uint8_t form, held, zero[2];
} larder__wire_value;

typedef struct larder__wire_found {
    uint64_t offset;      /* of the bytes in the arena */
    uint32_t size, lease; /* lease LARDER__NO_LEASE: it is not there */
    uint8_t held, zero[7];
} larder__wire_found;

_Static_assert(sizeof(larder__wire_value) == 24, "no holes");
_Static_assert(sizeof(larder__wire_found) == 24, "no holes");

/* Bodies that begin with numbers, all of them uint32_t, and what follows:
 *   LOOKUP serial, values           FOUND serial, one answer for each
 *   PLACE serial, one value         PLACED serial, larder__wire_found; lease NO_LEASE: size 1 if
 *                                   the value is there already, else there is no room
 *   STORED lease                    RELEASE leases
 *   DROP values
 *   SAY kind, piece, pieces, number (two words), bytes
 *   FORGET kind, number             WISH serial, kind, number, ranks
 *   HEARD serial, rank, piece, pieces, bytes
 *   GONE serial, rank, larder__why_gone
 *   RANKS a rank that has not come or UINT32_MAX, session (two words, 0 before all have met) */
enum {
    LARDER__PIECE = 1 << 20,          /* bytes of a record in one message, at most */
    LARDER__RECORDS_MOST = 256 << 20, /* bytes of records of one rank that nobody has forgotten */
    LARDER__LOOKUP_MOST = 4096        /* values in one message, at most */
};

void larder__join_write(const larder__join *, larder_writer *);
int larder__join_read(larder__join *, larder_reader *);
void larder__joined_write(const larder__joined *, larder_writer *);
int larder__joined_read(larder__joined *, larder_reader *);

larder__wire_value larder__wire_value_of(const larder__value *);
/* The next value of a body; nonsense is rejected. */
larder__value larder__wire_value_read(larder_reader *);

#endif
