/* Save anywhere, restore into a fresh loader with other threads: what follows is the same to the
 * last bit, for every policy and sampler, with feedback under way. */
#include "loader_kit.h"
#include "look_kit.h"

#include "base/hash.h"
#include "base/state.h"
#include "plugins.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SOURCE "mem:?n=203&h=8&w=8&c=3"
enum { EPOCHS = 3, MANY = 64 };

static larder_loader_conf conf_of(const char *recipe) {
    larder_loader_conf c = kit_conf(SOURCE, recipe);
    c.cache = "30%";
    c.epochs = EPOCHS;
    c.prefetch = 3;
    c.lag = 9;
    return c;
}

static larder_loader *open_loader(const larder_loader_conf *c) {
    larder_loader *l = NULL;
    check_ok(larder_loader_open(&l, c));
    return l;
}

typedef struct sorts { /* what the ledger says of fresh and reused samples, to the bit */
    uint64_t counts[EPOCHS][2];
    double loss[EPOCHS][2];
} sorts;

static void read_sorts(larder_loader *l, sorts *out) {
    larder_figures f = {.size = sizeof f};
    for (uint64_t e = 0; e < EPOCHS; e++) {
        check_ok(larder_loader_figures(l, e, &f));
        out->counts[e][0] = f.fresh_reported, out->counts[e][1] = f.reused_reported;
        out->loss[e][0] = f.fresh_loss, out->loss[e][1] = f.reused_loss;
    }
}

/* Runs `before` entries, saves, restores elsewhere, compares all the rest with the whole run. */
static void resume_once(const char *recipe, bool repeats, size_t before, const uint64_t *whole,
                        size_t count, const sorts *said) {
    larder_loader_conf c = conf_of(recipe);
    larder_loader *l = kit_resume(&c, before, whole, count);
    larder_figures f = {.size = sizeof f};
    for (uint64_t e = 0; e < EPOCHS; e++) { /* served counts go on over the break */
        check_ok(larder_loader_figures(l, e, &f));
        if (!repeats) /* others may leave some out */
            assert_int_equal(f.served, 203);
        assert_int_equal(f.hits + f.misses + f.substitutes, f.served);
    }
    sorts again;
    read_sorts(l, &again);
    assert_memory_equal(&again, said, sizeof again);
    if (!repeats)
        assert_int_equal(look_audit(l), 0);
    larder_loader_close(&l);
}

static void resume_everywhere(const char *recipe, bool repeats) {
    larder_loader_conf c = conf_of(recipe);
    larder_loader *l = open_loader(&c);
    uint64_t whole[MANY];
    size_t count = kit_run(l, whole, MANY);
    assert_true(repeats || count == EPOCHS * (13 + 1));
    sorts said;
    read_sorts(l, &said);
    assert_true(!repeats || said.counts[1][0] + said.counts[2][0] > 0);
    larder_loader_close(&l);
    /* Thousands of loaders: in a short run each recipe at other moments than the one before it. */
    static size_t turn;
    size_t step = getenv("LARDER_LONG") ? 1 : 6;
    for (size_t before = turn++ % step; before <= count; before += step)
        resume_once(recipe, repeats, before, whole, count, &said);
}

static void every_recipe_resumes_exactly(void **state) {
    (void)state;
    char recipe[96];
    for (size_t p = 0; larder__policies[p]; p++) {
        if (larder__policies[p]->future == LARDER_FUTURE_ALL)
            continue;
        for (size_t s = 0; larder__samplers[s]; s++) {
            const char *name = larder__samplers[s]->plugin.name;
            snprintf(recipe, sizeof recipe, "lru:policy=%s,sampler=%s%s,signal=loss",
                     larder__policies[p]->plugin.name, name,
                     strcmp(name, "rotate") == 0   ? ",h=0.5" /* auto follows the clock */
                     : strcmp(name, "blocks") == 0 ? ",block=2KiB"
                                                   : "");
            resume_everywhere(recipe, larder__samplers[s]->repeats);
        }
    }
}

/* Weights, the order of the authors' code, no signal at all, and accuracies that arrive between two
 * epochs: none of it may be forgotten. */
static void shade_resumes_exactly(void **state) {
    (void)state;
    resume_everywhere("shade", true);
    resume_everywhere("shade:correct=0.7,hits_first=1", true);
    resume_everywhere("shade:signal=none", true);
}

