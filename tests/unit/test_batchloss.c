/* Each sample has the mean of its last batch; rows without a loss count neither way. */
#include "check.h"
#include "plugins.h"

#include <math.h>

static void means_of_batches(void **state) {
    (void)state;
    const larder_signal *s = larder__signal_find("batchloss");
    float scores[6] = {9, 9, 9, 9, 9, 9};
    const uint64_t ids[] = {0, 1, 2}, more[] = {2, 3, 4};
    const float loss[] = {1, 2, 6}, some[] = {4, NAN, 2}, none[] = {NAN, NAN, NAN};
    s->observe(NULL, &(larder_report){.ids = ids, .loss = loss, .n = 3}, scores);
    s->observe(NULL, &(larder_report){.ids = more, .loss = some, .n = 3}, scores);
    s->observe(NULL, &(larder_report){.ids = ids, .loss = none, .n = 3}, scores);
    const float want[] = {3, 3, 3, 3, 3, 9};
    for (int i = 0; i < 6; i++)
        assert_true(scores[i] == want[i]);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(means_of_batches)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
