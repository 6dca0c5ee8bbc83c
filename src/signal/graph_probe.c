#include "signal/graph_probe.h"

#include "base/err.h"
#include "base/hash.h"
#include "base/mem.h"
#include "signal/graph_store.h"

#include <math.h>

enum { HELD = LARDER__PROBE_HELD };

int larder__graph_probe_open(larder__graph_probe *p, uint32_t dim) {
    *p = (larder__graph_probe){.x = larder__calloc((size_t)HELD * dim, sizeof *p->x)};
    return p->x ? 0 : larder__fail(LARDER_E_NOMEM, "graph: no memory for %d probes", HELD);
}

void larder__graph_probe_close(larder__graph_probe *p) {
    larder__free(p->x);
    *p = (larder__graph_probe){0};
}

/* No two ids have the same. */
static uint64_t hash_of(uint32_t id) { return larder__mix64(id + 0x9e3779b97f4a7c15u); }

/* The place of an id, or where it would stand. */
static uint32_t place_of(const larder__graph_probe *p, uint32_t id) {
    uint64_t hash = hash_of(id);
    uint32_t lo = 0, hi = p->count;
    while (lo < hi) {
        uint32_t mid = (lo + hi) / 2;
        if (hash_of(p->ids[mid]) < hash)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

/* Makes room for an id at its place; the one of the largest hash leaves. */
static void shift(larder__graph_probe *p, uint32_t at) {
    uint16_t row = p->count < HELD ? (uint16_t)p->count++ : p->row[HELD - 1];
    size_t behind = p->count - 1 - at;
    memmove(p->ids + at + 1, p->ids + at, behind * sizeof *p->ids);
    memmove(p->classes + at + 1, p->classes + at, behind * sizeof *p->classes);
    memmove(p->row + at + 1, p->row + at, behind * sizeof *p->row);
    p->row[at] = row;
}

void larder__graph_probe_enter(larder__graph_probe *p, const larder_engine_rows *in, uint32_t dim) {
    for (size_t i = 0; i < in->n; i++) {
        uint32_t at = place_of(p, in->ids[i]);
        if (at == HELD)
            continue;
        if (at == p->count || p->ids[at] != in->ids[i]) {
            shift(p, at);
            p->ids[at] = in->ids[i];
            p->classes[at] = in->classes[i];
        }
        memcpy(p->x + (size_t)p->row[at] * dim, in->x + i * dim, dim * sizeof *p->x);
    }
}

/* The row of an id in a batch, whose ids rise; its length if it has none. */
static size_t find(const larder_engine_rows *in, uint32_t id) {
    size_t lo = 0, hi = in->n;
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (in->ids[mid] < id)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < in->n && in->ids[lo] == id ? lo : in->n;
}

larder_engine_rows larder__graph_probe_ask(larder__graph_probe *p, larder__graph_batch *b,
                                           uint32_t dim, size_t reported) {
    size_t want = reported / 8;
    want = want < LARDER__PROBE_LEAST ? LARDER__PROBE_LEAST : want;
    want = want > LARDER__PROBE_MOST ? LARDER__PROBE_MOST : want;
    larder_engine_rows all = b->rows;
    for (p->asked = 0; p->asked < want && p->asked < p->count; p->asked++) {
        uint32_t at = p->next++ % p->count;
        size_t row = find(&b->rows, p->ids[at]);
        if (row == b->rows.n) {
            row = all.n++;
            b->ids[row] = p->ids[at];
            b->classes[row] = p->classes[at];
            memcpy(b->x + row * dim, p->x + (size_t)p->row[at] * dim, dim * sizeof *p->x);
        }
        p->at[p->asked] = (uint32_t)row;
        p->next = p->next % p->count;
    }
    return all;
}

void larder__graph_probe_save(const larder__graph_probe *p, uint32_t dim, larder_writer *w) {
    larder_write_u32(w, p->count);
    larder_write_u32(w, p->next);
    for (uint32_t i = 0; i < p->count; i++) {
        larder_write_u32(w, p->ids[i]);
        larder_write_u32(w, p->classes[i]);
        larder_write_bytes(w, p->x + (size_t)p->row[i] * dim, dim * sizeof *p->x);
    }
}

int larder__graph_probe_load(larder__graph_probe *p, uint32_t dim, uint64_t n, larder_reader *r) {
    uint32_t count = larder_read_u32(r);
    p->next = larder_read_u32(r);
    if (count > HELD || p->next > count)
        return larder_read_reject(r, "more probes than are held");
    for (p->count = 0; p->count < count; p->count++) {
        uint32_t i = p->count;
        p->ids[i] = larder_read_index(r, n, false);
        p->classes[i] = larder_read_index(r, LARDER__CLASSES_MAX, false);
        p->row[i] = (uint16_t)i;
        float *x = p->x + (size_t)i * dim;
        larder_read_bytes(r, x, dim * sizeof *x);
        bool rises = i == 0 || hash_of(p->ids[i - 1]) < hash_of(p->ids[i]);
        for (uint32_t k = 0; k < dim; k++)
            rises = rises && isfinite(x[k]);
        if (!rises)
            return larder_read_reject(r, "a probe is twice there, or none");
    }
    return larder_read_status(r);
}
