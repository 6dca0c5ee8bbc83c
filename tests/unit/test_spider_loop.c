/* The whole spider loop over a real loader: embeddings in, substitutes out. What the simulator says
 * is what the loader does, thread counts change nothing, a resumed run goes on to the bit with its
 * index, and a run that scored beside training can be repeated. */
#include "loader_kit.h"
#include "look_kit.h"

#include "base/hash.h"
#include "sim/sim.h"
#include "source/source.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SOURCE "mem:?n=600&h=8&w=8&c=3&classes=5"
#define RECIPE "spider:ratio=0.7,ratio_end=0.4,degree=20,hubs=16,scoring=wait"
enum { N = 600, CLASSES = 5, DIM = 12, EPOCHS = 6, BATCH = 16, MANY = 260 };

static int labels_of_source[N];
static int label_of(uint64_t id) { return labels_of_source[id]; }

static int look_up_labels(void **state) {
    (void)state;
    larder__data *data;
    check_ok(larder__data_open(&data, SOURCE));
    for (uint64_t id = 0; id < N; id++) {
        larder_sample s;
        check_ok(larder__data_stat(data, id, &s));
        labels_of_source[id] = s.label;
    }
    larder__data_close(&data);
    return 0;
}

/* Classes are clusters that draw together with the epochs; the same for a trace and a training. */
static float embedding(uint64_t id, uint64_t epoch, size_t k) {
    double noise = (double)(larder__mix64(id * DIM + k + 1) % 2001) / 1000 - 1;
    double centre =
        (double)(larder__mix64((uint64_t)label_of(id) * DIM + k + 77) % 2001) / 1000 - 1;
    return (float)(100 * (centre + noise * (epoch < 3 ? 0.6 : 0.3)));
}

static double accuracy_of(uint64_t epoch) { return 0.5 + 0.05 * (double)epoch; }

typedef struct turn { /* what training does with one batch, and between epochs */
    uint64_t epoch, count;
    uint64_t substitutes;
} turn;

/* As kit_run, with embeddings and accuracies. */
static size_t run(larder_loader *l, turn *t, uint64_t *digests, size_t max) {
    float emb[BATCH * DIM];
    size_t at = 0;
    while (at < max) {
        const larder_batch *b;
        int rc = larder_loader_next(l, &b);
        check_ok(rc);
        if (rc == LARDER_END)
            break;
        if (rc == LARDER_END_EPOCH) {
            digests[at++] = 1;
            check_ok(larder_loader_validate(l, accuracy_of(t->epoch)));
            continue;
        }
        t->epoch = b->epoch;
        digests[at++] = kit_digest(b);
        for (size_t i = 0; i < b->n; i++) {
            assert_int_equal(b->y[i], label_of(b->served[i])); /* the hub's own label … */
            if (b->kind[i] == LARDER_SUBSTITUTE) {
                assert_int_not_equal(b->served[i], b->ids[i]);
                assert_int_equal(label_of(b->ids[i]), b->y[i]); /* … which is the class asked for */
                t->substitutes++;
            } else
                assert_int_equal(b->served[i], b->ids[i]);
            for (size_t k = 0; k < DIM; k++)
                emb[i * DIM + k] = embedding(b->served[i], b->epoch, k);
        }
        check_ok(larder_loader_report(
            l, b,
            &(larder_feedback){.size = sizeof(larder_feedback), .embeddings = emb, .dim = DIM}));
        check_ok(larder_loader_done(l, b));
    }
    return at;
}

static larder_loader *open_loader(const char *recipe, uint32_t threads, uint32_t prefetch) {
    larder_loader_conf c = kit_conf(SOURCE, recipe);
    c.cache = "30%";
    c.epochs = EPOCHS;
    c.threads = threads;
    c.prefetch = prefetch;
    c.lag = 6;
    larder_loader *l = NULL;
    check_ok(larder_loader_open(&l, &c));
    return l;
}

/* ---- the simulator --------------------------------------------------------------------------- */

