/* The daemon as a job that can be looked at (see/expose.h). Its loop is one thread without locks,
 * so what is shown is a copy that the loop brings up to date a few times a second. */
#ifndef LARDER_UNIX_SERVER_SHOWN_H
#define LARDER_UNIX_SERVER_SHOWN_H

#include "see/expose.h"
#include "unix/status.h"

typedef struct larder__server_shown larder__server_shown;

/* Never fails: NULL where it cannot be shown. */
larder__server_shown *larder__server_shown_open(const char *socket);
void larder__server_shown_close(larder__server_shown **);
/* By the loop. */
void larder__server_shown_update(larder__server_shown *, const larder__status_conf *);

#endif
