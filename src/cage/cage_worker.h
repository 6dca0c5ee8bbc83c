/* One process of a cage, as the job sees it. */
#ifndef LARDER_CAGE_CAGE_WORKER_H
#define LARDER_CAGE_CAGE_WORKER_H

#include "cage/cage_talk.h"

#include <stdatomic.h>
#include <sys/types.h>

typedef struct larder__cage_limits {
    uint64_t memory; /* bytes that decoding may take, beside the sample and its pixels */
    double seconds;  /* of a processor, a sample; and ten times as many of waiting for it */
} larder__cage_limits;

typedef struct larder__cage_worker {
    unsigned char *shared; /* LARDER__CAGE_IN, then LARDER__CAGE_OUT; stays as processes change */
    int memory;            /* its descriptor */
    int socket;
    pid_t process; /* 0: none */
    int handle;    /* of it; -1: this kernel has none */
    uint64_t number;
    size_t used;     /* of the larger part, since it was last given back */
    double earlier;  /* seconds of processes that have ended */
    char ended[160]; /* how the last of them did */
} larder__cage_worker;

int larder__cage_worker_open(larder__cage_worker *);
void larder__cage_worker_close(larder__cage_worker *);
/* A process for it. By one thread alone, which lives as long as the process is to. */
int larder__cage_worker_start(larder__cage_worker *, const char *program,
                              const larder__cage_limits *);
/* Ends it, and says in `ended` how it ended if it had before. */
void larder__cage_worker_end(larder__cage_worker *);
/* Lays the bytes of a sample down. */
void larder__cage_worker_lay(larder__cage_worker *, const void *bytes, size_t size);
/* Without an answer: it ended, or was ended since it took too long; `ended` says how. */
enum { LARDER__CAGE_ENDED = 1, LARDER__CAGE_LATE = 2 };
/* 0, one of these, or negative: what it answered. */
int larder__cage_worker_ask(larder__cage_worker *, const larder__cage_limits *,
                            const _Atomic bool *interrupted, larder__cage_ask *,
                            larder__cage_answer *);
/* It answered what it must not, which this thread's sentence says: it is ended as if by itself. */
int larder__cage_worker_distrust(larder__cage_worker *);
double larder__cage_worker_seconds(const larder__cage_worker *);

static inline const uint8_t *larder__cage_worker_out(const larder__cage_worker *w) {
    return w->shared + LARDER__CAGE_IN;
}

#endif
