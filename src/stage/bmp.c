/* Windows and OS/2 bitmaps: palettes of 1, 4 and 8 bits, plain or run-length coded, and 16, 24 and
 * 32 bits with any masks. Alpha is dropped. */
#include "stage/codec.h"

#include "base/err.h"
#include "stage/scratch.h"

#include <string.h>

enum { PLAIN, RUNS_8, RUNS_4, MASKS, ALPHA_MASKS = 6 };

typedef struct bmp {
    uint32_t w, h, bits, coding, head; /* bytes of the second head */
    bool downwards;
    uint32_t mask[3];
    size_t at;               /* of the pixels */
    uint8_t colours[256][3]; /* RGB */
} bmp;

static uint32_t u16_at(const uint8_t *p) { return p[0] | (uint32_t)p[1] << 8; }
static uint32_t u32_at(const uint8_t *p) { return u16_at(p) | u16_at(p + 2) << 16; }

static bool bmp_mine(const uint8_t *bytes, size_t size) {
    return size >= 18 && bytes[0] == 'B' && bytes[1] == 'M' && bytes[15] == 0 && bytes[16] == 0 &&
           bytes[17] == 0;
}

static int bmp_ends(size_t size) {
    return larder__fail(LARDER_E_FORMAT, "bmp: ends at byte %zu, in its head", size);
}

static int read_sides(bmp *b, const uint8_t *bytes, size_t size) {
    b->head = u32_at(bytes + 14);
    if (b->head != 12 && (b->head < 40 || b->head > 124))
        return larder__fail(LARDER_E_FORMAT, "bmp: a head of %u bytes, which is no kind known",
                            b->head);
    if (size < 14 + (size_t)b->head)
        return bmp_ends(size);
    b->at = u32_at(bytes + 10);
    if (b->head == 12) {
        b->w = u16_at(bytes + 18);
        b->h = u16_at(bytes + 20);
        b->bits = u16_at(bytes + 24);
        return 0;
    }
    b->w = u32_at(bytes + 18);
    b->h = u32_at(bytes + 22);
    b->downwards = b->h > INT32_MAX;
    b->h = b->downwards ? 0u - b->h : b->h;
    b->bits = u16_at(bytes + 28);
    b->coding = u32_at(bytes + 30);
    return 0;
}

static int check_coding(bmp *b) {
    bool indexed = b->bits == 1 || b->bits == 2 || b->bits == 4 || b->bits == 8;
    bool direct = b->bits == 16 || b->bits == 24 || b->bits == 32;
    if (b->coding == ALPHA_MASKS)
        b->coding = MASKS;
    if ((b->coding == PLAIN && (indexed || direct)) || (b->coding == RUNS_8 && b->bits == 8) ||
        (b->coding == RUNS_4 && b->bits == 4) || (b->coding == MASKS && direct && b->bits != 24))
        return 0;
    return larder__fail(LARDER_E_UNSUPPORTED, "bmp: %u bits a pixel in coding %u are not known",
                        b->bits, b->coding);
}

static int read_masks(bmp *b, const uint8_t *bytes, size_t size) {
    static const uint32_t of_16[] = {0x7c00, 0x3e0, 0x1f}, of_32[] = {0xff0000, 0xff00, 0xff};
    memcpy(b->mask, b->bits == 16 ? of_16 : of_32, sizeof b->mask);
    if (b->coding != MASKS)
        return 0;
    if (size < 54 + 12)
        return bmp_ends(size);
    uint32_t said[3] = {u32_at(bytes + 54), u32_at(bytes + 58), u32_at(bytes + 62)};
    if (said[0] | said[1] | said[2])
        memcpy(b->mask, said, sizeof said);
    return 0;
}

/* What the file has no colour for is a grey of that level, as other readers have it. */
static void read_colours(bmp *b, const uint8_t *bytes, size_t size) {
    uint32_t each = b->head == 12 ? 3 : 4, n = b->head >= 40 ? u32_at(bytes + 46) : 0;
    size_t from = 14 + (size_t)b->head;
    for (uint32_t i = 0; i < 256; i++)
        memset(b->colours[i], (int)i, 3);
    if (b->bits > 8)
        return;
    n = n ? n : 1u << b->bits;
    if (b->at == from) /* some writers forget the colours */
        b->at += (size_t)each * n;
    for (uint32_t i = 0; i < n && i < 256 && from + 3 <= size; i++, from += each)
        for (int c = 0; c < 3; c++)
            b->colours[i][c] = bytes[from + 2 - (size_t)c];
}

static int bmp_read(bmp *b, const uint8_t *bytes, size_t size) {
    *b = (bmp){0};
    int rc = read_sides(b, bytes, size);
    if (rc == 0)
        rc = check_coding(b);
    if (rc == 0)
        rc = larder__codec_limit("bmp", b->w, b->h);
    if (rc == 0)
        rc = read_masks(b, bytes, size);
    if (rc == 0)
        read_colours(b, bytes, size);
    return rc;
}

static int bmp_head(larder__scratch *s, const uint8_t *bytes, size_t size, uint32_t *w,
                    uint32_t *h) {
    (void)s;
    bmp b;
    int rc = bmp_read(&b, bytes, size);
    *w = b.w;
    *h = b.h;
    return rc;
}

/* ---- pixels ---------------------------------------------------------------------------------- */

static uint8_t masked(uint32_t v, uint32_t mask) {
    if (mask == 0)
        return 0;
    uint32_t low = (uint32_t)__builtin_ctz(mask), most = mask >> low;
    return (uint8_t)((uint64_t)((v & mask) >> low) * 255 / most);
}

