/* ods and the forms of a cache against a slow twin: plain arrays, everything counted anew each
 * time, entries of one size. Jobs come, go, rest and begin epochs at random; compared are what each
 * is served, how and in which form, what is brought in, and who is resident in which slot. */
#include "base/spec.h"
#include "base/state.h"
#include "cache/ods_core.h"
#include "cache_kit.h"
#include "plugins.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KEYS = 70, SLOTS = 80, JOBS = 6, SIZE = 10, NOBODY = -1, OFFERS = 1024 };

typedef struct twin_job {
    bool there, live;
    bool seen[KEYS], used[SLOTS];
} twin_job;

typedef struct twin {
    int n;
    uint64_t budget, room[LARDER_FORMS];
    int key[SLOTS], form[SLOTS]; /* by slot; key NOBODY: empty */
    bool promised[SLOTS];
    int slots, empty[SLOTS], empties; /* ever in use; the empty ones, last emptied last */
    twin_job job[JOBS];
    int64_t credit;
    larder_rng chance, refills;
    bool seeded;
} twin;

/* ---- looked up anew each time ---------------------------------------------------------------- */

static int live(const twin *t) {
    int n = 0;
    for (int j = 0; j < JOBS; j++)
        n += t->job[j].there && t->job[j].live;
    return n;
}

static int slot_of(const twin *t, int key) {
    for (int s = 0; s < t->slots; s++)
        if (t->key[s] == key)
            return s;
    return NOBODY;
}

static int seen_by(const twin *t, int key) {
    int n = 0;
    for (int j = 0; j < JOBS; j++)
        n += t->job[j].there && t->job[j].live && t->job[j].seen[key];
    return n;
}

static bool is_new(const twin *t, int job, int s) {
    return !t->job[job].seen[t->key[s]] && !(t->form[s] == LARDER_AUGMENTED && t->job[job].used[s]);
}

static bool done_with(const twin *t, int s) {
    for (int j = 0; j < JOBS; j++) {
        const twin_job *q = &t->job[j];
        if (q->there && q->live &&
            !(t->form[s] == LARDER_AUGMENTED ? q->used[s] : q->seen[t->key[s]]))
            return false;
    }
    return true;
}

static bool new_to_all(const twin *t, int s) {
    for (int j = 0; j < JOBS; j++)
        if (t->job[j].there && t->job[j].live && !is_new(t, j, s))
            return false;
    return true;
}

static int residents(const twin *t, bool lasting) {
    int n = 0;
    for (int s = 0; s < t->slots; s++)
        n += t->key[s] != NOBODY && !(lasting && t->form[s] == LARDER_AUGMENTED);
    return n;
}

static uint64_t bytes_in(const twin *t, int form) {
    uint64_t n = 0;
    for (int s = 0; s < t->slots; s++)
        n += t->key[s] != NOBODY && t->form[s] == form ? SIZE : 0;
    return n;
}

static int drawn(const int *from, int n, larder_rng *rng) {
    return n ? from[larder_rng_below(rng, (uint32_t)n)] : NOBODY;
}

/* ---- what happens ---------------------------------------------------------------------------- */

static void earn(twin *t, int64_t more) {
    int64_t most = (int64_t)OFFERS * t->n * live(t);
    t->credit += more;
    t->credit = t->credit < 0 ? 0 : t->credit > most ? most : t->credit;
}

static void see(twin *t, int job, int key) {
    if (t->job[job].seen[key])
        return;
    t->job[job].seen[key] = true;
    if (t->job[job].live)
        earn(t, t->n - residents(t, true));
}

static void empty(twin *t, int s) {
    t->key[s] = NOBODY;
    t->promised[s] = false;
    for (int j = 0; j < JOBS; j++)
        t->job[j].used[s] = false;
    t->empty[t->empties++] = s;
}

/* The first of those that most live jobs have seen, of two draws a live job. */
static int nearest_done(twin *t, const int *from, int n) {
    int best = NOBODY;
    for (int i = 0; i < LARDER__ODS_LOOKS * live(t); i++) {
        int s = drawn(from, n, &t->chance);
        if (best == NOBODY || seen_by(t, t->key[s]) > seen_by(t, t->key[best]))
            best = s;
    }
    return best;
}

