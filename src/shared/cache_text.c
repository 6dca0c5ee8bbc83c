#include "shared/cache_text.h"

#include "base/err.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_MOST = 4000, DAEMON_BUDGET_MOST = 31 };

/* ---- options --------------------------------------------------------------------------------- */

static bool copy(char *out, size_t cap, const char *text) {
    size_t n = strlen(text), kept = n < cap ? n : cap - 1;
    memcpy(out, text, kept);
    out[kept] = '\0';
    return n < cap;
}

static bool seconds_in(const char *text, double least, double most, double *out) {
    double s;
    bool fine = larder__parse_seconds(text, &s) == 0 && s >= least && s <= most;
    if (fine)
        *out = s;
    return fine;
}

static larder__cache_tier *back(larder__cache_text *t) { return &t->tiers[t->tier_count - 1]; }

/* What it means follows when all is read. */
static bool read_budget(larder__cache_text *t, const char *value) {
    larder__cache_tier *b = back(t);
    return *value && copy(b->text, sizeof b->text, value) &&
           (b->place != LARDER__IN_DAEMON || strlen(value) <= DAEMON_BUDGET_MOST);
}

static bool read_tier(larder__cache_text *t, const char *value) {
    t->inclusive = strcmp(value, "inclusive") == 0;
    return t->inclusive || strcmp(value, "exclusive") == 0;
}

static bool read_name(larder__cache_text *t, larder__cache_order order, const char *value) {
    if (strcmp(value, "0") == 0)
        return true;
    if (t->name[0] && t->order != order)
        return false;
    t->order = order;
    return larder__job_name_fits(value) && copy(t->name, sizeof t->name, value);
}

static bool read_shared(larder__cache_text *t, const char *value) {
    return read_name(t, LARDER__BY_JOURNAL, value);
}

static bool read_job(larder__cache_text *t, const char *value) {
    return read_name(t, LARDER__IN_STEP, value);
}

static bool read_patience(larder__cache_text *t, const char *value) {
    return seconds_in(value, 1, 86400, &t->patience);
}

static bool read_disk_patience(larder__cache_text *t, const char *value) {
    return seconds_in(value, 0.01, 600, &t->disk.patience);
}

static bool read_quota(larder__cache_text *t, const char *value) {
    return !strchr(value, ':') && larder__parse_budget(value, &t->disk.quota) == 0;
}

static bool read_wear(larder__cache_text *t, const char *value) {
    larder__budget rate;
    bool fine = strchr(value, '%') == NULL && strchr(value, ':') == NULL &&
                larder__parse_budget(value, &rate) == 0;
    if (fine)
        t->disk.wear = (double)rate.bytes;
    return fine;
}

static bool read_wait(larder__cache_text *t, const char *value) {
    return larder__await_seconds(value, &t->await);
}

static bool read_absent(larder__cache_text *t, const char *value) {
    return larder__await_absent(value, &t->await);
}

static bool read_owner(larder__cache_text *t, const char *value) {
    return larder__door_owner(value, &t->door.owner) == 0;
}

static bool read_replicas(larder__cache_text *t, const char *value) {
    t->redis.replicas = strcmp(value, "1") == 0;
    return t->redis.replicas || strcmp(value, "0") == 0;
}

static bool read_timeout(larder__cache_text *t, const char *value) {
    return seconds_in(value, 0.001, 60, &t->redis.timeout);
}

static bool read_ttl(larder__cache_text *t, const char *value) {
    double s = 0;
    bool fine = seconds_in(value, 0, 366 * 86400.0, &s);
    t->redis.ttl = (uint32_t)s;
    return fine;
}

static bool read_connections(larder__cache_text *t, const char *value) {
    uint64_t n = 0;
    bool fine = larder__parse_u64("connections", value, 16, &n) == 0 && n > 0;
    t->redis.lanes = (uint32_t)n;
    return fine;
}

static bool read_ca(larder__cache_text *t, const char *value) {
    return copy(t->redis.ca, sizeof t->redis.ca, value);
}

static bool read_cert(larder__cache_text *t, const char *value) {
    return copy(t->redis.cert, sizeof t->redis.cert, value);
}

static bool read_key(larder__cache_text *t, const char *value) {
    return copy(t->redis.key, sizeof t->redis.key, value);
}

static bool read_tls_name(larder__cache_text *t, const char *value) {
    return copy(t->redis.tls_name, sizeof t->redis.tls_name, value);
}

enum {
    DAEMON = 1 << LARDER__IN_DAEMON,
    REDIS = 1 << LARDER__IN_REDIS,
    BOTH = DAEMON | REDIS,
    DISK = 1 << LARDER__ON_DISK
};