static void a_state_of_a_state_is_the_same(void **state) {
    (void)state;
    larder_loader_conf c = conf_of("quiver:signal=loss");
    larder_loader *l = open_loader(&c);
    uint64_t got[MANY];
    kit_run(l, got, 17);
    void *first, *second;
    size_t n, m;
    check_ok(larder_loader_save(l, LARDER_STATE, &first, &n));
    larder_loader_close(&l);
    l = open_loader(&c);
    check_ok(larder_loader_restore(l, LARDER_STATE, first, n));
    check_ok(larder_loader_save(l, LARDER_STATE, &second, &m));
    assert_int_equal(n, m);
    assert_memory_equal(first, second, n);
    larder_free(first);
    larder_free(second);
    larder_loader_close(&l);
}

static void save_does_not_disturb(void **state) {
    (void)state;
    larder_loader_conf c = conf_of("lru:signal=loss");
    uint64_t plain[MANY], saving[MANY];
    larder_loader *l = open_loader(&c);
    size_t count = kit_run(l, plain, MANY);
    larder_loader_close(&l);
    l = open_loader(&c);
    for (size_t at = 0; at < count; at++) {
        void *bytes;
        size_t size;
        check_ok(larder_loader_save(l, LARDER_STATE, &bytes, &size));
        larder_free(bytes);
        assert_int_equal(kit_run(l, saving + at, 1), 1);
    }
    assert_memory_equal(plain, saving, count * sizeof *plain);
    larder_loader_close(&l);
}

static void foreign_and_damaged_states_are_refused(void **state) {
    (void)state;
    larder_loader_conf c = conf_of("lru");
    larder_loader *l = open_loader(&c);
    uint64_t got[MANY];
    kit_run(l, got, 5);
    void *bytes;
    size_t size;
    check_ok(larder_loader_save(l, LARDER_STATE, &bytes, &size));
    assert_int_equal(larder_loader_restore(l, LARDER_STATE, bytes, size),
                     LARDER_E_STATE); /* too late */
    larder_loader_close(&l);
    for (size_t at = 0; at < size; at += 1 + size / 97) {
        unsigned char *copy = malloc(size);
        memcpy(copy, bytes, size);
        copy[at] ^= 0x55;
        l = open_loader(&c);
        assert_int_equal(larder_loader_restore(l, LARDER_STATE, copy, size), LARDER_E_FORMAT);
        larder_loader_close(&l);
        l = open_loader(&c);
        assert_int_equal(larder_loader_restore(l, LARDER_STATE, bytes, at), LARDER_E_FORMAT);
        larder_loader_close(&l);
        free(copy);
    }
    larder_loader_conf others[6];
    for (int i = 0; i < 6; i++)
        others[i] = c;
    others[0].recipe = "minio";
    others[1].seed = 8;
    others[2].seed = 9;
    others[3].source = "mem:?n=204&h=8&w=8&c=3";
    others[4].source = "mem:?n=203&h=8&w=8&c=3&seed=2";
    others[5].drop_last = true;
    for (int i = 0; i < 6; i++) {
        l = open_loader(&others[i]);
        assert_int_equal(larder_loader_restore(l, LARDER_STATE, bytes, size), LARDER_E_FORMAT);
        assert_non_null(strstr(larder_errmsg(), "another"));
        larder_loader_close(&l);
    }
    larder_free(bytes);
}

/* Batches were drawn ahead, none was taken: such a state looks like a fresh one, and is none. */
static void a_state_is_restored_once(void **state) {
    (void)state;
    larder_loader_conf c = conf_of("lru");
    c.source = "slow:latency=30ms:" SOURCE;
    larder_loader *l = open_loader(&c);
    const larder_batch *b;
    larder_loader_cancel(l);
    assert_int_equal(larder_loader_next(l, &b), LARDER_E_CANCELLED);
    usleep(10000); /* the threads draw meanwhile */
    void *bytes;
    size_t size;
    check_ok(larder_loader_save(l, LARDER_STATE, &bytes, &size));
    larder_loader_close(&l);
    l = open_loader(&c);
    check_ok(larder_loader_restore(l, LARDER_STATE, bytes, size));
    assert_int_equal(larder_loader_restore(l, LARDER_STATE, bytes, size), LARDER_E_STATE);
    uint64_t got[MANY];
    assert_int_equal(kit_run(l, got, 14), 14);
    assert_int_equal(look_audit(l), 0);
    larder_loader_close(&l);
    larder_free(bytes);
}

