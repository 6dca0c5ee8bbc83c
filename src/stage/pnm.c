/* PBM, PGM and PPM, as text or as bytes, of any depth up to 16 bits: a head of numbers and then
 * rows. Levels become 0..255 by rounding, so that 16 bits lose no white. */
#include "stage/codec.h"

#include "base/err.h"
#include "stage/scratch.h"

#include <string.h>

typedef struct pnm {
    bool text, bits, colour;
    uint32_t w, h, most; /* the highest level */
    size_t at;           /* where rows begin */
} pnm;

static bool blank(uint8_t c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

static bool pnm_mine(const uint8_t *bytes, size_t size) {
    return size >= 3 && bytes[0] == 'P' && bytes[1] >= '1' && bytes[1] <= '6' &&
           (blank(bytes[2]) || bytes[2] == '#');
}

/* Blanks and comments. */
static void pass_over(const uint8_t *bytes, size_t size, size_t *at) {
    for (bool comment = false; *at < size; ++*at) {
        uint8_t c = bytes[*at];
        comment = comment ? c != '\n' && c != '\r' : c == '#';
        if (!comment && !blank(c))
            return;
    }
}

static int number(const uint8_t *bytes, size_t size, size_t *at, uint32_t *out) {
    pass_over(bytes, size, at);
    size_t first = *at;
    *out = 0;
    for (; *at < size && bytes[*at] >= '0' && bytes[*at] <= '9'; ++*at) {
        if (*at - first == 9)
            return larder__fail(LARDER_E_FORMAT, "pnm: a number of more than 9 digits at byte %zu",
                                first);
        *out = *out * 10 + (uint32_t)(bytes[*at] - '0');
    }
    if (*at == first && *at < size)
        return larder__fail(LARDER_E_FORMAT, "pnm: damaged: no number at byte %zu", first);
    return *at == first ? larder__fail(LARDER_E_FORMAT, "pnm: ends at byte %zu", size) : 0;
}

static int pnm_read(pnm *p, const uint8_t *bytes, size_t size) {
    int kind = bytes[1] - '0';
    *p = (pnm){
        .text = kind <= 3, .bits = kind % 3 == 1, .colour = kind % 3 == 0, .most = 1, .at = 2};
    int rc = number(bytes, size, &p->at, &p->w);
    if (rc == 0)
        rc = number(bytes, size, &p->at, &p->h);
    if (rc == 0 && !p->bits)
        rc = number(bytes, size, &p->at, &p->most);
    if (rc == 0 && (p->most == 0 || p->most > 65535))
        rc = larder__fail(LARDER_E_FORMAT, "pnm: a highest level of %u, not 1 to 65535", p->most);
    p->at += rc == 0 && p->at < size; /* the one blank after the head */
    return rc;
}

static int pnm_head(larder__scratch *s, const uint8_t *bytes, size_t size, uint32_t *w,
                    uint32_t *h) {
    (void)s;
    pnm p;
    int rc = pnm_read(&p, bytes, size);
    *w = p.w;
    *h = p.h;
    return rc < 0 ? rc : larder__codec_limit("pnm", p.w, p.h);
}

static uint8_t level(const pnm *p, uint32_t v) {
    v = v < p->most ? v : p->most;
    v = p->most == 255 ? v : (v * 510 + p->most) / (2 * p->most);
    return (uint8_t)v;
}

/* ---- rows of bytes --------------------------------------------------------------------------- */

static size_t row_bytes(const pnm *p) {
    size_t bits = p->bits ? 1 : (p->most > 255 ? 16u : 8u) * (p->colour ? 3u : 1u);
    return ((size_t)p->w * bits + 7) / 8;
}

static void put_row(const pnm *p, const uint8_t *row, larder__rect want, uint8_t *to) {
    uint32_t channels = p->colour ? 3 : 1, wide = p->most > 255 ? 2 : 1;
    for (int64_t x = want.x0; x < want.x1; x++, to += 4) {
        const uint8_t *at = row + (size_t)x * channels * wide;
        if (p->bits) {
            to[0] = to[1] = to[2] = row[x / 8] >> (7 - x % 8) & 1 ? 0 : 255;
            continue;
        }
        for (uint32_t c = 0; c < 3; c++, at += c < channels ? wide : 0)
            to[c] = level(p, wide == 2 ? (uint32_t)at[0] << 8 | at[1] : at[0]);
    }
}

static int read_bytes(const pnm *p, const uint8_t *bytes, size_t size, larder__rect want,
                      uint8_t *to) {
    size_t one = row_bytes(p), there = (size - p->at) / one;
    if (there < (size_t)want.y1)
        return larder__fail(LARDER_E_FORMAT, "pnm: ends at byte %zu, in row %zu of %u", size, there,
                            p->h);
    for (int64_t y = want.y0; y < want.y1; y++, to += (want.x1 - want.x0) * 4)
        put_row(p, bytes + p->at + (size_t)y * one, want, to);
    return 0;
}

/* ---- rows of text ---------------------------------------------------------------------------- */

/* Of bits every digit is one, with or without blanks between. */
static int next_level(const pnm *p, const uint8_t *bytes, size_t size, size_t *at, uint8_t *out) {
    uint32_t v = 0;
    if (!p->bits) {
        int rc = number(bytes, size, at, &v);
        *out = level(p, v);
        return rc;
    }
    pass_over(bytes, size, at);
    if (*at == size || (bytes[*at] != '0' && bytes[*at] != '1'))
        return larder__fail(
            LARDER_E_FORMAT,
            *at == size ? "pnm: ends at byte %zu" : "pnm: damaged: no bit at byte %zu", *at);
    *out = bytes[(*at)++] == '1' ? 0 : 255;
    return 0;
}

static int read_text(const pnm *p, const uint8_t *bytes, size_t size, larder__rect want,
                     uint8_t *to) {
    size_t at = p->at;
    for (int64_t y = 0; y < want.y1; y++)
        for (int64_t x = 0; x < p->w; x++) {
            uint8_t rgb[3];
            for (int c = 0; c < (p->colour ? 3 : 1); c++) {
                int rc = next_level(p, bytes, size, &at, &rgb[c]);
                if (rc < 0)
                    return rc;
            }
            if (!p->colour)
                rgb[1] = rgb[2] = rgb[0];
            if (y < want.y0 || x < want.x0 || x >= want.x1)
                continue;
            memcpy(to, rgb, 3);
            to += 4;
        }
    return 0;
}

static int pnm_pixels(larder__scratch *s, const uint8_t *bytes, size_t size, uint32_t denominator,
                      larder__rect want, larder__picture *out) {
    (void)denominator;
    pnm p;
    int rc = pnm_read(&p, bytes, size);
    if (rc < 0)
        return rc;
    /* Every level takes a byte at least: no memory for what cannot be there. */
    if (p.text && size - p.at < (uint64_t)p.w * (uint64_t)want.y1)
        return larder__fail(LARDER_E_FORMAT, "pnm: ends at byte %zu, too soon for %u x %u pixels",
                            size, p.h, p.w);
    size_t row = (size_t)(want.x1 - want.x0) * 4, rows = (size_t)(want.y1 - want.y0);
    uint8_t *to = larder__scratch_take(s, LARDER__BLOCK_DECODED, row * rows + 64);
    if (!to)
        return LARDER_E_NOMEM;
    rc = p.text ? read_text(&p, bytes, size, want, to) : read_bytes(&p, bytes, size, want, to);
    *out = (larder__picture){to, (ptrdiff_t)row, 4, 1, want};
    return rc;
}

const larder__codec larder__codec_pnm = {"pnm", pnm_mine, pnm_head, pnm_pixels, 1};
