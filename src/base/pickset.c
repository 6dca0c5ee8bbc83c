#include "base/pickset.h"

#include "base/mem.h"

#include <assert.h>

enum { BLOCK_WORDS = 8, BLOCK_BITS = 64 * BLOCK_WORDS };

static uint32_t blocks_of(uint32_t n) { return n / BLOCK_BITS + (n % BLOCK_BITS != 0); }

int larder__pickset_open(larder__pickset *s, uint32_t n) {
    *s = (larder__pickset){.n = n, .blocks = blocks_of(n)};
    s->words = larder__calloc((size_t)s->blocks * BLOCK_WORDS, sizeof *s->words);
    s->tree = larder__calloc((size_t)s->blocks + 1, sizeof *s->tree);
    if (s->words && s->tree)
        return 0;
    larder__pickset_close(s);
    return LARDER_E_NOMEM;
}

void larder__pickset_close(larder__pickset *s) {
    larder__free(s->words);
    larder__free(s->tree);
    *s = (larder__pickset){0};
}

static void change(larder__pickset *s, uint32_t i, uint32_t more) { /* more: 1, or -1 as it wraps */
    s->count += more;
    for (uint32_t b = i / BLOCK_BITS + 1; b <= s->blocks; b += b & -b)
        s->tree[b] += more;
}

void larder__pickset_add(larder__pickset *s, uint32_t i) {
    assert(i < s->n);
    if (larder__pickset_has(s, i))
        return;
    s->words[i >> 6] |= (uint64_t)1 << (i & 63);
    change(s, i, 1);
}

void larder__pickset_cut(larder__pickset *s, uint32_t i) {
    assert(i < s->n);
    if (!larder__pickset_has(s, i))
        return;
    s->words[i >> 6] &= ~((uint64_t)1 << (i & 63));
    change(s, i, UINT32_MAX);
}

void larder__pickset_clear(larder__pickset *s) {
    memset(s->words, 0, (size_t)s->blocks * BLOCK_WORDS * sizeof *s->words);
    memset(s->tree, 0, ((size_t)s->blocks + 1) * sizeof *s->tree);
    s->count = 0;
}

static uint32_t block_count(const larder__pickset *s, uint32_t block) {
    uint32_t count = 0;
    for (uint32_t w = 0; w < BLOCK_WORDS; w++)
        count += (uint32_t)__builtin_popcountll(s->words[(size_t)block * BLOCK_WORDS + w]);
    return count;
}

void larder__pickset_recount(larder__pickset *s) {
    s->count = 0;
    for (uint32_t b = 1; b <= s->blocks; b++)
        s->tree[b] = 0;
    for (uint32_t b = 1; b <= s->blocks; b++) { /* each hands its sum on to the next above it */
        uint32_t mine = block_count(s, b - 1), up = b + (b & -b);
        s->count += mine;
        s->tree[b] += mine;
        if (up <= s->blocks)
            s->tree[up] += s->tree[b];
    }
}

/* The k-th set bit of a word. */
static uint32_t bit_at(uint64_t word, uint32_t k) {
    for (; k; k--)
        word &= word - 1;
    return (uint32_t)__builtin_ctzll(word);
}

uint32_t larder__pickset_at(const larder__pickset *s, uint32_t k) {
    assert(k < s->count);
    uint32_t block = 0, step = 1;
    while (step <= s->blocks / 2)
        step *= 2;
    for (; step; step /= 2)
        if (block + step <= s->blocks && s->tree[block + step] <= k) {
            block += step;
            k -= s->tree[block];
        }
    size_t w = (size_t)block * BLOCK_WORDS;
    for (uint32_t here; (here = (uint32_t)__builtin_popcountll(s->words[w])) <= k; w++)
        k -= here;
    return (uint32_t)(w * 64) + bit_at(s->words[w], k);
}

void larder__pickset_list(const larder__pickset *s, uint32_t *out) {
    uint32_t n = 0;
    for (uint32_t w = 0; n < s->count; w++)
        for (uint64_t left = s->words[w]; left; left &= left - 1)
            out[n++] = w * 64 + (uint32_t)__builtin_ctzll(left);
}
