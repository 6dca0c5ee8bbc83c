#include "loader/draw/picture_parts.h"

#include "base/err.h"
#include "base/hash.h"
#include "base/mem.h"

typedef struct cover { /* pixels that the cache holds of a sample; only of residents */
    uint16_t x0, y0, x1, y1;
    uint16_t shrink; /* decides the margin; 0: all of it, with no parts to speak of */
} cover;

struct larder__parts {
    larder__parts_conf conf;
    larder__pipeline *own; /* when none was given */
    cover *covers;         /* of each id; NULL unless `keep` */
};

int larder__parts_open(larder__parts **out, const larder__parts_conf *conf) {
    larder__parts *p = *out = larder__calloc(1, sizeof *p);
    if (!p)
        return LARDER_E_NOMEM;
    p->conf = *conf;
    int rc = 0;
    if (!conf->pipeline) {
        larder__pipeline_conf pipe = {.spec = conf->augment, .dtype = LARDER_F32};
        rc = larder__pipeline_open(&p->own, &pipe);
        p->conf.pipeline = p->own;
    }
    if (rc == 0 && conf->keep) {
        p->covers = larder__calloc(larder__data_about(conf->data)->count, sizeof *p->covers);
        rc = p->covers ? 0 : LARDER_E_NOMEM;
    }
    if (rc < 0)
        larder__parts_close(out);
    return rc;
}

void larder__parts_close(larder__parts **pp) {
    larder__parts *p = *pp;
    *pp = NULL;
    if (!p)
        return;
    larder__pipeline_close(&p->own);
    larder__free(p->covers);
    larder__free(p);
}

bool larder__parts_keep(const larder__parts *p) { return p && p->conf.keep; }

uint64_t larder__place_seed(uint64_t seed, uint64_t batch, uint32_t rank, uint32_t world,
                            uint64_t number, size_t row) {
    uint64_t place = number * batch * world + rank * batch + row;
    return larder__mix64(seed ^ larder__mix64(place + 1));
}

/* ---- rectangles ------------------------------------------------------------------------------ */

larder_rect larder__parts_whole(const larder__parts *p, uint64_t id) {
    larder_rect r = {.shrink = 1};
    if (larder__data_extent(p->conf.data, id, &r.x1, &r.y1) < 0)
        r.x1 = r.y1 = 0;
    return r;
}

larder_rect larder__parts_need(const larder__parts *p, uint64_t number, size_t row, uint64_t id) {
    const larder__parts_conf *c = &p->conf;
    larder_rect whole = larder__parts_whole(p, id), need;
    uint64_t seed = number > UINT64_MAX / 2 /* evaluation */
                        ? LARDER__NO_CHANCE
                        : larder__place_seed(c->seed, c->batch, c->rank, c->world, number, row);
    /* A picture that the stages refuse is read whole, and refused again when it is decoded. */
    return whole.x1 && larder__pipeline_reach(c->pipeline, whole.x1, whole.y1, seed, &need) == 0
               ? need
               : whole;
}

uint32_t larder__parts_bytes(const larder__parts *p, uint64_t id, const larder_rect *r) {
    uint32_t bytes = 0;
    if (r->x1 && larder__data_part_bytes(p->conf.data, id, r, &bytes) == 0)
        return bytes;
    larder_sample s = {0};
    larder_rect whole = larder__parts_whole(p, id);
    if (r->x1 && larder__data_part_bytes(p->conf.data, id, &whole, &bytes) == 0)
        return bytes;
    return larder__data_stat(p->conf.data, id, &s) == 0 ? s.bytes : 0;
}

/* ---- what the cache holds -------------------------------------------------------------------- */

static uint32_t lower(uint32_t a, uint32_t b) { return a < b ? a : b; }
static uint32_t higher(uint32_t a, uint32_t b) { return a > b ? a : b; }

static bool covers(const cover *c, const larder_rect *r) {
    return c->shrink == 0 || (c->x0 <= r->x0 && c->y0 <= r->y0 && c->x1 >= r->x1 &&
                              c->y1 >= r->y1 && c->shrink >= r->shrink);
}

static larder_rect both(const cover *c, const larder_rect *r) {
    return (larder_rect){lower(c->x0, r->x0), lower(c->y0, r->y0), higher(c->x1, r->x1),
                         higher(c->y1, r->y1), higher(c->shrink, r->shrink)};
}

static larder_rect rect_of(const cover *c) {
    return (larder_rect){c->x0, c->y0, c->x1, c->y1, c->shrink};
}

larder_rect larder__parts_hold(const larder__parts *p, uint64_t number, size_t row, uint64_t id,
                               bool resident) {
    larder_rect need = larder__parts_need(p, number, row, id);
    const cover *c = &p->covers[id];
    if (!resident || need.x1 == 0)
        return need;
    return covers(c, &need) ? (c->shrink ? rect_of(c) : larder__parts_whole(p, id))
                            : both(c, &need);
}

void larder__parts_held(larder__parts *p, uint64_t id, const larder_rect *r) {
    p->covers[id] = (cover){(uint16_t)r->x0, (uint16_t)r->y0, (uint16_t)r->x1, (uint16_t)r->y1,
                            (uint16_t)(r->x1 ? r->shrink : 0)};
}

bool larder__parts_holds(const larder__parts *p, uint64_t number, size_t row, uint64_t id) {
    larder_rect need = larder__parts_need(p, number, row, id);
    return covers(&p->covers[id], &need);
}

/* ---- saved state ----------------------------------------------------------------------------- */

void larder__parts_save(const larder__parts *p, const larder_slots *slots, larder_writer *w) {
    for (uint32_t s = 0; s < slots->used; s++) {
        if (slots->key_of[s] == UINT32_MAX)
            continue;
        const cover *c = &p->covers[slots->key_of[s]];
        larder_write_u32(w, (uint32_t)c->x0 | (uint32_t)c->y0 << 16);
        larder_write_u32(w, (uint32_t)c->x1 | (uint32_t)c->y1 << 16);
        larder_write_u32(w, c->shrink);
    }
}

static bool cover_fits(const larder__parts *p, uint64_t id, const cover *c) {
    larder_rect whole = larder__parts_whole(p, id);
    if (whole.x1 == 0 || c->shrink == 0)
        return whole.x1 == 0 && c->shrink == 0;
    return c->x0 < c->x1 && c->y0 < c->y1 && c->x1 <= whole.x1 && c->y1 <= whole.y1 &&
           c->shrink <= 8;
}

int larder__parts_load(larder__parts *p, const larder_slots *slots, larder_reader *r) {
    for (uint32_t s = 0; s < slots->used; s++) {
        if (slots->key_of[s] == UINT32_MAX)
            continue;
        uint32_t start = larder_read_u32(r), end = larder_read_u32(r), shrink = larder_read_u32(r);
        cover c = {(uint16_t)(start & 0xffff), (uint16_t)(start >> 16), (uint16_t)(end & 0xffff),
                   (uint16_t)(end >> 16), (uint16_t)lower(shrink, 0xffff)};
        if (larder_read_status(r) == 0 && !cover_fits(p, slots->key_of[s], &c))
            return larder_read_reject(r, "the cache holds pixels that a picture does not have");
        p->covers[slots->key_of[s]] = c;
    }
    return larder_read_status(r);
}
