/* What an answer means. Everything that can go wrong with a request gets its sentence here. */
#include "source/web/web.h"

#if LARDER_HAVE_CURL
#include "source/web/web_inside.h"

#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

int larder__web_answer_said(larder__web_request *r, const larder__web_site *site, int code) {
    size_t n = strlen(r->key), cut = n > 100 ? n - 97 : 0;
    larder__say_before("%.60s%s%s", larder__web_site_shown(site), cut ? "…" : "", r->key + cut);
    snprintf(r->why, sizeof r->why, "%.*s", (int)sizeof r->why - 1, larder_errmsg());
    r->code = code;
    return code;
}

/* ---- the head -------------------------------------------------------------------------------- */

static bool refuse(larder__web_try *t, int code) {
    t->verdict = code;
    return false;
}

static bool has_changed(larder__web_try *t, const larder__web_site *site, uint64_t now) {
    const larder__web_request *r = t->request;
    return refuse(t, larder__web_answer(t->request, site, LARDER_E_CHANGED,
                                        "had %llu bytes and has %llu now; it was changed while in "
                                        "use",
                                        (unsigned long long)r->object, (unsigned long long)now));
}

/* Of an answer that is good news by its status. */
bool larder__web_check_head(larder__web_try *t, const larder__web_site *site) {
    larder__web_request *r = t->request;
    const larder__web_head *h = &t->head;
    uint64_t last = r->from + r->bytes - 1;
    t->checked = true;
    bool whole = h->status == 200 && (!r->ranged || (r->from == 0 && h->length == r->bytes));
    uint64_t total = whole ? h->length : h->total;
    if (larder__tags_differ(r->tag, h->tag))
        return refuse(t, larder__web_answer(r, site, LARDER_E_CHANGED,
                                            "is not what it was when it was first seen (its %s "
                                            "differs); it was changed while in use",
                                            h->tag & 1 ? "ETag" : "date"));
    if (r->object != LARDER__BYTES_UNKNOWN && total != LARDER__BYTES_UNKNOWN && total != r->object)
        return has_changed(t, site, total);
    if (whole)
        return true;
    if (h->status == 200)
        return refuse(t, larder__web_answer(r, site, LARDER_E_UNSUPPORTED,
                                            "the server does not give parts of a file (it ignores "
                                            "Range), which reading from shards needs"));
    if (!r->ranged || !h->ranged || h->first != r->from || h->last != last)
        return refuse(t, larder__web_answer(r, site, LARDER_E_FORMAT,
                                            "the server gave other bytes than it was asked for"));
    return true;
}

/* ---- by status ------------------------------------------------------------------------------- */

static bool is(const char *code, const char *name) { return strcmp(code, name) == 0; }

/* The answer to a HEAD has no body to say why. */
static bool is_unsaid(const larder__web_try *t, const char *code) {
    return t->request->head && !code[0] && (t->head.status == 400 || t->head.status == 403);
}

static larder__web_outcome say_skewed(larder__web_try *t, const larder__web_site *site) {
    long long off = t->head.date ? (long long)time(NULL) - (long long)t->head.date : 0;
    larder__web_answer(t->request, site, LARDER_E_IO,
                       "refused: this machine's clock is %lld seconds %s the server's, and "
                       "signatures hold for 15 minutes; set the clock",
                       off < 0 ? -off : off, off < 0 ? "behind" : "ahead of");
    return LARDER__WEB_FAILED;
}

static larder__web_outcome redirected(larder__web_try *t, larder__web_site *site, double *wait) {
    larder__web_request *r = t->request;
    *wait = -1;
    if (++r->redirects > LARDER__WEB_REDIRECTS) {
        larder__web_answer(r, site, LARDER_E_IO, "redirected more than %d times",
                           LARDER__WEB_REDIRECTS);
        return LARDER__WEB_FAILED;
    }
    if (larder__web_site_move(site, t->head.region)) {
        r->redirect[0] = 0;
        return LARDER__WEB_AGAIN;
    }
    if (!larder__web_site_trusts(site, t->head.location)) {
        larder__web_answer(r, site, LARDER_E_IO,
                           "redirected %s%.80s; region= or endpoint= says where the bucket is",
                           t->head.location[0] ? "to another site, which gets no signed request: "
                                               : "without a place to go to",
                           t->head.location);
        return LARDER__WEB_FAILED;
    }
    snprintf(r->redirect, sizeof r->redirect, "%s", t->head.location);
    return LARDER__WEB_AGAIN;
}

static bool is_passing(int status, const char *code) {
    return status == 408 || status == 425 || status == 429 || status == 500 || status == 502 ||
           status == 503 || status == 504 || is(code, "RequestTimeout") || is(code, "SlowDown") ||
           is(code, "InternalError");
}

static int code_of_status(int status) {
    return status == 404 || status == 410                    ? LARDER_E_NOTFOUND
           : status == 412 || status == 416                  ? LARDER_E_CHANGED
           : status == 501 || status == 505 || status == 405 ? LARDER_E_UNSUPPORTED
                                                             : LARDER_E_IO;
}

