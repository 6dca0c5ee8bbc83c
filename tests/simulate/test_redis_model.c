/* Is the made world's Redis one? Larder's own scripts and commands, at random, are given to it and
 * to a real server, and every answer is compared. */
#include "check.h"
#include "redis_kit.h"
#include "redis_model.h"
#include "schedule.h"
#include "worlds.h"

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { JOIN, STEP, SNAPSHOT, LEAVE, SCRIPTS, MEMBERS = 5, ARGS = 24 };

typedef struct member {
    char nonce[20], number[8], generation[20];
    long long at;   /* index of the next record */
    char last[200]; /* the record before it */
    size_t last_size;
} member;

typedef struct line { /* a command */
    const char *argv[ARGS];
    size_t lengths[ARGS], n;
} line;

static struct {
    redisContext *real;
    char sha[2][SCRIPTS][48]; /* of the real one, of the model */
    member of[MEMBERS];
    larder_rng rng;
    uint64_t asked, records, joins, refused;
} t;

static const char *const keys[3] = {"{g}:state", "{g}:log", "{g}:snap"};

static void add(line *l, const void *at, size_t n) {
    l->argv[l->n] = at;
    l->lengths[l->n++] = n;
}
static void add_text(line *l, const char *text) { add(l, text, strlen(text)); }

static void compare(const redisReply *a, const redisReply *b) {
    assert_int_equal(a->type, b->type);
    if (a->type == REDIS_REPLY_INTEGER)
        assert_int_equal(a->integer, b->integer);
    if (a->type == REDIS_REPLY_STRING || a->type == REDIS_REPLY_STATUS) {
        assert_int_equal(a->len, b->len);
        assert_memory_equal(a->str, b->str, (size_t)a->len);
    }
    if (a->type == REDIS_REPLY_ERROR) /* its first word */
        assert_memory_equal(a->str, b->str, strcspn(a->str, " "));
    if (a->type != REDIS_REPLY_ARRAY)
        return;
    assert_int_equal(a->elements, b->elements);
    for (size_t i = 0; i < a->elements; i++)
        compare(a->element[i], b->element[i]);
}

/* What the real one says, which the model has said too. `sha`: the script; -1: none. */
static redisReply *ask(line *l, int sha) {
    const char *bytes;
    size_t size;
    void *said = NULL;
    redisReader *reader = redisReaderCreate();
    if (sha >= 0)
        l->argv[1] = t.sha[1][sha], l->lengths[1] = 40;
    redis_model_answer(l->n, l->argv, l->lengths, &bytes, &size);
    redisReaderFeed(reader, bytes, size);
    assert_int_equal(redisReaderGetReply(reader, &said), REDIS_OK);
    assert_non_null(said);
    if (sha >= 0)
        l->argv[1] = t.sha[0][sha];
    redisReply *r = redisCommandArgv(t.real, (int)l->n, l->argv, l->lengths);
    assert_non_null(r);
    compare(r, said);
    freeReplyObject(said);
    redisReaderFree(reader);
    t.asked++;
    return r;
}

static line script(const member *m, const char *lease, const char *generation) {
    line l = {.n = 0};
    add_text(&l, "EVALSHA");
    add_text(&l, "");
    add_text(&l, "3");
    for (int k = 0; k < 3; k++)
        add_text(&l, keys[k]);
    add_text(&l, m->nonce);
    add_text(&l, m->number);
    add_text(&l, lease);
    add_text(&l, generation);
    return l;
}

/* Leases that are over at once, or never. */
static const char *some_lease(void) { return larder_rng_below(&t.rng, 6) ? "1000000000" : "-10"; }

static void note_records(member *m, const redisReply *records) {
    m->at += (long long)records->elements;
    t.records += records->elements;
    if (records->elements == 0)
        return;
    const redisReply *last = records->element[records->elements - 1];
    assert_true((size_t)last->len <= sizeof m->last);
    memcpy(m->last, last->str, (size_t)last->len);
    m->last_size = (size_t)last->len;
}

static void join(member *m) {
    char fresh[20];
    snprintf(fresh, sizeof fresh, "%016llx", (unsigned long long)larder_rng_next(&t.rng));
    bool condemn = larder_rng_below(&t.rng, 20) == 0;
    line l = script(m, some_lease(), condemn ? m->generation : "-");
    add_text(&l, "what join says");
    add_text(&l, larder_rng_below(&t.rng, 8) ? "60" : "3");
    add_text(&l, "86400");
    add_text(&l, "agreement");
    add_text(&l, larder_rng_below(&t.rng, 15) ? "core" : "other");
    add_text(&l, fresh);
    redisReply *r = ask(&l, JOIN);
    if (r->type == REDIS_REPLY_ARRAY && r->elements == 7) {
        snprintf(m->number, sizeof m->number, "%lld", r->element[0]->integer);
        snprintf(m->generation, sizeof m->generation, "%s", r->element[2]->str);
        m->at = r->element[4]->integer;
        m->last_size = 0;
        note_records(m, r->element[5]);
        t.joins++;
    } else
        t.refused++;
    freeReplyObject(r);
}

