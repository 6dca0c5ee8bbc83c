#include "player.h"

#include "base/buf.h"
#include "base/mem.h"
#include "base/spec.h"
#include "plugins.h"
#include "shared/client.h"
#include "worlds.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

play played;

typedef struct course { /* one batch on its way */
    larder_access want[PLAY_BATCH_MOST];
    larder__ticket tickets[PLAY_BATCH_MOST];
    larder_buf *bufs[PLAY_BATCH_MOST];
    size_t n;
    bool besides; /* nobody asked for these: they are only brought in */
} course;

typedef struct table { /* of one process */
    player *me;
    larder__cache *cache, *twin; /* the twin lives in this process alone; NULL: none is defined */
    uint64_t asked;
    larder__disk *below; /* NULL: nothing is */
    const larder_sampler *sampler;
    void *order;
    larder_draw_env env;
    /* Courses that the kitchen is to prepare, first come first served. */
    course *waiting[PLAY_AHEAD];
    size_t count;
    bool closing;
    actor_thread *kitchen;
} table;

/* ---- bytes ----------------------------------------------------------------------------------- */

uint32_t play_size(uint64_t key) {
    uint32_t small = 24 + 8 * (uint32_t)(key * 7919 % 23);
    return played.large && key % 4 == 1 ? 48 * small : small;
}

uint32_t play_user(uint32_t process) {
    bool job = process >= WORLD_FIRST_PLAYER && process < WORLD_FIRST_PLAYER + PLAYERS_MOST;
    return job ? played.users[process - WORLD_FIRST_PLAYER] : PLAY_OWN_USER;
}

uint32_t play_set(uint32_t process) {
    enum { OTHER_SET = 99 };
    if (play_user(process) == PLAY_OTHER_DATA)
        return OTHER_SET;
    return process >= WORLD_TENDER ? played.looked_at : played.sets ? process % played.sets : 0;
}

static uint64_t key_of(uint64_t key) {
    bool other = play_user(actors_current()->number) == PLAY_OTHER_DATA;
    if (other && played.partly && key % 4)
        return key;
    return key + ((uint64_t)play_set(actors_current()->number) << 32);
}

static uint64_t word_of(uint64_t key, size_t i) {
    return (key + 1) * 0x9e3779b97f4a7c15u ^ (i + 1) * 0xd1b54a32d192ed03u;
}

larder_buf *play_make(uint64_t key) {
    larder_buf *b = larder_buf_new(play_size(key));
    if (!b)
        abort();
    uint64_t *at = larder_buf_data(b), whose = key_of(key);
    for (size_t i = 0, n = play_size(key) / 8; i < n; i++)
        at[i] = word_of(whose, i);
    return b;
}

/* As loader/fill/below.c has it. */
static larder_buf *find_below(larder__disk *d, const larder__value *v) {
    larder_buf *out = larder__disk_queued(d, v);
    larder__disk_fetch *f = !out && larder__disk_has(d, v->id) ? larder__disk_fetch_new(v) : NULL;
    if (f) {
        larder__disk_send(d, &f, 1);
        out = larder__disk_receive(d, f);
        larder__disk_fetch_unref(&f);
    }
    return out;
}

/* What storage takes. */
static larder_buf *read_sample(table *t, uint64_t key) {
    larder__value v = {.id = key, .form = LARDER_ENCODED, .held = LARDER_ENCODED};
    larder_buf *out = t->below ? find_below(t->below, &v) : NULL;
    if (out) {
        t->me->below++;
        return out;
    }
    t->me->made++;
    actors_sleep(actors_now() + actors_between(0, played.read_most));
    out = play_make(key);
    if (t->below)
        larder__disk_put(t->below, &v, out);
    return out;
}

void play_check(uint64_t key, larder_buf *b, const char *when) {
    const uint64_t *at = larder_buf_data(b);
    if (larder_buf_size(b) != play_size(key)) {
        actors_complain("sample %llu has %zu bytes instead of %u %s", (unsigned long long)key,
                        larder_buf_size(b), play_size(key), when);
        return;
    }
    uint64_t whose = key_of(key);
    for (size_t i = 0, n = play_size(key) / 8; i < n; i++)
        if (at[i] != word_of(whose, i)) {
            actors_complain("a wrong byte in sample %llu %s", (unsigned long long)key, when);
            return;
        }
}

