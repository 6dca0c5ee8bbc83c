/* Restoring a loader from hostile bytes: refused, or it trains on without breaking anything. The
 * checksum is made right here, so that the fuzzer gets past it. */
#include "base/hash.h"

#include <larder/larder.h>
#include <stdlib.h>
#include <string.h>

static larder_loader *open_small(const char *recipe) {
    larder_loader_conf c = {.size = sizeof c};
    c.source = "mem:?n=37&h=4&w=4&c=1";
    c.recipe = recipe;
    c.cache = "30%";
    c.batch = 8;
    c.threads = 1;
    c.prefetch = 2;
    c.lag = 5;
    c.epochs = 3;
    c.dtype = LARDER_U8;
    larder_loader *l = NULL;
    return larder_loader_open(&l, &c) < 0 ? NULL : l;
}

static void train(larder_loader *l, int batches) {
    const larder_batch *b;
    for (int i = 0; i < batches; i++) {
        int rc = larder_loader_next(l, &b);
        if (rc == LARDER_END || rc < 0)
            return;
        if (rc == LARDER_END_EPOCH)
            continue;
        float loss[8] = {1, 2, 3, 4, 5, 6, 7, 8};
        larder_feedback fb = {.size = sizeof fb, .loss = loss};
        larder_loader_report(l, b, &fb);
        larder_loader_done(l, b);
    }
}

/* A state belongs to one recipe; the other refuses it at once. */
static const char *const recipes[] = {"quiver:policy=lru,signal=loss", "seneca:split=40/30/30",
                                      "seneca:plan=auto,split=40/30/30", "rotate",
                                      "lru:shrink=native"};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 8)
        return 0;
    uint8_t *copy = malloc(size);
    memcpy(copy, data, size);
    uint64_t sum = larder__hash_bytes(0, copy, size - 8);
    for (int i = 0; i < 8; i++)
        copy[size - 8 + (size_t)i] = (uint8_t)(sum >> (8 * i));
    for (size_t i = 0; i < sizeof recipes / sizeof *recipes; i++) {
        larder_loader *l = open_small(recipes[i]);
        if (l && larder_loader_restore(l, LARDER_STATE, copy, size) == 0)
            train(l, 30);
        larder_loader_close(&l);
        l = open_small(recipes[i]); /* and as what it decided */
        if (l && larder_loader_restore(l, LARDER_DECISIONS, copy, size) == 0)
            train(l, 30);
        larder_loader_close(&l);
    }
    free(copy);
    return 0;
}
