/* A group whose keys Redis evicts, or that somebody deletes, cuts or overwrites: jobs go on with
 * the right bytes, every sample once an epoch, whoever comes later can join, and all meet in one
 * new generation. */
#include "group_kit.h"
#include "redis/journal.h"
#include "redis_kit.h"
#include "shared/cache_text.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void text(char *out, size_t cap, const kit_redis *r, const char *group) {
    snprintf(out, cap, "redis://127.0.0.1:%u?budget=25%%&shared=%s&timeout=20s", r->port, group);
}

/* Jobs that come and go, one after the other and two at a time. */
static void come_and_go(const char *cache, const char *recipe, int rounds, bool joins) {
    for (int round = 0; round < rounds; round++) {
        kit_progress *p = kit_progress_new();
        pid_t first = kit_start(cache, recipe, (uint64_t)round + 1, 2, &p[0], true);
        kit_wait_batches(&p[0], 30);
        pid_t second = kit_start(cache, recipe, (uint64_t)round + 50, 2, &p[1], true);
        kit_ended_well(first);
        kit_ended_well(second);
        for (int j = 0; j < 2; j++) {
            assert_int_equal(p[j].served, 2 * KIT_GROUP_N);
            assert_true(!joins || p[j].joined >= 1);
        }
        munmap(p, KIT_MOST_JOBS * sizeof *p);
    }
}

static void test_every_maxmemory_policy(void **unused) {
    (void)unused;
    static const char *const policies[] = {"noeviction",      "allkeys-lru",  "allkeys-lfu",
                                           "allkeys-random",  "volatile-lru", "volatile-lfu",
                                           "volatile-random", "volatile-ttl"};
    kit_redis_or_skip();
    /* In short none, one over all keys and one over those that expire: the others pick other
     * victims of the same kind. */
    for (size_t i = 0; i < sizeof policies / sizeof *policies; i += getenv("LARDER_LONG") ? 1 : 3) {
        kit_redis r;
        char cache[160], out[8192], command[100];
        kit_redis_start(&r, "--maxmemory-policy", policies[i], "--maxmemory-samples", "1", NULL);
        text(cache, sizeof cache, &r, "m");
        come_and_go(cache, "seneca", 1, true);
        const char *used =
            strstr(kit_redis_cli(&r, "info memory", out, sizeof out), "used_memory:");
        assert_non_null(used);
        long bytes = strtol(used + 12, NULL, 10) - 60000;
        snprintf(command, sizeof command, "config set maxmemory %ld", bytes);
        kit_redis_cli(&r, command, out, sizeof out);
        come_and_go(cache, "seneca", getenv("LARDER_LONG") ? 3 : 1, i != 0);
        kit_redis_stop(&r);
    }
}

/* Does something bad to one of the group's keys; all of it follows from the seed. */
static const char VANDAL[] =
    "local seed=tonumber(ARGV[1]) "
    "local function dice(n) seed=(seed*1103515245+12345)%2147483648 "
    "return math.floor(seed/65536)%n+1 end "
    "local keys=redis.call('KEYS','larder:*:{*') table.sort(keys) "
    "if #keys==0 then return 'nothing' end "
    "local k=keys[dice(#keys)] local kind=redis.call('TYPE',k).ok local what=dice(4) "
    "if what==1 then redis.call('DEL',k) return 'del '..k end "
    "if what==2 and dice(4)==1 then redis.call('DEL',k) redis.call('SET',k,'x') return 'type '..k "
    "end "
    "if kind=='list' then local n=redis.call('LLEN',k) "
    "if what==2 then redis.call('LTRIM',k,0,-1-dice(5)) "
    "elseif what==3 then redis.call('LTRIM',k,dice(n),-1) "
    "else local i=dice(n)-1 local v=redis.call('LINDEX',k,i) "
    "redis.call('LSET',k,i,string.sub(v,1,math.floor(#v/2))) end "
    "elseif kind=='hash' then local f=redis.call('HKEYS',k) table.sort(f) local one=f[dice(#f)] "
    "if what==2 then redis.call('HDEL',k,one) elseif what==3 then redis.call('HSET',k,one,'7') "
    "else redis.call('HSET',k,one,string.sub(redis.call('HGET',k,one),1,3)) end return k..one "
    "elseif kind=='string' then local v=redis.call('GET',k) "
    "if what==2 then redis.call('SET',k,string.sub(v,1,math.floor(#v/2))) "
    "elseif what==3 and #v>0 then redis.call('SETRANGE',k,dice(#v)-1,'#+#+') "
    "else redis.call('SET',k,'') end "
    "elseif kind=='zset' then redis.call('ZREMRANGEBYRANK',k,0,0) end return kind..what ";

