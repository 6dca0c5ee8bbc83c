#include "stage/pipeline.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/spec.h"
#include "plugins.h"
#include "stage/codec.h"
#include "stage/emit.h"
#include "stage/jpeg_encode.h"
#include "stage/resample.h"
#include "stage/scratch.h"
#include "stage/stage.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>

#define MAX_STAGES 16

typedef struct step {
    const larder_stage *stage;
    void *state;
} step;

struct larder__pipeline {
    step steps[MAX_STAGES];
    size_t count;
    larder_shape raw, shape;
    larder_layout raw_layout, layout;
    larder_dtype dtype;
    bool whole;      /* see larder__pipeline_conf */
    bool repaints;   /* there are stages that change pixels themselves */
    bool fixed_tone; /* no stage draws its tone by chance: made once, at open */
    larder_tone tone;
};

/* ---- opening --------------------------------------------------------------------------------- */

static int add_stage(larder__pipeline *p, const char *text) {
    char name[32];
    const char *rest;
    int rc = larder__spec_name(text, name, sizeof name, &rest);
    if (rc < 0)
        return rc;
    const larder_stage *stage = larder__stage_find(name);
    if (!stage)
        return LARDER_E_ARGS;
    larder_args args;
    rc = larder__args_parse(&args, "stage", &stage->plugin, rest, ',', NULL);
    if (rc < 0)
        return rc;
    step *s = &p->steps[p->count];
    s->state = larder__calloc(1, stage->plugin.state_size);
    rc = s->state ? stage->init(s->state, &args) : LARDER_E_NOMEM;
    larder__args_free(&args);
    s->stage = stage;
    p->count++; /* also when it failed: close frees it */
    return rc;
}

static int parse_spec(larder__pipeline *p, const char *spec) {
    while (*spec) {
        char text[256];
        size_t len = strcspn(spec, "|"), skip = 0, n = len;
        while (skip < len && isspace((unsigned char)spec[skip]))
            skip++;
        while (n > skip && isspace((unsigned char)spec[n - 1]))
            n--;
        n -= skip;
        if (n == 0 || (spec[len] == '|' && !spec[len + 1]))
            return larder__fail(LARDER_E_ARGS,
                                "stages are joined by one |, nothing stands before "
                                "or after \"%.60s\"",
                                spec);
        if (n >= sizeof text || p->count == MAX_STAGES)
            return larder__fail(LARDER_E_ARGS, "more than %d stages or %zu letters in one",
                                MAX_STAGES, sizeof text - 1);
        memcpy(text, spec + skip, n);
        text[n] = 0;
        int rc = add_stage(p, text);
        if (rc < 0)
            return rc;
        spec += len + (spec[len] == '|');
    }
    return 0;
}

/* What a stage does, in the order in which these stand in a pipeline: padding is zeros before
 * pixels change and before they are worth something. */
static int turn_of(const larder_stage *s) { return s->place ? 0 : s->pixels ? 1 : 2; }

static int check_order(larder__pipeline *p) {
    const larder_stage *before = NULL;
    for (size_t i = 0; i < p->count; i++) {
        const larder_stage *s = p->steps[i].stage;
        if (s->tone && p->dtype == LARDER_U8)
            return larder__fail(LARDER_E_ARGS, "stage %s needs f32 output, not u8", s->plugin.name);
        if (before && turn_of(s) < turn_of(before))
            return larder__fail(LARDER_E_ARGS, "stage %s stands before %s, not after",
                                s->plugin.name, before->plugin.name);
        p->repaints |= s->pixels != NULL;
        before = s;
    }
    return 0;
}

/* Chance of stage i for this sample: its own, so that stages do not disturb each other. */
static larder_rng *seeded(larder_rng *rng, const step *s, size_t i, uint64_t seed) {
    if (s->stage->random && seed == LARDER__NO_CHANCE)
        return NULL;
    if (s->stage->random)
        larder_rng_seed(rng, seed, i);
    return rng;
}

