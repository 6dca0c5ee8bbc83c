#include "redis/journal.h"

#include "base/err.h"
#include "base/grow.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/world.h"
#include "redis/values_inside.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if LARDER_HAVE_HIREDIS
#include <hiredis/hiredis.h>

enum { KEPT_BEHIND = 1024, JOBS_MOST = 60 };

/* KEYS of all scripts: state, log, snap. The state is a hash: gen (whose generation all of this
 * is), conf, base and count (of the log: indices of its first record and behind its last), snapat
 * and snapsize (of the snapshot), and by number each member as its nonce and the end of its lease.
 * So whatever Redis evicts, or somebody cuts or overwrites, shows: the parts do not fit any more,
 * and whoever agrees next begins another generation. ARGV[1..4]: nonce, number, length of the lease
 * in ms, generation. Record type 1 is JOIN and 2 is LEAVE (cache/operations.def). Where Redis is
 * full it refuses what adds something unless the script has written already: so records are pushed
 * before anything is taken away, or all of it is. */
#define PROLOGUE                                                                                   \
    "local t=redis.call('TIME') local now=t[1]*1000+math.floor(t[2]/1000) local s={} "             \
    "local function look() local all=redis.call('HGETALL',KEYS[1]) "                               \
    "for i=1,#all,2 do s[all[i]]=all[i+1] end "                                                    \
    "for _,f in ipairs({'base','count','snapat','snapsize'}) do s[f]=tonumber(s[f]) end "          \
    "return #s.gen==16 and s.conf and s.core and s.snapsize and 0<=s.base and s.base<=s.snapat "   \
    "and "                                                                                         \
    "s.snapat<=s.count and redis.call('LLEN',KEYS[2])==s.count-s.base end "                        \
    "local function saved() return s.snapat==0 or (redis.call('STRLEN',KEYS[3])==s.snapsize and "  \
    "redis.call('GETRANGE',KEYS[3],0,15)==s.gen) end "                                             \
    "local function fits(f) local ok,yes=pcall(f) return ok and yes end "                          \
    "local sound=fits(look) "                                                                      \
    "local function push(r) redis.call('RPUSH',KEYS[2],r) s.count=s.count+1 "                      \
    "redis.call('HSET',KEYS[1],'count',s.count) end "                                              \
    "local function lease(n) redis.call('HSET',KEYS[1],n,ARGV[1]..(now+ARGV[3])) end "             \
    "local function leave(n) push(struct.pack('<I4I4',2+n*256,0)) redis.call('HDEL',KEYS[1],n) "   \
    "s[tostring(n)]=nil end "                                                                      \
    "local function over(m) return (tonumber(string.sub(m,17)) or 0)<=now end "                    \
    "local function was(m) return string.sub(m,1,16)==ARGV[1] end "                                \
    "local function expel() for n=0,59 do local m=s[tostring(n)] "                                 \
    "if m and tostring(n)~=ARGV[2] and (over(m) or was(m)) then leave(n) end end end "             \
    "local function keep(ttl) for i=1,3 do redis.call('EXPIRE',KEYS[i],ttl) end end "              \
    "local function mine() return sound and s.gen==ARGV[4] and s[ARGV[2]] and "                    \
    "string.sub(s[ARGV[2]],1,16)==ARGV[1] end "

