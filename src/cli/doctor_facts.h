/* What larder doctor finds out about a machine, and what follows from it. Facts are gathered in one
 * place and judged in another, so that a test judges machines that it does not have. */
#ifndef LARDER_CLI_DOCTOR_FACTS_H
#define LARDER_CLI_DOCTOR_FACTS_H

#include <stdbool.h>
#include <stdint.h>

enum { LARDER__WHY = 320, LARDER__CUDA_PARTS = 2, LARDER__ADVICE_LINES = 24 };

typedef struct larder__fact { /* something that is there, or not and why */
    bool there;
    char says[LARDER__WHY]; /* what it is, or why not */
} larder__fact;

typedef struct larder__place { /* a folder on a disk */
    char path[512], kind[24];  /* "ext4"; "" where it is not known */
    bool network, writable;    /* another machine's; by this user */
    uint64_t free_bytes, all_bytes;
} larder__place;

typedef struct larder__facts {
    char host[256];
    uint32_t cores, machine_cores; /* for this process; in all */
    uint64_t memory, machine_memory, free_memory, most_files;
    double load; /* processes that want to run, mean of a minute; NAN: not known */
    bool wide;   /* AVX2 */
    larder__fact uring;
    larder__place here, keep; /* where the command runs, and the cache folder of indexes */
    char unkept[LARDER__WHY]; /* why there is no such folder; "" */
    larder__fact gpu, cuda[LARDER__CUDA_PARTS];
    uint64_t gpu_memory;
    larder__fact daemon, redis, python;
    double decode, copy, disk_read, disk_random; /* measured; NAN: not */
    bool disk_direct;
    char unmeasured[LARDER__WHY]; /* why something was not; "" */
} larder__facts;

typedef struct larder__checks {
    const char *redis;  /* an address to try; NULL: this machine's usual one */
    const char *folder; /* whose disk is meant; NULL: where this runs */
} larder__checks;

extern const char *const larder__cuda_names[LARDER__CUDA_PARTS];

/* E_ARGS for a folder or address that makes no sense; what is not there is a fact. */
int larder__facts_gather(larder__facts *, const larder__checks *);
/* Adds what is measured, for so many seconds; 0: nothing is. */
void larder__facts_measure(larder__facts *, double seconds);

typedef struct larder__slow {
    char lines[LARDER__ADVICE_LINES][LARDER__WHY];
    uint32_t count;
} larder__slow;
/* What is slow or lacking, and what to do about it; `parts` is larder_features(). */
void larder__facts_judge(larder__slow *, const larder__facts *, const char *parts);

#endif
