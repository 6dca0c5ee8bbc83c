#include "stage/emit.h"

#include "base/clones.h"
#include "base/half.h"

#include <string.h>

/* What one channel's rows need, with the flip already turned into a walk backwards. */
typedef struct walk {
    size_t before, n, after; /* columns: zeros, pixels, zeros */
    const uint8_t *at;       /* pixel of the leftmost output column of the first filled row */
    ptrdiff_t step;          /* to the next output column's pixel */
} walk;

static walk walk_of(const larder__emit *e, uint32_t c) {
    const larder__rect *f = &e->filled;
    walk w = {(size_t)f->x0, (size_t)(f->x1 - f->x0), e->shape.w - (size_t)f->x1,
              e->at + (ptrdiff_t)c * e->channel, e->pixel};
    if (e->flipped)
        w = (walk){w.after, w.n, w.before, w.at + (ptrdiff_t)(w.n ? w.n - 1 : 0) * e->pixel,
                   -e->pixel};
    return w;
}

/* The constant steps are written out so that each becomes straight vector code. */
#define LINE(step)                                                                                 \
    for (size_t i = 0; i < n; i++)                                                                 \
    to[i] = (float)from[(ptrdiff_t)i * (step)] * scale + bias

LARDER__INLINE void line_f32(float *restrict to, const uint8_t *restrict from, ptrdiff_t step,
                             size_t n, float scale, float bias) {
    if (step == 1)
        LINE(1);
    else if (step == -1)
        LINE(-1);
    else
        LINE(step);
}
#undef LINE

/* Four bytes a pixel are one word a pixel: shifting is cheaper than shuffling bytes. */
LARDER__INLINE void line_words(float *restrict to, const uint8_t *restrict from, bool back,
                               uint32_t c, size_t n, float scale, float bias) {
    from -= c;
    if (!back)
        for (size_t i = 0; i < n; i++) {
            uint32_t v;
            memcpy(&v, from + i * 4, 4);
            to[i] = (float)(int32_t)((v >> (8 * c)) & 255) * scale + bias;
        }
    else
        for (size_t i = 0; i < n; i++) {
            uint32_t v;
            memcpy(&v, from - i * 4, 4);
            to[i] = (float)(int32_t)((v >> (8 * c)) & 255) * scale + bias;
        }
}

LARDER__INLINE void fill_f32(float *to, size_t n, float value) {
    for (size_t i = 0; i < n; i++)
        to[i] = value;
}

/* Rows with margins are of odd lengths, which vectors are bad at. So some rows at a time are laid
 * out with their margins first, as bytes, and then turned into numbers from end to end: the zeros
 * of the margins become `bias` there. For pixels that lie side by side. */
enum { LAID_OUT = 4096 };

LARDER__INLINE void margined_f32(float *restrict to, const walk *k, ptrdiff_t row, size_t rows,
                                 size_t w, float scale, float bias) {
    uint8_t lines[LAID_OUT];
    const bool back = k->step < 0;
    const size_t left = back ? k->after : k->before, most = LAID_OUT / w;
    const uint8_t *from = back ? k->at - (k->n - 1) : k->at;
    for (size_t n; rows > 0; rows -= n, to += n * w) {
        n = rows < most ? rows : most;
        memset(lines, 0, n * w);
        for (size_t y = 0; y < n; y++, from += row)
            memcpy(lines + y * w + left, from, k->n);
        if (!back)
            line_f32(to, lines, 1, n * w, scale, bias);
        for (size_t y = 0; back && y < n; y++)
            line_f32(to + y * w, lines + (y + 1) * w - 1, -1, w, scale, bias);
    }
}

LARDER__CLONES
static void planes_f32(const larder__emit *e, float *out) {
    const size_t w = e->shape.w, y0 = (size_t)e->filled.y0, y1 = (size_t)e->filled.y1;
    const bool words =
        e->channel == 1 && e->pixel == 4 && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__;
    for (uint32_t c = 0; c < e->shape.c; c++) {
        const float scale = e->scale[c], bias = e->bias[c];
        const walk k = walk_of(e, c);
        fill_f32(out, y0 * w, bias);
        out += y0 * w;
        size_t y = y0;
        if (k.n > 0 && k.n < w && w <= LAID_OUT && (k.step == 1 || k.step == -1)) {
            margined_f32(out, &k, e->row, y1 - y0, w, scale, bias);
            out += (y1 - y0) * w;
            y = y1;
        }
        for (; y < y1; y++, out += w) {
            const uint8_t *from = k.at + (ptrdiff_t)(y - y0) * e->row;
            fill_f32(out, k.before, bias);
            if (words)
                line_words(out + k.before, from, k.step < 0, c, k.n, scale, bias);
            else
                line_f32(out + k.before, from, k.step, k.n, scale, bias);
            fill_f32(out + k.before + k.n, k.after, bias);
        }
        fill_f32(out, (e->shape.h - y1) * w, bias);
        out += (e->shape.h - y1) * w;
    }
}

