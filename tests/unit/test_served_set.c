/* A served set without sockets: several jobs claim, make, release and die at random. Whoever reads
 * a block must find the bytes of the key it was promised. */
#include "base/mem.h"
#include "check.h"
#include "shared/merge.h"
#include "unix/served_set.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { KEYS = 300, JOBS = 6, BATCH = 16, HELD = 64, MOST = 3000 };

typedef struct holding {
    larder__reply t;
    bool made;
} holding;

typedef struct client {
    bool here;
    uint32_t number;
    holding held[HELD];
    size_t n;
} client;

typedef struct world {
    larder__served *set;
    unsigned char *arena;
    client jobs[JOBS];
    larder_rng rng;
    uint64_t reads, serves;
} world;

static uint32_t size_of(uint64_t key) { return 500 + (uint32_t)(key * 7919 % (MOST - 500)); }

static void open_world(world *w, const char *policy, uint64_t budget, uint64_t seed) {
    *w = (world){0};
    larder_rng_seed(&w->rng, seed, 0);
    larder__served_conf conf = {
        .identity = 1,
        .about = {.keys = KEYS, .seed = seed, .budget = budget},
        .spare = budget / 4,
    };
    snprintf(conf.about.policy, sizeof conf.about.policy, "%s", policy);
    int fds[2];
    check_ok(larder__served_open(&w->set, &conf));
    check_ok(larder__served_memory(w->set, false, fds));
    w->arena = mmap(NULL, larder__served_arena_bytes(w->set), PROT_READ | PROT_WRITE, MAP_SHARED,
                    fds[0], 0);
    assert_true(w->arena != MAP_FAILED);
}

static void close_world(world *w) {
    larder__served_figures f;
    for (int i = 0; i < JOBS; i++)
        if (w->jobs[i].here)
            larder__served_leave(w->set, w->jobs[i].number);
    larder__served_read_figures(w->set, &f);
    assert_int_equal(f.jobs, 0);
    assert_int_equal(f.leases, 0);
    assert_int_equal(f.leased_bytes, 0);
    larder__cache_figures c;
    larder__cache_read_figures(larder__served_cache(w->set), &c);
    assert_int_equal(c.loaned_bytes, 0);
    munmap(w->arena, larder__served_arena_bytes(w->set));
    larder__served_close(&w->set);
}

/* As it comes over a socket. */
static int say(larder__served *s, uint32_t job, const larder__op *o, larder_writer *answer,
               larder__outcome *out) {
    larder_writer w = {0}, room = {0};
    larder__op heard;
    larder__op_write(o, &w);
    larder_reader r = {.at = w.bytes, .end = w.bytes + w.size};
    int rc = larder__op_read(&heard, o->type, &r, KEYS, &room);
    if (rc == 0)
        rc = larder__served_apply(s, job, &heard, answer, out);
    larder__writer_free(&w);
    larder__writer_free(&room);
    return rc;
}

static int claim_rows(larder__served *s, uint32_t job, const larder__row *rows, size_t n,
                      larder__reply *out) {
    larder_writer answer = {0};
    larder__outcome decided;
    int rc = say(s, job, &(larder__op){.type = LARDER__OP_CLAIM, .n = n, .rows = rows}, &answer,
                 &decided);
    if (rc == 0) {
        assert_int_equal(decided.rows, n);
        memcpy(out, larder__served_replies(&answer), n * sizeof *out);
    }
    larder__writer_free(&answer);
    return rc;
}

static int score(larder__served *s, uint32_t job, uint64_t key, float value) {
    larder_writer answer = {0};
    larder__outcome out;
    larder__op o = {.type = LARDER__OP_SCORES, .n = 1, .ids = &key, .scores = &value};
    int rc = say(s, job, &o, &answer, &out);
    larder__writer_free(&answer);
    return rc;
}

static larder__block_head *head_at(const world *w, const larder__reply *t) {
    assert_true(t->offset % 64 == 0);
    assert_true(t->offset + 64 + t->size <= larder__served_arena_bytes(w->set));
    return (larder__block_head *)(void *)(w->arena + t->offset);
}

