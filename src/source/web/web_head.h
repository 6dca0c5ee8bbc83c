/* The head of an answer, line by line as it comes: status and what of the headers is of use. */
#ifndef LARDER_SOURCE_WEB_HEAD_H
#define LARDER_SOURCE_WEB_HEAD_H

#include "source/web/listed.h"

#include <time.h>

typedef struct larder__web_head {
    int status;                  /* 0: none yet */
    uint64_t length;             /* of the body; LARDER__BYTES_UNKNOWN: not said */
    bool framed;                 /* where the body ends is said: a cut is seen */
    bool ranged;                 /* a Content-Range was given: bytes first..last of total */
    uint64_t first, last, total; /* total: LARDER__BYTES_UNKNOWN: not said */
    uint64_t tag;                /* of ETag, or else of Last-Modified; 0: neither */
    double retry_after;          /* seconds; 0: not said */
    time_t date;                 /* the server's clock; 0: not said */
    char region[64];             /* x-amz-bucket-region */
    char location[1024];         /* of a redirect */
} larder__web_head;

/* One line, with or without its end. A status line begins a new head (one of a redirect, or
 * "100 Continue", comes before the one that counts). `now`: for a Retry-After that is a date. */
void larder__web_head_line(larder__web_head *, const char *line, size_t n, time_t now);

#endif
