/* A saved index of the signal `graph` that was tampered with is refused with a sentence, or works.
 * The input is a recipe for damage to a valid state of one of the engines: engine, length kept,
 * then edits of four bytes each (where in three, what). */
#include "base/spec.h"
#include "base/state.h"
#include "plugins.h"

#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { N = 200, BATCH = 32, DIM = 64 }; /* as many as make exact order them */

static void *open_signal(const larder_signal *s, const char *spec) {
    larder_args args;
    void *st = calloc(1, s->plugin.state_size);
    if (!st || larder__args_parse(&args, "signal", &s->plugin, spec, ',', NULL) < 0 ||
        s->init(st, N, &args) < 0)
        abort();
    larder__args_free(&args);
    return st;
}

static void train(const larder_signal *s, void *st, int batches, uint64_t seed) {
    float scores[N] = {0}, x[BATCH * DIM];
    uint64_t ids[BATCH];
    int64_t labels[BATCH];
    larder_rng rng;
    larder_rng_seed(&rng, seed, 0);
    void *result = calloc(1, s->result_size(st, BATCH));
    if (!result)
        abort();
    for (int b = 0; b < batches; b++) {
        for (size_t i = 0; i < BATCH; i++) {
            ids[i] = larder_rng_below(&rng, N);
            labels[i] = (int64_t)(ids[i] % 4);
            for (size_t k = 0; k < DIM; k++)
                x[i * DIM + k] = (float)larder_rng_unit(&rng) + (k == ids[i] % 4 ? 2 : 0);
        }
        larder_report rep = {.n = BATCH, .dim = DIM, .ids = ids, .labels = labels, .embeddings = x};
        s->prepare(st, &rep, result);
        if (!s->check(st, result, BATCH))
            abort();
        s->apply(st, result, scores, NULL, NULL);
    }
    free(result);
}

static void close_signal(const larder_signal *s, void *st) {
    s->fini(st);
    free(st);
}

/* A valid state of one engine, made once; lent. */
static const larder_writer *valid_state(const larder_signal *s, const char *spec, size_t engine) {
    static larder_writer states[4];
    larder_writer *w = &states[engine];
    if (!w->size) {
        void *st = open_signal(s, spec);
        train(s, st, 8, 1);
        s->save(st, w);
        close_signal(s, st);
    }
    if (w->code < 0)
        abort();
    return w;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const specs[] = {"engine=exact,degree=9",
                                        "engine=strata,degree=9,tune=project=8/learn=24"};
    enum { ENGINES = sizeof specs / sizeof *specs };
    const larder_signal *s = larder__signal_find("graph");
    size_t engine = size ? data[0] % ENGINES : 0;
    const larder_writer *valid = valid_state(s, specs[engine], engine);
    larder_writer w = {0};
    larder_write_bytes(&w, valid->bytes, valid->size);
    if (w.code < 0)
        abort();
    if (size > 1 && data[1] < 255)
        w.size = w.size * data[1] / 255;
    for (size_t i = 2; i + 3 < size && w.size; i += 4)
        w.bytes[((size_t)data[i] << 16 | (size_t)data[i + 1] << 8 | data[i + 2]) % w.size] =
            data[i + 3];
    void *st = open_signal(s, specs[engine]);
    larder_reader r = {.at = w.bytes, .end = w.bytes + w.size};
    if (s->load(st, &r) < 0 && (!larder_errmsg()[0] || size < 2))
        abort(); /* refused without a word, or an undamaged state was refused */
    train(s, st, 4, 2);
    close_signal(s, st);
    larder__writer_free(&w);
    return 0;
}
