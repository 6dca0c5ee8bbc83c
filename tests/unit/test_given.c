/* The signal `given`: scores and hubs that were worked out elsewhere and come as embeddings. What
 * makes no sense among them is left out, whatever it is; through a loader they act as those of
 * `graph` do, and a saved run goes on with them. */
#include "base/spec.h"
#include "loader_kit.h"
#include "plugins.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { N = 40, LIST = 4, HUBS = 3, ROWS = 10, WORDS = HUBS * (2 + LIST) };

typedef struct told {
    const larder_signal *s;
    void *st;
    float scores[N];
    size_t hubs;
    uint64_t key[64], count[64], first[64];
} told;

static void told_open(told *t, const char *spec) {
    *t = (told){.s = larder__signal_find("given")};
    assert_non_null(t->s);
    t->st = calloc(1, t->s->plugin.state_size);
    assert_non_null(t->st);
    larder_args args;
    check_ok(larder__args_parse(&args, "signal", &t->s->plugin, spec, ',', NULL));
    check_ok(t->s->init(t->st, N, &args));
    larder__args_free(&args);
    for (size_t i = 0; i < N; i++)
        t->scores[i] = NAN;
}

static void note(void *arg, uint64_t key, const uint64_t *ids, size_t n) {
    told *t = arg;
    t->key[t->hubs] = key;
    t->count[t->hubs] = n;
    t->first[t->hubs++] = ids[0];
    for (size_t i = 0; i < n; i++)
        assert_true(ids[i] < N && ids[i] != key);
}

static void tell(told *t, const larder_report *rep) {
    void *result = calloc(1, t->s->result_size(t->st, rep->n));
    assert_non_null(result);
    t->s->prepare(t->st, rep, result);
    assert_true(t->s->check(t->st, result, rep->n));
    t->hubs = 0;
    t->s->apply(t->st, result, t->scores, note, t);
    free(result);
}

/* A report of ROWS samples: a score each, and behind it words of hubs, row after row. */
typedef struct sheet {
    uint64_t ids[ROWS];
    float x[ROWS * 3]; /* (3 - 1) x ROWS words are enough for HUBS hubs */
    larder_report rep;
} sheet;

static void sheet_make(sheet *s, const uint32_t *words, size_t count) {
    size_t dim = 3;
    assert_true(count <= ROWS * (dim - 1));
    *s = (sheet){0};
    for (size_t i = 0; i < ROWS; i++) {
        s->ids[i] = 3 * i;
        s->x[i * dim] = (float)i / 10;
    }
    for (size_t i = 0; i < count; i++)
        memcpy(&s->x[i / (dim - 1) * dim + 1 + i % (dim - 1)], &words[i], sizeof *words);
    s->rep =
        (larder_report){.n = ROWS, .dim = dim, .ids = s->ids, .embeddings = s->x, .accuracy = NAN};
}

static void scores_and_hubs(void **state) {
    (void)state;
    told t;
    sheet s;
    const uint32_t words[WORDS] = {7, 2, 1, 2, 0, 0, 9, 0, 1, 2, 3, 4, 11, 4, 5, 6, 8, 39};
    told_open(&t, "hubs=3,list=4");
    sheet_make(&s, words, WORDS);
    tell(&t, &s.rep);
    for (size_t i = 0; i < N; i++) {
        size_t row = i / 3;
        if (i % 3 == 0 && row < ROWS)
            assert_true(t.scores[i] == (float)row / 10);
        else
            assert_true(isnan(t.scores[i]));
    }
    assert_int_equal(t.hubs, 2); /* the one in the middle stands in for nobody */
    assert_int_equal(t.key[0], 7);
    assert_int_equal(t.count[0], 2);
    assert_int_equal(t.first[0], 1);
    assert_int_equal(t.key[1], 11);
    assert_int_equal(t.count[1], 4);
    free(t.st);
}

static void nonsense_is_left_out(void **state) {
    (void)state;
    static const uint32_t bad[][WORDS] = {
        {N, 1, 1},                                        /* no such sample */
        {UINT32_MAX, 1, 1},                               /* the same */
        {7, LIST + 1, 1, 2, 3},                           /* longer than a list may be */
        {7, UINT32_MAX, 1},                               /* the same */
        {7, 2, 1, N},                                     /* stands in for one there is not */
        {7, 2, 1, 7},                                     /* or for itself */
        {0x7fc00000, 0x7fc00000, 0x7f800000, 0xff800000}, /* numbers that are none */
    };
    told t;
    sheet s;
    told_open(&t, "hubs=3,list=4");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        sheet_make(&s, bad[i], WORDS);
        tell(&t, &s.rep);
        assert_int_equal(t.hubs, 0);
    }
    sheet_make(&s, bad[0], WORDS);
    const float odd[] = {NAN, INFINITY, -INFINITY, -1, -0.0f};
    for (size_t i = 0; i < 5; i++)
        s.x[i * 3] = odd[i];
    s.ids[6] = N; /* and ids that are none */
    s.ids[7] = UINT64_MAX;
    for (size_t i = 0; i < N; i++)
        t.scores[i] = NAN;
    tell(&t, &s.rep);
    for (size_t i = 0; i < 4; i++)
        assert_true(isnan(t.scores[3 * i]));
    assert_true(t.scores[12] == 0 && t.scores[15] == 0.5f && isnan(t.scores[18]));
    free(t.st);
}

