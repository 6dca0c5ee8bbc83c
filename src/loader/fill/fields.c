/* What samples with several fields become: the columns of a batch. */
#include "base/buf.h"
#include "base/convert.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/notes.h"
#include "loader/inside.h"
#include "stage/scratch.h"

#include <stdio.h>

enum { TRIES = 16 }; /* samples looked at until one tells what rows look like */

larder_shape larder__loader_shape(const larder_loader *l) {
    return l->pipeline ? larder__pipeline_shape(l->pipeline) : (larder_shape){0};
}

/* ---- opening --------------------------------------------------------------------------------- */

int larder__fields_parse(larder_loader *l, larder__columns **out) {
    const char *target = l->conf.target;
    if (target && larder__targets_meant(target))
        target = NULL;
    *out = NULL;
    if (!l->conf.fields && !target)
        return 0;
    if (!(*out = larder__calloc(1, sizeof **out)))
        return LARDER_E_NOMEM;
    int rc = larder__columns_parse(*out, l->conf.fields, target);
    if (rc < 0) {
        larder__columns_free(*out);
        larder__free(*out);
        *out = NULL;
    }
    return rc;
}

/* As it is read, or as what a function of the program's own makes of it. */
static int read_sample(larder_loader *l, uint64_t id, larder_buf **out) {
    larder_buf *read = NULL;
    if (l->maker.whole) { /* of a batch all that is known is that it is bytes */
        larder__field f = {.kind = LARDER__FIELD_BYTES, .dtype = LARDER_U8, .name = ""};
        return larder__parcel_make(out, &f, 1);
    }
    int rc = larder__row_alone(l, NULL, id, &read);
    if (rc < 0)
        return larder__row_blame(l, id, rc);
    l->probes++; /* nobody asked for it: a background read of the first batch */
    l->probe_bytes += larder_buf_size(read);
    if (!l->maker.make) {
        *out = read;
        return 0;
    }
    rc = larder__made_first(l, l->own_scratch, id, read, out);
    larder_buf_unref(&read);
    return rc;
}

static bool in_parcels(const larder_loader *l) {
    return l->maker.make || larder__data_about(l->data)->parcels;
}

/* The k-th of some samples spread over the data set. */
static uint64_t some_id(const larder_loader *l, uint64_t k) {
    uint64_t n = larder__data_about(l->data)->count;
    return n <= TRIES ? k : k * (n / TRIES);
}

static int add_targets(larder_loader *l) {
    int rc = larder__targets_open(&l->targets, l->conf.target, l->data);
    if (rc == 0)
        rc = larder__columns_give(l->columns, larder__targets_given(l->targets));
    if (rc < 0)
        return larder__fail_in(rc, "target");
    uint64_t missing = larder__targets_missing(l->targets);
    if (missing)
        larder__note(l->stats, "target %.100s has no line for %llu samples: they are bad ones",
                     l->conf.target, (unsigned long long)missing);
    return 0;
}

static int check_source(const larder_loader *l) {
    const larder_dataset *about = larder__data_about(l->data);
    size_t n = l->columns->member_count;
    if (about->parcels || n == 0 || (n == 1 && about->raw.h == 0)) /* all of a sample is one */
        return 0;
    return larder__fail(LARDER_E_ARGS, "source %s has no fields to choose: %s fields=",
                        larder__data_plugin(l->data)->name,
                        about->raw.h ? "leave out" : "one alone, the whole sample, is for");
}

/* Typed samples are what they are, as the first one has them. */
static int take_as_is(larder_loader *l) {
    larder_buf *buf = NULL;
    int rc = LARDER_E_NOTFOUND;
    for (uint64_t k = 0; rc < 0 && k < TRIES && k < larder__data_about(l->data)->count; k++)
        rc = read_sample(l, some_id(l, k), &buf);
    if (rc == 0)
        rc = larder__columns_of_parcel(l->columns, larder_buf_data(buf), larder_buf_size(buf));
    larder_buf_unref(&buf);
    return rc;
}

int larder__fields_open(larder_loader *l) {
    const larder_dataset *about = larder__data_about(l->data);
    bool table = l->conf.target && larder__targets_meant(l->conf.target);
    if (!l->columns && !table && !about->parcels && !l->maker.make)
        return 0;
    int rc = l->own_scratch ? 0 : larder__loader_scratch(l, &l->own_scratch);
    if (rc < 0)
        return rc;
    if (l->columns)
        rc = check_source(l);
    else {
        if (!(l->columns = larder__calloc(1, sizeof *l->columns)))
            return LARDER_E_NOMEM;
        l->columns->x = l->columns->y = SIZE_MAX;
        rc = in_parcels(l) ? take_as_is(l) : larder__columns_whole(l->columns);
    }
    return rc == 0 && table ? add_targets(l) : rc;
}

