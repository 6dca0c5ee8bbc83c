/* The sampler blocks over the policy served against a slow twin: lists that are searched from the
 * front, bytes that are added up anew each time, no bitmaps, no cursors. Compared after every
 * batch: ids, how each came, what was brought in, and who is resident. Sizes differ, files end
 * inside blocks, and windows are as small as they may be or hold everything. */
#include "check.h"

#include "base/hash.h"
#include "loader/draw/draw.h"
#include "sample/permute.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 400, AT_ONCE = 4096 };

typedef struct line { /* ids, in an order that means something */
    uint32_t at[MOST];
    size_t n;
} line;

typedef struct twin {
    uint64_t n, batch, seed, budget, block, epochs, file;
    line blocks[MOST]; /* of ids */
    size_t count;
    uint64_t epoch;
    line pool, later;   /* of this epoch and of the next, not drawn yet */
    size_t taken, next; /* blocks of both epochs that came in */
    line waits, done;   /* residents: brought in and not served; served, longest ago first */
    line brought[2];    /* with this batch, of this epoch and of the next */
    larder_rng rng;
} twin;

static uint64_t sizes_of; /* 0: all alike */

static uint32_t size_of(void *arg, uint64_t id) {
    (void)arg;
    return sizes_of ? 50 + (uint32_t)(larder__mix64(id ^ sizes_of) % 100) : 100;
}

static int file_of(void *arg, uint64_t id, uint64_t *out) {
    *out = id / *(const uint64_t *)arg;
    return 0;
}

/* ---- lists ----------------------------------------------------------------------------------- */

static void add(line *l, uint64_t id) { l->at[l->n++] = (uint32_t)id; }

static bool has(const line *l, uint64_t id) {
    for (size_t i = 0; i < l->n; i++)
        if (l->at[i] == id)
            return true;
    return false;
}

static void drop(line *l, uint64_t id) {
    for (size_t i = 0; i < l->n; i++)
        if (l->at[i] == id) {
            memmove(l->at + i, l->at + i + 1, (--l->n - i) * sizeof *l->at);
            return;
        }
}

static uint64_t bytes(const line *l) {
    uint64_t sum = 0;
    for (size_t i = 0; i < l->n; i++)
        sum += size_of(NULL, l->at[i]);
    return sum;
}

/* ---- the window ------------------------------------------------------------------------------ */

static bool same_file(const twin *t, const line *a, uint64_t id) {
    return a->at[0] / t->file == id / t->file;
}

/* As long as they must be; then short ones go with the one before in their file. */
static void cut_blocks(twin *t) {
    t->count = 0;
    for (uint64_t id = 0; id < t->n; id++) {
        const line *last = t->count ? &t->blocks[t->count - 1] : NULL;
        if (!last || bytes(last) >= t->block || !same_file(t, last, id))
            t->blocks[t->count++].n = 0;
        add(&t->blocks[t->count - 1], id);
    }
    for (size_t i = t->count - 1; i > 0; i--) {
        line *b = &t->blocks[i], *before = &t->blocks[i - 1];
        if (bytes(b) >= t->block || !same_file(t, before, b->at[0]))
            continue;
        for (size_t k = 0; k < b->n; k++)
            add(before, b->at[k]);
        memmove(b, b + 1, (--t->count - i) * sizeof *b);
    }
}

static size_t longest(const twin *t) {
    size_t most = 0;
    for (size_t i = 0; i < t->count; i++)
        most = t->blocks[i].n > most ? t->blocks[i].n : most;
    return most;
}

static bool room_for(const twin *t, const line *b) {
    uint64_t held = bytes(&t->pool) + bytes(&t->later);
    return t->brought[0].n + t->brought[1].n + longest(t) <= AT_ONCE &&
           (!held || held + bytes(b) <= t->budget);
}

/* The blocks of an epoch from `*from` on, as far as they fit. */
static void come_in(twin *t, uint64_t epoch, size_t *from, line *pool) {
    uint32_t order[MOST];
    larder__permute(order, (uint32_t)t->count, t->seed ^ 0xb10c, epoch);
    for (; *from < t->count && room_for(t, &t->blocks[order[*from]]); ++*from)
        for (size_t i = 0; i < t->blocks[order[*from]].n; i++) {
            add(pool, t->blocks[order[*from]].at[i]);
            add(&t->brought[epoch != t->epoch], t->blocks[order[*from]].at[i]);
        }
}

static void begin_epoch(twin *t, uint64_t epoch) {
    t->epoch = epoch;
    t->pool = t->later;
    t->later.n = 0;
    t->taken = epoch ? t->next : 0;
    t->next = 0;
    larder_rng_seed(&t->rng, t->seed, 0x10ff0000u + epoch);
}

static uint64_t draw_one(twin *t) {
    if (t->pool.n == 0)
        come_in(t, t->epoch, &t->taken, &t->pool);
    uint32_t j = larder_rng_below(&t->rng, (uint32_t)t->pool.n);
    uint64_t id = t->pool.at[j];
    t->pool.at[j] = t->pool.at[--t->pool.n];
    return id;
}

/* ---- the cache ------------------------------------------------------------------------------- */

