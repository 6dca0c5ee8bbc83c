#include "stage_suite.h"

#include "base/hash.h"
#include "base/mem.h"
#include "base/spec.h"
#include "pictures.h"
#include "stage/canvas.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { SEEDS = 24 };

/* ---- what it says ---------------------------------------------------------------------------- */

typedef struct rig {
    const larder_stage *s;
    void *st, *kept; /* its state, and that as it was after init */
} rig;

/* A picture with room for what any stage asks of it, and those that are all edge. */
static const int64_t sides[][2] = {{1, 1}, {1, 9},   {9, 1},         {3, 5},
                                   {8, 8}, {64, 47}, {40009, 33013}, {LARDER__MAX_SIDE, 1}};
enum { SIDES = sizeof sides / sizeof *sides };

static bool sane_axis(int64_t side, int64_t box, int64_t len, int64_t full, int64_t win,
                      int64_t out, int64_t from, int64_t to) {
    bool seen = from < to; /* else it is all padding */
    return out >= 1 && box >= 0 && len >= 1 && box + len <= side && full >= 1 &&
           (!seen || (from >= 0 && to <= full && from >= win && to <= win + out));
}

static bool sane_view(const larder_view *v, int64_t w, int64_t h) {
    return sane_axis(w, v->box_x, v->box_w, v->full_w, v->win_x, v->w, v->vis_x0, v->vis_x1) &&
           sane_axis(h, v->box_y, v->box_h, v->full_h, v->win_y, v->h, v->vis_y0, v->vis_y1);
}

static bool read_only(const rig *g) {
    size_t size = g->s->plugin.state_size;
    holds(memcmp(g->st, g->kept, size) == 0, "changes its state after init");
    return true;
}

/* Member by member: what lies between them is nobody's. */
static bool same_view(const larder_view *a, const larder_view *b) {
    const size_t from = offsetof(larder_view, box_x), to = offsetof(larder_view, resized);
    return a->w == b->w && a->h == b->h && a->flipped == b->flipped && a->resized == b->resized &&
           memcmp((const char *)a + from, (const char *)b + from, to - from) == 0 &&
           a->padded == b->padded && a->upended == b->upended && a->aliased == b->aliased &&
           a->filter == b->filter && a->edge == b->edge && a->over == b->over &&
           memcmp(a->fill, b->fill, sizeof a->fill) == 0 && a->edge_x0 == b->edge_x0 &&
           a->edge_y0 == b->edge_y0 && a->edge_x1 == b->edge_x1 && a->edge_y1 == b->edge_y1;
}

static bool same_tone(const larder_tone *a, const larder_tone *b) {
    return a->channels == b->channels && memcmp(a->scale, b->scale, sizeof a->scale) == 0 &&
           memcmp(a->bias, b->bias, sizeof a->bias) == 0;
}

/* One size: the same for the same seed, of one size for all, and possible for all or none. */
static bool check_place(const rig *g, int64_t w, int64_t h, bool *differ) {
    larder_view first = {0}, v, again;
    int worked = 0;
    for (uint64_t seed = 0; seed <= SEEDS; seed++) {
        larder_rng a, b;
        larder_rng_seed(&a, seed, 1);
        b = a;
        bool chance = seed < SEEDS || !g->s->random; /* the last one is without */
        larder__view_start(&v, w, h);
        larder__view_start(&again, w, h);
        forget();
        int rc = g->s->place(g->st, &v, chance ? &a : NULL);
        holds(rc == 0 || told(), "refuses a picture without a sentence");
        holds(g->s->place(g->st, &again, chance ? &b : NULL) == rc &&
                  (rc < 0 || same_view(&v, &again)),
              "places a picture elsewhere with the same seed");
        holds(seed == 0 || worked == rc, "fails or not by chance");
        worked = rc;
        if (rc < 0)
            continue;
        holds(sane_view(&v, w, h), "looks at pixels that a picture of %lld x %lld has not",
              (long long)w, (long long)h);
        if (seed == 0)
            first = v;
        holds(v.w == first.w && v.h == first.h, "makes pictures of a size that chance decides");
        bool other = !same_view(&v, &first);
        holds(g->s->random || !other, "takes chance and says it does not");
        *differ |= other;
    }
    return read_only(g);
}