static void check_bytes(const world *w, const larder__reply *t) {
    const larder__block_head *h = head_at(w, t);
    assert_int_equal(h->key, t->key);
    assert_int_equal(t->size, size_of(t->key));
    const unsigned char *at = (const unsigned char *)(h + 1);
    for (uint32_t i = 0; i < t->size; i++)
        assert_int_equal(at[i], (unsigned char)(t->key * 31 + i));
}

static void make(world *w, client *c, holding *h) {
    larder__block_head *head = head_at(w, &h->t);
    unsigned char *at = (unsigned char *)(head + 1);
    for (uint32_t i = 0; i < h->t.size; i++)
        at[i] = (unsigned char)(h->t.key * 31 + i);
    atomic_store(&head->state, LARDER__BLOCK_FULL);
    larder__served_made(w->set, c->number, h->t.lease, 0);
    h->made = true;
}

static void give(world *w, client *c, size_t i) {
    holding *h = &c->held[i];
    uint32_t state = atomic_load(&head_at(w, &h->t)->state);
    if (h->t.task == LARDER__READY || h->made || state == LARDER__BLOCK_FULL)
        check_bytes(w, &h->t);
    larder__served_release(w->set, c->number, h->t.lease);
    c->held[i] = c->held[--c->n];
}

static void claim(world *w, client *c) {
    larder__row a[BATCH];
    larder__reply t[BATCH];
    for (int i = 0; i < BATCH; i++) {
        uint32_t key = larder_rng_below(&w->rng, KEYS);
        a[i] = (larder__row){.key = key, .size = size_of(key), .score = NAN};
    }
    check_ok(claim_rows(w->set, c->number, a, BATCH, t));
    for (int i = 0; i < BATCH; i++) {
        assert_int_equal(t[i].key, a[i].key);
        w->serves++;
        w->reads += t[i].task == LARDER__MAKE;
        if (t[i].lease == LARDER__NO_LEASE)
            assert_int_equal(t[i].task, LARDER__MAKE);
        else
            c->held[c->n++] = (holding){.t = t[i]};
    }
}

static void step(world *w) {
    client *c = &w->jobs[larder_rng_below(&w->rng, JOBS)];
    uint32_t what = larder_rng_below(&w->rng, 100);
    if (!c->here) {
        check_ok(larder__served_join(w->set, 0, false, 1, &c->number));
        c->here = true;
        c->n = 0;
    } else if (what < 2) { /* killed: nothing is given back in order */
        larder__served_leave(w->set, c->number);
        c->here = false;
    } else if (what < 40 && c->n + BATCH <= HELD) {
        claim(w, c);
    } else if (what < 70 && c->n) {
        holding *h = &c->held[larder_rng_below(&w->rng, (uint32_t)c->n)];
        if (h->t.task == LARDER__MAKE && !h->made)
            make(w, c, h);
    } else if (c->n) {
        give(w, c, larder_rng_below(&w->rng, (uint32_t)c->n));
    }
}

static void test_random_jobs(void **st) {
    (void)st;
    static const char *const policies[] = {"lru", "minio", "random", "sieve"};
    for (size_t p = 0; p < sizeof policies / sizeof *policies; p++) {
        world w;
        open_world(&w, policies[p], 100000, p);
        for (int i = 0; i < 20000; i++)
            step(&w);
        assert_true(w.reads < w.serves); /* some of it was shared */
        close_world(&w);
    }
}

static void test_one_maker_for_all(void **st) {
    (void)st;
    world w;
    open_world(&w, "lru", 1000000, 0);
    larder__row a = {.key = 5, .size = size_of(5)};
    larder__reply t[3];
    uint32_t number[3];
    for (int i = 0; i < 3; i++) {
        check_ok(larder__served_join(w.set, 0, false, 1, &number[i]));
        check_ok(claim_rows(w.set, number[i], &a, 1, &t[i]));
    }
    assert_int_equal(t[0].task, LARDER__MAKE);
    assert_int_equal(t[1].task, LARDER__WAIT);
    assert_int_equal(t[2].task, LARDER__WAIT);
    assert_int_equal(t[1].offset, t[0].offset);
    larder__served_leave(w.set, number[0]); /* the maker dies: those who wait are told */
    assert_int_equal(atomic_load(&head_at(&w, &t[1])->state), LARDER__BLOCK_FAILED);
    check_ok(claim_rows(w.set, number[1], &a, 1, &t[0])); /* and it is made again */
    assert_int_equal(t[0].task, LARDER__MAKE);
    assert_int_not_equal(t[0].offset, t[1].offset);
    for (int i = 1; i < 3; i++)
        larder__served_leave(w.set, number[i]);
    close_world(&w);
}