typedef struct option {
    const char *key;
    unsigned places; /* that have it */
    bool (*read)(larder__cache_text *, const char *value);
    const char *what; /* it should be */
} option;

#define BUDGET_IS "budget=64GiB, budget=20% or budget=20%:58/42/0"
static const option options[] = {
    {"budget", BOTH | DISK, read_budget, BUDGET_IS},
    {"quota", DISK, read_quota, "quota=100GiB or quota=50%: what this job may keep there"},
    {"wear", DISK, read_wear, "wear=200MiB: written a second at most; 0: no bound"},
    {"patience", DISK, read_disk_patience,
     "patience=2s, from 10ms to 600s: how long the disk may take to read a sample"},
    {"tier", REDIS, read_tier, "tier=exclusive or tier=inclusive"},
    {"shared", REDIS, read_shared,
     "shared=NAME, of letters, digits and _.-, at most 39; or shared=0; not with job="},
    {"job", BOTH, read_job,
     "job=NAME, of letters, digits and _.-, at most 39; or job=0; not with shared="},
    {"patience", BOTH, read_patience,
     "patience=30s, from 1s to a day: how long a rank of the job, or a daemon, may be silent"},
    {"wait", BOTH, read_wait, LARDER__AWAIT_SECONDS},
    {"absent", BOTH, read_absent, LARDER__AWAIT_ABSENT},
    {"owner", DAEMON, read_owner, "owner=USER, of this machine, by name or number"},
    {"replicas", REDIS, read_replicas, "replicas=0 or replicas=1"},
    {"timeout", REDIS, read_timeout, "timeout=500ms, from 1ms to 60s"},
    {"ttl", REDIS, read_ttl, "ttl=86400s, at most a year; 0: for ever"},
    {"connections", REDIS, read_connections, "connections=2, from 1 to 16"},
    {"ca", REDIS, read_ca, "a file"},
    {"cert", REDIS, read_cert, "a file"},
    {"key", REDIS, read_key, "a file"},
    {"name", REDIS, read_tls_name, "what the certificate is about"},
};
enum { OPTIONS = sizeof options / sizeof *options };

/* A piece of the text for a sentence: nothing that the masked text does not show, since a key or a
 * value may be part of an address, password and all, that went astray. */
static const char *piece(const char *cache, const char *part) {
    char masked[TEXT_MOST + 8];
    return strstr(larder__cache_mask(cache, masked, sizeof masked), part) ? part : "***";
}

static int not_so(const larder__cache_text *t, const char *cache, const char *key,
                  const char *value, const char *what) {
    return larder__fail(LARDER_E_ARGS, "cache \"%s\": %s=%.40s; it is %s", t->shown,
                        piece(cache, key), piece(cache, value), what);
}

static int read_option(larder__cache_text *t, const char *cache, const char *key,
                       const char *value) {
    unsigned place = 1u << back(t)->place;
    char all[200] = "";
    if (strcmp(key, "password") == 0)
        return larder__fail(LARDER_E_ARGS,
                            "cache \"%s\": a password stands in LARDER_REDIS_PASSWORD", t->shown);
    for (size_t i = 0; i < OPTIONS; i++) {
        if (!(options[i].places & place))
            continue;
        if (strcmp(key, options[i].key) == 0)
            return options[i].read(t, value) ? 0 : not_so(t, cache, key, value, options[i].what);
        size_t used = strlen(all);
        snprintf(all + used, sizeof all - used, "%s%s", used ? ", " : "", options[i].key);
    }
    return not_so(t, cache, key, value, all);
}

/* "?key=value&key=value", or nothing. */
static int read_options(larder__cache_text *t, const char *cache, const char *at) {
    int rc = 0;
    while (rc == 0 && (*at == '?' || *at == '&')) {
        char key[32], value[256];
        size_t n = strcspn(++at, "=&");
        if (at[n] != '=' || n >= sizeof key)
            return larder__cache_wrong(cache, "after the ? comes ",
                                       "key=value, several joined by &");
        memcpy(key, at, n);
        key[n] = '\0';
        at += n + 1;
        n = strcspn(at, "&");
        if (n >= sizeof value)
            return larder__cache_wrong(cache, "too long a value of ", piece(cache, key));
        memcpy(value, at, n);
        value[n] = '\0';
        at += n;
        rc = read_option(t, cache, key, value);
    }
    return rc == 0 && *at ? larder__cache_wrong(cache, "nothing fits here: ", piece(cache, at))
                          : rc;
}

/* ---- places ---------------------------------------------------------------------------------- */

