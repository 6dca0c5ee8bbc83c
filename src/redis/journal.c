#include "redis/journal.h"

#include "base/err.h"
#include "base/mem.h"
#include "redis/far_inside.h"

#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#if LARDER_HAVE_HIREDIS
#include <hiredis/hiredis.h>

enum { KEPT_BEHIND = 128, JOBS_MOST = 60 };

/* KEYS of all scripts: state (hash: conf, base, snapat), log, members (number by end of lease),
 * numbers (nonce by number), snap. ARGV[1..3]: nonce, number, length of the lease in ms.
 * Record type 1 is JOIN and 2 is LEAVE (redis/replica.h). */
#define PROLOGUE                                                                                   \
    "local t=redis.call('TIME') local now=t[1]*1000+math.floor(t[2]/1000) "                        \
    "local function expel() "                                                                      \
    "for _,n in ipairs(redis.call('ZRANGEBYSCORE',KEYS[3],'-inf',now)) do "                        \
    "if n~=ARGV[2] then redis.call('ZREM',KEYS[3],n) redis.call('HDEL',KEYS[4],n) "                \
    "redis.call('RPUSH',KEYS[2],struct.pack('<I4I4',2+n*256,0)) end end end "                      \
    "local function keep(ttl) for i=1,5 do redis.call('EXPIRE',KEYS[i],ttl) end end "              \
    "local function mine() return redis.call('HGET',KEYS[4],ARGV[2])==ARGV[1] end "

static const char *const scripts[] = {
    /* join: again, jobs at most, ttl -> number, snapat, base, records from snapat on, snapshot */
    PROLOGUE
    "expel() local n=-1 "
    "for i=0,ARGV[5]-1 do if redis.call('HEXISTS',KEYS[4],i)==0 then n=i break end end "
    "if n<0 then return {-1} end "
    "redis.call('HSET',KEYS[4],n,ARGV[1]) redis.call('ZADD',KEYS[3],now+ARGV[3],n) "
    "redis.call('RPUSH',KEYS[2],struct.pack('<I4I4I4',1+n*256,0,ARGV[4])) keep(ARGV[6]) "
    "local base=tonumber(redis.call('HGET',KEYS[1],'base') or 0) "
    "local at=tonumber(redis.call('HGET',KEYS[1],'snapat') or 0) "
    "return {n,at,base,redis.call('LRANGE',KEYS[2],at-base,-1),redis.call('GET',KEYS[5]) or ''}",
    /* step: from, last record before it, records -> 0, records from there on */
    PROLOGUE
    "if not mine() then return {-1} end "
    "local base=tonumber(redis.call('HGET',KEYS[1],'base') or 0) local from=tonumber(ARGV[4]) "
    "if from<base or from>base+redis.call('LLEN',KEYS[2]) then return {-2} end "
    "if from>base and redis.call('LINDEX',KEYS[2],from-1-base)~=ARGV[5] then return {-3} end "
    "expel() redis.call('ZADD',KEYS[3],now+ARGV[3],ARGV[2]) "
    "for i=6,#ARGV do redis.call('RPUSH',KEYS[2],ARGV[i]) end "
    "return {0,redis.call('LRANGE',KEYS[2],from-base,-1)}",
    /* snapshot: index, bytes, records to keep behind it, ttl -> 1 */
    PROLOGUE "if not mine() then return 0 end local at=tonumber(ARGV[4]) "
             "local base=tonumber(redis.call('HGET',KEYS[1],'base') or 0) "
             "if at<=tonumber(redis.call('HGET',KEYS[1],'snapat') or 0) or "
             "at>base+redis.call('LLEN',KEYS[2]) then return 0 end "
             "redis.call('SET',KEYS[5],ARGV[5]) redis.call('HSET',KEYS[1],'snapat',at) "
             "local first=at-ARGV[6] if first>base then redis.call('LTRIM',KEYS[2],first-base,-1) "
             "redis.call('HSET',KEYS[1],'base',first) end keep(ARGV[7]) return 1",
    /* leave */
    PROLOGUE "if mine() then redis.call('ZREM',KEYS[3],ARGV[2]) redis.call('HDEL',KEYS[4],ARGV[2]) "
             "redis.call('RPUSH',KEYS[2],struct.pack('<I4I4',2+ARGV[2]*256,0)) end return 1",
};
enum { JOIN, STEP, SNAPSHOT, LEAVE, SCRIPTS };

struct larder__journal {
    larder__far *far;
    larder__conn conn;
    char keys[5][LARDER__KEY];
    char sha[SCRIPTS][41]; /* "": not loaded */
    char nonce[20], number[8], lease[16], ttl[16];
    uint64_t at, snapshot_at; /* index of the next record to see; of the last snapshot heard of */
    larder_writer last;       /* the record before it */
    redisReply *reply;        /* what the history given last points into */
    larder__record *records;
    size_t room;
};

static void forget(larder__journal *j) {
    if (j->reply)
        freeReplyObject(j->reply);
    j->reply = NULL;
}

/* What went wrong ends the talk; another one begins with agree. */
static int hang_up(larder__journal *j, int rc) {
    forget(j);
    larder__conn_close(&j->conn);
    return rc;
}

