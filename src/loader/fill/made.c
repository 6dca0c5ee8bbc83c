/* What becomes of samples by functions of the program's own (larder_own_maker): parcels, whose
 * fields are columns, or one parcel of a whole batch. */
#include "base/err.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/parcel.h"
#include "loader/fill/joint.h"
#include "source/answer.h"
#include "stage/codec.h"

#include <stdio.h>

typedef struct making { /* samples that are made together */
    size_t rows[LARDER__ROWS_AT_ONCE];
    uint64_t ids[LARDER__ROWS_AT_ONCE], chances[LARDER__ROWS_AT_ONCE];
    larder_buf *in[LARDER__ROWS_AT_ONCE];
    larder_read out[LARDER__ROWS_AT_ONCE];
    size_t n;
} making;

/* A picture that the stages have made, as a parcel of one array. */
static int picture_in(larder_loader *l, larder__scratch *scratch, larder_buf *bytes,
                      larder_form form, uint64_t seed, larder_buf **out) {
    larder_shape s = larder__pipeline_shape(l->pipeline);
    bool planes = l->conf.layout == LARDER_NCHW;
    larder__field f = {.kind = LARDER__FIELD_ARRAY,
                       .dtype = l->conf.dtype,
                       .ndim = 3,
                       .shape = {planes ? s.c : s.h, planes ? s.h : s.w, planes ? s.w : s.c},
                       .name = "",
                       .bytes = larder__pipeline_bytes(l->pipeline)};
    int rc = larder__parcel_make(out, &f, 1);
    if (rc == 0)
        rc = larder__pixels_make(l, scratch, bytes, form, seed, (void *)(uintptr_t)f.data);
    if (rc < 0)
        larder_buf_unref(out);
    return rc;
}

/* All pixels of a picture in the order h, w, c, as a parcel of one array. */
static int levels_in(const larder_item *item, larder_buf **out) {
    larder_shape s = item->shape;
    larder__field f = {.kind = LARDER__FIELD_ARRAY,
                       .dtype = LARDER_U8,
                       .ndim = 3,
                       .shape = {s.h, s.w, s.c},
                       .name = "",
                       .bytes = item->bytes};
    int rc = larder__parcel_make(out, &f, 1);
    if (rc < 0)
        return rc;
    const uint8_t *from = item->data;
    uint8_t *to = (void *)(uintptr_t)f.data;
    size_t plane = (size_t)s.h * s.w;
    if (item->layout == LARDER_NHWC || s.c == 1)
        memcpy(to, from, item->bytes);
    else
        for (size_t i = 0; i < plane; i++)
            for (size_t c = 0; c < s.c; c++)
                *to++ = from[c * plane + i];
    return 0;
}

static int bytes_in(larder_buf *bytes, larder_buf **out) {
    larder__field f = {.kind = LARDER__FIELD_BYTES,
                       .dtype = LARDER_U8,
                       .name = "",
                       .data = larder_buf_data(bytes),
                       .bytes = larder_buf_size(bytes)};
    return larder__parcel_make(out, &f, 1);
}

/* Does no decoder of this build know what these are? */
static bool is_strange(larder_loader *l, larder_buf *bytes, int rc) {
    size_t size = larder_buf_size(bytes);
    return !l->cage && /* what is in a cage stays there: PIL would decode outside of it */
           (rc == LARDER_E_UNSUPPORTED ||
            (rc == LARDER_E_FORMAT && larder__data_about(l->data)->raw.h == 0 && size &&
             !larder__codec_find(larder_buf_data(bytes), size)));
}

static int whole_in(larder_loader *l, larder__scratch *scratch, larder_buf *bytes,
                    larder_buf **out) {
    larder_buf *pixels = NULL;
    larder_item item = {0};
    int rc = larder__pipeline_decode(l->pipeline, scratch, bytes, SIZE_MAX, &pixels);
    if (rc < 0)
        return is_strange(l, bytes, rc) ? bytes_in(bytes, out) : rc;
    rc = larder__pipeline_pixels(l->pipeline, pixels, &item);
    if (rc == 0)
        rc = levels_in(&item, out);
    larder_buf_unref(&pixels);
    return rc;
}

