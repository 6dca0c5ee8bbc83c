#include "signal/graph_index.h"

#include "base/err.h"
#include "base/mem.h"
#include "signal/graph_guests.h"

enum {
    LEARN_LEAST = 256, /* rows of a class that a frame is learnt from */
    LEARN_MOST = 2048,
    HEAD_WHOLE = 3,  /* eighths: other classes are far enough away to show in that much */
    HEAD_SORTED = 2, /* and in less, where the widest dimensions come first */
    SETTLE = 128     /* rows after which a new frame's share outside is known */
};

int larder__graph_index_open(larder__graph_index *s, const larder__graph_conf *conf, bool frames) {
    *s = (larder__graph_index){.conf = *conf, .frames = frames};
    s->centres.dim = conf->dim;
    uint32_t head = conf->budget ? HEAD_WHOLE : HEAD_SORTED;
    int rc = larder__graph_store_open(&s->whole, conf->n, conf->dim, head, false);
    if (rc == 0 && !conf->budget && s->whole.head)
        rc = larder__graph_order_open(&s->order, conf->dim, conf->n);
    if (rc == 0 && frames) {
        rc = larder__graph_store_open(&s->shorts, conf->n, conf->project, LARDER__HEAD_SHORT, true);
        if (rc == 0)
            rc = larder__graph_guests_open(s);
        s->space = (larder__graph_space){conf->dim, conf->project, s->shorts.dims};
    }
    return rc;
}

void larder__graph_index_close(larder__graph_index *s) {
    for (uint32_t c = 0; c < s->part_count; c++)
        larder__graph_frame_free(&s->parts[c].frame);
    larder__free(s->parts);
    larder__free(s->values);
    larder__graph_order_close(&s->order);
    larder__graph_centres_free(&s->centres);
    larder__graph_store_close(&s->whole);
    larder__graph_store_close(&s->shorts);
    larder__graph_guests_close(s);
}

/* ---- classes --------------------------------------------------------------------------------- */

static int make_parts(larder__graph_index *s, uint32_t count) {
    if (count <= s->part_count)
        return 0;
    larder__graph_part *parts = larder__realloc(s->parts, count * sizeof *parts);
    if (!parts)
        return larder__fail(LARDER_E_NOMEM, "graph: no memory for %u classes", count);
    s->parts = parts;
    memset(parts + s->part_count, 0, (count - s->part_count) * sizeof *parts);
    s->part_count = count;
    return 0;
}

/* The whole rows' store comes last: without memory for all, it has the fewest classes. */
static int make_classes(larder__graph_index *s, uint32_t count) {
    int rc = s->conf.budget ? larder__graph_centres_grow(&s->centres, count) : 0;
    if (rc == 0 && s->frames)
        rc = larder__graph_store_classes(&s->shorts, count);
    if (rc == 0 && s->frames)
        rc = larder__graph_store_classes(&s->guests, count);
    if (rc == 0 && s->conf.budget)
        rc = make_parts(s, count);
    return rc < 0 ? rc : larder__graph_store_classes(&s->whole, count);
}

/* Rows to learn a frame from: an eighth of a class as large as the mean, within limits, so that
 * whole rows never need more memory than the codes will. */
static uint32_t rows_to_learn(const larder__graph_index *s) {
    if (s->conf.learn)
        return s->conf.learn;
    uint64_t eighth = s->conf.n / 8 / s->whole.class_count;
    return (uint32_t)(eighth < LEARN_LEAST  ? LEARN_LEAST
                      : eighth > LEARN_MOST ? LEARN_MOST
                                            : eighth);
}

/* ---- learning a frame ------------------------------------------------------------------------ */

typedef int row_fn(larder__graph_index *s, uint32_t class, uint32_t id, const float *values,
                   void *arg);

/* All whole rows of a class, as values. */
static int each_row(larder__graph_index *s, uint32_t class, row_fn *fn, void *arg) {
    uint8_t codes[LARDER__DIM_MAX];
    float values[LARDER__DIM_MAX];
    int rc = 0;
    uint32_t chunk = s->whole.classes[class].first;
    for (; chunk != LARDER__NO_CHUNK; chunk = s->whole.chunks[chunk].next)
        for (uint32_t lane = 0; rc == 0 && lane < larder__chunk_used(&s->whole, chunk); lane++) {
            larder__chunk_get(&s->whole, chunk, lane, codes);
            larder__graph_scale_values(&s->scale, codes, s->conf.dim, values);
            rc = fn(s, class, larder__chunk_ids(&s->whole, chunk)[lane], values, arg);
        }
    return rc;
}

static int copy_row(larder__graph_index *s, uint32_t class, uint32_t id, const float *values,
                    void *arg) {
    float **to = arg;
    (void)class, (void)id;
    memcpy(*to, values, s->conf.dim * sizeof *values);
    *to += s->conf.dim;
    return 0;
}