static bool check_tone(const rig *g, bool *differ) {
    larder_tone first = {0};
    for (uint32_t channels = 1; channels <= LARDER_CHANNELS_MAX; channels++)
        for (uint64_t seed = 0; seed <= SEEDS; seed++) {
            larder_tone t = {.channels = channels}, again;
            larder_rng a, b;
            larder_rng_seed(&a, seed, 1);
            b = a;
            bool chance = seed < SEEDS || !g->s->random;
            for (uint32_t c = 0; c < channels; c++)
                t.scale[c] = 1.0 / 255;
            again = t;
            forget();
            int rc = g->s->tone(g->st, &t, chance ? &a : NULL);
            holds(rc == 0 || told(), "refuses a picture without a sentence");
            holds(g->s->tone(g->st, &again, chance ? &b : NULL) == rc &&
                      (rc < 0 || same_tone(&t, &again)),
                  "has another tone with the same seed");
            for (uint32_t c = 0; rc == 0 && c < channels; c++)
                holds(isfinite(t.scale[c]) && isfinite(t.bias[c]), "has a tone that is no number");
            if (seed == 0)
                first = t;
            bool other = rc == 0 && !same_tone(&t, &first);
            holds(g->s->random || !other, "takes chance and says it does not");
            *differ |= other;
        }
    return read_only(g);
}

/* One set of pixels, by a seed; `chance` false: without one. The result is to be freed by
 * guarded_free. */
static bool change_pixels(const rig *g, larder_pixels p, uint64_t seed, bool chance, uint8_t **out,
                          int *rc) {
    size_t n = (size_t)p.w * p.h * p.c;
    larder_rng rng;
    larder_rng_seed(&rng, seed, 1);
    p.at = *out = guarded_new(n);
    for (size_t i = 0; i < n; i++)
        p.at[i] = (uint8_t)(i * 37 + i / 11);
    forget();
    *rc = g->s->pixels(g->st, &p, chance ? &rng : NULL);
    holds(*rc == 0 || told(), "refuses a picture without a sentence");
    holds(guarded_whole(*out, n), "writes past its pixels");
    return true;
}

static bool check_pixels(const rig *g, larder_pixels p, bool *differ) {
    size_t n = (size_t)p.w * p.h * p.c;
    uint8_t *first = NULL, *once = NULL, *twice = NULL;
    int rc, again, of_first;
    bool right = change_pixels(g, p, 0, true, &first, &of_first);
    for (uint64_t seed = 0; right && seed <= SEEDS; seed++) {
        bool chance = seed < SEEDS || !g->s->random;
        right = change_pixels(g, p, seed, chance, &once, &rc) &&
                change_pixels(g, p, seed, chance, &twice, &again);
        bool same = right && rc == again && (rc < 0 || memcmp(once, twice, n) == 0);
        bool other = right && rc == 0 && of_first == 0 && memcmp(once, first, n) != 0;
        right = right && (same || wrong("makes other pixels with the same seed")) &&
                (rc == of_first || wrong("fails or not by chance")) &&
                (g->s->random || !other || wrong("takes chance and says it does not"));
        *differ |= other;
        guarded_free(once);
        guarded_free(twice);
        once = twice = NULL;
    }
    guarded_free(first);
    return right && read_only(g);
}

static bool check_all_pixels(const rig *g, bool *differ) {
    static const uint32_t sizes[][2] = {{1, 1}, {1, 7}, {5, 3}, {17, 9}};
    for (size_t i = 0; i < 4; i++)
        for (uint32_t c = 1; c <= LARDER_CHANNELS_MAX; c++)
            if (!check_pixels(g, (larder_pixels){.w = sizes[i][0], .h = sizes[i][1], .c = c},
                              differ))
                return false;
    return true;
}

/* ---- stages that move pixels ----------------------------------------------------------------- */

typedef struct moved { /* what became of a canvas */
    larder__canvas k;
    larder__scratch *scratch;
    uint8_t *given;
    double points[6];
    int rc;
} moved;

