/* A daemon and jobs that attach to it: the real server over made sockets, and memory that all of
 * them share. The daemon forgets everything when it dies. */
#include "unix/attach.h"
#include "unix/server_inside.h"
#include "wires.h"
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
        .socket = WORLD_DOOR, .mode = 0600, .cache = 8 << 20, .clients = 32};
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

static int attach(larder__cache **out, uint32_t number) {
    larder__attach_conf conf = {.door = larder__door_at(WORLD_DOOR),
                                .exchanges = played.exchanges,
                                .size_of = size_of,
                                .await = {.seconds = 1, .go_on = true}};
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

static void begin(void) {
    d.stop = false;
    d.server = NULL;
    played.open = attach;
    back(NULL);
}

static void memory_back(void *arg) {
    (void)arg;
    wires_now.memory_out = false;
}

static void happen(uint32_t own, const mishap *m) {
    (void)own;
    wires_now.memory_out = true; /* for whoever comes meanwhile */
    fate_later(m->seconds, memory_back, NULL);
}

static void heal(void) { wires_now.memory_out = false; }

/* No set is larger than was agreed, and all of it together not than the daemon may be. */
static void check(void) {
    if (!actors_process(WORLD_SERVER)->alive)
        d.server = NULL;
    const larder__server *s = d.server;
    if (!s)
        return;
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
    }
    d.stop = true;
}

static void end(void) {}

static const char *const own_names[] = {"no shared memory"};
const world world_daemon = {.name = "daemon",
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
