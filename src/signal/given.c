/* Scores and hubs that somebody else has worked out, on a device for example, as `graph` would
 * have. They come as the report's embeddings, so that nothing on their way has to know: row i has
 * the score of its sample (one that is not finite, or below zero: none), and behind the scores, row
 * after row, words of 32 bits that only look like floats: for each hub its id, how many it may
 * stand in for, and room for `list` ids, nearest first. */
#include "signal/graph_result.h"

#include <math.h>

typedef struct given {
    larder__graph_shape shape; /* first: as graph_result.h wants it */
} given;

static const larder_param params[] = {
    {"hubs", "int", "4", "samples of a batch offered as stand-ins, best first", 0, 64},
    {"list", "int", "500", "ids that one of them may stand in for, nearest first", 1, 100000},
    {0}};

static int init(void *st, uint64_t n, const larder_args *args) {
    ((given *)st)->shape = (larder__graph_shape){n, (uint32_t)larder_args_number(args, "hubs"),
                                                 (uint32_t)larder_args_number(args, "list")};
    return 0;
}

static uint32_t word(const larder_report *rep, size_t i) {
    uint32_t out;
    size_t wide = rep->dim - 1;
    memcpy(&out, &rep->embeddings[i / wide * rep->dim + 1 + i % wide], sizeof out);
    return out;
}

/* Hub number i of the report; false: it is none, or names what there is not. */
static bool read_hub(const given *g, const larder_report *rep, size_t i, larder__graph_hub *out) {
    size_t at = i * (2 + (size_t)g->shape.list);
    out->key = word(rep, at);
    out->count = word(rep, at + 1);
    if (out->key >= g->shape.n || out->count == 0 || out->count > g->shape.list)
        return false;
    for (uint64_t k = 0; k < out->count; k++) {
        out->ids[k] = word(rep, at + 2 + k);
        if (out->ids[k] >= g->shape.n || out->ids[k] == out->key)
            return false;
    }
    return true;
}

static void prepare(void *st, const larder_report *rep, void *result) {
    const given *g = st;
    larder__graph_result *out = result;
    *out = (larder__graph_result){.room = rep->n};
    for (size_t i = 0; rep->embeddings && i < rep->n; i++) {
        float score = rep->embeddings[i * rep->dim];
        if (isfinite(score) && score >= 0 && rep->ids[i] < g->shape.n)
            out->scored[out->rows++] = (larder__graph_scored){.id = rep->ids[i], .score = score};
    }
    size_t words = rep->embeddings && rep->dim > 1 ? rep->n * (rep->dim - 1) : 0;
    size_t hubs = words / (2 + (size_t)g->shape.list);
    for (size_t i = 0; i < hubs && out->hubs < g->shape.hubs; i++)
        out->hubs += read_hub(g, rep, i, larder__graph_result_hub(&g->shape, out, out->hubs));
}

const larder_signal larder__signal_given = {
    .plugin = {.name = "given",
               .summary = "scores and stand-ins as they are told, for those worked out elsewhere",
               .params = params,
               .state_size = sizeof(given)},
    .init = init,
    .result_size = larder__graph_result_size,
    .prepare = prepare,
    .apply = larder__graph_result_apply,
    .check = larder__graph_result_sound,
};
