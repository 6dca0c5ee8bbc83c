#include "signal/graph_nearest.h"

#include "base/mem.h"

#include <stdlib.h>

typedef struct near {
    int32_t margin; /* how far inside the radius: the more, the nearer */
    uint32_t id;
} near;

static int nearer_first(const void *a, const void *b) {
    const near *x = a, *y = b;
    return x->margin != y->margin ? (x->margin < y->margin) - (x->margin > y->margin)
                                  : (x->id > y->id) - (x->id < y->id);
}

typedef struct best { /* the nearest `cap` so far, and some more: there is room for twice as many */
    near *list;
    size_t count, cap;
    near last; /* once there were enough: the last of the best, nobody behind it comes in */
} best;

static void keep(best *b, near one) {
    if (b->last.margin >= 0 && nearer_first(&b->last, &one) < 0)
        return;
    b->list[b->count++] = one;
    if (b->count < 2 * b->cap)
        return;
    qsort(b->list, b->count, sizeof *b->list, nearer_first);
    b->count = b->cap;
    b->last = b->list[b->cap - 1];
}

/* The row as a query of its class: codes less 128, and its bound. */
static int32_t make_query(const larder__graph_index *s, uint32_t class, const float *x,
                          double radius, int8_t *query) {
    uint32_t dims = larder__graph_store_of(s, class)->dims;
    uint8_t codes[LARDER__DIM_MAX];
    int32_t row_const = 0, half;
    if (larder__graph_framed(s, class)) {
        const larder__graph_frame *f = &s->parts[class].frame;
        larder__graph_frame_code(f, &s->space, true, &x, 1, codes, &row_const, NULL);
        half = larder__graph_frame_half(f, radius);
    } else {
        larder__graph_scale_code(&s->scale, x, s->conf.dim, dims, codes, &row_const);
        larder__graph_order_put(&s->order, codes);
        half = larder__graph_scale_half(&s->scale, radius);
    }
    for (uint32_t k = 0; k < dims; k++)
        query[k] = (int8_t)(codes[k] - 128);
    return larder__graph_scale_bound(codes, dims, row_const, half);
}

size_t larder__graph_nearest(const larder__graph_index *s, const larder__graph_rows *in, size_t row,
                             double radius, uint64_t *ids, size_t cap) {
    best b = {.list = larder__malloc(2 * cap * sizeof *b.list), .cap = cap, .last = {-1, 0}};
    if (!b.list)
        return 0;
    uint32_t class = larder__graph_class_of(s, in->ids[row], in->classes[row]);
    const larder__graph_store *store = larder__graph_store_of(s, class);
    int8_t query[LARDER__DIM_MAX];
    int32_t bound = make_query(s, class, in->x + row * s->conf.dim, radius, query);
    const larder__graph_kernel *kernel = larder__graph_kernel_best();
    uint32_t chunk = store->classes[class].first;
    for (; chunk != LARDER__NO_CHUNK; chunk = store->chunks[chunk].next) {
        int32_t dots[LARDER__CHUNK_ROWS];
        const int32_t *consts = larder__chunk_consts(store, chunk);
        kernel->dots(larder__chunk_codes(store, chunk), store->groups, query, dots);
        for (uint32_t i = 0; i < LARDER__CHUNK_ROWS; i++) {
            int32_t margin = dots[i] - consts[i] - bound;
            uint32_t id = larder__chunk_ids(store, chunk)[i];
            if (margin >= 0 && id != in->ids[row])
                keep(&b, (near){margin, id});
        }
    }
    qsort(b.list, b.count, sizeof *b.list, nearer_first);
    size_t count = b.count < cap ? b.count : cap;
    for (size_t i = 0; i < count; i++)
        ids[i] = b.list[i].id;
    larder__free(b.list);
    return count;
}