static int place_all(const larder__pipeline *p, larder_view *v, uint64_t seed) {
    larder_rng rng = {{1, 2, 3, 4}};
    for (size_t i = 0; i < p->count; i++) {
        const step *s = &p->steps[i];
        int rc = s->stage->place ? s->stage->place(s->state, v, seeded(&rng, s, i, seed)) : 0;
        if (rc < 0)
            return larder__fail_in(rc, "stage %s", s->stage->plugin.name);
    }
    return 0;
}

static int tone_all(const larder__pipeline *p, larder_tone *t, uint64_t seed) {
    larder_rng rng = {{1, 2, 3, 4}};
    *t = (larder_tone){.channels = p->shape.c};
    for (uint32_t c = 0; c < p->shape.c; c++)
        t->scale[c] = 1.0 / 255;
    for (size_t i = 0; i < p->count; i++) {
        const step *s = &p->steps[i];
        int rc = s->stage->tone ? s->stage->tone(s->state, t, seeded(&rng, s, i, seed)) : 0;
        if (rc < 0)
            return rc;
    }
    return 0;
}

/* Tries the stages on a made-up size: what do they make of it? */
static int try_size(larder__pipeline *p, int64_t w, int64_t h, larder_view *v) {
    int rc = 0;
    for (uint64_t seed = 0; rc == 0 && seed < 16; seed++) {
        larder__view_start(v, w, h);
        rc = place_all(p, v, seed);
    }
    return rc;
}

/* Encoded pictures come in any size, a batch has one: tried on two, the results must agree. They
 * are large, so that a crop that needs a large enough picture is not refused for their sake. */
static int find_shape(larder__pipeline *p) {
    larder_view a = {0}, b = {0};
    int rc = try_size(p, p->raw.h ? p->raw.w : 40009, p->raw.h ? p->raw.h : 33013, &a);
    if (rc == 0)
        rc = try_size(p, p->raw.h ? p->raw.w : 34019, p->raw.h ? p->raw.h : 41017, &b);
    if (rc != 0)
        return rc;
    if (a.w != b.w || a.h != b.h)
        return larder__fail(LARDER_E_ARGS,
                            "pictures differ in size, samples of a batch do not: add "
                            "a stage that fixes it, such as rrc:size=224, "
                            "resize:h=224,w=224 or resize:size=256|centercrop:"
                            "size=224");
    p->shape = (larder_shape){(uint32_t)a.h, (uint32_t)a.w, p->raw.h ? p->raw.c : 3};
    if ((uint64_t)a.w * (uint64_t)a.h > LARDER__MAX_PIXELS)
        return larder__fail(LARDER_E_RANGE, "samples of %lld x %lld pixels; the limit is %u in all",
                            (long long)a.h, (long long)a.w, LARDER__MAX_PIXELS);
    return 0;
}

static int check_raw(const larder_shape *raw) {
    if (raw->h == 0)
        return 0;
    if (raw->c < 1 || raw->c > LARDER_CHANNELS_MAX)
        return larder__fail(LARDER_E_UNSUPPORTED, "raw samples of %u channels; 1 to %d are known",
                            raw->c, LARDER_CHANNELS_MAX);
    return larder__codec_limit("raw", raw->w, raw->h);
}

int larder__pipeline_open(larder__pipeline **out, const larder__pipeline_conf *conf) {
    *out = NULL;
    larder__pipeline *p = larder__calloc(1, sizeof *p);
    if (!p)
        return LARDER_E_NOMEM;
    p->raw = conf->raw;
    p->raw_layout = conf->raw_layout;
    p->layout = conf->layout;
    p->dtype = conf->dtype;
    p->whole = conf->whole;
    int rc = check_raw(&p->raw);
    if (rc == 0)
        rc = parse_spec(p, conf->spec ? conf->spec : "");
    if (rc == 0)
        rc = check_order(p);
    if (rc == 0)
        rc = find_shape(p);
    if (rc == 0)
        rc = tone_all(p, &p->tone, 0);
    if (rc < 0) {
        larder__pipeline_close(&p);
        return larder__fail_in(rc, "augment \"%.100s\"", conf->spec ? conf->spec : "");
    }
    p->fixed_tone = true;
    for (size_t i = 0; i < p->count; i++)
        p->fixed_tone &= !(p->steps[i].stage->tone && p->steps[i].stage->random);
    *out = p;
    return 0;
}