/* Who was served longest ago leaves, or for one that is brought, who came first. */
static bool make_room(twin *t, uint64_t id, bool fetched) {
    while (bytes(&t->waits) + bytes(&t->done) + size_of(NULL, id) > t->budget) {
        line *from = t->done.n ? &t->done : fetched ? &t->waits : NULL;
        if (!from || !from->n)
            return false;
        drop(from, from->at[0]);
    }
    return true;
}

static larder_kind ask(twin *t, uint64_t id, bool stays, bool fetched) {
    bool there = has(&t->waits, id) || has(&t->done, id);
    drop(&t->waits, id);
    drop(&t->done, id);
    if (there || make_room(t, id, fetched))
        add(stays ? &t->waits : &t->done, id);
    return there ? LARDER_HIT : LARDER_MISS;
}

/* ---- both ------------------------------------------------------------------------------------ */

static void check_residents(const twin *t, larder__draw *d) {
    const larder_slots *s = larder__cache_slots(larder__draw_cache(d));
    assert_true(s->bytes <= s->budget);
    assert_int_equal(s->resident, t->waits.n + t->done.n);
    for (uint64_t id = 0; id < t->n; id++)
        assert_int_equal(s->slot_of[id] != LARDER_NO_SLOT, has(&t->waits, id) || has(&t->done, id));
}

static size_t check_some(twin *t, const larder__planned *p, line *brought, const line *pool,
                         size_t n) {
    for (size_t i = 0; i < brought->n; i++) {
        uint64_t id = brought->at[i];
        if (!has(pool, id)) /* drawn with this very batch */
            continue;
        assert_true(n < p->fetched);
        assert_int_equal(p->accesses[p->n + n].key, id);
        assert_int_equal(p->tickets[p->n + n].kind, ask(t, id, true, true));
        n++;
    }
    brought->n = 0;
    return n;
}

static void check_brought(twin *t, const larder__planned *p) {
    size_t n = check_some(t, p, &t->brought[0], &t->pool, 0);
    assert_int_equal(check_some(t, p, &t->brought[1], &t->later, n), p->fetched);
}

static void check_batch(twin *t, larder__draw *d, larder__planned *p) {
    check_ok(larder__draw_next(d, p));
    if (p->first)
        begin_epoch(t, p->epoch);
    uint64_t ids[MOST];
    for (size_t i = 0; i < p->n; i++)
        assert_int_equal(p->ids[i], ids[i] = draw_one(t));
    for (size_t i = 0; i < p->n; i++)
        assert_int_equal(p->tickets[i].kind, ask(t, ids[i], has(&t->later, ids[i]), false));
    come_in(t, t->epoch, &t->taken, &t->pool);
    if (t->taken == t->count && t->epoch + 1 < t->epochs)
        come_in(t, t->epoch + 1, &t->next, &t->later);
    check_brought(t, p);
    check_residents(t, d);
}

static void compare(uint64_t seed) {
    static twin t;
    static larder__planned p;
    larder_rng r;
    larder_rng_seed(&r, seed, 0x7e57);
    sizes_of = larder_rng_below(&r, 2) ? seed + 1 : 0;
    t = (twin){.n = 20 + larder_rng_below(&r, 280),
               .batch = 1 + larder_rng_below(&r, 20),
               .seed = seed,
               .block = 100 + larder_rng_below(&r, 1500),
               .epochs = 4,
               .file = 5 + larder_rng_below(&r, 300)};
    cut_blocks(&t);
    uint64_t most = 0, payload = 0;
    for (size_t i = 0; i < t.count; i++) {
        most = bytes(&t.blocks[i]) > most ? bytes(&t.blocks[i]) : most;
        payload += bytes(&t.blocks[i]);
    }
    t.budget = 2 * most + larder_rng_below(&r, (uint32_t)payload);
    t.budget = t.budget < payload ? t.budget : payload;
    char recipe[64], cache[32];
    snprintf(recipe, sizeof recipe, "stream:block=%llu", (unsigned long long)t.block);
    snprintf(cache, sizeof cache, "%.17g%%", 100 * (double)t.budget / (double)payload);
    larder__cache_text text;
    check_ok(larder__cache_text_parse(&text, cache, ""));
    larder__draw_conf c = {.recipe = recipe,
                           .cache = &text,
                           .store = &larder__store_null,
                           .n = t.n,
                           .payload = payload,
                           .size_of = size_of,
                           .file_of = file_of,
                           .file_arg = &t.file,
                           .batch = t.batch,
                           .seed = seed,
                           .epochs = t.epochs,
                           .world = 1,
                           .lag = 3};
    larder__draw *d;
    check_ok(larder__draw_open(&d, &c));
    check_ok(larder__planned_open(&p, d));
    t.budget = larder__cache_slots(larder__draw_cache(d))->budget;
    while (larder__draw_epoch(d) < t.epochs)
        check_batch(&t, d, &p);
    larder__planned_close(&p);
    larder__draw_close(&d);
}

static void blocks_do_as_their_twin(void **state) {
    (void)state;
    int runs = getenv("LARDER_LONG") ? 2000 : 150;
    for (int i = 0; i < runs; i++)
        compare((uint64_t)i * 7919);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(blocks_do_as_their_twin)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
