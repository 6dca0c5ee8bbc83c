/* What a loader does of which nobody said more than the source: each sample once an epoch, in an
 * order that follows from the seed, however slow storage and training are and whoever reads. */
#include "loader_kit.h"
#include "look_kit.h"

#include "base/hash.h"
#include <larder/plugin.h>

#include <string.h>
#include <time.h>

enum { N = 300, EPOCHS = 3 };

static void doze(larder_rng *rng, uint32_t most_us) {
    struct timespec t = {.tv_nsec = most_us ? 1000L * larder_rng_below(rng, most_us) : 0};
    nanosleep(&t, NULL);
}

/* Everything that is served, as one number. */
static uint64_t order_of(const char *source, const char *recipe, uint32_t threads, uint32_t ahead,
                         uint32_t most_us) {
    larder_loader_conf c = {.size = sizeof c};
    c.source = source;
    if (!recipe || recipe[0])
        c.recipe = recipe;
    c.batch = 16;
    c.seed = 7;
    c.epochs = EPOCHS;
    c.threads = threads;
    c.ahead = ahead;
    larder_loader *l;
    check_ok(larder_loader_open(&l, &c));
    larder_rng rng;
    larder_rng_seed(&rng, threads, most_us);
    uint64_t h = 1;
    uint32_t times[EPOCHS][N] = {{0}};
    const larder_batch *b;
    for (int rc; (rc = larder_loader_next(l, &b)) != LARDER_END;) {
        check_ok(rc);
        if (rc == LARDER_END_EPOCH)
            continue;
        h = larder__hash_bytes(h, b->served, b->n * sizeof *b->served);
        for (size_t i = 0; i < b->n; i++)
            times[b->epoch][b->served[i]]++;
        doze(&rng, most_us);
        check_ok(larder_loader_done(l, b));
    }
    for (int e = 0; e < EPOCHS; e++) {
        larder_figures f = {.size = sizeof f};
        for (int k = 0; k < N; k++)
            assert_int_equal(times[e][k], 1);
        check_ok(larder_loader_figures(l, (uint64_t)e, &f));
        assert_int_equal(f.hits, e ? N / 5 : 0); /* what fits is never read again */
        assert_int_equal(f.repeats, 0);
    }
    assert_int_equal(look_audit(l), 0);
    larder_loader_close(&l);
    return h;
}

static void the_default_is_minio(void **state) {
    (void)state;
    uint64_t named = order_of("mem:?n=300&h=8&w=8&c=3", "minio", 2, 0, 0);
    assert_true(order_of("mem:?n=300&h=8&w=8&c=3", "", 2, 0, 0) == named);
    assert_true(order_of("mem:?n=300&h=8&w=8&c=3", NULL, 2, 0, 0) == named);
}

static void the_order_follows_from_the_seed(void **state) {
    (void)state;
    const char *fast = "mem:?n=300&h=8&w=8&c=3";
    const char *slow = "slow:iops=3000,latency=1ms,jitter=2ms:mem:?n=300&h=8&w=8&c=3";
    uint64_t want = order_of(fast, "", 1, 0, 0);
    for (uint32_t threads = 1; threads <= 5; threads += 2)
        for (uint32_t us = 0; us <= 2000; us += 2000) {
            assert_true(order_of(fast, "", threads, 0, us) == want);
            assert_true(order_of(slow, "", threads, 0, us) == want);
            assert_true(order_of(slow, "", threads, 4 + threads, us) == want);
        }
}

/* README's table: with these recipes the order follows from the seed, or from seed and feedback. */
static uint64_t told_order(const char *source, const char *recipe, uint32_t threads,
                           uint32_t most_us) {
    larder_loader_conf c = kit_conf(source, recipe);
    c.epochs = EPOCHS;
    c.threads = threads;
    larder_loader *l;
    check_ok(larder_loader_open(&l, &c));
    larder_rng rng;
    larder_rng_seed(&rng, threads, most_us);
    uint64_t h = 1;
    const larder_batch *b;
    for (int rc; (rc = larder_loader_next(l, &b)) != LARDER_END;) {
        check_ok(rc);
        if (rc == LARDER_END_EPOCH) {
            check_ok(larder_loader_validate(l, 0.5));
            continue;
        }
        float loss[16];
        for (size_t i = 0; i < b->n; i++)
            loss[i] = kit_loss(b->served[i], b->epoch);
        h = larder__hash_bytes(h, b->served, b->n * sizeof *b->served);
        doze(&rng, most_us);
        check_ok(larder_loader_report(
            l, b, &(larder_feedback){.size = sizeof(larder_feedback), .loss = loss}));
        check_ok(larder_loader_done(l, b));
    }
    larder_loader_close(&l);
    return h;
}

static void recipes_keep_their_word(void **state) {
    (void)state;
    static const char *const recipes[] = {
        "lru",          "quiver", "seneca", "nopfs", "oracle", "echo:factor=4",
        "rotate:h=0.7", "icache", "impact", "shade", "base",   "rotate:h=0.7,victim=loss"};
    const char *fast = "mem:?n=300&h=8&w=8&c=3";
    const char *slow = "slow:iops=4000,jitter=1ms:mem:?n=300&h=8&w=8&c=3";
    for (size_t i = 0; i < sizeof recipes / sizeof *recipes; i++) {
        uint64_t want = told_order(fast, recipes[i], 1, 0);
        if (told_order(slow, recipes[i], 4, 1500) != want ||
            told_order(slow, recipes[i], 2, 0) != want)
            fail_msg("%s: the order is another on slow storage", recipes[i]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_default_is_minio),
        cmocka_unit_test(the_order_follows_from_the_seed),
        cmocka_unit_test(recipes_keep_their_word),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
