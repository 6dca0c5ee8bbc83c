/* The policy hilo against a slow twin that keeps plain arrays and looks at everybody each time:
 * the same kinds, served ids, packages and residents over random epochs with tags, scores and sizes
 * of their own. On the way every rule about substitutes is checked for itself. */
#include "base/spec.h"
#include "cache_kit.h"
#include "plugins.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { KEYS = 80, EPOCHS = 6, NOBODY = -1 };
enum { OUT, IN_H, IN_L, IN_S };

typedef struct twin {
    uint64_t n, budget, package, bytes, high, low;
    double share, s_share;
    int where[KEYS];
    uint32_t size[KEYS];
    float loss[KEYS];
    bool served[KEYS];                                    /* in this epoch */
    int fresh[KEYS], done[KEYS], fresh_count, done_count; /* L, in its order */
    int noted[KEYS], noted_count;
    uint32_t low_now, low_usual;
    const uint8_t *tags;
    larder_rng chance, packing;
    bool seeded;
} twin;

static uint64_t bytes_of(const twin *t, int where) {
    uint64_t sum = 0;
    for (int k = 0; k < (int)t->n; k++)
        sum += t->where[k] == where ? t->size[k] : 0;
    return sum;
}

static uint64_t residents(const twin *t) {
    uint64_t n = 0;
    for (int k = 0; k < (int)t->n; k++)
        n += t->where[k] != OUT;
    return n;
}

static uint64_t mean_of(const twin *t) {
    uint64_t n = residents(t);
    return n ? (t->bytes + n - 1) / n : 1;
}

static uint64_t low_size(const twin *t) {
    uint64_t rest = t->budget - bytes_of(t, IN_S), few = 4 * mean_of(t);
    uint64_t least = t->package < rest / 10 ? t->package : rest / 10;
    if (least < few)
        least = few < rest / 2 ? few : rest / 2;
    uint64_t size = rest - (uint64_t)(t->share * (double)rest);
    return size > least ? size : least;
}

static uint64_t high_size(const twin *t) { return t->budget - bytes_of(t, IN_S) - low_size(t); }

static int part_for(const twin *t, const larder_access *a) {
    if (a->tag == LARDER_TAG_FETCH)
        return IN_L;
    if (a->tag & LARDER_TAG_KEEP &&
        (double)(bytes_of(t, IN_S) + a->size) <= t->s_share * (double)t->budget)
        return IN_S;
    return (a->tag & 3) == LARDER_TAG_LOW ? IN_L : IN_H;
}

static int place_in(const int *line, int count, int key) {
    for (int i = 0; i < count; i++)
        if (line[i] == key)
            return i;
    return NOBODY;
}

/* Out of the middle of a line; the last fills the gap. */
static void take_out(int *line, int *count, int key) {
    line[place_in(line, *count, key)] = line[*count - 1];
    --*count;
}

static void put_first(int *line, int *count, int key) {
    memmove(line + 1, line, (size_t)*count * sizeof *line);
    line[0] = key;
    ++*count;
}

static void mark_done(twin *t, int key) {
    if (place_in(t->fresh, t->fresh_count, key) == NOBODY)
        return;
    take_out(t->fresh, &t->fresh_count, key);
    put_first(t->done, &t->done_count, key);
}

/* A newcomer takes the first place of the served, who goes to the end. */
static void enter(twin *t, int key, int where) {
    t->where[key] = where;
    if (where != IN_L)
        return;
    if (t->done_count) {
        int first = t->done[0];
        memmove(t->done, t->done + 1, (size_t)(t->done_count - 1) * sizeof *t->done);
        t->done[t->done_count - 1] = first;
    }
    t->fresh[t->fresh_count++] = key;
}

static void go(twin *t, int key) {
    if (t->where[key] == IN_L) {
        mark_done(t, key);
        take_out(t->done, &t->done_count, key);
    }
    t->where[key] = OUT;
}

static double worth(float loss) { return isnan(loss) ? INFINITY : (double)loss; }

static int least_of_h(const twin *t) {
    int least = NOBODY;
    for (int k = 0; k < (int)t->n; k++)
        if (t->where[k] == IN_H && (least == NOBODY || worth(t->loss[k]) < worth(t->loss[least])))
            least = k;
    return least;
}

static int last_of_l(const twin *t, bool any) {
    if (t->done_count)
        return t->done[t->done_count - 1];
    return any && t->fresh_count ? t->fresh[t->fresh_count - 1] : NOBODY;
}

