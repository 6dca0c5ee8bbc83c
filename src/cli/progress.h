/* The line that shows a run is alive: rate, hits, storage, stalls, time left. On a terminal it is
 * one line drawn over itself, elsewhere a plain line every few seconds. */
#ifndef LARDER_CLI_PROGRESS_H
#define LARDER_CLI_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

typedef struct larder__progress {
    FILE *to;  /* NULL: silent */
    bool live; /* draw over the line */
    bool colour;
    bool drawn;  /* a line stands there */
    double next; /* when to show again, of larder__now() */
} larder__progress;

typedef struct larder__progress_view { /* of the whole run so far */
    const char *name;
    uint64_t epoch, epochs; /* counted from 1 */
    uint64_t step, steps;
    uint64_t served, hits, substitutes, storage_bytes;
    double requests;               /* to storage */
    double seconds, stall_seconds; /* of training */
    double h;                      /* share of reused samples now; NAN: not shown */
    double gap;                    /* fresh less reused loss; 0 or NAN: not shown */
    double ratio; /* share of the cache for important samples; 0 or NAN: not shown */
    bool planned; /* the cache's shares are shown: */
    double encoded, decoded, augmented; /* percent */
} larder__progress_view;

/* A terminal gets the live line, unless TERM is dumb; NO_COLOR takes the colours off. */
void larder__progress_open(larder__progress *, FILE *to);
/* Shows the view if it is time; `now` of larder__now(). */
void larder__progress_show(larder__progress *, const larder__progress_view *, double now);

typedef struct larder__work_view { /* work on samples one by one: packing, checking */
    const char *name;
    uint64_t done, all, bytes;
    double seconds; /* since it began */
} larder__work_view;
void larder__progress_work(larder__progress *, const larder__work_view *, double now);

/* Takes the live line away before something else is printed. */
void larder__progress_clear(larder__progress *);
/* The text without control bytes, cut to fit; at most cap - 1 long. */
void larder__progress_format(char *out, size_t cap, const larder__progress_view *);

#endif
