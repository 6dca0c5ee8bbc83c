#include "base/clock.h"
#include "base/err.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/world.h"
#include "redis/redis_relay_inside.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#if LARDER_HAVE_HIREDIS
#include <hiredis/hiredis.h>

enum { RECORD_SECONDS = 86400, LAST_SECONDS = 120, AT_ONCE = 16 };
static const double MEET_EVERY = 0.02, POLL_FIRST = 0.0005, POLL_MOST = 0.005, RETRY = 0.1;
static const double SAY_AGAIN = 1; /* Redis may have evicted it, or somebody deleted or cut it */

/* ---- talking, by the thread alone ------------------------------------------------------------ */

int larder__redis_relay_ask(larder__redis_relay *r, redisReply **out, int argc,
                            const char *const *argv, const size_t *lengths) {
    int rc = larder__conn_ask(&r->conn, out, argc, argv, lengths);
    if (rc < 0)
        return rc;
    pthread_mutex_lock(&r->core.lock);
    r->core.heard_at = larder__world_now();
    pthread_mutex_unlock(&r->core.lock);
    return 0;
}

int larder__redis_relay_set(larder__redis_relay *r, const char *key, const void *bytes, size_t size,
                            unsigned seconds) {
    char ttl[16];
    redisReply *reply;
    snprintf(ttl, sizeof ttl, "%u", seconds);
    const char *argv[] = {"SET", key, bytes, "EX", ttl};
    const size_t lengths[] = {3, strlen(key), size, 2, strlen(ttl)};
    int rc = larder__redis_relay_ask(r, &reply, 5, argv, lengths);
    if (rc == 0)
        freeReplyObject(reply);
    return rc;
}

static void record_key(const larder__redis_relay *r, char kind, uint64_t number, uint32_t rank,
                       char out[LARDER__RELAY_KEY]) {
    snprintf(out, LARDER__RELAY_KEY, "%s%s:%c:%llu:%u", r->prefix, r->session, kind,
             (unsigned long long)number, rank);
}

static void alive_key(const larder__redis_relay *r, uint32_t rank, char out[LARDER__RELAY_KEY]) {
    snprintf(out, LARDER__RELAY_KEY, "%s%s:alive:%u", r->prefix, r->session, rank);
}

static int show_alive(larder__redis_relay *r, double now) {
    char key[LARDER__RELAY_KEY];
    if (now < r->alive_at)
        return 0;
    alive_key(r, r->core.rank, key);
    int rc = larder__redis_relay_set(r, key, "1", 1, (unsigned)ceil(r->core.patience));
    r->alive_at = now + SAY_AGAIN;
    larder__relay_unsend(&r->core);
    return rc == 0 ? larder__redis_relay_meet_again(r) : rc;
}

/* A record lies there behind a checksum. */
static int set_record(larder__redis_relay *r, const char *key, const larder__posted *p) {
    uint64_t sum = larder__hash_bytes(p->size, p->bytes, p->size);
    unsigned char *bytes = larder__malloc(sizeof sum + p->size);
    if (!bytes)
        return LARDER_E_NOMEM;
    memcpy(bytes, &sum, sizeof sum);
    memcpy(bytes + sizeof sum, p->bytes, p->size);
    int rc = larder__redis_relay_set(r, key, bytes, sizeof sum + p->size, RECORD_SECONDS);
    larder__free(bytes);
    return rc;
}

static bool record_fits(const redisReply *record) {
    uint64_t sum;
    if (record->type != REDIS_REPLY_STRING || record->len < (long long)sizeof sum)
        return false;
    memcpy(&sum, record->str, sizeof sum);
    size_t n = (size_t)record->len - sizeof sum;
    return sum == larder__hash_bytes(n, record->str + sizeof sum, n);
}

