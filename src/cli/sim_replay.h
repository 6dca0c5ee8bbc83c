/* The part of `larder sim` that replays recorded jobs: recipes with their own order, policies over
 * the recorded requests, and what could be had at most. */
#ifndef LARDER_CLI_SIM_REPLAY_H
#define LARDER_CLI_SIM_REPLAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct larder__sim_replay {
    const char *path;
    char *const *recipes, *const *policies, *const *caches; /* none: the recorded ones */
    size_t recipe_count, policy_count, cache_count;
    uint64_t epochs; /* 0: as many as were recorded */
    bool json;
    const _Atomic int *stop;
} larder__sim_replay;

/* Prints; 0 or a negative code. */
int larder__sim_replay_run(const larder__sim_replay *);

#endif
