#include "signal/graph_result.h"

#include <math.h>

static size_t hub_bytes(const larder__graph_shape *s) {
    return sizeof(larder__graph_hub) + s->list * sizeof(uint64_t);
}

static size_t rows_bytes(size_t rows) {
    return sizeof(larder__graph_result) + rows * sizeof(larder__graph_scored);
}

size_t larder__graph_result_size(const void *shape, size_t rows) {
    const larder__graph_shape *s = shape;
    return rows_bytes(rows) + s->hubs * hub_bytes(s);
}

static const larder__graph_hub *hub_of(const larder__graph_shape *s, const larder__graph_result *r,
                                       uint32_t i) {
    const char *at = (const char *)r + rows_bytes(r->room) + i * hub_bytes(s);
    return (const larder__graph_hub *)(const void *)at;
}

larder__graph_hub *larder__graph_result_hub(const larder__graph_shape *s, larder__graph_result *r,
                                            uint32_t i) {
    char *at = (char *)r + rows_bytes(r->room) + i * hub_bytes(s);
    return (larder__graph_hub *)(void *)at;
}

bool larder__graph_result_sound(const void *shape, const void *result, size_t rows) {
    const larder__graph_shape *s = shape;
    const larder__graph_result *r = result;
    if (r->room == 0 && r->rows == 0 && r->hubs == 0) /* zeroed: nothing was prepared */
        return true;
    if (r->room != rows || r->rows > rows || r->hubs > s->hubs)
        return false;
    for (uint32_t i = 0; i < r->rows; i++)
        if (r->scored[i].id >= s->n || !(r->scored[i].score >= 0) || isinf(r->scored[i].score))
            return false;
    for (uint32_t i = 0; i < r->hubs; i++) {
        const larder__graph_hub *h = hub_of(s, r, i);
        if (h->key >= s->n || h->count > s->list || h->count >= s->n) /* it is none of them */
            return false;
        for (uint64_t k = 0; k < h->count; k++)
            if (h->ids[k] >= s->n || h->ids[k] == h->key)
                return false;
    }
    return true;
}

void larder__graph_result_apply(const void *shape, const void *result, float *scores,
                                larder_relation_fn relate, void *arg) {
    const larder__graph_shape *s = shape;
    const larder__graph_result *r = result;
    for (uint32_t i = 0; i < r->rows; i++)
        scores[r->scored[i].id] = r->scored[i].score;
    for (uint32_t i = 0; relate && i < r->hubs; i++) {
        const larder__graph_hub *h = hub_of(s, r, i);
        relate(arg, h->key, h->ids, h->count);
    }
}
