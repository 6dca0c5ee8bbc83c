#include "signal/graph_nearest.h"

#include "base/mem.h"

#include <stdlib.h>

/* A row as one number, the nearer the smaller: how far outside of the innermost, then its id. */
static uint64_t key_of(int32_t margin, uint32_t id) {
    return (uint64_t)(uint32_t)(INT32_MAX - margin) << 32 | id;
}

static int smaller_first(const void *a, const void *b) {
    const uint64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

typedef struct best { /* the nearest `cap` so far; once there are as many, as a heap */
    uint64_t *keys;   /* the farthest of them on top */
    size_t count, cap;
} best;

static void sink(const best *b, size_t at) {
    uint64_t key = b->keys[at];
    for (size_t child; (child = 2 * at + 1) < b->count; at = child) {
        child += child + 1 < b->count && b->keys[child + 1] > b->keys[child];
        if (b->keys[child] <= key)
            break;
        b->keys[at] = b->keys[child];
    }
    b->keys[at] = key;
}

static void keep(best *b, uint64_t key) {
    if (b->count < b->cap) {
        b->keys[b->count++] = key;
        for (size_t i = b->count == b->cap ? b->cap / 2 : 0; i-- > 0;)
            sink(b, i);
    } else if (key < b->keys[0]) {
        b->keys[0] = key;
        sink(b, 0);
    }
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

size_t larder__graph_nearest(const larder__graph_index *s, const larder_engine_rows *in, size_t row,
                             double radius, uint64_t *ids, size_t cap) {
    best b = {.keys = larder__malloc(cap * sizeof *b.keys), .cap = cap};
    if (!b.keys)
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
                keep(&b, key_of(margin, id));
        }
    }
    qsort(b.keys, b.count, sizeof *b.keys, smaller_first);
    for (size_t i = 0; i < b.count; i++)
        ids[i] = (uint32_t)b.keys[i];
    larder__free(b.keys);
    return b.count;
}