void larder__pipeline_close(larder__pipeline **pipeline) {
    larder__pipeline *p = *pipeline;
    if (!p)
        return;
    for (size_t i = 0; i < p->count; i++)
        larder__free(p->steps[i].state);
    larder__free(p);
    *pipeline = NULL;
}

larder_shape larder__pipeline_shape(const larder__pipeline *p) { return p->shape; }

larder_dtype larder__pipeline_dtype(const larder__pipeline *p) { return p->dtype; }
larder_layout larder__pipeline_layout(const larder__pipeline *p) { return p->layout; }

size_t larder__pipeline_bytes(const larder__pipeline *p) {
    return (size_t)p->shape.h * p->shape.w * p->shape.c * (p->dtype == LARDER_F32 ? 4 : 1);
}

/* ---- running --------------------------------------------------------------------------------- */

typedef struct sample {
    const uint8_t *bytes;
    size_t size;
    const larder__codec *codec; /* NULL: raw pixels */
    uint32_t w, h, c;           /* of the source; c of raw pixels alone */
    uint32_t seen_w, seen_h;    /* what stages take it for: the size it had before it was shrunk */
    larder_layout layout;       /* of raw pixels */
    uint32_t denominator;       /* the decoder shrinks both sides by this */
} sample;

static int picture_head(sample *s, larder__scratch *scratch) {
    double begun = scratch->timed ? larder__now() : 0;
    s->codec = larder__codec_find(s->bytes, s->size);
    int rc = s->codec ? s->codec->head(scratch, s->bytes, s->size, &s->w, &s->h) : LARDER_E_FORMAT;
    if (scratch->timed)
        scratch->decode_seconds += larder__now() - begun;
    s->seen_w = s->w;
    s->seen_h = s->h;
    return rc;
}

static int sample_head(sample *s, const larder__pipeline *p, larder__scratch *scratch) {
    s->denominator = 1;
    if (p->raw.h == 0)
        return picture_head(s, scratch);
    s->w = s->seen_w = p->raw.w;
    s->h = s->seen_h = p->raw.h;
    s->c = p->raw.c;
    s->layout = p->raw_layout;
    size_t want = (size_t)s->w * s->h * p->raw.c;
    if (s->size != want)
        return larder__fail(LARDER_E_FORMAT, "raw sample of %zu bytes; %u x %u x %u needs %zu",
                            s->size, p->raw.h, p->raw.w, p->raw.c, want);
    return 0;
}

/* A row of 3-byte pixels as 4 bytes each, whatever the fourth is: it is spare. */
static void widen(uint8_t *to, const uint8_t *from, ptrdiff_t n) {
    for (ptrdiff_t x = 0; x + 1 < n; x++, to += 4, from += 3)
        memcpy(to, from, 4); /* the last one must not be read past its end */
    memcpy(to, from, n > 0 ? 3 : 0);
}

static void spread(uint8_t *to, const uint8_t *from, ptrdiff_t n, ptrdiff_t channels,
                   const larder__picture *as) {
    memset(to, 0, (size_t)n * 4);
    for (ptrdiff_t k = 0; k < channels; k++)
        for (ptrdiff_t x = 0; x < n; x++)
            to[x * 4 + k] = from[x * as->pixel + k * as->channel];
}