static const char UNIX[] = "unix:", TCP[] = "tcp://", ON_DISK[] = "disk:", BELOW[] = "+disk:";
/* Fills a terabyte in an hour and a half, and leaves a disk time to read. */
static const double WEAR = 200 << 20;

static bool begins(const char *text, const char *with) {
    return strncmp(text, with, strlen(with)) == 0;
}

static int read_daemon(larder__cache_text *t, const char *cache, const char *at) {
    at += sizeof UNIX - 1;
    size_t n = strcspn(at, "?");
    back(t)->place = LARDER__IN_DAEMON;
    t->order = LARDER__BY_DAEMON;
    if (t->tier_count > 1)
        return larder__cache_wrong(cache, "a daemon's memory is read in place: nothing in front",
                                   "");
    if (n >= sizeof t->door.path)
        return larder__fail(LARDER_E_ARGS,
                            "cache \"%.60s…\": a socket's path has at most 107 bytes", t->shown);
    int rc = n ? 0 : larder__door_usual(&t->door, false);
    if (n)
        memcpy(t->door.path, at, n);
    return rc < 0 ? rc : read_options(t, cache, at + n);
}

/* What stands for itself in the text stands in the address too, for who has that alone. */
static int read_redis(larder__cache_text *t, const char *cache, const char *at) {
    back(t)->place = LARDER__IN_REDIS;
    snprintf(back(t)->text, sizeof back(t)->text, "100%%");
    int rc = larder__redis_read(&t->redis, cache, &at);
    if (rc == 0)
        rc = read_options(t, cache, at);
    if (rc == 0)
        rc = larder__redis_check(&t->redis, cache);
    if (rc == 0 && t->tier_count > 1 && t->name[0])
        rc = larder__cache_wrong(cache, "there is no cache in front of one that is shared", "");
    t->await.go_on &= t->order != LARDER__IN_STEP; /* ranks have to meet */
    t->redis.inclusive = t->inclusive;
    t->redis.patience = t->patience;
    t->redis.await = t->await;
    memcpy(t->order == LARDER__IN_STEP ? t->redis.job : t->redis.group, t->name, sizeof t->name);
    return rc;
}

/* A warm start needs all that memory holds on the disk, too. */
static int read_disk(larder__cache_text *t, const char *cache, const char *at) {
    at += sizeof ON_DISK - 1;
    size_t n = strcspn(at, "?");
    back(t)->place = LARDER__ON_DISK;
    t->inclusive = true;
    t->disk = (larder__disk_place){
        .quota = {.relative = true, .fraction = 1}, .wear = WEAR, .patience = 2};
    if (n == 0)
        return larder__cache_wrong(cache, "which folder? ", "disk:/mnt/nvme/larder?budget=500GiB");
    if (n >= sizeof t->disk.folder)
        return larder__fail(LARDER_E_ARGS,
                            "cache \"%.60s…\": a folder's path has at most %zu bytes", t->shown,
                            sizeof t->disk.folder - 1);
    memcpy(t->disk.folder, at, n);
    return read_options(t, cache, at + n);
}

/* Behind a place that others share stands a disk of this machine, which none of those order. */
static int read_below(larder__cache_text *t, const char *cache, const char *at) {
    larder__cache_tier shared = *back(t);
    bool inclusive = t->inclusive;
    *back(t) = (larder__cache_tier){0};
    int rc = read_disk(t, cache, at);
    t->below = *back(t);
    if (rc == 0 && t->below.text[0] &&
        (strchr(t->below.text, ':') || larder__parse_budget(t->below.text, &t->below.budget) < 0))
        rc = not_so(t, cache, "budget", t->below.text, "budget=500GiB or budget=50%");
    if (rc == 0 && (!t->disk.quota.relative || t->disk.quota.fraction < 1))
        rc = larder__cache_wrong(cache, "quota= is for a disk that one job orders", "");
    *back(t) = shared;
    t->inclusive = inclusive;
    return rc;
}

static int read_memory(larder__cache_text *t, const char *cache, const char *at) {
    const char *socket = getenv("LARDER_SOCKET");
    if (begins(at, TCP))
        return larder__fail(LARDER_E_ARGS,
                            "cache \"%s\": a daemon serves its own machine (unix:PATH); several "
                            "machines share a cache through Redis: redis://HOST/?shared=NAME",
                            t->shown);
    if (strstr(at, "://"))
        return larder__cache_wrong(
            cache, "it is a size or a place: ", "20%, 8GiB, unix:PATH, redis://HOST, disk:FOLDER");
    if (t->tier_count > 1)
        return larder__cache_wrong(
            cache, "behind the + stands a place further away: ", "redis://… or disk:FOLDER");
    if (!copy(back(t)->text, sizeof back(t)->text, at))
        return larder__fail(LARDER_E_ARGS, "cache \"%.60s…\" is no size: 20%% or 8GiB", cache);
    t->wish = socket && *socket;
    return 0;
}

