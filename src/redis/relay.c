#include "redis/relay.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "redis/relay_inside.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#if LARDER_HAVE_HIREDIS
#include <hiredis/hiredis.h>

enum { RECORD_SECONDS = 86400, LAST_SECONDS = 120, AT_ONCE = 16 };
static const double MEET_EVERY = 0.02, POLL_FIRST = 0.0005, POLL_MOST = 0.005, RETRY = 0.1;
static const double MEET_PATIENCE = 10; /* times as long for those who have yet to come */

/* ---- talking, by the thread alone ------------------------------------------------------------ */

int larder__relay_ask(larder__relay *r, redisReply **out, int argc, const char *const *argv,
                      const size_t *lengths) {
    int rc = larder__conn_ask(&r->conn, out, argc, argv, lengths);
    if (rc < 0)
        return rc;
    pthread_mutex_lock(&r->lock);
    r->heard_at = larder__now();
    pthread_mutex_unlock(&r->lock);
    return 0;
}

int larder__relay_set(larder__relay *r, const char *key, const void *bytes, size_t size,
                      unsigned seconds) {
    char ttl[16];
    redisReply *reply;
    snprintf(ttl, sizeof ttl, "%u", seconds);
    const char *argv[] = {"SET", key, bytes, "EX", ttl};
    const size_t lengths[] = {3, strlen(key), size, 2, strlen(ttl)};
    int rc = larder__relay_ask(r, &reply, 5, argv, lengths);
    if (rc == 0)
        freeReplyObject(reply);
    return rc;
}

static void record_key(const larder__relay *r, char kind, uint64_t number, uint32_t rank,
                       char out[LARDER__RELAY_KEY]) {
    snprintf(out, LARDER__RELAY_KEY, "%s%s:%c:%llu:%u", r->prefix, r->session, kind,
             (unsigned long long)number, rank);
}

static void alive_key(const larder__relay *r, uint32_t rank, char out[LARDER__RELAY_KEY]) {
    snprintf(out, LARDER__RELAY_KEY, "%s%s:alive:%u", r->prefix, r->session, rank);
}

static int show_alive(larder__relay *r, double now) {
    char key[LARDER__RELAY_KEY];
    if (now < r->alive_at)
        return 0;
    alive_key(r, r->rank, key);
    int rc = larder__relay_set(r, key, "1", 1, (unsigned)ceil(r->patience));
    r->alive_at = now + r->patience / 4;
    return rc;
}

/* The next record that is to be sent or deleted; it stays in the list meanwhile, and only this
 * thread takes any out. */
static larder__posted *next_to_send(larder__relay *r) {
    pthread_mutex_lock(&r->lock);
    larder__posted *p = r->posted;
    while (p && p->sent && !p->over)
        p = p->next;
    pthread_mutex_unlock(&r->lock);
    return p;
}

static void take_out(larder__relay *r, larder__posted *p) {
    pthread_mutex_lock(&r->lock);
    larder__posted **at = &r->posted;
    while (*at != p)
        at = &(*at)->next;
    *at = p->next;
    if (r->last == &p->next)
        r->last = at;
    pthread_mutex_unlock(&r->lock);
    larder__free(p);
}

static int command_key(larder__relay *r, const char *command, const char *key, const char *more) {
    redisReply *reply;
    int rc =
        larder__relay_ask(r, &reply, more ? 3 : 2, (const char *const[]){command, key, more}, NULL);
    if (rc == 0)
        freeReplyObject(reply);
    return rc;
}

static int send_posted(larder__relay *r) {
    int rc = 0;
    for (larder__posted *p; rc == 0 && (p = next_to_send(r));) {
        char key[LARDER__RELAY_KEY];
        record_key(r, p->kind, p->number, r->rank, key);
        pthread_mutex_lock(&r->lock);
        bool over = p->over;
        pthread_mutex_unlock(&r->lock);
        rc = over ? command_key(r, "UNLINK", key, NULL)
                  : larder__relay_set(r, key, p->bytes, p->size, RECORD_SECONDS);
        if (rc < 0)
            break;
        if (over) {
            take_out(r, p);
            continue;
        }
        pthread_mutex_lock(&r->lock);
        p->sent = true;
        pthread_mutex_unlock(&r->lock);
    }
    return rc;
}