/* Raw pixels stay where they are; for resampling what is wanted of them is copied, 4 bytes each. */
static int raw_picture(const sample *s, larder__scratch *scratch, bool repack, larder__rect want,
                       larder__picture *out) {
    ptrdiff_t w = s->w, h = s->h, c = s->c;
    *out = s->layout == LARDER_NHWC ? (larder__picture){s->bytes, w * c, c, 1, {0, 0, w, h}}
                                    : (larder__picture){s->bytes, w, 1, w * h, {0, 0, w, h}};
    if (!repack)
        return 0;
    ptrdiff_t columns = want.x1 - want.x0, rows = want.y1 - want.y0;
    size_t bytes = (size_t)(columns * rows) * 4;
    uint8_t *to = larder__scratch_take(scratch, LARDER__BLOCK_REPACKED, bytes + 64);
    if (!to)
        return LARDER_E_NOMEM;
    for (ptrdiff_t y = 0; y < rows; y++) {
        const uint8_t *from = out->at + (want.y0 + y) * out->row + (ptrdiff_t)want.x0 * out->pixel;
        if (out->pixel == 3 && out->channel == 1)
            widen(to + y * columns * 4, from, columns);
        else
            spread(to + y * columns * 4, from, columns, c, out);
    }
    *out = (larder__picture){to, columns * 4, 4, 1, want};
    return 0;
}

/* The largest shrinking that leaves `gap` times the wanted pixels: the resampling after it still
 * has enough to filter, so the picture stays what a full decode gives, but for a level or two. */
static uint32_t choose_denominator(const larder_view *v, const larder__axis *x,
                                   const larder__axis *y, uint32_t max) {
    uint32_t d = 1;
    while (v->gap > 0 && d < max && x->in1 - x->in0 >= v->gap * (double)v->full_w * d * 2 &&
           y->in1 - y->in0 >= v->gap * (double)v->full_h * d * 2)
        d *= 2;
    return d;
}

/* A box of `seen` pixels in all, which are `side` in the picture there is. */
static larder__axis axis_of(int64_t box, int64_t len, int64_t full, int64_t first, int64_t last,
                            uint32_t side, uint32_t seen) {
    return (larder__axis){.in0 = (double)(box * side) / seen,
                          .in1 = (double)((box + len) * side) / seen,
                          .full = full,
                          .first = first,
                          .last = last};
}

static void shrink_axis(larder__axis *a, uint32_t side, uint32_t d) {
    a->in0 /= d;
    a->in1 /= d;
    a->lo = (int64_t)floor(a->in0);
    a->hi = (int64_t)ceil(a->in1);
    int64_t end = ((int64_t)side + d - 1) / d;
    a->hi = a->hi < end ? a->hi : end;
}

static int decode(const sample *s, larder__scratch *scratch, bool repack, larder__rect want,
                  larder__picture *out) {
    if (!s->codec)
        return raw_picture(s, scratch, repack, want, out);
    double begun = scratch->timed ? larder__now() : 0;
    int rc = s->codec->pixels(scratch, s->bytes, s->size, s->denominator, want, out);
    if (scratch->timed)
        scratch->decode_seconds += larder__now() - begun;
    return rc;
}

/* What has to be decoded for the visible part of a view: `rect` in pixels of the picture shrunk to
 * 1/denominator, and how these are resampled unless they stay as they are. */
typedef struct window {
    uint32_t denominator;
    larder__rect rect;
    bool resampled;
    larder__axis x, y;
} window;

/* Does it show `full` whole pixels of the picture? Then they stay as they are. */
static bool is_plain(const larder__axis *a) {
    return a->in1 - a->in0 == (double)a->full && a->in0 == floor(a->in0);
}

static window window_of(const larder_view *v, const sample *s, uint32_t max_denominator) {
    window o = {.denominator = 1};
    o.x = axis_of(v->box_x, v->box_w, v->full_w, v->vis_x0, v->vis_x1, s->w, s->seen_w);
    o.y = axis_of(v->box_y, v->box_h, v->full_h, v->vis_y0, v->vis_y1, s->h, s->seen_h);
    o.resampled = !is_plain(&o.x) || !is_plain(&o.y);
    if (!o.resampled) {
        int64_t x = (int64_t)o.x.in0, y = (int64_t)o.y.in0;
        o.rect = (larder__rect){x + v->vis_x0, y + v->vis_y0, x + v->vis_x1, y + v->vis_y1};
        return o;
    }
    o.denominator = choose_denominator(v, &o.x, &o.y, max_denominator);
    shrink_axis(&o.x, s->w, o.denominator);
    shrink_axis(&o.y, s->h, o.denominator);
    larder__axis_reach(&o.x, &o.rect.x0, &o.rect.x1);
    larder__axis_reach(&o.y, &o.rect.y0, &o.rect.y1);
    return o;
}

