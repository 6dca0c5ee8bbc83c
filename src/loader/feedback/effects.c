#include "loader/feedback/effects.h"

#include "base/grow.h"
#include "base/mem.h"

#include <stdlib.h>

void larder__effects_free(larder__effects *e) {
    larder__free(e->at);
    *e = (larder__effects){0};
}

static bool extends(const larder__effect *last, uint64_t batch, uint64_t delay, uint32_t stride) {
    return last->first + last->count == batch && last->delay == delay && last->stride == stride;
}

void larder__effects_add(larder__effects *e, uint64_t batch, uint64_t delay, uint32_t stride) {
    if (delay == 0 && stride == 1)
        return;
    if (e->count && extends(&e->at[e->count - 1], batch, delay, stride)) {
        e->at[e->count - 1].count++;
        return;
    }
    if (larder__grow(&e->at, &e->cap, e->count + 1, sizeof *e->at) < 0)
        e->lost = true;
    else
        e->at[e->count++] = (larder__effect){batch, 1, delay, stride};
}

larder__effect larder__effects_find(const larder__effects *e, uint64_t batch) {
    size_t low = 0, high = e->count; /* the last one that begins at or before it */
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (e->at[middle].first <= batch)
            low = middle + 1;
        else
            high = middle;
    }
    if (low && batch - e->at[low - 1].first < e->at[low - 1].count)
        return e->at[low - 1];
    return (larder__effect){batch, 1, 0, 1};
}

void larder__effects_save(const larder__effects *e, larder_writer *w) {
    larder_write_u32(w, e->lost);
    larder_write_u64(w, e->count);
    for (size_t i = 0; i < e->count; i++) {
        larder_write_u64(w, e->at[i].first);
        larder_write_u64(w, e->at[i].count);
        larder_write_u64(w, e->at[i].delay);
        larder_write_u32(w, e->at[i].stride);
    }
}

static int by_first(const void *a, const void *b) {
    const larder__effect *x = a, *y = b;
    return x->first < y->first ? -1 : x->first > y->first;
}

int larder__effects_load(larder__effects *e, larder_reader *r) {
    larder__effects_free(e);
    e->lost = larder_read_u32(r) == 1;
    uint64_t count = larder_read_u64(r);
    if (count > larder__read_left(r) / 28)
        return larder_read_reject(r, "its list of late feedback is longer than it");
    e->at = larder__calloc(count + 1, sizeof *e->at);
    if (!e->at)
        return LARDER_E_NOMEM;
    e->cap = count + 1;
    for (; e->count < count; e->count++) {
        larder__effect *at = &e->at[e->count];
        at->first = larder_read_u64(r);
        at->count = larder_read_u64(r);
        at->delay = larder_read_u64(r);
        at->stride = larder_read_u32(r);
        if (at->first > UINT64_MAX / 4 || at->count > UINT64_MAX / 4 || at->delay > UINT64_MAX / 4)
            return larder_read_reject(r, "its list of late feedback is broken");
    }
    qsort(e->at, e->count, sizeof *e->at, by_first);
    return larder_read_status(r);
}

void larder__effects_join(larder__effects *e, const larder__effects *more) {
    e->lost = e->lost || more->lost;
    for (size_t i = 0; i < more->count; i++) {
        larder__effect m = more->at[i];
        size_t before = e->count;
        larder__effects_add(e, m.first, m.delay, m.stride);
        if (e->count > before)
            e->at[before].count = m.count;
    }
    if (e->count)
        qsort(e->at, e->count, sizeof *e->at, by_first);
}
