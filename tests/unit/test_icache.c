/* The whole recipe icache through a real loader: what is served is what the batch says it is, the
 * ledger is honest about packages, and the simulator fed with the same losses says the same. */
#include "loader_kit.h"

#include "base/hash.h"
#include "base/spec.h"
#include "cache_kit.h"
#include "plugins.h"
#include "sim/sim.h"

#include <math.h>
#include <stdlib.h>

enum { N = 600, EPOCHS = 7, SIZE = 192 };
#define SOURCE "mem:?n=600&h=8&w=8&c=3"

static larder_loader *open_loader(const char *recipe) {
    larder_loader_conf c = kit_conf(SOURCE, recipe);
    c.cache = "30%";
    c.augment = NULL;
    c.epochs = EPOCHS;
    c.threads = 3;
    c.lag = 6; /* as the simulator's */
    larder_loader *l = NULL;
    check_ok(larder_loader_open(&l, &c));
    return l;
}

typedef struct seen { /* what each sample looked like when it was read in epoch 0 */
    uint64_t pixels[N];
    int64_t label[N];
} seen;

static void look_at(const larder_batch *b, seen *s, uint64_t *substitutes) {
    for (size_t i = 0; i < b->n; i++) {
        uint64_t id = b->served[i], h = larder__hash_bytes(1, (const char *)b->x + i * SIZE, SIZE);
        assert_true(id < N);
        if (b->epoch == 0) {
            assert_int_equal(b->kind[i], LARDER_MISS);
            s->pixels[id] = h;
            s->label[id] = b->y[i];
        }
        assert_int_equal(s->pixels[id], h);
        assert_int_equal(s->label[id], b->y[i]);
        assert_int_equal(b->kind[i] == LARDER_SUBSTITUTE, b->served[i] != b->ids[i]);
        *substitutes += b->kind[i] == LARDER_SUBSTITUTE;
    }
}

static void served_is_what_it_says(void **state) {
    (void)state;
    static seen s;
    larder_loader *l = open_loader("icache");
    uint64_t substitutes = 0, background = 0;
    float losses[16];
    const larder_batch *b;
    for (int rc; (rc = larder_loader_next(l, &b)) != LARDER_END;) {
        check_ok(rc);
        if (rc == LARDER_END_EPOCH)
            continue;
        look_at(b, &s, &substitutes);
        for (size_t i = 0; i < b->n; i++)
            losses[i] = kit_loss(b->served[i], b->epoch);
        check_ok(larder_loader_report(
            l, b, &(larder_feedback){.size = sizeof(larder_feedback), .loss = losses}));
        check_ok(larder_loader_done(l, b));
    }
    assert_true(substitutes > 300);
    for (uint64_t e = 0; e < EPOCHS; e++) {
        larder_figures f = {.size = sizeof f};
        check_ok(larder_loader_figures(l, e, &f));
        assert_int_equal(f.storage_bytes, (f.misses + f.background_reads) * SIZE);
        assert_int_equal(f.hits + f.misses + f.substitutes, f.served);
        background += f.background_reads;
        if (e % 3 == 0)
            assert_int_equal(f.served, N);
        else
            assert_true(f.served > N * 2 / 3 && f.served < N * 5 / 6);
    }
    assert_true(background > 300);
    larder_loader_close(&l);
}

/* ---- the simulator --------------------------------------------------------------------------- */

/* Simulates a recipe over a recorded training of n samples whose losses are the kit's. */
static void simulate(const char *recipe, uint64_t n, larder__sim_result *said) {
    char folder[256];
    float *losses = calloc(EPOCHS * n, sizeof *losses);
    uint8_t *labels = calloc(n, 1);
    check_folder(folder);
    for (uint64_t i = 0; i < EPOCHS * n; i++)
        losses[i] = kit_loss(i % n, i / n);
    kit_write_array(folder, "train_loss.npy", "<f4", EPOCHS, n, losses,
                    EPOCHS * n * sizeof *losses);
    kit_write_array(folder, "labels.npy", "|u1", n, 1, labels, n);
    larder__sim_conf sim = {.recipe = recipe,
                            .cache = "30%",
                            .trace = folder,
                            .epochs = EPOCHS,
                            .batch = 16,
                            .seed = 7,
                            .size = SIZE};
    check_ok(larder__sim_run(&sim, said));
    check_folder_remove(folder);
    free(losses);
    free(labels);
}

