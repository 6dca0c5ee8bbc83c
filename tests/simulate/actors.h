/* A made world in one thread: processes whose threads are coroutines, one clock, and one that
 * chooses who goes on. Everything follows from a seed. Larder's code runs in it as it is: what it
 * asks of the system (tests/simulate/wrapped.c) is answered here, in wires.h, passed_memory.h and
 * platter.h.
 *
 * Whoever waits has a time at which it goes on at the latest; the one whose time comes first goes
 * on, and the clock jumps there. So a day of waiting takes no time at all. */
#ifndef LARDER_SIMULATE_ACTORS_H
#define LARDER_SIMULATE_ACTORS_H

#include <larder/plugin.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { ACTOR_PROCESSES = 12, ACTOR_THREADS = 96 };
enum { ACTOR_USER = 1000 }; /* whose processes are, but for some jobs: played.users is added */
#define ACTOR_NEVER 1e18

typedef struct actor_heap actor_heap; /* actor_memory.c */

typedef struct actor_process {
    char name[24];
    bool alive;
    double stopped_until; /* nothing of it runs before */
    actor_heap *heap;
    uint32_t number;
    uint32_t lives; /* how often it was started */
} actor_process;

typedef struct actor_thread actor_thread;

/* ---- the world ------------------------------------------------------------------------------- */

void actors_begin(uint64_t seed); /* nobody is there */
void actors_end(void);            /* everybody is gone, with all they had */
double actors_now(void);
uint64_t actors_steps(void);
/* One thread goes on until it waits. False: all wait for ever, or nobody is left. */
bool actors_step(void);
double actors_next(void); /* when that will be */

/* Chance. Two streams: what happens (`actors_*`) and what goes wrong do not disturb each other. */
uint64_t actors_chance(uint64_t below);
bool actors_one_in(uint64_t n);
double actors_between(double low, double high);

/* ---- processes and threads ------------------------------------------------------------------- */

actor_process *actors_process(uint32_t number);
/* Starts it with one thread. */
actor_process *actors_start(uint32_t number, const char *name, void *(*main)(void *), void *arg);
void actors_crash(actor_process *); /* it is gone at once: memory, threads, connections */
void actors_stop(actor_process *, double seconds);
actor_process *actors_current(void); /* NULL: the world itself */
actor_thread *actors_thread(void);

actor_thread *actors_spawn(void *(*main)(void *), void *arg); /* another thread of this process */
void actors_spawn_in(actor_process *, void *(*main)(void *), void *arg);
void actors_join(actor_thread *);
void actors_let_go(actor_thread *);         /* nobody will join it */
bool actors_running(const actor_process *); /* any thread left? */

/* ---- waiting --------------------------------------------------------------------------------- */

/* Until somebody wakes those who wait on this, or until then. False: nobody did. */
bool actors_wait(const void *on, double until);
void actors_wake(const void *on, double at); /* all of them, not before `at` */
void actors_wake_one(const void *on);
void actors_yield(void); /* others may go first */
void actors_sleep(double until);

/* ---- memory ---------------------------------------------------------------------------------- */

actor_heap *actor_heap_of(uint32_t number);
void actor_heap_reset(actor_heap *);
size_t actor_heap_used(const actor_heap *); /* blocks that were not given back */
void actor_heap_tell(const actor_heap *);   /* to the log: their sizes */
void *actor_alloc(actor_heap *, size_t bytes);
void actor_release(void *);
size_t actor_size(const void *); /* of a block */
bool actor_owns(const void *);   /* is it of some process's heap? */

/* Of no process: what the world itself needs. */
void *outside_alloc(size_t bytes);
void *outside_zeroed(size_t bytes);
void *outside_resize(void *, size_t bytes);
void outside_free(void *);

/* ---- what is wrong --------------------------------------------------------------------------- */

/* The first complaint ends a schedule. */
__attribute__((format(printf, 1, 2))) void actors_complain(const char *format, ...);
const char *actors_complaint(void);                                             /* NULL: none */
__attribute__((format(printf, 1, 2))) void actors_log(const char *format, ...); /* if asked for */
extern bool actors_verbose;

#endif
