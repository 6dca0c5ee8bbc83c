#include "schedule.h"

#include "descriptors.h"
#include "open_files.h"
#include "passed_memory.h"
#include "player.h"
#include "wires.h"
#include "worlds.h"
#include "wrapped.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const schedule_names[SCHEDULE_KINDS] = {"daemon", "group", "ranks",
                                                    "far",    "disk",  "below"};
static const world *const worlds[SCHEDULE_KINDS] = {&world_daemon, &world_group, &world_ranks,
                                                    &world_far,    &world_disk,  &world_below};
static const char *const mishap_names[] = {"crash",  "stop",         "cut",        "slow",
                                           "narrow", "server crash", "server stop"};

enum { LEAST_STEPS = 200, STEPS_MOST = 400000, LEAST_MISHAPS = 5 };
static const double PATIENCE =
    3000; /* seconds, from the end of all mishaps to the end of all jobs */

static struct {
    const world *world;
    player players[PLAYERS_MOST];
    mishap plan[SCHEDULE_MISHAPS];
    uint32_t planned;
    uint64_t trouble; /* steps until all is healed */
    bool healed;
} s;

/* ---- fate ------------------------------------------------------------------------------------ */

typedef struct later {
    double at;
    void (*what)(void *);
    void *arg;
} later;

static later coming[8 * SCHEDULE_MISHAPS];
static uint32_t to_come;

static void *happen_later(void *arg) {
    const later *l = arg;
    actors_sleep(l->at);
    if (!s.healed)
        l->what(l->arg);
    return NULL;
}

void fate_later(double seconds, void (*what)(void *), void *arg) {
    if (to_come == sizeof coming / sizeof *coming)
        abort();
    later *l = &coming[to_come++];
    *l = (later){actors_now() + seconds, what, arg};
    actors_spawn_in(actors_process(WORLD_FATE), happen_later, l);
}

static void start_player(void *arg) {
    player *p = arg;
    char name[24];
    if (actors_process(WORLD_FIRST_PLAYER + p->number)->alive || p->done)
        return;
    snprintf(name, sizeof name, "job %u", p->number);
    actors_log("%s starts: %s, %u samples, %llu bytes", name, played.policy, played.keys,
               (unsigned long long)played.budget);
    actors_start(WORLD_FIRST_PLAYER + p->number, name, s.world->play, p);
}

void fate_start_all(void *arg) {
    (void)arg;
    for (uint32_t i = 0; i < played.players; i++)
        start_player(&s.players[i]);
}

static void clear_up(void *arg) {
    (void)arg;
    wires_now.slow_in = 0;
    wires_now.room = 200 << 10;
}

static void server_back(void *arg) {
    if (!actors_process(WORLD_SERVER)->alive)
        s.world->back(arg);
}

/* False: there was nobody it could happen to. Of what only some worlds have that is not known. */
static bool happen(const mishap *m) {
    actor_process *job = actors_process(WORLD_FIRST_PLAYER + m->whom);
    actor_process *server = actors_process(WORLD_SERVER);
    bool happened = true;
    actors_log("mishap %d: %s (job %u, %.3f s)", (int)(m - s.plan),
               m->what < MISHAP_OF_WORLD ? mishap_names[m->what]
                                         : s.world->own_names[m->what - MISHAP_OF_WORLD],
               m->whom, m->seconds);
    switch (m->what) {
    case MISHAP_CRASH:
        if ((happened = job->alive && !s.players[m->whom].done))
            actors_crash(job);
        fate_later(m->seconds, start_player, &s.players[m->whom]);
        break;
    case MISHAP_STOP:
        happened = job->alive && !s.players[m->whom].done;
        actors_stop(job, m->seconds);
        break;
    case MISHAP_CUT:
        happened = false;
        for (uint64_t i = 0; i <= m->chance % 3; i++)
            happened |= wires_cut(m->chance & 4 ? job : NULL);
        break;
    case MISHAP_SLOW:
        wires_now.slow_in = 1 + m->chance % 20;
        wires_now.slow = m->seconds;
        fate_later(m->seconds * 4, clear_up, NULL);
        break;
    case MISHAP_NARROW:
        wires_now.room = 64 + m->chance % 500;
        fate_later(m->seconds, clear_up, NULL);
        break;
    case MISHAP_SERVER_CRASH:
        if ((happened = server->alive))
            actors_crash(server);
        fate_later(m->seconds, server_back, (void *)(uintptr_t)m);
        break;
    case MISHAP_SERVER_STOP:
        happened = server->alive;
        actors_stop(server, m->seconds);
        break;
    default:
        s.world->happen(m->what - MISHAP_OF_WORLD, m);
    }
    return happened;
}

/* Seconds of which most are short and some outlast every patience. */
static double some_seconds(larder_rng *rng) {
    static const double scale[] = {1e-3, 1e-2, 0.1, 0.5, 3, 15, 60};
    return scale[larder_rng_below(rng, 7)] * (0.2 + larder_rng_unit(rng));
}