static bool move_pixels(const rig *g, larder_pixels p, bool mask, uint64_t seed, bool chance,
                        moved *m) {
    larder_rng rng;
    larder_rng_seed(&rng, seed, 1);
    assert_int_equal(larder__scratch_open(&m->scratch), 0);
    larder__canvas_start(&m->k, m->scratch, p.c, mask);
    size_t n = (size_t)p.w * p.h * m->k.is.step;
    m->k.is.w = p.w;
    m->k.is.h = p.h;
    m->k.is.at = m->given = guarded_new(n);
    memcpy(m->points, (double[6]){0, 0, 1, 0, 0.25, 0.5}, sizeof m->points);
    m->k.is.points = m->points;
    m->k.is.count = 3;
    for (size_t i = 0; i < n; i++)
        m->given[i] = mask ? (uint8_t)(7 * (i % 5)) : (uint8_t)(i * 37 + i / 11);
    forget();
    m->rc = g->s->canvas(g->st, &m->k.is, chance ? &rng : NULL);
    holds(m->rc == 0 || told(), "refuses a picture without a sentence");
    holds(guarded_whole(m->given, n), "writes past its pixels");
    for (size_t i = 0; m->rc == 0 && mask && i < (size_t)m->k.is.w * m->k.is.h; i++)
        holds(m->k.is.at[i] % 7 == 0 && m->k.is.at[i] < 35,
              "makes numbers of a mask that it had not");
    return true;
}

static void unmove(moved *m) {
    guarded_free(m->given);
    larder__scratch_close(&m->scratch);
    *m = (moved){0};
}

static bool same_canvas(const moved *a, const moved *b) {
    const larder_canvas *x = &a->k.is, *y = &b->k.is;
    if (a->rc < 0 || b->rc < 0)
        return a->rc == b->rc;
    if (x->w != y->w || x->h != y->h || memcmp(a->points, b->points, sizeof a->points) != 0)
        return false;
    for (size_t i = 0; i < (size_t)x->w * x->h; i++) /* spare bytes are anything */
        if (memcmp(x->at + i * x->step, y->at + i * y->step, x->c) != 0)
            return false;
    return true;
}

/* Size and points follow from the seed, whether there are pixels or not. */
static bool same_walk(const rig *g, larder_pixels p, uint64_t seed, bool chance, const moved *m) {
    larder__canvas k;
    larder_rng rng;
    double points[6] = {0, 0, 1, 0, 0.25, 0.5};
    larder_rng_seed(&rng, seed, 1);
    larder__canvas_start(&k, NULL, p.c, false);
    k.is.w = p.w;
    k.is.h = p.h;
    k.is.points = points;
    k.is.count = 3;
    int rc = g->s->canvas(g->st, &k.is, chance ? &rng : NULL);
    holds(rc == m->rc && (rc < 0 || (k.is.w == m->k.is.w && k.is.h == m->k.is.h &&
                                     memcmp(points, m->points, sizeof points) == 0)),
          "moves points or sizes otherwise without pixels");
    return true;
}

static bool check_canvas(const rig *g, larder_pixels p, bool mask, bool *differ) {
    moved first = {0}, once = {0}, twice = {0};
    bool right = move_pixels(g, p, mask, 0, true, &first);
    for (uint64_t seed = 0; right && seed <= SEEDS; seed++) {
        bool chance = seed < SEEDS || !g->s->random;
        right = move_pixels(g, p, mask, seed, chance, &once) &&
                move_pixels(g, p, mask, seed, chance, &twice) &&
                (same_canvas(&once, &twice) || wrong("makes other pixels with the same seed")) &&
                (once.rc == first.rc || wrong("fails or not by chance")) &&
                same_walk(g, p, seed, chance, &once);
        bool other = right && !same_canvas(&once, &first);
        right = right && (g->s->random || !other || wrong("takes chance and says it does not"));
        *differ |= other;
        unmove(&once);
        unmove(&twice);
    }
    unmove(&first);
    return right && read_only(g);
}

static bool check_all_canvases(const rig *g, bool *differ) {
    static const uint32_t sizes[][2] = {{1, 1}, {1, 7}, {5, 3}, {17, 9}, {40, 33}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        larder_pixels p = {.w = sizes[i][0], .h = sizes[i][1], .c = 1};
        bool none = false;
        if (!check_canvas(g, p, true, &none))
            return false;
        for (; p.c <= LARDER_CHANNELS_MAX; p.c++)
            if (!check_canvas(g, p, false, differ))
                return false;
    }
    return true;
}

