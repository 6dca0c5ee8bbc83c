#include "signal_suite.h"

#include "base/hash.h"
#include "base/mem.h"
#include "base/spec.h"
#include "base/state.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { N = 40, BATCH = 16, DIM = 8, CLASSES = 4, ROUNDS = 32, SORTS = 8 };

/* ---- reports --------------------------------------------------------------------------------- */

typedef struct report {
    larder_report is;
    uint64_t ids[BATCH];
    int64_t labels[BATCH];
    float loss[BATCH], logits[BATCH * CLASSES], embeddings[BATCH * DIM];
} report;

static float odd_float(uint64_t i) {
    static const float odd[] = {NAN, INFINITY, -INFINITY, -1, 0, 3e38f};
    return odd[i % 6];
}

/* Report number `round` of a run over `n` ids: with all there can be, with losses alone and some of
 * them none, with logits and labels that there are none of, with embeddings alone, with ids that
 * come twice, with one row, with none, and with nothing said. */
static const larder_report *make_report(report *r, uint64_t n, uint64_t round) {
    larder_rng rng;
    unsigned sort = (unsigned)(round % SORTS);
    bool odd = sort == 1 || sort == 3;
    larder_rng_seed(&rng, 3, round);
    size_t rows = sort == 5 ? 1 : sort == 6 ? 0 : BATCH;
    uint64_t from = larder_rng_next(&rng);
    for (size_t i = 0; i < BATCH; i++) {
        r->ids[i] = sort == 4 ? larder_rng_below(&rng, 5) % n : (from + i * 7) % n;
        r->labels[i] = (int64_t)(r->ids[i] % CLASSES);
        r->loss[i] = odd && i % 3 == 0 ? odd_float(i) : (float)larder_rng_unit(&rng) * 3;
    }
    for (size_t i = 0; i < BATCH * CLASSES; i++)
        r->logits[i] = sort == 2 && i % 5 == 0 ? odd_float(i) : (float)larder_rng_unit(&rng) * 5;
    for (size_t i = 0; i < BATCH * DIM; i++)
        r->embeddings[i] = odd && i % 31 == 0
                               ? odd_float(i)
                               : (float)(larder_rng_unit(&rng) + (double)(r->ids[i / DIM] % 4));
    if (sort == 2) {
        r->labels[1] = -1;
        r->labels[2] = CLASSES;
        r->labels[3] = INT64_MAX;
    }
    r->is = (larder_report){.batch = round,
                            .epoch = round / SORTS,
                            .n = rows,
                            .classes = CLASSES,
                            .dim = DIM,
                            .ids = r->ids,
                            .labels = r->labels,
                            .loss = sort == 2 || sort == 3 || sort == 7 ? NULL : r->loss,
                            .logits = sort == 1 || sort == 3 || sort == 7 ? NULL : r->logits,
                            .embeddings = sort == 1 || sort == 7 ? NULL : r->embeddings,
                            .accuracy = sort == 7 ? 0.5 : NAN};
    return &r->is;
}

static bool reported(const larder_report *rep, uint64_t id) {
    for (size_t i = 0; i < rep->n; i++)
        if (rep->ids[i] == id)
            return true;
    return false;
}

/* ---- one signal at work ---------------------------------------------------------------------- */

typedef struct rig {
    const larder_signal *s;
    uint64_t n;
    void *st;
    bool ready;          /* init went well */
    float *scores;       /* of n ids */
    uint64_t related;    /* hash of all that was named */
    const char *unheard; /* what was named is wrong */
} rig;

static int rig_open(rig *g, const larder_signal *s, uint64_t n, const char *text) {
    larder_args args;
    *g = (rig){.s = s, .n = n};
    g->scores = guarded_new(n * sizeof(float));
    for (uint64_t i = 0; i < n; i++)
        g->scores[i] = NAN;
    int rc = larder__args_parse(&args, "signal", &s->plugin, text, ',', NULL);
    if (rc < 0)
        return rc;
    g->st = guarded_new(s->plugin.state_size);
    rc = s->init(g->st, n, &args);
    g->ready = rc == 0;
    larder__args_free(&args);
    return rc;
}