static int load_scripts(larder__journal *j) {
    for (int i = 0; i < SCRIPTS; i++) {
        redisReply *r;
        int rc = larder__conn_ask(&j->conn, &r, 3,
                                  (const char *const[]){"SCRIPT", "LOAD", scripts[i]}, NULL);
        if (rc < 0)
            return rc;
        bool sound = r->type == REDIS_REPLY_STRING && r->len == 40;
        snprintf(j->sha[i], sizeof j->sha[i], "%s", sound ? r->str : "");
        freeReplyObject(r);
        if (!sound)
            return larder__fail(LARDER_E_FORMAT, "%s takes no scripts", j->conn.name);
    }
    return 0;
}

/* Runs a script; its answer is kept. */
static int run(larder__journal *j, int which, size_t n, const larder__record *more) {
    const char **argv = larder__malloc((8 + 3 + n) * sizeof *argv);
    size_t *lengths = larder__malloc((8 + 3 + n) * sizeof *lengths);
    int argc = 0, rc = LARDER_E_NOMEM;
    forget(j);
    if (argv && lengths && j->conn.context) {
        argv[argc++] = "EVALSHA";
        argv[argc++] = j->sha[which];
        argv[argc++] = "5";
        for (int k = 0; k < 5; k++)
            argv[argc++] = j->keys[k];
        argv[argc++] = j->nonce;
        argv[argc++] = j->number;
        argv[argc++] = j->lease;
        for (int i = 0; i < argc; i++)
            lengths[i] = strlen(argv[i]);
        for (size_t i = 0; i < n; i++, argc++) {
            argv[argc] = more[i].bytes;
            lengths[argc] = more[i].size;
        }
        rc = larder__conn_ask(&j->conn, &j->reply, argc, argv, lengths);
    } else if (!j->conn.context)
        rc = larder__fail(LARDER_E_IO, "the connection to the group's journal is gone");
    larder__free((void *)(uintptr_t)argv);
    larder__free(lengths);
    return rc;
}

static larder__record text_of(const char *text) { return (larder__record){text, strlen(text)}; }

/* Points a history at the records of an answer, and notes how far it reaches. */
static int take_records(larder__journal *j, const redisReply *list, larder__history *out) {
    if (list->type != REDIS_REPLY_ARRAY)
        return larder__fail(LARDER_E_FORMAT, "%s answers with something else", j->conn.name);
    if (list->elements > j->room) {
        larder__record *more = larder__realloc(j->records, list->elements * sizeof *more);
        if (!more)
            return LARDER_E_NOMEM;
        j->records = more;
        j->room = list->elements;
    }
    for (size_t i = 0; i < list->elements; i++) {
        const redisReply *r = list->element[i];
        if (r->type != REDIS_REPLY_STRING)
            return larder__fail(LARDER_E_FORMAT, "%s answers with something else", j->conn.name);
        j->records[i] = (larder__record){r->str, (size_t)r->len};
    }
    *out = (larder__history){.records = j->records, .count = list->elements};
    j->at += list->elements;
    if (list->elements == 0)
        return 0;
    j->last.size = 0;
    j->last.code = 0;
    larder_write_bytes(&j->last, j->records[out->count - 1].bytes, j->records[out->count - 1].size);
    return j->last.code;
}

int larder__journal_open(larder__journal **out, larder__far *far, const char *group,
                         uint64_t identity, double lease, uint32_t ttl) {
    static const char *const names[] = {"state", "log", "members", "numbers", "snap"};
    larder__journal *j = *out = larder__calloc(1, sizeof *j);
    uint64_t nonce;
    if (!j)
        return LARDER_E_NOMEM;
    j->far = far;
    for (int k = 0; k < 5; k++)
        snprintf(j->keys[k], sizeof j->keys[k], "larder:%d:%016llx:{%016llx.%.40s}:%s",
                 LARDER__VALUE_VERSION, (unsigned long long)identity, (unsigned long long)identity,
                 group, names[k]);
    snprintf(j->lease, sizeof j->lease, "%.0f", lease * 1000);
    snprintf(j->ttl, sizeof j->ttl, "%u", ttl ? ttl : 30 * 86400);
    if (getrandom(&nonce, sizeof nonce, 0) == (ssize_t)sizeof nonce) {
        snprintf(j->nonce, sizeof j->nonce, "%016llx", (unsigned long long)nonce);
        return 0;
    }
    larder__journal_close(out);
    return larder__fail(LARDER_E_IO, "no chance for a name from the system");
}

void larder__journal_close(larder__journal **pj) {
    larder__journal *j = *pj;
    *pj = NULL;
    if (!j)
        return;
    hang_up(j, 0);
    larder__writer_free(&j->last);
    larder__free(j->records);
    larder__free(j);
}