static bool check_mix(const rig *g, bool *differ) {
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        larder_mixing m[3];
        larder_rng rng;
        for (int i = 0; i < 3; i++) {
            m[i] = (larder_mixing){.w = 9, .h = 5, .weight = 1};
            larder_rng_seed(&rng, i < 2 ? seed : seed + 1, 1);
            holds(g->s->mix(g->st, &m[i], &rng) == 0, "mixes no batch");
        }
        holds(m[0].weight == m[1].weight && m[0].x0 == m[1].x0, "mixes otherwise by the same seed");
        holds(m[0].weight >= 0 && m[0].weight <= 1 && m[0].x0 <= m[0].x1 && m[0].y0 <= m[0].y1 &&
                  m[0].x1 <= 9 && m[0].y1 <= 5,
              "mixes with a box or a weight that cannot be");
        *differ |= m[0].weight != m[2].weight;
    }
    return read_only(g);
}

static bool check_views(const rig *g) {
    bool differ = false;
    for (size_t i = 0; g->s->place && i < SIDES; i++)
        if (!check_place(g, sides[i][0], sides[i][1], &differ))
            return false;
    if (g->s->tone && !check_tone(g, &differ))
        return false;
    if (g->s->pixels && !check_all_pixels(g, &differ))
        return false;
    if (g->s->canvas && !check_all_canvases(g, &differ))
        return false;
    if (g->s->mix && !check_mix(g, &differ))
        return false;
    holds(differ || !g->s->random || g->s->late, "says that it takes chance and does not");
    return true;
}

bool stage_suite(const larder_stage *s, const char *text) {
    rig g = {.s = s};
    larder_args args;
    size_t size = s->plugin.state_size;
    holds(s->init && !!s->place + !!s->tone + !!s->pixels + !!s->canvas + !!s->late + !!s->mix == 1,
          "has not init and exactly one of place, pixels, canvas, tone, late and mix");
    if (!check_plugin("stage", &s->plugin, ','))
        return false;
    holds(larder__args_parse(&args, "stage", &s->plugin, text, ',', NULL) == 0, "%s",
          larder_errmsg());
    g.st = guarded_new(size);
    g.kept = guarded_new(size);
    bool right = s->init(g.st, &args) == 0 || wrong("cannot be opened: %s", larder_errmsg());
    larder__args_free(&args);
    memcpy(g.kept, g.st, size);
    right = right && check_views(&g);
    bool whole = guarded_whole(g.st, size);
    guarded_free(g.st);
    guarded_free(g.kept);
    holds(whole, "writes past its state");
    return right;
}

/* ---- what becomes of pixels ------------------------------------------------------------------ */

typedef struct bench {
    const char *spec;
    row_fn *run;
    larder__pipeline *p;
    larder__scratch *scratch;
    const unsigned char *bytes; /* the sample */
    size_t size;
} bench;

static int bench_open(bench *b, larder__pipeline_conf conf) {
    conf.spec = b->spec;
    int rc = larder__pipeline_open(&b->p, &conf);
    return rc < 0 ? rc : larder__scratch_open(&b->scratch);
}

static void bench_close(bench *b) {
    larder__scratch_close(&b->scratch);
    larder__pipeline_close(&b->p);
}

/* One row, guarded; *out is to be freed by guarded_free. Rows are written whole, whatever lay
 * there. */
static bool make_row(const bench *b, larder__scratch *scratch, uint64_t seed, int lay, void **out) {
    size_t n = larder__pipeline_bytes(b->p);
    *out = guarded_new(n);
    memset(*out, lay, n);
    int rc = b->run(b->p, scratch, b->bytes, b->size, seed, *out);
    holds(rc == 0, "a sample cannot be made: %s", larder_errmsg());
    holds(guarded_whole(*out, n), "writes past its row");
    return true;
}

static bool same_rows(const bench *b, uint64_t seed) {
    void *first = NULL, *second = NULL;
    size_t n = larder__pipeline_bytes(b->p);
    bool right = make_row(b, b->scratch, seed, 0, &first) &&
                 make_row(b, b->scratch, seed, 0xff, &second) &&
                 (memcmp(first, second, n) == 0 ||
                  wrong("leaves bytes of a row as they were, or makes another of the same seed"));
    guarded_free(first);
    guarded_free(second);
    return right;
}

