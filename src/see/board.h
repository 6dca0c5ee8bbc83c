/* What a page or a scraper is shown: the running jobs as of the last look, what they did before,
 * and the jobs that ended lately. Memory is bounded however long it runs: a curve has at most
 * LARDER__BOARD_POINTS points, and when it is full every two become one. */
#ifndef LARDER_SEE_BOARD_H
#define LARDER_SEE_BOARD_H

#include "see/job.h"

enum { LARDER__BOARD_POINTS = 512, LARDER__BOARD_TRACKS = 64, LARDER__BOARD_ENDED = 8 };

typedef struct larder__board larder__board;

int larder__board_open(larder__board **out);
void larder__board_close(larder__board **);
/* Looks at all jobs; `now` of larder__now(). */
int larder__board_look(larder__board *, double now);

/* {"version": …, "jobs": […], "ended": […]}: each with its rates since the look before. */
void larder__board_state(FILE *, const larder__board *);
/* {"curves": [{"pid", "number", "points": [[seconds ago, …], …]}]}, oldest first. */
void larder__board_history(FILE *, const larder__board *);
void larder__board_metrics(FILE *, const larder__board *);

#endif
