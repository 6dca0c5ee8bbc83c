/* The kinds of world that a schedule can be played in. */
#ifndef LARDER_SIMULATE_WORLDS_H
#define LARDER_SIMULATE_WORLDS_H

#include "actors.h"
#include "player.h"

enum {
    WORLD_FATE,
    WORLD_SERVER,
    WORLD_FIRST_PLAYER,
    WORLD_TENDER = ACTOR_PROCESSES - 2, /* `larder disk` */
    WORLD_LOOKER                        /* looks at a disk that nobody else uses */
};

/* What goes wrong. */
typedef enum {
    MISHAP_CRASH,  /* of a job; it comes back */
    MISHAP_STOP,   /* a job stands still */
    MISHAP_CUT,    /* a connection */
    MISHAP_SLOW,   /* the network */
    MISHAP_NARROW, /* streams take little at once */
    MISHAP_SERVER_CRASH,
    MISHAP_SERVER_STOP,
    MISHAP_OF_WORLD, /* and what only some worlds have, from here on */
} mishap_kind;

typedef struct mishap {
    uint64_t step;
    uint32_t what, whom;
    double seconds;
    uint64_t chance;
} mishap;

typedef struct world {
    const char *name;
    bool cuts; /* connections may end while both sides live: not those inside one machine */
    /* A job alone has the hits of a cache in its process. Not in a daemon, where what has left may
     * be taken as long as somebody reads it. */
    bool twin;
    bool silent;   /* there are no connections and no server: only its own mishaps, and jobs' */
    bool large;    /* some samples are */
    uint32_t slow; /* so many times more steps until all is healed; 0: as many as others */
    uint32_t own;  /* mishaps of its own */
    const char *const *own_names;
    void *(*play)(void *player); /* a job's */
    void (*begin)(void);         /* starts its server */
    void (*happen)(uint32_t own, const mishap *);
    void (*back)(const mishap *); /* the server starts again after a crash */
    void (*heal)(void);
    void (*check)(void);  /* after each step */
    void (*ending)(void); /* all jobs have left: stop the server */
    void (*end)(void);    /* what is kept outside of processes */
} world;
extern const world world_daemon, world_group, world_ranks, world_far, world_disk, world_below;

#define WORLD_DOOR "/made/larder.sock" /* of the daemon */

void fate_later(double seconds, void (*what)(void *), void *arg);
void fate_start_all(void *); /* all jobs that do not run */

/* twins.c: every machine that has heard the same has come to the same. */
void twins_begin(void);
uint64_t twins_compared(void);
void twins_pushed(uint64_t generation, uint64_t before, const void *record, size_t n);

/* Versions of larder that are broken on purpose; NULL: none. */
extern const char *broken;
bool broken_is(const char *name);

#endif