static const char *meaning(int status) {
    switch (status) {
    case 401:
    case 403:
        return "access is denied";
    case 404:
    case 410:
        return "there is no such object";
    case 412:
    case 416:
        return "it was changed while in use";
    case 429:
    case 503:
        return "the server is overloaded";
    default:
        return status >= 500 ? "the server failed" : "the server refused";
    }
}

/* What to do about it, where the server's own words do not say so. */
static const char *hint(const larder__web_try *t, larder__web_site *site, const char *code) {
    static const struct {
        const char *code, *says;
    } known[] = {{"ExpiredToken", "; renew the credentials"},
                 {"TokenRefreshRequired", "; renew the credentials"},
                 {"SignatureDoesNotMatch", "; the secret key is not the one of this key id"},
                 {"InvalidAccessKeyId", "; the server does not know this key id"}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (is(code, known[i].code))
            return known[i].says;
    int status = t->head.status;
    if (is_unsaid(t, code) && larder__web_site_has_session(site))
        return "; has the session expired?";
    return status == 401 || status == 403 ? larder__web_site_asker(site) : "";
}

/* A way on that needs no waiting: other credentials, another region, another place. */
static bool goes_on(larder__web_try *t, larder__web_site *site, const char *code, bool expired,
                    larder__web_outcome *out, double *wait) {
    larder__web_request *r = t->request;
    const larder__web_head *h = &t->head;
    if ((expired || is_unsaid(t, code)) && r->redirects < LARDER__WEB_REDIRECTS &&
        larder__web_site_renew(site, t->dressed.signer)) {
        r->redirects++;
        *wait = -1;
        *out = LARDER__WEB_AGAIN;
        return true;
    }
    if (!larder__web_site_is_s3(site) ||
        (h->status / 100 != 3 && !is(code, "AuthorizationHeaderMalformed") &&
         (h->status != 400 || !h->region[0] || r->redirects > 0)))
        return false;
    *out = redirected(t, site, wait);
    return true;
}

static larder__web_outcome judge_status(larder__web_try *t, larder__web_site *site, double *wait) {
    larder__web_head *h = &t->head;
    larder__s3_error said = {0};
    larder__web_outcome out;
    if (larder__web_site_is_s3(site))
        larder__s3_error_parse(t->error_body, t->error_size, &said);
    if (!h->region[0])
        memcpy(h->region, said.region, sizeof h->region);
    if (is(said.code, "RequestTimeTooSkewed"))
        return say_skewed(t, site);
    bool expired = is(said.code, "ExpiredToken") || is(said.code, "TokenRefreshRequired");
    if (goes_on(t, site, said.code, expired, &out, wait))
        return out;
    larder__web_answer(t->request, site, code_of_status(h->status), "%s (%d%s%s)%s%s%s",
                       is(said.code, "NoSuchBucket") ? "there is no such bucket"
                                                     : meaning(h->status),
                       h->status, said.code[0] ? " " : "", said.code, hint(t, site, said.code),
                       said.message[0] ? ": " : "", said.message);
    *wait = h->retry_after;
    return is_passing(h->status, said.code) || (expired && larder__web_site_may_renew(site))
               ? LARDER__WEB_AGAIN
               : LARDER__WEB_FAILED;
}

/* ---- by what the connection did -------------------------------------------------------------- */

static int host_size(const char *url, const char **host) {
    const char *at = url ? strstr(url, "://") : NULL;
    *host = at ? at + 3 : "the server";
    return (int)strcspn(*host, "/");
}

static void say_timeout(larder__web_try *t, const larder__web_site *site, const char *host,
                        int size) {
    curl_off_t connected = 0;
    curl_easy_getinfo(t->easy, CURLINFO_PRETRANSFER_TIME_T, &connected);
    if (connected == 0)
        larder__web_answer(t->request, site, LARDER_E_IO, "no connection to %.*s in time", size,
                           host);
    else if (t->dripped)
        larder__web_answer(t->request, site, LARDER_E_IO,
                           "the server sends too slowly: %llu bytes came, less than %d of them "
                           "in the last two times stall=",
                           (unsigned long long)t->body, LARDER__WEB_LITTLE);
    else
        larder__web_answer(t->request, site, LARDER_E_IO,
                           "the server stopped sending after %llu bytes",
                           (unsigned long long)t->body);
}

/* libcurl's own words, unless they may repeat an address with a password in it, perhaps cut short:
 * it does that with a proxy's that it does not take. */
static const char *what_curl_says(const larder__web_try *t, CURLcode rc) {
    if (strncasecmp(t->says, "unsupported proxy", 17) == 0)
        return "the proxy that the environment names has no address that libcurl takes";
    bool repeats = strchr(t->says, '@') || strstr(t->says, "://");
    return t->says[0] && !repeats ? t->says : curl_easy_strerror(rc);
}

/* libcurl says so of a line that it has no room for, too (before 8.6). */
static bool broke_in_head(const larder__web_try *t) {
    curl_off_t sent = 0;
    curl_easy_getinfo(t->easy, CURLINFO_PRETRANSFER_TIME_T, &sent);
    return sent > 0 && t->body == 0;
}

static larder__web_outcome say_long_head(larder__web_request *r, const larder__web_site *site) {
    larder__web_answer(r, site, LARDER_E_IO,
                       "a line in the head of the answer is longer than libcurl takes, or memory "
                       "is out");
    return LARDER__WEB_FAILED;
}

static larder__web_outcome judge_failure(larder__web_try *t, const larder__web_site *site,
                                         CURLcode rc) {
    const char *host, *says = what_curl_says(t, rc);
    int size = host_size(t->dressed.url.at, &host);
    larder__web_request *r = t->request;
    switch (rc) {
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
        larder__web_answer(r, site, LARDER_E_IO, "no address is known for %.*s (DNS)", size, host);
        return LARDER__WEB_AGAIN;
    case CURLE_COULDNT_CONNECT:
        larder__web_answer(r, site, LARDER_E_IO, "no connection to %.*s: %s", size, host, says);
        return LARDER__WEB_AGAIN;
    case CURLE_OPERATION_TIMEDOUT:
        say_timeout(t, site, host, size);
        return LARDER__WEB_AGAIN;
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
        larder__web_answer(r, site, LARDER_E_IO,
                           "TLS: the certificate of %.*s is not trusted: %.60s; ca=FILE names "
                           "others to trust",
                           size, host, says);
        return LARDER__WEB_FAILED;
    case CURLE_TOO_MANY_REDIRECTS:
        larder__web_answer(r, site, LARDER_E_IO, "redirected more than %d times",
                           LARDER__WEB_REDIRECTS);
        return LARDER__WEB_FAILED;
#if LIBCURL_VERSION_NUM >= 0x080600
    case CURLE_TOO_LARGE:
        return say_long_head(r, site);
#endif
    case CURLE_OUT_OF_MEMORY:
        if (broke_in_head(t))
            return say_long_head(r, site);
        larder__web_answer(r, site, LARDER_E_NOMEM, "out of memory");
        return LARDER__WEB_FAILED;
    case CURLE_PARTIAL_FILE:
    case CURLE_RECV_ERROR:
    case CURLE_GOT_NOTHING:
    case CURLE_HTTP2:
    case CURLE_HTTP2_STREAM:
        larder__web_answer(r, site, LARDER_E_IO, "the answer broke off after %llu bytes",
                           (unsigned long long)t->body);
        return LARDER__WEB_AGAIN;
    case CURLE_SEND_ERROR:
        larder__web_answer(r, site, LARDER_E_IO, "the connection to %.*s broke", size, host);
        return LARDER__WEB_AGAIN;
    case CURLE_SSL_CONNECT_ERROR:
        larder__web_answer(r, site, LARDER_E_IO, "no TLS connection to %.*s%s: %.80s", size, host,
                           strstr(says, "wrong version") ? " (does it speak plain http?)" : "",
                           says);
        return LARDER__WEB_AGAIN;
    default:
        larder__web_answer(r, site, LARDER_E_IO, "%s", says);
        return LARDER__WEB_FAILED;
    }
}

/* One byte of an object tells its size as a HEAD does; an object without one has none to give. */
static bool probe_answered(larder__web_try *t, CURLcode rc) {
    larder__web_head *h = &t->head;
    if (h->status == 416 && rc == CURLE_OK) {
        h->status = 200;
        h->length = 0;
    } else if (h->status == 206 && h->ranged && rc == CURLE_OK) {
        h->status = 200;
        h->length = h->total;
    }
    return h->status == 200 && (rc == CURLE_OK || rc == CURLE_WRITE_ERROR);
}

larder__web_outcome larder__web_judge(larder__web_try *t, larder__web_site *site, CURLcode rc,
                                      double *wait) {
    larder__web_request *r = t->request;
    const larder__web_head *h = &t->head;
    r->answer = *h;
    *wait = 0;
    if (t->probe && probe_answered(t, rc))
        rc = CURLE_OK;
    bool good = h->status == 200 || h->status == 206;
    if (t->verdict == 0 && rc == CURLE_OK && good && !t->checked)
        larder__web_check_head(t, site);
    if (t->verdict < 0)
        return LARDER__WEB_FAILED;
    if (rc == CURLE_WRITE_ERROR && h->status && !good)
        rc = CURLE_OK; /* its page was too long to hear out; the status said it */
    if (rc != CURLE_OK)
        return judge_failure(t, site, rc);
    if (!good)
        return judge_status(t, site, wait);
    if (!r->head && r->bytes != LARDER__BYTES_UNKNOWN && t->body < r->bytes) {
        larder__web_answer(r, site, LARDER_E_IO, "the answer ended after %llu of %llu bytes",
                           (unsigned long long)t->body, (unsigned long long)r->bytes);
        return LARDER__WEB_AGAIN;
    }
    r->answer = *h;
    r->code = 0;
    r->why[0] = 0;
    return LARDER__WEB_DONE;
}

#endif