static const char *const scripts[] = {
    /* join: what JOIN says, jobs at most, ttl, agreement, what of it has to agree, the generation
     * to begin; ARGV[4] is one that is no good -> number, agreement, generation, how it came
     * (began), snapat, records from there on, snapshot */
    PROLOGUE "local there,began=redis.call('EXISTS',KEYS[1],KEYS[2],KEYS[3]),0 "
             "if not (sound and fits(saved)) or s.gen==ARGV[4] then "
             "redis.call('DEL',KEYS[1],KEYS[2],KEYS[3]) "
             "redis.call('HSET',KEYS[1],'gen',ARGV[10],'conf',ARGV[8],'core',ARGV[9],'base',0,"
             "'count',0,'snapat',0,'snapsize',0) "
             "s={} began=there==0 and 1 or 2 look() end "
             "if s.core~=ARGV[9] then return {-2,s.conf,s.gen} end expel() local n=-1 "
             "for i=0,ARGV[6]-1 do if not s[tostring(i)] then n=i break end end "
             "if n<0 then return {-1,s.conf,s.gen} end "
             "push(struct.pack('<I4I4',1+n*256,0)..ARGV[5]) lease(n) keep(ARGV[7]) "
             "return {n,s.conf,s.gen,began,s.snapat,"
             "redis.call('LRANGE',KEYS[2],s.snapat-s.base,-1),"
             "s.snapat>0 and redis.call('GET',KEYS[3]) or ''}",
    /* step: from, last record before it, records -> is the snapshot there, records from there on.
     * Who stands where the journal begins cannot show that it has heard the same: a replica that
     * took over may have lost the record before it. */
    PROLOGUE "if not mine() then return {-1} end local from=tonumber(ARGV[5]) "
             "if from<s.base or (from==s.base and from>0) or from>s.count then return {-2} end "
             "if from>s.base and redis.call('LINDEX',KEYS[2],from-1-s.base)~=ARGV[6] "
             "then return {-3} end "
             "lease(ARGV[2]) expel() for i=7,#ARGV do push(ARGV[i]) end "
             "return {fits(saved) and 1 or 0,redis.call('LRANGE',KEYS[2],from-s.base,-1)}",
    /* snapshot: index, bytes, records to keep behind it, ttl, last record before it -> 1 */
    PROLOGUE "if not mine() then return 0 end local at=tonumber(ARGV[5]) "
             "if at>s.count or at<s.snapat or (at==s.snapat and fits(saved)) then return 0 end "
             "if at>s.base and redis.call('LINDEX',KEYS[2],at-1-s.base)~=ARGV[9] then return 0 end "
             "redis.call('SET',KEYS[3],ARGV[6]) "
             "redis.call('HSET',KEYS[1],'snapat',at,'snapsize',#ARGV[6]) "
             "local first=at-ARGV[7] if first>s.base then "
             "redis.call('LTRIM',KEYS[2],first-s.base,-1) redis.call('HSET',KEYS[1],'base',first) "
             "end keep(ARGV[8]) return 1",
    /* leave */
    PROLOGUE "if mine() then leave(ARGV[2]) end return 1",
};
enum { JOIN, STEP, SNAPSHOT, LEAVE, SCRIPTS };
enum { KEYS = 3, GEN = 16, SNAP_HEAD = GEN + 8 };