static uint32_t one_of_world(uint64_t chance) {
    uint32_t i = (uint32_t)(chance % s.world->own);
    while (!s.world->own_names[i])
        i = (i + 1) % s.world->own;
    return MISHAP_OF_WORLD + i;
}

static mishap draw_mishap(larder_rng *rng) {
    mishap m = {.step = 10 + larder_rng_below(rng, (uint32_t)s.trouble - 10),
                .what = larder_rng_below(rng, MISHAP_OF_WORLD + s.world->own),
                .whom = larder_rng_below(rng, played.players),
                .seconds = some_seconds(rng),
                .chance = larder_rng_next(rng)};
    bool own = m.what >= MISHAP_OF_WORLD;
    if (own ? !s.world->own_names[m.what - MISHAP_OF_WORLD]
            : s.world->silent && m.what > MISHAP_STOP)
        m.what = one_of_world(m.chance);
    else if (m.what == MISHAP_CUT && !s.world->cuts)
        m.what = MISHAP_STOP;
    return m;
}

static void plan_mishaps(larder_rng *rng) {
    s.trouble = LEAST_STEPS + larder_rng_below(rng, 300);
    s.trouble *= s.world->slow ? s.world->slow : 1;
    s.planned = LEAST_MISHAPS + larder_rng_below(rng, SCHEDULE_MISHAPS - LEAST_MISHAPS + 1);
    for (uint32_t i = 0; i < s.planned; i++)
        s.plan[i] = draw_mishap(rng);
}

/* `must`: another one if there is nobody for this. */
static bool befall(mishap *m, bool must) {
    larder_rng rng;
    larder_rng_seed(&rng, m->chance, 4);
    bool happened = happen(m);
    while (must && !happened) {
        *m = draw_mishap(&rng);
        happened = happen(m);
    }
    return happened;
}

/* ---- playing --------------------------------------------------------------------------------- */

static const char *const policies[] = {"lru", "fifo", "sieve", "lfu", "random", "minio", "ods"};

static void set_up(const schedule_conf *c) {
    larder_rng rng;
    larder_rng_seed(&rng, c->seed, 2);
    played = (play){.seed = c->seed,
                    .keys = 12 + larder_rng_below(&rng, 28),
                    .batch = 2 + larder_rng_below(&rng, PLAY_BATCH_MOST - 1),
                    .players = 3 + larder_rng_below(&rng, PLAYERS_MOST - 2),
                    .large = worlds[c->kind]->large};
    const char *policy = policies[larder_rng_below(&rng, sizeof policies / sizeof *policies)];
    snprintf(played.policy, sizeof played.policy, "%s", policy);
    played.exchanges = strcmp(policy, "ods") == 0;
    played.hears = larder_rng_below(&rng, 3) == 0;
    uint64_t all = 0;
    for (uint32_t k = 0; k < played.keys; k++)
        all += play_size(k);
    played.budget = all * (10 + larder_rng_below(&rng, 81)) / 100;
    static const double slow[] = {2e-4, 2e-3, 2e-2, 0.5};
    played.read_most = slow[larder_rng_below(&rng, 4)];
    played.train_most = 4 * slow[larder_rng_below(&rng, 4)];
    s.world = worlds[c->kind];
    s.healed = false;
    to_come = 0;
    plan_mishaps(&rng);
    if (c->players)
        played.players = c->players;
    played.calm = s.world->twin && played.players == 1 && c->without == UINT32_MAX;
    if (played.calm) /* nobody loses patience */
        played.read_most = played.train_most = slow[0];
    for (uint32_t i = 0; i < s.planned; i++)
        s.plan[i].whom %= played.players;
}

static bool all_done(void) {
    for (uint32_t i = 0; i < played.players; i++)
        if (!s.players[i].done)
            return false;
    return true;
}

static bool step(void) {
    if (actors_complaint())
        return false;
    if (!actors_step()) {
        actors_complain("everybody waits for ever");
        return false;
    }
    s.world->check();
    return !actors_complaint();
}

static uint64_t trouble(uint32_t without) {
    uint64_t happened = 0;
    uint32_t left = s.planned < 32 ? (1u << s.planned) - 1 : 0;
    while (step() && (actors_steps() < s.trouble || left))
        for (uint32_t i = 0; i < s.planned; i++)
            if (left >> i & 1 && actors_steps() >= s.plan[i].step) {
                left &= ~(1u << i);
                if (without >> i & 1)
                    continue;
                uint64_t most = happened + (uint64_t)__builtin_popcount(left);
                happened += befall(&s.plan[i], !without && most < LEAST_MISHAPS);
            }
    return happened;
}

