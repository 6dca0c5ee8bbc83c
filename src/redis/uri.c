#include "redis/uri.h"

#include "base/err.h"
#include "base/spec.h"
#include "ranks/job_name.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_MOST = 4000 };

typedef struct scheme {
    const char *name;
    bool tls, cluster, socket;
} scheme;

static const scheme schemes[] = {
    {"redis://", false, false, false},        {"rediss://", true, false, false},
    {"redis+unix://", false, false, true},    {"redis-cluster://", false, true, false},
    {"rediss-cluster://", true, true, false},
};

/* The scheme that `text` begins with, maybe after "2GiB+"; *at: where it begins. */
static const scheme *find_scheme(const char *text, const char **at) {
    *at = text;
    size_t front = strcspn(text, "+:?/@");
    if (text[front] == '+' && text[0] >= '0' && text[0] <= '9')
        *at = text + front + 1;
    for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++)
        if (strncmp(*at, schemes[i].name, strlen(schemes[i].name)) == 0)
            return &schemes[i];
    return NULL;
}

bool larder__redis_named(const char *cache) {
    const char *at;
    return cache && find_scheme(cache, &at) != NULL;
}

/* Whatever stands before the last '@' may be a password, also where the text is malformed. */
const char *larder__redis_mask(const char *cache, char *out, size_t cap) {
    const char *from = cache ? strstr(cache, "://") : NULL, *to = from ? strrchr(from, '@') : NULL;
    if (!to)
        snprintf(out, cap, "%s", cache ? cache : "");
    else
        snprintf(out, cap, "%.*s***%s", (int)(from + 3 - cache), cache, to);
    return out;
}

static int wrong(const char *cache, const char *why, const char *what) {
    char shown[200];
    larder__redis_mask(cache, shown, sizeof shown);
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
                : wrong(cache,
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
            return wrong(cache, "an address in brackets has no end", "");
        name = (size_t)(close - at) - 1;
        skip = 1;
    } else {
        const char *colon = memchr(at, ':', n);
        name = colon ? (size_t)(colon - at) : n;
    }
    const char *rest = at + name + 2 * skip;
    size_t left = n - name - 2 * skip;
    if (left && (rest[0] != ':' || left < 2 || left > 6))
        return wrong(cache, "a port is 1 to 65535", "");
    if (left) {
        memcpy(port, rest + 1, left - 1);
        port[left - 1] = '\0';
    }
    uint64_t number;
    if (larder__parse_u64("port", port, 65535, &number) < 0 || number == 0)
        return wrong(cache, "a port is 1 to 65535", "");
    if (name == 0 || name >= sizeof h->name)
        return wrong(cache, "a host has a name of 1 to 255 bytes", "");
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
            return wrong(cache, "more hosts than fit; several are for redis-cluster://", "");
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
        return wrong(cache, "after the host comes /NUMBER of a data base", "");
    memcpy(db, end + 1, len);
    if (len && larder__parse_u64("data base", db, 65535, &number) < 0)
        return wrong(cache, "after the host comes /NUMBER of a data base", "");
    if (r->cluster && number)
        return wrong(cache, "a cluster has data base 0 alone", "");
    r->db = (uint32_t)number;
    *at = end + 1 + len;
    return 0;
}

static int read_path(larder__redis_conf *r, const char *cache, const char **at) {
    size_t n = strcspn(*at, "?");
    if (**at != '/' || n >= sizeof r->path)
        return wrong(cache, "redis+unix:// is followed by a path of at most 107 bytes", "");
    memcpy(r->path, *at, n);
    r->path[n] = '\0';
    snprintf(r->hosts[0].name, sizeof r->hosts[0].name, "%s", r->path);
    r->host_count = 1;
    *at += n;
    return 0;
}

static bool yes_or_no(const char *text, bool *out) {
    *out = strcmp(text, "1") == 0;
    return *out || strcmp(text, "0") == 0;
}

static bool copy(char *out, size_t cap, const char *text) {
    snprintf(out, cap, "%s", text);
    return strlen(text) < cap;
}

