/* Running a pipeline. Most have one leg that only places: its pixels go from the decoder or the
 * resampling into the row at once. Others lay their pixels out on a canvas in between. */
#include "stage/pipeline_inside.h"

#include "base/err.h"
#include "stage/emit.h"

/* ---- stages, one after the other ------------------------------------------------------------- */

larder_rng *larder__step_chance(const larder__pipeline *p, size_t i, uint64_t seed,
                                larder_rng *rng) {
    if (p->steps[i].stage->random && seed == LARDER__NO_CHANCE)
        return NULL;
    if (p->steps[i].stage->random)
        larder_rng_seed(rng, seed, i);
    return rng;
}

int larder__leg_place(const larder__pipeline *p, size_t *at, uint64_t seed, larder_view *v) {
    larder_rng rng = {{1, 2, 3, 4}};
    for (size_t i = *at; i < p->worth && p->steps[i].stage->place; i++) {
        const larder__step *s = &p->steps[i];
        const larder_view before = *v;
        int rc = s->stage->place(s->state, v, larder__step_chance(p, i, seed, &rng));
        if (rc < 0 && v->over && i > *at) {
            *v = before;
            *at = i;
            return 0;
        }
        if (rc < 0)
            return larder__fail_in(rc, "stage %s", s->stage->plugin.name);
    }
    while (*at < p->worth && p->steps[*at].stage->place)
        ++*at;
    return 0;
}

/* Stages from outside that only change colours see pixels without spare bytes. */
static int paint_packed(const larder__step *s, larder__canvas *k, larder_rng *rng) {
    larder_canvas *is = &k->is;
    larder_pixels px = {is->at, is->w, is->h, is->c};
    size_t n = (size_t)is->w * is->h;
    if (!larder_canvas_colours(is))
        return 0;
    if (is->step == is->c)
        return s->stage->pixels(s->state, &px, rng);
    px.at = larder__scratch_take(k->scratch, LARDER__BLOCK_PACKED, n * is->c);
    if (!px.at)
        return LARDER_E_NOMEM;
    for (size_t i = 0; i < n; i++)
        memcpy(px.at + i * is->c, is->at + i * is->step, is->c);
    int rc = s->stage->pixels(s->state, &px, rng);
    for (size_t i = 0; rc == 0 && i < n; i++)
        memcpy(is->at + i * is->step, px.at + i * is->c, is->c);
    return rc;
}

int larder__leg_paint(const larder__pipeline *p, size_t *at, uint64_t seed, larder__canvas *k) {
    larder_rng rng = {{1, 2, 3, 4}};
    for (; *at < p->worth && !p->steps[*at].stage->place; ++*at) {
        const larder__step *s = &p->steps[*at];
        larder_rng *chance = larder__step_chance(p, *at, seed, &rng);
        int rc = s->stage->canvas ? s->stage->canvas(s->state, &k->is, chance)
                                  : paint_packed(s, k, chance);
        if (rc < 0)
            return larder__fail_in(rc, "stage %s", s->stage->plugin.name);
    }
    return 0;
}

int larder__pipeline_walk(const larder__pipeline *p, uint64_t seed, larder__canvas *k) {
    int rc = 0;
    for (size_t at = 0; at < p->worth && rc == 0;) {
        larder_view v;
        larder__view_start(&v, k->is.w, k->is.h);
        rc = larder__leg_place(p, &at, seed, &v);
        if (rc < 0)
            return rc;
        larder__view_move(&v, k->is.points, k->is.count);
        k->is.w = (uint32_t)v.w;
        k->is.h = (uint32_t)v.h;
        rc = larder__leg_paint(p, &at, seed, k);
    }
    return rc;
}

int larder__pipeline_move(const larder__pipeline *p, uint32_t w, uint32_t h, uint64_t seed,
                          double *points, size_t count) {
    larder__canvas k;
    larder__canvas_start(&k, NULL, 1, true);
    k.is.w = w;
    k.is.h = h;
    k.is.points = points;
    k.is.count = count;
    return larder__pipeline_walk(p, seed, &k);
}

int larder__pipeline_tone(const larder__pipeline *p, size_t from, double unit, uint64_t seed,
                          larder_tone *t) {
    larder_rng rng = {{1, 2, 3, 4}};
    *t = (larder_tone){.channels = p->shape.c};
    for (uint32_t c = 0; c < p->shape.c; c++)
        t->scale[c] = unit;
    for (size_t i = from; i < p->mixes; i++) {
        const larder__step *s = &p->steps[i];
        int rc =
            s->stage->tone ? s->stage->tone(s->state, t, larder__step_chance(p, i, seed, &rng)) : 0;
        if (rc < 0)
            return rc;
    }
    return 0;
}

int larder__pipeline_mix(const larder__pipeline *p, uint64_t seed, larder_mixing *out) {
    larder_rng rng;
    size_t n = p->count - p->mixes;
    *out = (larder_mixing){.w = p->shape.w, .h = p->shape.h, .weight = 1};
    if (n == 0 || seed == LARDER__NO_CHANCE)
        return 0;
    larder_rng_seed(&rng, seed, p->mixes);
    const larder__step *s = &p->steps[p->mixes + larder_rng_below(&rng, (uint32_t)n)];
    return s->stage->mix(s->state, out, &rng);
}

