/* The saved state of every sampler, tampered with, is refused with a sentence, or the sampler draws
 * on: ids that there are, and batches that end. The input is a recipe for damage to a valid state:
 * sampler; how (1: in the middle of an epoch, 2: by another number of ranks, where it can); length
 * kept; then edits of three bytes each (where, where, what). */
#include "base/spec.h"
#include "base/state.h"
#include "plugins.h"

#include <larder/larder.h>
#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { N = 300, BATCH = 16, SAMPLE = 1 << 20, BUDGET = 40 << 20, DRAWS = 100 };

static bool resident(const void *arg, uint64_t id) { return (void)arg, id % 3 == 0; }
static uint32_t size_of(void *arg, uint64_t id) { return (void)arg, (void)id, SAMPLE; }
static uint32_t class_of(void *arg, uint64_t id) { return (void)arg, (uint32_t)id % 4; }
static int file_of(void *arg, uint64_t id, uint64_t *file) {
    (void)arg;
    *file = id / 100;
    return 0;
}

static struct {
    float scores[N];
    uint32_t key_of[N / 3];
    larder_slots slots;
    larder_memorised memorised;
    larder_draw_env env[2]; /* before and after */
} is;

static void set_up(void) {
    for (uint32_t i = 0; i < N; i++)
        is.scores[i] = (float)(i % 10);
    for (uint32_t i = 0; i < N / 3; i++)
        is.key_of[i] = 3 * i;
    is.slots = (larder_slots){
        .keys = N, .used = N / 3, .resident = N / 3, .budget = BUDGET, .key_of = is.key_of};
    is.memorised = (larder_memorised){50, 60, 2, 1, 3};
    for (uint32_t i = 0; i < 2; i++)
        is.env[i] = (larder_draw_env){.n = N,
                                      .seed = 11,
                                      .batch = BATCH,
                                      .rank = i,
                                      .world = 2 + i,
                                      .scores = is.scores,
                                      .slots = &is.slots,
                                      .resident = resident,
                                      .class_of = class_of,
                                      .memorised = &is.memorised,
                                      .size_of = size_of,
                                      .file_of = file_of};
}

static void *open_sampler(const larder_sampler *q, const larder_draw_env *env) {
    larder_args args;
    void *st = calloc(1, q->plugin.state_size);
    if (!st || larder__args_parse(&args, "sampler", &q->plugin, "", ',', NULL) < 0 ||
        q->init(st, env, &args) < 0)
        abort();
    larder__args_free(&args);
    return st;
}

static void close_sampler(const larder_sampler *q, void *st) {
    if (q->fini)
        q->fini(st);
    free(st);
}

static void draw(const larder_sampler *q, void *st, int batches) {
    for (int b = 0; b < batches; b++) {
        larder_pick picks[BATCH];
        for (size_t i = 0; i < BATCH; i++)
            picks[i] = (larder_pick){.weight = 1};
        size_t n = q->draw(st, picks, BATCH);
        if (n > BATCH)
            abort();
        for (size_t i = 0; i < n; i++)
            if (picks[i].id >= N)
                abort();
        if (n == 0)
            return;
    }
}

static void save(const larder_sampler *q, bool inside, larder_writer *w) {
    void *st = open_sampler(q, &is.env[0]);
    if (q->epoch(st, 1) < 0)
        abort();
    draw(q, st, inside ? 3 : DRAWS);
    q->save(st, w);
    close_sampler(q, st);
    if (w->code < 0)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    size_t count = 0;
    larder_writer w = {0};
    if (!is.slots.keys)
        set_up();
    while (larder__samplers[count])
        count++;
    const larder_sampler *q = larder__samplers[size ? data[0] % count : 0];
    bool inside = size > 1 && data[1] & 1, divide = size > 1 && data[1] & 2 && q->divide;
    save(q, inside, &w);
    if (size > 2 && data[2] < 255)
        w.size = w.size * data[2] / 255;
    for (size_t i = 3; i + 2 < size && w.size; i += 3)
        w.bytes[((size_t)data[i] << 8 | data[i + 1]) % w.size] = data[i + 2];
    larder_reader r = {.at = w.bytes, .end = w.bytes + w.size};
    void *st = open_sampler(q, &is.env[divide]);
    if ((inside || divide) && q->epoch(st, 1) < 0)
        abort();
    int rc = divide ? q->divide(st, &r, UINT64_C(3) * 2 * BATCH) : q->load(st, &r);
    if (rc < 0 && (!larder_errmsg()[0] || size < 3))
        abort(); /* refused without a word, or an undamaged state was refused */
    if (rc == 0 && (inside || divide)) /* between two epochs, one begins first */
        draw(q, st, DRAWS);
    if (rc == 0 && q->epoch(st, 2) == 0) {
        q->length(st);
        draw(q, st, DRAWS);
    }
    close_sampler(q, st);
    larder__writer_free(&w);
    return 0;
}
