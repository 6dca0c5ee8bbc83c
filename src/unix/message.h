/* What the daemon and its clients say to each other.
 *
 * A client says HELLO and gets COMING at once, so that it knows that somebody is there, and WELCOME
 * when the tables are made, with the arena, the table of residents and its pins as descriptors; or
 * REFUSED. From then on it says operations (cache/operations.def), each a message of its type.
 * CLAIM and EXCHANGE are answered with TICKETS, PICKS and FETCH with KEYS; everything else needs no
 * answer. What was made and what is no longer needed goes with the next question, as RETURNS. A
 * batch of which all is there need not be asked for (unix/pins.h).
 *
 * Bytes are written where they will lie, in the arena, by jobs of the daemon's own user and of
 * root. Those of another user can only read there: what they make they have LAID in memory of their
 * own (unix/tray.h), and the daemon takes it over; what finds no room there crosses the socket as
 * BYTES. Where a daemon lets other users in, the first job of each is asked to PROVE what it can
 * read before it is WELCOME (unix/witness.h).
 *
 * The ranks of a distributed job say JOIN instead of HELLO: unix/rank_message.h. */
#ifndef LARDER_UNIX_MESSAGE_H
#define LARDER_UNIX_MESSAGE_H

#include "base/versions.h"
#include "shared/machine.h"
#include "shared/reply.h"

#include <stdatomic.h>
#include <stddef.h>

enum { LARDER__WIRE_MAGIC = 0x4452414c };

/* Bytes of a data set that are believed: sums of them do not overflow. */
#define LARDER__PAYLOAD_MOST ((uint64_t)1 << 60)
/* Bytes of seen bits in one EPOCH: a daemon takes messages of at most 4 MiB. */
enum { LARDER__EPOCH_MOST = (4 << 20) - 64 };
/* Requests in one CLAIM or EXCHANGE, and entries that it brings in besides: no more than HELLO
 * said, which is so many at least and at most. */
enum { LARDER__AT_ONCE_LEAST = 256, LARDER__AT_ONCE_MOST = 65536 };

#define LARDER__MESSAGES(XX)                                                                       \
    XX(HELLO, "client: who I am and which data set")                                               \
    XX(WELCOME, "daemon: your job number and the memory")                                          \
    XX(REFUSED, "daemon: a code and a sentence")                                                   \
    XX(TICKETS, "daemon: how many rows and entries besides, then the answers")                     \
    XX(KEYS, "daemon: those keys")                                                                 \
    XX(RETURNS, "client: what was made or is no longer held")                                      \
    XX(STATUS, "anybody: how are you?")                                                            \
    XX(STATUS_IS, "daemon: JSON")                                                                  \
    XX(JOIN, "rank of a distributed job: which one, and the cache they share")                     \
    XX(JOINED, "daemon: how large it is, and the memory")                                          \
    XX(LOOKUP, "rank: values, by name")                                                            \
    XX(FOUND, "daemon: where they lie")                                                            \
    XX(PLACE, "rank: room for a value")                                                            \
    XX(PLACED, "daemon: where")                                                                    \
    XX(STORED, "rank: the value lies there")                                                       \
    XX(DROP, "rank: values that nobody needs any more")                                            \
    XX(RELEASE, "rank: places that it does not read any more")                                     \
    XX(SAY, "rank: a record for the others, or a piece of it")                                     \
    XX(FORGET, "rank: a record that all have used")                                                \
    XX(WISH, "rank: records of others that it waits for")                                          \
    XX(HEARD, "daemon: one of them, or a piece of it")                                             \
    XX(GONE, "daemon: a rank whose record will never come")                                        \
    XX(RANKS, "daemon: who has yet to come")                                                       \
    XX(BYE, "rank: I have come to an end")                                                         \
    XX(COMING, "daemon: HELLO was heard, and what it takes is being made")                         \
    XX(PROVE, "daemon: which samples to read, to share them with others who read the same")        \
    XX(PROOF, "client: what they came to; nothing: it could not")                                  \
    XX(BYTES, "client: a piece of an entry that it makes and may not write itself")                \
    XX(LAID, "client: such an entry lies in its tray")

/* HELLO, WELCOME and REFUSED keep their numbers, and greetings and the answers to them grow at
 * their ends alone, so that those of another version understand that much: a client says the newest
 * and the oldest version that it speaks, and the daemon which of them they speak from then on. */
typedef enum larder__message {
    LARDER__NO_MESSAGE,
#define XX(name, help) LARDER__MSG_##name,
    LARDER__MESSAGES(XX)
#undef XX
} larder__message;
/* Operations follow: the type of one is this and its own number. */
enum { LARDER__MSG_OP = 128 };

typedef enum larder__hello_flag {
    LARDER__HELLO_AGAIN = 1, /* this job was attached before */
    LARDER__HELLO_PLANS = 2  /* plan=auto: share the cache out by what RATES say */
} larder__hello_flag;

typedef struct larder__hello {
    uint32_t magic, version, oldest; /* version: the newest it speaks; when read: what is spoken */
    uint32_t pid, batch, at_once;    /* at_once: requests in one message */
    uint64_t identity, payload;      /* of the data set; payload: bytes of all samples */
    uint32_t size;                   /* of every sample, 0: SIZES will tell */
    uint32_t again;                  /* bits of larder__hello_flag */
    larder__agreement about;         /* what it would have, but for the budget */
    char name[64];                   /* the job's, for people */
    char budget[32];                 /* "8GiB", "20%", "": whatever is left */
} larder__hello;

