/* Ctrl-C: the handler of SIGINT and SIGTERM only posts a semaphore, and a thread that waits for it
 * asks the run to end after its batch, so that asking may take locks. A second signal ends the
 * program at once. One at a time, since signals belong to the process. */
#ifndef LARDER_CLI_STOP_H
#define LARDER_CLI_STOP_H

int larder__stop_open(void);
/* Who is told; NULL: nobody any more. Told at once if a signal has come already. */
void larder__stop_tell(void (*ask)(void *), void *arg);
/* Puts the old handlers back. 0, or the exit code the signal asks for: 130 for SIGINT. */
int larder__stop_close(void);

#endif
