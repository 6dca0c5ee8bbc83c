/* The checksum of values, against a twin that goes word by word, and by what it promises. */
#include "check.h"

#include "base/hash.h"
#include "base/sum.h"

#include <stdlib.h>
#include <string.h>

enum { MOST = 5000 };
static unsigned char bytes[MOST + 8];

static uint64_t get(const unsigned char *p, size_t n) {
    uint64_t w = 0;
    for (size_t i = 0; i < n; i++)
        w |= (uint64_t)p[i] << 8 * i;
    return w;
}

static uint64_t twin(uint64_t h, const unsigned char *p, size_t n) {
    const uint64_t odd = 0x9e3779b97f4a7c15u;
    uint64_t lane[32];
    size_t in_lanes = n / 256 * 32, words = n / 8;
    h = larder__mix64(h ^ n);
    for (size_t i = 0; i < 32; i++)
        lane[i] = h + i * odd;
    for (size_t i = 0; i < in_lanes; i++) {
        uint64_t x = (lane[i % 32] ^ get(p + 8 * i, 8)) * (1 + (1 << 25));
        lane[i % 32] = x ^ x >> 29;
    }
    for (size_t i = 0; i < 32 && in_lanes; i++)
        h = larder__mix64(h ^ lane[i]) + odd;
    for (size_t i = in_lanes; i < words; i++)
        h = larder__mix64(h ^ get(p + 8 * i, 8)) + odd;
    return larder__mix64(h ^ get(p + 8 * words, n % 8));
}

static void fill(uint64_t seed) {
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)larder__mix64(seed + i);
}

static void test_twin(void **state) {
    (void)state;
    fill(1);
    for (size_t n = 0; n <= 1100; n++)
        for (size_t at = 0; at < 8; at += 3)
            assert_true(larder__sum_bytes(n, bytes + at, n) == twin(n, bytes + at, n));
    assert_true(larder__sum_bytes(9, bytes, MOST) == twin(9, bytes, MOST));
    /* Values lie on disks: this may change only together with their version. */
    memset(bytes, 'x', MOST);
    assert_int_equal(larder__sum_bytes(3, bytes, MOST), UINT64_C(0x25fc80bc19540e41));
}

/* Bits, lengths, places and the start all show. */
static void test_changes(void **state) {
    (void)state;
    fill(2);
    uint64_t right = larder__sum_bytes(5, bytes, MOST);
    for (size_t bit = 0; bit < MOST * 8; bit++) {
        bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
        assert_true(larder__sum_bytes(5, bytes, MOST) != right);
        bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
    }
    memset(bytes, 0, MOST);
    uint64_t *seen = calloc(MOST, sizeof *seen);
    assert_non_null(seen);
    for (size_t n = 0; n < MOST; n++) {
        seen[n] = larder__sum_bytes(5, bytes, n);
        for (size_t i = n > 70 ? n - 70 : 0; i < n; i++)
            assert_true(seen[i] != seen[n]);
    }
    free(seen);
    assert_true(larder__sum_bytes(6, bytes, MOST) != larder__sum_bytes(5, bytes, MOST));
    fill(3); /* two pieces in each other's place: 8 bytes, a round, a block */
    right = larder__sum_bytes(5, bytes, MOST);
    static const size_t pieces[] = {8, 256, 512, 2048};
    for (size_t i = 0; i < 4; i++) {
        unsigned char kept[2048];
        memcpy(kept, bytes, pieces[i]);
        memmove(bytes, bytes + pieces[i], pieces[i]);
        memcpy(bytes + pieces[i], kept, pieces[i]);
        assert_true(larder__sum_bytes(5, bytes, MOST) != right);
        memcpy(kept, bytes, pieces[i]);
        memmove(bytes, bytes + pieces[i], pieces[i]);
        memcpy(bytes + pieces[i], kept, pieces[i]);
    }
    assert_true(larder__sum_bytes(5, bytes, MOST) == right);
}

/* One changed bit turns about half of all bits over, wherever it is. */
static void test_spread(void **state) {
    (void)state;
    fill(4);
    uint64_t right = larder__sum_bytes(5, bytes, MOST), turned = 0, tried = 0;
    for (size_t bit = 0; bit < MOST * 8; bit += 7, tried++) {
        bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
        turned += (uint64_t)__builtin_popcountll(larder__sum_bytes(5, bytes, MOST) ^ right);
        bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
    }
    assert_in_range(turned * 10 / tried, 315, 325);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_twin),
        cmocka_unit_test(test_changes),
        cmocka_unit_test(test_spread),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