/* What the program's function is given of a sample; takes over the reference. */
static int given_of(larder_loader *l, larder__scratch *scratch, larder_buf **bytes,
                    larder_form form, uint64_t seed, larder_buf **out) {
    int rc = 0;
    *out = NULL;
    if (larder__data_about(l->data)->parcels) { /* the program's own are, too */
        *out = *bytes;
        *bytes = NULL;
    } else if (l->maker.pictures)
        rc = whole_in(l, scratch, *bytes, out);
    else
        rc = picture_in(l, scratch, *bytes, form, seed, out);
    larder_buf_unref(bytes);
    return rc;
}

/* Calls it; every out[i] of so many answers is filled, whatever it says. */
static void call(larder_loader *l, const uint64_t *ids, const uint64_t *chances,
                 larder_buf *const *in, size_t n, larder_read *out, size_t answers) {
    for (size_t i = 0; i < answers; i++)
        out[i] = (larder_read){.code = LARDER_E_STATE, .why = "it was not answered"};
    int rc = l->maker.make(l->maker.arg, ids, chances, in, n, out);
    for (size_t i = 0; i < answers; i++) {
        if (rc < 0)
            larder__answer_failure(&out[i], rc);
        else if (out[i].code == 0 && !out[i].buf)
            larder__answer_failure(&out[i], larder__fail(LARDER_E_FORMAT, "nothing came of it"));
    }
}

int larder__made_first(larder_loader *l, larder__scratch *scratch, uint64_t id, larder_buf *bytes,
                       larder_buf **out) {
    uint64_t chance = larder__mix64(l->conf.seed ^ id) >> 1;
    larder_buf *in = NULL, *lent = larder_buf_ref(bytes);
    larder_read read = {0};
    int rc = given_of(l, scratch, &lent, LARDER_ENCODED, chance, &in);
    if (rc == 0)
        call(l, &id, &chance, &in, 1, &read, 1);
    larder_buf_unref(&in);
    if (rc == 0 && read.code < 0)
        rc = larder__fail(read.code, "%s", read.why);
    *out = read.buf;
    return rc < 0 ? larder__row_blame(l, id, rc) : 0;
}

/* One sample by itself, in place of one that was bad. */
int larder__made_row(larder_loader *l, larder__scratch *scratch, larder__place *p, size_t row,
                     uint64_t id, larder_buf *bytes, larder_form form, uint64_t seed,
                     int32_t label) {
    larder_buf *in = NULL, *lent = larder_buf_ref(bytes);
    larder_read read = {0};
    int rc = given_of(l, scratch, &lent, form, seed, &in);
    if (rc == 0 && l->maker.whole) {
        p->bytes[row] = in;
        p->y[row] = label;
        return 0;
    }
    if (rc == 0) {
        call(l, &id, &seed, &in, 1, &read, 1);
        rc = read.code < 0 ? larder__fail(read.code, "%s", read.why)
                           : larder__fields_fill(l, scratch, p, row, id, read.buf, seed, label);
    }
    larder_buf_unref(&in);
    larder_buf_unref(&read.buf);
    return rc;
}

static void book(larder_loader *l, larder__place *p, size_t row, uint64_t id) {
    const larder__ticket *t = &p->plan.tickets[row];
    larder_sample s = {.label = -1};
    larder__data_stat(l->data, id, &s);
    p->kind[row] = t->kind;
    p->form[row] = larder__row_form(l, t);
    p->served[row] = id;
    p->y[row] = s.label;
}

