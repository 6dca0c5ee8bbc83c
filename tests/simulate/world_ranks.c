/* The ranks of one distributed job: each decides for all, bytes lie in a daemon, and what they say
 * to each other goes through it. Where a rank dies the job does, and starts again from the
 * beginning, as whoever starts ranks does it. */
#include "base/err.h"
#include "base/mem.h"
#include "base/spec.h"
#include "cache/local.h"
#include "plugins.h"
#include "shared/rank_store.h"
#include "unix/rank_link.h"
#include "worlds.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LAG = 2, ROWS_MOST = PLAYERS_MOST * PLAY_BATCH_MOST, PATIENCE = 5 };
/* Longer than it takes to find out that a rank is gone, or that it never came: then whoever started
 * the job loses patience. */
static const double LAUNCHER_SECONDS = 120;
static struct {
    uint64_t failures; /* of ranks, so far: when one fails the job starts again */
    uint32_t ended;    /* ranks that have come to the end since the last of them */
} job;

typedef struct said { /* by each rank, of each batch and at the end of each epoch */
    uint64_t digest;  /* of what its cache has decided */
    uint64_t served;  /* a bit for each sample it had in the epoch */
    uint64_t over;    /* this epoch was the last, as far as it knows */
} said;

typedef struct rank {
    player *me;
    larder__unix_ranks_link *link;
    larder__relay *relay;
    larder__cache *cache, *twin; /* the twin decides alone, and keeps nothing */
    uint64_t now, batches;       /* requests and batches so far */
    uint64_t digests[LAG + 1];   /* of the last batches */
    uint64_t served;
} rank;

/* ---- opening and closing --------------------------------------------------------------------- */

static int open_link(rank *r) {
    uint64_t payload = 0;
    for (uint32_t k = 0; k < played.keys; k++)
        payload += play_size(k);
    larder__unix_ranks_conf conf = {.door = larder__door_at(WORLD_DOOR),
                                    .join = {.rank = r->me->number,
                                             .world = played.players,
                                             .batch = played.batch * played.players,
                                             .turns = LAG + 1,
                                             .fingerprint = played.seed | 1,
                                             .identity = 9,
                                             .keys = played.keys,
                                             .payload = payload,
                                             .want = played.budget,
                                             .job = "made"},
                                    .patience = PATIENCE,
                                    .await = {.seconds = 2}};
    return larder__unix_ranks_open(&r->link, &conf);
}

static int open_cache(rank *r) {
    larder__job_store_conf store = {.depot = larder__unix_ranks_depot(r->link),
                                    .keys = played.keys,
                                    .slots = played.keys,
                                    .turns = LAG + 1};
    larder_args args = {0};
    larder__cache_conf conf = {.policy = larder__policy_find(played.policy),
                               .args = &args,
                               .keys = played.keys,
                               .budget = larder__unix_ranks_budget(r->link),
                               .seed = played.seed,
                               .store = &larder__store_null};
    int rc = larder__args_parse(&args, "policy", &conf.policy->plugin, "", ',', NULL);
    if (rc == 0)
        rc = larder__cache_open(&r->twin, &conf);
    conf.store = &larder__store_job;
    if (rc == 0)
        rc = larder__job_store_open(&conf.store_state, &store);
    if (rc == 0)
        rc = larder__cache_open(&r->cache, &conf);
    larder__args_free(&args);
    return rc;
}

static int open_rank(rank *r) {
    int rc = open_link(r);
    if (rc == 0)
        rc = larder__unix_ranks_relay(&r->relay, r->link);
    return rc == 0 ? open_cache(r) : rc;
}

static void close_rank(rank *r) {
    larder__cache_close(&r->cache);
    larder__cache_close(&r->twin);
    larder__relay_close(&r->relay);
    larder__unix_ranks_close(&r->link);
}

/* ---- a batch --------------------------------------------------------------------------------- */

/* The table of residents, as one number. */
static uint64_t digest(const larder__cache *c) {
    const larder_slots *s = larder__cache_slots(c);
    uint64_t h = s->bytes;
    for (uint32_t k = 0; k < played.keys; k++)
        h = (h ^ s->slot_of[k]) * 0x9e3779b97f4a7c15u;
    return h;
}

static larder_buf *read_sample(rank *r, uint64_t key) {
    r->me->made++;
    actors_sleep(actors_now() + actors_between(0, played.read_most));
    return play_make(key);
}