static int victim(const twin *t, const larder_access *a) {
    int part = part_for(t, a), least = least_of_h(t);
    if (!(a->tag & 7))
        return NOBODY;
    if (part == IN_L)
        return bytes_of(t, IN_L) + a->size > low_size(t) || least == NOBODY ? last_of_l(t, false)
                                                                            : least;
    if (part == IN_S)
        return bytes_of(t, IN_L) > low_size(t) || least == NOBODY ? last_of_l(t, true) : least;
    if (bytes_of(t, IN_H) + a->size <= high_size(t))
        return last_of_l(t, true);
    return least != NOBODY && !isnan(a->score) && (double)a->score > worth(t->loss[least]) ? least
                                                                                           : NOBODY;
}

static bool is_low(const twin *t, int key) {
    return !t->tags || (t->tags[key] & 3) == LARDER_TAG_LOW ||
           (t->tags[key] & 3) == LARDER_TAG_LEFT;
}

static void count(twin *t, const larder_access *a) {
    t->low += (a->tag & 3) == LARDER_TAG_LOW;
    t->low_now += (a->tag & 3) == LARDER_TAG_LOW;
    t->high += (a->tag & 3) == LARDER_TAG_HIGH;
}

static int stand_in(twin *t, const larder_access *a) {
    if ((a->tag & 3) != LARDER_TAG_LOW || part_for(t, a) == IN_S)
        return NOBODY;
    if (!t->seeded)
        larder_rng_seed(&t->packing, larder_rng_next(&t->chance), 0x9ac4a6e);
    t->seeded = true;
    while (t->fresh_count) {
        int key = t->fresh[larder_rng_below(&t->chance, (uint32_t)t->fresh_count)];
        mark_done(t, key);
        if (!is_low(t, key) || t->served[key])
            continue;
        t->served[key] = true;
        if (place_in(t->noted, t->noted_count, (int)a->key) == NOBODY)
            t->noted[t->noted_count++] = (int)a->key;
        return key;
    }
    return NOBODY;
}

static void found(twin *t, const larder_access *a) {
    int key = (int)a->key, part = part_for(t, a);
    t->served[key] = true;
    if (t->where[key] == IN_S)
        return;
    if (part == IN_S || (part == IN_H && t->where[key] == IN_L && a->tag & 7)) {
        go(t, key);
        enter(t, key, part);
    } else if (t->where[key] == IN_L)
        mark_done(t, key);
}

/* False: refused. */
static bool let_in(twin *t, const larder_access *a) {
    int key = (int)a->key, v;
    if (a->size > t->budget)
        return false;
    while (t->bytes + a->size > t->budget) {
        if ((v = victim(t, a)) == NOBODY)
            return false;
        go(t, v);
        t->bytes -= t->size[v];
    }
    int part = part_for(t, a);
    t->bytes += a->size;
    t->size[key] = a->size;
    t->loss[key] = a->score;
    enter(t, key, part);
    if (a->tag != LARDER_TAG_FETCH) {
        t->served[key] = true;
        if (part == IN_L)
            mark_done(t, key);
    }
    return true;
}

static larder_kind request(twin *t, const larder_access *a, uint64_t *served) {
    *served = a->key;
    count(t, a);
    if (t->where[a->key] != OUT) {
        found(t, a);
        return LARDER_HIT;
    }
    int other = stand_in(t, a);
    if (other != NOBODY) {
        *served = (uint64_t)other;
        return LARDER_SUBSTITUTE;
    }
    let_in(t, a);
    return LARDER_MISS;
}

static size_t package(twin *t, uint64_t *keys, size_t max) {
    uint32_t a_batch = t->low_now > t->low_usual ? t->low_now : t->low_usual;
    if (!t->seeded || a_batch == 0 || (uint32_t)t->fresh_count >= a_batch + a_batch / 4)
        return 0;
    uint64_t mean = mean_of(t), fresh = (uint64_t)t->fresh_count * mean, size = low_size(t);
    uint64_t room = size > fresh ? (size - fresh) / mean : 0;
    uint64_t want = (t->package + mean - 1) / mean;
    want = want < room ? want : room;
    want = want < max ? want : max;
    size_t n = 0;
    bool taken[KEYS] = {0};
    for (uint64_t tries = 16 * want; n < want;) {
        int key;
        if (t->noted_count) {
            key = t->noted[0];
            memmove(t->noted, t->noted + 1, (size_t)--t->noted_count * sizeof *t->noted);
        } else if (t->tags && tries) {
            key = (int)larder_rng_below(&t->packing, (uint32_t)t->n);
            tries--;
        } else
            break;
        if (t->where[key] == OUT && is_low(t, key) && !t->served[key] && !taken[key]) {
            taken[key] = true;
            keys[n++] = (uint64_t)key;
        }
    }
    return n;
}