LARDER__INLINE void packed_line(float *restrict to, const uint8_t *restrict from, ptrdiff_t step,
                                ptrdiff_t channel, size_t n, uint32_t channels, const float *scale,
                                const float *bias) {
    for (size_t x = 0; x < n; x++, from += step)
        for (uint32_t c = 0; c < channels; c++)
            *to++ = (float)from[(ptrdiff_t)c * channel] * scale[c] + bias[c];
}

LARDER__INLINE float *packed_fill(float *to, size_t n, uint32_t channels, const float *bias) {
    for (size_t i = 0; i < n; i++)
        for (uint32_t c = 0; c < channels; c++)
            *to++ = bias[c];
    return to;
}

LARDER__CLONES
static void packed_f32(const larder__emit *e, float *out) {
    const size_t w = e->shape.w, y0 = (size_t)e->filled.y0, y1 = (size_t)e->filled.y1;
    const uint32_t cs = e->shape.c;
    const walk k = walk_of(e, 0);
    out = packed_fill(out, y0 * w, cs, e->bias);
    for (size_t y = y0; y < y1; y++) {
        const uint8_t *from = k.at + (ptrdiff_t)(y - y0) * e->row;
        out = packed_fill(out, k.before, cs, e->bias);
        if (cs == 3)
            packed_line(out, from, k.step, e->channel, k.n, 3, e->scale, e->bias);
        else
            packed_line(out, from, k.step, e->channel, k.n, cs, e->scale, e->bias);
        out = packed_fill(out + k.n * cs, k.after, cs, e->bias);
    }
    packed_fill(out, (e->shape.h - y1) * w, cs, e->bias);
}

/* ---- bytes ----------------------------------------------------------------------------------- */

#define LINE(step)                                                                                 \
    for (size_t i = 0; i < n; i++)                                                                 \
    to[i] = from[(ptrdiff_t)i * (step)]

/* One channel; of words by shifting, as above. */
LARDER__CLONES
static void line_u8(uint8_t *restrict to, const uint8_t *restrict from, ptrdiff_t step, size_t n,
                    bool words, uint32_t c) {
    if (words && step < 0)
        for (size_t i = 0; i < n; i++) {
            uint32_t v;
            memcpy(&v, from - c - i * 4, 4);
            to[i] = (uint8_t)(v >> (8 * c));
        }
    else if (words)
        for (size_t i = 0; i < n; i++) {
            uint32_t v;
            memcpy(&v, from - c + i * 4, 4);
            to[i] = (uint8_t)(v >> (8 * c));
        }
    else if (step == -1)
        LINE(-1);
    else
        LINE(step);
}
#undef LINE

static void planes_u8(const larder__emit *e, uint8_t *out, bool words) {
    const size_t w = e->shape.w, h = e->shape.h;
    const size_t y0 = (size_t)e->filled.y0, rows = (size_t)e->filled.y1 - y0;
    for (uint32_t c = 0; c < e->shape.c; c++) {
        const walk k = walk_of(e, c);
        uint8_t *to = out + c * w * h + y0 * w + k.before;
        const uint8_t *from = k.at;
        for (size_t y = 0; y < rows; y++, to += w, from += e->row)
            if (k.step == 1)
                memcpy(to, from, k.n);
            else
                line_u8(to, from, k.step, k.n, words, c);
    }
}

#if defined(__x86_64__) && defined(__GNUC__) && !defined(LARDER__LANES_CHECKED)

#include <immintrin.h>

/* Four pixels at a time, as long as what is written behind them is of this row. How many. */
__attribute__((target("ssse3"))) static size_t packed_fours(uint8_t *to, const uint8_t *from,
                                                            ptrdiff_t step, size_t n) {
    const __m128i forth = _mm_setr_epi8(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1);
    const __m128i back = _mm_setr_epi8(12, 13, 14, 8, 9, 10, 4, 5, 6, 0, 1, 2, -1, -1, -1, -1);
    const __m128i order = step > 0 ? forth : back;
    size_t i = 0;
    from -= step > 0 ? 0 : 12;
    for (; i + 6 <= n; i += 4, to += 12, from += 4 * step)
        _mm_storeu_si128((void *)to, _mm_shuffle_epi8(_mm_loadu_si128((const void *)from), order));
    return i;
}

static size_t packed_some(uint8_t *to, const uint8_t *from, ptrdiff_t step, size_t n) {
    return __builtin_cpu_supports("ssse3") ? packed_fours(to, from, step, n) : 0;
}

