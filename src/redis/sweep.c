/* Whose values are whose: an owner renews a lease; values of owners without one are deleted by
 * whoever opens the same data set next. What is shared has no lease: of that, whoever begins a new
 * generation deletes what the one before has left. */
#include "base/clock.h"
#include "base/err.h"
#include "redis/values_inside.h"

#if LARDER_HAVE_HIREDIS
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LEASE_SECONDS = 60 };

/* A question to the node that has this key; NULL: nobody answers. */
static redisReply *ask_about(larder__redis_values *f, const char *key, int argc,
                             const char *const *argv) {
    redisReply *reply = NULL;
    larder__node *n = larder__redis_nodes_find(f, key, strlen(key), true);
    if (!n || !atomic_load(&n->up))
        return NULL;
    int rc = larder__conn_ask(&n->writer, &reply, argc, argv, NULL);
    if (rc < 0 && rc != LARDER_E_STATE) /* that would be Redis' own word: it is there */
        larder__node_lose(f, n, larder_errmsg());
    else if (rc < 0)
        larder__redis_nodes_doubt(f);
    return rc < 0 ? NULL : reply;
}

static void lease_key(const char *space, size_t n, char out[LARDER__KEY]) {
    snprintf(out, LARDER__KEY, "%.*s:lease", (int)n, space);
}

void larder__lease_renew(larder__redis_values *f, double now) {
    char key[LARDER__KEY], seconds[8];
    if (!f->lease || now < f->lease_at)
        return;
    lease_key(f->space, strlen(f->space), key);
    snprintf(seconds, sizeof seconds, "%d", LEASE_SECONDS);
    redisReply *r = ask_about(f, key, 5, (const char *const[]){"SET", key, "1", "EX", seconds});
    f->lease_at = now + (r ? LEASE_SECONDS / 4.0 : 1);
    if (r)
        freeReplyObject(r);
}

void larder__lease_end(larder__redis_values *f) {
    char key[LARDER__KEY];
    if (!f->lease || f->many)
        return;
    lease_key(f->space, strlen(f->space), key);
    redisReply *r = ask_about(f, key, 2, (const char *const[]){"UNLINK", key});
    if (r)
        freeReplyObject(r);
}

/* Does the owner of this key live? Keys are space:form:id:mark, spaces are larder:V:DATA:OWNER. */
static bool owned(larder__redis_values *f, const char *key) {
    char lease[LARDER__KEY];
    const char *end = key;
    for (int colons = 0; *end; end++)
        if (*end == ':' && ++colons == 4)
            break;
    if (*end != ':' || strlen(key) >= LARDER__KEY - 16)
        return true; /* not a value: none of ours to judge */
    const char *owner = end;
    while (owner > key && owner[-1] != ':')
        owner--;
    if (strncmp(owner, "g-", 2) == 0 || owner[0] == '{') /* belongs to whoever shares it */
        return true;
    lease_key(key, (size_t)(end - key), lease);
    redisReply *r = ask_about(f, lease, 2, (const char *const[]){"EXISTS", lease});
    bool lives = !r || r->type != REDIS_REPLY_INTEGER || r->integer != 0;
    if (r)
        freeReplyObject(r);
    return lives;
}

static void sweep_key(larder__redis_values *f, const char *key) {
    redisReply *r = ask_about(f, key, 2, (const char *const[]){"UNLINK", key});
    if (r)
        freeReplyObject(r);
}

static void sweep_keys(larder__redis_values *f, const redisReply *keys) {
    char known[LARDER__KEY] = ""; /* the owner asked about last, who is mostly the next too */
    bool lives = true;
    size_t mine = strlen(f->space);
    for (size_t i = 0; i < keys->elements; i++) {
        const redisReply *k = keys->element[i];
        if (k->type != REDIS_REPLY_STRING || !k->str || k->len >= LARDER__KEY ||
            (strncmp(k->str, f->space, mine) == 0 && k->str[mine] == ':'))
            continue;
        const char *end = k->str;
        for (int colons = 0; *end && colons < 4; end++)
            colons += *end == ':';
        size_t space = (size_t)(end - k->str);
        if (strlen(known) != space || strncmp(known, k->str, space) != 0) {
            snprintf(known, sizeof known, "%.*s", (int)space, k->str);
            lives = owned(f, k->str);
        }
        if (!lives)
            sweep_key(f, k->str);
    }
}

/* Our own, of another generation; the mark stands last. */
static void sweep_stale(larder__redis_values *f, const redisReply *keys, uint64_t bits,
                        uint64_t mark) {
    for (size_t i = 0; i < keys->elements; i++) {
        const redisReply *k = keys->element[i];
        const char *last = k->type == REDIS_REPLY_STRING && k->str ? strrchr(k->str, ':') : NULL;
        if (last && k->len < LARDER__KEY && (strtoull(last + 1, NULL, 16) & bits) != (mark & bits))
            sweep_key(f, k->str);
    }
}

void larder__redis_values_sweep(larder__redis_values *f, uint64_t bits, uint64_t mark) {
    pthread_mutex_lock(&f->lock);
    f->stale.bits = bits;
    f->stale.mark = mark;
    f->stale.sweeps++;
    pthread_mutex_unlock(&f->lock);
    larder__redis_writer_wake(f);
}

/* Lost half-way: when it is found again all of it is looked at anew. Nobody else does. */
static bool was_lost(larder__node *n) {
    bool lost = !atomic_load(&n->up);
    if (lost)
        memcpy(n->scan, "0", 2);
    return lost;
}

bool larder__sweep_some(larder__redis_values *f, larder__node *n) {
    char pattern[LARDER__KEY];
    redisReply *r;
    pthread_mutex_lock(&f->lock);
    uint64_t bits = f->stale.bits, mark = f->stale.mark;
    if (n->sweeps != f->stale.sweeps)
        memcpy(n->scan, "0", 2);
    n->sweeps = f->stale.sweeps;
    pthread_mutex_unlock(&f->lock);
    if (!n->scan[0] || !atomic_load(&n->up))
        return false;
    const char *data = f->space; /* up to the owner, whoever it is, or all of it */
    if (bits)
        snprintf(pattern, sizeof pattern, "%s:*", data);
    else
        snprintf(pattern, sizeof pattern, "%.*s*", (int)(strrchr(data, ':') - data + 1), data);
    const char *argv[] = {"SCAN", n->scan, "MATCH", pattern, "COUNT", "256"};
    int rc = larder__conn_ask(&n->writer, &r, 6, argv, NULL);
    if (rc < 0) {
        if (rc != LARDER_E_STATE)
            larder__node_lose(f, n, larder_errmsg());
        if (!was_lost(n)) /* it has said no, and would again */
            n->scan[0] = '\0';
        return false;
    }
    bool sound = r->type == REDIS_REPLY_ARRAY && r->elements == 2 &&
                 r->element[0]->type == REDIS_REPLY_STRING && r->element[0]->len < 22 &&
                 r->element[1]->type == REDIS_REPLY_ARRAY;
    if (sound) {
        if (bits)
            sweep_stale(f, r->element[1], bits, mark);
        else
            sweep_keys(f, r->element[1]);
        snprintf(n->scan, sizeof n->scan, "%s", r->element[0]->str);
    }
    if (!sound || strcmp(n->scan, "0") == 0)
        n->scan[0] = '\0';
    freeReplyObject(r);
    return !was_lost(n) && n->scan[0] != '\0';
}
#endif