/* ---- what is waited for ---------------------------------------------------------------------- */

/* With the lock held: the wish has failed. */
static void give_up(larder__relay *r, int code, const char *why) {
    r->failed = code;
    snprintf(r->why, sizeof r->why, "%s", why);
    pthread_cond_broadcast(&r->heard);
}

/* One rank's record, if it is there, and whether it lives. With the lock held. */
static void take_answer(larder__relay *r, uint32_t rank, const redisReply *record,
                        const redisReply *alive, double now) {
    if (alive->type == REDIS_REPLY_STRING) {
        r->seen[rank] = now;
        r->left[rank] = alive->len == 4;
    }
    if (record->type != REDIS_REPLY_STRING)
        return;
    larder__relayed *w = &r->wish[rank];
    w->bytes = larder__malloc((size_t)record->len + 1);
    if (!w->bytes) {
        give_up(r, LARDER_E_NOMEM, "out of memory");
        return;
    }
    memcpy(w->bytes, record->str, (size_t)record->len);
    w->size = (size_t)record->len;
    r->seen[rank] = now;
    r->missing--;
}

typedef struct question { /* some of what is waited for */
    uint64_t serial;
    uint32_t ranks[AT_ONCE], at;
    size_t n;
    char keys[2 * AT_ONCE][LARDER__RELAY_KEY];
} question;

static bool pick_missing(larder__relay *r, question *q) {
    q->n = 0;
    pthread_mutex_lock(&r->lock);
    q->serial = r->serial;
    for (; r->wish && q->at < r->world && q->n < AT_ONCE; q->at++) {
        if (!r->wish[q->at].size || r->wish[q->at].bytes)
            continue;
        record_key(r, r->wish_kind, r->wish_number, q->at, q->keys[2 * q->n]);
        alive_key(r, q->at, q->keys[2 * q->n + 1]);
        q->ranks[q->n++] = q->at;
    }
    pthread_mutex_unlock(&r->lock);
    return q->n > 0;
}

static int ask_for_some(larder__relay *r, const question *q) {
    const char *argv[2 * AT_ONCE + 1] = {"MGET"};
    redisReply *reply;
    size_t n = q->n;
    for (size_t i = 0; i < 2 * n; i++)
        argv[i + 1] = q->keys[i];
    int rc = larder__relay_ask(r, &reply, (int)(2 * n) + 1, argv, NULL);
    if (rc < 0)
        return rc;
    double now = larder__now();
    bool fits = reply->type == REDIS_REPLY_ARRAY && reply->elements == 2 * n;
    pthread_mutex_lock(&r->lock);
    for (size_t i = 0; fits && r->wish && r->serial == q->serial && i < n; i++)
        take_answer(r, q->ranks[i], reply->element[2 * i], reply->element[2 * i + 1], now);
    if (r->missing == 0)
        pthread_cond_broadcast(&r->heard);
    pthread_mutex_unlock(&r->lock);
    freeReplyObject(reply);
    return fits ? 0 : larder__fail(LARDER_E_FORMAT, "%s answers with something else", r->conn.name);
}