static int command_key(larder__redis_relay *r, const char *command, const char *key,
                       const char *more) {
    redisReply *reply;
    int rc = larder__redis_relay_ask(r, &reply, more ? 3 : 2,
                                     (const char *const[]){command, key, more}, NULL);
    if (rc == 0)
        freeReplyObject(reply);
    return rc;
}

static int send_posted(larder__redis_relay *r) {
    bool over;
    int rc = 0;
    for (larder__posted *p; rc == 0 && (p = larder__relay_next(&r->core, &over));) {
        char key[LARDER__RELAY_KEY];
        record_key(r, p->kind, p->number, r->core.rank, key);
        rc = over ? command_key(r, "UNLINK", key, NULL) : set_record(r, key, p);
        if (rc == 0 && over)
            larder__relay_take_out(&r->core, p);
        else if (rc == 0)
            larder__relay_sent(&r->core, p);
    }
    return rc;
}

/* ---- what is waited for ---------------------------------------------------------------------- */

/* One rank's record, if it is there, and whether it lives. With the lock held. */
static void take_answer(larder__redis_relay *r, uint32_t rank, const redisReply *record,
                        const redisReply *alive, double now) {
    if (alive->type == REDIS_REPLY_STRING)
        r->seen[rank] = now;
    if (!record_fits(record)) { /* it will be said again */
        if (alive->type == REDIS_REPLY_STRING)
            r->left[rank] = alive->len == 4 ? r->core.serial : 0;
        return;
    }
    larder__relay_deliver(&r->core, rank, record->str + sizeof(uint64_t),
                          (size_t)record->len - sizeof(uint64_t));
    r->seen[rank] = now;
}

typedef struct question { /* some of what is waited for */
    uint64_t serial;
    uint32_t ranks[AT_ONCE], at;
    size_t n;
    char keys[2 * AT_ONCE][LARDER__RELAY_KEY];
} question;

static bool pick_missing(larder__redis_relay *r, question *q) {
    q->n = 0;
    pthread_mutex_lock(&r->core.lock);
    q->serial = r->core.serial;
    for (; r->core.wish && q->at < r->core.world && q->n < AT_ONCE; q->at++) {
        if (!larder__relay_waits(&r->core, q->at))
            continue;
        record_key(r, r->core.wish_kind, r->core.wish_number, q->at, q->keys[2 * q->n]);
        alive_key(r, q->at, q->keys[2 * q->n + 1]);
        q->ranks[q->n++] = q->at;
    }
    pthread_mutex_unlock(&r->core.lock);
    return q->n > 0;
}

static int ask_for_some(larder__redis_relay *r, const question *q) {
    const char *argv[2 * AT_ONCE + 1] = {"MGET"};
    redisReply *reply;
    size_t n = q->n;
    for (size_t i = 0; i < 2 * n; i++)
        argv[i + 1] = q->keys[i];
    int rc = larder__redis_relay_ask(r, &reply, (int)(2 * n) + 1, argv, NULL);
    if (rc < 0)
        return rc;
    double now = larder__world_now();
    bool fits = reply->type == REDIS_REPLY_ARRAY && reply->elements == 2 * n;
    pthread_mutex_lock(&r->core.lock);
    for (size_t i = 0; fits && r->core.wish && r->core.serial == q->serial && i < n; i++)
        take_answer(r, q->ranks[i], reply->element[2 * i], reply->element[2 * i + 1], now);
    pthread_mutex_unlock(&r->core.lock);
    freeReplyObject(reply);
    return fits ? 0 : larder__fail(LARDER_E_FORMAT, "%s answers with something else", r->conn.name);
}

