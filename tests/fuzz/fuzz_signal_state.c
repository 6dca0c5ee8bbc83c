/* What is kept of every signal, tampered with: its state is refused with a sentence, or it goes on;
 * the result of a report, which waits to take effect, is refused by `check` or touches nothing but
 * scores and names nobody but ids. The input is a recipe for damage: signal and its parameters; how
 * (1: a result, else a state); length kept, of a state; then edits of three bytes each (where,
 * where, what). `graph` has its engines besides (fuzz_graph_state.c). */
#include "base/spec.h"
#include "base/state.h"
#include "plugins.h"

#include <larder/larder.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { N = 60, BATCH = 12, DIM = 8, CLASSES = 4 };

static const struct {
    const char *name, *args;
} subjects[] = {
    {"loss", ""},         {"plain", ""}, {"rank", ""}, {"given", ""}, {"given", "hubs=2,list=3"},
    {"graph", "degree=6"}};

static void *open_signal(const larder_signal *s, const char *text) {
    larder_args args;
    void *st = calloc(1, s->plugin.state_size);
    if (!st || larder__args_parse(&args, "signal", &s->plugin, text, ',', NULL) < 0 ||
        s->init(st, N, &args) < 0)
        abort();
    larder__args_free(&args);
    return st;
}

static void close_signal(const larder_signal *s, void *st) {
    if (s->fini)
        s->fini(st);
    free(st);
}

static void relate(void *arg, uint64_t key, const uint64_t *ids, size_t n) {
    (void)arg;
    if (key >= N || n > N)
        abort();
    for (size_t i = 0; i < n; i++)
        if (ids[i] >= N || ids[i] == key)
            abort();
}

typedef struct report {
    larder_report is;
    uint64_t ids[BATCH];
    int64_t labels[BATCH];
    float loss[BATCH], logits[BATCH * CLASSES], embeddings[BATCH * DIM];
} report;

static const larder_report *make_report(report *r, uint64_t round) {
    larder_rng rng;
    larder_rng_seed(&rng, 3, round);
    for (size_t i = 0; i < BATCH; i++) {
        r->ids[i] = (round * 5 + i * 7) % N;
        r->labels[i] = (int64_t)(r->ids[i] % CLASSES);
        r->loss[i] = (float)larder_rng_unit(&rng) * 3;
    }
    for (size_t i = 0; i < BATCH * CLASSES; i++)
        r->logits[i] = (float)larder_rng_unit(&rng) * 5;
    for (size_t i = 0; i < BATCH * DIM; i++)
        r->embeddings[i] = (float)(larder_rng_unit(&rng) + (double)(r->ids[i / DIM] % 4));
    r->is = (larder_report){.batch = round,
                            .epoch = round / 8,
                            .n = BATCH,
                            .classes = CLASSES,
                            .dim = DIM,
                            .ids = r->ids,
                            .labels = r->labels,
                            .loss = r->loss,
                            .logits = r->logits,
                            .embeddings = r->embeddings,
                            .accuracy = NAN};
    return &r->is;
}

/* Of a signal in two halves: exactly as large as it says. */
static void *prepare(const larder_signal *s, void *st, const larder_report *rep, size_t *bytes) {
    *bytes = s->result_size(st, rep->n);
    void *result = calloc(1, *bytes ? *bytes : 1);
    if (!result)
        abort();
    s->prepare(st, rep, result);
    return result;
}

static void train(const larder_signal *s, void *st, float *scores, uint64_t from, uint64_t to) {
    for (uint64_t i = from; i < to; i++) {
        report r;
        const larder_report *rep = make_report(&r, i);
        if (s->prepare) {
            size_t bytes;
            void *result = prepare(s, st, rep, &bytes);
            if (!s->check(st, result, BATCH))
                abort();
            s->apply(st, result, scores, relate, NULL);
            free(result);
        } else
            s->observe(st, rep, scores);
        if (s->epoch && i % 8 == 7)
            s->epoch(st, i / 8 + 1, scores);
    }
}

static void damage(unsigned char *bytes, size_t n, const uint8_t *data, size_t size) {
    for (size_t i = 0; i + 2 < size && n; i += 3)
        bytes[((size_t)data[i] << 8 | data[i + 1]) % n] = data[i + 2];
}

static void damaged_result(const larder_signal *s, void *st, float *scores, const uint8_t *data,
                           size_t size) {
    report r;
    size_t bytes;
    unsigned char *result = prepare(s, st, make_report(&r, 20), &bytes);
    damage(result, bytes, data, size);
    if (s->check(st, result, BATCH))
        s->apply(st, result, scores, relate, NULL);
    free(result);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    size_t which = size ? data[0] % (sizeof subjects / sizeof *subjects) : 0;
    const larder_signal *s = larder__signal_find(subjects[which].name);
    float *scores = malloc(N * sizeof *scores);
    larder_writer w = {0};
    if (!scores)
        abort();
    for (size_t i = 0; i < N; i++)
        scores[i] = NAN;
    void *st = open_signal(s, subjects[which].args);
    train(s, st, scores, 0, 12);
    if (s->prepare && size > 1 && data[1] & 1) {
        damaged_result(s, st, scores, data + 2, size - 2);
    } else if (s->save) {
        s->save(st, &w);
        close_signal(s, st);
        if (w.code < 0)
            abort();
        if (size > 2 && data[2] < 255)
            w.size = w.size * data[2] / 255;
        if (size > 3)
            damage(w.bytes, w.size, data + 3, size - 3);
        larder_reader r = {.at = w.bytes, .end = w.bytes + w.size};
        st = open_signal(s, subjects[which].args);
        if (s->load(st, &r) < 0) {
            if (!larder_errmsg()[0] || size < 3)
                abort(); /* refused without a word, or an undamaged state was refused */
        } else
            train(s, st, scores, 12, 24);
    }
    close_signal(s, st);
    larder__writer_free(&w);
    free(scores);
    return 0;
}