/* Has somebody been silent for too long? With the lock held. */
static void judge(larder__relay *r, double now) {
    char why[sizeof r->why];
    if (!r->wish || r->failed || r->missing == 0)
        return;
    double since = r->heard_at > r->wished_at ? r->heard_at : r->wished_at;
    if (now - since > r->patience) {
        snprintf(why, sizeof why, "the ranks of this job cannot hear each other: %.200s",
                 r->trouble[0] ? r->trouble : "Redis does not answer");
        give_up(r, LARDER_E_IO, why);
        return;
    }
    if (!r->met && now - r->wished_at > MEET_PATIENCE * r->patience) {
        snprintf(why, sizeof why, "the %u ranks of this job have not found each other: %.200s",
                 r->world, r->trouble);
        give_up(r, LARDER_E_STATE, why);
        return;
    }
    if (!r->conn.context)
        return; /* nobody can be heard now */
    for (uint32_t k = 0; r->met && k < r->world; k++) {
        if (!r->wish[k].size || r->wish[k].bytes)
            continue;
        if (r->left[k])
            snprintf(why, sizeof why, "rank %u of %u has ended, and rank %u has not", k, r->world,
                     r->rank);
        else if (now - fmax(r->seen[k], r->connected_at) > r->patience)
            snprintf(why, sizeof why,
                     "rank %u of %u has given no sign of life for %.0f s: it was killed, or cannot "
                     "reach Redis",
                     k, r->world, r->patience);
        else
            continue;
        give_up(r, LARDER_E_STATE, why);
        return;
    }
}

/* ---- the thread ------------------------------------------------------------------------------ */

static int connect_again(larder__relay *r) {
    larder__conn_close(&r->conn);
    larder__node *n = larder__fleet_find(r->far, r->prefix, strlen(r->prefix), true);
    if (!n)
        return larder__fail(LARDER_E_IO, "Redis is away");
    int rc = larder__conn_open(&r->conn, &r->far->conf, n->host, n->port, false);
    if (rc == 0 && r->conn.loading)
        rc = larder__fail(LARDER_E_STATE, "%s is still loading its data", r->conn.name);
    if (rc < 0) {
        larder__conn_close(&r->conn);
        return rc;
    }
    r->alive_at = 0;
    r->connected_at = larder__now();
    pthread_mutex_lock(&r->lock);
    for (larder__posted *p = r->posted; p; p = p->next)
        p->sent = false; /* it may have come back empty */
    pthread_mutex_unlock(&r->lock);
    return 0;
}

static int meet(larder__relay *r) {
    int rc = larder__relay_meet(r);
    if (rc <= 0)
        return rc;
    pthread_mutex_lock(&r->lock);
    r->met = true;
    for (uint32_t k = 0; k < r->world; k++)
        r->seen[k] = larder__now();
    pthread_mutex_unlock(&r->lock);
    return 0;
}

static int step(larder__relay *r) {
    question q = {.at = 0};
    int rc = r->conn.context ? 0 : connect_again(r);
    if (rc == 0 && !r->session[0])
        rc = meet(r);
    if (rc < 0 || !r->session[0])
        return rc;
    if ((rc = show_alive(r, larder__now())) < 0 || (rc = send_posted(r)) < 0)
        return rc;
    while (rc == 0 && pick_missing(r, &q))
        rc = ask_for_some(r, &q);
    return rc;
}

static void say_good_bye(larder__relay *r) {
    char key[LARDER__RELAY_KEY], seconds[16];
    if (!r->session[0] || !r->conn.context || send_posted(r) < 0)
        return;
    snprintf(seconds, sizeof seconds, "%d", LAST_SECONDS);
    for (const larder__posted *p = r->posted; p; p = p->next) {
        record_key(r, p->kind, p->number, r->rank, key);
        if (command_key(r, "EXPIRE", key, seconds) < 0)
            return;
    }
    alive_key(r, r->rank, key);
    larder__relay_set(r, key, "left", 4, LAST_SECONDS);
}

