/* The twins of blocks of batch memory, and what is made of them on the device. */
#include "loader/fill/freight_inside.h"

#include "base/err.h"
#include "base/mem.h"

#include <string.h>

/* ---- twins ----------------------------------------------------------------------------------- */

void larder__twin_close(void *device, void *twin) {
    larder__freight *d = device;
    larder__twin *t = twin;
    if (!t)
        return;
    larder__gpu_free(d->gpu, t->levels);
    larder__gpu_free(d->gpu, t->map);
    larder__gpu_unpin(d->gpu, t->slots);
    larder__free(t->made);
    larder__free(t);
}

void *larder__twin_open(void *device) {
    larder__freight *d = device;
    void *slots = NULL;
    larder__twin *t = larder__calloc(1, sizeof *t);
    size_t ints = 2 * d->rows * sizeof(int32_t);
    if (!t)
        return NULL;
    t->made = larder__calloc(d->rows, 1);
    int rc = t->made ? larder__gpu_alloc(d->gpu, &t->levels, d->rows * d->row_bytes,
                                         "the levels of a batch")
                     : LARDER_E_NOMEM;
    rc = rc < 0 ? rc : larder__gpu_alloc(d->gpu, &t->map, ints, "the rows of a batch");
    rc = rc < 0 ? rc : larder__gpu_pinned(d->gpu, &slots, ints);
    t->slots = slots;
    t->partners = t->slots ? t->slots + d->rows : NULL;
    if (rc == 0 && t->slots) {
        larder__twin_begin(t, d->rows);
        return t;
    }
    larder__twin_close(d, t);
    return NULL;
}

void larder__twin_begin(larder__twin *t, size_t rows) {
    t->rows = rows;
    t->mixed = false;
    memset(t->made, 0, rows);
    for (size_t i = 0; i < rows; i++)
        t->slots[i] = (int32_t)i;
}

void larder__twin_move(larder__twin *t, size_t to, size_t from) {
    t->slots[to] = t->slots[from];
    t->partners[to] = t->partners[from];
}

void larder__twin_mix(larder__twin *t, const larder_mixing *m) {
    t->mixed = true;
    t->mixing = *m;
}

void larder__twin_pair(larder__twin *t, size_t row, size_t partner) {
    t->partners[row] = t->slots[partner];
}

/* ---- to the device --------------------------------------------------------------------------- */

/* Levels that were made here, in as few copies as there are runs of them: one, mostly. */
static int put_levels(larder__freight *d, larder__twin *t, const unsigned char *x, size_t n,
                      larder__gpu_stream stream) {
    int rc = 0;
    for (size_t i = 0, end; rc == 0 && i < n; i = end) {
        size_t slot = (size_t)t->slots[i];
        end = i + 1;
        if (t->made[slot])
            continue;
        while (end < n && (size_t)t->slots[end] == slot + (end - i) && !t->made[t->slots[end]])
            end++;
        rc = larder__gpu_put(d->gpu, t->levels + slot * d->row_bytes, x + slot * d->row_bytes,
                             (end - i) * d->row_bytes, stream);
    }
    return rc;
}

static int values(const larder_loader *l, larder__twin *t, void *x, size_t n,
                  larder__gpu_stream stream) {
    const larder_tone *tone = larder__pipeline_worth(l->pipeline);
    const larder_shape s = larder__loader_shape(l);
    const larder_mixing *m = &t->mixing;
    larder__levels_worth w = {.levels = t->levels,
                              .out = (larder__gpu_ptr)(uintptr_t)x,
                              .slots = t->map,
                              .row = (int64_t)l->device->row_bytes,
                              .w = (int32_t)s.w,
                              .h = (int32_t)s.h,
                              .c = (int32_t)s.c,
                              .packed = l->conf.layout == LARDER_NHWC,
                              .dtype = (int32_t)l->conf.dtype};
    for (uint32_t c = 0; c < s.c; c++) {
        w.scale[c] = (float)tone->scale[c];
        w.bias[c] = (float)tone->bias[c];
    }
    if (t->mixed) {
        w.partners = t->map + l->device->rows * sizeof(int32_t);
        w.own = (float)m->weight;
        w.pasted = m->pasted;
        w.x0 = (int32_t)m->x0;
        w.y0 = (int32_t)m->y0;
        w.x1 = (int32_t)m->x1;
        w.y1 = (int32_t)m->y1;
    }
    return larder__levels_values(l->device->code, &w, n, stream);
}

static larder__pixel_block *block_of(larder_loader *l, const larder_batch *b) {
    for (uint32_t k = 0; k < l->conf.ahead; k++)
        if (&l->ring[k].batch == b)
            return l->ring[k].block;
    for (int k = 0; k < 2; k++)
        if (&l->evaluation.places[k].batch == b)
            return l->evaluation.places[k].block;
    return larder__pixel_block_of(b);
}

int larder_loader_to_device(larder_loader *l, const larder_batch *b, void *x, void *stream) {
    int rc = larder__loader_enter(l);
    if (rc < 0)
        return rc;
    larder__freight *d = l->device;
    larder__pixel_block *block = d && b ? block_of(l, b) : NULL;
    pthread_mutex_unlock(&l->lock);
    if (!d)
        return larder__fail(LARDER_E_STATE, "this loader's batches lie in memory (x): it was "
                                            "opened without a device");
    if (!b || !x || !block)
        return larder__fail(LARDER_E_ARGS, "no batch, or no memory of the device given");
    larder__twin *t = larder__pixel_block_beside(block);
    rc = put_levels(d, t, larder__pixel_block_pixels(block), b->n, stream);
    size_t map = (t->mixed ? 2 : 1) * d->rows * sizeof(int32_t);
    rc = rc < 0 ? rc : larder__gpu_put(d->gpu, t->map, t->slots, map, stream);
    return rc < 0 ? rc : values(l, t, x, b->n, stream);
}
