/* One HTTP request, as far as a page that only shows needs it. Bytes come from anywhere: bounded,
 * no body, and what is not understood is refused. */
#ifndef LARDER_SEE_HTTP_REQUEST_H
#define LARDER_SEE_HTTP_REQUEST_H

#include <stdbool.h>
#include <stddef.h>

enum { LARDER__HTTP_HEAD = 8192 }; /* bytes of a request at most */

typedef struct larder__http_request {
    char method[8], path[64];
    char host[128];
    char token[128];  /* of "?token=" or "Authorization: Bearer" */
    bool named;       /* a host was given, which only HTTP/1.0 may leave out */
    bool head, again; /* HEAD: no body wanted; the connection stays for another one */
} larder__http_request;

/* 0: there is more to come; the status to refuse with, 400 to 505; or 200 and `used` bytes were the
 * request. */
int larder__http_parse(larder__http_request *, const char *bytes, size_t n, size_t *used);

/* May this be asked of a server that is meant for this machine alone? A page from elsewhere can
 * send a browser here under a name of its own. A name of this machine, and a port or nothing. */
bool larder__http_host_is_local(const char *host);
/* Equal, in a time that does not tell how much of it is. */
bool larder__token_equal(const char *a, const char *b);

#endif