typedef struct larder__welcome {
    uint32_t version, job;
    uint64_t arena_bytes;
    uint32_t wants_sizes; /* 1: please tell SIZES */
    uint32_t streaming;   /* 1: others are in a stream of fresh samples, at this place */
    uint32_t pins;        /* entries this job may hold without asking, 0: none */
    uint32_t sealed;      /* 1: it can only read in the arena, and says LAID and BYTES */
    uint32_t apart;       /* 1: others share this data set and did not get to share it with us */
    larder_stream stream;
    larder__agreement about; /* holds, whatever this job asked for: who came first decided */
    uint32_t tray;           /* 1: it has one; left out where not, for those who know of none */
} larder__welcome;

typedef struct larder__wire_made { /* a lease whose bytes are there now, or will never be */
    uint32_t lease;
    int32_t code;
} larder__wire_made;

/* The beginning of BYTES, which follow: those from `at` on, of `whole`. They come in order, and the
 * entry is made when all are there; a code: it never will be. Also all of LAID, about all of an
 * entry, whose lease goes back with it. */
typedef struct larder__wire_piece {
    uint32_t lease;
    int32_t code;
    uint32_t at, whole;
    uint32_t held;
} larder__wire_piece;
enum { LARDER__PIECE_BYTES = 128 << 10 };

/* Body of PROVE; that of PROOF is a u64 for each. */
enum { LARDER__WITNESSES = 32 };
typedef struct larder__prove {
    uint64_t nonce;
    uint32_t count;
    uint64_t keys[LARDER__WITNESSES];
} larder__prove;

/* The head of every block in the arena. Whoever waits for the bytes sleeps on `state`. */
enum { LARDER__BLOCK_PENDING, LARDER__BLOCK_FULL, LARDER__BLOCK_FAILED };
typedef struct larder__block_head {
    _Atomic uint32_t state;
    uint32_t size; /* bytes that lie there; a maker may need less than it was given */
    uint64_t key;
    uint8_t held; /* larder_form of the bytes */
    unsigned char rest[47];
} larder__block_head;
_Static_assert(sizeof(larder__block_head) == 64, "data stay aligned");

/* The head of the shared table. The slot of every key follows, LARDER_NO_SLOT: not resident; then
 * the place of every key, where its bytes may be taken without asking. Clients cannot write it. */
typedef struct larder__table_head {
    _Atomic uint64_t resident, bytes, budget;
    unsigned char rest[40];
} larder__table_head;
_Static_assert(sizeof(larder__table_head) == 64, "data stay aligned");

/* A place: grain of the block + 1, larder_form of the bytes, and their number. 0: ask. */
typedef uint64_t larder__block_place;
enum { LARDER__GRAIN = 64, LARDER__PLACE_MOST = 1 << 30 };
static inline larder__block_place larder__block_place_of(uint64_t offset, uint8_t held,
                                                         uint32_t size) {
    return (offset / LARDER__GRAIN + 1) << 32 | (uint64_t)held << 30 | size;
}
static inline uint32_t larder__block_place_pin(larder__block_place p) {
    return (uint32_t)(p >> 32);
}
static inline uint64_t larder__block_place_offset(larder__block_place p) {
    return ((p >> 32) - 1) * LARDER__GRAIN;
}
static inline uint8_t larder__block_place_held(larder__block_place p) {
    return (uint8_t)(p >> 30 & 3);
}
static inline uint32_t larder__block_place_size(larder__block_place p) {
    return (uint32_t)(p & (LARDER__PLACE_MOST - 1));
}
/* Bytes of the table of that many keys; its places. */
static inline uint64_t larder__table_bytes(uint64_t keys) {
    return sizeof(larder__table_head) + (keys + (keys & 1)) * sizeof(larder_slot) +
           keys * sizeof(larder__block_place);
}
static inline _Atomic larder__block_place *larder__table_places(larder__table_head *t,
                                                                uint64_t keys) {
    return (_Atomic larder__block_place *)(void *)((larder_slot *)(void *)(t + 1) + keys +
                                                   (keys & 1));
}

/* What a job holds without having asked, in memory of its own that the daemon reads: pins of
 * places, 0: free. */
enum { LARDER__PINS = 16384 };
typedef struct larder__pins {
    _Atomic uint32_t used; /* pins from here on were never used */
    unsigned char rest[60];
    _Atomic uint32_t at[LARDER__PINS];
} larder__pins;
_Static_assert(offsetof(larder__pins, at) == 64, "no holes");

/* The beginning of HELLO and JOIN. */
int larder__greeting_read(uint32_t *magic, uint32_t *version, uint32_t *oldest, larder_reader *);
/* Is what the daemon has chosen one that we speak? */
int larder__spoken_check(uint32_t version);
void larder__hello_write(const larder__hello *, larder_writer *);
int larder__hello_read(larder__hello *, larder_reader *);
void larder__welcome_write(const larder__welcome *, larder_writer *);
int larder__welcome_read(larder__welcome *, larder_reader *);
void larder__prove_write(const larder__prove *, larder_writer *);
int larder__prove_read(larder__prove *, larder_reader *);
void larder__refused_write(larder_writer *, int code, const char *why);
/* The code, with its sentence set. */
int larder__refused_read(larder_reader *);

/* Body of RETURNS. */
typedef struct larder__returns {
    const uint32_t *released; /* leases */
    const larder__wire_made *made;
    uint32_t releases, makes;
} larder__returns;
void larder__returns_write(const larder__returns *, larder_writer *);
/* The arrays are copied to `room`. */
int larder__returns_read(larder__returns *, larder_reader *, larder_writer *room);
/* Body of TICKETS: the answers follow. */
enum { LARDER__TICKETS_HEAD = 8 };

/* Sleeping on a word that processes share. `seconds`: at most. */
void larder__word_wait(const _Atomic uint32_t *, uint32_t while_it_is, double seconds);
void larder__word_wake(const _Atomic uint32_t *);

#endif
