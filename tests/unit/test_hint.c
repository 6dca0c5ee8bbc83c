/* The word about another recipe: when it is said, and what. The figures are made up but for one run
 * on storage that is slow on purpose. */
#include "loader_kit.h"
#include "look_kit.h"

#include "loader/figures/hint.h"

#include <string.h>

static const larder__hint_seen slow = {
    .seconds = 100, .starved = 41, .step = 1e-3, .read = 4e-3, .reads = 0.8, .cache = 0.2};

static void says_what_it_saves_and_changes(void **state) {
    (void)state;
    char out[512];
    assert_true(larder__hint(out, sizeof out, &slow));
    assert_non_null(
        strstr(out, "epochs 0 and 1: training waited for storage for 41 % of the time"));
    assert_non_null(strstr(out, "rotate:h=0.8 would read about 25 % of that"));
    assert_non_null(strstr(out, "wait for about 0 %"));
    assert_non_null(strstr(out, "instead of each once"));
    larder__hint_seen slower = slow; /* no reuse that was tried is enough */
    slower.read = 20e-3;
    assert_true(larder__hint(out, sizeof out, &slower));
    assert_non_null(strstr(out, "wait for about 75 %"));
    larder__hint_seen nearly = slow; /* less reuse is enough */
    nearly.read = 2.2e-3;
    assert_true(larder__hint(out, sizeof out, &nearly));
    assert_non_null(strstr(out, "rotate:h=0.6 would read about 50 % of that"));
}

static void says_nothing_where_it_would_not_help(void **state) {
    (void)state;
    char out[512];
    larder__hint_seen s[6] = {slow, slow, slow, slow, slow, slow};
    s[0].starved = 9;                /* little waiting */
    s[1].seconds = s[1].starved = 1; /* a trial */
    s[2].cache = 0.01;               /* nothing to reuse from */
    s[3].reads = 0.2;                /* most comes from memory already */
    s[4].read = 0;                   /* not measured */
    s[5].step = 0;
    for (int i = 0; i < 6; i++)
        assert_false(larder__hint(out, sizeof out, &s[i]));
}

static size_t notes_of(const char *source, const char *recipe, uint32_t rank) {
    larder_loader_conf c = kit_conf(source, recipe);
    uint64_t digests[200];
    larder_loader *l = NULL;
    c.cache = "20%";
    c.batch = 50;
    c.epochs = 3;
    c.rank = rank;
    c.world = rank + 1;
    check_ok(larder_loader_open(&l, &c));
    kit_run(l, digests, 200);
    size_t n = 0;
    for (const char *says; (says = look_note(l, n)); n++)
        if (strstr(says, "rotate:h="))
            break;
    n = look_note(l, n) ? 1 : 0;
    larder_loader_close(&l);
    return n;
}

/* 115 KB an epoch at 40 KB/s: two epochs wait for five seconds, whatever else the machine does. */
#define MEM "mem:?n=600&h=8&w=8&c=3&classes=5"
static void said_once_by_a_loader(void **state) {
    (void)state;
    assert_int_equal(notes_of("slow:bandwidth=40e3,burst=0.001:" MEM, "minio", 0), 1);
    assert_int_equal(notes_of(MEM, "minio", 0), 0);
    assert_int_equal(notes_of("slow:bandwidth=100e3:" MEM, "rotate:h=0.5", 0), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(says_what_it_saves_and_changes),
        cmocka_unit_test(says_nothing_where_it_would_not_help),
        cmocka_unit_test(said_once_by_a_loader),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
