/* Requests to one site, many under way at once. A few threads of its own (one as a rule) drive all
 * connections, so that these are shared and kept by whoever reads; callers hand over requests and
 * wait for the answers.
 *
 * What fails for a moment is tried again, later and later. An answer is taken only if it is the one
 * that was asked for: the right bytes of an object that is still the same. */
#ifndef LARDER_SOURCE_WEB_H
#define LARDER_SOURCE_WEB_H

#include "base/stat.h"
#include "source/web/web_head.h"
#include "source/web/web_site.h"

typedef struct larder__web larder__web;

typedef struct larder__web_conf {
    uint32_t requests;     /* under way at once */
    uint32_t engines;      /* threads that drive them */
    uint32_t retries;      /* tries after the first one */
    double backoff;        /* seconds before the second try, doubled from try to try */
    double connect, stall; /* seconds: until connected; without a byte */
    const char *ca;        /* file of certificates to trust, NULL: the system's; copied */
} larder__web_conf;

typedef struct larder__web_piece { /* bytes of the body that somebody wants */
    uint64_t at;
    size_t n;
    unsigned char *to;
} larder__web_piece;

typedef struct larder__web_request {
    /* What is asked for. */
    const char *key; /* of the object; not escaped, no '/' in front */
    const larder__pair *query;
    size_t query_count;
    bool head;            /* only what its head says */
    bool ranged;          /* bytes from .. from + bytes - 1 */
    uint64_t from, bytes; /* bytes: of the body, LARDER__BYTES_UNKNOWN: whatever comes */
    uint64_t object;      /* bytes of the whole object; LARDER__BYTES_UNKNOWN: not known */
    uint64_t tag;         /* what it must be; 0: not known */
    const larder__web_piece *pieces; /* in order, not overlapping; the rest is dropped */
    size_t piece_count;
    size_t most; /* no pieces: all of the body comes as text of at most so many bytes */
    /* The answer. */
    int code; /* 0 or negative, with a sentence that names the URL */
    char why[256];
    larder__web_head answer;
    larder__text text; /* the caller frees it */
    /* The engine's. */
    struct larder__web_request *next;
    struct larder__web_call *call;
    struct larder__web_try *try;
    uint32_t tries;
    double due; /* not before this time */
    double begun;
    char redirect[1024]; /* S3: ask there instead */
    uint32_t redirects;
} larder__web_request;

enum { /* what is counted, handles in `stats` are in this order */
       LARDER__WEB_REQUESTS,
       LARDER__WEB_RETRIES,
       LARDER__WEB_BYTES,
       LARDER__WEB_CONNECTIONS,
       LARDER__WEB_LATENCY,
       LARDER__WEB_STATS
};

/* Takes over the site, also on failure. E_UNSUPPORTED in a build without libcurl. */
int larder__web_open(larder__web **out, larder__web_site *, const larder__web_conf *);
void larder__web_close(larder__web **);
/* All of them, answered; any thread. */
void larder__web_run(larder__web *, larder__web_request *, size_t n);
/* What is under way or comes later ends at once with E_CANCELLED; any thread. */
void larder__web_interrupt(larder__web *);
larder__web_site *larder__web_site_of(larder__web *);
int larder__web_stat(larder__web *, int which, larder_stat_value *out);

#endif
