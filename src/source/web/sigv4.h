/* Amazon's signature, version 4, of a request without a body: the Authorization header that S3 and
 * whoever speaks it want. */
#ifndef LARDER_SOURCE_SIGV4_H
#define LARDER_SOURCE_SIGV4_H

#include "source/web/web_text.h"

#include <time.h>

typedef struct larder__pair {
    const char *name, *value; /* header: name in lower case; query: both not escaped */
} larder__pair;

enum { LARDER__SIGNED_HEADERS = 8, LARDER__SIGNED_QUERY = 16 }; /* at most */

/* The hash of no bytes, as x-amz-content-sha256 wants it. */
#define LARDER__EMPTY_SHA256 "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

typedef struct larder__sigv4 {
    const char *method, *path; /* path: escaped, begins with '/' */
    const larder__pair *query; /* any order */
    size_t query_count;
    const larder__pair *headers; /* sorted by name; host and x-amz-date among them */
    size_t header_count;
    const char *region, *service; /* "us-east-1", "s3" */
    const char *key, *secret;
    char date[17]; /* "20130524T000000Z", as in x-amz-date */
} larder__sigv4;

void larder__sigv4_date(char out[17], time_t);
/* The value of the Authorization header. E_NOMEM, E_RANGE: more headers or query than there may
 * be. */
int larder__sigv4_sign(const larder__sigv4 *, larder__text *out);
/* "a=1&b=2", escaped and sorted: what is signed is also what has to be sent. */
int larder__sigv4_query(larder__text *out, const larder__pair *, size_t n);

#endif
