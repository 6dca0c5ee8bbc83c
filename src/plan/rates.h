/* Rates and what follows from them, for programs of ours: rates by name, any split by itself. */
#ifndef LARDER_PLAN_RATES_H
#define LARDER_PLAN_RATES_H

#include <larder/plan.h>

/* Every rate as it is unless said, NAN for what has to be given. */
void larder__rates_defaults(larder_rates *);
/* What a caller has filled in; 0 leaves a rate as it is. */
int larder__rates_take(larder_rates *, const larder_rates *given);
int larder__rates_set(larder_rates *, const char *key, const char *value);
/* Those of a JSON object, as larder profile writes it; members that are no rates tell how it was
 * made. `where` goes in front of what is wrong with it. */
int larder__rates_read(larder_rates *, const char *text, const char *where);
/* LARDER_E_ARGS with a sentence that names what is missing or impossible. */
int larder__rates_check(const larder_rates *);

/* As larder_plan_make, where 0 means 0. */
int larder__plan_make(larder_plan *, const larder_rates *, larder_plan_model);
/* One split, for a rate table that larder__rates_check lets pass. */
larder_outlook larder__plan_outlook(const larder_rates *, larder_plan_model, larder_split);
const char *larder__resource_name(larder_resource);

#endif
