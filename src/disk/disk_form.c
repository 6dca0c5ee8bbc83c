#include "disk/disk_form.h"

#include "base/hash.h"

#include <assert.h>
#include <string.h>

static const char head_magic[8] = "larderD", index_magic[8] = "larderI";
_Static_assert(sizeof(larder__disk_head) <= LARDER__DISK_BLOCK, "a head is one block");
_Static_assert(offsetof(larder__disk_head, limit) == 512, "a sector apart from what changes");
_Static_assert(sizeof(larder__disk_index_head) <= LARDER__DISK_BLOCK, "a head is one block");

static uint64_t head_sum(const larder__disk_head *h) {
    return larder__hash_bytes(1, h, offsetof(larder__disk_head, seal));
}
static uint64_t index_sum(const larder__disk_index_head *h) {
    return larder__hash_bytes(2, h, offsetof(larder__disk_index_head, seal));
}

void larder__disk_head_seal(larder__disk_head *h) {
    memcpy(h->magic, head_magic, sizeof h->magic);
    h->version = LARDER__DISK_VERSION;
    h->seal = head_sum(h);
}

larder__disk_verdict larder__disk_head_judge(const void *bytes, size_t size) {
    const larder__disk_head *h = bytes;
    if (size < sizeof h->magic + sizeof h->version ||
        memcmp(h->magic, head_magic, sizeof head_magic) != 0)
        return LARDER__DISK_FOREIGN;
    if (h->version != LARDER__DISK_VERSION)
        return LARDER__DISK_OTHER;
    bool whole = size >= sizeof *h && h->seal == head_sum(h) && h->clean <= 1 &&
                 h->budget / LARDER__DISK_BLOCK < LARDER__DISK_MOST_BLOCKS &&
                 !h->boot[LARDER__DISK_WHO - 1] && !h->machine[LARDER__DISK_WHO - 1];
    return whole ? LARDER__DISK_FINE : LARDER__DISK_TORN;
}

uint64_t larder__disk_id(uint64_t identity, uint64_t keys) {
    return larder__mix64(larder__mix64(identity + 1) ^ keys);
}

uint64_t larder__disk_index_bytes(uint64_t keys) {
    uint64_t a = LARDER__DISK_BLOCK / sizeof(uint64_t);
    return (1 + (keys + a - 1) / a) * LARDER__DISK_BLOCK;
}

void larder__disk_index_seal(larder__disk_index_head *h) {
    memcpy(h->magic, index_magic, sizeof h->magic);
    h->version = LARDER__DISK_VERSION;
    h->id = larder__disk_id(h->identity, h->keys);
    h->seal = index_sum(h);
}

larder__disk_verdict larder__disk_index_judge(const void *bytes, size_t head_bytes,
                                              uint64_t file_bytes) {
    const larder__disk_index_head *h = bytes;
    if (head_bytes < sizeof *h || memcmp(h->magic, index_magic, sizeof index_magic) != 0)
        return LARDER__DISK_FOREIGN;
    if (h->version != LARDER__DISK_VERSION)
        return LARDER__DISK_OTHER;
    bool whole = h->seal == index_sum(h) && h->id == larder__disk_id(h->identity, h->keys) &&
                 h->keys <= LARDER__DISK_MOST_BLOCKS && !h->name[LARDER__DISK_NAME - 1] &&
                 file_bytes == larder__disk_index_bytes(h->keys);
    return whole ? LARDER__DISK_FINE : LARDER__DISK_TORN;
}

static uint64_t check_of(uint64_t word, uint64_t id, uint64_t key) {
    uint64_t where = word & (((uint64_t)1 << 50) - 1);
    return larder__mix64(larder__mix64(id ^ where) + key) >> 54;
}

uint64_t larder__disk_word(uint64_t id, uint64_t key, uint64_t place, uint32_t blocks,
                           uint64_t era) {
    assert(place < LARDER__DISK_MOST_BLOCKS && blocks > 0 && blocks <= LARDER__DISK_LONGEST);
    uint64_t word = place | (uint64_t)blocks << 34 | era << 50;
    return word | check_of(word, id, key) << 54;
}

bool larder__disk_word_fits(uint64_t word, uint64_t id, uint64_t key, uint64_t limit) {
    uint64_t blocks = larder__disk_blocks(word);
    return blocks > 0 && larder__disk_place(word) + blocks <= limit &&
           word >> 54 == check_of(word, id, key);
}
