#include "disk/disk_space.h"

/* Bits from..to of the word that has `from`, as far as it goes. */
static uint64_t mask(uint64_t from, uint64_t to) {
    uint64_t m = UINT64_MAX << (from & 63);
    return to - (from & ~(uint64_t)63) >= 64 ? m : m & (((uint64_t)1 << (to & 63)) - 1);
}
static uint64_t word_end(uint64_t from, uint64_t to) {
    uint64_t end = (from | 63) + 1;
    return end < to ? end : to;
}

void larder__space_take(uint64_t *bits, uint64_t from, uint64_t n) {
    for (uint64_t to = from + n; from < to; from = word_end(from, to))
        bits[from / 64] |= mask(from, to);
}

void larder__space_give(uint64_t *bits, uint64_t from, uint64_t n) {
    for (uint64_t to = from + n; from < to; from = word_end(from, to))
        bits[from / 64] &= ~mask(from, to);
}

bool larder__space_any(const uint64_t *bits, uint64_t from, uint64_t n) {
    for (uint64_t to = from + n; from < to; from = word_end(from, to))
        if (bits[from / 64] & mask(from, to))
            return true;
    return false;
}

uint64_t larder__space_count(const uint64_t *bits, uint64_t limit) {
    uint64_t n = 0;
    for (uint64_t from = 0; from < limit; from = word_end(from, limit))
        n += (uint64_t)__builtin_popcountll(bits[from / 64] & mask(from, limit));
    return n;
}

static uint64_t next(const uint64_t *bits, uint64_t flip, uint64_t from, uint64_t limit) {
    for (; from < limit; from = word_end(from, limit)) {
        uint64_t hit = (bits[from / 64] ^ flip) & mask(from, limit);
        if (hit)
            return (from & ~(uint64_t)63) + (uint64_t)__builtin_ctzll(hit);
    }
    return limit;
}
uint64_t larder__space_next_free(const uint64_t *bits, uint64_t from, uint64_t limit) {
    return next(bits, UINT64_MAX, from, limit);
}
uint64_t larder__space_next_taken(const uint64_t *bits, uint64_t from, uint64_t limit) {
    return next(bits, 0, from, limit);
}

uint64_t larder__space_free_before(const uint64_t *bits, uint64_t from, uint64_t most) {
    uint64_t first = from;
    while (first > 0 && from - first < most && !larder__space_any(bits, first - 1, 1))
        first--;
    return first;
}

uint64_t larder__space_find(const uint64_t *bits, uint64_t from, uint64_t to, uint64_t n,
                            uint64_t *longest) {
    while (from < to) {
        uint64_t first = larder__space_next_free(bits, from, to);
        uint64_t end = larder__space_next_taken(bits, first, to - first < n ? to : first + n);
        if (end - first >= n)
            return first;
        if (end - first > *longest)
            *longest = end - first;
        from = end;
    }
    return LARDER__DISK_NOWHERE;
}