static int put_short(larder__graph_index *s, uint32_t class, uint32_t id, const float *values,
                     void *arg) {
    uint8_t codes[LARDER__DIM_MAX];
    int32_t row_const;
    larder__graph_frame_code(&s->parts[class].frame, &s->space, true, &values, 1, codes, &row_const,
                             arg);
    int rc = larder__graph_store_put(&s->shorts, id, class, codes, row_const);
    if (rc == 0 && larder__graph_store_holds(&s->guests, id))
        larder__graph_store_hide(&s->shorts, id);
    return rc;
}

typedef struct turning {
    larder__graph_turn turn;
    const larder__graph_space *space;
} turning;

static void turn_row(const void *arg, uint8_t *codes, int32_t *row_const) {
    const turning *t = arg;
    larder__graph_turn_code(&t->turn, t->space, codes, row_const);
}

/* Puts the frame in place of the old one, if there was one, and turns the codes. */
static int change_frame(larder__graph_index *s, uint32_t class, const larder__graph_frame *fresh) {
    larder__graph_part *p = &s->parts[class];
    if (p->framed) {
        turning t = {.space = &s->space};
        int rc = larder__graph_turn_make(&t.turn, &s->space, &p->frame, fresh);
        if (rc < 0)
            return rc;
        larder__graph_store_rewrite_class(&s->shorts, class, turn_row, &t);
        larder__graph_store_rewrite_class(&s->guests, class, turn_row, &t);
        larder__graph_turn_free(&t.turn);
        larder__graph_frame_free(&p->frame);
    }
    p->frame = *fresh;
    return 0;
}

static int learn(larder__graph_index *s, uint32_t class) {
    larder__graph_part *p = &s->parts[class];
    size_t count = s->whole.classes[class].rows;
    float *rows = larder__malloc(count * s->conf.dim * sizeof *rows), *at = rows;
    if (!rows)
        return larder__fail(LARDER_E_NOMEM, "graph: no memory to learn from %zu rows", count);
    each_row(s, class, copy_row, &at);
    larder__graph_frame fresh;
    int rc = larder__graph_frame_learn(&fresh, &s->space, rows, count, s->conf.seed + class);
    larder__free(rows);
    if (rc < 0)
        return rc;
    rc = change_frame(s, class, &fresh);
    if (rc < 0) {
        larder__graph_frame_free(&fresh);
        return rc;
    }
    rc = each_row(s, class, put_short, NULL);
    if (rc < 0) { /* only for want of memory for new rows, hence without an old frame */
        larder__graph_store_drop(&s->shorts, class);
        larder__graph_frame_free(&p->frame);
        return rc;
    }
    larder__graph_store_drop(&s->whole, class);
    p->framed = true;
    p->collect = false;
    p->coded = 0;
    return 0;
}

/* ---- entering -------------------------------------------------------------------------------- */

/* Takes note of how much of a row lies outside of its frame. */
static void watch(larder__graph_part *p, float outside) {
    larder__graph_frame *f = &p->frame;
    if (p->coded < SETTLE) {
        p->coded++;
        f->lately = p->coded == 1 ? outside : f->lately + (outside - f->lately) / (float)p->coded;
        f->outside = f->lately;
        return;
    }
    f->lately += (outside - f->lately) / SETTLE;
    if (f->lately > 1.5f * f->outside + 0.02f)
        p->collect = true;
}

static int enter(larder__graph_index *s, uint32_t id, uint32_t class, const float *x,
                 const uint8_t *codes, int32_t row_const) {
    if (!s->conf.budget)
        return larder__graph_store_put(&s->whole, id, class, codes, row_const);
    larder__graph_part *p = &s->parts[class];
    int rc = 0;
    larder__graph_centres_follow(&s->centres, class, x);
    if (larder__graph_framed(s, class)) {
        float outside = 0;
        larder__graph_store_remove(&s->guests, id);
        rc = put_short(s, class, id, x, &outside);
        if (rc == 0 && p->coded == SETTLE)
            rc = larder__graph_guests_consider(s, id, class, x, outside);
        watch(p, outside);
    }
    if (rc == 0 && (!larder__graph_framed(s, class) || p->collect))
        rc = larder__graph_store_put(&s->whole, id, class, codes, row_const);
    if (rc == 0 && s->frames && s->whole.classes[class].rows >= rows_to_learn(s))
        rc = learn(s, class);
    return rc;
}

static int make_room(larder__graph_index *s, size_t n) {
    if (n <= s->room)
        return 0;
    larder__free(s->values);
    s->values = larder__malloc(n * s->conf.dim * sizeof *s->values);
    s->room = s->values ? n : 0;
    return s->values ? 0 : larder__fail(LARDER_E_NOMEM, "graph: no memory for a batch of %zu", n);
}