/* "2GiB+…": sizes of memory in front. */
static int read_front(larder__cache_text *t, const char *cache, const char **at) {
    for (t->tier_count = 1;; t->tier_count++) {
        size_t n = strcspn(*at, "+:?/@");
        larder__cache_tier *tier = back(t);
        if ((*at)[n] != '+' || (*at)[0] < '0' || (*at)[0] > '9')
            return 0;
        if (t->tier_count == LARDER__CACHE_TIERS || n >= sizeof tier->text)
            return larder__cache_wrong(
                cache, "in front stands one size, as in 2GiB+redis://… or 8GiB+disk:…", "");
        memcpy(tier->text, *at, n);
        *at += n + 1;
    }
}

/* ---- sizes ----------------------------------------------------------------------------------- */

static int agree(const larder__cache_tier *b, const char *split) {
    double share[LARDER_FORMS];
    int rc = larder__parse_split(split, share);
    for (int f = 0; rc == 0 && f < LARDER_FORMS; f++)
        if (share[f] != b->budget.share[f])
            rc = larder__fail(LARDER_E_ARGS,
                              "cache \"%.60s\" and split=%s of the recipe disagree; give one",
                              b->text, split);
    return rc;
}

/* The split may come with the text, with the recipe, or with both if they agree. */
static int settle_back(larder__cache_text *t, const char *cache, const char *split) {
    larder__cache_tier *b = back(t);
    bool any = !b->text[0] && (b->place == LARDER__IN_DAEMON || b->place == LARDER__ON_DISK);
    /* then only the split counts */
    const char *text = any ? "100%" : b->text;
    char whole[160];
    bool joined = split[0] && !strchr(text, ':');
    snprintf(whole, sizeof whole, "%s%s%.60s", text, joined ? ":" : "", joined ? split : "");
    int rc = larder__parse_budget(whole, &b->budget);
    if (rc < 0)
        return b->place == LARDER__IN_MEMORY ? rc : not_so(t, cache, "budget", text, BUDGET_IS);
    return split[0] && !joined ? agree(b, split) : 0;
}

static int settle_front(larder__cache_text *t, const char *cache) {
    for (uint32_t i = 0; i + 1 < t->tier_count; i++) {
        larder__cache_tier *f = &t->tiers[i];
        if (larder__parse_budget(f->text, &f->budget) < 0)
            return larder__cache_wrong(
                cache, "in front stands a size, as in 2GiB+redis://… or 8GiB+disk:…", "");
    }
    return 0;
}

int larder__cache_text_parse(larder__cache_text *t, const char *cache, const char *split) {
    *t = (larder__cache_text){.patience = 30, .await = LARDER__AWAIT_UNLESS_SAID};
    if (strlen(cache) > TEXT_MOST)
        return larder__fail(LARDER_E_ARGS, "a cache text of %zu bytes; %d are enough",
                            strlen(cache), TEXT_MOST);
    larder__cache_mask(cache, t->shown, sizeof t->shown);
    const char *at = strrchr(cache, '@'), *below = strstr(at ? at : cache, BELOW);
    char front[TEXT_MOST + 1];
    bool shared = below && (begins(cache, UNIX) || larder__redis_named(cache));
    snprintf(front, sizeof front, "%.*s", shared ? (int)(below - cache) : TEXT_MOST, cache);
    at = front;
    int rc = read_front(t, front, &at);
    if (rc == 0)
        rc = begins(at, UNIX)          ? read_daemon(t, front, at)
             : begins(at, ON_DISK)     ? read_disk(t, front, at)
             : larder__redis_named(at) ? read_redis(t, front, at)
                                       : read_memory(t, front, at);
    if (rc == 0 && shared)
        rc = read_below(t, cache, below + 1);
    if (rc == 0)
        rc = settle_front(t, cache);
    return rc < 0 ? rc : settle_back(t, cache, split);
}

void larder__cache_text_heed(larder__cache_text *t, bool (*still)(void *arg), void *arg) {
    t->await.still = t->redis.await.still = still;
    t->await.arg = t->redis.await.arg = arg;
}

uint64_t larder__cache_tier_bytes(const larder__cache_tier *t, uint64_t payload) {
    const larder__budget *b = &t->budget;
    return b->relative ? (uint64_t)(b->fraction * (double)payload + 0.5) : b->bytes;
}