typedef struct maker { /* a thread of its own, with a scratch of its own */
    const bench *b;
    uint64_t hash;
    bool right;
} maker;

static void *make_rows(void *arg) {
    maker *m = arg;
    larder__scratch *scratch = NULL;
    size_t n = larder__pipeline_bytes(m->b->p);
    m->right = larder__scratch_open(&scratch) == 0;
    for (uint64_t seed = 0; m->right && seed < SEEDS; seed++) {
        unsigned char *out = malloc(n);
        m->right = out && m->b->run(m->b->p, scratch, m->b->bytes, m->b->size, seed, out) == 0;
        m->hash = m->right ? larder__hash_bytes(m->hash, out, n) : 0;
        free(out);
    }
    larder__scratch_close(&scratch);
    return NULL;
}

static bool same_in_threads(const bench *b) {
    enum { THREADS = 3 };
    pthread_t threads[THREADS];
    maker all[THREADS + 1];
    for (size_t t = 0; t <= THREADS; t++)
        all[t] = (maker){.b = b};
    for (size_t t = 0; t < THREADS; t++)
        assert_int_equal(pthread_create(&threads[t], NULL, make_rows, &all[t]), 0);
    make_rows(&all[THREADS]);
    for (size_t t = 0; t < THREADS; t++)
        pthread_join(threads[t], NULL);
    for (size_t t = 0; t <= THREADS; t++)
        holds(all[t].right && all[t].hash == all[0].hash, "makes other rows on another thread");
    return true;
}

static bool check_sample(bench *b) {
    uint64_t before = larder__hash_bytes(1, b->bytes, b->size);
    for (uint64_t seed = 0; seed < SEEDS; seed++)
        if (!same_rows(b, seed))
            return false;
    if (!same_rows(b, LARDER__NO_CHANCE) || !same_in_threads(b))
        return false;
    holds(before == larder__hash_bytes(1, b->bytes, b->size), "writes into the sample");
    return true;
}

/* Value of one pixel of a row, 0..1 in f32 without tone, else 0..255. */
static double pixel_of(const larder__pipeline *p, const void *row, const larder__pipeline_conf *c,
                       size_t y, size_t x, size_t k) {
    const larder_shape s = larder__pipeline_shape(p);
    size_t at =
        c->layout == LARDER_NHWC ? (y * s.w + x) * s.c + k : (k * s.h + y) * (size_t)s.w + x;
    return c->dtype == LARDER_F32 ? (double)((const float *)row)[at]
                                  : ((const uint8_t *)row)[at] / 255.0;
}

static bool same_pixels(const bench *a, const larder__pipeline_conf *as, const bench *b,
                        const larder__pipeline_conf *bs, uint64_t seed) {
    void *x = NULL, *y = NULL;
    const larder_shape s = larder__pipeline_shape(a->p);
    const larder_shape t = larder__pipeline_shape(b->p);
    bool right = make_row(a, a->scratch, seed, 0, &x) && make_row(b, b->scratch, seed, 0, &y);
    right = right && ((s.h == t.h && s.w == t.w && s.c == t.c) ||
                      wrong("has a shape that layout or type decide"));
    for (size_t i = 0; right && i < (size_t)s.h * s.w * s.c; i++) {
        size_t row = i / s.c / s.w, column = i / s.c % s.w, k = i % s.c;
        double difference =
            pixel_of(a->p, x, as, row, column, k) - pixel_of(b->p, y, bs, row, column, k);
        right = fabs(difference) < 1e-5 || wrong("has other pixels in another layout or type");
    }
    guarded_free(x);
    guarded_free(y);
    return right;
}

static unsigned char raw_byte(larder_shape s, larder_layout layout, size_t i) {
    size_t plane = (size_t)s.h * s.w;
    size_t pixel = layout == LARDER_NHWC ? i / s.c : i % plane;
    size_t k = layout == LARDER_NHWC ? i % s.c : i / plane;
    return (unsigned char)(pixel * 37 + k * 91 + pixel / 7);
}