static bool rig_close(rig *g) {
    if (g->st && g->s->fini)
        g->s->fini(g->st);
    bool state = !g->st || guarded_whole(g->st, g->s->plugin.state_size);
    bool scores = guarded_whole(g->scores, g->n * sizeof(float));
    guarded_free(g->st);
    guarded_free(g->scores);
    holds(state, "writes past its state");
    holds(scores, "writes scores of ids that there are none of");
    return true;
}

static void relate(void *arg, uint64_t key, const uint64_t *ids, size_t n) {
    rig *g = arg;
    g->related = larder__hash_bytes(g->related + 1, &key, sizeof key);
    if (key >= g->n || n > g->n) {
        g->unheard = "names a stand-in, or more of them, than there are ids";
        return;
    }
    g->related = larder__hash_bytes(g->related, ids, n * sizeof *ids);
    for (size_t i = 0; i < n; i++)
        if (ids[i] >= g->n || ids[i] == key)
            g->unheard = "lets a sample stand in for itself or for one that is none";
}

static bool apply(rig *g, const void *result) {
    g->s->apply(g->st, result, g->scores, relate, g);
    holds(!g->unheard, "%s", g->unheard);
    holds(guarded_whole(g->scores, g->n * sizeof(float)),
          "writes scores of ids that there are none of");
    return true;
}

/* The heavy half. *result is to be freed by guarded_free. */
static bool prepare(rig *g, const larder_report *rep, void **result) {
    size_t size = g->s->result_size(g->st, rep->n);
    *result = guarded_new(size);
    g->s->prepare(g->st, rep, *result);
    holds(guarded_whole(*result, size), "writes past the size of its result");
    holds(g->s->check(g->st, *result, rep->n), "refuses its own result");
    return true;
}

static bool show(const rig *g) {
    size_t count = 0;
    if (!check_figures(g->s->figures, &count))
        return false;
    for (size_t i = 0; i < count; i++)
        holds(isfinite(g->s->figure(g->st, i)), "figure %s is not finite", g->s->figures[i].name);
    return true;
}

/* One report through the signal, and an epoch's end where it is due. */
static bool tell(rig *g, const larder_report *rep) {
    bool right = true;
    if (g->s->prepare) {
        void *result;
        right = prepare(g, rep, &result) && apply(g, result);
        guarded_free(result);
    } else
        g->s->observe(g->st, rep, g->scores);
    if (g->s->epoch && rep->batch % SORTS == SORTS - 1)
        g->s->epoch(g->st, rep->epoch + 1, g->scores);
    return right && show(g);
}

static bool tell_rounds(rig *g, uint64_t from, uint64_t to) {
    report r;
    for (uint64_t i = from; i < to; i++)
        if (!tell(g, make_report(&r, g->n, i)))
            return false;
    return true;
}

/* ---- the checks ------------------------------------------------------------------------------ */

typedef struct subject {
    const larder_signal *s;
    const char *args;
} subject;

static bool check_shape(const subject *u) {
    const larder_signal *s = u->s;
    bool halves = s->prepare != NULL;
    holds(s->init, "has no init");
    holds(halves != (s->observe != NULL), "has observe and prepare, or neither");
    holds(!s->result_size == !halves && !s->apply == !halves && !s->check == !halves,
          "has some of result_size, prepare, apply and check, not all");
    holds(!halves || !s->epoch, "has epoch, which does not go with prepare");
    holds(!s->save == !s->load, "has save or load, not both");
    holds(!s->figures == !s->figure, "has figures or figure, not both");
    return check_plugin("signal", &s->plugin, ',');
}

/* Scores change where the report says something, and what is known of an id is not forgotten, but
 * by a signal that says where it cannot know. */
