#include "source/web/web_site.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "source/web/aws_given.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { HOST_MAX = 300 };
static const double renewed_every = 2;   /* seconds: files are looked at again no more often */
static const double renewed_early = 300; /* seconds before credentials end */
static const char google_endpoint[] = "https://storage.googleapis.com";

struct larder__web_site {
    char *shown;           /* "s3://bucket/" */
    char scheme[9];        /* "https://" */
    char host[HOST_MAX];   /* guarded by lock where the region may change it */
    char prefix[HOST_MAX]; /* "/" or "/bucket/" */
    char *bearer;          /* a whole header, or NULL */
    char *query;           /* goes behind every URL, or NULL */
    bool s3;
    /* S3 and what speaks it alone. */
    bool google;
    char *bucket, *profile;
    bool anonymous, hosted, amazon; /* hosted: the bucket is part of the host's name */
    bool lock_ready;
    pthread_mutex_t lock; /* guards the rest */
    larder__aws_conf aws;
    uint64_t signer; /* goes up when credentials change */
    double renewed;
};

/* ---- URLs ------------------------------------------------------------------------------------ */

static bool host_fits(const char *text, size_t n) {
    static const char fine[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_";
    bool bracket = n && text[0] == '[';
    for (size_t i = 0; i < n; i++)
        if (!text[i] || !(strchr(fine, text[i]) || text[i] == ':' ||
                          (bracket && (text[i] == '[' || text[i] == ']'))))
            return false;
    return n > 0 && n < HOST_MAX / 2;
}

static const char *what_hosts(const char *scheme) {
    return strcmp(scheme, "s3") == 0 || strcmp(scheme, "gs") == 0 ? "bucket" : "host";
}

/* "//host/path": n bytes of a host, and what follows it. A name and password there would end up in
 * logs and reports. */
static int split_host(const char *scheme, const char *where, size_t *n) {
    if (strncmp(where, "//", 2) != 0)
        return larder__fail(LARDER_E_ARGS, "%s: is written with two slashes, as in %s://%s/folder/",
                            scheme, scheme, what_hosts(scheme));
    *n = strcspn(where + 2, "/");
    const char *at = memchr(where + 2, '@', *n);
    if (at)
        return larder__fail(LARDER_E_ARGS,
                            "%s://…%.*s: names and passwords do not go into a URL, which is shown "
                            "and recorded; bearer=VARIABLE takes a token from the environment",
                            scheme, (int)(*n - (size_t)(at - where - 2)), at);
    if (!host_fits(where + 2, *n))
        return larder__fail(LARDER_E_ARGS, "%s:%.*s is not the name of a %s", scheme,
                            (int)(*n < 100 ? *n + 2 : 100), where, what_hosts(scheme));
    return 0;
}

static char *joined(const char *a, const char *b, size_t b_size, const char *c) {
    size_t n = strlen(a) + b_size + strlen(c) + 1;
    char *out = larder__malloc(n);
    if (out)
        snprintf(out, n, "%s%.*s%s", a, (int)b_size, b, c);
    return out;
}

static char *key_of(const char *path, bool escaped) {
    char *key = larder__strdup(path[0] == '/' ? path + 1 : path);
    if (key && escaped)
        key[larder__text_unescape(key, strlen(key), false)] = 0;
    return key;
}

/* ---- open and close -------------------------------------------------------------------------- */

static int take_bearer(larder__web_site *s, const char *variable) {
    const char *token = getenv(variable);
    if (!token || !token[0])
        return larder__fail(LARDER_E_ARGS, "bearer=%.60s: there is no such environment variable",
                            variable);
    for (const char *c = token; *c; c++)
        if ((unsigned char)*c <= ' ' || (unsigned char)*c >= 0x7f)
            return larder__fail(LARDER_E_ARGS, "bearer=%.60s: it holds no token", variable);
    s->bearer = joined("Authorization: Bearer ", token, strlen(token), "");
    return s->bearer ? 0 : LARDER_E_NOMEM;
}

/* What belongs behind the '?' of a URL; a whole URL that was signed will do. */
static int take_query(larder__web_site *s, const char *variable) {
    const char *text = getenv(variable), *mark = text ? strchr(text, '?') : NULL;
    text = mark ? mark + 1 : text;
    if (!text || !text[0])
        return larder__fail(LARDER_E_ARGS, "query=%.60s: %s", variable,
                            mark ? "the URL in it has no query"
                                 : "there is no such environment variable");
    for (const char *c = text; *c; c++)
        if ((unsigned char)*c <= ' ' || (unsigned char)*c >= 0x7f || *c == '#')
            return larder__fail(LARDER_E_ARGS, "query=%.60s: it holds no query of a URL", variable);
    s->query = larder__strdup(text);
    return s->query ? 0 : LARDER_E_NOMEM;
}

int larder__web_site_http(larder__web_site **out, char **key, const char *scheme, const char *where,
                          const larder__http_conf *conf) {
    size_t n = 0;
    *out = NULL;
    *key = NULL;
    int rc = split_host(scheme, where, &n);
    if (rc < 0)
        return rc;
    larder__web_site *s = larder__calloc(1, sizeof *s);
    if (!s)
        return LARDER_E_NOMEM;
    snprintf(s->scheme, sizeof s->scheme, "%s://", scheme);
    snprintf(s->host, sizeof s->host, "%.*s", (int)n, where + 2);
    memcpy(s->prefix, "/", 2);
    s->shown = joined(s->scheme, where + 2, n, "/");
    *key = key_of(where + 2 + n, true);
    rc = s->shown && *key ? 0 : LARDER_E_NOMEM;
    if (rc == 0 && conf->bearer[0])
        rc = take_bearer(s, conf->bearer);
    if (rc == 0 && conf->query[0])
        rc = take_query(s, conf->query);
    if (rc < 0) {
        larder__free(*key);
        *key = NULL;
        larder__web_site_close(&s);
    }
    *out = s;
    return rc;
}

void larder__web_site_close(larder__web_site **ps) {
    larder__web_site *s = *ps;
    *ps = NULL;
    if (!s)
        return;
    if (s->lock_ready)
        pthread_mutex_destroy(&s->lock);
    if (s->bearer)
        explicit_bzero(s->bearer, strlen(s->bearer));
    if (s->query)
        explicit_bzero(s->query, strlen(s->query));
    explicit_bzero(&s->aws, sizeof s->aws);
    larder__free(s->bearer);
    larder__free(s->query);
    larder__free(s->shown);
    larder__free(s->bucket);
    larder__free(s->profile);
    larder__free(s);
}

/* Dots would not fit the certificate's one star, and host names know no capitals. */
static bool fits_host_name(const char *bucket, bool tls) {
    for (const char *c = bucket; *c; c++)
        if ((*c >= 'A' && *c <= 'Z') || *c == '_' || (tls && *c == '.'))
            return false;
    return true;
}

/* With the lock held or before anybody knows the site: host and prefix from what is set. */
static int place_bucket(larder__web_site *s) {
    char endpoint[HOST_MAX];
    const char *told = s->aws.endpoint, *scheme = strstr(told, "://");
    s->amazon = !told[0];
    if (s->amazon)
        snprintf(endpoint, sizeof endpoint, "s3.%.100s.amazonaws.com", s->aws.region);
    else
        snprintf(endpoint, sizeof endpoint, "%.*s", (int)strcspn(scheme ? scheme + 3 : told, "/"),
                 scheme ? scheme + 3 : told);
    memcpy(s->scheme, "https://", 9);
    if (scheme && strncasecmp(told, "http://", 7) == 0)
        memcpy(s->scheme, "http://", 8);
    else if (scheme && strncasecmp(told, "https://", 8) != 0)
        return larder__fail(LARDER_E_ARGS, "endpoint \"%.100s\" is neither http:// nor https://",
                            told);
    if (!host_fits(endpoint, strlen(endpoint)))
        return larder__fail(LARDER_E_ARGS, "endpoint \"%.100s\" is not like http://127.0.0.1:9000",
                            told);
    int n = s->hosted ? snprintf(s->host, sizeof s->host, "%s.%s", s->bucket, endpoint)
                      : snprintf(s->host, sizeof s->host, "%s", endpoint);
    if (n < 0 || (size_t)n >= sizeof s->host)
        return larder__fail(LARDER_E_ARGS, "endpoint \"%.100s\" is too long", told);
    snprintf(s->prefix, sizeof s->prefix, s->hosted ? "/" : "/%s/", s->bucket);
    return 0;
}

/* Keys as they are now. Amazon's ways of getting some are not Google's. */
static int load_keys(const larder__web_site *s, larder__aws_conf *out) {
    return s->google ? larder__gs_conf_load(out, s->profile)
                     : larder__aws_conf_load(out, s->profile);
}

static int given_keys(const larder__web_site *s, larder__aws_conf *out) {
    return s->google ? 0 : larder__aws_given(out);
}

static int settle_s3(larder__web_site *s, const larder__s3_conf *conf) {
    if (strlen(conf->region) >= sizeof s->aws.region ||
        strlen(conf->endpoint) >= sizeof s->aws.endpoint)
        return larder__fail(LARDER_E_ARGS, "region or endpoint is too long");
    memcpy(s->aws.region, conf->region, strlen(conf->region) + 1);
    memcpy(s->aws.endpoint, conf->endpoint, strlen(conf->endpoint) + 1);
    if (s->google && !conf->endpoint[0])
        memcpy(s->aws.endpoint, google_endpoint, sizeof google_endpoint);
    int rc = load_keys(s, &s->aws);
    if (rc == 0 && conf->bearer && conf->bearer[0])
        rc = take_bearer(s, conf->bearer);
    if (rc < 0)
        return rc;
    if (!s->aws.region[0])
        snprintf(s->aws.region, sizeof s->aws.region, s->google ? "auto" : "us-east-1");
    if (!host_fits(s->aws.region, strlen(s->aws.region)))
        return larder__fail(LARDER_E_ARGS, "\"%.60s\" is not the name of a region", s->aws.region);
    bool custom = s->aws.endpoint[0] != 0;
    bool tls = !custom || strncasecmp(s->aws.endpoint, "http://", 7) != 0;
    s->hosted = strcmp(conf->style, "virtual") == 0 ||
                (strcmp(conf->style, "auto") == 0 && !custom && fits_host_name(s->bucket, tls));
    if (!conf->anonymous && s->aws.elsewhere[0])
        return larder__fail(LARDER_E_UNSUPPORTED,
                            "the credentials come by %s, which larder does not do: "
                            "eval \"$(aws configure export-credentials --format env)\" puts them "
                            "into the environment, and anonymous=true does without",
                            s->aws.elsewhere);
    if (!conf->anonymous && (rc = given_keys(s, &s->aws)) < 0)
        return rc;
    s->anonymous = conf->anonymous || s->bearer || !s->aws.key[0];
    s->signer = 1;
    return place_bucket(s);
}

int larder__web_site_s3(larder__web_site **out, char **key, const char *where,
                        const larder__s3_conf *conf) {
    size_t n = 0;
    *out = NULL;
    *key = NULL;
    const char *scheme = conf->google ? "gs" : "s3";
    int rc = split_host(scheme, where, &n);
    if (rc == 0 && memchr(where + 2, ':', n))
        rc = larder__fail(LARDER_E_ARGS,
                          "%s:%.*s: a bucket has no port; endpoint=http://host:port "
                          "names a server",
                          scheme, (int)n + 2, where);
    if (rc < 0)
        return rc;
    larder__web_site *s = larder__calloc(1, sizeof *s);
    if (!s)
        return LARDER_E_NOMEM;
    s->s3 = true;
    s->google = conf->google;
    s->lock_ready = pthread_mutex_init(&s->lock, NULL) == 0;
    s->shown = joined(conf->google ? "gs://" : "s3://", where + 2, n, "/");
    s->bucket = joined("", where + 2, n, "");
    s->profile = larder__strdup(conf->profile);
    *key = key_of(where + 2 + n, false);
    rc = s->lock_ready && s->shown && s->bucket && s->profile && *key ? settle_s3(s, conf)
                                                                      : LARDER_E_NOMEM;
    if (rc < 0) {
        larder__free(*key);
        *key = NULL;
        larder__web_site_close(&s);
    }
    *out = s;
    return rc;
}

/* ---- questions ------------------------------------------------------------------------------- */

bool larder__web_site_is_s3(const larder__web_site *s) { return s->s3; }
bool larder__web_site_is_signed(const larder__web_site *s) { return s->query != NULL; }
const char *larder__web_site_shown(const larder__web_site *s) { return s->shown; }

const char *larder__web_site_asker(const larder__web_site *s) {
    if (!s->s3)
        return s->bearer  ? ""
               : s->query ? "; has the query's signature expired?"
                          : "; bearer=VARIABLE sends a token";
    if (!s->anonymous || s->bearer)
        return "";
    return s->google ? "; it was asked without credentials: GS_ACCESS_KEY_ID and "
                       "GS_SECRET_ACCESS_KEY, or bearer=VARIABLE, or anonymous=true was said"
                     : "; it was asked without credentials: none were found (environment, ~/.aws), "
                       "or anonymous=true was said";
}

bool larder__web_site_has_session(larder__web_site *s) {
    if (!s->s3 || s->anonymous)
        return false;
    pthread_mutex_lock(&s->lock);
    bool has = s->aws.token[0] != 0;
    pthread_mutex_unlock(&s->lock);
    return has;
}

/* Of "name", "name:80" or "[::1]:80", which ends with a '/', a '?' or the text. */
typedef struct place {
    const char *name;
    size_t n;
    unsigned port;
} place;

static bool read_place(place *out, const char *host, bool tls) {
    size_t n = strcspn(host, "/?");
    size_t name = host[0] == '[' ? strcspn(host, "]/?") + 1 : strcspn(host, ":/?");
    *out = (place){host, name, tls ? 443 : 80};
    if (!host_fits(host, n) || name > n)
        return false;
    if (name < n) {
        char *end;
        if (host[name] != ':' || host[name + 1] < '0' || host[name + 1] > '9')
            return false;
        unsigned long port = strtoul(host + name + 1, &end, 10);
        if (end != host + n || port > 65535)
            return false;
        out->port = (unsigned)port;
    }
    return true;
}

static bool begins(const place *p, const char *text, size_t n) {
    return p->n > n && strncasecmp(p->name, text, n) == 0;
}

/* The server, without the bucket where that is part of its name. */
static place without_bucket(const larder__web_site *s, place p) {
    size_t n = s->bucket ? strlen(s->bucket) : 0;
    if (n && begins(&p, s->bucket, n) && p.name[n] == '.') {
        p.name += n + 1;
        p.n -= n + 1;
    }
    return p;
}

/* How long what stands before `domain` is; 0: it is elsewhere. */
static size_t below(const place *p, const char *domain) {
    size_t n = strlen(domain);
    return p->n > n && strncasecmp(p->name + p->n - n, domain, n) == 0 ? p->n - n : 0;
}

/* Amazon's storage, which is "s3.REGION" and older spellings of it below `domain`: others can have
 * names there too, of machines and balancers. */
static bool is_amazon(const place *p, const char *domain) {
    static const char dual[] = "dualstack.";
    size_t n = below(p, domain);
    const char *end = p->name + n, *at = p->name;
    for (; n && at < end; at++) {
        bool label = at == p->name || at[-1] == '.';
        if (!label || end - at < 2 || strncasecmp(at, "s3", 2) != 0)
            continue;
        const char *rest = at + 2;
        while (rest < end && *rest != '.')
            rest++;
        if (rest - at > 2 && at[2] != '-')
            continue;
        rest += rest < end;
        if (end - rest > 10 && strncasecmp(rest, dual, sizeof dual - 1) == 0)
            rest += sizeof dual - 1;
        if (!memchr(rest, '.', (size_t)(end - rest)))
            return true;
    }
    return false;
}

static bool both_amazon(const place *a, const place *b) {
    static const char *const domains[] = {".amazonaws.com", ".amazonaws.com.cn"};
    for (size_t i = 0; i < 2; i++)
        if (a->port == b->port && is_amazon(a, domains[i]) && is_amazon(b, domains[i]))
            return true;
    return false;
}

/* With the lock held. Another port is another server, unless both are those that nobody writes. */
static bool same_server(const larder__web_site *s, const char *host, bool tls) {
    place to, own;
    bool own_tls = strcmp(s->scheme, "https://") == 0;
    if (!read_place(&to, host, tls) || !read_place(&own, s->host, own_tls))
        return false;
    if (both_amazon(&to, &own))
        return true;
    bool ports = to.port == own.port || (to.port == 443 && own.port == 80 && tls && !own_tls);
    to = without_bucket(s, to);
    own = without_bucket(s, own);
    return ports && to.n == own.n && strncasecmp(to.name, own.name, own.n) == 0;
}

bool larder__web_site_trusts(larder__web_site *s, const char *url) {
    bool tls = strncasecmp(url, "https://", 8) == 0;
    if (!tls && (strncasecmp(url, "http://", 7) != 0 || strcmp(s->scheme, "https://") == 0))
        return false;
    if (s->s3)
        pthread_mutex_lock(&s->lock);
    bool same = same_server(s, url + (tls ? 8 : 7), tls);
    if (s->s3)
        pthread_mutex_unlock(&s->lock);
    return same;
}

/* ---- what changes while it is in use --------------------------------------------------------- */

bool larder__web_site_may_renew(const larder__web_site *s) {
    return s->s3 && !s->anonymous && !s->aws.fixed;
}

bool larder__web_site_renew(larder__web_site *s, uint64_t signer) {
    if (!larder__web_site_may_renew(s))
        return false;
    pthread_mutex_lock(&s->lock);
    bool fresh = signer != s->signer; /* somebody else has done it meanwhile */
    double now = larder__now();
    if (!fresh && (s->renewed == 0 || now - s->renewed > renewed_every)) {
        larder__aws_conf again = {0};
        s->renewed = now;
        if (load_keys(s, &again) == 0 && given_keys(s, &again) == 0 && again.key[0] &&
            (strcmp(again.key, s->aws.key) != 0 || strcmp(again.token, s->aws.token) != 0)) {
            memcpy(s->aws.key, again.key, sizeof again.key);
            memcpy(s->aws.secret, again.secret, sizeof again.secret);
            memcpy(s->aws.token, again.token, sizeof again.token);
            s->aws.expires = again.expires;
            s->signer++;
            fresh = true;
        }
        explicit_bzero(&again, sizeof again);
    }
    pthread_mutex_unlock(&s->lock);
    return fresh;
}

/* Credentials that say when they end are renewed before that, not after a refusal. */
static void renew_early(larder__web_site *s) {
    pthread_mutex_lock(&s->lock);
    uint64_t signer = s->signer;
    double left = s->aws.expires ? difftime(s->aws.expires, time(NULL)) : renewed_early;
    bool due = left < renewed_early && (left < 0 || larder__now() - s->renewed > renewed_early / 5);
    pthread_mutex_unlock(&s->lock);
    if (due)
        larder__web_site_renew(s, signer);
}

bool larder__web_site_move(larder__web_site *s, const char *region) {
    if (!s->s3 || !region[0] || !host_fits(region, strlen(region)) ||
        strlen(region) >= sizeof s->aws.region)
        return false;
    pthread_mutex_lock(&s->lock);
    bool other = strcmp(region, s->aws.region) != 0;
    if (other) {
        memcpy(s->aws.region, region, strlen(region) + 1);
        other = !s->amazon || place_bucket(s) == 0;
    }
    pthread_mutex_unlock(&s->lock);
    return other;
}

/* ---- a request ------------------------------------------------------------------------------- */

static void add_header(larder__dressed *d, const char *name, const char *value) {
    larder__text *t = &d->headers[d->header_count++];
    larder__text_put(t, name);
    larder__text_put(t, ": ");
    larder__text_put(t, value);
}

static int sign(const larder__web_site *s, larder__dressed *d, larder__sigv4 *v, const char *host,
                const char *range) {
    larder__pair headers[LARDER__SIGNED_HEADERS];
    larder__text authorization = {0};
    size_t n = 0;
    larder__sigv4_date(v->date, time(NULL));
    headers[n++] = (larder__pair){"host", host};
    if (range[0])
        headers[n++] = (larder__pair){"range", range};
    headers[n++] = (larder__pair){"x-amz-content-sha256", LARDER__EMPTY_SHA256};
    headers[n++] = (larder__pair){"x-amz-date", v->date};
    if (s->aws.token[0])
        headers[n++] = (larder__pair){"x-amz-security-token", s->aws.token};
    v->headers = headers;
    v->header_count = n;
    v->region = s->aws.region;
    v->service = "s3";
    v->key = s->aws.key;
    v->secret = s->aws.secret;
    int rc = larder__sigv4_sign(v, &authorization);
    for (size_t i = 0; rc == 0 && i < n; i++)
        add_header(d, headers[i].name, headers[i].value);
    if (rc == 0)
        add_header(d, "authorization", authorization.at);
    larder__text_free(&authorization);
    v->headers = NULL; /* they end here */
    v->header_count = 0;
    d->signer = s->signer;
    return rc;
}

static int dress(larder__web_site *s, larder__dressed *d, const char *method, const char *key,
                 const larder__pair *query, size_t query_count, const char *range,
                 const char *redirect) {
    const char *elsewhere = redirect[0] ? strstr(redirect, "://") : NULL;
    char host[HOST_MAX];
    larder__text path = {0};
    int rc = 0;
    snprintf(host, sizeof host, "%.*s",
             elsewhere ? (int)strcspn(elsewhere + 3, "/?") : (int)strlen(s->host),
             elsewhere ? elsewhere + 3 : s->host);
    larder__text_put(&d->url, elsewhere && strncasecmp(redirect, "http:", 5) == 0 ? "http://"
                              : elsewhere                                         ? "https://"
                                                                                  : s->scheme);
    larder__text_put(&d->url, host);
    if (elsewhere) {
        const char *from = elsewhere + 3 + strcspn(elsewhere + 3, "/?");
        larder__text_put(&path, from[0] == '/' ? "" : "/");
        larder__text_add(&path, from, strcspn(from, "?"));
    } else {
        larder__text_put(&path, s->prefix);
        larder__text_escaped(&path, key, strlen(key), true);
    }
    if (path.failed)
        rc = LARDER_E_NOMEM;
    if (rc == 0)
        larder__text_put(&d->url, path.at);
    if (rc == 0 && query_count) {
        larder__text_put(&d->url, "?");
        rc = larder__sigv4_query(&d->url, query, query_count);
    } else if (rc == 0 && s->query) {
        larder__text_put(&d->url, "?");
        larder__text_put(&d->url, s->query);
    }
    larder__sigv4 v = {
        .method = method, .path = path.at, .query = query, .query_count = query_count};
    if (rc == 0 && s->s3 && !s->anonymous)
        rc = sign(s, d, &v, host, range);
    else if (rc == 0 && range[0])
        add_header(d, "range", range);
    larder__text_free(&path);
    return rc;
}

int larder__web_site_dress(larder__web_site *s, larder__dressed *d, const char *method,
                           const char *key, const larder__pair *query, size_t query_count,
                           const char *range, const char *redirect) {
    *d = (larder__dressed){0};
    if (larder__web_site_may_renew(s))
        renew_early(s);
    if (s->s3)
        pthread_mutex_lock(&s->lock);
    int rc = dress(s, d, method, key, query, query_count, range, redirect);
    if (s->s3)
        pthread_mutex_unlock(&s->lock);
    if (rc == 0 && s->bearer)
        larder__text_put(&d->headers[d->header_count++], s->bearer);
    bool failed = d->url.failed;
    for (size_t i = 0; i < d->header_count; i++)
        failed |= d->headers[i].failed;
    if (rc == 0 && failed)
        rc = LARDER_E_NOMEM;
    if (rc < 0)
        larder__dressed_free(d);
    return rc;
}

void larder__dressed_free(larder__dressed *d) {
    for (size_t i = 0; i < d->header_count; i++) {
        if (d->headers[i].at)
            explicit_bzero(d->headers[i].at, d->headers[i].n);
        larder__text_free(&d->headers[i]);
    }
    if (d->url.at)
        explicit_bzero(d->url.at, d->url.n);
    larder__text_free(&d->url);
    *d = (larder__dressed){0};
}