/* A job that gives nothing back is read to from storage once it holds its share. */
static void test_stuck_job(void **st) {
    (void)st;
    world w;
    open_world(&w, "lru", 50000, 0);
    uint32_t stuck, other;
    check_ok(larder__served_join(w.set, 0, false, 1, &stuck));
    check_ok(larder__served_join(w.set, 0, false, 1, &other));
    for (uint32_t k = 0; k < KEYS; k++) {
        larder__row a = {.key = k, .size = size_of(k)};
        larder__reply t;
        check_ok(claim_rows(w.set, stuck, &a, 1, &t));
        if (t.lease != LARDER__NO_LEASE)
            larder__served_made(w.set, stuck, t.lease, 0);
    }
    larder__served_figures f;
    larder__served_read_figures(w.set, &f);
    assert_true(f.capped > 0);
    assert_true(f.leased_bytes <= 50000 + 50000 / 8 + MOST);
    larder__served_leave(w.set, stuck);
    larder__row a = {.key = 1, .size = size_of(1)};
    larder__reply t;
    check_ok(claim_rows(w.set, other, &a, 1, &t));
    assert_int_not_equal(t.lease, LARDER__NO_LEASE);
    larder__served_leave(w.set, other);
    close_world(&w);
}

static void test_quota(void **st) {
    (void)st;
    world w;
    open_world(&w, "lru", 100000, 0);
    uint32_t small, large;
    check_ok(larder__served_join(w.set, 5000, false, 1, &small));
    check_ok(larder__served_join(w.set, 0, false, 1, &large));
    uint32_t kept = 0;
    for (uint32_t k = 0; k < 40; k++) {
        larder__row a = {.key = k, .size = size_of(k)};
        larder__reply t;
        check_ok(claim_rows(w.set, small, &a, 1, &t));
        kept += t.lease != LARDER__NO_LEASE ? t.size : 0;
    }
    assert_true(kept >= 5000 && kept < 5000 + MOST);
    larder__served_leave(w.set, small);
    larder__served_leave(w.set, large);
    close_world(&w);
}

static void test_lies(void **st) {
    (void)st;
    world w;
    open_world(&w, "lru", 50000, 0);
    uint32_t j;
    check_ok(larder__served_join(w.set, 0, false, 1, &j));
    larder__row a = {.key = KEYS, .size = 10};
    larder__reply t;
    assert_int_equal(claim_rows(w.set, j, &a, 1, &t), LARDER_E_FORMAT);
    larder__served_release(w.set, j, 0);
    larder__served_release(w.set, j, UINT32_MAX);
    larder__served_made(w.set, j, 77, 0);
    assert_int_equal(score(w.set, j, KEYS, 1), LARDER_E_FORMAT);
    check_ok(score(w.set, j, 3, NAN));
    larder__served_leave(w.set, j);
    larder__served_leave(w.set, j);
    close_world(&w);
    larder__served *s;
    larder__served_conf conf = {.about = {.keys = 10, .budget = 1000, .policy = "nobody"}};
    assert_int_equal(larder__served_open(&s, &conf), LARDER_E_ARGS);
    strcpy(conf.about.policy, "belady");
    assert_int_equal(larder__served_open(&s, &conf), LARDER_E_ARGS);
    conf = (larder__served_conf){.about = {.budget = 1000, .policy = "lru"}};
    assert_int_equal(larder__served_open(&s, &conf), LARDER_E_RANGE);
}

static void test_full_house(void **st) {
    (void)st;
    world w;
    uint32_t j;
    open_world(&w, "lru", 50000, 0);
    for (int i = 0; i < LARDER__SERVED_JOBS; i++)
        check_ok(larder__served_join(w.set, 0, false, 1, &j));
    assert_int_equal(larder__served_join(w.set, 0, false, 1, &j), LARDER_E_FULL);
    for (uint32_t i = 0; i < LARDER__SERVED_JOBS; i++)
        larder__served_leave(w.set, i);
    close_world(&w);
}