/* ---- preparing a batch ----------------------------------------------------------------------- */

static void prepare(table *t, course *c) {
    player *me = t->me;
    if (larder__cache_receive(t->cache, c->tickets, c->n, c->bufs) < 0)
        actors_complain("bytes are not received: %s", larder_errmsg());
    for (size_t i = 0; i < c->n; i++) {
        larder__ticket *k = &c->tickets[i];
        if (c->bufs[i])
            me->hits++;
        if (k->task != LARDER__MAKE)
            continue;
        if (!played.calm &&
            actors_one_in(200)) { /* storage may fail, and is asked again by whoever wants it */
            larder__cache_fail(t->cache, k, LARDER_E_IO, "made to fail");
            c->bufs[i] = read_sample(t, k->key);
            continue;
        }
        c->bufs[i] = read_sample(t, k->key);
        k->held = LARDER_ENCODED;
        larder__cache_fill(t->cache, k, c->bufs[i]);
    }
    for (size_t i = 0; i < c->n; i++) {
        larder__ticket *k = &c->tickets[i];
        if (k->task != LARDER__WAIT)
            continue;
        me->waited++;
        int rc = larder__cache_wait(t->cache, k, &c->bufs[i]);
        if (rc < 0)
            actors_complain("waiting ends with %d: %s", rc, larder_errmsg());
        if (rc == LARDER__TAKE_OVER) {
            me->taken_over++;
            c->bufs[i] = read_sample(t, k->key);
            larder__cache_took_over(t->cache, k, 0, c->bufs[i]);
        }
    }
}

static void serve(table *t, course *c) {
    prepare(t, c);
    for (size_t i = 0; i < c->n; i++) {
        uint64_t key = c->tickets[i].key;
        if (!c->bufs[i]) {
            if (!c->besides)
                actors_complain("sample %llu has no bytes", (unsigned long long)key);
            continue;
        }
        play_check(key, c->bufs[i], "when it is served");
        if (c->besides)
            continue;
        t->me->served++;
        if (t->me->times[key]++)
            actors_complain("sample %llu is served twice in epoch %llu", (unsigned long long)key,
                            (unsigned long long)t->me->epoch);
    }
    if (actors_one_in(4)) /* training takes its time, and the bytes stay as they are */
        actors_sleep(actors_now() + actors_between(0, played.train_most));
    for (size_t i = 0; i < c->n; i++) {
        if (c->bufs[i])
            play_check(c->tickets[i].key, c->bufs[i], "while it is held");
        larder_buf_unref(&c->bufs[i]);
    }
    larder__free(c);
}

/* The kitchen is a thread of its own: batches are claimed ahead of it. */
static void *cook(void *arg) {
    table *t = arg;
    while (t->count || !t->closing) {
        if (!t->count) {
            actors_wait(t, ACTOR_NEVER);
            continue;
        }
        course *c = t->waiting[0];
        serve(t, c);
        memmove(t->waiting, t->waiting + 1, --t->count * sizeof *t->waiting);
        actors_wake(t, 0);
    }
    return NULL;
}

static void hand_over(table *t, course *c) {
    while (t->count == PLAY_AHEAD)
        actors_wait(t, ACTOR_NEVER);
    t->waiting[t->count++] = c;
    actors_wake(t, 0);
}

static void until_served(table *t) {
    while (t->count)
        actors_wait(t, ACTOR_NEVER);
}

/* ---- an epoch -------------------------------------------------------------------------------- */

static void exchange(void *arg, const uint64_t *wanted, size_t n, uint64_t *served) {
    larder__cache_exchange(((table *)arg)->cache, 0, wanted, n, served);
}

