/* Rows that are left to the device: what is to be done to them is written down. */
#include "loader/fill/freight_inside.h"

#include "base/err.h"
#include "base/mem.h"
#include "stage/blueprint.h"
#include "stage/margin.h"
#include "stage/splice.h"

#include <string.h>

/* ---- writing down ---------------------------------------------------------------------------- */

int larder__orders_open(larder__orders **out, size_t rows, size_t views) {
    larder__orders *o = *out = larder__calloc(1, sizeof *o + rows * sizeof *o->each);
    if (!o || !(o->jobs = larder__calloc(rows * views, sizeof *o->jobs)))
        return LARDER_E_NOMEM;
    o->rows = rows;
    o->views = views;
    return 0;
}

void larder__order_drop(larder__order *o) {
    larder_buf_unref(&o->bytes);
    larder_buf_unref(&o->spliced);
}

void larder__orders_close(larder__orders **po) {
    larder__orders *o = *po;
    *po = NULL;
    if (!o)
        return;
    for (size_t i = 0; i < o->rows; i++)
        larder__order_drop(&o->each[i]);
    larder__free(o->jobs);
    larder__free(o);
}

static larder__levels_axis axis_of(const larder__axis *a) {
    return (larder__levels_axis){.in0 = a->in0,
                                 .in1 = a->in1,
                                 .lo = a->lo,
                                 .hi = a->hi,
                                 .full = a->full,
                                 .first = a->first,
                                 .last = a->last,
                                 .filter = (int32_t)a->filter,
                                 .aliased = a->aliased};
}

static int32_t how_of(const larder__window *w) {
    if (!w->resampled)
        return LARDER__LEVELS_PLAIN;
    if (w->x.filter == LARDER_NEAREST)
        return LARDER__LEVELS_NEAREST;
    if (w->x.filter == LARDER_BICUBIC)
        return w->x.aliased ? LARDER__LEVELS_SMOOTH_WITHIN : LARDER__LEVELS_SHARP;
    return LARDER__LEVELS_SMOOTH;
}

/* False: it looks at more than the device's code has room for. */
static bool job_of(const larder__blueprint *b, larder__levels_job *j) {
    const larder__window *w = &b->window;
    const larder__rect *f = &b->filled, *r = &w->rect;
    *j = (larder__levels_job){
        .x = axis_of(&w->x),
        .y = axis_of(&w->y),
        .how = how_of(w),
        .flipped = b->flipped,
        .upended = b->upended,
        .plain_x = (int32_t)r->x0,
        .plain_y = (int32_t)r->y0,
        .reach = {(int32_t)r->x0, (int32_t)r->x1},
        .filled = {(int32_t)f->x0, (int32_t)f->y0, (int32_t)f->x1, (int32_t)f->y1},
        .recolours = (int32_t)b->colours.count};
    memcpy(j->fill, b->fill, sizeof j->fill);
    for (uint32_t i = 0; i < b->colours.count; i++) {
        j->recolour[i].op = b->colours.each[i].op;
        j->recolour[i].by = b->colours.each[i].by;
    }
    return r->x1 - r->x0 <= LARDER__LEVELS_LINE || j->how == LARDER__LEVELS_PLAIN ||
           j->how == LARDER__LEVELS_NEAREST || j->how == LARDER__LEVELS_SHARP;
}

typedef struct sight { /* of a sample: what stages take it for, and the JPEG that is to be decoded
                        */
    uint32_t w, h, seen_w, seen_h;
    size_t skip;
    bool part;
} sight;

static bool look(const uint8_t *bytes, size_t size, larder_form form, sight *s,
                 larder__plain_jpeg *jpeg) {
    struct {
        uint32_t w, h;
    } was; /* in front of a shrunk sample: pixels_head of pipeline_forms.c */
    *s = (sight){.skip = form == LARDER_SHRUNK ? sizeof was : 0};
    larder__part_view v;
    if (size <= s->skip)
        return false;
    if (form == LARDER_ENCODED && larder__part_mine(bytes, size)) {
        s->part = larder__part_parse(&v, bytes, size) == 0;
        s->w = s->seen_w = v.about.grid.w;
        s->h = s->seen_h = v.about.grid.h;
        return s->part;
    }
    if (!larder__jpeg_is_plain(bytes + s->skip, size - s->skip, jpeg))
        return false;
    s->w = s->seen_w = jpeg->w;
    s->h = s->seen_h = jpeg->h;
    if (form == LARDER_SHRUNK) {
        memcpy(&was, bytes, sizeof was);
        s->seen_w = was.w;
        s->seen_h = was.h;
    }
    return larder__codec_limit("sample", s->seen_w, s->seen_h) == 0;
}