int larder__journal_agree(larder__journal *j, const larder_writer *mine, larder_reader *agreed) {
    hang_up(j, 0);
    larder__node *n = larder__fleet_find(j->far, j->keys[0], strlen(j->keys[0]), true);
    if (!n || !atomic_load(&n->up))
        return larder__fail(LARDER_E_IO, "Redis is away");
    int rc = larder__conn_open(&j->conn, &j->far->conf, n->host, n->port, false);
    if (rc == 0 && j->conn.loading)
        rc = larder__fail(LARDER_E_STATE, "%s is still loading its data", j->conn.name);
    if (rc == 0)
        rc = load_scripts(j);
    const char *set[] = {"HSETNX", j->keys[0], "conf", (const char *)mine->bytes};
    const size_t lengths[] = {6, strlen(j->keys[0]), 4, mine->size};
    if (rc == 0)
        rc = larder__conn_ask(&j->conn, &j->reply, 4, set, lengths);
    forget(j);
    const char *get[] = {"HGET", j->keys[0], "conf"};
    if (rc == 0)
        rc = larder__conn_ask(&j->conn, &j->reply, 3, get, NULL);
    if (rc == 0 && (!j->reply || j->reply->type != REDIS_REPLY_STRING))
        rc = larder__fail(LARDER_E_FORMAT, "%s answers with something else", j->conn.name);
    if (rc < 0 || !j->reply)
        return hang_up(j, rc < 0 ? rc : LARDER_E_IO);
    *agreed = (larder_reader){.at = (unsigned char *)j->reply->str,
                              .end = (unsigned char *)j->reply->str + j->reply->len};
    return 0;
}

int larder__journal_join(larder__journal *j, bool again, uint32_t *job, larder__history *out) {
    char most[8];
    snprintf(most, sizeof most, "%d", JOBS_MOST);
    snprintf(j->number, sizeof j->number, "-");
    const larder__record args[] = {text_of(again ? "1" : "0"), text_of(most), text_of(j->ttl)};
    int rc = run(j, JOIN, 3, args);
    if (rc < 0)
        return hang_up(j, rc);
    const redisReply *r = j->reply;
    bool array = r->type == REDIS_REPLY_ARRAY && r->elements > 0;
    if (array && r->elements == 1)
        return hang_up(j,
                       larder__fail(LARDER_E_FULL, "%d jobs are in this group already", JOBS_MOST));
    if (!array || r->elements != 5 || r->element[0]->type != REDIS_REPLY_INTEGER ||
        r->element[0]->integer < 0 || r->element[0]->integer >= JOBS_MOST ||
        r->element[1]->type != REDIS_REPLY_INTEGER || r->element[1]->integer < 0 ||
        r->element[4]->type != REDIS_REPLY_STRING)
        return hang_up(
            j, larder__fail(LARDER_E_FORMAT, "%s answers with something else", j->conn.name));
    *job = (uint32_t)r->element[0]->integer;
    snprintf(j->number, sizeof j->number, "%u", *job);
    j->at = j->snapshot_at = (uint64_t)r->element[1]->integer;
    rc = take_records(j, r->element[3], out);
    if (rc < 0)
        return hang_up(j, rc);
    out->snapshot = r->element[4]->str;
    out->snapshot_size = (size_t)r->element[4]->len;
    return 0;
}

int larder__journal_step(larder__journal *j, const larder__record *records, size_t n,
                         larder__history *out) {
    char from[24];
    larder__record *args = larder__malloc((n + 2) * sizeof *args);
    if (!args)
        return LARDER_E_NOMEM;
    snprintf(from, sizeof from, "%llu", (unsigned long long)j->at);
    args[0] = text_of(from);
    args[1] = (larder__record){j->last.bytes, j->last.size};
    if (n)
        memcpy(args + 2, records, n * sizeof *records);
    int rc = run(j, STEP, n + 2, args);
    larder__free(args);
    if (rc < 0)
        return hang_up(j, rc == LARDER_E_STATE ? LARDER_E_CHANGED : rc);
    const redisReply *r = j->reply;
    if (r->type != REDIS_REPLY_ARRAY || r->elements != 2 ||
        r->element[0]->type != REDIS_REPLY_INTEGER)
        return hang_up(j, larder__fail(LARDER_E_CHANGED, "%s: the group goes on without this job",
                                       j->conn.name));
    rc = take_records(j, r->element[1], out);
    return rc < 0 ? hang_up(j, rc) : 0;
}

int larder__journal_snapshot(larder__journal *j, const larder_writer *state) {
    char at[24], behind[16];
    if (state->code < 0)
        return state->code;
    snprintf(at, sizeof at, "%llu", (unsigned long long)j->at);
    snprintf(behind, sizeof behind, "%d", KEPT_BEHIND);
    const larder__record args[] = {
        text_of(at), {state->bytes, state->size}, text_of(behind), text_of(j->ttl)};
    j->snapshot_at = j->at;
    int rc = run(j, SNAPSHOT, 4, args);
    return rc < 0 && rc != LARDER_E_STATE ? hang_up(j, rc) : 0;
}

uint64_t larder__journal_since_snapshot(const larder__journal *j) { return j->at - j->snapshot_at; }

void larder__journal_leave(larder__journal *j) {
    if (j->conn.context)
        run(j, LEAVE, 0, NULL);
    hang_up(j, 0);
}
#endif
