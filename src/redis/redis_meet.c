/* How the ranks of a job find each other, and nobody else: each says hello with a number nobody can
 * guess; rank 0 names those it has seen; whoever finds its own number among them agrees; when all
 * have, rank 0 says that it is done, or that they have different files. Words of an earlier run
 * have other numbers in them. */
#include "base/err.h"
#include "base/hash.h"
#include "base/mem.h"
#include "redis/redis_relay_inside.h"

#if LARDER_HAVE_HIREDIS
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HELLO_SECONDS = 30, MEET_SECONDS = 600, NONCE = 16 };

static void key_of(const larder__redis_relay *r, const char *what, uint32_t rank,
                   char out[LARDER__RELAY_KEY]) {
    snprintf(out, LARDER__RELAY_KEY, "%s%s:%u", r->prefix, what, rank);
}

static int get(larder__redis_relay *r, const char *what, uint32_t rank, char *out, size_t cap) {
    char key[LARDER__RELAY_KEY];
    redisReply *reply;
    out[0] = '\0';
    key_of(r, what, rank, key);
    int rc = larder__redis_relay_ask(r, &reply, 2, (const char *const[]){"GET", key}, NULL);
    if (rc < 0)
        return rc;
    if (reply->type == REDIS_REPLY_STRING && (size_t)reply->len < cap)
        snprintf(out, cap, "%s", reply->str);
    freeReplyObject(reply);
    return 0;
}

static int say(larder__redis_relay *r, const char *what, uint32_t rank, const char *text,
               unsigned seconds) {
    char key[LARDER__RELAY_KEY];
    key_of(r, what, rank, key);
    return larder__redis_relay_set(r, key, text, strlen(text), seconds);
}

/* "0123456789abcdef 3 fedcba9876543210": somebody's number, how many they think there are, and the
 * identity of their files. */
static bool hello_fits(larder__redis_relay *r, const char *text, uint32_t rank, bool *same) {
    char *end = NULL;
    unsigned long world = strlen(text) > NONCE ? strtoul(text + NONCE, &end, 10) : 0;
    if (text[0] == '\0') {
        snprintf(r->core.trouble, sizeof r->core.trouble, "rank %u has not come", rank);
        return false;
    }
    *same = end && *end == ' ' && strcmp(end + 1, r->identity) == 0;
    if (world == r->core.world)
        return true;
    snprintf(r->core.trouble, sizeof r->core.trouble, "rank %u counts %lu ranks, not %u", rank,
             world, r->core.world);
    return false;
}

static void set_apart(larder__redis_relay *r, const char *which) {
    pthread_mutex_lock(&r->core.lock);
    snprintf(r->apart, sizeof r->apart, LARDER__RELAY_COPIES, which);
    pthread_mutex_unlock(&r->core.lock);
}

static int lead(larder__redis_relay *r, char *list, size_t cap) {
    char text[64], name[24], other[64] = "";
    size_t used = 0;
    uint64_t hash = 1;
    bool same = true;
    int rc = 0;
    for (uint32_t k = 0; k < r->core.world; k++) {
        if ((rc = get(r, "hello", k, text, sizeof text)) < 0 || !hello_fits(r, text, k, &same))
            return rc;
        if (!same)
            snprintf(other, sizeof other, " (rank %u has others than rank 0)", k);
        hash = larder__hash_bytes(hash, text, NONCE);
        used += (size_t)snprintf(list + used, cap - used, " %.*s", NONCE, text);
    }
    snprintf(name, sizeof name, "%016llx", (unsigned long long)hash);
    bool all = true;
    for (uint32_t k = 1; k < r->core.world; k++) {
        if ((rc = get(r, "ack", k, text, sizeof text)) < 0)
            return rc;
        if (strcmp(text, name) != 0) {
            snprintf(r->core.trouble, sizeof r->core.trouble, "rank %u does not answer", k);
            all = false;
        }
    }
    char *words = larder__malloc(used + 64);
    if (!words)
        return LARDER_E_NOMEM;
    snprintf(words, used + 64, "%s %s%s", !all ? "open" : other[0] ? "copy" : "done", name, list);
    rc = say(r, "meet", 0, words, MEET_SECONDS);
    larder__free(words);
    if (rc == 0 && all && other[0])
        set_apart(r, other);
    if (rc < 0 || !all || other[0])
        return rc;
    memcpy(r->session, name, NONCE + 1);
    return 1;
}

static int follow(larder__redis_relay *r, char *words, size_t cap) {
    int rc = get(r, "meet", 0, words, cap);
    size_t at = 5 + NONCE + (size_t)r->core.rank * (NONCE + 1) + 1, n = strlen(words);
    if (rc < 0 || n != 5 + NONCE + (size_t)r->core.world * (NONCE + 1) ||
        strncmp(words + at, r->nonce, NONCE) != 0) {
        snprintf(r->core.trouble, sizeof r->core.trouble, "rank 0 has not called all %u together",
                 r->core.world);
        return rc;
    }
    bool done = strncmp(words, "done ", 5) == 0;
    if (strncmp(words, "copy ", 5) == 0)
        set_apart(r, "");
    char name[NONCE + 1];
    memcpy(name, words + 5, NONCE);
    name[NONCE] = '\0';
    if ((rc = say(r, "ack", r->core.rank, name, HELLO_SECONDS)) < 0 || !done)
        return rc;
    memcpy(r->session, name, sizeof name);
    return 1;
}

int larder__redis_relay_meet(larder__redis_relay *r) {
    char text[64];
    snprintf(text, sizeof text, "%s %u %s", r->nonce, r->core.world, r->identity);
    int rc = say(r, "hello", r->core.rank, text, HELLO_SECONDS);
    if (rc < 0)
        return rc;
    size_t cap = (size_t)r->core.world * (NONCE + 1) + 64;
    char *list = larder__calloc(cap, 1);
    if (!list)
        return LARDER_E_NOMEM;
    rc = r->core.rank == 0 ? lead(r, list, cap) : follow(r, list, cap);
    larder__free(list);
    return rc;
}
#endif
