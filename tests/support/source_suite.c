#include "source_suite.h"

#include "base/hash.h"
#include "base/mem.h"
#include "base/spec.h"
#include "source/source.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 64, THREADS = 4 };

typedef struct rig { /* one opened source */
    const source_case *c;
    const larder_source *s;
    void *st;
    bool opened; /* open was called: close has to be */
    larder_dataset about;
    larder_read reads[2 * MOST];
} rig;

static int rig_open(rig *g, const source_case *c, const char *where, const char *text) {
    const larder_param *const every[] = {larder__source_params, NULL};
    larder_args args;
    *g = (rig){.c = c, .s = c->source};
    int rc = larder__args_parse(&args, "source", &g->s->plugin, text, g->s->wraps ? ',' : '&',
                                g->s->wraps ? NULL : every);
    if (rc < 0)
        return rc;
    g->st = guarded_new(g->s->plugin.state_size);
    g->opened = true;
    rc = g->s->open(g->st, where, &args);
    larder__args_free(&args);
    if (rc == 0 && g->s->choose)
        rc = g->s->choose(g->st, NULL, 0);
    return rc < 0 ? rc : g->s->describe(g->st, &g->about);
}

static void let_go(rig *g) {
    for (size_t i = 0; i < 2 * MOST; i++)
        larder_buf_unref(&g->reads[i].buf);
}

/* False: its state was not big enough for it. */
static bool rig_close(rig *g) {
    let_go(g);
    if (g->opened)
        g->s->close(g->st);
    bool whole = !g->st || guarded_whole(g->st, g->s->plugin.state_size);
    guarded_free(g->st);
    *g = (rig){0};
    holds(whole, "writes past its state");
    return true;
}

static uint64_t hash_of(larder_buf *b) {
    return larder__hash_bytes(1, larder_buf_data(b), larder_buf_size(b));
}

/* ---- what it says ---------------------------------------------------------------------------- */

static bool check_shape(rig *g) {
    const larder_source *s = g->s;
    holds(s->open && s->close && s->describe && s->stat && s->name && s->read,
          "lacks one of open, close, describe, stat, name and read");
    holds(!s->extent == !s->read_parts && !s->part_bytes == !s->read_parts,
          "has some of extent, part_bytes and read_parts, not all");
    holds(!s->figures == !s->figure, "has figures or figure, not both");
    holds(!g->about.parts || s->read_parts, "says that parts can be read, and has no read_parts");
    return true;
}

static bool check_counts(rig *g) {
    uint64_t bytes = 0;
    const larder_shape raw = g->about.raw;
    holds(g->about.count == g->c->count, "says %llu samples where %llu are",
          (unsigned long long)g->about.count, (unsigned long long)g->c->count);
    for (uint64_t id = 0; id < g->about.count; id++) {
        larder_sample a = {.label = -2}, b = {.label = -2};
        holds(g->s->stat(g->st, id, &a) == 0, "stat of sample %d fails: %s", (int)id,
              larder_errmsg());
        g->s->stat(g->st, id, &b);
        holds(a.bytes == b.bytes && a.label == b.label, "two stats of sample %d differ", (int)id);
        holds(a.label >= -1, "sample %d has the label %d", (int)id, (int)a.label);
        holds(g->about.classes == 0 || a.label < (int64_t)g->about.classes,
              "sample %d has the label %d of %u classes", (int)id, (int)a.label, g->about.classes);
        holds(raw.h == 0 || a.bytes == raw.h * raw.w * raw.c,
              "sample %d has %u bytes, its pixels %u", (int)id, a.bytes, raw.h * raw.w * raw.c);
        bytes += a.bytes;
    }
    holds(bytes == g->about.bytes, "says %llu bytes in all, its samples have %llu",
          (unsigned long long)g->about.bytes, (unsigned long long)bytes);
    return true;
}