/* Without a signal feedback acts on nothing, so the lag, which follows prefetch, is free. */
static void only_listening_recipes_are_bound_to_their_lag(void **state) {
    (void)state;
    static const char *const recipes[] = {"lru", "lru:signal=loss"};
    for (int listens = 0; listens < 2; listens++) {
        larder_loader_conf c = conf_of(recipes[listens]);
        c.lag = 0;
        larder_loader *l = open_loader(&c);
        uint64_t got[MANY];
        kit_run(l, got, 5);
        void *bytes;
        size_t size;
        check_ok(larder_loader_save(l, LARDER_STATE, &bytes, &size));
        larder_loader_close(&l);
        c.prefetch = 7;
        l = open_loader(&c);
        assert_int_equal(larder_loader_restore(l, LARDER_STATE, bytes, size),
                         listens ? LARDER_E_FORMAT : 0);
        larder_free(bytes);
        if (listens) { /* half-restored: neither trains nor saves */
            const larder_batch *b;
            assert_int_equal(larder_loader_next(l, &b), LARDER_E_FORMAT);
            assert_int_equal(larder_loader_save(l, LARDER_STATE, &bytes, &size), LARDER_E_STATE);
        }
        larder_loader_close(&l);
    }
}

/* A batch count at the end of its range would wrap around, and next() wait for ever. */
static void another_cache_size_is_refused(void **state) {
    (void)state;
    larder_loader_conf c = conf_of("lru");
    c.cache = "20%";
    larder_loader *l = open_loader(&c);
    const larder_batch *b;
    check_ok(larder_loader_next(l, &b));
    void *bytes;
    size_t size;
    check_ok(larder_loader_save(l, LARDER_STATE, &bytes, &size));
    larder_loader_close(&l);
    c.cache = "40%";
    l = open_loader(&c);
    assert_int_equal(larder_loader_restore(l, LARDER_STATE, bytes, size), LARDER_E_FORMAT);
    assert_non_null(strstr(larder_errmsg(), "a cache of"));
    larder_loader_close(&l);
    larder_free(bytes);
}

static void absurd_counts_are_refused(void **state) {
    (void)state;
    larder_loader_conf c = conf_of("lru");
    larder_loader *l = open_loader(&c);
    void *bytes;
    size_t size, taken_at = 8 + 16 + 4 + 3 + 16 + 16 + 8; /* magic, data set, "lru", seed … cache */
    check_ok(larder_loader_save(l, LARDER_STATE, &bytes, &size));
    larder_loader_close(&l);
    unsigned char *b = bytes;
    memset(b + taken_at, 0xff, 8);
    larder_writer w = {0};
    larder_write_u64(&w, UINT64_MAX); /* where the next batch's number stands */
    unsigned char *number =
        b + taken_at + 8 + 8 + 4 + 8 + 4 + strlen("no epoch is finished yet") + 4;
    memcpy(number, w.bytes, 8);
    larder__writer_free(&w);
    larder_write_u64(&w, larder__hash_bytes(0, b, size - 8));
    memcpy(b + size - 8, w.bytes, 8);
    larder__writer_free(&w);
    l = open_loader(&c);
    assert_int_equal(larder_loader_restore(l, LARDER_STATE, bytes, size), LARDER_E_FORMAT);
    assert_non_null(strstr(larder_errmsg(), "more batches"));
    larder_loader_close(&l);
    larder_free(bytes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_recipe_resumes_exactly),
        cmocka_unit_test(shade_resumes_exactly),
        cmocka_unit_test(a_state_of_a_state_is_the_same),
        cmocka_unit_test(save_does_not_disturb),
        cmocka_unit_test(foreign_and_damaged_states_are_refused),
        cmocka_unit_test(a_state_is_restored_once),
        cmocka_unit_test(only_listening_recipes_are_bound_to_their_lag),
        cmocka_unit_test(another_cache_size_is_refused),
        cmocka_unit_test(absurd_counts_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