static void reports_of_any_width(void **state) {
    (void)state;
    told t;
    sheet s;
    const uint32_t words[WORDS] = {7, 1, 1, 0, 0, 0, 9, 1, 2, 0, 0, 0, 11, 1, 3};
    told_open(&t, "hubs=3,list=4");
    sheet_make(&s, words, WORDS);
    s.rep.embeddings = NULL; /* losses alone, for example */
    tell(&t, &s.rep);
    assert_true(isnan(t.scores[0]) && t.hubs == 0);
    s.rep.embeddings = s.x;
    s.rep.dim = 1; /* scores without hubs; rows lie closer then */
    tell(&t, &s.rep);
    assert_true(t.scores[0] == 0 && t.hubs == 0);
    sheet_make(&s, words, WORDS);
    s.rep.n = 3; /* six words: one hub, the rest is cut off */
    tell(&t, &s.rep);
    assert_int_equal(t.hubs, 1);
    s.rep.n = 2; /* not even one */
    tell(&t, &s.rep);
    assert_int_equal(t.hubs, 0);
    s.rep.n = 0;
    tell(&t, &s.rep);
    free(t.st);
    told_open(&t, "hubs=0,list=4"); /* who wants none gets none */
    sheet_make(&s, words, WORDS);
    tell(&t, &s.rep);
    assert_int_equal(t.hubs, 0);
    free(t.st);
}

/* ---- through a loader ------------------------------------------------------------------------ */

enum { BATCH = 16, WIDE = 1 + 8, SAMPLES = 320 };
#define SOURCE "mem:?n=320&h=8&w=8&c=3&classes=4"

static larder_loader *open_loader(void) {
    larder_loader_conf c =
        kit_conf(SOURCE, "spider:signal=given,scoring=wait,hubs=4,list=30,ratio=0.5");
    c.batch = BATCH;
    c.prefetch = 2;
    c.lag = 5;
    c.cache = "20%";
    larder_loader *l = NULL;
    check_ok(larder_loader_open(&l, &c));
    return l;
}

/* A score by id, and the first row of the batch as a hub for others of its class. */
static void report(larder_loader *l, const larder_batch *b) {
    static float x[BATCH * WIDE];
    memset(x, 0, sizeof x);
    uint32_t words[32] = {(uint32_t)b->served[0], 0};
    uint64_t class = b->served[0] % 4;
    for (uint64_t id = class; id < SAMPLES && words[1] < 30; id += 4)
        if (id != b->served[0])
            words[2 + words[1]++] = (uint32_t)id;
    for (size_t i = 0; i < b->n; i++)
        x[i * WIDE] = (float)(b->served[i] * 7 % 11) / 10;
    for (size_t i = 0; i < 32 && i < b->n * (WIDE - 1); i++)
        memcpy(&x[i / (WIDE - 1) * WIDE + 1 + i % (WIDE - 1)], &words[i], sizeof *words);
    check_ok(larder_loader_report(
        l, b, &(larder_feedback){.size = sizeof(larder_feedback), .embeddings = x, .dim = WIDE}));
}

static size_t run(larder_loader *l, size_t batches, uint64_t *served) {
    size_t count = 0;
    for (size_t k = 0; k < batches;) {
        const larder_batch *b;
        int rc = larder_loader_next(l, &b);
        check_ok(rc);
        if (rc == LARDER_END_EPOCH)
            continue;
        for (size_t i = 0; i < b->n; i++)
            served[count++] = b->served[i];
        report(l, b);
        check_ok(larder_loader_done(l, b));
        k++;
    }
    return count;
}

static void acts_in_a_loader(void **state) {
    (void)state;
    static uint64_t all[80 * BATCH], rest[80 * BATCH];
    larder_loader *l = open_loader();
    size_t count = run(l, 45, all);
    void *bytes;
    size_t size;
    check_ok(larder_loader_save(l, LARDER_STATE, &bytes, &size));
    size_t more = run(l, 30, all + count);
    larder_figures f = {.size = sizeof f};
    check_ok(larder_loader_figures(l, 2, &f));
    assert_true(f.substitutes > 0 && f.hits > 0);
    larder_loader_close(&l);
    l = open_loader();
    check_ok(larder_loader_restore(l, LARDER_STATE, bytes, size));
    larder_free(bytes);
    assert_int_equal(run(l, 30, rest), more);
    assert_memory_equal(rest, all + count, more * sizeof *rest);
    larder_loader_close(&l);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scores_and_hubs),
        cmocka_unit_test(nonsense_is_left_out),
        cmocka_unit_test(reports_of_any_width),
        cmocka_unit_test(acts_in_a_loader),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