static void run_script(const kit_redis *r, const char *script, int seed) {
    char path[300], command[400], out[400];
    snprintf(path, sizeof path, "%s/vandal.lua", r->folder);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(script, f);
    fclose(f);
    snprintf(command, sizeof command, "--eval %s , %d", path, seed);
    kit_redis_cli(r, command, out, sizeof out);
    if (getenv("LARDER_VERBOSE"))
        fprintf(stderr, "damage %d: %s\n", seed, out);
    assert_null(strstr(out, "ERR"));
}

static void damage(const kit_redis *r, int seed) { run_script(r, VANDAL, seed); }

/* An agreement that reads well and is about another data set than the sum beside it says: larger,
 * then smaller than the tables of whoever joins. */
static void test_another_agreement(void **unused) {
    (void)unused;
    static const char *const other[] = {
        "local k=redis.call('KEYS','*:state.3')[1] local c=redis.call('HGET',k,'conf') "
        "redis.call('HSET',k,'conf',string.sub(c,1,2)..'\\7'..string.sub(c,4)) return 1",
        "local k=redis.call('KEYS','*:state.3')[1] local c=redis.call('HGET',k,'conf') "
        "redis.call('HSET',k,'conf',string.sub(c,1,1)..'\\1'..string.sub(c,3)) return 1",
        "local k=redis.call('KEYS','*:state.3')[1] redis.call('HSET',k,'core','x') return 1"};
    kit_redis r;
    char cache[160];
    kit_redis_or_skip();
    kit_redis_start(&r, NULL);
    text(cache, sizeof cache, &r, "a");
    kit_progress *p = kit_progress_new();
    kit_ended_well(kit_start(cache, "lru", 1, 1, &p[0], true));
    for (int i = 0; i < 3; i++) {
        run_script(&r, other[i], 0);
        kit_ended_well(kit_start(cache, "lru", 2, 1, &p[1 + i], true));
        assert_true(p[1 + i].renewed == 1 && p[1 + i].unshared == 0);
    }
    munmap(p, KIT_MOST_JOBS * sizeof *p);
    kit_redis_stop(&r);
}

/* Between jobs: whoever comes next joins, whatever lies there. */
static void test_damage_between_jobs(void **unused) {
    (void)unused;
    kit_redis r;
    char cache[160];
    int rounds = getenv("LARDER_LONG") ? 100 : 8;
    kit_redis_or_skip();
    kit_redis_start(&r, NULL);
    text(cache, sizeof cache, &r, "b");
    for (int round = 0; round < rounds; round++) {
        kit_progress *p = kit_progress_new();
        pid_t one = kit_start(cache, "seneca", (uint64_t)round + 1, 1 + (uint64_t)round % 4 * 2,
                              &p[0], true);
        kit_ended_well(one);
        assert_true(p[0].joined >= 1);
        assert_true(p[0].unshared < p[0].served); /* it was in the group, not beside it */
        munmap(p, KIT_MOST_JOBS * sizeof *p);
        for (int k = 0; k < 1 + round % 3; k++)
            damage(&r, round * 16 + k);
    }
    kit_redis_stop(&r);
}

