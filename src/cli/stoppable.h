/* The last lines of every command that runs long: Ctrl-C is listened to while it runs, a failure is
 * said in one sentence, and the exit code follows from both. */
#ifndef LARDER_CLI_STOPPABLE_H
#define LARDER_CLI_STOPPABLE_H

#include "cli/stop.h"

#include <stdbool.h>

typedef struct larder__stoppable {
    const char *name; /* "train" */
    int (*run)(void *options, larder__stop *);
    void *options;
    bool may_finish;     /* a run that ended by itself in spite of a signal counts as done */
    bool looks;          /* it asks larder__stop_code itself: nobody has to be told */
    const char *stopped; /* said when it was; "stopped" */
} larder__stoppable;

/* The exit code: 0, 1 it failed, 2 wrong usage, or the signal's. */
int larder__stoppable_run(const larder__stoppable *);

#endif