struct larder__journal {
    larder__redis_values *far;
    larder__conn conn;
    char keys[KEYS][LARDER__KEY];
    char sha[SCRIPTS][41]; /* "": not loaded */
    char nonce[20], number[8], lease[16], ttl[16];
    char generation[GEN + 4], condemned[GEN + 4]; /* "-": none */
    uint64_t at, snapshot_at; /* index of the next record to see; of the last snapshot heard of */
    bool unsaved;             /* the snapshot is gone */
    larder_writer last;       /* the record before it */
    larder_writer saving;     /* a snapshot with its head */
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
static int run(larder__journal *j, int which, const char *generation, size_t n,
               const larder__record *more) {
    const size_t most = 3 + KEYS + 4 + n;
    const char **argv = larder__malloc(most * sizeof *argv);
    size_t *lengths = larder__malloc(most * sizeof *lengths);
    int argc = 0, rc = LARDER_E_NOMEM;
    forget(j);
    if (argv && lengths && j->conn.context) {
        argv[argc++] = "EVALSHA";
        argv[argc++] = j->sha[which];
        argv[argc++] = "3";
        for (int k = 0; k < KEYS; k++)
            argv[argc++] = j->keys[k];
        argv[argc++] = j->nonce;
        argv[argc++] = j->number;
        argv[argc++] = j->lease;
        argv[argc++] = generation;
        for (int i = 0; i < argc; i++)
            lengths[i] = strlen(argv[i]);
        for (size_t i = 0; i < n; i++, argc++) {
            argv[argc] = more[i].bytes;
            lengths[argc] = more[i].size;
        }
        rc = larder__conn_ask(&j->conn, &j->reply, argc, argv, lengths);
        if (rc < 0)
            larder__redis_nodes_doubt(j->far);
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
    if (larder__room(&j->records, &j->room, list->elements, sizeof *j->records) < 0)
        return LARDER_E_NOMEM;
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

int larder__journal_open(larder__journal **out, larder__redis_values *far, const char *group,
                         uint64_t identity, double lease, uint32_t ttl) {
    static const char *const names[KEYS] = {"state.3", "log.3", "snap.3"};
    larder__journal *j = *out = larder__calloc(1, sizeof *j);
    uint64_t nonce;
    if (!j)
        return LARDER_E_NOMEM;
    j->far = far;
    for (int k = 0; k < KEYS; k++)
        snprintf(j->keys[k], sizeof j->keys[k], "larder:%u:%016llx:{%016llx.%.40s}:%s",
                 larder__speaks.value, (unsigned long long)identity, (unsigned long long)identity,
                 group, names[k]);
    snprintf(j->lease, sizeof j->lease, "%.0f", lease * 1000);
    snprintf(j->ttl, sizeof j->ttl, "%u", ttl ? ttl : 30 * 86400);
    snprintf(j->number, sizeof j->number, "-");
    snprintf(j->generation, sizeof j->generation, "-");
    snprintf(j->condemned, sizeof j->condemned, "-");
    if (larder__world_chance(&nonce, sizeof nonce) == 0) {
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
    larder__writer_free(&j->saving);
    larder__free(j->records);
    larder__free(j);
}

static int odd(larder__journal *j) {
    return hang_up(j,
                   larder__fail(LARDER_E_FORMAT, "%s answers with something else", j->conn.name));
}

static int connect_to(larder__journal *j) {
    hang_up(j, 0);
    const larder__node *n = larder__redis_nodes_find(j->far, j->keys[0], strlen(j->keys[0]), true);
    if (!n || !atomic_load(&n->up))
        return larder__fail(LARDER_E_IO, "Redis is away");
    int rc = larder__redis_nodes_connect(j->far, j->keys[0], &j->conn);
    return rc == 0 ? load_scripts(j) : rc;
}

void larder__journal_condemn(larder__journal *j) {
    memcpy(j->condemned, j->generation, sizeof j->condemned);
}

/* What is saved begins with its generation and a checksum of the rest. */
static uint64_t checksum(const void *bytes, size_t n) { return larder__hash_bytes(n, bytes, n); }

static int take_snapshot(larder__journal *j, const redisReply *r, larder__history *out) {
    if (r->type != REDIS_REPLY_STRING)
        return odd(j);
    if (r->len == 0)
        return 0;
    size_t size = (size_t)r->len;
    uint64_t sum = 0;
    if (size > SNAP_HEAD)
        memcpy(&sum, r->str + GEN, sizeof sum);
    if (size <= SNAP_HEAD || memcmp(r->str, j->generation, GEN) != 0 ||
        sum != checksum(r->str + SNAP_HEAD, size - SNAP_HEAD))
        return hang_up(
            j, larder__fail(LARDER_E_FORMAT, "%s: the group's snapshot is damaged", j->conn.name));
    out->snapshot = r->str + SNAP_HEAD;
    out->snapshot_size = size - SNAP_HEAD;
    return 0;
}

/* The parts of an answer to JOIN. */
enum { NUMBER, CONF, GENERATION, HOW, SNAPAT, RECORDS, SNAPSHOT_BYTES, ANSWER };

static bool joined_soundly(const redisReply *r) {
    static const int types[ANSWER] = {REDIS_REPLY_INTEGER, REDIS_REPLY_STRING,  REDIS_REPLY_STRING,
                                      REDIS_REPLY_INTEGER, REDIS_REPLY_INTEGER, REDIS_REPLY_ARRAY,
                                      REDIS_REPLY_STRING};
    size_t n = r->type == REDIS_REPLY_ARRAY ? r->elements : 0;
    bool sound = n >= 3;
    for (size_t i = 0; sound && i < n && i < ANSWER; i++)
        sound = r->element[i]->type == types[i];
    sound = sound && r->element[GENERATION]->len == GEN;
    if (!sound || (n == 3 && r->element[NUMBER]->integer < 0))
        return sound;
    return n == ANSWER && r->element[NUMBER]->integer >= 0 &&
           r->element[NUMBER]->integer < JOBS_MOST &&
           r->element[HOW]->integer >= LARDER__WAS_THERE &&
           r->element[HOW]->integer <= LARDER__BEGAN_ANEW && r->element[SNAPAT]->integer >= 0;
}

static int ask_to_join(larder__journal *j, const larder_writer *join, const larder_writer *mine,
                       uint64_t core) {
    char most[8], must[GEN + 4], fresh[GEN + 4];
    uint64_t chance;
    if (larder__world_chance(&chance, sizeof chance) < 0)
        return larder__fail(LARDER_E_IO, "no chance for a name from the system");
    snprintf(most, sizeof most, "%d", JOBS_MOST);
    snprintf(must, sizeof must, "%016llx", (unsigned long long)core);
    snprintf(fresh, sizeof fresh, "%016llx", (unsigned long long)chance);
    snprintf(j->number, sizeof j->number, "-");
    const larder__record args[] = {{join->bytes, join->size}, text_of(most), text_of(j->ttl),
                                   {mine->bytes, mine->size}, text_of(must), text_of(fresh)};
    int rc = connect_to(j);
    return rc == 0 ? run(j, JOIN, j->condemned, 6, args) : rc;
}

int larder__journal_join(larder__journal *j, const larder_writer *join, const larder_writer *mine,
                         uint64_t core, larder__membership *out) {
    *out = (larder__membership){0};
    int rc = ask_to_join(j, join, mine, core);
    if (rc < 0)
        return hang_up(j, rc);
    const redisReply *r = j->reply;
    if (!joined_soundly(r))
        return odd(j);
    const redisReply *conf = r->element[CONF];
    *out = (larder__membership){.agreement = {.at = (unsigned char *)conf->str,
                                              .end = (unsigned char *)conf->str + conf->len}};
    snprintf(j->generation, sizeof j->generation, "%s", r->element[GENERATION]->str);
    if (r->elements < ANSWER)
        return r->element[NUMBER]->integer == -1
                   ? larder__fail(LARDER_E_FULL, "%d jobs are in this group already", JOBS_MOST)
                   : LARDER_E_ARGS;
    out->job = (uint32_t)r->element[NUMBER]->integer;
    out->began = (larder__began)r->element[HOW]->integer;
    snprintf(j->number, sizeof j->number, "%u", out->job);
    out->generation = strtoull(j->generation, NULL, 16);
    j->at = j->snapshot_at = (uint64_t)r->element[SNAPAT]->integer;
    j->unsaved = false;
    rc = take_records(j, r->element[RECORDS], &out->history);
    return rc < 0 ? hang_up(j, rc) : take_snapshot(j, r->element[SNAPSHOT_BYTES], &out->history);
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
    int rc = run(j, STEP, j->generation, n + 2, args);
    larder__free(args);
    if (rc < 0)
        return hang_up(j, rc == LARDER_E_STATE ? LARDER_E_CHANGED : rc);
    const redisReply *r = j->reply;
    if (r->type != REDIS_REPLY_ARRAY || r->elements != 2 ||
        r->element[0]->type != REDIS_REPLY_INTEGER)
        return hang_up(j, larder__fail(LARDER_E_CHANGED, "%s: the group goes on without this job",
                                       j->conn.name));
    j->unsaved = r->element[0]->integer == 0;
    rc = take_records(j, r->element[1], out);
    return rc < 0 ? hang_up(j, rc) : 0;
}

int larder__journal_snapshot(larder__journal *j, const larder_writer *state) {
    char at[24], behind[16];
    if (state->code < 0)
        return state->code;
    snprintf(at, sizeof at, "%llu", (unsigned long long)j->at);
    snprintf(behind, sizeof behind, "%d", KEPT_BEHIND);
    j->saving.size = 0;
    j->saving.code = 0;
    larder_write_bytes(&j->saving, j->generation, GEN);
    larder_write_u64(&j->saving, checksum(state->bytes, state->size));
    larder_write_bytes(&j->saving, state->bytes, state->size);
    if (j->saving.code < 0)
        return j->saving.code;
    /* Records may have been lost since, where a replica took over, and others stand in their place:
     * then this is the state of another history. */
    const larder__record args[] = {text_of(at),
                                   {j->saving.bytes, j->saving.size},
                                   text_of(behind),
                                   text_of(j->ttl),
                                   {j->last.bytes, j->last.size}};
    j->snapshot_at = j->at;
    j->unsaved = false;
    int rc = run(j, SNAPSHOT, j->generation, 5, args);
    return rc < 0 && rc != LARDER_E_STATE ? hang_up(j, rc) : 0;
}

uint64_t larder__journal_since_snapshot(const larder__journal *j) {
    return j->unsaved ? UINT64_MAX : j->at - j->snapshot_at;
}

void larder__journal_leave(larder__journal *j) {
    if (j->conn.context)
        run(j, LEAVE, j->generation, 0, NULL);
    hang_up(j, 0);
}
#endif
