/* Ctrl-C without a signal handler: SIGINT and SIGTERM are blocked and a thread waits for them, so
 * that what happens then may take locks. The first one asks the run to end after its batch, the
 * second ends the program at once. */
#ifndef LARDER_CLI_STOP_H
#define LARDER_CLI_STOP_H

#include <pthread.h>
#include <stdatomic.h>

typedef struct larder__stop {
    pthread_t thread;
    _Atomic int signal;   /* that came first, 0 before */
    _Atomic int leaving;  /* larder__stop_close is under way */
    pthread_mutex_t lock; /* over the two below */
    void (*ask)(void *);
    void *arg;
} larder__stop;

/* Comes before any other thread is started: they inherit the blocked signals. */
int larder__stop_open(larder__stop *);
/* Who is told; NULL: nobody any more. Told at once if a signal has come already. */
void larder__stop_tell(larder__stop *, void (*ask)(void *), void *arg);
void larder__stop_close(larder__stop *);
/* 0, or the exit code the signal asks for: 130 for SIGINT. */
int larder__stop_code(larder__stop *);

#endif
