/* A recorded job in a few lines. */
#ifndef LARDER_CLI_TAPE_SHOW_H
#define LARDER_CLI_TAPE_SHOW_H

#include "sim/feed.h"

void larder__tape_print(const larder__tape *, const larder__feed_rates *);

#endif
