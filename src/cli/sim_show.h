/* A simulated run on the terminal: a row of a table, or a line of JSON. */
#ifndef LARDER_CLI_SIM_SHOW_H
#define LARDER_CLI_SIM_SHOW_H

#include "base/json.h"
#include "sim/sim.h"

void larder__sim_table_head(void);
void larder__sim_table_row(const char *recipe, const char *cache, const larder__sim_result *);
void larder__sim_json(const char *recipe, const char *cache, uint64_t seed,
                      const larder__sim_result *);
void larder__sim_json_figures(larder__json *, const larder_figures *, bool forms, bool tiers);

#endif