/* From here on nothing goes wrong any more, and every job has to come to an end. */
static void heal(void) {
    actors_log("all is healed");
    s.healed = played.over = true;
    played.healed_at = actors_now();
    clear_up(NULL);
    wires_hasten();
    for (uint32_t i = 0; i < ACTOR_PROCESSES; i++)
        actors_process(i)->stopped_until = 0;
    s.world->heal();
    if (!actors_process(WORLD_SERVER)->alive)
        s.world->back(NULL);
    fate_start_all(NULL);
    double until = actors_now() + PATIENCE;
    while (!all_done() && step())
        if (actors_now() > until || actors_steps() > STEPS_MOST) {
            actors_complain("jobs do not come to an end after all is healed");
            return;
        }
}

/* Who has left has given everything back. */
static void check_left(uint32_t number, const char *who) {
    const actor_process *p = actors_process(number);
    if (!p->alive || actors_complaint())
        return;
    actor_heap_tell(p->heap);
    if (actor_heap_used(p->heap))
        actors_complain("%s leaves %zu blocks of memory behind", who, actor_heap_used(p->heap));
    else if (descriptors_open_of(p) || passed_mapped_of(p))
        actors_complain("%s leaves %u descriptors or mappings behind", who,
                        descriptors_open_of(p) + passed_mapped_of(p));
    else if (wrapped_open_of(p))
        actors_complain("%s leaves %u answers of Redis behind", who, wrapped_open_of(p));
    else if (open_files_of(p))
        actors_complain("%s leaves %u files or mappings behind", who, open_files_of(p));
}

static void end_all(void) {
    s.world->ending();
    while (actors_running(actors_process(WORLD_SERVER)) && step()) {
    }
    for (uint32_t i = 0; i < played.players; i++)
        check_left(WORLD_FIRST_PLAYER + i, actors_process(WORLD_FIRST_PLAYER + i)->name);
    check_left(WORLD_TENDER, "whoever tends the disk");
    check_left(WORLD_LOOKER, "whoever looks at the disk");
}

static void sum_up(schedule_result *out) {
    out->steps = actors_steps();
    out->seconds = actors_now() - 1000;
    out->players = played.players;
    out->planned = s.planned;
    out->compared = twins_compared();
    out->laid = trays.laid;
    out->unwanted = trays.unwanted;
    out->pieces = trays.pieces;
    out->shown = trays.shown;
    out->shared = trays.shared;
    for (uint32_t i = 0; i < played.players; i++) {
        const player *p = &s.players[i];
        out->served += p->served;
        out->hits += p->hits;
        out->made += p->made;
        out->waited += p->waited;
        out->taken_over += p->taken_over;
        out->alone += p->alone;
        out->stuck += p->stuck;
        out->epochs += p->epochs_whole;
        out->below += p->below;
        out->compared += p->compared;
        out->alike += p->alike;
    }
    if (actors_complaint())
        snprintf(out->complaint, sizeof out->complaint, "%s", actors_complaint());
}

static void *fate(void *arg) {
    (void)arg;
    return NULL;
}

bool schedule_run(const schedule_conf *c, schedule_result *out) {
    *out = (schedule_result){0};
    schedule_watched(c);
    set_up(c);
    actors_begin(c->seed);
    passed_begin();
    wires_begin();
    twins_begin();
    trays = (trays_figures){0};
    actors_start(WORLD_FATE, "fate", fate, NULL);
    s.world->begin();
    for (uint32_t i = 0; i < played.players; i++) {
        player_init(&s.players[i], i);
        start_player(&s.players[i]);
    }
    out->mishaps = trouble(c->without);
    if (!actors_complaint())
        heal();
    if (!actors_complaint())
        end_all();
    sum_up(out);
    actors_end();
    s.world->end();
    descriptors_end();
    schedule_watched(NULL);
    return !out->complaint[0];
}

/* ---- shrinking ------------------------------------------------------------------------------- */

/* The same complaint, whoever it is about. */
static bool alike(const char *a, const char *b) {
    a = strchr(a, ':');
    b = strchr(b, ':');
    while (a && b && *a && *b) {
        a += strspn(a, "0123456789");
        b += strspn(b, "0123456789");
        if (*a != *b)
            return false;
        a += *a != '\0';
        b += *b != '\0';
    }
    return a && b && *a == *b;
}

static bool fails(const schedule_conf *c, schedule_result *out) {
    schedule_result got;
    if (schedule_run(c, &got) || !alike(got.complaint, out->complaint) ||
        got.mishaps > out->mishaps)
        return false;
    *out = got;
    return true;
}

void schedule_shrink(schedule_conf *c, schedule_result *out) {
    uint32_t most = out->players;
    for (uint32_t players = 1; players < most; players++) {
        schedule_conf fewer = *c;
        fewer.players = players;
        if (fails(&fewer, out)) {
            *c = fewer;
            break;
        }
    }
    for (uint32_t i = 0; i < out->planned; i++) {
        schedule_conf less = *c;
        less.without |= 1u << i;
        if (less.without != c->without && fails(&less, out))
            *c = less;
    }
}

void schedule_tell(const schedule_conf *c) {
    schedule_result out;
    actors_verbose = true;
    schedule_run(c, &out);
    actors_verbose = false;
}