static bool watch(rig *g) {
    report r;
    float before[N];
    for (uint64_t i = 0; i < ROUNDS; i++) {
        const larder_report *rep = make_report(&r, g->n, i);
        bool epoch = g->s->epoch && i % SORTS == SORTS - 1; /* may write any score */
        memcpy(before, g->scores, g->n * sizeof(float));
        if (!tell(g, rep))
            return false;
        for (uint64_t id = 0; id < g->n; id++) {
            holds(epoch || reported(rep, id) || memcmp(&before[id], &g->scores[id], 4) == 0,
                  "changes the score of an id that was not reported");
            holds(isnan(before[id]) || !isnan(g->scores[id]) || g->s->without_logits,
                  "forgets a score");
        }
    }
    return true;
}

static bool check_scores(const subject *u) {
    static const uint64_t sizes[] = {N, 1};
    for (size_t i = 0; i < 2; i++) {
        rig g;
        int rc = rig_open(&g, u->s, sizes[i], u->args);
        bool right = rc == 0 ? watch(&g) : wrong("cannot be opened: %s", larder_errmsg());
        if (!rig_close(&g) || !right)
            return false;
    }
    return true;
}

static bool same(const rig *a, const rig *b) {
    return a->related == b->related && memcmp(a->scores, b->scores, a->n * sizeof(float)) == 0;
}

/* Twice the same; and the light half works from the result, on a state that nothing was told. */
static bool repeat(rig *a, rig *b, rig *bare) {
    report r;
    for (uint64_t i = 0; i < ROUNDS; i++) {
        const larder_report *rep = make_report(&r, N, i);
        if (!tell(a, rep))
            return false;
        if (!a->s->prepare) {
            if (!tell(b, rep))
                return false;
        } else {
            void *result;
            bool right = prepare(b, rep, &result) && apply(b, result) && apply(bare, result);
            guarded_free(result);
            if (!right)
                return false;
            holds(same(b, bare), "applies more than what its result says");
        }
        holds(same(a, b), "makes other scores of the same reports");
    }
    return true;
}

static bool check_repeats(const subject *u) {
    rig a, b, bare;
    bool open = rig_open(&a, u->s, N, u->args) == 0;
    open &= rig_open(&b, u->s, N, u->args) == 0;
    open &= rig_open(&bare, u->s, N, u->args) == 0;
    bool right = open && repeat(&a, &b, &bare);
    return rig_close(&a) && rig_close(&b) && rig_close(&bare) && right;
}

/* Goes on in `b` where `a` is, from what was saved and the scores. */
static bool restore(const rig *a, rig *b) {
    larder_writer w = {0}, v = {0};
    memcpy(b->scores, a->scores, N * sizeof(float));
    b->related = a->related;
    if (!a->s->save)
        return true;
    a->s->save(a->st, &w);
    larder_reader r = {.at = w.bytes, .end = w.bytes + w.size};
    int rc = b->s->load(b->st, &r);
    size_t left = larder__read_left(&r);
    if (rc == 0)
        b->s->save(b->st, &v);
    bool equal = v.size == w.size && memcmp(v.bytes, w.bytes, w.size) == 0;
    larder__writer_free(&w);
    larder__writer_free(&v);
    holds(rc == 0, "refuses what it has saved: %s", larder_errmsg());
    holds(left == 0, "leaves %zu bytes of what it has saved", left);
    holds(equal, "saves something else than what it was loaded from");
    return true;
}

static bool check_saved(const subject *u) {
    static const uint64_t cuts[] = {0, 1, 5, 12, 19};
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
        rig a, b;
        bool right = rig_open(&a, u->s, N, u->args) == 0;
        right &= rig_open(&b, u->s, N, u->args) == 0;
        right = right && tell_rounds(&a, 0, cuts[i]) && restore(&a, &b) &&
                tell_rounds(&a, cuts[i], ROUNDS) && tell_rounds(&b, cuts[i], ROUNDS) &&
                (same(&a, &b) || wrong("goes on from a saved state to other scores"));
        if (!rig_close(&a) || !rig_close(&b) || !right)
            return false;
    }
    return true;
}