/* Where bytes lie changes nothing of what is decided, wherever they are found or lost. */
static void compare_residents(table *t, const course *c, const larder__ticket *tickets) {
    t->me->compared++;
    for (size_t i = 0; i < c->n; i++)
        if (tickets[i].kept != c->tickets[i].kept)
            actors_complain("sample %llu is %skept, unlike in memory alone",
                            (unsigned long long)c->want[i].key, c->tickets[i].kept ? "" : "not ");
    for (uint32_t k = 0; k < played.keys; k++)
        if (larder__cache_resident(t->cache, k) != larder__cache_resident(t->twin, k))
            actors_complain("sample %u is %sresident, unlike in memory alone", k,
                            larder__cache_resident(t->cache, k) ? "" : "not ");
}

/* What a cache of its own decides of the same requests. */
static void compare(table *t, const course *c) {
    larder_access same[PLAY_BATCH_MOST];
    larder__ticket tickets[PLAY_BATCH_MOST];
    for (size_t i = 0; i < c->n; i++) {
        same[i] = c->want[i];
        same[i].now = ++t->asked;
        same[i].rng = NULL;
    }
    if (larder__cache_claim(t->twin, same, c->n, tickets) < 0)
        abort();
    larder__cache_batch(t->twin);
    if (played.decides) {
        compare_residents(t, c, tickets);
        return;
    }
    t->me->alike += c->n;
    for (size_t i = 0; i < c->n; i++)
        if (tickets[i].kind != c->tickets[i].kind)
            actors_complain("sample %llu is a %s, and one process alone has a %s",
                            (unsigned long long)c->want[i].key,
                            c->tickets[i].kind == LARDER_HIT ? "hit" : "miss",
                            tickets[i].kind == LARDER_HIT ? "hit" : "miss");
}

static void claim(table *t, const uint64_t *keys, size_t n, uint32_t tag) {
    course *c = larder__calloc(1, sizeof *c);
    c->n = n;
    c->besides = tag == LARDER_TAG_FETCH;
    for (size_t i = 0; i < n; i++)
        c->want[i] = (larder_access){.key = keys[i],
                                     .size = play_size(keys[i]),
                                     .next_use = LARDER_UNKNOWN,
                                     .tag = tag,
                                     .group = LARDER_NO_GROUP,
                                     .score = NAN};
    int rc = larder__cache_claim(t->cache, c->want, n, c->tickets);
    if (rc < 0) {
        actors_complain("a claim fails: %s", larder_errmsg());
        larder__free(c);
        return;
    }
    uint64_t alone = 0;
    for (size_t i = 0; i < n; i++)
        alone += larder__ticket_alone(&c->tickets[i]);
    t->me->alone += alone;
    t->me->together += n - alone;
    if (t->twin)
        compare(t, c);
    hand_over(t, c);
    if (alone == n) /* storage is slow, so that somebody to share with comes back meanwhile */
        actors_sleep(actors_now() + actors_between(0, 1));
}

static void tell(table *t, const uint64_t *keys, size_t n) {
    float scores[PLAY_BATCH_MOST];
    for (size_t i = 0; i < n; i++)
        scores[i] = (float)actors_between(0, 4);
    if (played.hears)
        larder__cache_score(t->cache, keys, scores, n);
    if (played.hears && t->twin)
        larder__cache_score(t->twin, keys, scores, n);
}

static void batch(table *t, const larder_pick *picks, size_t n) {
    uint64_t keys[PLAY_BATCH_MOST], more[PLAY_BATCH_MOST];
    for (size_t i = 0; i < n; i++)
        keys[i] = picks[i].id;
    claim(t, keys, n, 0);
    if (played.exchanges) {
        size_t besides = larder__cache_fetch(t->cache, more, PLAY_BATCH_MOST);
        if (besides)
            claim(t, more, besides, LARDER_TAG_FETCH);
    }
    tell(t, keys, n);
}

