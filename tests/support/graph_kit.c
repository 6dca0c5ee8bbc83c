#include "graph_kit.h"

#include "base/mem.h"
#include "base/spec.h"
#include "base/state.h"
#include "check.h"

#include <math.h>
#include <stdlib.h>

void graph_kit_open(graph_kit *k, uint64_t n, const char *spec) {
    *k = (graph_kit){.s = larder__signal_find("graph"), .n = n};
    k->st = calloc(1, k->s->plugin.state_size);
    k->scores = malloc(n * sizeof *k->scores);
    assert_true(k->st && k->scores);
    for (uint64_t i = 0; i < n; i++)
        k->scores[i] = NAN;
    larder_args args;
    check_ok(larder__args_parse(&args, "signal", &k->s->plugin, spec, ',', NULL));
    check_ok(k->s->init(k->st, n, &args));
    larder__args_free(&args);
}

void graph_kit_close(graph_kit *k) {
    k->s->fini(k->st);
    free(k->st);
    free(k->scores);
}

static void note_hub(void *arg, uint64_t key, const uint64_t *ids, size_t n) {
    graph_kit *k = arg;
    assert_true(k->hubs < 64 && n > 0);
    k->hub_key[k->hubs] = key;
    k->hub_count[k->hubs] = n;
    k->hub_first[k->hubs++] = ids[0];
    for (size_t i = 0; i < n; i++)
        assert_true(ids[i] < k->n && ids[i] != key);
}

void graph_kit_tell(graph_kit *k, const larder_report *rep) {
    size_t size = k->s->result_size(k->st, rep->n);
    void *result = calloc(1, size);
    assert_non_null(result);
    k->s->prepare(k->st, rep, result);
    assert_true(k->s->check(k->st, result, rep->n));
    k->hubs = 0;
    k->s->apply(k->st, result, k->scores, note_hub, k);
    free(result);
}

double graph_kit_figure(const graph_kit *k, const char *name) {
    for (size_t i = 0; k->s->figures[i].name; i++)
        if (strcmp(k->s->figures[i].name, name) == 0)
            return k->s->figure(k->st, i);
    fail_msg("no figure %s", name);
    return 0;
}

int graph_kit_restore(graph_kit *k, const void *bytes, size_t size) {
    const unsigned char *at = bytes;
    larder_reader r = {.at = at, .end = at + size};
    return k->s->load(k->st, &r);
}

void graph_twin_open(graph_twin *t, uint64_t n, size_t dim, bool normalise) {
    *t = (graph_twin){.n = n, .dim = dim, .normalise = normalise};
    t->x = malloc(n * dim * sizeof *t->x);
    t->label = malloc(n * sizeof *t->label);
    assert_true(t->x && t->label);
    for (uint64_t i = 0; i < n; i++)
        t->label[i] = -2;
}

void graph_twin_close(graph_twin *t) {
    free(t->x);
    free(t->label);
}

void graph_twin_update(graph_twin *t, const larder_report *rep) {
    for (size_t i = 0; i < rep->n; i++) {
        double square = 0, *to = t->x + rep->ids[i] * t->dim;
        for (size_t k = 0; k < t->dim; k++) {
            to[k] = (double)rep->embeddings[i * t->dim + k];
            square += to[k] * to[k];
        }
        for (size_t k = 0; t->normalise && square > 0 && k < t->dim; k++)
            to[k] /= sqrt(square);
        t->label[rep->ids[i]] = rep->labels[i];
    }
}

void graph_twin_count(const graph_twin *t, uint64_t id, double radius, double *same,
                      double *other) {
    *same = *other = 0;
    for (uint64_t j = 0; j < t->n; j++) {
        double square = 0;
        if (j == id || t->label[j] == -2)
            continue;
        for (size_t k = 0; k < t->dim; k++) {
            double d = t->x[id * t->dim + k] - t->x[j * t->dim + k];
            square += d * d;
        }
        if (square < radius * radius)
            *(t->label[j] == t->label[id] ? same : other) += 1;
    }
}

double graph_twin_score(double same, double other, double cap) {
    if (same + other > cap) {
        double scale = cap / (same + other);
        same *= scale, other *= scale;
    }
    return log(1 / (same > 1 ? same : 1) + other / cap + 1);
}