/* One job speaks in thousands, the other in thousandths: what counts is the rank. */
/* Of what no policy hears nothing is kept: a daemon reckons without it. */
static void test_scores_nobody_hears(void **st) {
    (void)st;
    static const char *const policies[] = {"lru", "app"};
    for (int i = 0; i < 2; i++) {
        world w;
        uint32_t job;
        larder__purse purse = {.most = 64 << 20}, *before = larder__mem_charge(&purse);
        open_world(&w, policies[i], 100000, 1);
        check_ok(larder__served_join(w.set, 0, false, 0, &job));
        uint64_t used = purse.used;
        check_ok(score(w.set, job, 7, 1));
        assert_true(i ? purse.used >= used + KEYS * sizeof(float) : purse.used == used);
        larder__served_leave(w.set, job);
        close_world(&w);
        assert_int_equal(purse.used, 0);
        larder__mem_charge(before);
    }
}

/* All that two jobs said, kept as it came: what a merge makes of it, counted anew each time. */
enum { SAID = 4000, MERGED = 100, LATELY = 1024 };
typedef struct talk {
    float score[2][SAID];
    uint32_t key[2][SAID], count[2];
} talk;

static float last_word(const talk *t, int job, uint32_t key) {
    for (uint32_t i = t->count[job]; i-- > 0;)
        if (t->key[job][i] == key)
            return t->score[job][i];
    return NAN;
}

static double rank_among(const talk *t, int job, float score) {
    uint32_t from = t->count[job] > LATELY ? t->count[job] - LATELY : 0, below = 0;
    for (uint32_t i = from; i < t->count[job]; i++)
        below += t->score[job][i] < score;
    return (below + 0.5) / (t->count[job] - from + 1);
}

static void test_merged_scores(void **st) {
    (void)st;
    static talk t;
    larder_rng rng;
    larder__merge *m;
    larder_rng_seed(&rng, 4, 4);
    check_ok(larder__merge_open(&m, MERGED, 2));
    larder__merge_asked(m, 0,
                        29); /* 30 times what the other asks for, with the one that all have */
    for (uint32_t i = 0; i < 2 * SAID; i++) {
        int job = (int)i % 2;
        uint32_t key = larder_rng_below(&rng, MERGED - 1), at = t.count[job]++;
        float score = (job ? 0.001f : 1000.0f) * (float)larder_rng_below(&rng, 500);
        t.key[job][at] = key;
        t.score[job][at] = score;
        check_ok(larder__merge_add(m, (uint32_t)job, key, score));
        double sum = 0, weight = 0;
        for (int j = 0; j < 2; j++) {
            float word = last_word(&t, j, key);
            double asks = j ? 1 : 30;
            sum += isnan(word) ? 0 : asks * rank_among(&t, j, word);
            weight += isnan(word) ? 0 : asks;
        }
        assert_true(fabs((double)larder__merge_value(m, key) - sum / weight) < 1e-5);
    }
    assert_true(isnan(larder__merge_value(m, MERGED - 1)));
    assert_false(larder__merge_rescales(m, 2, 0)); /* ranks all along */
    larder__merge_leave(m, 1);
    assert_true(larder__merge_rescales(m, 1, 0));
    for (uint32_t k = 0; k < MERGED - 1; k++)
        assert_true(larder__merge_value(m, k) == last_word(&t, 0, k));
    assert_true(larder__merge_view(m, 0, 5, 12.0f) == 12.0f); /* as it speaks */
    larder__merge_leave(m, 0);
    assert_true(larder__merge_value(m, 5) >= 0 &&
                larder__merge_value(m, 5) <= 1); /* not forgotten */
    larder__merge_close(&m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_jobs),   cmocka_unit_test(test_one_maker_for_all),
        cmocka_unit_test(test_stuck_job),     cmocka_unit_test(test_quota),
        cmocka_unit_test(test_lies),          cmocka_unit_test(test_full_house),
        cmocka_unit_test(test_merged_scores), cmocka_unit_test(test_scores_nobody_hears),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
