/* What processes of the made world reach each other by: streams that keep their order, take their
 * time and may be cut, and carry memory along (passed_memory.h); a lock by name. */
#ifndef LARDER_SIMULATE_WIRES_H
#define LARDER_SIMULATE_WIRES_H

#include "actors.h"

#include <sys/socket.h>

typedef struct wires_weather { /* how the network is now; seconds, bytes */
    double least, most;        /* of a message's way */
    uint64_t slow_in;          /* one message in so many takes much longer; 0: none */
    double slow;
    size_t room; /* bytes that a stream holds before its sender has to wait */
} wires_weather;
extern wires_weather wires_now;

void wires_begin(void);

int wires_socket(bool nonblocking);
int wires_listen(int fd, const char *name); /* 0, or -1 and errno, as all that follow */
int wires_connect(int fd, const char *name);
int wires_accept(int listener, bool nonblocking);
enum { WIRES_BUFFERED = 1 << 30 }; /* a flag: of whoever keeps what is not taken yet */
ssize_t wires_send(int fd, const struct msghdr *, int flags);
ssize_t wires_receive(int fd, struct msghdr *, int flags);
bool wires_readable(int fd);
double wires_readable_at(int fd); /* NEVER: nothing is on its way */
void wires_timeouts(int fd, double receive, double send);
void wires_shutdown(int fd);
uint32_t wires_peer(int fd); /* the process at the other end */

int wires_lock_file(void);
bool wires_lock(int fd); /* the one there is; false: another process has it */

/* Cuts some connection: both ends notice, and what was under way is lost, or not all of it. A
 * connection of this process if it is not NULL. False: there is none. */
bool wires_cut(const actor_process *);
uint32_t wires_given_up(const actor_process *); /* connections that it shut and still has */
void wires_hasten(void); /* what is under way arrives soon, however slow it was */

#endif
