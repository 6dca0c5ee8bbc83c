/* Is a JPEG of the sort that decoders in hardware take, and is all of it there? These say little
 * about broken files, so what is not certain here stays with the library that does. */
#include "stage/blueprint.h"

#include "stage/codec.h"

#include <string.h>

typedef struct heads { /* what its segments have said so far */
    larder__plain_jpeg *out;
    bool frame, jfif, tables;
    int adobe;      /* the transform it names; -1: there is no such segment */
    uint8_t ids[3]; /* of the components */
    uint32_t components;
} heads;

static uint32_t word(const uint8_t *at) { return (uint32_t)at[0] << 8 | at[1]; }

/* Sampling factors of Y; colour has 1 x 1. */
static bool take_sampling(uint8_t factors, larder__colour *out) {
    *out = factors == 0x11   ? LARDER__WHOLE
           : factors == 0x21 ? LARDER__HALF_WIDTH
           : factors == 0x22 ? LARDER__HALF_BOTH
                             : LARDER__HALF_HEIGHT;
    return factors == 0x11 || factors == 0x21 || factors == 0x22 || factors == 0x12;
}

static bool take_frame(heads *h, const uint8_t *at, size_t n) {
    if (h->frame || n < 6 || at[0] != 8 || n != 6 + 3u * at[5])
        return false;
    h->frame = true;
    h->out->h = word(at + 1);
    h->out->w = word(at + 3);
    h->components = at[5];
    for (uint32_t i = 0; i < h->components && i < 3; i++) {
        h->ids[i] = at[6 + 3 * i];
        if (i > 0 && at[7 + 3 * i] != 0x11)
            return false;
    }
    h->out->colour = LARDER__GREY;
    if (h->components == 1)
        return at[7] == 0x11;
    return h->components == 3 && take_sampling(at[7], &h->out->colour);
}

/* Of 16 bits are no baseline's. */
static bool take_quantizers(const uint8_t *at, size_t n) {
    for (; n >= 65; n -= 65, at += 65)
        if (at[0] > 3)
            return false;
    return n == 0;
}

static void take_habits(heads *h, uint8_t mark, const uint8_t *at, size_t n) {
    if (mark == 0xe0 && n >= 5 && memcmp(at, "JFIF", 5) == 0)
        h->jfif = true;
    if (mark == 0xee && n >= 12 && memcmp(at, "Adobe", 5) == 0)
        h->adobe = at[11];
}

/* As libjpeg guesses. */
static bool is_ycc(const heads *h) {
    if (h->components == 1 || h->jfif)
        return true;
    if (h->adobe >= 0)
        return h->adobe == 1;
    return h->ids[0] == 1 && h->ids[1] == 2 && h->ids[2] == 3;
}

/* One scan of all components, from the first coefficient to the last. */
static bool take_scan(const heads *h, const uint8_t *at, size_t n) {
    if (!h->frame || !h->tables || n != 4 + 2u * at[0] || at[0] != h->components)
        return false;
    for (uint32_t i = 0; i < h->components; i++)
        if (at[1 + 2 * i] != h->ids[i])
            return false;
    const uint8_t *range = at + 1 + 2 * h->components;
    return range[0] == 0 && range[1] == 63 && range[2] == 0;
}

/* Restart marks count up, nothing else stands among the codes, and the end is marked. */
static bool ends_well(const uint8_t *at, const uint8_t *end) {
    uint8_t restart = 0;
    while (at < end && (at = memchr(at, 0xff, (size_t)(end - at))) && end - at >= 2) {
        uint8_t mark = at[1];
        if (mark == 0xd9)
            return true;
        if (mark == 0xff) { /* fill */
            at++;
            continue;
        }
        if (mark >= 0xd0 && mark <= 0xd7) {
            if (mark != 0xd0 + restart)
                return false;
            restart = (restart + 1) & 7;
        } else if (mark != 0)
            return false;
        at += 2;
    }
    return false;
}

/* A segment between the marks; false: a file with it is not plain. */
static bool take_segment(heads *h, uint8_t mark, const uint8_t *at, size_t n) {
    take_habits(h, mark, at, n);
    if (mark == 0xc0)
        return take_frame(h, at, n);
    if (mark == 0xdb)
        return take_quantizers(at, n);
    h->tables |= mark == 0xc4;
    bool other_frame = mark >= 0xc1 && mark <= 0xcf && mark != 0xc4;
    return !other_frame && (mark >= 0xe0 || mark == 0xc4 || mark == 0xdd);
}

bool larder__jpeg_is_plain(const uint8_t *bytes, size_t size, larder__plain_jpeg *out) {
    heads h = {.out = out, .adobe = -1};
    const uint8_t *at = bytes + 2, *end = bytes + size;
    if (size < 4 || bytes[0] != 0xff || bytes[1] != 0xd8)
        return false;
    while (end - at >= 4) {
        uint8_t mark = at[1];
        if (at[0] != 0xff || mark == 0 || mark == 0xff)
            return false;
        size_t n = word(at + 2);
        if (n < 2 || n + 2 > (size_t)(end - at))
            return false;
        const uint8_t *inside = at + 4;
        at += n + 2;
        if (mark == 0xda)
            return n > 2 && take_scan(&h, inside, n - 2) && is_ycc(&h) &&
                   larder__codec_limit("jpeg", out->w, out->h) == 0 && ends_well(at, end);
        if (!take_segment(&h, mark, inside, n - 2))
            return false;
    }
    return false;
}