static bool check_names(rig *g) {
    static const size_t caps[] = {1, 2, 7, 300};
    static char names[MOST][300];
    for (uint64_t id = 0; id < g->about.count; id++)
        for (size_t i = 0; i < 4; i++) {
            char *out = guarded_new(caps[i]);
            memset(out, 'x', caps[i]);
            int rc = g->s->name(g->st, id, out, caps[i]);
            bool ends = memchr(out, 0, caps[i]) != NULL, whole = guarded_whole(out, caps[i]);
            if (rc == 0 && ends)
                memcpy(names[id], out, caps[i]);
            guarded_free(out);
            holds(rc == 0, "name of sample %d fails: %s", (int)id, larder_errmsg());
            holds(ends && whole, "name of sample %d goes past %zu letters", (int)id, caps[i]);
        }
    for (uint64_t id = 0; id < g->about.count; id++) {
        holds(names[id][0], "sample %d has no name", (int)id);
        for (uint64_t k = 0; k < id; k++)
            holds(strcmp(names[k], names[id]) != 0, "samples %d and %d have one name", (int)k,
                  (int)id);
    }
    if (!g->s->class_name)
        return true;
    for (uint32_t k = 0; k < g->about.classes; k++) {
        const char *name = g->s->class_name(g->st, k);
        holds(!name || name[0], "class %u has an empty name", k);
    }
    holds(!g->s->class_name(g->st, g->about.classes) && !g->s->class_name(g->st, UINT32_MAX),
          "names classes that there are none of");
    return true;
}

static bool check_notes(rig *g) {
    enum { NOTES = 1000 };
    size_t count = 0;
    for (size_t i = 0; g->s->note; i++) {
        const char *says = g->s->note(g->st, i);
        if (!says)
            break;
        holds(says[0], "note %zu is empty", i);
        holds(i < NOTES, "its notes do not end");
    }
    if (!g->s->figures)
        return true;
    const larder_figure *f = g->s->figures(g->st);
    if (!check_figures(f, &count))
        return false;
    for (size_t i = 0; i < count; i++)
        holds(isfinite(g->s->figure(g->st, i)), "figure %s is not finite", f[i].name);
    return true;
}

/* ---- what it reads --------------------------------------------------------------------------- */

/* Is this the whole sample? `hash` 0: any bytes are right, and are noted there. */
static bool right_read(rig *g, uint64_t id, larder_read *r, uint64_t *hash) {
    larder_sample s = {0};
    g->s->stat(g->st, id, &s);
    holds(r->code == 0, "sample %d cannot be read: %s", (int)id, r->why);
    holds(r->buf, "sample %d: neither bytes nor a code", (int)id);
    holds(larder_buf_size(r->buf) == s.bytes, "sample %d has %u bytes by stat, %zu as it is read",
          (int)id, s.bytes, larder_buf_size(r->buf));
    holds(*hash == 0 || *hash == hash_of(r->buf), "sample %d has other bytes on another read",
          (int)id);
    *hash = hash_of(r->buf);
    return true;
}

static void poison(larder_read *r, size_t n) {
    memset(r, 0x5a, n * sizeof *r);
    for (size_t i = 0; i < n; i++)
        r[i].buf = NULL;
}

/* One by one, then all of them twice over in one call, backwards. */
static bool check_reads(rig *g) {
    uint64_t hash[MOST] = {0}, ids[2 * MOST];
    size_t n = (size_t)g->about.count;
    for (uint64_t id = 0; id < n; id++) {
        poison(g->reads, 1);
        holds(g->s->read(g->st, &id, 1, g->reads) == 0, "a read fails: %s", larder_errmsg());
        bool right = right_read(g, id, g->reads, &hash[id]);
        let_go(g);
        if (!right)
            return false;
    }
    for (size_t i = 0; i < 2 * n; i++)
        ids[i] = n - 1 - i % n;
    poison(g->reads, 2 * n);
    holds(g->s->read(g->st, ids, 2 * n, g->reads) == 0, "a joint read fails: %s", larder_errmsg());
    for (size_t i = 0; i < 2 * n; i++)
        if (!right_read(g, ids[i], &g->reads[i], &hash[ids[i]]))
            return false;
    let_go(g);
    return g->s->read(g->st, ids, 0, g->reads) == 0 || wrong("a read of nothing fails");
}

