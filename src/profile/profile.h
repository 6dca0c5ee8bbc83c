/* What this machine gives for one data set, measured: storage at several depths, decoding and
 * augmenting, caches and memory. What larder plan wants to know, and how it was found out.
 *
 * Storage is read in a random order and every sample at most once, so that the page cache does not
 * flatter it more than it has to. A profiler is used by one thread; cancel may come from any. */
#ifndef LARDER_PROFILE_PROFILE_H
#define LARDER_PROFILE_PROFILE_H

#include "loader/draw/recipe.h"
#include "shared/cache_text.h"
#include "shared/daemon_address.h"

#include <larder/plan.h>
#include <larder/plugin.h>
#include <stdio.h>

enum { LARDER__DEPTHS = 4 }; /* 1, 4, 16 and 64 reads in flight */

typedef struct larder__depth {
    uint32_t inflight;
    uint64_t reads, bytes;
    double seconds; /* from the first read asked for to the last one there */
    double latency; /* mean of one read, seconds */
    bool whole;     /* there was nothing left to read before the time was over */
} larder__depth;

typedef struct larder__stage_rate { /* samples a second */
    double core;                    /* of one thread, by its own processor time */
    double all;                     /* of all threads together, by the clock */
} larder__stage_rate;

typedef struct larder__shrunk { /* with shrink=, of a mean sample */
    uint32_t side;              /* shorter side, 0: as it was */
    double bytes, ratio;        /* as it would be kept, and over its file's; bytes NAN: not asked */
    double share;               /* of samples that are not left as they are */
    double seconds;             /* of a processor to make it */
    double row_seconds, file_row_seconds; /* to decode and augment it; and its file */
    double error, psnr;                   /* of its rows: mean absolute, of 255 levels; dB */
} larder__shrunk;

typedef struct larder__profile {
    uint64_t samples, bytes; /* of the data set */
    uint64_t bad;            /* read, and could not be read or decoded */
    uint32_t threads;        /* that decoded */
    double row_bytes;        /* of an augmented sample */
    double decoded_bytes;    /* mean that the cache reserves for a decoded one */
    larder__depth depths[LARDER__DEPTHS];
    double from_device;                 /* share of the bytes read that the kernel fetched from a
                                           device; NAN: it does not say */
    larder__stage_rate decode, augment; /* decode and augment; augment alone */
    larder__stage_rate whole;           /* decode into pixels of native size */
    double cache, daemon;               /* bytes/s read in place; daemon NAN: none was asked */
    double redis;                       /* bytes/s that came from it; NAN: none was asked */
    double disk;                        /* the same of a disk */
    double memory_read, memory_copy;    /* bytes/s of all threads */
    larder__shrunk shrunk;
} larder__profile;

typedef struct larder__profiler_conf {
    const char *source, *augment;
    larder_dtype dtype;
    larder_layout layout;
    uint32_t threads;                /* 0: as many as cores */
    double seconds;                  /* for everything; less where there is little to read */
    larder__shrinking shrink;        /* to measure besides; not on: not */
    const larder__door *door;        /* of a daemon to measure besides; NULL: none */
    const larder__redis_conf *redis; /* a Redis to measure besides; NULL: none */
    const larder__disk_place *disk;  /* or a disk */
    void (*tell)(void *arg, const char *line); /* what was found, step by step; NULL: nobody */
    void *tell_arg;
} larder__profiler_conf;

typedef struct larder__profiler larder__profiler;

int larder__profiler_open(larder__profiler **out,
                          const larder__profiler_conf *); /* copies nothing */
void larder__profiler_close(larder__profiler **);
int larder__profiler_run(larder__profiler *, larder__profile *out); /* once */
void larder__profiler_cancel(larder__profiler *);                   /* run ends with E_CANCELLED */

double larder__depth_rate(const larder__depth *); /* bytes a second */
/* The depth at which storage is best. Those that read too little to tell count only where there is
 * nothing else; `small` says that none of them could. */
const larder__depth *larder__profile_storage(const larder__profile *, bool *small);
/* The keys of larder plan that can be measured; the others are left as they are. */
void larder__profile_rates(const larder__profile *, larder_rates *);
/* One flat JSON object: those keys, then how they were found. */
int larder__profile_write(FILE *, const larder__profile *, const larder_rates *,
                          const larder__profiler_conf *);

#endif
