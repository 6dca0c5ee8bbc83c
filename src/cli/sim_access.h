/* The part of `larder sim` that replays access sequences: tables of hit ratios, reuse intervals,
 * sweeps of lambda. */
#ifndef LARDER_CLI_SIM_ACCESS_H
#define LARDER_CLI_SIM_ACCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct larder__sim_access {
    const char *path;
    char *const *policies, *const *entries, *const *lambdas; /* lambdas: a sweep of hcst */
    size_t policy_count, entry_count, lambda_count;
    uint64_t batch, seed;
    bool json, analyze;
    const _Atomic int *stop;
} larder__sim_access;

/* Prints; 0 or a negative code. */
int larder__sim_access_run(const larder__sim_access *);

#endif