static void epoch(table *t) {
    player *me = t->me;
    larder_pick picks[PLAY_BATCH_MOST];
    memset(me->times, 0, sizeof me->times);
    me->last_begun = played.over;
    me->together = 0;
    larder__cache_epoch(t->cache, me->epoch);
    if (t->twin)
        larder__cache_epoch(t->twin, me->epoch);
    t->sampler->epoch(t->order, me->epoch);
    for (size_t n;
         !actors_complaint() && (n = t->sampler->draw(t->order, picks, played.batch)) > 0;)
        batch(t, picks, n);
    until_served(t);
    for (uint32_t k = 0; k < played.keys; k++)
        if (me->times[k] != 1)
            actors_complain("sample %u was served %u times in epoch %llu", k, me->times[k],
                            (unsigned long long)me->epoch);
    me->epoch++;
    me->epochs_whole++;
}

/* ---- a life ---------------------------------------------------------------------------------- */

static void open_order(table *t) {
    t->sampler = larder__sampler_find(played.exchanges ? "ods" : "uniform");
    t->env = (larder_draw_env){.n = played.keys,
                               .batch = played.batch,
                               .world = 1,
                               .seed = played.seed + t->me->number,
                               .exchange = played.exchanges ? exchange : NULL,
                               .exchange_arg = t};
    t->order = larder__calloc(1, t->sampler->plugin.state_size);
    if (t->sampler->init(t->order, &t->env, NULL) < 0)
        abort();
}

/* It may be refused, for want of memory, say; then somebody starts it again. */
static void wait_to_open(int *healthy) {
    actors_log("does not open: %s", larder_errmsg());
    *healthy += played.over;
    if (*healthy > 100)
        actors_complain("the cache does not open: %s", larder_errmsg());
    actors_sleep(actors_now() + 0.2);
}

static void open_cache(table *t) {
    for (int healthy = 0; played.open(&t->cache, t->me->number) < 0;)
        wait_to_open(&healthy);
    for (uint32_t k = 0; played.warm && k < played.keys; k++) /* as loader/draw/warm.c has it */
        if (!larder__cache_adopt(t->cache, k, play_size(k)))
            break;
    for (int healthy = 0; played.open_below && played.open_below(&t->below, t->me->number) < 0;)
        wait_to_open(&healthy);
}

static void open_twin(table *t) {
    larder_args args = {0};
    larder__cache_conf conf = {.policy = larder__policy_find(played.policy),
                               .args = &args,
                               .keys = played.keys,
                               .budget = played.budget,
                               .seed = played.seed + t->me->number,
                               .store = &larder__store_null,
                               .tiers = played.tiers.front ? &played.tiers : NULL};
    if (!(played.calm || played.decides) || played.exchanges)
        return;
    if (larder__args_parse(&args, "policy", &conf.policy->plugin, "", ',', NULL) < 0 ||
        larder__cache_open(&t->twin, &conf) < 0)
        abort();
    larder__args_free(&args);
}

bool player_alone(const player *p) { return p->together == 0; }
void player_init(player *p, uint32_t number) { *p = (player){.number = number}; }

/* Once all is well nobody goes on alone: nothing waits for such a one, so nothing else shows it. */
static bool still_away(const table *t) {
    enum { MOST = 120 }; /* seconds: attempts to come back are 10 apart, leases 10 long */
    if (!played.away || !played.away(t->me))
        return false;
    if (actors_now() > played.healed_at + MOST)
        actors_complain("it stays away though all is healed");
    actors_sleep(actors_now() + 1);
    return true;
}

void *player_main(void *arg) {
    player *me = arg;
    table *t = larder__calloc(1, sizeof *t);
    t->me = me;
    open_cache(t);
    open_order(t);
    open_twin(t);
    t->kitchen = actors_spawn(cook, t);
    do
        epoch(t);
    while ((!me->last_begun || still_away(t)) && !actors_complaint());
    t->closing = true;
    actors_wake(t, 0);
    actors_join(t->kitchen);
    if (played.leaving && !actors_complaint())
        played.leaving(t->cache);
    larder__cache_close(&t->cache);
    larder__cache_close(&t->twin);
    larder__disk_close(&t->below);
    if (t->sampler->fini)
        t->sampler->fini(t->order);
    larder__free(t->order);
    larder__free(t);
    me->done = true;
    return NULL;
}