/* Has somebody been silent for too long? With the lock held. */
static void judge(larder__redis_relay *r, double now) {
    char why[sizeof r->core.why];
    if (r->apart[0] && r->core.wish && !r->core.failed)
        larder__relay_give_up(&r->core, LARDER_E_STATE, r->apart);
    larder__relay_judge(&r->core, now, "Redis");
    if (!r->conn.context || r->core.failed)
        return; /* nobody can be heard now */
    /* Nobody is looked for while nothing is wished for, and what they say may have been deleted. */
    double since = fmax(r->connected_at, r->core.wished_at);
    for (uint32_t k = 0; r->core.met && k < r->core.world; k++) {
        if (!larder__relay_waits(&r->core, k))
            continue;
        if (r->left[k] == r->core.serial) /* what it gave before it left lies there */
            snprintf(why, sizeof why, LARDER__RELAY_ENDED, k, r->core.world, r->core.rank);
        else if (now - fmax(r->seen[k], since) > r->core.patience)
            snprintf(why, sizeof why,
                     "rank %u of %u has given no sign of life for %.0f s: it was killed, or cannot "
                     "reach Redis",
                     k, r->core.world, r->core.patience);
        else
            continue;
        larder__relay_give_up(&r->core, LARDER_E_STATE, why);
        return;
    }
}

/* ---- the thread ------------------------------------------------------------------------------ */

static int connect_again(larder__redis_relay *r) {
    int rc = larder__redis_nodes_connect(r->far, r->prefix, &r->conn);
    if (rc < 0)
        return rc;
    r->alive_at = 0;
    r->connected_at = larder__world_now();
    larder__relay_unsend(&r->core);
    return 0;
}

static int meet(larder__redis_relay *r) {
    int rc = larder__redis_relay_meet(r);
    if (rc <= 0)
        return rc;
    pthread_mutex_lock(&r->core.lock);
    r->core.met = true;
    r->met_at = larder__world_now();
    for (uint32_t k = 0; k < r->core.world; k++)
        r->seen[k] = r->met_at;
    pthread_mutex_unlock(&r->core.lock);
    return 0;
}

static int step(larder__redis_relay *r) {
    question q = {.at = 0};
    int rc = r->conn.context ? 0 : connect_again(r);
    if (rc == 0 && !r->session[0])
        rc = meet(r);
    if (rc < 0 || !r->session[0])
        return rc;
    if ((rc = show_alive(r, larder__world_now())) < 0 || (rc = send_posted(r)) < 0)
        return rc;
    while (rc == 0 && pick_missing(r, &q))
        rc = ask_for_some(r, &q);
    return rc;
}

static void say_good_bye(larder__redis_relay *r) {
    char key[LARDER__RELAY_KEY], seconds[16];
    if (!r->session[0] || !r->conn.context || send_posted(r) < 0)
        return;
    snprintf(seconds, sizeof seconds, "%d", LAST_SECONDS);
    for (const larder__posted *p = r->core.posted; p; p = p->next) {
        record_key(r, p->kind, p->number, r->core.rank, key);
        if (command_key(r, "EXPIRE", key, seconds) < 0)
            return;
    }
    alive_key(r, r->core.rank, key);
    larder__redis_relay_set(r, key, "left", 4, LAST_SECONDS);
}

static void *relay_run(void *arg) {
    larder__redis_relay *r = arg;
    double nap = POLL_FIRST;
    uint64_t serial = 0;
    pthread_mutex_lock(&r->core.lock);
    while (!r->stop) {
        pthread_mutex_unlock(&r->core.lock);
        int rc = step(r);
        if (rc < 0 && (rc != LARDER_E_STATE || r->conn.elsewhere)) {
            larder__conn_close(&r->conn);
            larder__redis_nodes_doubt(r->far);
        }
        double now = larder__world_now(), wait = fmin(SAY_AGAIN, r->core.patience / 8);
        pthread_mutex_lock(&r->core.lock);
        if (rc < 0)
            snprintf(r->core.trouble, sizeof r->core.trouble, "%s", larder_errmsg());
        judge(r, now);
        nap = r->core.serial == serial ? fmin(nap * 1.5, POLL_MOST) : POLL_FIRST;
        serial = r->core.serial;
        if (rc < 0)
            wait = RETRY;
        else if (!r->session[0])
            wait = MEET_EVERY;
        else if (r->core.wish && r->core.missing)
            wait = nap;
        bool unsent = false;
        for (const larder__posted *p = r->core.posted; p && !unsent; p = p->next)
            unsent = !p->sent || p->over;
        struct timespec until = larder__timespec_of(now + wait);
        if (!r->stop && (rc < 0 || !unsent || !r->session[0]))
            pthread_cond_timedwait(&r->core.work, &r->core.lock, &until);
    }
    pthread_mutex_unlock(&r->core.lock);
    say_good_bye(r);
    return NULL;
}

