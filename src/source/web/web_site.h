/* A site that requests go to: a web server, or a bucket of S3 or of Google, whose storage speaks
 * the same protocol. Knows how an object's URL is written, which headers a request carries, and how
 * to speak of it without giving anything away. */
#ifndef LARDER_SOURCE_WEB_SITE_H
#define LARDER_SOURCE_WEB_SITE_H

#include "source/web/sigv4.h"

#include <stdint.h>

typedef struct larder__web_site larder__web_site;

typedef struct larder__http_conf { /* names of environment variables, "": none */
    const char *bearer;            /* holds a token */
    const char *query;             /* holds what goes behind every URL, or a URL that has it */
} larder__http_conf;

/* "http" or "https", and "//host:port/path": *key is what follows the host, unescaped, without the
 * first '/'; free it with larder__free. */
int larder__web_site_http(larder__web_site **out, char **key, const char *scheme, const char *where,
                          const larder__http_conf *);

typedef struct larder__s3_conf {
    const char *profile, *region, *endpoint; /* "": as the environment and files say */
    const char *style;                       /* "auto", "virtual" or "path" */
    bool anonymous;
    bool google;        /* gs: its server and keys, unless said otherwise */
    const char *bearer; /* as in larder__http_conf; NULL: none */
} larder__s3_conf;

/* "//bucket/key" */
int larder__web_site_s3(larder__web_site **out, char **key, const char *where,
                        const larder__s3_conf *);
void larder__web_site_close(larder__web_site **);

bool larder__web_site_is_s3(const larder__web_site *);
/* Its URLs carry a query of their own, which as a rule was signed for GET and nothing else. */
bool larder__web_site_is_signed(const larder__web_site *);
/* "http://host/" or "s3://bucket/", for people; an object's key may follow. */
const char *larder__web_site_shown(const larder__web_site *);

typedef struct larder__dressed { /* a request as it is sent */
    larder__text url;
    larder__text headers[LARDER__SIGNED_HEADERS + 2]; /* "name: value" */
    size_t header_count;
    uint64_t signer; /* which credentials it was signed with; 0: none */
} larder__dressed;

/* `range`: "bytes=0-9" or "". `redirect`: another URL to ask at, "" for none. */
int larder__web_site_dress(larder__web_site *, larder__dressed *, const char *method,
                           const char *key, const larder__pair *query, size_t query_count,
                           const char *range, const char *redirect);
void larder__dressed_free(larder__dressed *);

/* S3 said that the credentials have expired, or that the bucket lies in another region: is there
 * anything new, so that another try makes sense? */
bool larder__web_site_renew(larder__web_site *, uint64_t signer);
/* May there be something new later? */
bool larder__web_site_may_renew(const larder__web_site *);
bool larder__web_site_move(larder__web_site *, const char *region);
/* May a request be sent on to this URL, credentials and all? */
bool larder__web_site_trusts(larder__web_site *, const char *url);
/* Do its credentials end some day? */
bool larder__web_site_has_session(larder__web_site *);
/* A hint to put behind a refusal: who asked? */
const char *larder__web_site_asker(const larder__web_site *);

#endif
