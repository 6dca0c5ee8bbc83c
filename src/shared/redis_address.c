#include "shared/redis_address.h"

#include "base/err.h"
#include "base/spec.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct scheme {
    const char *name;
    bool tls, cluster, socket;
} scheme;

static const scheme schemes[] = {
    {"redis://", false, false, false},        {"rediss://", true, false, false},
    {"redis+unix://", false, false, true},    {"redis-cluster://", false, true, false},
    {"rediss-cluster://", true, true, false},
};

static const scheme *find_scheme(const char *text) {
    for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++)
        if (strncmp(text, schemes[i].name, strlen(schemes[i].name)) == 0)
            return &schemes[i];
    return NULL;
}

bool larder__redis_named(const char *text) { return find_scheme(text) != NULL; }

/* Whatever stands before the last '@' may be a password, also where the text is malformed; so may
 * what follows password=, which is no option but may be tried. */
const char *larder__cache_mask(const char *cache, char *out, size_t cap) {
    const char *from = cache ? strstr(cache, "://") : NULL, *to = from ? strrchr(from, '@') : NULL;
    if (!to)
        snprintf(out, cap, "%s", cache ? cache : "");
    else
        snprintf(out, cap, "%.*s***%s", (int)(from + 3 - cache), cache, to);
    static const char option[] = "password=";
    char *at = strstr(out, option);
    if (at)
        snprintf(at + sizeof option - 1, cap - (size_t)(at - out) - (sizeof option - 1), "***");
    return out;
}

int larder__cache_wrong(const char *cache, const char *why, const char *what) {
    char shown[200];
    larder__cache_mask(cache, shown, sizeof shown);
    return larder__fail(LARDER_E_ARGS, "cache \"%s\": %s%.60s", shown, why, what);
}

