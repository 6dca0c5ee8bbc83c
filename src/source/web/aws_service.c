/* Short questions to a service on this machine or right beside it. */
#include "source/web/aws_given.h"

#include "base/err.h"

#if LARDER_HAVE_CURL

#include "base/clock.h"
#include "source/web/web_inside.h"

#include <string.h>

enum { TRIES = 3 };
static const double pause_between = 0.2; /* seconds */

typedef struct room {
    char *at;
    size_t n, cap;
} room;

static size_t take(char *bytes, size_t one, size_t n, void *arg) {
    room *r = arg;
    (void)one;
    if (n > r->cap - 1 - r->n)
        return 0;
    memcpy(r->at + r->n, bytes, n);
    r->n += n;
    return n;
}

static bool add(struct curl_slist **list, const char *header) {
    struct curl_slist *more = header ? curl_slist_append(*list, header) : *list;
    if (more)
        *list = more;
    return more || !header;
}

/* The status, or 0 and what curl says of it. */
static long exchange(CURL *c, const larder__service_ask *a, struct curl_slist *headers, room *to,
                     char says[CURL_ERROR_SIZE]) {
    long status = 0;
    says[0] = 0;
    to->n = 0;
    curl_easy_reset(c);
    curl_easy_setopt(c, CURLOPT_URL, a->url);
    curl_easy_setopt(c, CURLOPT_NOPROXY, "*");
    curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT_MS, 1000L);
    curl_easy_setopt(c, CURLOPT_TIMEOUT_MS, 5000L);
    curl_easy_setopt(c, CURLOPT_ERRORBUFFER, says);
    curl_easy_setopt(c, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, take);
    curl_easy_setopt(c, CURLOPT_WRITEDATA, to);
    curl_easy_setopt(c, CURLOPT_USERAGENT, "larder/" LARDER_VERSION);
    if (a->put)
        curl_easy_setopt(c, CURLOPT_CUSTOMREQUEST, "PUT");
    CURLcode rc = curl_easy_perform(c);
    if (rc == CURLE_OK)
        curl_easy_getinfo(c, CURLINFO_RESPONSE_CODE, &status);
    else if (!says[0])
        snprintf(says, CURL_ERROR_SIZE, "%s", curl_easy_strerror(rc));
    to->at[to->n] = 0;
    return status;
}

static int ask(CURL *c, const larder__service_ask *a, struct curl_slist *headers, room *to) {
    char says[CURL_ERROR_SIZE];
    for (int i = 0;; i++) {
        long status = exchange(c, a, headers, to, says);
        if (status == 200)
            return strlen(to->at) == to->n ? 0 : larder__fail(LARDER_E_IO, "its answer is no text");
        if (status == 404)
            return LARDER__SERVICE_MISSING;
        if (status && status < 500 && status != 429)
            return larder__fail(LARDER_E_IO, "the service refused (%ld)", status);
        if (i + 1 == TRIES)
            return status ? larder__fail(LARDER_E_IO, "the service failed (%ld)", status)
                          : larder__fail(LARDER_E_IO, "no answer: %.150s", says);
        larder__sleep_until(larder__now() + pause_between);
    }
}

int larder__service_get(const larder__service_ask *a, char *out, size_t cap) {
    struct curl_slist *headers = NULL;
    room to = {out, 0, cap};
    int rc = larder__web_begin();
    if (rc < 0)
        return rc;
    CURL *c = curl_easy_init();
    rc = c && add(&headers, a->put) && add(&headers, a->header)
             ? ask(c, a, headers, &to)
             : larder__fail(LARDER_E_NOMEM, "no memory for libcurl");
    curl_slist_free_all(headers);
    if (c)
        curl_easy_cleanup(c);
    return rc;
}

#else

int larder__service_get(const larder__service_ask *a, char *out, size_t cap) {
    (void)a, (void)out, (void)cap;
    return larder__fail(LARDER_E_UNSUPPORTED, "this build has no libcurl");
}

#endif