/* The visible part of the view as pixels; `at` inside *out is its first one. */
static int gather(bool whole, sample *s, larder__scratch *scratch, const larder_view *v,
                  larder__picture *out) {
    window o = window_of(v, s, s->codec ? s->codec->max_denominator : 1);
    larder__picture in;
    s->denominator = o.denominator;
    const larder__rect all = {0, 0, (s->w + o.denominator - 1) / o.denominator,
                              (s->h + o.denominator - 1) / o.denominator};
    int rc = decode(s, scratch, o.resampled, whole ? all : o.rect, &in);
    if (rc < 0)
        return rc;
    larder__rect want = o.rect;
    if (o.resampled) {
        rc = larder__resample(scratch, &in, &o.x, &o.y, out);
        want = (larder__rect){v->vis_x0, v->vis_y0, v->vis_x1, v->vis_y1};
    } else
        *out = in;
    if (rc == 0)
        out->at += (want.y0 - out->is.y0) * out->row + (want.x0 - out->is.x0) * out->pixel;
    return rc;
}

/* Pixels that stages may change: a copy, as those there are may be the source's own. */
static int repaint(const larder__pipeline *p, larder__scratch *scratch, const larder_view *v,
                   uint64_t seed, larder__picture *pic) {
    larder_pixels px = {.w = (uint32_t)(v->vis_x1 - v->vis_x0),
                        .h = (uint32_t)(v->vis_y1 - v->vis_y0),
                        .c = p->shape.c};
    uint8_t *to = px.at =
        larder__scratch_take(scratch, LARDER__BLOCK_REPAINTED, (size_t)px.w * px.h * px.c);
    if (!to)
        return LARDER_E_NOMEM;
    for (uint32_t y = 0; y < px.h; y++) {
        const uint8_t *from = pic->at + (ptrdiff_t)y * pic->row;
        for (uint32_t x = 0; x < px.w; x++, from += pic->pixel)
            for (uint32_t c = 0; c < px.c; c++)
                *to++ = from[(ptrdiff_t)c * pic->channel];
    }
    *pic = (larder__picture){px.at, (ptrdiff_t)px.w * px.c, px.c, 1, {0}};
    larder_rng rng = {{1, 2, 3, 4}};
    for (size_t i = 0; i < p->count; i++) {
        const step *s = &p->steps[i];
        int rc = s->stage->pixels ? s->stage->pixels(s->state, &px, seeded(&rng, s, i, seed)) : 0;
        if (rc < 0)
            return larder__fail_in(rc, "stage %s", s->stage->plugin.name);
    }
    return 0;
}

static int emit(const larder__pipeline *p, const larder_view *v, const larder__picture *pic,
                uint64_t seed, void *out) {
    larder__emit e = {.shape = p->shape,
                      .dtype = p->dtype,
                      .layout = p->layout,
                      .flipped = v->flipped,
                      .filled = {v->vis_x0 - v->win_x, v->vis_y0 - v->win_y, v->vis_x1 - v->win_x,
                                 v->vis_y1 - v->win_y},
                      .at = pic->at,
                      .row = pic->row,
                      .pixel = pic->pixel,
                      .channel = pic->channel};
    if (!pic->at) { /* nothing but padding: steps stay on this one byte */
        e.at = (const uint8_t *)"";
        e.filled = (larder__rect){0};
    }
    larder_tone drawn;
    const larder_tone *tone = &p->tone;
    if (!p->fixed_tone) {
        int rc = tone_all(p, &drawn, seed);
        if (rc < 0)
            return rc;
        tone = &drawn;
    }
    for (uint32_t c = 0; c < p->shape.c; c++) {
        e.scale[c] = (float)tone->scale[c];
        e.bias[c] = (float)tone->bias[c];
    }
    larder__emit_run(&e, out);
    return 0;
}