/* One key=value; *what: what it should have been. */
static bool read_option(larder__redis_conf *r, const char *key, const char *value,
                        const char **what) {
    uint64_t n;
    double s;
    *what = "";
    if (strcmp(key, "budget") == 0) {
        larder__budget b;
        *what = "budget=64GiB, budget=20% or budget=20%:58/42/0";
        return copy(r->budget, sizeof r->budget, value) && larder__parse_budget(value, &b) == 0;
    }
    if (strcmp(key, "tier") == 0) {
        *what = "tier=exclusive or tier=inclusive";
        r->inclusive = strcmp(value, "inclusive") == 0;
        return r->inclusive || strcmp(value, "exclusive") == 0;
    }
    if (strcmp(key, "shared") == 0) {
        *what = "shared=NAME, of letters, digits and _.-, at most 39; or shared=0";
        if (strcmp(value, "0") == 0)
            return true;
        return larder__job_name_fits(value) && copy(r->group, sizeof r->group, value);
    }
    if (strcmp(key, "job") == 0) {
        *what = "job=NAME, of letters, digits and _.-, at most 39; or job=0";
        if (strcmp(value, "0") == 0)
            return true;
        return larder__job_name_fits(value) && copy(r->job, sizeof r->job, value);
    }
    if (strcmp(key, "replicas") == 0) {
        *what = "replicas=0 or replicas=1";
        return yes_or_no(value, &r->replicas);
    }
    if (strcmp(key, "timeout") == 0) {
        *what = "timeout=500ms, from 1ms to 60s";
        bool fine = larder__parse_seconds(value, &s) == 0 && s >= 0.001 && s <= 60;
        r->timeout = fine ? s : r->timeout;
        return fine;
    }
    if (strcmp(key, "wait") == 0) {
        *what = LARDER__AWAIT_SECONDS;
        return larder__await_seconds(value, &r->await);
    }
    if (strcmp(key, "absent") == 0) {
        *what = LARDER__AWAIT_ABSENT;
        return larder__await_absent(value, &r->await);
    }
    if (strcmp(key, "patience") == 0) {
        *what = "patience=30s, from 1s to a day: how long a rank of the job may be silent";
        bool fine = larder__parse_seconds(value, &s) == 0 && s >= 1 && s <= 86400;
        r->patience = fine ? s : r->patience;
        return fine;
    }
    if (strcmp(key, "ttl") == 0) {
        *what = "ttl=86400s, at most a year; 0: for ever";
        bool fine = larder__parse_seconds(value, &s) == 0 && s >= 0 && s <= 366 * 86400.0;
        r->ttl = fine ? (uint32_t)s : 0;
        return fine;
    }
    if (strcmp(key, "connections") == 0) {
        *what = "connections=2, from 1 to 16";
        bool fine = larder__parse_u64("connections", value, 16, &n) == 0 && n > 0;
        r->lanes = fine ? (uint32_t)n : r->lanes;
        return fine;
    }
    if (strcmp(key, "ca") == 0)
        return copy(r->ca, sizeof r->ca, value);
    if (strcmp(key, "cert") == 0)
        return copy(r->cert, sizeof r->cert, value);
    if (strcmp(key, "key") == 0)
        return copy(r->key, sizeof r->key, value);
    if (strcmp(key, "name") == 0)
        return copy(r->tls_name, sizeof r->tls_name, value);
    *what = "budget, tier, shared, job, patience, wait, absent, replicas, timeout, ttl, "
            "connections, ca, "
            "cert, key or name";
    return false;
}

static int read_options(larder__redis_conf *r, const char *cache, const char *at) {
    while (*at == '?' || *at == '&') {
        char key[32], value[256];
        size_t n = strcspn(++at, "=&");
        const char *what = "key=value, several joined by &";
        if (at[n] != '=' || n >= sizeof key)
            return wrong(cache, "after the ? comes ", what);
        memcpy(key, at, n);
        key[n] = '\0';
        at += n + 1;
        n = strcspn(at, "&");
        if (n >= sizeof value)
            return wrong(cache, "too long a value of ", key);
        memcpy(value, at, n);
        value[n] = '\0';
        at += n;
        if (!read_option(r, key, value, &what)) {
            char shown[200];
            larder__redis_mask(cache, shown, sizeof shown);
            return larder__fail(LARDER_E_ARGS, "cache \"%s\": %s=%.40s; it is %s", shown, key,
                                value, what);
        }
    }
    return *at ? wrong(cache, "nothing fits here: ", at) : 0;
}

static int check(const larder__redis_conf *r, const char *cache) {
    larder__budget b;
    if (r->front[0] && larder__parse_budget(r->front, &b) < 0)
        return wrong(cache, "in front stands a size, as in 2GiB+redis://…", "");
    if (r->front[0] && b.split)
        return wrong(cache, "a split belongs to budget=, not to the cache in front", "");
    if (r->replicas && !r->cluster)
        return wrong(cache, "replicas=1 is for redis-cluster://", "");
    if (r->group[0] && r->front[0])
        return wrong(cache, "there is no cache in front of one that is shared", "");
    if (r->job[0] && (r->front[0] || r->group[0]))
        return wrong(cache, "job= goes with neither shared= nor a cache in front", "");
    if (!r->tls && (r->ca[0] || r->cert[0] || r->key[0] || r->tls_name[0]))
        return wrong(cache, "ca=, cert=, key= and name= are for rediss://", "");
    if ((r->cert[0] != '\0') != (r->key[0] != '\0'))
        return wrong(cache, "cert= and key= belong together", "");
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

int larder__redis_parse(larder__redis_conf *r, const char *cache) {
    *r = (larder__redis_conf){.timeout = 0.5,
                              .patience = 30,
                              .ttl = 86400,
                              .lanes = 2,
                              .budget = "100%",
                              .await = LARDER__AWAIT_UNLESS_SAID};
    if (strlen(cache) > TEXT_MOST)
        return larder__fail(LARDER_E_ARGS, "a cache text of %zu bytes; %d are enough",
                            strlen(cache), TEXT_MOST);
    const char *at;
    const scheme *s = find_scheme(cache, &at);
    if (!s)
        return wrong(cache, "this is no redis:// of any kind", "");
    size_t front = at == cache ? 0 : (size_t)(at - cache) - 1;
    if (front >= sizeof r->front)
        return wrong(cache, "in front stands a size, as in 2GiB+redis://…", "");
    memcpy(r->front, cache, front);
    r->tls = s->tls;
    r->cluster = s->cluster;
    at += strlen(s->name);
    int rc = read_user(r, cache, &at);
    if (rc == 0)
        rc = s->socket ? read_path(r, cache, &at) : read_hosts(r, cache, &at);
    if (rc == 0)
        rc = read_options(r, cache, at);
    if (rc == 0)
        rc = check(r, cache);
    if (rc == 0)
        read_environment(r);
    r->await.go_on &= r->job[0] == '\0'; /* ranks have to meet */
    return rc;
}