static void batch_over(twin *t) {
    uint32_t less = t->low_usual - (t->low_usual + 7) / 8;
    t->low_usual = t->low_now > less ? t->low_now : less;
    t->low_now = 0;
}

static void epoch_begins(twin *t) {
    if (t->low)
        t->share += ((double)t->high / (double)(t->high + t->low) - t->share) / 2;
    t->high = t->low = 0;
    memset(t->served, 0, sizeof t->served);
    for (int i = 0; i < t->done_count; i++)
        t->fresh[t->fresh_count + i] = t->done[i];
    t->fresh_count += t->done_count;
    t->done_count = 0;
}

/* ---- side by side ---------------------------------------------------------------------------- */

typedef struct pair {
    twin t;
    larder__cache *c;
    larder_rng rng;
    uint8_t tags[KEYS];
    float losses[KEYS];
    uint32_t sizes[KEYS];
    char what[64];
    bool stood_in[KEYS]; /* in this epoch */
    uint64_t substitutes, packages, hits_of_s;
} pair;

static void pair_open(pair *p, uint64_t seed) {
    memset(p, 0, sizeof *p);
    larder_rng_seed(&p->rng, seed, 41);
    snprintf(p->what, sizeof p->what, "seed %d", (int)seed);
    p->t.n = 1 + larder_rng_below(&p->rng, KEYS);
    p->t.budget = larder_rng_below(&p->rng, 14 * KEYS);
    p->t.package = 1 + larder_rng_below(&p->rng, 120);
    p->t.share = 0.9;
    p->t.s_share = 0.25;
    larder_rng_seed(&p->t.chance, seed, 0xcac4e);
    bool same = larder_rng_below(&p->rng, 2);
    for (int k = 0; k < KEYS; k++) {
        p->sizes[k] = same ? 10 : 1 + larder_rng_below(&p->rng, 24);
        p->losses[k] = NAN;
    }
    const larder_policy *policy = larder__policy_find("hilo");
    char text[64];
    larder_args args;
    snprintf(text, sizeof text, "package=%d", (int)p->t.package);
    check_ok(larder__args_parse(&args, "policy", &policy->plugin, text, ',', NULL));
    larder__cache_conf conf = {.policy = policy,
                               .args = &args,
                               .store = &larder__store_null,
                               .keys = p->t.n,
                               .budget = p->t.budget,
                               .seed = seed};
    check_ok(larder__cache_open(&p->c, &conf));
    larder__args_free(&args);
}

static void compare(const pair *p) {
    const larder_slots *s = larder__cache_slots(p->c);
    for (uint64_t k = 0; k < p->t.n; k++)
        if ((s->slot_of[k] != LARDER_NO_SLOT) != (p->t.where[k] != OUT))
            fail_msg("%s: key %d: the twin has it %d", p->what, (int)k, p->t.where[k]);
    assert_int_equal(s->bytes, p->t.bytes);
    assert_true(s->bytes <= p->t.budget);
}

static larder_access ask(const pair *p, uint64_t key, uint32_t tag) {
    return (larder_access){.key = key, .size = p->sizes[key], .tag = tag, .score = p->losses[key]};
}

static void one_request(pair *p, uint64_t key, uint32_t tag) {
    larder_access a = ask(p, key, tag), b = a;
    larder__ticket got;
    uint64_t served;
    bool kept = p->t.where[key] == IN_S;
    check_ok(larder__cache_claim(p->c, &a, 1, &got));
    larder_kind want = request(&p->t, &b, &served);
    if (got.kind != want || got.key != served)
        fail_msg("%s: key %d tag %d: kind %d of %d, the twin says %d of %d", p->what, (int)key,
                 (int)tag, got.kind, (int)got.key, want, (int)served);
    p->hits_of_s += kept;
    assert_true(!kept || got.kind == LARDER_HIT); /* S stays */
    if (got.kind != LARDER_SUBSTITUTE)
        return;
    p->substitutes++;
    assert_int_equal(tag & 3, LARDER_TAG_LOW); /* HIGH is served as asked for */
    assert_true(larder__cache_resident(p->c, got.key));
    assert_int_not_equal(p->t.where[got.key], IN_H); /* L by L */
    assert_true(!p->t.tags || (p->tags[got.key] & 3) != LARDER_TAG_HIGH);
    assert_false(p->stood_in[got.key]); /* once an epoch */
    p->stood_in[got.key] = true;
}