static void exchange(twin *t, int job, const uint64_t *wanted, size_t n, uint64_t *served) {
    memset(t->promised, 0, sizeof t->promised);
    for (size_t i = 0; i < n; i++) {
        int s = slot_of(t, (int)wanted[i]);
        served[i] = KEYS;
        if (s == NOBODY || !is_new(t, job, s))
            continue;
        served[i] = wanted[i];
        t->promised[s] = true;
        see(t, job, (int)wanted[i]);
    }
    for (size_t i = 0; i < n; i++) {
        if (served[i] != KEYS)
            continue;
        int touched[SLOTS], fresh[SLOTS], a = 0, b = 0;
        for (int s = 0; s < t->slots; s++) {
            if (t->key[s] != NOBODY && new_to_all(t, s))
                fresh[b++] = s;
            else if (t->key[s] != NOBODY && is_new(t, job, s))
                touched[a++] = s;
        }
        int s = a ? nearest_done(t, touched, a) : drawn(fresh, b, &t->chance);
        served[i] = s == NOBODY ? wanted[i] : (uint64_t)t->key[s];
        see(t, job, (int)served[i]);
        if (s != NOBODY)
            t->promised[s] = true;
    }
}

static int form_with_room(const twin *t, bool augmented_too) {
    const int order[] = {LARDER_DECODED, LARDER_ENCODED, LARDER_AUGMENTED};
    for (int i = 0; i < LARDER__SPLIT_FORMS - !augmented_too; i++)
        if (bytes_in(t, order[i]) + SIZE <= t->room[order[i]] &&
            (uint64_t)residents(t, false) * SIZE + SIZE <= t->budget)
            return order[i];
    return NOBODY;
}

/* The form it enters in, making room if that is allowed. */
static int enter(twin *t, int key, bool augmented_too) {
    bool ever = false;
    for (int f = 0; f < LARDER_FORMS; f++)
        ever |= (f != LARDER_AUGMENTED || augmented_too) && t->room[f] >= SIZE;
    int form = NOBODY;
    while (ever && (form = form_with_room(t, augmented_too)) == NOBODY) {
        int done[SLOTS], n = 0;
        for (int s = 0; s < t->slots; s++)
            if (t->key[s] != NOBODY && done_with(t, s) && !t->promised[s])
                done[n++] = s;
        if (!residents(t, false) || !n || seen_by(t, key) >= live(t))
            return NOBODY;
        empty(t, drawn(done, n, &t->chance));
    }
    return form;
}

static void settle(twin *t, int key, int form) {
    int s = t->empties ? t->empty[--t->empties] : t->slots++;
    t->key[s] = key;
    t->form[s] = form;
}

typedef struct answer {
    int kind, form;
} answer;

static answer ask(twin *t, int job, int key) {
    int s = slot_of(t, key);
    if (s != NOBODY && !(t->form[s] == LARDER_AUGMENTED && t->job[job].used[s])) {
        answer a = {LARDER_HIT, t->form[s]};
        t->promised[s] = false;
        see(t, job, key);
        if (a.form == LARDER_AUGMENTED) {
            t->job[job].used[s] = true;
            if (done_with(t, s))
                empty(t, s);
        }
        return a;
    }
    if (!t->seeded)
        larder_rng_seed(&t->refills, larder_rng_next(&t->chance), 0x0d5);
    t->seeded = true;
    see(t, job, key);
    answer a = {LARDER_MISS, LARDER_ENCODED};
    int form = s == NOBODY ? enter(t, key, seen_by(t, key) < live(t)) : NOBODY;
    if (form == NOBODY)
        return a;
    settle(t, key, form);
    if (form == LARDER_AUGMENTED)
        t->job[job].used[slot_of(t, key)] = true;
    a.form = form;
    return a;
}

static size_t refill(twin *t, uint64_t *ids) {
    int64_t each = (int64_t)t->n * live(t), most = live(t) ? t->credit / each : 0;
    int in = residents(t, false), done = 0;
    for (int s = 0; s < t->slots; s++)
        done += t->key[s] != NOBODY && done_with(t, s) && !t->promised[s];
    if (in && most > done + (int64_t)(t->budget - (uint64_t)in * SIZE) / (SIZE + 1))
        most = done + (int64_t)(t->budget - (uint64_t)in * SIZE) / (SIZE + 1);
    bool offered[KEYS] = {false};
    size_t n = 0;
    for (int k = 0; 2 * k < live(t); k++)
        for (; (int64_t)n < most && n < OFFERS; n++) {
            int some[KEYS], count = 0;
            for (int key = 0; key < t->n; key++)
                if (!offered[key] && slot_of(t, key) == NOBODY && seen_by(t, key) == k)
                    some[count++] = key;
            int key = drawn(some, count, &t->refills);
            if (key == NOBODY)
                break;
            offered[key] = true;
            ids[n] = (uint64_t)key;
        }
    return n;
}