static void write_trace(const char *folder) {
    unsigned char labels[N], bits[EPOCHS * ((N + 7) / 8)];
    float *loss = calloc(N, sizeof *loss), *emb = calloc(N * DIM, sizeof *emb);
    for (uint64_t i = 0; i < N; i++)
        labels[i] = (unsigned char)label_of(i);
    kit_write_array(folder, "labels.npy", "|u1", N, 1, labels, N);
    kit_write_array(folder, "train_loss.npy", "<f4", 1, N, loss, N * sizeof *loss);
    memset(bits, 0, sizeof bits); /* as many bits set as accuracy says */
    for (uint64_t e = 0; e < EPOCHS; e++)
        for (uint64_t i = 0; i < (uint64_t)lround(accuracy_of(e) * N); i++)
            bits[e * ((N + 7) / 8) + i / 8] |= (unsigned char)(0x80 >> i % 8);
    kit_write_array(folder, "correct_bits.npy", "|u1", EPOCHS, (N + 7) / 8, bits, sizeof bits);
    for (uint64_t e = 0; e < 4; e += 3) {
        char name[32];
        snprintf(name, sizeof name, "emb%03d.npy", (int)e);
        for (uint64_t i = 0; i < N * DIM; i++)
            emb[i] = embedding(i / DIM, e, i % DIM);
        kit_write_array(folder, name, "<f4", N, DIM, emb, N * DIM * sizeof *emb);
    }
    free(loss);
    free(emb);
}

static void the_simulator_is_right(void **state) {
    (void)state;
    char folder[256];
    check_folder(folder);
    write_trace(folder);
    larder__sim_conf sim = {.recipe = RECIPE,
                            .cache = "30%",
                            .epochs = EPOCHS,
                            .batch = BATCH,
                            .seed = 7,
                            .size = 192,
                            .trace = folder};
    larder__sim_result said;
    check_ok(larder__sim_run(&sim, &said));
    larder_loader *l = open_loader(RECIPE, 3, 4);
    uint64_t digests[MANY];
    turn t = {0};
    run(l, &t, digests, MANY);
    uint64_t substitutes = 0;
    for (uint64_t e = 0; e < EPOCHS; e++) {
        larder_figures real = {.size = sizeof real};
        check_ok(larder_loader_figures(l, e, &real));
        assert_int_equal(real.hits, said.epochs[e].hits);
        assert_int_equal(real.misses, said.epochs[e].misses);
        assert_int_equal(real.substitutes, said.epochs[e].substitutes);
        assert_int_equal(real.repeats, said.epochs[e].repeats);
        assert_int_equal(real.background_reads, said.epochs[e].background_reads);
        assert_int_equal(real.storage_bytes, said.epochs[e].storage_bytes);
        substitutes += real.substitutes;
    }
    assert_true(substitutes > 50);
    assert_int_equal(substitutes, t.substitutes);
    larder_stat_value v = {.size = sizeof v};
    size_t compared = 0;
    for (size_t i = 0; larder_loader_stat(l, i, &v) == 0; i++)
        for (size_t k = 0; said.figures[k].name; k++)
            if (strcmp(v.name, said.figures[k].name) == 0) {
                double there = said.shown[EPOCHS - 1][k];
                assert_true(v.value == there || (isnan(v.value) && isnan(there)));
                compared++;
            }
    assert_int_equal(compared, 10);
    larder__sim_free(&said);
    larder_loader_close(&l);
    sim.trace = "nowhere";
    assert_int_equal(larder__sim_run(&sim, &said), LARDER_E_NOTFOUND);
    char path[512];
    for (int e = 0; e < 4; e += 3) {
        snprintf(path, sizeof path, "%s/emb%03d.npy", folder, e);
        remove(path);
    }
    sim.trace = folder; /* no embeddings: said, not passed over */
    assert_int_equal(larder__sim_run(&sim, &said), LARDER_E_NOTFOUND);
    check_folder_remove(folder);
}

/* ---- the loader ------------------------------------------------------------------------------ */