typedef struct reader {
    rig *g;
    uint64_t step, hash[MOST];
    bool right;
} reader;

static void *read_beside(void *arg) {
    reader *r = arg;
    size_t n = (size_t)r->g->about.count;
    uint64_t ids[MOST];
    larder_read out[MOST];
    for (int round = 0; round < 4 && r->right; round++) {
        for (size_t i = 0; i < n; i++)
            ids[i] = (i + r->step * (uint64_t)(round + 1)) % n;
        poison(out, n);
        r->right = r->g->s->read(r->g->st, ids, n, out) == 0;
        for (size_t i = 0; i < n; i++) {
            r->right &= out[i].buf && out[i].code == 0 &&
                        (round == 0 || r->hash[ids[i]] == hash_of(out[i].buf));
            r->hash[ids[i]] = out[i].buf ? hash_of(out[i].buf) : 0;
            larder_buf_unref(&out[i].buf);
        }
    }
    return NULL;
}

static bool check_threads(rig *g) {
    pthread_t threads[THREADS];
    static reader all[THREADS + 1];
    for (uint64_t t = 0; t <= THREADS; t++)
        all[t] = (reader){.g = g, .step = t, .right = true};
    for (size_t t = 0; t < THREADS; t++)
        assert_int_equal(pthread_create(&threads[t], NULL, read_beside, &all[t]), 0);
    for (size_t t = 0; t < THREADS; t++)
        pthread_join(threads[t], NULL);
    read_beside(&all[THREADS]);
    for (size_t t = 0; t <= THREADS; t++)
        holds(all[t].right && memcmp(all[t].hash, all[0].hash, sizeof all[t].hash) == 0,
              "threads that read at once get other bytes");
    return true;
}

/* Reads around an interruption are whole, or cancelled and nothing else. */
static bool check_interrupt(rig *g) {
    pthread_t thread;
    static reader beside;
    beside = (reader){.g = g, .right = true};
    if (!g->s->interrupt)
        return true;
    assert_int_equal(pthread_create(&thread, NULL, read_beside, &beside), 0);
    g->s->interrupt(g->st);
    g->s->interrupt(g->st);
    pthread_join(thread, NULL);
    uint64_t ids[MOST];
    size_t n = (size_t)g->about.count;
    for (size_t i = 0; i < n; i++)
        ids[i] = i;
    poison(g->reads, n);
    forget();
    int rc = g->s->read(g->st, ids, n, g->reads);
    holds(rc == 0 || (rc == LARDER_E_CANCELLED && told()),
          "a read after interrupt ends with %d, not E_CANCELLED and a sentence", rc);
    for (size_t i = 0; i < n; i++) {
        const larder_read *r = &g->reads[i];
        if (rc < 0)
            holds(!r->buf, "an interrupted read leaves bytes behind");
        else
            holds(r->code == 0 ? r->buf != NULL
                               : !r->buf && r->code == LARDER_E_CANCELLED && r->why[0],
                  "after interrupt sample %d is neither read nor cancelled", (int)i);
    }
    return true;
}

static bool check_part(rig *g, uint64_t id) {
    uint32_t w = 0, h = 0, bytes = 0;
    larder_sample s = {0};
    holds(g->s->extent(g->st, id, &w, &h) == 0, "extent of sample %d fails: %s", (int)id,
          larder_errmsg());
    g->s->stat(g->st, id, &s);
    const larder_rect rects[] = {
        {0}, {0, 0, w, h, 1}, {w / 4, h / 4, w - w / 4, h - h / 4, 1}, {w / 2, 0, w, 1, 1}};
    for (size_t i = 0; i < (w && h ? 4 : 1); i++) {
        poison(g->reads, 1);
        holds(g->s->read_parts(g->st, &id, &rects[i], 1, g->reads) == 0 && g->reads->code == 0,
              "a part of sample %d cannot be read", (int)id);
        size_t got = larder_buf_size(g->reads->buf);
        let_go(g);
        if (i == 0) {
            holds(got == s.bytes, "sample %d without a rectangle has %zu bytes of %u", (int)id, got,
                  s.bytes);
            continue;
        }
        holds(g->s->part_bytes(g->st, id, &rects[i], &bytes) == 0 && bytes == got,
              "a part of sample %d has %zu bytes where part_bytes says %u", (int)id, got, bytes);
    }
    return true;
}

