#include "shared/value.h"

#include "base/hash.h"

#include <string.h>

static const unsigned char MAGIC[4] = {'L', 'R', 'D', 'V'};
enum { SUM_AT = 32 };

static void put(unsigned char *at, uint64_t v, int bytes) {
    for (int i = 0; i < bytes; i++)
        at[i] = (unsigned char)(v >> 8 * i);
}

static uint64_t get(const unsigned char *at, int bytes) {
    uint64_t v = 0;
    for (int i = 0; i < bytes; i++)
        v |= (uint64_t)at[i] << 8 * i;
    return v;
}

static inline uint64_t word(const unsigned char *p) {
    uint64_t w;
    memcpy(&w, p, sizeof w);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    w = __builtin_bswap64(w);
#endif
    return w;
}

/* Each step is one-to-one in the word and in the lane, so a single changed word always shows; four
 * lanes, so that a processor does several at a time: some 15 GB/s. */
static inline uint64_t step(uint64_t lane, uint64_t w) {
    lane = (lane ^ w) * 0x9e3779b97f4a7c15u;
    return lane << 31 | lane >> 33;
}

static uint64_t sum_of(uint64_t h, const unsigned char *p, size_t n) {
    uint64_t lane[4] = {h ^ n, h + 1, h + 2, h + 3};
    for (; n >= 32; p += 32, n -= 32)
        for (int i = 0; i < 4; i++)
            lane[i] = step(lane[i], word(p + 8 * (size_t)i));
    for (int i = 0; i < 4; i++)
        h = larder__mix64(h ^ lane[i]) + 0x9e3779b97f4a7c15u;
    unsigned char tail[32] = {0};
    if (n)
        memcpy(tail, p, n);
    for (size_t i = 0; i < 32; i += 8)
        h = larder__mix64(h ^ word(tail + i));
    return h;
}

static uint64_t checksum(const unsigned char *head, const void *bytes, size_t size) {
    return sum_of(sum_of(larder__speaks.value, head, SUM_AT), bytes, size);
}

void larder__value_write(unsigned char head[LARDER__VALUE_HEAD], const larder__value *v,
                         const void *bytes) {
    memset(head, 0, LARDER__VALUE_HEAD);
    memcpy(head, MAGIC, sizeof MAGIC);
    head[4] = (unsigned char)larder__speaks.value;
    head[5] = v->form;
    head[6] = v->held;
    head[7] = LARDER__PAYLOAD_BYTES;
    put(head + 8, v->size, 4);
    put(head + 16, v->id, 8);
    put(head + 24, v->mark, 8);
    put(head + SUM_AT, checksum(head, bytes, v->size), 8);
}

uint8_t larder__value_held(const unsigned char head[LARDER__VALUE_HEAD]) { return head[6]; }

bool larder__value_fits(const unsigned char head[LARDER__VALUE_HEAD], const larder__value *asked,
                        uint64_t size) {
    return memcmp(head, MAGIC, sizeof MAGIC) == 0 && head[4] == larder__speaks.value &&
           head[5] == asked->form && head[7] == LARDER__PAYLOAD_BYTES &&
           (head[6] == asked->held || asked->held == LARDER__ANY_FORM) && size <= asked->size &&
           get(head + 8, 4) == size && get(head + 16, 8) == asked->id &&
           get(head + 24, 8) == asked->mark;
}

bool larder__value_sound(const unsigned char head[LARDER__VALUE_HEAD], const void *bytes,
                         size_t size) {
    return get(head + SUM_AT, 8) == checksum(head, bytes, size);
}
