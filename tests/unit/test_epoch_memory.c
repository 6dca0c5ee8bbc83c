/* A loader that runs for ever keeps a page of figures for each epoch and nothing else: memory that
 * is in use stands still between two epochs for which its book has the same room. Not of spider,
 * whose own thread makes graphs meanwhile. */
#include "check.h"
#include "loader_kit.h"

#include <stdlib.h>

/* Two batches an epoch, and its end. The book grows by half, so it has the same room from 272 to
 * 406. */
enum {
    STEPS = 3,
    FROM = 280,
    TO = 400,
    SLACK = 12 << 10 /* 100 bytes an epoch; a page has more */
};

static void stands_still(const char *recipe) {
    larder_loader_conf c = kit_conf("mem:?n=32&h=4&w=4&c=1&classes=3", recipe);
    larder_loader *l = NULL;
    uint64_t digests[(TO - FROM) * STEPS];
    c.threads = c.inflight = 1; /* and no readers, which come when storage is slow */
    check_ok(larder_loader_open(&l, &c));
    for (size_t done = 0; done < (size_t)FROM * STEPS; done += STEPS)
        assert_int_equal(kit_run(l, digests, STEPS), STEPS);
    size_t before = check_heap();
    assert_int_equal(kit_run(l, digests, (TO - FROM) * STEPS), (TO - FROM) * STEPS);
    size_t after = check_heap();
    if (after > before + SLACK)
        fail_msg("%s: %zu bytes more after %d epochs", recipe, after - before, TO - FROM);
    larder_loader_close(&l);
}

static void test_stands_still(void **state) {
    (void)state;
    static const char *const recipes[] = {"minio", "lru", "shade", "rotate", "seneca", "icache"};
    if (check_heap() == 0)
        skip_since("this heap does not say how much of it is in use");
    setenv("LARDER_SEE", "0", 1); /* the answer to whoever looked last is kept */
    for (size_t i = 0; i < sizeof recipes / sizeof *recipes; i++)
        stands_still(recipes[i]);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_stands_still)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