int larder__graph_index_enter(larder__graph_index *s, const larder_engine_rows *in) {
    uint32_t dim = s->conf.dim, dims = s->whole.dims;
    uint8_t codes[LARDER__DIM_MAX];
    int rc = make_room(s, in->n);
    if (rc == 0)
        larder__graph_scale_follow(&s->scale, &s->whole, in->x, in->n * dim, s->values);
    if (rc == 0)
        larder__graph_order_follow(&s->order, &s->whole, in->x, in->n);
    s->waiting.count = 0;
    for (size_t i = 0; rc == 0 && i < in->n; i++) {
        const float *x = in->x + i * dim;
        int32_t row_const;
        larder__graph_scale_code(&s->scale, x, dim, dims, codes, &row_const);
        larder__graph_order_put(&s->order, codes);
        uint32_t class = larder__graph_class_of(s, in->ids[i], in->classes[i]);
        rc = make_classes(s, class + 1);
        if (rc == 0)
            rc = enter(s, in->ids[i], class, x, codes, row_const);
    }
    return rc == 0 && s->frames ? larder__graph_guests_flush(s) : rc;
}

/* ---- size and saved state -------------------------------------------------------------------- */

uint64_t larder__graph_index_rows(const larder__graph_index *s) {
    uint64_t sum = 0;
    for (uint32_t c = 0; c < s->whole.class_count; c++)
        sum += larder__graph_store_of(s, c)->classes[c].rows;
    return sum;
}

uint64_t larder__graph_index_bytes(const larder__graph_index *s) {
    uint64_t sum = larder__graph_store_bytes(&s->whole) + larder__graph_centres_bytes(&s->centres) +
                   larder__graph_order_bytes(&s->order) + s->part_count * sizeof *s->parts;
    if (s->frames)
        sum += larder__graph_store_bytes(&s->shorts) + larder__graph_guests_bytes(s);
    for (uint32_t c = 0; c < s->part_count; c++)
        sum += larder__graph_framed(s, c) ? larder__graph_frame_bytes(&s->space) : 0;
    return sum;
}

void larder__graph_index_save(const larder__graph_index *s, larder_writer *w) {
    larder__graph_scale_save(&s->scale, w);
    larder__graph_store_save(&s->whole, w);
    if (s->order.at)
        larder__graph_order_save(&s->order, w);
    if (s->conf.budget)
        larder__graph_centres_save(&s->centres, w);
    if (!s->frames)
        return;
    larder__graph_store_save(&s->shorts, w);
    for (uint32_t c = 0; c < s->whole.class_count; c++) {
        const larder__graph_part *p = &s->parts[c];
        larder_write_u32(w, (uint32_t)p->framed | (uint32_t)p->collect << 1);
        larder_write_u32(w, p->coded);
        if (p->framed)
            larder__graph_frame_save(&p->frame, &s->space, w);
    }
    larder__graph_store_save(&s->guests, w);
}

static int load_parts(larder__graph_index *s, larder_reader *r) {
    for (uint32_t c = 0; c < s->whole.class_count; c++) {
        larder__graph_part *p = &s->parts[c];
        uint32_t flags = larder_read_u32(r);
        p->coded = larder_read_u32(r);
        if (flags > 3 || flags == 2 || p->coded > SETTLE || larder_read_status(r) < 0)
            return larder_read_reject(r, "a class of its index has an impossible state");
        if ((!(flags & 1) && s->shorts.classes[c].rows) || (flags == 1 && s->whole.classes[c].rows))
            return larder_read_reject(r, "a class of its index is held in two ways");
        int rc = flags & 1 ? larder__graph_frame_load(&p->frame, &s->space, r) : 0;
        p->framed = flags & 1 && rc == 0;
        p->collect = flags & 2;
        if (rc < 0)
            return rc;
    }
    for (uint32_t c = s->whole.class_count; c < s->shorts.class_count; c++)
        if (s->shorts.classes[c].rows)
            return larder_read_reject(r, "a class of its index has no frame");
    return 0;
}

/* Rows that are kept in both forms are of one class. */
static int check_places(const larder__graph_index *s, larder_reader *r) {
    for (uint32_t id = 0; id < s->conf.n; id++)
        if (larder__graph_store_holds(&s->whole, id)) {
            uint32_t class = larder__graph_store_class(&s->whole, id);
            bool both = larder__graph_store_holds(&s->shorts, id);
            if (both != s->parts[class].framed ||
                (both && larder__graph_store_class(&s->shorts, id) != class))
                return larder_read_reject(r, "a sample of its index has two classes");
        }
    return 0;
}

int larder__graph_index_load(larder__graph_index *s, larder_reader *r) {
    int rc = larder__graph_scale_load(&s->scale, r);
    if (rc == 0)
        rc = larder__graph_store_load(&s->whole, r);
    if (rc == 0 && s->order.at)
        rc = larder__graph_order_load(&s->order, r);
    if (rc == 0 && s->conf.budget)
        rc = larder__graph_centres_load(&s->centres, r);
    if (rc == 0 && s->frames)
        rc = larder__graph_store_load(&s->shorts, r);
    if (rc == 0)
        rc = make_classes(s, s->whole.class_count);
    if (rc == 0 && s->frames && s->shorts.class_count < s->whole.class_count)
        return larder_read_reject(r, "its index has two numbers of classes");
    if (rc == 0 && s->frames)
        rc = load_parts(s, r);
    if (rc == 0 && s->frames)
        rc = check_places(s, r);
    return rc == 0 && s->frames ? larder__graph_guests_load(s, r) : rc;
}