/* Raw pixels of a shape in every layout and type, all against the first. The sample does not lie
 * where a number would. */
static bool check_raw(const char *spec, row_fn *run, larder_shape raw, uint32_t *made) {
    size_t size = (size_t)raw.h * raw.w * raw.c;
    bench first = {0};
    larder__pipeline_conf first_conf = {0};
    unsigned char *memory[8] = {0};
    bool right = true;
    for (unsigned k = 0; right && k < 8; k++) {
        larder__pipeline_conf conf = {.raw = raw,
                                      .raw_layout = k & 1 ? LARDER_NHWC : LARDER_NCHW,
                                      .layout = k & 2 ? LARDER_NHWC : LARDER_NCHW,
                                      .dtype = k & 4 ? LARDER_U8 : LARDER_F32};
        memory[k] = malloc(size + 1);
        assert_non_null(memory[k]);
        for (size_t i = 0; i < size; i++)
            memory[k][i + 1] = raw_byte(raw, conf.raw_layout, i);
        bench b = {.spec = spec, .run = run, .bytes = memory[k] + 1, .size = size};
        forget();
        if (bench_open(&b, conf) < 0) {
            right = told() || wrong("refuses a shape without a sentence");
            bench_close(&b);
            continue;
        }
        ++*made;
        right = check_sample(&b);
        for (uint64_t seed = 0; right && first.p && seed < 8; seed++)
            right = same_pixels(&first, &first_conf, &b, &conf, seed);
        if (first.p)
            bench_close(&b);
        else {
            first = b;
            first_conf = conf;
        }
    }
    bench_close(&first);
    for (unsigned k = 0; k < 8; k++)
        free(memory[k]);
    return right;
}

static bool check_encoded(const char *spec, row_fn *run, unsigned char *bytes, size_t size,
                          uint32_t *made) {
    bench b = {.spec = spec, .run = run, .bytes = bytes, .size = size};
    larder__pipeline_conf conf = {.dtype = LARDER_F32};
    bool right = true;
    forget();
    if (!bytes || bench_open(&b, conf) < 0)
        right = !bytes || told() || wrong("refuses pictures without a sentence");
    else {
        ++*made;
        right = check_sample(&b);
    }
    bench_close(&b);
    free(bytes);
    return right;
}

typedef struct lacking {
    const char *spec;
    row_fn *run;
    larder_shape raw;
} lacking;

static bool walk(void *arg) {
    const lacking *l = arg;
    unsigned char bytes[48] = {0}, out[1024];
    bench b = {.spec = l->spec, .run = l->run, .bytes = bytes, .size = sizeof bytes};
    forget();
    int rc = bench_open(&b, (larder__pipeline_conf){.raw = l->raw, .dtype = LARDER_F32});
    if (rc == 0 && larder__pipeline_bytes(b.p) <= sizeof out)
        rc = b.run(b.p, b.scratch, bytes, sizeof bytes, 1, out);
    bool right = rc == 0 || told() || wrong("fails without a sentence when memory runs out");
    bench_close(&b);
    return right;
}

bool row_suite(const char *spec, row_fn *run) {
    static const larder_shape shapes[] = {{1, 1, 1}, {1, 1, 3},   {1, 7, 3},  {5, 7, 3},
                                          {9, 4, 4}, {17, 31, 2}, {33, 18, 1}};
    uint32_t made = 0;
    size_t size = 0;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        if (!check_raw(spec, run, shapes[i], &made))
            return false;
    holds(made > 0, "takes no shape at all: %s", larder_errmsg());
    unsigned char *png = check_png(1, 1, 2, 8, false, &size);
    if (!check_encoded(spec, run, png, size, &made))
        return false;
    png = check_png(13, 9, 6, 8, true, &size);
    if (!check_encoded(spec, run, png, size, &made))
        return false;
    check_jpeg_conf jpeg = {.w = 61, .h = 47, .channels = 3, .h_samp = 2, .v_samp = 2, .seed = 1};
    unsigned char *picture = check_jpeg(&jpeg, &size);
    if (!check_encoded(spec, run, picture, size, &made))
        return false;
    lacking l = {spec, run, {4, 4, 3}};
    return check_memory(walk, &l, false);
}