static void *relay_run(void *arg) {
    larder__relay *r = arg;
    double nap = POLL_FIRST;
    uint64_t serial = 0;
    pthread_mutex_lock(&r->lock);
    while (!r->stop) {
        pthread_mutex_unlock(&r->lock);
        int rc = step(r);
        if (rc < 0 && rc != LARDER_E_STATE)
            larder__conn_close(&r->conn);
        double now = larder__now(), wait = r->patience / 8;
        pthread_mutex_lock(&r->lock);
        if (rc < 0)
            snprintf(r->trouble, sizeof r->trouble, "%s", larder_errmsg());
        judge(r, now);
        nap = r->serial == serial ? fmin(nap * 1.5, POLL_MOST) : POLL_FIRST;
        serial = r->serial;
        if (rc < 0)
            wait = RETRY;
        else if (!r->session[0])
            wait = MEET_EVERY;
        else if (r->wish && r->missing)
            wait = nap;
        bool unsent = false;
        for (const larder__posted *p = r->posted; p && !unsent; p = p->next)
            unsent = !p->sent || p->over;
        struct timespec until = larder__timespec_of(now + wait);
        if (!r->stop && (rc < 0 || !unsent || !r->session[0]))
            pthread_cond_timedwait(&r->work, &r->lock, &until);
    }
    pthread_mutex_unlock(&r->lock);
    say_good_bye(r);
    return NULL;
}

/* ---- the others' side ------------------------------------------------------------------------ */

int larder__relay_post(larder__relay *r, char kind, uint64_t number, const void *bytes,
                       size_t size) {
    larder__posted *p = larder__malloc(sizeof *p + size);
    if (!p)
        return LARDER_E_NOMEM;
    *p = (larder__posted){.number = number, .size = size, .kind = kind};
    memcpy(p->bytes, bytes, size);
    pthread_mutex_lock(&r->lock);
    *r->last = p;
    r->last = &p->next;
    pthread_cond_signal(&r->work);
    pthread_mutex_unlock(&r->lock);
    return 0;
}

void larder__relay_forget(larder__relay *r, char kind, uint64_t number) {
    pthread_mutex_lock(&r->lock);
    for (larder__posted *p = r->posted; p; p = p->next)
        if (p->kind == kind && p->number == number)
            p->over = true;
    pthread_mutex_unlock(&r->lock);
}

/* With the lock held: waits until the wish has come true or failed. */
static int await(larder__relay *r, double seconds) {
    struct timespec until = larder__timespec_of(larder__now() + fmin(seconds, 1e9));
    pthread_cond_signal(&r->work);
    while (r->missing && !r->failed && !r->interrupted)
        if (pthread_cond_timedwait(&r->heard, &r->lock, &until) == ETIMEDOUT)
            break;
    if (r->missing && r->interrupted)
        return larder__fail(LARDER_E_CANCELLED, "the loader was closed");
    if (r->missing && !r->failed)
        return 1;
    return r->failed ? larder__fail(r->failed, "%s", r->why) : 0;
}

int larder__relay_gather(larder__relay *r, char kind, uint64_t number, double seconds,
                         larder__relayed *out) {
    pthread_mutex_lock(&r->asking);
    pthread_mutex_lock(&r->lock);
    r->missing = 0;
    r->failed = 0;
    for (uint32_t k = 0; k < r->world; k++) {
        out[k].bytes = NULL;
        r->missing += out[k].size != 0;
    }
    r->wish = out;
    r->serial++;
    r->wish_kind = kind;
    r->wish_number = number;
    r->wished_at = larder__now();
    int rc = r->missing ? await(r, seconds) : 0;
    r->wish = NULL;
    pthread_mutex_unlock(&r->lock);
    pthread_mutex_unlock(&r->asking);
    for (uint32_t k = 0; k < r->world; k++) {
        if (rc)
            larder__free(out[k].bytes);
        if (rc)
            out[k] = (larder__relayed){0};
    }
    return rc;
}

void larder__relay_interrupt(larder__relay *r) {
    pthread_mutex_lock(&r->lock);
    r->interrupted = true;
    pthread_cond_broadcast(&r->heard);
    pthread_mutex_unlock(&r->lock);
}

/* ---- opening and closing --------------------------------------------------------------------- */