static void one_package(pair *p) {
    uint64_t got[16], want[16];
    size_t n = larder__cache_fetch(p->c, got, 16);
    assert_int_equal(package(&p->t, want, 16), n);
    assert_memory_equal(got, want, n * sizeof *got);
    for (size_t i = 0; i < n; i++) {
        larder_access a = ask(p, got[i], LARDER_TAG_FETCH), b = a;
        larder__ticket t;
        check_ok(larder__cache_claim(p->c, &a, 1, &t));
        assert_int_equal(t.kind == LARDER_MISS, let_in(&p->t, &b)); /* else it is not read */
    }
    p->packages += n > 0;
    batch_over(&p->t);
    larder__cache_batch(p->c);
}

static void scores_come(pair *p) {
    uint64_t key = larder_rng_below(&p->rng, (uint32_t)p->t.n);
    p->losses[key] = (float)larder_rng_unit(&p->rng);
    larder__cache_score(p->c, &key, &p->losses[key], 1);
    if (p->t.where[key] != OUT)
        p->t.loss[key] = p->losses[key];
}

static void one_epoch(pair *p, uint64_t e, bool listed) {
    for (uint64_t k = 0; k < p->t.n; k++) {
        uint32_t r = larder_rng_below(&p->rng, 10);
        bool keep = k % 11 == 3 && e > 2;
        p->tags[k] = (uint8_t)((r < 4   ? LARDER_TAG_LOW
                                : r < 8 ? LARDER_TAG_HIGH
                                        : LARDER_TAG_LEFT) |
                               (keep ? LARDER_TAG_KEEP : 0));
    }
    p->t.tags = listed ? p->tags : NULL;
    larder__cache_list(p->c, p->t.tags);
    larder__cache_epoch(p->c, e);
    epoch_begins(&p->t);
    memset(p->stood_in, 0, sizeof p->stood_in);
    uint64_t order[KEYS];
    kit_trace(KIT_EPOCHS, &p->rng, p->t.n, order, p->t.n);
    for (uint64_t i = 0; i < p->t.n; i++) {
        uint8_t tag = p->tags[order[i]];
        if ((tag & 3) != LARDER_TAG_LEFT)
            one_request(p, order[i], larder_rng_below(&p->rng, 20) ? tag : 0);
        for (int k = 0; k < 2; k++)
            scores_come(p);
        if (larder_rng_below(&p->rng, 6) == 0)
            one_package(p);
        compare(p);
    }
}

static void test_side_by_side(void **st) {
    (void)st;
    uint64_t substitutes = 0, packages = 0, kept = 0;
    for (uint64_t seed = 0; seed < 1500; seed++) {
        pair p;
        pair_open(&p, seed);
        for (uint64_t e = 0; e < EPOCHS; e++)
            one_epoch(&p, e, seed % 5 != 0);
        substitutes += p.substitutes;
        packages += p.packages;
        kept += p.hits_of_s;
        larder__cache_close(&p.c);
    }
    assert_true(substitutes > 10000 && packages > 3000 && kept > 1000); /* it all came about */
}

/* A state saved anywhere goes on in the same way, packages included. */
static void test_resume_with_tags(void **st) {
    (void)st;
    for (uint64_t seed = 0; seed < 200; seed++) {
        pair p, q;
        pair_open(&p, seed);
        for (uint64_t e = 0; e < 3; e++)
            one_epoch(&p, e, true);
        pair_open(&q, seed);
        kit_copy_state(p.c, q.c);
        larder__cache_close(&p.c);
        p.c = q.c; /* the twin goes on beside the copy */
        larder__cache_list(p.c, p.tags);
        one_package(&p);
        one_epoch(&p, 3, true);
        larder__cache_close(&p.c);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_side_by_side),
        cmocka_unit_test(test_resume_with_tags),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
