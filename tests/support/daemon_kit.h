/* A daemon in a process of its own. Not a thread: tests fork their jobs, and a fork of a process
 * whose threads are at work has the locks of its allocator as they were. */
#ifndef LARDER_TEST_DAEMON_KIT_H
#define LARDER_TEST_DAEMON_KIT_H

#include "check.h"
#include "unix/server.h"

#include <sys/types.h>

/* Where a test's daemon listens, in a folder of its own. As cmocka's set-up and tear-down. */
extern char kit_door_folder[256], kit_door[300];
int kit_door_make(void **state);
int kit_door_remove(void **state);

/* Serves when this returns. It dies with the test. `first` (or NULL) is called there before it
 * opens. */
pid_t kit_daemon_start(const larder__server_conf *, void (*first)(void *), void *arg);
void kit_daemon_kill(pid_t);

/* From here on no time passes for larder: nobody loses patience with one that makes nothing, nor
 * with one that gets no processor for seconds. A daemon's `first` too. */
void kit_clock_stop(void *unused);
void kit_clock_go_on(void);

#endif
