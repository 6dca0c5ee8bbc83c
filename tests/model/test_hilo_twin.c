/* The policy hilo against a slow twin that keeps plain arrays and looks at everybody each time:
 * the same kinds, served ids, packages and residents over random epochs with tags, scores and sizes
 * of their own. On the way every rule about substitutes is checked for itself. */
#include "base/spec.h"
#include "base/state.h"
#include "cache_kit.h"
#include "plugins.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { KEYS = 80, EPOCHS = 6, NOBODY = -1, ANYBODY = -2 };
enum { OUT, IN_H, IN_L, IN_S };
enum { BY_PACKAGE, BY_HIGH, BY_READ, WAYS };
static const char *const ways[WAYS] = {"package", "high", "read"};

enum { GROUPS = 2000 };

typedef struct tied { /* a package that is remembered */
    uint64_t number, bytes;
    int count, members[KEYS], live;
    bool stands;
} tied;

typedef struct twin {
    uint64_t n, budget, package, bytes, high, low;
    double share, s_share;
    int way;
    int where[KEYS];
    uint32_t size[KEYS];
    float loss[KEYS];
    bool served[KEYS];                                    /* in this epoch */
    int fresh[KEYS], done[KEYS], fresh_count, done_count; /* L, in its order */
    int noted[KEYS], noted_count;
    uint32_t low_now, low_usual;
    const uint8_t *tags;
    larder_rng chance, packing;
    bool seeded, grouping, making;
    double repack;
    uint64_t limit;
    tied groups[GROUPS]; /* by number - 1 */
    int group_count, again;
    uint64_t gone[GROUPS];
    int gone_count;
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
    if (t->way != BY_PACKAGE)
        return 0;
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
    if ((a->tag & 3) != LARDER_TAG_LOW || part_for(t, a) == IN_S || t->way == BY_READ)
        return NOBODY;
    if (t->way == BY_HIGH) { /* somebody, by chance */
        if (!bytes_of(t, IN_H))
            return NOBODY;
        int members = 0;
        for (int k = 0; k < (int)t->n; k++)
            members += t->where[k] == IN_H;
        larder_rng_below(&t->chance, (uint32_t)members);
        return ANYBODY;
    }
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

/* ---- packages that are remembered ------------------------------------------------------------ */

static int group_with(const twin *t, int key) {
    for (int i = 0; i < t->group_count; i++)
        if (t->groups[i].stands && place_in(t->groups[i].members, t->groups[i].live, key) != NOBODY)
            return i;
    return NOBODY;
}

static uint64_t laid_down(const twin *t) {
    uint64_t sum = 0;
    for (int i = 0; i < t->group_count; i++)
        sum += t->groups[i].stands ? t->groups[i].bytes : 0;
    return sum;
}

static void drop_group(twin *t, int i) {
    t->groups[i].stands = false;
    t->gone[t->gone_count++] = t->groups[i].number;
}

static void tie(twin *t, int key, uint32_t size, bool *begun) {
    if (!*begun) {
        assert_true(t->group_count < GROUPS);
        t->groups[t->group_count] = (tied){.number = (uint64_t)t->group_count + 1, .stands = true};
        t->group_count++;
        *begun = true;
    }
    int old = group_with(t, key);
    if (old != NOBODY) {
        tied *o = &t->groups[old];
        int at = place_in(o->members, o->live, key);
        memmove(o->members + at, o->members + at + 1, (size_t)(--o->live - at) * sizeof(int));
        if (o->live < t->repack * o->count)
            drop_group(t, old);
    }
    tied *g = &t->groups[t->group_count - 1];
    g->members[g->live++] = key;
    g->count++;
    g->bytes += size;
}

static larder_package tied_up(twin *t, bool begun) {
    int at = begun ? t->group_count - 1 : t->again;
    for (int i = 0; begun && t->limit && i <= at; i++)
        if (t->groups[i].stands && laid_down(t) > t->limit)
            drop_group(t, i);
    if (at == NOBODY || !t->groups[at].stands)
        return (larder_package){0};
    return (larder_package){t->groups[at].number, t->groups[at].bytes, !begun};
}

/* False: refused. */
static bool let_in(twin *t, const larder_access *a) {
    int key = (int)a->key, v;
    if (a->size > t->budget || (t->way != BY_PACKAGE && part_for(t, a) == IN_L))
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

static bool may_come(const twin *t, int key) {
    return t->where[key] == OUT && is_low(t, key) && !t->served[key];
}

static int pop_noted(twin *t) {
    int key = t->noted[0];
    memmove(t->noted, t->noted + 1, (size_t)--t->noted_count * sizeof *t->noted);
    return key;
}

/* A package that comes again. */
static size_t package_again(twin *t, uint64_t *keys) {
    while (t->noted_count && !may_come(t, t->noted[0]))
        pop_noted(t);
    int tries = t->noted_count ? 1 : t->tags ? 16 : 0;
    for (; tries; tries--) {
        int key = t->noted_count ? t->noted[0] : (int)larder_rng_below(&t->packing, (uint32_t)t->n);
        int at = group_with(t, key);
        size_t n = 0;
        for (int i = 0; at != NOBODY && i < t->groups[at].live; i++)
            if (may_come(t, t->groups[at].members[i]))
                keys[n++] = (uint64_t)t->groups[at].members[i];
        if (n && (double)n >= t->repack * t->groups[at].count) {
            t->again = at;
            return n;
        }
    }
    return 0;
}

static size_t package(twin *t, uint64_t *keys, size_t max) {
    t->making = false;
    t->again = NOBODY;
    uint32_t a_batch = t->low_now > t->low_usual ? t->low_now : t->low_usual;
    if (!t->seeded || a_batch == 0 || (uint32_t)t->fresh_count >= a_batch + a_batch / 4)
        return 0;
    uint64_t mean = mean_of(t), fresh = (uint64_t)t->fresh_count * mean, size = low_size(t);
    uint64_t room = size > fresh ? (size - fresh) / mean : 0;
    uint64_t want = (t->package + mean - 1) / mean;
    want = want < room ? want : room;
    want = want < max ? want : max;
    size_t n = want && t->grouping ? package_again(t, keys) : 0;
    if (n)
        return n;
    t->making = t->grouping;
    bool taken[KEYS] = {0};
    for (uint64_t tries = 16 * want; n < want;) {
        int key;
        bool apart = false; /* only one that lies in no package */
        if (t->noted_count)
            key = pop_noted(t);
        else if (t->tags && tries) {
            key = (int)larder_rng_below(&t->packing, (uint32_t)t->n);
            apart = tries-- > 8 * want;
        } else
            break;
        if (apart && t->grouping && group_with(t, key) != NOBODY)
            continue;
        if (may_come(t, key) && !taken[key]) {
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
    uint64_t substitutes, packages, hits_of_s, again, dropped;
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
    p->t.way = seed % 7 < WAYS ? (int)(seed % 7) : BY_PACKAGE;
    p->t.grouping = seed % 2;
    p->t.repack = seed % 8 == 1 ? 0.9 : 0.4;
    p->t.limit = seed % 3 ? 0 : 1 + larder_rng_below(&p->rng, 600);
    p->t.again = NOBODY;
    larder_rng_seed(&p->t.chance, seed, 0xcac4e);
    bool same = larder_rng_below(&p->rng, 2);
    for (int k = 0; k < KEYS; k++) {
        p->sizes[k] = same ? 10 : 1 + larder_rng_below(&p->rng, 24);
        p->losses[k] = NAN;
    }
    const larder_policy *policy = larder__policy_find("hilo");
    char text[128];
    larder_args args;
    snprintf(text, sizeof text, "package=%d,low=%s,scratch=%s,repack=%g,scratch_limit=%d",
             (int)p->t.package, ways[p->t.way], p->t.grouping ? "/folder" : "", p->t.repack,
             (int)p->t.limit);
    p->t.grouping &= p->t.way == BY_PACKAGE;
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
    if (want == LARDER_SUBSTITUTE && served == (uint64_t)ANYBODY) {
        assert_int_equal(p->t.where[got.key], IN_H);
        p->t.served[served = got.key] = true;
    }
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
    if (p->t.way == BY_HIGH)
        return;
    assert_int_not_equal(p->t.where[got.key], IN_H); /* L by L */
    assert_true(!p->t.tags || (p->tags[got.key] & 3) != LARDER_TAG_HIGH);
    assert_false(p->stood_in[got.key]); /* once an epoch */
    p->stood_in[got.key] = true;
}

static void compare_packages(pair *p, bool begun) {
    larder_package got = larder__cache_package(p->c), want = tied_up(&p->t, begun);
    assert_int_equal(got.number, want.number);
    assert_int_equal(got.bytes, want.bytes);
    assert_int_equal(got.again, want.again);
    p->again += got.again;
    uint64_t gone[KEYS];
    size_t n = larder__cache_dropped(p->c, gone, KEYS);
    assert_int_equal(n, p->t.gone_count);
    assert_memory_equal(gone, p->t.gone, n * sizeof *gone);
    p->t.gone_count = 0;
    p->dropped += n;
    assert_true(!p->t.limit || laid_down(&p->t) <= p->t.limit);
}

static void one_package(pair *p) {
    uint64_t got[KEYS], want[KEYS];
    bool begun = false;
    size_t n = larder__cache_fetch(p->c, got, KEYS);
    assert_int_equal(package(&p->t, want, KEYS), n);
    assert_memory_equal(got, want, n * sizeof *got);
    for (size_t i = 0; i < n; i++) {
        larder_access a = ask(p, got[i], LARDER_TAG_FETCH), b = a;
        larder__ticket t;
        check_ok(larder__cache_claim(p->c, &a, 1, &t));
        bool in = let_in(&p->t, &b);
        assert_int_equal(t.kind == LARDER_MISS, in); /* else it is not read */
        if (in && p->t.making)
            tie(&p->t, (int)b.key, b.size, &begun);
    }
    compare_packages(p, begun);
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
    uint64_t substitutes = 0, packages = 0, kept = 0, again = 0, dropped = 0;
    for (uint64_t seed = 0; seed < 1500; seed++) {
        static pair p;
        pair_open(&p, seed);
        for (uint64_t e = 0; e < EPOCHS; e++)
            one_epoch(&p, e, seed % 5 != 0);
        substitutes += p.substitutes;
        packages += p.packages;
        kept += p.hits_of_s;
        again += p.again;
        dropped += p.dropped;
        larder__cache_close(&p.c);
    }
    assert_true(substitutes > 10000 && packages > 3000 && kept > 1000); /* it all came about */
    assert_true(again > 100 && dropped > 1000);
}

/* A state saved anywhere goes on in the same way, packages included. */
static void test_resume_with_tags(void **st) {
    (void)st;
    for (uint64_t seed = 0; seed < 200; seed++) {
        static pair p, q;
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

/* A state with remembered packages, each word of it replaced: refused, or harmless. */
static void test_hostile_packages(void **st) {
    (void)st;
    static const uint32_t hostile[] = {0, 1, 79, 80, 0xfffffffe, 0xffffffff};
    static pair p, q;
    pair_open(&p, 13);
    assert_true(p.t.grouping);
    for (uint64_t e = 0; e < 4; e++)
        one_epoch(&p, e, true);
    assert_true(p.t.group_count > 2);
    larder_writer w = {0};
    larder__cache_save(p.c, &w);
    uint64_t taken = 0, refused = 0;
    for (size_t at = 0; at + 4 <= w.size; at++)
        for (size_t h = 0; h <= sizeof hostile / sizeof *hostile; h++) {
            unsigned char was[4];
            memcpy(was, w.bytes + at, 4);
            bool cut = h == sizeof hostile / sizeof *hostile;
            if (!cut)
                memcpy(w.bytes + at, &hostile[h], 4);
            larder_reader r = {.at = w.bytes, .end = w.bytes + (cut ? at : w.size)};
            pair_open(&q, 13);
            int rc = larder__cache_load(q.c, &r);
            assert_true(rc < 0 || !cut);
            larder__cache_list(q.c, p.tags);
            for (int i = 0; rc == 0 && i < 4; i++) {
                uint64_t keys[KEYS];
                larder__ticket t;
                for (uint64_t k = 0; k < p.t.n; k += 3) {
                    larder_access a = ask(&p, k, p.tags[k]);
                    check_ok(larder__cache_claim(q.c, &a, 1, &t));
                }
                for (size_t n = larder__cache_fetch(q.c, keys, KEYS); n-- > 0;) {
                    larder_access a = ask(&p, keys[n], LARDER_TAG_FETCH);
                    check_ok(larder__cache_claim(q.c, &a, 1, &t));
                }
                larder__cache_package(q.c);
                larder__cache_dropped(q.c, keys, KEYS);
                larder__cache_batch(q.c);
            }
            *(rc == 0 ? &taken : &refused) += 1;
            larder__cache_close(&q.c);
            memcpy(w.bytes + at, was, 4);
        }
    assert_true(taken > 100 && refused > 100);
    larder__writer_free(&w);
    larder__cache_close(&p.c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_side_by_side),
        cmocka_unit_test(test_resume_with_tags),
        cmocka_unit_test(test_hostile_packages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
