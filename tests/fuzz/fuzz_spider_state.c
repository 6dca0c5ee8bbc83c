/* A loader that scores beside training, restored from or told to repeat a state that was tampered
 * with: refused, or it trains on without breaking anything. The state holds hubs, an index, and
 * feedback on its way, scored and not; of a run that does not wait for scoring also when each
 * sample was scored. The input is a recipe for damage: how (1: repeat, else restore; 2: a run that
 * does not wait), length kept, then edits of four bytes each (three say where, one what). */
#include "fuzz_damage.h"

#include <larder/larder.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { BATCH = 8, DIM = 4 };

static larder_loader *open_small(bool beside) {
    larder_loader_conf c = {.size = sizeof c};
    c.source = "mem:?n=60&h=4&w=4&c=1&classes=3";
    c.recipe = beside ? "spider:scoring=beside,ratio=0.6,degree=6,list=12"
                      : "spider:scoring=wait,ratio=0.6,degree=6,list=12";
    c.cache = "40%";
    c.batch = BATCH;
    c.threads = 1;
    c.prefetch = 2;
    c.lag = 5;
    c.epochs = 5;
    c.dtype = LARDER_U8;
    larder_loader *l = NULL;
    if (larder_loader_open(&l, &c) < 0)
        abort();
    return l;
}

static void train(larder_loader *l, int steps) {
    const larder_batch *b;
    for (int i = 0; i < steps; i++) {
        int rc = larder_loader_next(l, &b);
        if (rc == LARDER_END || rc < 0)
            return;
        if (rc == LARDER_END_EPOCH) {
            larder_loader_validate(l, 0.5);
            continue;
        }
        float emb[BATCH * DIM];
        for (size_t r = 0; r < b->n; r++)
            for (size_t k = 0; k < DIM; k++)
                emb[r * DIM + k] =
                    (float)(b->y[r] == (int64_t)k) + (float)((b->served[r] + k) % 7) / 20;
        larder_loader_report(
            l, b,
            &(larder_feedback){.size = sizeof(larder_feedback), .embeddings = emb, .dim = DIM});
        larder_loader_done(l, b);
    }
}

static void *valid_state(bool beside, size_t *size) {
    static void *state[2];
    static size_t state_size[2];
    if (!state[beside]) {
        larder_loader *l = open_small(beside);
        train(l, 22);
        if (larder_loader_save(l, LARDER_STATE, &state[beside], &state_size[beside]) < 0)
            abort();
        larder_loader_close(&l);
    }
    *size = state_size[beside];
    return state[beside];
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    size_t n;
    bool repeat = size && data[0] & 1, beside = size && data[0] & 2;
    const void *valid = valid_state(beside, &n);
    uint8_t *copy = damaged(valid, &n, data + (size > 0), size - (size > 0));
    larder_loader *l = open_small(beside);
    int rc = repeat ? larder_loader_restore(l, LARDER_DECISIONS, copy, n)
                    : larder_loader_restore(l, LARDER_STATE, copy, n);
    if (rc == 0)
        train(l, 60);
    else if (!larder_errmsg()[0] || size < 2)
        abort(); /* refused without a word, or an undamaged state was refused */
    larder_loader_close(&l);
    free(copy);
    return 0;
}