static void step(member *m) {
    char from[24], record[2][24];
    snprintf(from, sizeof from, "%lld", m->at);
    line l = script(m, some_lease(), m->generation);
    add_text(&l, from);
    add(&l, m->last, m->last_size);
    for (uint32_t i = larder_rng_below(&t.rng, 3); i-- > 0;) {
        uint64_t word[3] = {larder_rng_next(&t.rng), 0, larder_rng_next(&t.rng)};
        memcpy(record[i], word, sizeof word);
        add(&l, record[i], 8 + larder_rng_below(&t.rng, 17));
    }
    redisReply *r = ask(&l, STEP);
    if (r->type == REDIS_REPLY_ARRAY && r->elements == 2)
        note_records(m, r->element[1]);
    else
        t.refused++;
    freeReplyObject(r);
}

static void snapshot(const member *m) {
    char at[24], bytes[64], behind[8];
    snprintf(at, sizeof at, "%lld", m->at - larder_rng_below(&t.rng, 3));
    snprintf(behind, sizeof behind, "%u", larder_rng_below(&t.rng, 6));
    snprintf(bytes, sizeof bytes, "%.16s and %u", m->generation, larder_rng_below(&t.rng, 1000));
    line l = script(m, some_lease(), m->generation);
    add_text(&l, at);
    add_text(&l, bytes);
    add_text(&l, behind);
    add_text(&l, "86400");
    add(&l, m->last, m->last_size);
    freeReplyObject(ask(&l, SNAPSHOT));
}

static void leave(const member *m) {
    line l = script(m, some_lease(), m->generation);
    freeReplyObject(ask(&l, LEAVE));
}

/* Values, and keys of the group that somebody deletes. */
static void plain(void) {
    static const char *const values[] = {"v:1", "v:2", "v:3", "{g}:state", "{g}:log", "{g}:snap"};
    const char *key = values[larder_rng_below(&t.rng, 3)];
    line l = {.n = 0};
    uint32_t what = larder_rng_below(&t.rng, 40);
    if (what == 0)
        key = values[3 + larder_rng_below(&t.rng, 3)];
    add_text(&l, what < 8 ? "UNLINK" : what < 20 ? "SET" : what < 30 ? "GET" : "MGET");
    add_text(&l, key);
    if (what >= 8 && what < 20) {
        add_text(&l, "some bytes");
        if (what < 14) {
            add_text(&l, "EX");
            add_text(&l, "1000");
        }
    }
    if (what >= 30)
        add_text(&l, "v:3");
    freeReplyObject(ask(&l, -1));
}

/* It takes nothing that adds something, unless a script has written before. */
static void be_full(bool yes) {
    redisReply *r = redisCommand(t.real, "CONFIG SET maxmemory %s", yes ? "1" : "0");
    assert_true(r && r->type == REDIS_REPLY_STATUS);
    freeReplyObject(r);
    redis_model_full(yes);
}

static void load_scripts(void) {
    for (int i = 0; i < SCRIPTS; i++) {
        line l = {.n = 0};
        size_t size;
        const char *body = redis_model_script(i, &size);
        assert_non_null(body);
        add_text(&l, "SCRIPT");
        add_text(&l, "LOAD");
        add(&l, body, size);
        redisReply *r = redisCommandArgv(t.real, 3, l.argv, l.lengths);
        assert_true(r && r->type == REDIS_REPLY_STRING);
        snprintf(t.sha[0][i], sizeof t.sha[0][i], "%s", r->str);
        freeReplyObject(r);
        const char *said;
        redis_model_answer(l.n, l.argv, l.lengths, &said, &size);
        snprintf(t.sha[1][i], sizeof t.sha[1][i], "%.40s", said + 5); /* behind "$40\r\n" */
    }
}

static void test_same_answers(void **st) {
    (void)st;
    kit_redis server;
    kit_redis_or_skip();
    schedule_result ran;
    assert_true(schedule_run(&(schedule_conf){.kind = SCHEDULE_GROUP, .seed = 1}, &ran));
    redis_model_short = 1; /* all that is asked for is kept, as Redis does */
    kit_redis_start(&server, NULL);
    t.real = redisConnect("127.0.0.1", server.port);
    assert_true(t.real && !t.real->err);
    load_scripts();
    int rounds = getenv("LARDER_LONG") ? 60 : 6;
    for (int round = 0; round < rounds; round++) {
        larder_rng_seed(&t.rng, (uint64_t)round, 5);
        redis_model_begin();
        twins_begin();
        freeReplyObject(redisCommand(t.real, "FLUSHALL"));
        for (int i = 0; i < MEMBERS; i++) {
            t.of[i] = (member){.number = "-", .generation = "-"};
            snprintf(t.of[i].nonce, sizeof t.of[i].nonce, "%016llx",
                     (unsigned long long)larder_rng_next(&t.rng));
        }
        for (int i = 0; i < 500; i++) {
            member *m = &t.of[larder_rng_below(&t.rng, MEMBERS)];
            uint32_t what = larder_rng_below(&t.rng, 20);
            if (i % 100 == 80 || i % 100 == 0)
                be_full(i % 100 == 80);
            if (what < 2 || m->number[0] == '-')
                join(m);
            else if (what < 13)
                step(m);
            else if (what < 15)
                snapshot(m);
            else if (what < 16)
                leave(m);
            else
                plain();
        }
    }
    redisFree(t.real);
    kit_redis_stop(&server);
    redis_model_end();
    print_message("%llu answers alike: %llu records, %llu joined, %llu refused\n",
                  (unsigned long long)t.asked, (unsigned long long)t.records,
                  (unsigned long long)t.joins, (unsigned long long)t.refused);
    assert_true(t.records > 100 && t.joins > 20 && t.refused > 20);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_same_answers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