bool larder__pipeline_mixes(const larder__pipeline *p) { return p->mixes < p->count; }

/* ---- one sample ------------------------------------------------------------------------------ */

int larder__pipeline_head(const larder__pipeline *p, larder__scratch *scratch, larder__origin *s) {
    s->denominator = 1;
    if (p->raw.h == 0)
        return larder__origin_head(s, scratch);
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
    } else if (v->upended) {
        int64_t top = e.filled.y0;
        e.at += (e.filled.y1 - e.filled.y0 - 1) * e.row;
        e.row = -e.row;
        e.filled.y0 = v->h - e.filled.y1;
        e.filled.y1 = v->h - top;
    }
    larder_tone drawn;
    const larder_tone *tone = &p->tone;
    if (!p->fixed_tone) {
        int rc = larder__pipeline_tone(p, p->worth, 1.0 / 255, seed, &drawn);
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

/* What stages do to a finished row. */
static int finish(const larder__pipeline *p, uint64_t seed, void *out) {
    larder_rng rng = {{1, 2, 3, 4}};
    int rc = 0;
    for (size_t i = p->worth; i < p->mixes && rc == 0; i++) {
        const larder__step *s = &p->steps[i];
        larder_tone after;
        if (!s->stage->late)
            continue;
        rc = larder__pipeline_tone(p, i + 1, 1, seed, &after);
        larder_row row = {.at = out, .shape = p->shape, .dtype = p->dtype, .layout = p->layout};
        memcpy(row.scale, after.scale, sizeof row.scale);
        memcpy(row.bias, after.bias, sizeof row.bias);
        if (rc == 0)
            rc = s->stage->late(s->state, &row, larder__step_chance(p, i, seed, &rng));
        if (rc < 0)
            return larder__fail_in(rc, "stage %s", s->stage->plugin.name);
    }
    return rc;
}

static int check_size(const larder__pipeline *p, const larder__origin *s, int64_t w, int64_t h) {
    if (w == p->shape.w && h == p->shape.h)
        return 0;
    return larder__fail(LARDER_E_FORMAT,
                        "a picture of %u x %u pixels became %lld x %lld, not %u x %u", s->seen_h,
                        s->seen_w, (long long)h, (long long)w, p->shape.h, p->shape.w);
}

/* The pixels of a canvas as where the next leg's come from. */
static larder__origin origin_of(const larder_canvas *k) {
    return (larder__origin){.bytes = k->at,
                            .size = (size_t)k->w * k->h * k->step,
                            .w = k->w,
                            .h = k->h,
                            .seen_w = k->w,
                            .seen_h = k->h,
                            .c = k->c,
                            .step = k->step,
                            .layout = LARDER_NHWC,
                            .denominator = 1};
}

/* The pixels of a leg; pic->at is NULL where there are none. */
static int fetch_leg(const larder__pipeline *p, size_t *at, larder__scratch *scratch,
                     larder__origin *s, uint64_t seed, bool mask, larder_view *v,
                     larder__picture *pic) {
    *pic = (larder__picture){0};
    larder__view_start(v, s->seen_w, s->seen_h);
    int rc = larder__leg_place(p, at, seed, v);
    if (mask) {
        v->filter = LARDER_NEAREST;
        memset(v->fill, 0, sizeof v->fill);
    }
    const larder_view needs = larder__view_needs(v);
    if (rc == 0 && (uint64_t)v->w * (uint64_t)v->h > LARDER__MAX_PIXELS)
        rc = larder__codec_limit("canvas", (uint64_t)v->w, (uint64_t)v->h);
    if (rc == 0 && larder__view_visible(&needs))
        rc = larder__gather(p->whole && s->codec, s, scratch, &needs, pic);
    return rc;
}

/* Everything that is done to pixels, on a canvas. */
static int paint(const larder__pipeline *p, larder__scratch *scratch, larder__origin *s,
                 uint64_t seed, larder__canvas *k) {
    int rc = 0;
    size_t at = 0;
    do {
        larder_view v;
        larder__picture pic;
        larder__origin laid = origin_of(&k->is);
        rc = fetch_leg(p, &at, scratch, at ? &laid : s, seed, k->is.mask, &v, &pic);
        if (rc == 0)
            rc = larder__canvas_lay(k, &pic, &v, at >= p->placed);
        if (rc == 0)
            rc = larder__leg_paint(p, &at, seed, k);
    } while (at < p->worth && rc == 0);
    return rc < 0 ? rc : check_size(p, s, k->is.w, k->is.h);
}

static int make_painted(const larder__pipeline *p, larder__scratch *scratch, larder__origin *s,
                        uint64_t seed, void *out) {
    larder__canvas k;
    larder_view v;
    larder__canvas_start(&k, scratch, p->shape.c, false);
    int rc = paint(p, scratch, s, seed, &k);
    if (rc < 0)
        return rc;
    larder__view_start(&v, k.is.w, k.is.h);
    const larder__picture pic = {k.is.at, (ptrdiff_t)k.is.w * k.is.step, k.is.step, 1, {0}};
    return emit(p, &v, &pic, seed, out);
}

/* Without a canvas, if one view says it all. */
static int make_placed(const larder__pipeline *p, larder__scratch *scratch, larder__origin *s,
                       uint64_t seed, void *out) {
    larder_view v;
    larder__picture pic = {0};
    size_t at = 0;
    larder__view_start(&v, s->seen_w, s->seen_h);
    int rc = larder__leg_place(p, &at, seed, &v);
    if (rc == 0 && (at < p->worth || larder__view_coloured(&v)))
        return make_painted(p, scratch, s, seed, out);
    if (rc == 0)
        rc = check_size(p, s, v.w, v.h);
    if (rc == 0 && larder__view_visible(&v))
        rc = larder__gather(p->whole, s, scratch, &v, &pic);
    return rc < 0 ? rc : emit(p, &v, &pic, seed, out);
}

int larder__pipeline_make(const larder__pipeline *p, larder__scratch *scratch, larder__origin *s,
                          uint64_t seed, void *out) {
    int rc = (p->paints ? make_painted : make_placed)(p, scratch, s, seed, out);
    if (rc == 0 && p->late)
        rc = finish(p, seed, out);
    larder__scratch_trim(scratch);
    return rc;
}

int larder__pipeline_run(const larder__pipeline *p, larder__scratch *scratch, const void *bytes,
                         size_t size, uint64_t seed, void *out) {
    larder__origin s = {.bytes = bytes, .size = size};
    int rc = larder__pipeline_head(p, scratch, &s);
    return rc < 0 ? rc : larder__pipeline_make(p, scratch, &s, seed, out);
}

int larder__pipeline_extent(const larder__pipeline *p, larder__scratch *scratch, const void *bytes,
                            size_t size, uint32_t *w, uint32_t *h) {
    larder__origin s = {.bytes = bytes, .size = size};
    int rc = larder__pipeline_head(p, scratch, &s);
    *w = rc < 0 ? 0 : s.w;
    *h = rc < 0 ? 0 : s.h;
    return rc;
}

int larder__pipeline_run_mask(const larder__pipeline *p, larder__scratch *scratch,
                              const void *bytes, size_t size, uint32_t w, uint32_t h, uint64_t seed,
                              void *out) {
    larder__origin s = {.bytes = bytes, .size = size, .denominator = 1};
    larder__canvas k;
    larder__canvas_start(&k, scratch, 1, true);
    scratch->indices = true;
    int rc = larder__origin_head(&s, scratch);
    s.seen_w = w ? w : s.w;
    s.seen_h = h ? h : s.h;
    if (rc == 0)
        rc = paint(p, scratch, &s, seed, &k);
    scratch->indices = false;
    if (rc == 0)
        memcpy(out, k.is.at, (size_t)k.is.w * k.is.h);
    larder__scratch_trim(scratch);
    return rc;
}

int larder__pipeline_reach(const larder__pipeline *p, uint32_t w, uint32_t h, uint64_t seed,
                           larder_rect *out) {
    const larder__origin s = {.w = w, .h = h, .seen_w = w, .seen_h = h};
    larder_view v = {0};
    *out = (larder_rect){0, 0, 1, 1, 1};
    int rc = larder__codec_limit("picture", w, h);
    size_t at = 0;
    larder__view_start(&v, w, h);
    if (rc == 0)
        rc = larder__leg_place(p, &at, seed, &v);
    if (rc == 0 && at == p->worth)
        rc = check_size(p, &s, v.w, v.h);
    const larder_view needs = larder__view_needs(&v);
    if (rc == 0 && larder__view_visible(&needs))
        *out = larder__gather_reach(&needs, w, h);
    return rc;
}

static float within(double v, uint32_t side) { return (float)(v < 0 ? 0 : v > side ? side : v); }

static void enclose(const double corner[8], larder_shape s, float *box) {
    double x0 = corner[0], y0 = corner[1], x1 = x0, y1 = y0;
    for (int i = 1; i < 4; i++) {
        x0 = corner[2 * i] < x0 ? corner[2 * i] : x0;
        y0 = corner[2 * i + 1] < y0 ? corner[2 * i + 1] : y0;
        x1 = corner[2 * i] > x1 ? corner[2 * i] : x1;
        y1 = corner[2 * i + 1] > y1 ? corner[2 * i + 1] : y1;
    }
    box[0] = within(x0, s.w);
    box[1] = within(y0, s.h);
    box[2] = within(x1, s.w);
    box[3] = within(y1, s.h);
}

int larder__pipeline_boxes(const larder__pipeline *p, uint32_t w, uint32_t h, uint64_t seed,
                           float *boxes, size_t n) {
    for (size_t i = 0; i < n; i++) {
        const float *b = boxes + 4 * i;
        double corner[8] = {b[0], b[1], b[2], b[1], b[0], b[3], b[2], b[3]};
        int rc = larder__pipeline_move(p, w, h, seed, corner, 4);
        if (rc < 0)
            return rc;
        enclose(corner, p->shape, boxes + 4 * i);
    }
    return 0;
}
