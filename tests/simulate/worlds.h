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
    bool cuts;     /* connections may end while both sides live: not those inside one machine */
    bool twin;     /* a job alone has the hits of a cache in its process */
    bool silent;   /* there are no connections and no server: only its own mishaps, and jobs' */
    bool large;    /* some samples are */
    uint32_t slow; /* so many times more steps until all is healed; 0: as many as others */
    uint32_t own;  /* mishaps of its own */
    const char *const *own_names; /* NULL among them: this one has no such */
    void *(*play)(void *player);  /* a job's */
    void (*begin)(void);          /* starts its server */
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

/* trays.c: what jobs of other users did in this schedule. */
typedef struct trays_figures {
    uint64_t laid, unwanted; /* entries handed over through a tray, and those that came too late */
    uint64_t pieces;         /* entries that found no room there */
    uint64_t shown;          /* samples read to show that it can */
    uint64_t shared;         /* 1: jobs of two users shared a cache for a while */
} trays_figures;
extern trays_figures trays;

/* Versions of larder that are broken on purpose; NULL: none. */
extern const char *broken;
bool broken_is(const char *name);

#endif