int larder__pipeline_place(const larder__pipeline *p, uint32_t w, uint32_t h, uint64_t seed,
                           larder_view *v) {
    larder__view_start(v, w, h);
    int rc = place_all(p, v, seed);
    if (rc < 0 || (v->w == p->shape.w && v->h == p->shape.h))
        return rc;
    return larder__fail(LARDER_E_FORMAT,
                        "a picture of %u x %u pixels became %lld x %lld, not %u x %u", h, w,
                        (long long)v->h, (long long)v->w, p->shape.h, p->shape.w);
}

static bool is_visible(const larder_view *v) { /* else there is nothing but padding */
    return v->vis_x0 < v->vis_x1 && v->vis_y0 < v->vis_y1;
}

int larder__pipeline_reach(const larder__pipeline *p, uint32_t w, uint32_t h, uint64_t seed,
                           larder_rect *out) {
    larder_view v = {0};
    *out = (larder_rect){0, 0, 1, 1, 1};
    int rc = larder__codec_limit("picture", w, h);
    if (rc == 0)
        rc = larder__pipeline_place(p, w, h, seed, &v);
    if (rc < 0 || !is_visible(&v))
        return rc;
    const sample s = {.w = w, .h = h, .seen_w = w, .seen_h = h};
    window o = window_of(&v, &s, larder__codec_jpeg.max_denominator);
    int64_t d = o.denominator, x1 = o.rect.x1 * d, y1 = o.rect.y1 * d;
    *out = (larder_rect){(uint32_t)(o.rect.x0 * d), (uint32_t)(o.rect.y0 * d),
                         x1 < w ? (uint32_t)x1 : w, y1 < h ? (uint32_t)y1 : h, (uint32_t)d};
    return 0;
}

/* From a sample whose head is known to its row. */
static int run(const larder__pipeline *p, larder__scratch *scratch, sample *s, uint64_t seed,
               void *out) {
    larder_view v = {0};
    larder__picture pic = {0};
    int rc = larder__pipeline_place(p, s->seen_w, s->seen_h, seed, &v);
    if (rc == 0 && is_visible(&v))
        rc = gather(p->whole, s, scratch, &v, &pic);
    if (rc == 0 && pic.at && p->repaints)
        rc = repaint(p, scratch, &v, seed, &pic);
    if (rc == 0)
        rc = emit(p, &v, &pic, seed, out);
    larder__scratch_trim(scratch);
    return rc;
}

int larder__pipeline_run(const larder__pipeline *p, larder__scratch *scratch, const void *bytes,
                         size_t size, uint64_t seed, void *out) {
    sample s = {.bytes = bytes, .size = size};
    int rc = sample_head(&s, p, scratch);
    return rc < 0 ? rc : run(p, scratch, &s, seed, out);
}

/* ---- decoded samples ------------------------------------------------------------------------- */

typedef struct pixels_head { /* in front of 3 bytes a pixel, row by row, or of a shrunk sample */
    uint32_t w, h;           /* the size that it has, or had */
} pixels_head;

static uint64_t pixels_size(uint32_t w, uint32_t h) {
    return sizeof(pixels_head) + (uint64_t)w * h * 3;
}

int larder__pipeline_measure(const larder__pipeline *p, larder__scratch *scratch, const void *bytes,
                             size_t size, uint64_t *decoded) {
    sample s = {.bytes = bytes, .size = size};
    int rc = sample_head(&s, p, scratch);
    *decoded = rc < 0 ? 0 : s.codec ? pixels_size(s.w, s.h) : size;
    return rc;
}