static bool bring_in(twin *t, int key) {
    int form = enter(t, key, true);
    if (form == NOBODY)
        return false;
    settle(t, key, form);
    earn(t, -(int64_t)t->n * live(t));
    return true;
}

/* ---- the two side by side -------------------------------------------------------------------- */

typedef struct pair {
    twin t;
    larder__cache *c;
    uint32_t number[JOBS]; /* the cache's name for a job */
    uint64_t now;
    larder__forms forms;
    uint64_t seed;
} pair;

static int tell_join(void *ods, void *job) { return larder__ods_join(ods, job); }
static int tell_leave(void *ods, void *job) {
    larder__ods_leave(ods, *(uint32_t *)job);
    return 0;
}
static int tell_epoch(void *ods, void *job) {
    larder__ods_epoch(ods, *(uint32_t *)job, NULL);
    return 0;
}
static int tell_rest(void *ods, void *job) {
    larder__ods_rest(ods, *(uint32_t *)job, true);
    return 0;
}
static int tell_wake(void *ods, void *job) {
    larder__ods_rest(ods, *(uint32_t *)job, false);
    return 0;
}

static larder__cache *open_cache(const pair *p) {
    larder__cache_conf conf = {.policy = larder__policy_find("ods"),
                               .store = &larder__store_null,
                               .keys = (uint64_t)p->t.n,
                               .budget = p->t.budget,
                               .forms = &p->forms,
                               .seed = p->seed};
    larder__cache *c;
    check_ok(larder__cache_open(&c, &conf));
    return c;
}

static void pair_open(pair *p, uint64_t seed, larder_rng *rng) {
    static const char *const splits[] = {"100/0/0", "50/50/0", "0/0/100", "40/20/40", "0/100/0"};
    *p = (pair){.seed = seed};
    p->forms = (larder__forms){.decoded_bytes = SIZE, .row_bytes = SIZE};
    check_ok(larder__parse_split(splits[seed % 5], p->forms.share));
    twin *t = &p->t;
    t->n = 5 + (int)larder_rng_below(rng, KEYS - 5);
    t->budget = larder_rng_below(rng, (uint32_t)t->n * SIZE + 1);
    for (int f = 0; f < LARDER_FORMS; f++)
        t->room[f] = (uint64_t)(p->forms.share[f] * (double)t->budget);
    for (int s = 0; s < SLOTS; s++)
        t->key[s] = NOBODY;
    larder_rng_seed(&t->chance, seed, 0xcac4e);
    t->job[0] = (twin_job){.there = true, .live = true};
    p->c = open_cache(p);
}

static void compare_tables(const pair *p) {
    const larder_slots *s = larder__cache_slots(p->c);
    assert_int_equal(s->used, p->t.slots);
    for (larder_slot i = 0; i < s->used; i++) {
        int key = s->key_of[i] == UINT32_MAX ? NOBODY : (int)s->key_of[i];
        assert_int_equal(key, p->t.key[i]);
        if (key != NOBODY)
            assert_int_equal(s->form_of[i], p->t.form[i]);
    }
}

static larder__ticket claim(pair *p, uint64_t key, int job, uint32_t tag) {
    larder_access a = {
        .key = key, .now = p->now++, .size = SIZE, .job = p->number[job], .tag = tag, .score = NAN};
    larder__ticket t;
    check_ok(larder__cache_claim(p->c, &a, 1, &t));
    return t;
}

