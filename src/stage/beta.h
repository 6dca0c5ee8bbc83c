/* Numbers of a beta distribution, for stages that mix samples. */
#ifndef LARDER_STAGE_BETA_H
#define LARDER_STAGE_BETA_H

#include <larder/plugin.h>

/* Beta(alpha, alpha), alpha above 0. */
double larder__beta_draw(double alpha, larder_rng *);

#endif
