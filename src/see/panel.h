/* What a page or a scraper is shown: the running jobs as of the last look, what they did before,
 * and the jobs that ended lately. Memory is bounded however long it runs: a curve has at most
 * LARDER__PANEL_POINTS points, and when it is full every two become one. */
#ifndef LARDER_SEE_PANEL_H
#define LARDER_SEE_PANEL_H

#include "see/job.h"

enum { LARDER__PANEL_POINTS = 512, LARDER__PANEL_TRACKS = 64, LARDER__PANEL_ENDED = 8 };

typedef struct larder__panel larder__panel;

int larder__panel_open(larder__panel **out);
void larder__panel_close(larder__panel **);
/* Looks at all jobs; `now` of larder__now(). */
int larder__panel_look(larder__panel *, double now);
/* As larder__panel_look, of jobs that are given. */
int larder__panel_take(larder__panel *, const larder__jobs *, double now);

/* {"version": …, "jobs": […], "ended": […]}: each with its rates since the look before. */
void larder__panel_state(FILE *, const larder__panel *);
/* {"curves": [{"pid", "number", "points": [[seconds ago, …], …]}]}, oldest first. */
void larder__panel_history(FILE *, const larder__panel *);
void larder__panel_metrics(FILE *, const larder__panel *);

#endif