static void it_resumes_to_the_bit(void **state) {
    (void)state;
    uint64_t whole[MANY], got[MANY];
    turn t = {0};
    larder_loader *l = open_loader(RECIPE, 2, 4);
    size_t count = run(l, &t, whole, MANY);
    larder_loader_close(&l);
    assert_int_equal(count, EPOCHS * (38 + 1));
    for (size_t before = 1; before < count; before += 7) {
        t = (turn){0};
        l = open_loader(RECIPE, 1 + (uint32_t)before % 4, 4);
        assert_int_equal(run(l, &t, got, before), before);
        void *bytes;
        size_t size;
        check_ok(larder_loader_save(l, LARDER_STATE, &bytes, &size));
        larder_loader_close(&l);
        l = open_loader(RECIPE, 1 + (uint32_t)before % 3, 4);
        check_ok(larder_loader_restore(l, LARDER_STATE, bytes, size));
        larder_free(bytes);
        assert_int_equal(run(l, &t, got + before, MANY - before), count - before);
        if (memcmp(got, whole, count * sizeof *got) != 0)
            fail_msg("resumed after %zu of %zu, the rest differs", before, count);
        larder_loader_close(&l);
    }
}

/* As it comes, without a parameter, where scoring takes longer than training and the machine has
 * other things to do: nothing is left out, and what was saved in mid-epoch goes on to the bit. */

enum { BUSY_BATCH = 64, BUSY_DIM = 96, BUSY_STEPS = 150 };

static _Atomic bool over;

static void *burn(void *arg) {
    volatile uint64_t *sum = arg;
    while (!over)
        *sum += 1;
    return NULL;
}

static larder_loader *open_busy(uint32_t threads) {
    larder_loader_conf c = kit_conf("mem:?n=4000&h=8&w=8&c=3&classes=5", "spider");
    c.cache = "30%";
    c.batch = BUSY_BATCH;
    c.epochs = 4;
    c.threads = threads;
    larder_loader *l = NULL;
    check_ok(larder_loader_open(&l, &c));
    return l;
}

static size_t run_busy(larder_loader *l, uint64_t *digests, size_t max) {
    static float emb[BUSY_BATCH * BUSY_DIM];
    static uint64_t epoch;
    size_t at = 0;
    while (at < max) {
        const larder_batch *b;
        int rc = larder_loader_next(l, &b);
        check_ok(rc);
        digests[at++] = rc ? 1 : kit_digest(b);
        if (rc == LARDER_END_EPOCH)
            check_ok(larder_loader_validate(l, accuracy_of(epoch)));
        if (rc)
            continue;
        epoch = b->epoch;
        for (size_t i = 0; i < b->n * BUSY_DIM; i++) {
            uint64_t row = i / BUSY_DIM, k = i % BUSY_DIM;
            emb[i] = (float)((double)(larder__mix64(b->served[row] * BUSY_DIM + k) % 1000) +
                             (double)(larder__mix64((uint64_t)b->y[row] * 131 + k) % 2000));
        }
        check_ok(larder_loader_report(l, b,
                                      &(larder_feedback){.size = sizeof(larder_feedback),
                                                         .embeddings = emb,
                                                         .dim = BUSY_DIM}));
        check_ok(larder_loader_done(l, b));
    }
    return at;
}

static double stat_of(larder_loader *l, const char *name) {
    larder_stat_value v = {.size = sizeof v};
    for (size_t i = 0; larder_loader_stat(l, i, &v) == 0; i++)
        if (strcmp(v.name, name) == 0)
            return v.value;
    fail_msg("no figure %s", name);
    return 0;
}

static void the_default_resumes_to_the_bit_under_load(void **state) {
    (void)state;
    static uint64_t sums[2]; /* outlives a test that fails */
    uint64_t whole[BUSY_STEPS], got[BUSY_STEPS];
    pthread_t burners[2];
    over = false;
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&burners[i], NULL, burn, &sums[i]), 0);
    larder_loader *l = open_busy(2);
    run_busy(l, whole, BUSY_STEPS);
    assert_true(stat_of(l, "score_rows_lost") == 0);
    assert_true(stat_of(l, "score_late") == 0);
    larder_loader_close(&l);
    for (size_t before = 20; before < BUSY_STEPS; before += 37) { /* in epochs 0, 0, 1 and 2 */
        l = open_busy(1);
        run_busy(l, got, before);
        void *bytes;
        size_t size;
        check_ok(larder_loader_save(l, LARDER_STATE, &bytes, &size));
        larder_loader_close(&l);
        l = open_busy(2);
        check_ok(larder_loader_restore(l, LARDER_STATE, bytes, size));
        larder_free(bytes);
        run_busy(l, got + before, BUSY_STEPS - before);
        larder_loader_close(&l);
        if (memcmp(got, whole, sizeof got) != 0)
            fail_msg("resumed after %zu of %d, the rest differs", before, BUSY_STEPS);
    }
    over = true;
    for (int i = 0; i < 2; i++)
        pthread_join(burners[i], NULL);
}

