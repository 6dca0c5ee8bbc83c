/* Waiting at the start for somebody who may still be coming: a daemon, a server. */
#ifndef LARDER_BASE_AWAIT_H
#define LARDER_BASE_AWAIT_H

#include <stdbool.h>

typedef struct larder__await {
    double seconds;           /* how long to look; 0: once */
    bool go_on;               /* where nobody came: without them; else it is an error */
    bool (*still)(void *arg); /* asked meanwhile; false: whoever opens gives up. NULL: never */
    void *arg;
} larder__await;

enum { LARDER__ABSENT = 1 };

/* Has whoever opens not given up? NULL: nobody can. To be asked often by an attempt that takes a
 * while, which ends with larder__await_given_up() if so. */
bool larder__await_still(const larder__await *);
int larder__await_given_up(void);

/* "30s" behind wait=, "fail" or "go-on" behind absent=; false: neither. */
bool larder__await_seconds(const char *text, larder__await *);
bool larder__await_absent(const char *text, larder__await *);
#define LARDER__AWAIT_SECONDS "wait=30s, at most a day: how long to look for it; 0: once"
#define LARDER__AWAIT_ABSENT "absent=go-on or absent=fail: what to do where it has not come by then"
/* Unless said: as long as a restart takes. Whoever goes on without it looks for it again anyhow. */
#define LARDER__AWAIT_UNLESS_SAID ((larder__await){.seconds = 5, .go_on = true})

/* Calls `attempt` until it answers something else than E_IO, which says that nobody is there; that
 * is the answer. ABSENT: nobody came, larder_errmsg() says why, and we go on without them. */
int larder__await_there(const larder__await *, int (*attempt)(void *arg), void *arg);

#endif
