/* What the made world itself asks of those who answer for the system (wrapped.c). */
#ifndef LARDER_SIMULATE_WRAPPED_H
#define LARDER_SIMULATE_WRAPPED_H

#include "actors.h"

extern double wrapped_date; /* seconds that the date is off */

void wrapped_crash(const actor_process *);
uint32_t wrapped_open_of(const actor_process *); /* what hiredis gave and did not get back */

#endif