/* A state of a run that does not wait is taken, with a word. */
static void what_cannot_go_on_exactly_says_so(void **state) {
    (void)state;
    static const char *const recipes[] = {"spider:scoring=beside", "spider"};
    for (int i = 0; i < 2; i++) {
        turn t = {0};
        uint64_t digests[20];
        void *bytes;
        size_t size;
        larder_loader *l = open_loader(recipes[i], 2, 4);
        run(l, &t, digests, 20);
        assert_null(look_note(l, 0));
        check_ok(larder_loader_save(l, LARDER_STATE, &bytes, &size));
        larder_loader_close(&l);
        l = open_loader(recipes[i], 2, 4);
        check_ok(larder_loader_restore(l, LARDER_STATE, bytes, size));
        const char *says = look_note(l, 0);
        assert_true(i == 0 ? says && strstr(says, "scoring=wait go on to the bit") : !says);
        larder_loader_close(&l);
        larder_free(bytes);
    }
}

/* Beside training nothing waits, so when feedback acts depends on the machine; as the first run
 * went, so does the second. */
static void a_run_is_repeated_from_its_state(void **state) {
    (void)state;
    const char *recipe = "spider:ratio=0.7,ratio_end=0.4,degree=20,hubs=16,scoring=beside";
    for (int round = 0; round < 4; round++) {
        uint64_t first[MANY], again[MANY];
        turn t = {0};
        larder_loader *l = open_loader(recipe, 2, 4);
        size_t count = run(l, &t, first, MANY);
        void *bytes;
        size_t size;
        check_ok(larder_loader_save(l, LARDER_STATE, &bytes, &size));
        larder_loader_close(&l);
        t = (turn){0};
        l = open_loader(recipe, 1 + (uint32_t)round, 4);
        check_ok(larder_loader_restore(l, LARDER_DECISIONS, bytes, size));
        assert_int_equal(run(l, &t, again, MANY), count);
        assert_memory_equal(first, again, count * sizeof *first);
        larder_loader_close(&l);
        larder_free(bytes);
    }
}

static void broken_embeddings_do_no_harm(void **state) {
    (void)state;
    larder_loader *l = open_loader(RECIPE, 2, 4);
    float emb[BATCH * (DIM + 1)];
    for (uint64_t k = 0; k < 60; k++) {
        const larder_batch *b;
        int rc = larder_loader_next(l, &b);
        check_ok(rc);
        if (rc)
            continue;
        for (size_t i = 0; i < BATCH * DIM; i++)
            emb[i] = k % 3 ? (k % 3 == 1 ? NAN : 0) : embedding(i, k, i % DIM);
        size_t dim = k % 11 == 10 ? DIM + 1 : DIM; /* another network, of a sudden */
        for (size_t i = BATCH * DIM; i < BATCH * (DIM + 1); i++)
            emb[i] = INFINITY;
        larder_feedback fb = {.size = sizeof fb, .embeddings = k % 7 == 6 ? NULL : emb, .dim = dim};
        check_ok(larder_loader_report(l, b, &fb));
        check_ok(larder_loader_done(l, b));
    }
    larder_loader_close(&l);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_simulator_is_right),
        cmocka_unit_test(it_resumes_to_the_bit),
        cmocka_unit_test(the_default_resumes_to_the_bit_under_load),
        cmocka_unit_test(what_cannot_go_on_exactly_says_so),
        cmocka_unit_test(a_run_is_repeated_from_its_state),
        cmocka_unit_test(broken_embeddings_do_no_harm),
    };
    return cmocka_run_group_tests(tests, look_up_labels, NULL);
}