static void the_simulator_agrees(void **state) {
    (void)state;
    larder__sim_result said;
    simulate("icache", N, &said);
    larder_loader *l = open_loader("icache");
    uint64_t digests[EPOCHS * 40];
    kit_run(l, digests, EPOCHS * 40);
    for (uint64_t e = 0; e < EPOCHS; e++) {
        larder_figures f = {.size = sizeof f};
        check_ok(larder_loader_figures(l, e, &f));
        assert_int_equal(f.served, said.epochs[e].served);
        assert_int_equal(f.hits, said.epochs[e].hits);
        assert_int_equal(f.substitutes, said.epochs[e].substitutes);
        assert_int_equal(f.repeats, said.epochs[e].repeats);
        assert_int_equal(f.background_reads, said.epochs[e].background_reads);
        assert_int_equal(f.storage_bytes, said.epochs[e].storage_bytes);
    }
    larder__sim_free(&said);
    larder_loader_close(&l);
}

/* base saves computing alone: whatever is trained on, storage gives what lru would have it give. */
static void base_reads_everything(void **state) {
    (void)state;
    enum { MANY = 6000 };
    larder__sim_result said;
    simulate("base", MANY, &said);
    double expected = MANY * (1 - (0.3 + 0.7 * log(0.7)));
    for (uint64_t e = 1; e < EPOCHS; e++) {
        const larder_figures *f = &said.epochs[e];
        double reads = (double)(f->misses + f->background_reads);
        assert_true(fabs(reads - expected) < 0.02 * MANY);
        assert_int_equal(f->served == MANY, e % 3 == 0);
        assert_int_equal(f->background_reads > 0, e % 3 != 0);
        assert_int_equal(f->substitutes + f->repeats, 0);
    }
    larder__sim_free(&said);
}

/* So it is without a cache too, and what is read in vain is no row of any batch. */
static void base_needs_no_cache(void **state) {
    (void)state;
    larder_loader_conf c = kit_conf(SOURCE, "base");
    c.cache = "0";
    c.augment = NULL;
    c.epochs = 4;
    c.lag = 6;
    larder_loader *l = NULL;
    uint64_t digests[200];
    check_ok(larder_loader_open(&l, &c));
    kit_run(l, digests, 200);
    for (uint64_t e = 0; e < 4; e++) {
        larder_figures f = {.size = sizeof f};
        check_ok(larder_loader_figures(l, e, &f));
        assert_int_equal(f.misses, f.served);
        assert_int_equal(f.misses + f.background_reads, N);
        assert_int_equal(f.storage_bytes, N * SIZE);
        assert_int_equal(f.served == N, e % 3 == 0);
    }
    larder_loader_close(&l);
}

/* ---- the split ------------------------------------------------------------------------------- */

/* Residents that are important, in a full cache of 100 entries, after each of some epochs with
 * `high` of 10 requests HIGH; importance never changes. */
static void run_split(uint32_t high, uint32_t *after, int epochs) {
    enum { KEYS = 1000 };
    static uint8_t tags[KEYS];
    for (int k = 0; k < KEYS; k++)
        tags[k] = (uint32_t)k % 10 < high ? LARDER_TAG_HIGH : LARDER_TAG_LOW;
    larder__cache *c = kit_cache(larder__policy_find("hilo"), &larder__store_null, KEYS, 1000, 1);
    larder__cache_list(c, tags);
    for (int e = 0; e < epochs; e++) {
        larder__cache_epoch(c, (uint64_t)e);
        for (uint64_t i = 0; i < KEYS; i++) {
            uint64_t key = i * 7 % KEYS, fetch[64];
            larder_access a = {.key = key, .size = 10, .tag = tags[key], .score = (float)(i % 97)};
            larder__ticket t;
            check_ok(larder__cache_claim(c, &a, 1, &t));
            if (i % 20 != 19)
                continue;
            size_t n = larder__cache_fetch(c, fetch, 64);
            for (size_t k = 0; k < n; k++) {
                a = (larder_access){.key = fetch[k], .size = 10, .tag = LARDER_TAG_FETCH};
                check_ok(larder__cache_claim(c, &a, 1, &t));
            }
            larder__cache_batch(c);
        }
        after[e] = 0;
        for (uint64_t k = 0; k < KEYS; k++)
            after[e] += tags[k] == LARDER_TAG_HIGH && larder__cache_resident(c, k);
    }
    larder__cache_close(&c);
}

static void split_follows_requests(void **state) {
    (void)state;
    uint32_t after[8];
    run_split(5, after, 8);
    const uint32_t half[] = {90, 70, 60, 55, 52, 51, 50, 50}; /* half the way at each epoch */
    for (int e = 0; e < 8; e++)
        assert_true(after[e] <= half[e] + 1 && after[e] + 1 >= half[e]);
    run_split(10, after, 4);         /* nothing unimportant: nothing to learn about the split */
    assert_int_equal(after[3], 100); /* and what L leaves empty is used */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(served_is_what_it_says), cmocka_unit_test(the_simulator_agrees),
        cmocka_unit_test(base_reads_everything),  cmocka_unit_test(base_needs_no_cache),
        cmocka_unit_test(split_follows_requests),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