static void init_locks(larder__relay *r) {
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&r->asking, NULL);
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->work, &monotonic);
    pthread_cond_init(&r->heard, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

static int open_talk(larder__relay *r, const larder__relay_conf *conf) {
    char owner[64];
    uint64_t nonce;
    if (getrandom(&nonce, sizeof nonce, 0) != (ssize_t)sizeof nonce)
        return larder__fail(LARDER_E_IO, "no chance for a name from the system");
    snprintf(r->nonce, sizeof r->nonce, "%016llx", (unsigned long long)nonce);
    snprintf(owner, sizeof owner, "j-%s", conf->redis->job);
    /* All keys have one hash tag, and lie on one node of a cluster. */
    snprintf(r->prefix, sizeof r->prefix,
             "larder:%d:%016llx:{%016llx.%.44s}:", LARDER__VALUE_VERSION,
             (unsigned long long)conf->fingerprint, (unsigned long long)conf->fingerprint, owner);
    larder__far_conf far = {.redis = conf->redis, .fingerprint = conf->fingerprint, .owner = owner};
    int rc = larder__far_open(&r->far, &far);
    if (rc < 0)
        return rc;
    if (pthread_create(&r->thread, NULL, relay_run, r) != 0)
        return larder__fail(LARDER_E_NOMEM, "no thread to hear the other ranks with");
    r->running = true;
    return 0;
}

int larder__relay_open(larder__relay **out, const larder__relay_conf *conf) {
    *out = NULL;
    if (conf->world > LARDER__RELAY_RANKS)
        return larder__fail(LARDER_E_RANGE, "%u ranks: at most %d share a cache", conf->world,
                            LARDER__RELAY_RANKS);
    larder__relay *r = larder__calloc(1, sizeof *r);
    if (!r)
        return LARDER_E_NOMEM;
    init_locks(r);
    r->rank = conf->rank;
    r->world = conf->world;
    r->patience = conf->redis->patience;
    r->last = &r->posted;
    r->seen = larder__calloc(r->world, sizeof *r->seen);
    r->left = larder__calloc(r->world, sizeof *r->left);
    int rc = r->seen && r->left ? open_talk(r, conf) : LARDER_E_NOMEM;
    if (rc < 0)
        larder__relay_close(&r);
    *out = r;
    return rc;
}

void larder__relay_close(larder__relay **pr) {
    larder__relay *r = *pr;
    *pr = NULL;
    if (!r)
        return;
    pthread_mutex_lock(&r->lock);
    r->stop = true;
    pthread_cond_signal(&r->work);
    pthread_mutex_unlock(&r->lock);
    if (r->running)
        pthread_join(r->thread, NULL);
    larder__conn_close(&r->conn);
    larder__far_close(&r->far);
    for (larder__posted *p = r->posted, *next; p; p = next) {
        next = p->next;
        larder__free(p);
    }
    larder__free(r->seen);
    larder__free(r->left);
    pthread_mutex_destroy(&r->asking);
    pthread_mutex_destroy(&r->lock);
    pthread_cond_destroy(&r->work);
    pthread_cond_destroy(&r->heard);
    larder__free(r);
}

#else

int larder__relay_open(larder__relay **out, const larder__relay_conf *conf) {
    (void)conf;
    *out = NULL;
    return larder__fail(
        LARDER_E_UNSUPPORTED,
        "ranks that share a cache need hiredis (package libhiredis-dev), which this "
        "build was made without");
}
void larder__relay_close(larder__relay **r) { *r = NULL; }
void larder__relay_interrupt(larder__relay *r) { (void)r; }
int larder__relay_post(larder__relay *r, char kind, uint64_t number, const void *bytes,
                       size_t size) {
    (void)r, (void)kind, (void)number, (void)bytes, (void)size;
    return LARDER_E_UNSUPPORTED;
}
void larder__relay_forget(larder__relay *r, char kind, uint64_t number) {
    (void)r, (void)kind, (void)number;
}
int larder__relay_gather(larder__relay *r, char kind, uint64_t number, double seconds,
                         larder__relayed *out) {
    (void)r, (void)kind, (void)number, (void)seconds, (void)out;
    return LARDER_E_UNSUPPORTED;
}
#endif
