/* The daemon as a job that can be looked at (see/expose.h). Its loop is one thread without locks,
 * so what is shown is a copy that the loop brings up to date a few times a second. */
#ifndef LARDER_DAEMON_SEEN_H
#define LARDER_DAEMON_SEEN_H

#include "daemon/status.h"
#include "see/expose.h"

typedef struct larder__seen larder__seen;

/* Never fails: NULL where it cannot be shown. */
larder__seen *larder__seen_open(const char *socket);
void larder__seen_close(larder__seen **);
/* By the loop. */
void larder__seen_update(larder__seen *, const larder__status_conf *);

#endif