static void batch(pair *p, int job, larder_rng *rng) {
    uint64_t wanted[16] = {0}, mine[16], theirs[16], ids[OFFERS], same[OFFERS];
    size_t n = 0, most = 1 + larder_rng_below(rng, 15);
    twin *t = &p->t;
    int from = (int)larder_rng_below(rng, (uint32_t)t->n);
    for (int i = 0; n < most && i < t->n; i++)
        if (!t->job[job].seen[(from + i) % t->n])
            wanted[n++] = (uint64_t)((from + i) % t->n);
    larder__cache_exchange(p->c, p->number[job], wanted, n, theirs);
    exchange(t, job, wanted, n, mine);
    assert_memory_equal(mine, theirs, n * sizeof *mine);
    if (larder_rng_below(rng, 20) == 0)
        return; /* it died, or was told only */
    for (size_t i = 0; i < n; i++) {
        answer a = ask(t, job, (int)mine[i]);
        larder__ticket got = claim(p, mine[i], job, 0);
        assert_int_equal(got.kind, a.kind);
        assert_int_equal(got.form, a.form);
    }
    size_t offers = larder__cache_fetch(p->c, ids, OFFERS);
    assert_int_equal(offers, refill(t, same));
    assert_memory_equal(ids, same, offers * sizeof *ids);
    for (size_t i = 0; i < offers; i++) {
        bool entered = bring_in(t, (int)ids[i]);
        assert_int_equal(claim(p, ids[i], job, LARDER_TAG_FETCH).kind,
                         entered ? LARDER_MISS : LARDER_HIT);
    }
}

/* The cache goes on from its saved state; the twin does not notice. */
static void reload(pair *p) {
    larder__cache *fresh = open_cache(p);
    kit_copy_state(p->c, fresh);
    larder__cache_close(&p->c);
    p->c = fresh;
    memset(p->t.promised, 0, sizeof p->t.promised); /* nobody is in the middle of a batch */
}

static void change(pair *p, int job, larder_rng *rng) {
    twin_job *q = &p->t.job[job];
    uint32_t *number = &p->number[job], dice = larder_rng_below(rng, 10);
    if (!q->there) {
        *q = (twin_job){.there = true, .live = true};
        check_ok(larder__cache_change(p->c, tell_join, number));
        p->t.credit = 0;
    } else if (dice < 3) {
        check_ok(larder__cache_change(p->c, tell_leave, number));
        p->t.credit = 0;
        *q = (twin_job){0};
    } else if (dice < 6) {
        q->live = !q->live;
        check_ok(larder__cache_change(p->c, q->live ? tell_wake : tell_rest, number));
        p->t.credit = 0;
    } else
        reload(p);
}

static void run(uint64_t seed) {
    larder_rng rng;
    pair p;
    larder_rng_seed(&rng, seed, 99);
    pair_open(&p, seed, &rng);
    int most = 1 + (int)(seed % JOBS);
    for (int step = 0; step < 300; step++) {
        int job = (int)larder_rng_below(&rng, (uint32_t)most);
        twin_job *q = &p.t.job[job];
        if (larder_rng_below(&rng, 12) == 0)
            change(&p, job, &rng);
        else if (q->there && q->live) {
            bool all = true;
            for (int k = 0; k < p.t.n; k++)
                all &= q->seen[k];
            if (all || larder_rng_below(&rng, 60) == 0) { /* an epoch may also be cut short */
                memset(q->seen, 0, sizeof q->seen);
                check_ok(larder__cache_change(p.c, tell_epoch, &p.number[job]));
            } else
                batch(&p, job, &rng);
        }
        compare_tables(&p);
    }
    larder__cache_close(&p.c);
}

static void ods_is_its_twin(void **state) {
    (void)state;
    uint64_t runs = getenv("LARDER_LONG") ? 1000 : 150;
    for (uint64_t seed = 0; seed < runs; seed++)
        run(seed);
}

/* States that lie are refused or make a cache that still works. */
static void damaged_states_do_no_harm(void **state) {
    (void)state;
    larder_rng rng;
    for (uint64_t seed = 0; seed < 60; seed++) {
        pair p;
        larder_writer w = {0};
        larder_rng_seed(&rng, seed, 5);
        pair_open(&p, seed, &rng);
        for (int i = 0; i < 6; i++)
            batch(&p, 0, &rng);
        larder__cache_save(p.c, &w);
        assert_int_equal(w.code, 0);
        for (int hits = 0; hits < 3; hits++)
            w.bytes[larder_rng_below(&rng, (uint32_t)w.size)] ^=
                (unsigned char)(1u << larder_rng_below(&rng, 8));
        larder__cache *c = open_cache(&p);
        larder_reader r = {.at = w.bytes, .end = w.bytes + w.size - seed % 3};
        if (larder__cache_load(c, &r) == 0) {
            uint64_t ids[OFFERS];
            larder__cache_exchange(c, 0, (uint64_t[]){0, 1, 2, 3}, 4, ids);
            larder__cache_fetch(c, ids, OFFERS);
        }
        larder__cache_close(&c);
        larder__cache_close(&p.c);
        larder__writer_free(&w);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ods_is_its_twin),
        cmocka_unit_test(damaged_states_do_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
