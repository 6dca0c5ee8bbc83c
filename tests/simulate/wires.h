/* What processes of the made world reach each other by: streams that keep their order, take their
 * time and may be cut; memory that is passed along; a lock by name. Descriptors are numbers of this
 * world alone. */
#ifndef LARDER_SIMULATE_WIRES_H
#define LARDER_SIMULATE_WIRES_H

#include "actors.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>

typedef struct wires_weather { /* how the network is now; seconds, bytes */
    double least, most;        /* of a message's way */
    uint64_t slow_in;          /* one message in so many takes much longer; 0: none */
    double slow;
    size_t room;     /* bytes that a stream holds before its sender has to wait */
    bool memory_out; /* no shared memory is given */
} wires_weather;
extern wires_weather wires_now;

void wires_begin(void);
void wires_end(void);
bool wires_is(int fd);
int wires_again(int fd); /* another descriptor of the same */

int wires_socket(bool nonblocking);
int wires_listen(int fd, const char *name); /* 0, or -1 and errno, as all that follow */
int wires_connect(int fd, const char *name);
int wires_accept(int listener, bool nonblocking);
enum { WIRES_BUFFERED = 1 << 30 }; /* a flag: of whoever keeps what is not taken yet */
ssize_t wires_send(int fd, const struct msghdr *, int flags);
ssize_t wires_receive(int fd, struct msghdr *, int flags);
bool wires_readable(int fd);
double wires_readable_at(int fd);         /* NEVER: nothing is on its way */
void wires_watch(int fd, const void *on); /* whoever waits on that is woken by what comes */
int wires_poll(struct pollfd *, size_t n, double until);
void wires_timeouts(int fd, double receive, double send);
void wires_shutdown(int fd);
int wires_close(int fd);

int wires_epoll(void);
int wires_epoll_ctl(int epoll, int what, int fd, const struct epoll_event *);
int wires_epoll_wait(int epoll, struct epoll_event *, int most, int milliseconds);
int wires_event(void);
void wires_ring(int fd);
bool wires_rung(int fd); /* and from now on it is not */

int wires_memory(void);
int wires_memory_size(int fd, size_t bytes);
size_t wires_memory_bytes(int fd);
void *wires_map(int fd, size_t bytes);
int wires_unmap(void *, size_t bytes);
int wires_lock_file(void);
bool wires_lock(int fd); /* the one there is; false: another process has it */

/* Cuts some connection: both ends notice, and what was under way is lost, or not all of it. A
 * connection of this process if it is not NULL. False: there is none. */
bool wires_cut(const actor_process *);
void wires_hasten(void); /* what is under way arrives soon, however slow it was */
uint32_t wires_open_of(const actor_process *);   /* descriptors that it has not closed */
uint32_t wrapped_open_of(const actor_process *); /* and what hiredis gave; wrapped.c */
extern double wrapped_date;                      /* seconds that the date is off; wrapped.c */

#endif