/* A cache that several look at, or that holds pixels, knows one picture a sample. */
static int check_cache(const larder_loader *l) {
    const double *share = larder__cache_back(&l->cache)->budget.share;
    if (l->maker.make && !l->own &&
        !l->maker.pictures) /* it is given what becomes of any of these */
        return 0;
    if (share[LARDER_DECODED] > 0 || share[LARDER_AUGMENTED] > 0 || l->plans || l->shrink.on)
        return larder__fail(LARDER_E_ARGS,
                            "samples of several fields, or for functions of one's own that take "
                            "pictures as they are, are cached as they are stored: leave out plan=, "
                            "shrink= and the shares of decoded and augmented samples");
    return 0;
}

static int settle_by(larder_loader *l, uint64_t id) {
    larder__sight sight = {
        .scratch = l->own_scratch, .seed = LARDER__NO_CHANCE, .pipeline = l->pipeline, .id = id};
    larder_buf *buf = NULL;
    if (!in_parcels(l) && !l->conf.fields) /* a picture, whatever it is */
        return larder__columns_settle(l->columns, &sight, "", 0, false);
    int rc = read_sample(l, id, &buf);
    if (rc < 0)
        return rc;
    rc = larder__columns_settle(l->columns, &sight, larder_buf_data(buf), larder_buf_size(buf),
                                in_parcels(l));
    larder_buf_unref(&buf);
    return rc < 0 ? larder__row_blame(l, id, rc) : 0;
}

int larder__fields_settle(larder_loader *l) {
    int rc = check_cache(l);
    if (rc < 0)
        return rc;
    uint64_t n = larder__data_about(l->data)->count;
    rc = settle_by(l, 0);
    for (uint64_t k = 1; (rc == LARDER_E_FORMAT || rc == LARDER_E_NOTFOUND) && k < TRIES && k < n;
         k++) {
        char first[512]; /* what is wrong with the first is what is said if all fail */
        snprintf(first, sizeof first, "%s", larder_errmsg());
        rc = settle_by(l, some_id(l, k));
        if (rc < 0)
            larder__errmsg_set(first);
    }
    return rc;
}

void larder__fields_close(larder_loader *l) {
    if (l->columns)
        larder__columns_free(l->columns);
    larder__free(l->columns);
    l->columns = NULL;
    larder__targets_close(&l->targets);
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* Pieces lie in the sample's own buffer, unless that is a daemon's memory: a batch may be held for
 * longer than the loader is open. */
static int keep_piece(larder__place *p, size_t column, size_t row, larder__cell *cell,
                      larder_buf *bytes) {
    larder_buf *in = cell->own;
    if (!in && larder__buf_is_outside(bytes)) {
        if (!(in = larder_buf_new(cell->piece.bytes)))
            return LARDER_E_NOMEM;
        if (cell->piece.bytes)
            memcpy(larder_buf_data(in), cell->piece.data, cell->piece.bytes);
        cell->piece.data = larder_buf_data(in);
    } else if (!in)
        in = larder_buf_ref(bytes);
    cell->own = NULL;
    larder__pixel_block_put(p->block, column, row, &cell->piece, in);
    return 0;
}

static void *row_of(const larder_loader *l, larder__place *p, size_t i, size_t row) {
    const larder__columns *c = l->columns;
    if (i == c->x)
        return p->x + row * l->row_bytes;
    if (i == c->y && !c->typed)
        return &p->y[row];
    return larder__pixel_block_cell(p->block, i, row);
}

int larder__fields_fill(larder_loader *l, larder__scratch *scratch, larder__place *p, size_t row,
                        uint64_t id, larder_buf *bytes, uint64_t seed, int32_t label) {
    const larder__columns *c = l->columns;
    larder__cell *cells =
        larder__scratch_take(scratch, LARDER__BLOCK_CELLS, (c->count + 1) * sizeof *cells);
    if (!cells)
        return LARDER_E_NOMEM;
    bool target = false;
    for (size_t i = 0; i < c->count; i++) {
        cells[i] = (larder__cell){.row = row_of(l, p, i, row)};
        target |= c->items[i].target;
    }
    p->y[row] = target ? -1 : label;
    larder__sight sight = {.scratch = scratch, .seed = seed, .pipeline = l->pipeline, .id = id};
    int rc = larder__columns_run(c, &sight, larder_buf_data(bytes), larder_buf_size(bytes),
                                 in_parcels(l), cells);
    for (size_t i = 0; rc == 0 && i < c->count; i++)
        if (c->items[i].ragged)
            rc = keep_piece(p, i, row, &cells[i], bytes);
    for (size_t i = 0; rc < 0 && i < c->count; i++)
        larder_buf_unref(&cells[i].own);
    if (rc == 0 && c->typed && c->y != SIZE_MAX)
        rc = larder__convert(&p->y[row], LARDER_I64, cells[c->y].row, c->items[c->y].dtype, 1);
    return rc;
}