static void put_row(const bmp *b, const uint8_t *row, larder__rect want, uint8_t *to) {
    uint32_t each = b->bits / 8;
    for (int64_t x = want.x0; x < want.x1; x++, to += 4) {
        const uint8_t *at = row + (size_t)x * b->bits / 8;
        if (b->bits <= 8) {
            uint32_t shift = 8 - b->bits - (uint32_t)((size_t)x * b->bits % 8);
            memcpy(to, b->colours[*at >> shift & ((1u << b->bits) - 1)], 3);
            continue;
        }
        uint32_t v = each == 2   ? u16_at(at)
                     : each == 3 ? u16_at(at) | (uint32_t)at[2] << 16
                                 : u32_at(at);
        for (int c = 0; c < 3; c++)
            to[c] = masked(v, b->mask[c]);
    }
}

static const uint8_t *row_of(const bmp *b, const uint8_t *first, size_t stride, int64_t y) {
    return first + (size_t)(b->downwards ? y : (int64_t)b->h - 1 - y) * stride;
}

static int read_plain(const bmp *b, const uint8_t *bytes, size_t size, larder__rect want,
                      uint8_t *to) {
    size_t stride = ((size_t)b->w * b->bits + 31) / 32 * 4;
    size_t last = ((size_t)b->w * b->bits + 7) / 8; /* the last row needs no padding */
    if (b->at > size || size - b->at < stride * (b->h - 1) + last)
        return larder__fail(LARDER_E_FORMAT, "bmp: ends at byte %zu of %zu", size,
                            b->at + stride * (b->h - 1) + last);
    for (int64_t y = want.y0; y < want.y1; y++, to += (want.x1 - want.x0) * 4)
        put_row(b, row_of(b, bytes + b->at, stride, y), want, to);
    return 0;
}

/* ---- runs ------------------------------------------------------------------------------------ */

typedef struct runs {
    const uint8_t *at, *end;
    uint8_t *to; /* an index a pixel, in the order of the file */
    size_t x, y, w, h;
    bool four;
} runs;

static void put_index(runs *r, uint8_t v) {
    if (r->x < r->w && r->y < r->h)
        r->to[r->y * r->w + r->x++] = v;
}

/* Indices that are written out, padded to an even number of bytes. */
static bool read_literal(runs *r, size_t n) {
    size_t bytes = r->four ? (n + 1) / 2 : n;
    if ((size_t)(r->end - r->at) < bytes)
        return false;
    for (size_t i = 0; i < n; i++)
        put_index(r, (uint8_t)(r->four ? r->at[i / 2] >> (i % 2 ? 0 : 4) & 15 : r->at[i]));
    r->at += bytes;
    r->at += bytes % 2 && r->at < r->end;
    return true;
}

/* false: the bytes ended before the picture did. */
static bool read_runs(runs *r) {
    while (r->y < r->h && !(r->y == r->h - 1 && r->x == r->w)) {
        if (r->end - r->at < 2)
            return false;
        size_t n = *r->at++;
        uint8_t v = *r->at++;
        for (size_t i = 0; i < n; i++)
            put_index(r, (uint8_t)(r->four ? v >> (i % 2 ? 0 : 4) & 15 : v));
        if (n == 0 && v == 0) {
            r->x = 0;
            r->y++;
        } else if (n == 0 && v == 1) {
            return true;
        } else if (n == 0 && v == 2) {
            if (r->end - r->at < 2)
                return false;
            r->x += *r->at++;
            r->y += *r->at++;
        } else if (n == 0 && !read_literal(r, v)) {
            return false;
        }
    }
    return true;
}

static int read_coded(larder__scratch *s, bmp *b, const uint8_t *bytes, size_t size,
                      larder__rect want, uint8_t *to) {
    uint8_t *indices = larder__scratch_take(s, LARDER__BLOCK_REPACKED, (size_t)b->w * b->h);
    if (!indices)
        return LARDER_E_NOMEM;
    memset(indices, 0, (size_t)b->w * b->h);
    size_t from = b->at < size ? b->at : size;
    runs r = {bytes + from, bytes + size, indices, 0, 0, b->w, b->h, b->coding == RUNS_4};
    if (!read_runs(&r))
        return larder__fail(LARDER_E_FORMAT, "bmp: ends at byte %zu, in row %zu of %u", size, r.y,
                            b->h);
    b->bits = 8;
    for (int64_t y = want.y0; y < want.y1; y++, to += (want.x1 - want.x0) * 4)
        put_row(b, row_of(b, indices, b->w, y), want, to);
    return 0;
}

static int bmp_pixels(larder__scratch *s, const uint8_t *bytes, size_t size, uint32_t denominator,
                      larder__rect want, larder__picture *out) {
    (void)denominator;
    bmp b;
    int rc = bmp_read(&b, bytes, size);
    if (rc < 0)
        return rc;
    for (uint32_t i = 0; s->indices && i < 256; i++)
        memset(b.colours[i], (int)i, 3);
    size_t row = (size_t)(want.x1 - want.x0) * 4, rows = (size_t)(want.y1 - want.y0);
    uint8_t *to = larder__scratch_take(s, LARDER__BLOCK_DECODED, row * rows + 64);
    if (!to)
        return LARDER_E_NOMEM;
    *out = (larder__picture){to, (ptrdiff_t)row, 4, 1, want};
    return b.coding == RUNS_8 || b.coding == RUNS_4 ? read_coded(s, &b, bytes, size, want, to)
                                                    : read_plain(&b, bytes, size, want, to);
}

const larder__codec larder__codec_bmp = {"bmp", bmp_mine, bmp_head, bmp_pixels, 1};