/* The part of a packed picture that a row looks at, as a JPEG of its own. */
static bool splice(larder__order *o, const uint8_t *bytes, size_t size, const larder__blueprint *b,
                   larder__plain_jpeg *jpeg) {
    const larder__rect *r = &b->window.rect;
    larder_rect want = {(uint32_t)r->x0, (uint32_t)r->y0, (uint32_t)r->x1, (uint32_t)r->y1, 1};
    larder__splice s;
    if (r->x1 <= r->x0 || larder__splice_plan(&s, bytes, size, want, LARDER__PART_MARGIN) < 0)
        return false;
    larder_buf *to = larder_buf_new(s.size);
    int64_t n = to ? larder__splice_write(&s, larder_buf_data(to)) : -1;
    larder_buf_unref(&o->spliced);
    o->spliced = to;
    o->jpeg = to ? larder_buf_data(to) : NULL;
    o->size = n < 0 ? 0 : (size_t)n;
    o->picture.left = (int32_t)s.x;
    o->picture.top = (int32_t)s.y;
    if (n < 0 || !larder__jpeg_is_plain(larder_buf_data(to), (size_t)n, jpeg))
        return false;
    return jpeg->w == s.w && jpeg->h == s.h;
}

/* libjpeg widens the colour of pictures this narrow otherwise. */
static bool wide_enough(const larder__plain_jpeg *j) {
    return (j->colour != LARDER__HALF_WIDTH && j->colour != LARDER__HALF_BOTH) || j->w > 4;
}

/* Halved colours go through planes, which costs more than the cores take for them. */
static bool worth_it(const larder__freight *d, const larder__plain_jpeg *j) {
    bool halved = j->colour != LARDER__GREY && j->colour != LARDER__WHOLE;
    return !halved || d->fast || d->decode != LARDER__DECODE_AUTO ||
           !larder__jpegs_engine(d->decoder.jpegs);
}

/* What a view looks at, beside what others do. */
static void reach_for(larder__levels_reach *to, const larder__rect *r, const sight *s, bool first) {
    larder__levels_reach one = {r->x0 > 0 ? (int32_t)r->x0 : 0, r->y0 > 0 ? (int32_t)r->y0 : 0,
                                r->x1 < s->w ? (int32_t)r->x1 : (int32_t)s->w,
                                r->y1 < s->h ? (int32_t)r->y1 : (int32_t)s->h};
    if (!first) {
        one.x0 = one.x0 < to->x0 ? one.x0 : to->x0;
        one.y0 = one.y0 < to->y0 ? one.y0 : to->y0;
        one.x1 = one.x1 > to->x1 ? one.x1 : to->x1;
        one.y1 = one.y1 > to->y1 ? one.y1 : to->y1;
    }
    *to = one;
}

static bool write_down(larder_loader *l, larder__orders *to, size_t row, larder_buf *bytes,
                       larder_form form, uint64_t seed) {
    larder__order *o = &to->each[row];
    const uint8_t *data = larder_buf_data(bytes);
    size_t size = larder_buf_size(bytes);
    larder__plain_jpeg jpeg = {0};
    sight s;
    if ((form != LARDER_ENCODED && form != LARDER_SHRUNK) || !look(data, size, form, &s, &jpeg))
        return false;
    o->picture = (larder__levels_picture){0};
    o->jpeg = data + s.skip;
    o->size = size - s.skip;
    for (size_t v = 0; v < to->views; v++) {
        larder__blueprint b;
        if (larder__pipeline_blueprint(l->pipeline, s.w, s.h, s.seen_w, s.seen_h,
                                       larder__view_seed(seed, v), &b) != 1 ||
            !job_of(&b, &to->jobs[row * to->views + v]) ||
            (s.part && (to->views > 1 || !splice(o, data, size, &b, &jpeg))))
            return false;
        reach_for(&o->reach, &b.window.rect, &s, v == 0);
    }
    if (s.part) /* it is a part already */
        o->reach = (larder__levels_reach){0};
    o->picture.w = (int32_t)jpeg.w;
    o->picture.h = (int32_t)jpeg.h;
    o->picture.colour = (int32_t)jpeg.colour;
    return worth_it(l->device, &jpeg) && wide_enough(&jpeg) &&
           larder__jpeg_planes(&o->picture, 0) <= LARDER__FREIGHT_BYTES;
}

bool larder__freight_order(larder_loader *l, larder__place *p, size_t row, larder_buf *bytes,
                           larder_form form, uint64_t seed) {
    larder__order *o = &p->orders->each[row];
    larder__order_drop(o);
    if (!write_down(l, p->orders, row, bytes, form, seed)) {
        larder__order_drop(o);
        return false;
    }
    o->bytes = larder_buf_ref(bytes);
    if (o->size <= l->row_bytes)
        o->jpeg = memcpy(p->x + row * l->row_bytes, o->jpeg, o->size);
    return true;
}