/* A row's bytes, which may be another's to bring. */
static void take_row(larder_loader *l, larder__scratch *scratch, larder__place *p, size_t row,
                     making *m) {
    larder_buf *bytes = NULL;
    uint8_t held = LARDER_ENCODED;
    uint64_t id = p->plan.tickets[row].key, seed = larder__row_chance(l, p, row);
    larder_sample s;
    bool shared = p->plan.tickets[row].task == LARDER__WAIT;
    int rc = larder__row_bytes(l, p, row, &bytes, &held);
    if (rc == 0 && shared && p->plan.tickets[row].kind == LARDER_MISS &&
        larder__data_stat(l->data, id, &s) == 0)
        p->read_bytes[row] = s.bytes; /* as if it had been read alone */
    if (rc == 0) {
        rc = given_of(l, scratch, &bytes, held, seed, &m->in[m->n]);
        rc = rc < 0 ? larder__row_blame(l, id, rc) : 0;
    }
    if (rc != 0) {
        larder__row_failed(p, row, rc, larder_errmsg());
        return;
    }
    book(l, p, row, id);
    m->rows[m->n] = row;
    m->ids[m->n] = id;
    m->chances[m->n++] = seed;
}

static void finish(larder_loader *l, larder__scratch *scratch, larder__place *p, making *m) {
    call(l, m->ids, m->chances, m->in, m->n, m->out, m->n);
    for (size_t k = 0; k < m->n; k++) {
        larder_read *r = &m->out[k];
        int rc = r->code < 0 ? larder__fail(r->code, "%s", r->why)
                             : larder__fields_fill(l, scratch, p, m->rows[k], m->ids[k], r->buf,
                                                   m->chances[k], (int32_t)p->y[m->rows[k]]);
        if (rc < 0 && strncmp(larder_errmsg(), "sample ", 7) != 0)
            larder__row_blame(l, m->ids[k], rc);
        if (rc < 0)
            larder__row_failed(p, m->rows[k], rc, larder_errmsg());
        larder_buf_unref(&r->buf);
        larder_buf_unref(&m->in[k]);
    }
}

void larder__rows_made(larder_loader *l, larder__scratch *scratch, larder__place *p, size_t from,
                       size_t n) {
    making m = {.n = 0};
    for (size_t i = from; i < from + n && i < p->plan.n; i++) {
        if (p->faults[i].code < 0) {
            larder_buf_unref(&p->bytes[i]);
            continue;
        }
        take_row(l, scratch, p, i, &m);
    }
    if (l->maker.whole) /* they stay until the batch is complete */
        for (size_t k = 0; k < m.n; k++)
            p->bytes[m.rows[k]] = m.in[k];
    else if (m.n)
        finish(l, scratch, p, &m);
}

int larder__batch_join(larder_loader *l, larder__place *p) {
    size_t n = 0;
    int rc = 0;
    uint64_t *ids = larder__malloc((p->plan.n + 1) * sizeof *ids);
    uint64_t *chances = larder__malloc((p->plan.n + 1) * sizeof *chances);
    larder_buf **in = larder__calloc(p->plan.n + 1, sizeof *in);
    larder_read read = {0};
    bool lost = false;
    if (!ids || !chances || !in)
        rc = LARDER_E_NOMEM;
    for (size_t i = 0; rc == 0 && i < p->plan.n; i++) {
        if (!p->bytes[i]) {
            lost |= l->conf.on_bad == LARDER_BAD_FAIL;
            continue;
        }
        ids[n] = p->served[i];
        chances[n] = larder__row_chance(l, p, i);
        in[n++] = p->bytes[i];
    }
    if (rc == 0 && n && !lost) { /* else whoever takes it hears why */
        call(l, ids, chances, in, n, &read, 1);
        rc = read.code < 0 ? larder__fail(read.code, "%s", read.why) : 0;
    }
    if (rc == 0 && read.buf) {
        larder_piece whole = {.data = larder_buf_data(read.buf),
                              .bytes = larder_buf_size(read.buf),
                              .dtype = LARDER_U8,
                              .ndim = 1,
                              .shape = {larder_buf_size(read.buf)}};
        larder__pixel_block_put(p->block, 0, 0, &whole, read.buf);
        read.buf = NULL;
    }
    larder_buf_unref(&read.buf);
    for (size_t i = 0; i < p->plan.n; i++)
        larder_buf_unref(&p->bytes[i]);
    larder__free(ids);
    larder__free(chances);
    larder__free(in);
    return rc;
}
