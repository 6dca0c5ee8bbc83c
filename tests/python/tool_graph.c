/* The signal `graph` for a script: tool_graph N SPEC reads reports from standard input and writes
 * what became of each. All words are of 64 bits but embeddings and scores, which are floats.
 *
 * in:  epoch, rows, dim, ids, labels, embeddings
 * out: radius (a double), hubs, of each its id, a count and so many ids; then N scores */
#include "base/spec.h"
#include "plugins.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROWS_MAX = 65536, DIM_MAX = 4096 };

static bool get(void *to, size_t size, size_t n) { return fread(to, size, n, stdin) == n; }

static void put(const void *from, size_t size, size_t n) {
    if (fwrite(from, size, n, stdout) != n)
        exit(2);
}

typedef struct hubs {
    uint64_t count;
    uint64_t words; /* in list */
    uint64_t list[1 << 16];
} hubs;

static void note(void *arg, uint64_t key, const uint64_t *ids, size_t n) {
    hubs *h = arg;
    if (h->words + 2 + n > sizeof h->list / sizeof *h->list)
        exit(2);
    h->list[h->words++] = key;
    h->list[h->words++] = n;
    for (size_t i = 0; i < n; i++)
        h->list[h->words++] = ids[i];
    h->count++;
}

static double radius_of(const larder_signal *s, const void *st) {
    for (size_t i = 0; s->figures[i].name; i++)
        if (strcmp(s->figures[i].name, "graph_radius") == 0)
            return s->figure(st, i);
    return NAN;
}

static void answer(const larder_signal *s, void *st, const larder_report *rep, float *scores,
                   uint64_t n) {
    static hubs named;
    void *result = calloc(1, s->result_size(st, rep->n));
    if (!result)
        exit(2);
    named.count = named.words = 0;
    s->prepare(st, rep, result);
    s->apply(st, result, scores, note, &named);
    free(result);
    double radius = radius_of(s, st);
    put(&radius, sizeof radius, 1);
    put(&named.count, sizeof named.count, 1);
    put(named.list, sizeof *named.list, named.words);
    put(scores, sizeof *scores, n);
    if (fflush(stdout) != 0)
        exit(2);
}

/* One report; false: there is none left. */
static bool take(const larder_signal *s, void *st, float *scores, uint64_t n) {
    uint64_t head[3];
    if (!get(head, sizeof *head, 3))
        return false;
    size_t rows = head[1], dim = head[2];
    if (rows > ROWS_MAX || dim > DIM_MAX)
        exit(2);
    uint64_t *ids = malloc(rows * sizeof *ids);
    int64_t *labels = malloc(rows * sizeof *labels);
    float *x = malloc(rows * dim * sizeof *x);
    if (!ids || !labels || !x || !get(ids, sizeof *ids, rows) ||
        !get(labels, sizeof *labels, rows) || !get(x, sizeof *x, rows * dim))
        exit(2);
    larder_report rep = {.epoch = head[0],
                         .n = rows,
                         .dim = dim,
                         .ids = ids,
                         .labels = labels,
                         .embeddings = x,
                         .accuracy = NAN};
    answer(s, st, &rep, scores, n);
    free(ids);
    free(labels);
    free(x);
    return true;
}

int main(int argc, char **argv) {
    const larder_signal *s = larder__signal_find("graph");
    uint64_t n = argc == 3 ? strtoull(argv[1], NULL, 10) : 0;
    void *st = calloc(1, s->plugin.state_size);
    float *scores = malloc((n + 1) * sizeof *scores);
    larder_args args;
    if (n == 0 || !st || !scores ||
        larder__args_parse(&args, "signal", &s->plugin, argv[2], ',', NULL) < 0 ||
        s->init(st, n, &args) < 0)
        exit(2);
    larder__args_free(&args);
    for (uint64_t i = 0; i < n; i++)
        scores[i] = NAN;
    while (take(s, st, scores, n))
        ;
    s->fini(st);
    free(st);
    free(scores);
    return 0;
}
