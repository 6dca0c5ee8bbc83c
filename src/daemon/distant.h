/* Clients on other machines: they come by TCP and begin with a token, and since they cannot map the
 * daemon's memory, bytes go over the socket. */
#ifndef LARDER_DAEMON_DISTANT_H
#define LARDER_DAEMON_DISTANT_H

#include "daemon/server_inside.h"

/* "127.0.0.1:7070", "[::1]:7070", "0.0.0.0:0": a socket that listens there. */
int larder__distant_listen(int *fd, const char *where);
uint16_t larder__distant_port(int fd);

/* The first message of such a client. */
int larder__distant_token(larder__server *, larder__client *, larder_reader *);
/* Before tickets are sent: those whose bytes would make the answer too long become "make it
 * yourself". The first `rows` are wanted, the rest was brought in besides. */
void larder__distant_trim(larder__client *, larder__wire_ticket *, size_t rows, size_t besides);
/* After they are sent: the bytes of the first `rows` that are there, a VALUE each. */
int larder__distant_values(larder__server *, larder__client *, const larder__wire_ticket *,
                           size_t rows);
/* Bytes that the client has made; bytes that another job was making when it asked. */
int larder__distant_fill(larder__client *, larder_reader *);
int larder__distant_bytes(larder__server *, larder__client *, larder_reader *);

#endif