static void test_damage_under_way(void **unused) {
    (void)unused;
    static const char *const recipes[] = {"seneca", "minio", "lru"};
    kit_redis_or_skip();
    /* In short the recipe that shares its order and the plainest that does not. */
    for (int i = 0; i < 3; i += getenv("LARDER_LONG") ? 1 : 2) {
        kit_redis r;
        char cache[160];
        kit_redis_start(&r, NULL);
        text(cache, sizeof cache, &r, "w");
        kit_progress *p = kit_progress_new();
        pid_t pids[4];
        for (uint64_t j = 0; j < 3; j++)
            pids[j] = kit_start(cache, recipes[i], j + 1, 12, &p[j], true);
        for (int k = 0; k < 25; k++) {
            kit_wait_batches(&p[k % 3], p[k % 3].batches + 4);
            damage(&r, i * 1000 + k);
        }
        pids[3] = kit_start(cache, recipes[i], 9, 2, &p[3], true);
        for (int j = 0; j < 4; j++)
            kit_ended_well(pids[j]);
        for (int j = 0; j < 4; j++)
            assert_true(p[j].joined >= 1);
        munmap(p, KIT_MOST_JOBS * sizeof *p);
        kit_redis_stop(&r);
    }
}

/* ---- all notice at once ---------------------------------------------------------------------- */

enum { CLIENTS = 6 };

typedef struct client {
    larder__redis_values *far;
    larder__journal *journal;
    larder__membership joined;
    pthread_barrier_t *gate;
    int rounds;
    bool condemns; /* this round: it cannot read what lies there */
    int rc;
} client;

static int client_join(client *c) {
    larder_writer mine = {0};
    larder_write_u32(&mine, 7);
    unsigned char nothing[16] = {0}; /* it was not here before; the seed of its order */
    larder_writer join = {.bytes = nothing, .size = sizeof nothing};
    int rc = larder__journal_join(c->journal, &join, &mine, 1, &c->joined);
    free(mine.bytes);
    return rc;
}

static void *client_run(void *arg) {
    client *c = arg;
    larder__history h;
    c->rc = client_join(c);
    pthread_barrier_wait(c->gate);
    for (int round = 0; round < c->rounds; round++) {
        pthread_barrier_wait(c->gate); /* the damage is done */
        if (c->condemns)
            larder__journal_condemn(c->journal);
        else
            c->rc = larder__journal_step(c->journal, NULL, 0, &h) == LARDER_E_CHANGED ? c->rc : -99;
        int rc = client_join(c);
        c->rc = c->rc < 0 ? c->rc : rc;
        pthread_barrier_wait(c->gate);
    }
    return NULL;
}

static void test_one_new_generation(void **unused) {
    (void)unused;
    static const char *const wrongs[] = {"del '%s:state.3'",          "del '%s:log.3'",
                                         "hdel '%s:state.3' gen",     "hset '%s:state.3' count 999",
                                         "rpop '%s:log.3'",           "flushall",
                                         "hset '%s:state.3' conf ''", NULL};
    enum { WRONGS = sizeof wrongs / sizeof *wrongs };
    const int rounds = 5 * WRONGS;
    kit_redis r;
    client clients[CLIENTS];
    pthread_t threads[CLIENTS];
    pthread_barrier_t gate;
    char cache[160], key[200], out[400], command[300];
    larder__cache_text parsed;
    kit_redis_or_skip();
    kit_redis_start(&r, NULL);
    text(cache, sizeof cache, &r, "n");
    check_ok(larder__cache_text_parse(&parsed, cache, ""));
    pthread_barrier_init(&gate, NULL, CLIENTS + 1);
    for (int i = 0; i < CLIENTS; i++) {
        larder__redis_values_conf far = {.redis = &parsed.redis, .identity = 5, .owner = "g-n"};
        clients[i] = (client){.gate = &gate, .rounds = rounds};
        check_ok(larder__redis_values_open(&clients[i].far, &far));
        check_ok(larder__journal_open(&clients[i].journal, clients[i].far, "n", 5, 60, 1000));
        pthread_create(&threads[i], NULL, client_run, &clients[i]);
    }
    pthread_barrier_wait(&gate);
    kit_redis_cli(&r, "keys '*:state.3'", key, sizeof key);
    *strstr(key, ":state.3") = '\0';
    for (int round = 0; round < rounds; round++) {
        const char *wrong = wrongs[round % WRONGS];
        uint64_t before = clients[0].joined.generation;
        if (wrong) {
            const char *at = strstr(wrong, "%s");
            snprintf(command, sizeof command, "%.*s%s%s", (int)(at ? at - wrong : 20), wrong,
                     at ? key : "", at ? at + 2 : "");
            kit_redis_cli(&r, command, out, sizeof out);
            assert_null(strstr(out, "ERR"));
        }
        /* An agreement that is cut shows to those who read it: they condemn it, all at once. */
        bool condemned = !wrong || strstr(wrong, "conf");
        for (int i = 0; i < CLIENTS; i++)
            clients[i].condemns = condemned;
        pthread_barrier_wait(&gate);
        pthread_barrier_wait(&gate);
        int began = 0;
        for (int i = 0; i < CLIENTS; i++) {
            check_ok(clients[i].rc);
            assert_int_equal(clients[i].joined.generation, clients[0].joined.generation);
            began += clients[i].joined.began != LARDER__WAS_THERE;
            for (int k = 0; k < i; k++)
                assert_int_not_equal(clients[i].joined.job, clients[k].joined.job);
        }
        assert_int_not_equal(clients[0].joined.generation, before);
        assert_int_equal(began, 1);
    }
    for (int i = 0; i < CLIENTS; i++) {
        pthread_join(threads[i], NULL);
        larder__journal_close(&clients[i].journal);
        larder__redis_values_close(&clients[i].far);
    }
    pthread_barrier_destroy(&gate);
    kit_redis_stop(&r);
}

