/* The page, its data and the metrics over HTTP: one thread, one loop, nothing to write to. It looks
 * at the jobs once a second, so that any number of readers costs them nothing more. */
#ifndef LARDER_SEE_HTTP_SERVER_H
#define LARDER_SEE_HTTP_SERVER_H

#include <larder/larder.h>

typedef struct larder__http larder__http;

typedef struct larder__http_server_conf {
    const char *address; /* "127.0.0.1:7433", "[::1]:0", "localhost:80"; port 0: any that is free */
    const char *token;   /* to be shown by who asks for data; NULL: none on this machine alone, and
                            one is made up for any other address */
} larder__http_server_conf;

/* E_ARGS: the address or token makes no sense; E_STATE: the port is taken. */
int larder__http_open(larder__http **out, const larder__http_server_conf *);
void larder__http_close(larder__http **);
/* Where to look, token included: "http://127.0.0.1:7433/". */
const char *larder__http_url(const larder__http *);
/* Serves until larder__http_stop, which any thread or signal handler may call. */
int larder__http_run(larder__http *);
void larder__http_stop(larder__http *);

#endif