static int hex(char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* Undoes %41; false: does not fit, or no such thing. */
static bool decode(char *out, size_t cap, const char *from, size_t n) {
    size_t used = 0;
    for (size_t i = 0; i < n; i++) {
        int c = (unsigned char)from[i];
        if (c == '%') {
            if (i + 2 >= n || hex(from[i + 1]) < 0 || hex(from[i + 2]) < 0)
                return false;
            c = hex(from[i + 1]) * 16 + hex(from[i + 2]);
            i += 2;
        }
        if (c == 0 || used + 1 >= cap)
            return false;
        out[used++] = (char)c;
    }
    out[used] = '\0';
    return true;
}

static int read_user(larder__redis_conf *r, const char *cache, const char **at) {
    const char *end = strrchr(*at, '@');
    if (!end)
        return 0;
    const char *colon = memchr(*at, ':', (size_t)(end - *at));
    size_t name = (size_t)((colon ? colon : end) - *at);
    bool fine = decode(r->user, sizeof r->user, *at, name);
    if (colon)
        fine &= decode(r->password, sizeof r->password, colon + 1, (size_t)(end - colon - 1));
    *at = end + 1;
    return fine ? 0
                : larder__cache_wrong(
                      cache,
                      "user and password stand before the @ as user:password, with %40 "
                      "for a character that means something there",
                      "");
}

/* "host:port" or "[v6]:port"; the port may be left out. */
static int read_host(larder__redis_host *h, const char *cache, const char *at, size_t n) {
    char port[16] = "6379";
    size_t name = n, skip = 0;
    if (n && at[0] == '[') {
        const char *close = memchr(at, ']', n);
        if (!close)
            return larder__cache_wrong(cache, "an address in brackets has no end", "");
        name = (size_t)(close - at) - 1;
        skip = 1;
    } else {
        const char *colon = memchr(at, ':', n);
        name = colon ? (size_t)(colon - at) : n;
    }
    const char *rest = at + name + 2 * skip;
    size_t left = n - name - 2 * skip;
    if (left && (rest[0] != ':' || left < 2 || left > 6))
        return larder__cache_wrong(cache, "a port is 1 to 65535", "");
    if (left) {
        memcpy(port, rest + 1, left - 1);
        port[left - 1] = '\0';
    }
    uint64_t number;
    if (larder__parse_u64("port", port, 65535, &number) < 0 || number == 0)
        return larder__cache_wrong(cache, "a port is 1 to 65535", "");
    if (name == 0 || name >= sizeof h->name)
        return larder__cache_wrong(cache, "a host has a name of 1 to 255 bytes", "");
    memcpy(h->name, at + skip, name);
    h->name[name] = '\0';
    h->port = (uint16_t)number;
    return 0;
}

static int read_hosts(larder__redis_conf *r, const char *cache, const char **at) {
    int rc = 0;
    size_t n = strcspn(*at, "/?");
    const char *end = *at + n;
    for (const char *p = *at; rc == 0 && p <= end;) {
        size_t len = strcspn(p, ",/?");
        if (r->host_count == (r->cluster ? LARDER__REDIS_SEEDS : 1))
            return larder__cache_wrong(cache,
                                       "more hosts than fit; several are for redis-cluster://", "");
        rc = read_host(&r->hosts[r->host_count++], cache, p, len);
        p += len + 1;
    }
    *at = end;
    if (rc < 0 || *end != '/')
        return rc;
    char db[8] = "";
    size_t len = strcspn(end + 1, "?");
    uint64_t number = 0;
    if (len >= sizeof db)
        return larder__cache_wrong(cache, "after the host comes /NUMBER of a data base", "");
    memcpy(db, end + 1, len);
    if (len && larder__parse_u64("data base", db, 65535, &number) < 0)
        return larder__cache_wrong(cache, "after the host comes /NUMBER of a data base", "");
    if (r->cluster && number)
        return larder__cache_wrong(cache, "a cluster has data base 0 alone", "");
    r->db = (uint32_t)number;
    *at = end + 1 + len;
    return 0;
}

static int read_path(larder__redis_conf *r, const char *cache, const char **at) {
    size_t n = strcspn(*at, "?");
    if (**at != '/' || n >= sizeof r->path)
        return larder__cache_wrong(cache,
                                   "redis+unix:// is followed by a path of at most 107 bytes", "");
    memcpy(r->path, *at, n);
    r->path[n] = '\0';
    snprintf(r->hosts[0].name, sizeof r->hosts[0].name, "%s", r->path);
    r->host_count = 1;
    *at += n;
    return 0;
}

int larder__redis_check(const larder__redis_conf *r, const char *cache) {
    if (r->replicas && !r->cluster)
        return larder__cache_wrong(cache, "replicas=1 is for redis-cluster://", "");
    if (!r->tls && (r->ca[0] || r->cert[0] || r->key[0] || r->tls_name[0]))
        return larder__cache_wrong(cache, "ca=, cert=, key= and name= are for rediss://", "");
    if ((r->cert[0] != '\0') != (r->key[0] != '\0'))
        return larder__cache_wrong(cache, "cert= and key= belong together", "");
    return 0;
}

static void read_environment(larder__redis_conf *r) {
    const char *password = getenv("LARDER_REDIS_PASSWORD"), *user = getenv("LARDER_REDIS_USER");
    if (r->password[0])
        return;
    if (!password || !*password)
        password = getenv("REDISCLI_AUTH");
    snprintf(r->password, sizeof r->password, "%s", password ? password : "");
    if (!r->user[0] && user)
        snprintf(r->user, sizeof r->user, "%s", user);
}

int larder__redis_read(larder__redis_conf *r, const char *cache, const char **at) {
    *r = (larder__redis_conf){.timeout = 0.5, .ttl = 86400, .lanes = 2};
    const scheme *s = find_scheme(*at);
    *at += strlen(s->name);
    r->tls = s->tls;
    r->cluster = s->cluster;
    int rc = read_user(r, cache, at);
    if (rc == 0)
        rc = s->socket ? read_path(r, cache, at) : read_hosts(r, cache, at);
    if (rc == 0)
        read_environment(r);
    return rc;
}