static void take(rank *r, larder__ticket *t) {
    larder_buf *b = NULL;
    if (larder__cache_receive(r->cache, t, 1, &b) < 0)
        actors_complain("bytes are not received: %s", larder_errmsg());
    r->me->hits += b != NULL;
    if (t->task == LARDER__MAKE) {
        larder__ticket_drop(t);
        b = read_sample(r, t->key);
        t->held = LARDER_ENCODED;
        larder__cache_fill(r->cache, t, b);
    } else if (t->task == LARDER__WAIT) {
        r->me->waited++;
        int rc = larder__cache_wait(r->cache, t, &b);
        if (rc == LARDER__TAKE_OVER) {
            b = read_sample(r, t->key);
            larder__cache_took_over(r->cache, t, 0, b);
        } else if (rc < 0)
            actors_complain("waiting ends with %d: %s", rc, larder_errmsg());
    }
    if (b)
        play_check(t->key, b, "when a rank gets it");
    else
        actors_complain("sample %llu has no bytes", (unsigned long long)t->key);
    r->me->served++;
    if (r->served >> t->key & 1)
        actors_complain("sample %llu is served twice", (unsigned long long)t->key);
    r->served |= (uint64_t)1 << t->key;
    larder_buf_unref(&b);
}

/* The rows of all ranks are decided on each of them, its own are its to make. */
static void batch(rank *r, const uint32_t *keys, size_t n) {
    larder_access a[ROWS_MOST], same[ROWS_MOST];
    larder__ticket t[ROWS_MOST], none[ROWS_MOST];
    for (size_t i = 0; i < n; i++)
        a[i] = same[i] = (larder_access){.key = keys[i],
                                         .now = ++r->now,
                                         .size = play_size(keys[i]),
                                         .next_use = LARDER_UNKNOWN,
                                         .group = LARDER_NO_GROUP,
                                         .score = NAN};
    if (larder__cache_claim_part(r->cache, a, n, r->me->number, played.players, n, t) < 0 ||
        larder__cache_claim(r->twin, same, n, none) < 0) {
        actors_complain("a claim fails: %s", larder_errmsg());
        return;
    }
    for (size_t i = r->me->number; i < n; i += played.players)
        take(r, &t[i]);
    larder__cache_batch(r->cache);
    larder__cache_batch(r->twin);
    if (digest(r->cache) != digest(r->twin))
        actors_complain("rank %u has decided something else than one process alone", r->me->number);
}

/* ---- what ranks say -------------------------------------------------------------------------- */

/* Of all ranks, or a code: some rank is gone, or the daemon. */
static int hear_all(rank *r, char kind, uint64_t number, const said *mine, said *out) {
    larder__relayed got[PLAYERS_MOST] = {0};
    for (uint32_t k = 0; k < played.players; k++)
        got[k].size = k != r->me->number;
    out[r->me->number] = *mine;
    int rc = larder__relay_gather(r->relay, kind, number, LAUNCHER_SECONDS, got);
    if (rc == 1) {
        r->me->stuck++;
        return larder__fail(LARDER_E_STATE, "somebody is waited for in vain");
    }
    for (uint32_t k = 0; rc == 0 && k < played.players; k++) {
        if (k == r->me->number)
            continue;
        if (got[k].size != sizeof *out)
            actors_complain("a rank's record has %zu bytes", got[k].size);
        else
            memcpy(&out[k], got[k].bytes, sizeof *out);
        larder__free(got[k].bytes);
    }
    return rc;
}

/* Those of LAG batches ago are here or will be: nobody is further behind. */
static int keep_step(rank *r) {
    said all[PLAYERS_MOST], mine = {.digest = digest(r->cache)};
    uint64_t at = r->batches++;
    r->digests[at % (LAG + 1)] = mine.digest;
    const said past = {.digest = r->digests[(at + 1) % (LAG + 1)]}; /* LAG batches ago */
    int rc = larder__relay_post(r->relay, 'd', at, &mine, sizeof mine);
    if (rc < 0 || at < LAG || (rc = hear_all(r, 'd', at - LAG, &past, all)) < 0)
        return rc;
    for (uint32_t k = 0; k < played.players; k++)
        if (all[k].digest != past.digest)
            actors_complain("ranks %u and %u have decided differently", k, r->me->number);
    if (at >= 2 * LAG)
        larder__relay_forget(r->relay, 'd', at - 2 * LAG);
    return 0;
}

