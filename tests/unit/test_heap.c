/* The indexed heap against a twin that looks at everything. */
#include "base/heap.h"
#include "check.h"

enum { SLOTS = 300 };

typedef struct rank {
    bool in;
    uint64_t high;
    uint32_t low;
} rank;

static int least(const rank *r) {
    int best = -1;
    for (int s = 0; s < SLOTS; s++)
        if (r[s].in && (best < 0 || r[s].high < r[best].high ||
                        (r[s].high == r[best].high && r[s].low < r[best].low)))
            best = s;
    return best;
}

static void check_index(const larder__heap *h) {
    for (uint32_t i = 0; i < h->size; i++) {
        assert_int_equal(h->place[h->nodes[i].slot], i);
        if (i)
            assert_false(larder__heap_before(&h->nodes[i], &h->nodes[(i - 1) / 4]));
    }
}

static void test_against_scan(void **st) {
    (void)st;
    static _Alignas(16) char block[SLOTS * LARDER__HEAP_SLOT_SIZE];
    rank ranks[SLOTS] = {0};
    larder__heap h;
    larder__heap_init(&h, block, SLOTS);
    larder_rng rng;
    larder_rng_seed(&rng, 1, 1);
    uint32_t size = 0;
    for (int step = 0; step < 60000; step++) {
        larder_slot s = larder_rng_below(&rng, SLOTS);
        uint64_t high = larder_rng_below(&rng, 40); /* ties in the high part are common */
        uint32_t low = (uint32_t)step * 2654435761u;
        bool drains = step / 5000 % 2; /* grows and drains in turn */
        if (!ranks[s].in && !drains) {
            larder__heap_push(&h, s, high, low);
            ranks[s] = (rank){true, high, low};
            size++;
        } else if (ranks[s].in && (drains || step % 3 == 0)) {
            larder__heap_remove(&h, s);
            ranks[s].in = false;
            size--;
        } else if (ranks[s].in) {
            larder__heap_rerank(&h, s, high, low);
            ranks[s] = (rank){true, high, low};
        }
        assert_int_equal(h.size, size);
        if (size)
            assert_int_equal(larder__heap_top(&h)->slot, least(ranks));
        if (step % 500 == 0)
            check_index(&h);
    }
    assert_true(size < SLOTS / 4);
}

static void test_high_part_decides_first(void **st) {
    (void)st;
    static _Alignas(16) char block[3 * LARDER__HEAP_SLOT_SIZE];
    larder__heap h;
    larder__heap_init(&h, block, 3);
    larder__heap_push(&h, 0, 2, 0);
    larder__heap_push(&h, 1, 1, UINT32_MAX);
    larder__heap_push(&h, 2, UINT64_MAX, 0);
    const larder_slot order[] = {1, 0, 2};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(larder__heap_top(&h)->slot, order[i]);
        larder__heap_remove(&h, order[i]);
    }
    assert_int_equal(h.size, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_scan),
        cmocka_unit_test(test_high_part_decides_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