int larder__pipeline_decode(const larder__pipeline *p, larder__scratch *scratch,
                            larder_buf *encoded, size_t limit, larder_buf **out) {
    sample s = {.bytes = larder_buf_data(encoded), .size = larder_buf_size(encoded)};
    larder__picture pic;
    *out = NULL;
    int rc = sample_head(&s, p, scratch);
    if (rc < 0)
        return rc;
    if (!s.codec) {
        *out = s.size <= limit ? larder_buf_ref(encoded) : NULL;
        return 0;
    }
    if (pixels_size(s.w, s.h) > limit)
        return 0;
    rc = decode(&s, scratch, false, (larder__rect){0, 0, s.w, s.h}, &pic);
    if (rc == 0 && !(*out = larder_buf_new((size_t)pixels_size(s.w, s.h))))
        rc = LARDER_E_NOMEM;
    if (rc < 0)
        return rc;
    pixels_head head = {s.w, s.h};
    memcpy(larder_buf_data(*out), &head, sizeof head);
    uint8_t *to = (uint8_t *)larder_buf_data(*out) + sizeof head;
    for (int64_t y = 0; y < s.h; y++) {
        const uint8_t *from = pic.at + (y - pic.is.y0) * pic.row - pic.is.x0 * pic.pixel;
        for (int64_t x = 0; x < s.w; x++, from += pic.pixel, to += 3)
            memcpy(to, from, 3);
    }
    larder__scratch_trim(scratch);
    return 0;
}

/* The pixels of a decoded sample that is not raw: what its head says fits what is there. */
static int open_pixels(const void *bytes, size_t size, sample *s) {
    pixels_head head = {0};
    if (size >= sizeof head)
        memcpy(&head, bytes, sizeof head);
    int rc = larder__codec_limit("decoded sample", head.w, head.h);
    if (rc < 0)
        return rc;
    if (size != pixels_size(head.w, head.h))
        return larder__fail(LARDER_E_FORMAT, "%zu bytes are no decoded sample of %u x %u pixels",
                            size, head.h, head.w);
    *s = (sample){.bytes = (const uint8_t *)bytes + sizeof head,
                  .size = size - sizeof head,
                  .w = head.w,
                  .h = head.h,
                  .seen_w = head.w,
                  .seen_h = head.h,
                  .c = 3,
                  .layout = LARDER_NHWC,
                  .denominator = 1};
    return 0;
}

int larder__pipeline_pixels(const larder__pipeline *p, larder_buf *decoded, larder_item *out) {
    sample s = {.bytes = larder_buf_data(decoded), .size = larder_buf_size(decoded)};
    int rc = p->raw.h ? sample_head(&s, p, NULL) : open_pixels(s.bytes, s.size, &s);
    if (rc < 0)
        return rc;
    out->data = s.bytes;
    out->bytes = s.size;
    out->shape = (larder_shape){s.h, s.w, s.c};
    out->layout = s.layout;
    return 0;
}

int larder__pipeline_run_decoded(const larder__pipeline *p, larder__scratch *scratch,
                                 const void *bytes, size_t size, uint64_t seed, void *out) {
    if (p->raw.h)
        return larder__pipeline_run(p, scratch, bytes, size, seed, out);
    sample s;
    int rc = open_pixels(bytes, size, &s);
    return rc < 0 ? rc : run(p, scratch, &s, seed, out);
}

/* ---- shrunk samples -------------------------------------------------------------------------- */

/* A few sizes and seeds tell what the stages do: where is the part that they resize, and to what,
 * of a picture and of one half its size? */
static bool in_proportion(const larder__pipeline *p, uint64_t seed, int64_t w, int64_t h,
                          larder_view *v) {
    larder_view half;
    larder__view_start(v, w, h);
    larder__view_start(&half, w / 2, h / 2);
    if (place_all(p, v, seed) < 0 || place_all(p, &half, seed) < 0 || !v->resized)
        return false;
    int64_t off = (w + h) / 100; /* rounding */
    return llabs(v->box_x - 2 * half.box_x) <= off && llabs(v->box_y - 2 * half.box_y) <= off &&
           llabs(v->box_w - 2 * half.box_w) <= off && llabs(v->box_h - 2 * half.box_h) <= off;
}

uint32_t larder__pipeline_side(const larder__pipeline *p) {
    enum { LONG = 8000, SHORT = 6000, SEEDS = 16 };
    larder_view wide = {0}, high = {0};
    bool parts = false;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        if (!in_proportion(p, seed, LONG, SHORT, &wide) ||
            !in_proportion(p, seed, SHORT, LONG, &high))
            return 0;
        parts |= wide.box_w < LONG || wide.box_h < SHORT;
    }
    bool fixed = wide.full_w == high.full_w; /* else one side follows from the picture's shape */
    int64_t least = wide.full_w < wide.full_h ? wide.full_w : wide.full_h;
    int64_t most = wide.full_w < wide.full_h ? wide.full_h : wide.full_w;
    int64_t side = fixed ? most : least;
    return (uint32_t)(parts ? (side * 10 + 6) / 7 : side);
}