/* A job that was away for so long that what it missed is not there any more joins again. What it
 * was before is gone with that: nobody sees to it that such a one sees anything. */
static void test_one_place_a_job(void **unused) {
    (void)unused;
    enum { AT_ONCE = 100 };
    larder__record records[AT_ONCE];
    kit_redis r;
    char cache[160];
    larder__cache_text parsed;
    larder__history h;
    client late = {0}, busy = {0};
    larder_writer state = {0};
    kit_redis_or_skip();
    kit_redis_start(&r, NULL);
    text(cache, sizeof cache, &r, "o");
    check_ok(larder__cache_text_parse(&parsed, cache, ""));
    larder__redis_values_conf far = {.redis = &parsed.redis, .identity = 6, .owner = "g-o"};
    client *both[] = {&late, &busy};
    for (int i = 0; i < 2; i++) {
        check_ok(larder__redis_values_open(&both[i]->far, &far));
        check_ok(larder__journal_open(&both[i]->journal, both[i]->far, "o", 6, 600, 1000));
        check_ok(client_join(both[i]));
        assert_int_equal(both[i]->joined.job, i);
    }
    for (int i = 0; i < AT_ONCE; i++)
        records[i] = (larder__record){"123456789", 9};
    for (int i = 0; i < 1200 / AT_ONCE; i++) /* more than are kept */
        check_ok(larder__journal_step(busy.journal, records, AT_ONCE, &h));
    larder_write_u32(&state, 1);
    check_ok(larder__journal_snapshot(busy.journal, &state));
    assert_int_equal(larder__journal_step(late.journal, NULL, 0, &h), LARDER_E_CHANGED);
    check_ok(client_join(&late));
    check_ok(larder__journal_step(busy.journal, NULL, 0, &h));
    assert_int_equal(h.count, 2);
    static const uint32_t heads[] = {2 + 0 * 256, 1 + 0 * 256}; /* it leaves, and joins */
    for (size_t i = 0; i < h.count; i++)
        assert_memory_equal(h.records[i].bytes, &heads[i], sizeof heads[i]);
    for (int i = 0; i < 2; i++) {
        larder__journal_close(&both[i]->journal);
        larder__redis_values_close(&both[i]->far);
    }
    larder__writer_free(&state);
    kit_redis_stop(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_place_a_job),   cmocka_unit_test(test_one_new_generation),
        cmocka_unit_test(test_another_agreement), cmocka_unit_test(test_damage_between_jobs),
        cmocka_unit_test(test_damage_under_way),  cmocka_unit_test(test_every_maxmemory_policy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