/* Some bytes as a saved state: taken, and then harmless, or refused. */
static bool load_bytes(const subject *u, const unsigned char *bytes, size_t size, bool cut) {
    rig g;
    larder_reader r = {.at = bytes, .end = bytes + size};
    bool right = rig_open(&g, u->s, N, u->args) == 0;
    forget();
    int rc = right ? u->s->load(g.st, &r) : 0;
    if (right && rc == 0)
        right = cut ? wrong("takes a saved state that was cut short") : tell_rounds(&g, 0, 5);
    else if (right)
        right = told() || wrong("refuses a saved state without a sentence");
    return rig_close(&g) && right;
}

static bool check_mangled_state(const subject *u) {
    static const uint32_t hostile[] = {0, 1, N, 0x7fffffff, 0xffffffff};
    rig g;
    larder_writer w = {0};
    if (!u->s->save)
        return true;
    bool right = rig_open(&g, u->s, N, u->args) == 0 && tell_rounds(&g, 0, 12);
    if (right)
        u->s->save(g.st, &w);
    right = rig_close(&g) && right;
    size_t step = 1 + w.size / 400;
    for (size_t at = 0; right && at < w.size; at += step)
        right = load_bytes(u, w.bytes, at, true);
    for (size_t at = 0; right && at + 4 <= w.size; at += step)
        for (size_t h = 0; right && h < sizeof hostile / sizeof *hostile; h++) {
            unsigned char was[4];
            memcpy(was, w.bytes + at, 4);
            memcpy(w.bytes + at, &hostile[h], 4);
            right = load_bytes(u, w.bytes, w.size, false);
            memcpy(w.bytes + at, was, 4);
        }
    larder__writer_free(&w);
    return right;
}

/* Results as they come from a saved state: whatever `check` lets pass must be harmless. */
static bool mangle(rig *g, unsigned char *result, size_t rows) {
    static const uint32_t hostile[] = {0, 1, N, N + 7, 0x7fc00000, 0x7fffffff, 0xffffffff};
    size_t size = g->s->result_size(g->st, rows), step = 1 + size / 1500;
    for (size_t at = 0; at + 4 <= size; at += step)
        for (size_t h = 0; h < sizeof hostile / sizeof *hostile; h++) {
            unsigned char was[4];
            memcpy(was, result + at, 4);
            memcpy(result + at, &hostile[h], 4);
            bool right = !g->s->check(g->st, result, rows) || apply(g, result);
            memcpy(result + at, was, 4);
            if (!right)
                return false;
        }
    return true;
}

static bool check_mangled_results(const subject *u) {
    rig g;
    report r;
    void *result = NULL;
    if (!u->s->prepare)
        return true;
    bool right = rig_open(&g, u->s, N, u->args) == 0 && tell_rounds(&g, 0, SORTS);
    const larder_report *rep = make_report(&r, N, SORTS);
    right = right && prepare(&g, rep, &result) && mangle(&g, result, rep->n);
    guarded_free(result);
    if (right) {
        result = guarded_new(g.s->result_size(g.st, BATCH)); /* nothing was prepared */
        right = (g.s->check(g.st, result, BATCH) && apply(&g, result)) ||
                wrong("refuses a result that was not prepared");
        guarded_free(result);
    }
    return rig_close(&g) && right;
}

/* Everything once, with memory that may run out at any place. */
static bool walk(void *arg) {
    const subject *u = arg;
    rig g;
    forget();
    int rc = rig_open(&g, u->s, N, u->args);
    bool right = rc == 0 || told() || wrong("fails without a sentence when memory runs out");
    if (rc == 0)
        right = watch(&g);
    larder_writer w = {0};
    if (rc == 0 && right && u->s->save) {
        u->s->save(g.st, &w);
        larder_reader r = {.at = w.bytes, .end = w.bytes + w.size};
        forget();
        if (w.code == 0 && u->s->load(g.st, &r) < 0)
            right = told() || wrong("fails without a sentence when memory runs out");
    }
    larder__writer_free(&w);
    return rig_close(&g) && right;
}

bool signal_suite(const larder_signal *s, const char *args) {
    subject u = {s, args};
    return check_shape(&u) && check_scores(&u) && check_repeats(&u) && check_saved(&u) &&
           check_mangled_state(&u) && check_mangled_results(&u) && check_memory(walk, &u, false);
}