#else

static size_t packed_some(uint8_t *to, const uint8_t *from, ptrdiff_t step, size_t n) {
    (void)to, (void)from, (void)step, (void)n;
    return 0;
}

#endif

/* Pixels of 4 bytes into 3: each is written whole and the next one over its end. */
static void packed_words(uint8_t *to, const uint8_t *from, ptrdiff_t step, size_t n) {
    size_t some = packed_some(to, from, step, n);
    to += 3 * some;
    from += (ptrdiff_t)some * step;
    n -= some;
    for (size_t i = 0; i + 1 < n; i++, to += 3, from += step)
        memcpy(to, from, 4);
    memcpy(to, from, n > 0 ? 3 : 0);
}

static void packed_u8(const larder__emit *e, uint8_t *out, bool words) {
    const size_t w = e->shape.w, cs = e->shape.c;
    const size_t y0 = (size_t)e->filled.y0, rows = (size_t)e->filled.y1 - y0;
    const walk k = walk_of(e, 0);
    for (size_t y = 0; y < rows; y++) {
        uint8_t *to = out + ((y0 + y) * w + k.before) * cs;
        const uint8_t *from = k.at + (ptrdiff_t)y * e->row;
        if (words && cs == 3)
            packed_words(to, from, k.step, k.n);
        else
            for (size_t x = 0; x < k.n; x++, from += k.step)
                for (size_t c = 0; c < cs; c++)
                    *to++ = from[(ptrdiff_t)c * e->channel];
    }
}

static void bytes_u8(const larder__emit *e, uint8_t *out) {
    const bool words =
        e->channel == 1 && e->pixel == 4 && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__;
    if (e->filled.y1 - e->filled.y0 < e->shape.h || e->filled.x1 - e->filled.x0 < e->shape.w)
        memset(out, 0, (size_t)e->shape.w * e->shape.h * e->shape.c);
    (e->layout == LARDER_NHWC ? packed_u8 : planes_u8)(e, out, words);
}

/* ---- 16 bits --------------------------------------------------------------------------------- */

LARDER__CLONES
static void halve(uint16_t *restrict to, const float *restrict from, size_t n, larder_dtype dtype) {
    if (dtype == LARDER_F16)
        for (size_t i = 0; i < n; i++)
            to[i] = larder__f16_of_float(from[i]);
    else
        for (size_t i = 0; i < n; i++)
            to[i] = larder__bf16_of_float(from[i]);
}

/* There are only 256 levels: what becomes of each is looked up. */
typedef uint16_t levels[4][256];

static void find_levels(const larder__emit *e, levels table) {
    float value[256];
    for (uint32_t c = 0; c < e->shape.c; c++) {
        for (int i = 0; i < 256; i++)
            value[i] = (float)i * e->scale[c] + e->bias[c];
        halve(table[c], value, 256, e->dtype);
    }
}

static void fill_16(uint16_t *to, size_t n, size_t step, uint16_t value) {
    for (size_t i = 0; i < n; i++)
        to[i * step] = value;
}

static void line_16(uint16_t *restrict to, size_t to_step, const uint8_t *restrict from,
                    ptrdiff_t step, size_t n, const uint16_t *restrict table) {
    for (size_t i = 0; i < n; i++)
        to[i * to_step] = table[from[(ptrdiff_t)i * step]];
}

static void rows_16(const larder__emit *e, uint16_t *out) {
    const bool packed = e->layout == LARDER_NHWC;
    const size_t w = e->shape.w, h = e->shape.h, step = packed ? e->shape.c : 1;
    const size_t y0 = (size_t)e->filled.y0, y1 = (size_t)e->filled.y1;
    levels table;
    find_levels(e, table);
    for (uint32_t c = 0; c < e->shape.c; c++) {
        const walk k = walk_of(e, c);
        uint16_t *to = out + (packed ? c : c * w * h), zero = table[c][0];
        fill_16(to, y0 * w, step, zero);
        for (size_t y = y0; y < y1; y++) {
            uint16_t *row = to + y * w * step;
            fill_16(row, k.before, step, zero);
            line_16(row + k.before * step, step, k.at + (ptrdiff_t)(y - y0) * e->row, k.step, k.n,
                    table[c]);
            fill_16(row + (k.before + k.n) * step, k.after, step, zero);
        }
        fill_16(to + y1 * w * step, (h - y1) * w, step, zero);
    }
}

void larder__emit_run(const larder__emit *e, void *out) {
    if (e->dtype == LARDER_U8)
        bytes_u8(e, out);
    else if (e->dtype != LARDER_F32)
        rows_16(e, out);
    else if (e->layout == LARDER_NCHW)
        planes_f32(e, out);
    else
        packed_f32(e, out);
}