double larder__pipeline_level(const larder__pipeline *p, uint32_t channel) {
    return p->dtype == LARDER_U8 ? 1 : p->tone.scale[channel];
}

/* The gap as resize and rrc have it. */
static int scale(sample *s, larder__scratch *scratch, uint32_t w, uint32_t h,
                 larder__picture *out) {
    const double gap = 2;
    larder_view v;
    if (w == s->w && h == s->h)
        return decode(s, scratch, true, (larder__rect){0, 0, w, h}, out);
    larder__view_start(&v, s->w, s->h);
    int rc = larder_view_resize(&v, w, h, gap);
    return rc < 0 ? rc : gather(false, s, scratch, &v, out);
}

int larder__picture_resize(larder__scratch *scratch, const void *bytes, size_t size, uint32_t w,
                           uint32_t h, larder__picture *out) {
    sample s = {.bytes = bytes, .size = size, .denominator = 1};
    int rc = picture_head(&s, scratch);
    return rc < 0 ? rc : scale(&s, scratch, w, h, out);
}

/* As resize counts, so that what it makes of both has the same size. */
static void shorten(uint32_t *w, uint32_t *h, uint32_t side) {
    uint32_t shorter = *w < *h ? *w : *h;
    if (side == 0 || shorter <= side)
        return;
    *w = (uint32_t)((double)((uint64_t)side * *w) / shorter);
    *h = (uint32_t)((double)((uint64_t)side * *h) / shorter);
}

int larder__pipeline_shrink(const larder__pipeline *p, larder__scratch *scratch,
                            larder_buf *encoded, const larder__shrink *to, larder_buf **out) {
    sample s = {.bytes = larder_buf_data(encoded), .size = larder_buf_size(encoded)};
    larder__picture pic;
    const uint8_t *bytes = NULL;
    size_t size = 0;
    *out = NULL;
    int rc = sample_head(&s, p, scratch);
    uint32_t w = s.w, h = s.h;
    larder__jpeg_conf conf = {.quality = to->quality,
                              .grey = !s.codec && s.c == 1,
                              .bare = true,
                              .limit = s.size - s.size / 10};
    pixels_head head = {s.w, s.h};
    conf.limit = conf.limit > sizeof head ? conf.limit - sizeof head : 0;
    shorten(&w, &h, to->side);
    if (rc == 0)
        rc = scale(&s, scratch, w, h, &pic);
    if (rc == 0)
        rc = larder__jpeg_encode(scratch, &pic, w, h, &conf, &bytes, &size);
    if (rc == 0 && bytes && !(*out = larder_buf_new(sizeof head + size)))
        rc = LARDER_E_NOMEM;
    if (*out) {
        memcpy(larder_buf_data(*out), &head, sizeof head);
        memcpy((uint8_t *)larder_buf_data(*out) + sizeof head, bytes, size);
    }
    larder__scratch_trim(scratch);
    return rc;
}

int larder__pipeline_run_shrunk(const larder__pipeline *p, larder__scratch *scratch,
                                const void *bytes, size_t size, uint64_t seed, void *out) {
    pixels_head head = {0};
    if (size < sizeof head)
        return larder__fail(LARDER_E_FORMAT, "%zu bytes are no shrunk sample", size);
    memcpy(&head, bytes, sizeof head);
    sample s = {.bytes = (const uint8_t *)bytes + sizeof head,
                .size = size - sizeof head,
                .denominator = 1};
    int rc = larder__codec_limit("shrunk sample", head.w, head.h);
    if (rc == 0)
        rc = picture_head(&s, scratch);
    s.seen_w = head.w;
    s.seen_h = head.h;
    return rc < 0 ? rc : run(p, scratch, &s, seed, out);
}
