/* Ctrl-C: the handler of SIGINT and SIGTERM only notes the signal and posts a semaphore; a thread
 * that waits for it asks the run to end after its batch, so that asking may take locks. A run that
 * looks whether one was noted needs no thread. A second signal ends the program at once. One at a
 * time, since signals belong to the process. */
#ifndef LARDER_CLI_STOP_H
#define LARDER_CLI_STOP_H

#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>

typedef struct larder__stop {
    pthread_t thread;
    bool tells; /* there is one */
    sem_t woken;
    _Atomic int signal;          /* that came first, 0 before */
    _Atomic int leaving;         /* larder__stop_close is under way */
    _Atomic(const char *) early; /* see larder__stop_early */
    pthread_mutex_t lock;        /* over the two below */
    void (*ask)(void *);
    void *arg;
    struct sigaction old_int, old_term;
} larder__stop;

/* Must stay where it is until closed: the handler knows its address. */
int larder__stop_open(larder__stop *);
/* The same without a thread: nobody is told, larder__stop_code has to be asked. */
void larder__stop_note(larder__stop *);
/* While a data set is being opened, which may take long where it is far away, there is nothing to
 * end in order yet: the first signal says `words` (a line, kept by the caller) and ends the
 * program. NULL: from here on there is. */
void larder__stop_early(larder__stop *, const char *words);
/* Who is told; NULL: nobody any more. Told at once if a signal has come already. */
void larder__stop_tell(larder__stop *, void (*ask)(void *), void *arg);
void larder__stop_close(larder__stop *);
/* 0, or the exit code the signal asks for: 130 for SIGINT. */
int larder__stop_code(larder__stop *);

#endif
