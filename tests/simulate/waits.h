/* Waiting for several descriptors of the made world at once, as epoll and poll do, and events that
 * one rings for those who wait. */
#ifndef LARDER_SIMULATE_WAITS_H
#define LARDER_SIMULATE_WAITS_H

#include "actors.h"

#include <poll.h>
#include <sys/epoll.h>

int waits_epoll(void);
int waits_epoll_ctl(int epoll, int what, int fd, const struct epoll_event *); /* -1 and errno */
int waits_epoll_wait(int epoll, struct epoll_event *, int most, int milliseconds);
int waits_poll(struct pollfd *, size_t n, double until);
void waits_watch(int fd, const void *on); /* whoever waits on that is woken by what comes */

int waits_event(void);
void waits_ring(int fd);
bool waits_rung(int fd); /* and from now on it is not */

void waits_forget(int fd); /* for what can be waited for: it is closed, nobody does any more */

#endif
