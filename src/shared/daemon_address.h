/* Where a daemon is found, and whether the one that answers there may be believed.
 *
 * Whoever listens on a socket gets to see which samples a job reads and hands out the memory it
 * reads them in, so a job talks to its own user's daemons, to root's, and to those of a user it was
 * told to trust (owner=). The usual socket lies in a folder that nobody else can write to: others
 * cannot even take its name. */
#ifndef LARDER_SHARED_DAEMON_ADDRESS_H
#define LARDER_SHARED_DAEMON_ADDRESS_H

#include <larder/larder.h>

typedef struct larder__door {
    char path[108]; /* of a socket */
    uint32_t owner; /* a user that is trusted besides oneself and root; 0: none */
    bool usual;     /* in a folder that the first who serves there makes */
} larder__door;

/* The usual one: $LARDER_SOCKET (PATH or PATH?owner=USER), or larder.sock in $XDG_RUNTIME_DIR if
 * that is a folder for this user alone, or else in /tmp/larder-UID, which has to be one. `make`:
 * that folder is made where there is none. */
int larder__door_usual(larder__door *out, bool make);
/* At a path that is known to fit. */
larder__door larder__door_at(const char *path);
/* A user's number, by name or number. */
int larder__door_owner(const char *user, uint32_t *out);
/* Whose is what a connected socket leads to? E_ARGS: of somebody who is not trusted. */
int larder__door_check(int fd, const char *path, uint32_t owner);

#endif