/* ---- opening and closing --------------------------------------------------------------------- */

static int open_talk(larder__redis_relay *r, const larder__redis_relay_conf *conf) {
    char owner[64];
    uint64_t nonce;
    if (larder__world_chance(&nonce, sizeof nonce) < 0)
        return larder__fail(LARDER_E_IO, "no chance for a name from the system");
    snprintf(r->nonce, sizeof r->nonce, "%016llx", (unsigned long long)nonce);
    snprintf(r->identity, sizeof r->identity, "%016llx", (unsigned long long)conf->identity);
    snprintf(owner, sizeof owner, "j-%s", conf->redis->job);
    /* All keys have one hash tag, and lie on one node of a cluster. */
    snprintf(r->prefix, sizeof r->prefix,
             "larder:%u:%016llx:{%016llx.%.44s}:", larder__speaks.value,
             (unsigned long long)conf->fingerprint, (unsigned long long)conf->fingerprint, owner);
    larder__redis_values_conf far = {
        .redis = conf->redis, .identity = conf->identity, .owner = owner};
    int rc = larder__redis_values_open(&r->far, &far);
    if (rc < 0)
        return rc;
    if (pthread_create(&r->thread, NULL, relay_run, r) != 0)
        return larder__fail(LARDER_E_NOMEM, "no thread to hear the other ranks with");
    r->running = true;
    return 0;
}

static void relay_wake(larder__relay *core) { pthread_cond_signal(&core->work); }

static void relay_stop(larder__relay *core) {
    larder__redis_relay *r = (larder__redis_relay *)core;
    pthread_mutex_lock(&r->core.lock);
    r->stop = true;
    pthread_cond_signal(&r->core.work);
    pthread_mutex_unlock(&r->core.lock);
    if (r->running)
        pthread_join(r->thread, NULL);
}

static void relay_free(larder__relay *core) {
    larder__redis_relay *r = (larder__redis_relay *)core;
    larder__conn_close(&r->conn);
    larder__redis_values_close(&r->far);
    larder__free(r->seen);
    larder__free(r->left);
    larder__free(r->words);
    larder__free(r);
}

int larder__redis_relay_open(larder__relay **out, const larder__redis_relay_conf *conf) {
    static const larder__relay_ops ops = {relay_wake, relay_stop, relay_free};
    *out = NULL;
    larder__redis_relay *r = larder__calloc(1, sizeof *r);
    if (!r)
        return LARDER_E_NOMEM;
    *out = &r->core;
    int rc = larder__relay_init(&r->core, &ops, conf->rank, conf->world, conf->redis->patience);
    if (rc == 0 && (!(r->seen = larder__calloc(conf->world, sizeof *r->seen)) ||
                    !(r->left = larder__calloc(conf->world, sizeof *r->left))))
        rc = LARDER_E_NOMEM;
    if (rc == 0)
        rc = open_talk(r, conf);
    if (rc < 0)
        larder__relay_close(out);
    return rc;
}

#else

int larder__redis_relay_open(larder__relay **out, const larder__redis_relay_conf *conf) {
    (void)conf;
    *out = NULL;
    return larder__fail(
        LARDER_E_UNSUPPORTED,
        "ranks that share a cache in Redis need hiredis (package libhiredis-dev), which this "
        "build was made without");
}
#endif
