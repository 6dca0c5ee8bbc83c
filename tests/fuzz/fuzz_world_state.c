/* A state that was tampered with, taken up by another number of processes: what was left of the
 * epoch is divided anew (tests/unit/test_elastic.c). Refused with a sentence, or all ranks train on
 * without breaking anything. The input: recipe and worlds, then a recipe for damage. */
#include "fuzz_damage.h"

#include <larder/larder.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { N = 90, RECIPES = 3, WORLDS = 3 };

static const char *const recipes[RECIPES] = {"minio", "lru:sampler=sequential", "nopfs"};
static const struct {
    uint32_t before, after;
    size_t batch;
} worlds[WORLDS] = {{2, 3, 5}, {3, 1, 16}, {1, 2, 8}};

static larder_loader *open_rank(const char *recipe, size_t batch, uint32_t rank, uint32_t world) {
    larder_loader_conf c = {.size = sizeof c};
    c.source = "mem:?n=90&h=4&w=4&c=1";
    c.recipe = recipe;
    c.cache = "30%";
    c.batch = batch;
    c.rank = rank;
    c.world = world;
    c.threads = 1;
    c.prefetch = 2;
    c.epochs = 3;
    c.dtype = LARDER_U8;
    larder_loader *l = NULL;
    if (larder_loader_open(&l, &c) < 0)
        abort();
    return l;
}

static void train(larder_loader *l, int batches) {
    const larder_batch *b;
    for (int i = 0; i < batches; i++) {
        int rc = larder_loader_next(l, &b);
        if (rc == LARDER_END || rc < 0)
            return;
        if (rc == LARDER_END_EPOCH)
            continue;
        for (size_t r = 0; r < b->n; r++)
            if (b->ids[r] >= N || b->served[r] >= N)
                abort();
        larder_loader_done(l, b);
    }
}

typedef struct saved {
    void *bytes;
    size_t size;
} saved;

/* Of the last rank, in the middle of its second epoch, with batches drawn ahead. */
static saved *valid_state(size_t recipe, size_t world) {
    static saved all[RECIPES][WORLDS];
    saved *s = &all[recipe][world];
    if (!s->bytes) {
        uint32_t of = worlds[world].before;
        larder_loader *l = open_rank(recipes[recipe], 8, of - 1, of);
        train(l, (int)(N / (8 * of)) + 4);
        if (larder_loader_save(l, LARDER_STATE, &s->bytes, &s->size) < 0)
            abort();
        larder_loader_close(&l);
    }
    return s;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    size_t recipe = size ? data[0] % RECIPES : 0, world = size ? data[0] / RECIPES % WORLDS : 0;
    const saved *valid = valid_state(recipe, world);
    size_t n = valid->size;
    uint8_t *copy = damaged(valid->bytes, &n, data + (size > 0), size - (size > 0));
    for (uint32_t rank = 0; rank < worlds[world].after; rank++) {
        larder_loader *l =
            open_rank(recipes[recipe], worlds[world].batch, rank, worlds[world].after);
        if (larder_loader_restore(l, LARDER_STATE, copy, n) == 0)
            train(l, 60);
        else if (!larder_errmsg()[0] || size < 2)
            abort(); /* refused without a word, or an undamaged state was refused */
        larder_loader_close(&l);
    }
    free(copy);
    return 0;
}
