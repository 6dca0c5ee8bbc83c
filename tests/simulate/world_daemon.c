/* A daemon and jobs that attach to it: the real server over made sockets, and memory that all of
 * them share. The daemon forgets everything when it dies. One job in three is of another user than
 * the daemon's: it shows that it can read the same, and hands over what it makes. */
#include "base/buf.h"
#include "base/err.h"
#include "base/hash.h"
#include "passed_memory.h"
#include "unix/attach.h"
#include "unix/served_set_inside.h"
#include "unix/server_inside.h"
#include "worlds.h"

#include <stdio.h>
#include <string.h>

static struct {
    larder__server *server; /* NULL: not open */
    bool stop;
} d;

static void *serve(void *arg) {
    (void)arg;
    larder__server_conf conf = {
        .socket = WORLD_DOOR, .mode = 0666, .cache = 8 << 20, .clients = 32};
    conf.share_data = broken_is("proof");
    d.server = NULL;
    while (!d.stop && larder__server_open(&d.server, &conf) < 0)
        actors_sleep(actors_now() + 0.1);
    while (!d.stop && larder__server_turn(d.server, 500) == 1) {
    }
    larder__server *last = d.server;
    d.server = NULL;
    larder__server_close(&last);
    return NULL;
}

static uint32_t size_of(void *arg, uint64_t key) {
    (void)arg;
    return play_size(key);
}

static int prove_one(uint64_t id, uint64_t nonce, uint64_t *out) {
    actors_sleep(actors_now() + actors_between(0, played.read_most));
    if (actors_one_in(200))
        return larder__fail(LARDER_E_IO, "made to fail");
    larder_buf *b = play_make(id);
    *out = larder__hash_bytes(nonce, larder_buf_data(b), larder_buf_size(b));
    larder_buf_unref(&b);
    trays.shown++;
    return 0;
}

/* As loader/opening.c has it: samples are read once more. */
static int prove(void *arg, const uint64_t *ids, uint32_t n, uint64_t nonce, uint64_t *out) {
    (void)arg;
    int rc = 0;
    for (uint32_t i = 0; rc == 0 && i < n; i++)
        rc = prove_one(ids[i], nonce, &out[i]);
    return rc;
}

static int attach(larder__cache **out, uint32_t number) {
    larder__attach_conf conf = {.door = larder__door_at(WORLD_DOOR),
                                .exchanges = played.exchanges,
                                .size_of = size_of,
                                .prove = prove,
                                .await = {.seconds = 1, .go_on = true}};
    conf.door.owner = ACTOR_USER;
    uint64_t payload = 0;
    for (uint32_t k = 0; k < played.keys; k++)
        payload += play_size(k);
    conf.hello = (larder__hello){.batch = played.batch, .identity = 5, .payload = payload};
    conf.hello.about =
        (larder__agreement){.keys = played.keys, .seed = played.seed + number, .share = {1}};
    memcpy(conf.hello.about.policy, played.policy, sizeof played.policy);
    snprintf(conf.hello.name, sizeof conf.hello.name, "job %u", number);
    snprintf(conf.hello.budget, sizeof conf.hello.budget, "%llu",
             (unsigned long long)played.budget);
    return larder__attach_open(out, &conf);
}

static void back(const mishap *m) {
    (void)m;
    actors_start(WORLD_SERVER, "daemon", serve, NULL);
}

/* For all their lives. */
static void choose_users(void) {
    larder_rng rng;
    larder_rng_seed(&rng, played.seed, 3);
    for (uint32_t i = 0; i < PLAYERS_MOST; i++) {
        bool other = larder_rng_below(&rng, 3) == 0;
        uint32_t which = 1 + larder_rng_below(&rng, PLAY_USERS - 1);
        played.users[i] = other ? which : PLAY_OWN_USER;
    }
    played.partly = larder_rng_below(&rng, 2) == 0;
}

static void begin(void) {
    choose_users();
    d.stop = false;
    d.server = NULL;
    played.open = attach;
    played.away = player_alone;
    back(NULL);
}

static void memory_back(void *arg) {
    (void)arg;
    passed_memory_out = false;
}

static void happen(uint32_t own, const mishap *m) {
    (void)own;
    passed_memory_out = true; /* for whoever comes meanwhile */
    fate_later(m->seconds, memory_back, NULL);
}

static void heal(void) { passed_memory_out = false; }

/* Users share what they have shown to be the same, and nothing else. */
static void check_users(const larder__server *s) {
    for (const larder__server_client *a = s->clients; a; a = a->next)
        for (const larder__server_client *b = a->next; b && a->about.set; b = b->next) {
            if (a->about.set != b->about.set || a->user == b->user)
                continue;
            trays.shared = 1;
            if (a->user == ACTOR_USER + PLAY_OTHER_DATA || b->user == ACTOR_USER + PLAY_OTHER_DATA)
                actors_complain("jobs of two users share a cache, and their data differ");
        }
}

/* No set is larger than was agreed, and all of it together not than the daemon may be. */
static void check(void) {
    if (!actors_process(WORLD_SERVER)->alive)
        d.server = NULL;
    const larder__server *s = d.server;
    if (!s)
        return;
    check_users(s);
    if (s->purse.used > s->purse.most)
        actors_complain("the daemon has %llu bytes and may have %llu",
                        (unsigned long long)s->purse.used, (unsigned long long)s->purse.most);
    for (size_t i = 0; i < LARDER__SETS; i++) {
        if (!s->sets[i])
            continue;
        const larder_slots *slots = larder__cache_slots(larder__served_cache(s->sets[i]));
        if (slots->bytes > slots->budget || slots->budget > played.budget)
            actors_complain("the cache holds %llu bytes of a budget of %llu",
                            (unsigned long long)slots->bytes, (unsigned long long)slots->budget);
    }
}

/* What is promised to sets alone: nothing to jobs that are gone. */
static uint64_t promised_to_jobs(const larder__server *s) {
    uint64_t to_sets = 0;
    for (size_t i = 0; i < LARDER__SETS; i++)
        to_sets += s->sets[i] ? larder__served_about(s->sets[i])->promise : 0;
    return s->promised - to_sets;
}

/* Nobody is there any more, so nobody holds anything, once the daemon has heard so. */
static void ending(void) {
    double until = actors_now() + 60;
    while (d.server && actors_now() < until && actors_step()) {
    }
    for (size_t i = 0; d.server && i < LARDER__SETS; i++) {
        larder__served_figures f = {0};
        if (d.server->sets[i])
            larder__served_read_figures(d.server->sets[i], &f);
        if (f.leases || f.jobs || d.server->count)
            actors_complain("%llu leases of %u jobs and %u clients are left when all have gone",
                            (unsigned long long)f.leases, f.jobs, d.server->count);
        if (d.server->sets[i] && d.server->sets[i]->makings)
            actors_complain("%llu samples are still promised when all have gone",
                            (unsigned long long)d.server->sets[i]->makings);
    }
    if (d.server && promised_to_jobs(d.server))
        actors_complain("%llu bytes are promised to jobs when all have gone",
                        (unsigned long long)promised_to_jobs(d.server));
    d.stop = true;
}

static void end(void) {}

static const char *const own_names[] = {"no shared memory"};
const world world_daemon = {.name = "daemon",
                            .twin = true,
                            .own = 1,
                            .own_names = own_names,
                            .play = player_main,
                            .begin = begin,
                            .happen = happen,
                            .back = back,
                            .heal = heal,
                            .check = check,
                            .ending = ending,
                            .end = end};
