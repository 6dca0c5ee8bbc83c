#include "base/sum.h"

#include "base/clones.h"
#include "base/hash.h"

enum { LANES = 32, ROUND = LANES * 8 }; /* lanes: several registers of the widest vectors */

LARDER__INLINE uint64_t word(const unsigned char *p) {
    uint64_t w;
    memcpy(&w, p, sizeof w);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    w = __builtin_bswap64(w);
#endif
    return w;
}

/* Each step is one-to-one in the word and in the lane, and has no multiplication of 64 bits, which
 * vectors are slow at: the sum takes low bits up (with carries, so that it is not linear), the
 * shift high bits down, and three steps reach all. */
LARDER__CLONES static void add_rounds(uint64_t lane[LANES], const unsigned char *p, size_t rounds) {
    uint64_t l[LANES];
    memcpy(l, lane, sizeof l);
    for (; rounds > 0; rounds--, p += ROUND)
        for (size_t i = 0; i < LANES; i++) {
            uint64_t x = l[i] ^ word(p + 8 * i);
            x += x << 25;
            l[i] = x ^ x >> 29;
        }
    memcpy(lane, l, sizeof l);
}

uint64_t larder__sum_bytes(uint64_t h, const void *bytes, size_t n) {
    const unsigned char *p = bytes;
    h = larder__mix64(h ^ n);
    if (n >= ROUND) {
        uint64_t lane[LANES];
        for (size_t i = 0; i < LANES; i++)
            lane[i] = h + i * 0x9e3779b97f4a7c15u;
        add_rounds(lane, p, n / ROUND);
        for (size_t i = 0; i < LANES; i++)
            h = larder__mix64(h ^ lane[i]) + 0x9e3779b97f4a7c15u;
        p += n / ROUND * ROUND;
        n %= ROUND;
    }
    for (; n >= 8; p += 8, n -= 8)
        h = larder__mix64(h ^ word(p)) + 0x9e3779b97f4a7c15u;
    unsigned char tail[8] = {0};
    if (n)
        memcpy(tail, p, n);
    return larder__mix64(h ^ word(tail));
}
