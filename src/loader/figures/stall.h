/* Where the time of a training step goes. While training waits for a batch, that wait is given to
 * whoever holds it up:
 *
 * - some loader thread has nothing to do, and rows of the batch that is waited for are being read
 *   or queue for it: storage;
 * - otherwise what the threads do meanwhile, each kind by its share of their time.
 *
 * Every thread keeps what it is at and since when in a seat of its own; nothing is locked for it
 * and nobody is asked to stop. Sums are read when a wait begins and when it ends, so a run that
 * never waits pays a clock read a piece of work. */
#ifndef LARDER_LOADER_FIGURES_STALL_H
#define LARDER_LOADER_FIGURES_STALL_H

#include "loader/figures/shown.h"

#include <stdatomic.h>

typedef enum {
    LARDER__AT_NOTHING,
    LARDER__AT_READ,    /* storage has to answer, to us or to who reads it for us */
    LARDER__AT_PREPARE, /* decoding and augmenting: told apart by larder__seat_share */
    LARDER__AT_CACHE,   /* order and cache: deciding, handing entries over */
    LARDER__AT_COPY,    /* putting finished rows into a batch */
    LARDER__AT_KINDS
} larder__at;

typedef struct larder__seat { /* written by its thread alone */
    _Alignas(64) _Atomic uint32_t at;
    bool reader;            /* its reading is known by what it keeps waiting */
    _Atomic uint64_t since; /* ns */
    _Atomic uint64_t spent[LARDER__AT_KINDS];
    _Atomic uint64_t decoding;     /* ns of PREPARE that were decoding */
    _Atomic uint32_t decode_share; /* of what it prepares now, in 1/65536 */
} larder__seat;

/* The calling thread sits down; NULL: gets up. What follows is nothing for threads without one. */
void larder__seat_take(larder__seat *);
/* What the thread is at from now on; answers what it was at, to go back to. */
larder__at larder__seat_turn(larder__at);
/* The share of decoding in what it prepares. */
void larder__seat_share(double);

typedef struct larder__stall { /* of the wait under way; the loader's lock is held */
    bool waiting;
    double since; /* the beginning, and when it was last looked at */
    double noted;
    double storage;                      /* seconds so far that were storage's for certain */
    double before[LARDER__AT_KINDS + 1]; /* seconds of all threads, as it began; decoding last */
} larder__stall;

struct larder_loader;
void larder__stall_begin(struct larder_loader *, double now);
/* Before anything changes that says who holds training up. */
void larder__stall_note(struct larder_loader *);
void larder__stall_end(struct larder_loader *, double now);
/* Seconds that the threads in these seats have prepared rows for so far. */
double larder__stall_preparing(const struct larder_loader *, uint32_t from, uint32_t to);

/* Which part is the bottleneck, and a sentence with what would help. */
typedef struct larder__verdict_case { /* what the sentence may advise on */
    uint32_t threads, cores, ahead, inflight;
    const char *cache;
    double hit_share;  /* of all samples served */
    bool late, told;   /* storage answers late rather than slowly; and that can be told */
    bool encoded_kept; /* the cache holds encoded samples only, of pictures */
    bool shared;       /* the cache is a daemon's */
    bool gpu_could;    /* decode, and is not asked to; */
    bool gpu_on;       /* or it does, */
    double gpu_share;  /* so much of the samples */
    bool scoring;      /* what takes long in deciding is scores that are waited for */
} larder__verdict_case;
void larder__verdict(larder__times *, const larder__verdict_case *);

#endif