static bool check_parts(rig *g) {
    for (uint64_t id = 0; g->about.parts && id < g->about.count; id++)
        if (!check_part(g, id))
            return false;
    return true;
}

/* ---- the same again, and another ------------------------------------------------------------- */

static bool same_set(const larder_dataset *a, const larder_dataset *b) {
    return a->fingerprint == b->fingerprint && a->identity == b->identity &&
           a->content == b->content;
}

static bool check_again(rig *g) {
    rig again;
    int rc = rig_open(&again, g->c, g->c->where, g->c->args);
    bool same = rc == 0 && same_set(&g->about, &again.about) && again.about.count == g->about.count;
    if (!rig_close(&again))
        return false;
    holds(rc == 0, "cannot be opened twice: %s", larder_errmsg());
    holds(same, "is another data set when it is opened again");
    return true;
}

static bool check_nowhere(rig *g) {
    rig other;
    forget();
    int rc = rig_open(&other, g->c, g->c->nowhere, g->c->args);
    bool said = told();
    if (!rig_close(&other))
        return false;
    holds(rc < 0, "opens \"%s\", where nothing is", g->c->nowhere);
    holds(said, "refuses \"%s\" without a sentence", g->c->nowhere);
    return true;
}

/* Last, since it changes what is there. */
static bool check_change(rig *g) {
    rig other;
    if (g->c->change)
        g->c->change(g->c->arg);
    int rc = rig_open(&other, g->c, g->c->where, g->c->other_args ? g->c->other_args : g->c->args);
    bool same = rc == 0 && same_set(&g->about, &other.about);
    if (!rig_close(&other))
        return false;
    holds(rc == 0, "cannot be opened after a change: %s", larder_errmsg());
    holds(!same, "is the same data set after a byte of a sample has changed");
    return true;
}

/* Everything once, with memory that may run out at any place. */
static bool walk(void *arg) {
    const source_case *c = arg;
    rig g;
    forget();
    int rc = rig_open(&g, c, c->where, c->args);
    uint64_t ids[MOST], none = 0;
    size_t n = rc == 0 ? (size_t)g.about.count : 0;
    bool right = rc == 0 || told() || wrong("fails without a sentence when memory runs out");
    for (size_t i = 0; i < n; i++)
        ids[i] = i;
    poison(g.reads, n);
    if (n && g.s->read(g.st, ids, n, g.reads) == 0)
        for (size_t i = 0; right && i < n; i++) {
            if (g.reads[i].code < 0)
                right = (!g.reads[i].buf && g.reads[i].why[0]) ||
                        wrong("a read that fails for lack of memory gives bytes or no sentence");
            else
                right = right_read(&g, ids[i], &g.reads[i], &none);
            none = 0;
        }
    return rig_close(&g) && right;
}

/* ---- all ------------------------------------------------------------------------------------- */

static bool run_check(bool (*check)(rig *), const source_case *c) {
    rig g;
    int rc = rig_open(&g, c, c->where, c->args);
    bool right = rc == 0 || wrong("cannot be opened: %s", larder_errmsg());
    right = right && check(&g);
    return rig_close(&g) && right;
}

bool source_suite(const source_case *c) {
    static bool (*const checks[])(rig *) = {
        check_shape,   check_counts,    check_names, check_notes, check_reads,
        check_threads, check_interrupt, check_parts, check_again, check_nowhere};
    assert_true(c->count > 0 && c->count <= MOST);
    if (!check_plugin("source", &c->source->plugin, c->source->wraps ? ',' : '&'))
        return false;
    for (size_t i = 0; i < sizeof checks / sizeof *checks; i++)
        if (!run_check(checks[i], c))
            return false;
    source_case copy = *c;
    return check_memory(walk, &copy, c->network) && run_check(check_change, c);
}