/* All of it was served, by one rank each. 1: it was the last. */
static int agree(rank *r, uint64_t epoch) {
    said all[PLAYERS_MOST], mine = {.served = r->served, .over = played.over};
    int rc = larder__relay_post(r->relay, 'e', epoch, &mine, sizeof mine);
    if (rc < 0 || (rc = hear_all(r, 'e', epoch, &mine, all)) < 0)
        return rc;
    uint64_t served = 0, over = 1;
    for (uint32_t k = 0; k < played.players; k++) {
        if (served & all[k].served)
            actors_complain("two ranks had one sample in epoch %llu", (unsigned long long)epoch);
        served |= all[k].served;
        over &= all[k].over;
    }
    if (served != ((uint64_t)1 << played.keys) - 1)
        actors_complain("some sample was not served in epoch %llu", (unsigned long long)epoch);
    if (epoch > 0)
        larder__relay_forget(r->relay, 'e', epoch - 1);
    return over == 1;
}

/* ---- a run ----------------------------------------------------------------------------------- */

static void shuffle(uint32_t *keys, uint64_t epoch) {
    larder_rng rng;
    larder_rng_seed(&rng, played.seed, 1000 + epoch);
    for (uint32_t i = 0; i < played.keys; i++) {
        uint32_t k = larder_rng_below(&rng, i + 1);
        keys[i] = keys[k];
        keys[k] = i;
    }
}

/* 0: the job has come to its end. Negative: it has to start again. */
static int train(rank *r) {
    uint32_t keys[PLAY_KEYS_MOST], all = played.batch * played.players;
    for (uint64_t epoch = 0;; epoch++) {
        shuffle(keys, epoch);
        r->served = 0;
        larder__cache_epoch(r->cache, epoch);
        larder__cache_epoch(r->twin, epoch);
        for (uint32_t i = 0; i < played.keys; i += all) {
            batch(r, keys + i, played.keys - i < all ? played.keys - i : all);
            int rc = actors_complaint() ? LARDER_E_STATE : keep_step(r);
            if (rc < 0)
                return rc;
        }
        int rc = agree(r, epoch);
        r->me->epochs_whole += rc >= 0;
        if (rc != 0)
            return rc == 1 ? 0 : rc;
    }
}

static void fail(player *me) {
    actors_log("starts again: %s", larder_errmsg());
    me->taken_over++;
    job.failures++;
    job.ended = 0;
    actors_sleep(actors_now() + 0.5);
}

/* True: so have all others. False: one has failed, and all start again. */
static bool come_to_end(void) {
    uint64_t before = job.failures;
    job.ended++;
    while (job.ended < played.players && job.failures == before)
        actors_sleep(actors_now() + 0.2);
    return job.failures == before;
}

static void *play_rank(void *arg) {
    player *me = arg;
    if (actors_current()->lives > 1)
        fail(me); /* it was killed */
    while (!me->done && !actors_complaint()) {
        rank *r = larder__calloc(1, sizeof *r);
        r->me = me;
        int rc = open_rank(r);
        if (rc == 0)
            rc = train(r);
        close_rank(r);
        larder__free(r);
        if (rc < 0)
            fail(me);
        else
            me->done = come_to_end();
    }
    return NULL;
}

static void begin(void) {
    memset(&job, 0, sizeof job);
    world_daemon.begin();
    memset(played.users, 0, sizeof played.users); /* of one job are of one user */
    if (played.exchanges) {                       /* what it decides depends on who asks */
        played.exchanges = false;
        memcpy(played.policy, "lru", 4);
    }
}

static void happen(uint32_t own, const mishap *m) { world_daemon.happen(own, m); }
static void back(const mishap *m) { world_daemon.back(m); }
static void heal(void) { world_daemon.heal(); }
static void check(void) { world_daemon.check(); }
static void ending(void) { world_daemon.ending(); }
static void end(void) { world_daemon.end(); }

static const char *const own_names[] = {"no shared memory"};
const world world_ranks = {.name = "ranks",
                           .own = 1,
                           .own_names = own_names,
                           .play = play_rank,
                           .begin = begin,
                           .happen = happen,
                           .back = back,
                           .heal = heal,
                           .check = check,
                           .ending = ending,
                           .end = end};
