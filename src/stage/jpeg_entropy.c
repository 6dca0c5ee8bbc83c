#include <stdio.h>

#if LARDER_HAVE_JPEG

#include <jpeglib.h>

#include "stage/jpeg_entropy.h"

#if defined(LIBJPEG_TURBO_VERSION) && defined(__has_include)
#if __has_include(<jpegint.h>)
#define HAVE_INSIDE 1
#endif
#endif

#if HAVE_INSIDE

#include <jpegint.h>
#include <stddef.h>
#include <string.h>

#include "base/clones.h"

/* Where the k-th coefficient of a block stands; a run may lead 15 beyond the last. */
static const uint8_t natural[64 + 16] = {
    0,  1,  8,  16, 9,  2,  3,  10, 17, 24, 32, 25, 18, 11, 4,  5,  12, 19, 26, 33,
    40, 48, 41, 34, 27, 20, 13, 6,  7,  14, 21, 28, 35, 42, 49, 56, 57, 50, 43, 36,
    29, 22, 15, 23, 30, 37, 44, 51, 58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54,
    47, 55, 62, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63};

enum { LOOKS = 1 << LARDER__LOOK };

/* ---- tables ---------------------------------------------------------------------------------- */

/* A value of `bits` bits, 1 to 15, at the top of a word: those with the top bit clear are negative.
 */
LARDER__INLINE int32_t value_of(uint64_t word, uint32_t bits) {
    int32_t negative = (int32_t)(~(int64_t)word >> 63);
    return (int32_t)(word >> (64 - bits)) + (negative & (1 - (1 << bits)));
}

/* One coefficient: a code and a value that is negative or not. What was read before the value's
 * end is this number more than it. */
static larder__pair one_of(uint32_t code, larder__entry e, bool negative, bool dc) {
    int32_t more = (int32_t)(code << e.size) + (negative ? (1 << e.size) - 1 : 0);
    larder__pair p = {e.used,         (uint8_t)(e.run + 1), e.run, (uint8_t)(64 - e.used),
                      (int16_t)-more, (int16_t)-more};
    if (e.size == 0 && !dc) {
        p.run = 0;
        p.by = e.run == 15 ? LARDER__ODD : LARDER__ENDS;
    }
    return p;
}

/* Where the first bit of its value is not there, whether it is negative is not known. */
static void fill(larder__codes *c, uint32_t code, uint32_t length, uint8_t symbol) {
    uint32_t n = 1u << (LARDER__LOOK - length), at = code * n, size = symbol & 15;
    larder__entry e = {(uint8_t)(length + size), (uint8_t)length, (uint8_t)size, symbol >> 4};
    larder__pair low = one_of(code, e, size > 0, c->dc), high = one_of(code, e, false, c->dc);
    for (uint32_t i = 0; i < n; i++)
        c->entries[at + i] = e;
    for (uint32_t i = 0; i < n && (n > 1 || size == 0); i++)
        c->pairs[at + i] = i < n / 2 ? low : high;
}

__attribute__((noinline)) static larder__entry long_entry(uint64_t bits, const larder__codes *c) {
    int32_t code = (int32_t)(bits >> 48);
    for (uint32_t length = LARDER__LOOK + 1; length <= 16; length++)
        if (code < c->limit[length]) {
            uint32_t at = (uint32_t)((code >> (16 - length)) + c->offset[length]);
            uint32_t symbol = c->symbols[at & 255], size = symbol & 15;
            return (larder__entry){(uint8_t)(length + size), (uint8_t)length, (uint8_t)size,
                                   (uint8_t)(c->dc ? 0 : symbol >> 4)};
        }
    return (larder__entry){0};
}

/* What a word begins with; `used` 0: no code. */
LARDER__INLINE larder__entry entry_of(uint64_t bits, const larder__codes *c) {
    larder__entry e = c->entries[bits >> (64 - LARDER__LOOK)];
    return __builtin_expect(e.used != 0, 1) ? e : long_entry(bits, c);
}

LARDER__INLINE bool is_end(larder__entry e) { return e.size == 0 && e.run != 15; }

/* As many codes as these bits have, with their values, which may reach beyond; up to the end of a
 * block. */
static larder__leap leap_of(const larder__codes *c, uint32_t bits) {
    const larder__pair *p = &c->pairs[bits];
    larder__leap leap = {0};
    if (p->by != LARDER__ODD)
        leap = (larder__leap){p->used, p->by};
    while (leap.used < LARDER__LOOK && leap.by < LARDER__ENDS) {
        larder__entry e = c->entries[bits << leap.used & (LOOKS - 1)];
        uint32_t by = leap.by + (is_end(e) ? (uint32_t)LARDER__ENDS : e.run + 1u);
        if (!e.used || leap.used + e.length > LARDER__LOOK || (by & 127) > 63)
            break;
        leap.used = (uint8_t)(leap.used + e.used);
        leap.by = (uint8_t)by;
    }
    leap.by = leap.used ? leap.by : LARDER__ODD;
    return leap;
}

/* A second one, where its code is there too. */
static void make_pairs(larder__codes *c) {
    larder__pair one[LOOKS];
    memcpy(one, c->pairs, sizeof one);
    for (uint32_t i = 0; i < LOOKS; i++) {
        larder__pair a = one[i], *to = &c->pairs[i];
        if (a.by >= LARDER__ODD || a.used >= LARDER__LOOK)
            continue;
        uint32_t rest = i << a.used & (LOOKS - 1), before = i >> (LARDER__LOOK - a.used);
        larder__entry e = c->entries[rest];
        larder__pair b = one[rest];
        if (b.by == LARDER__ODD || a.used + e.length + (e.size > 0) > LARDER__LOOK)
            continue;
        to->used = (uint8_t)(a.used + b.used);
        to->by = (uint8_t)(a.by + b.by);
        to->last = (int16_t)(b.first - (int32_t)(before << b.used));
    }
}

/* Pictures of one camera or program often bring the same table. The library has checked it when it
 * made its own of it. */
static void make_codes(larder__codes *c, const JHUFF_TBL *t, bool dc) {
    if (c->made && c->dc == dc && memcmp(c->bits, t->bits, sizeof c->bits) == 0 &&
        memcmp(c->symbols, t->huffval, sizeof c->symbols) == 0)
        return;
    uint32_t code = 0, at = 0;
    memset(c->entries, 0, sizeof c->entries);
    for (uint32_t i = 0; i < LOOKS; i++)
        c->pairs[i] = (larder__pair){.by = LARDER__ODD};
    c->dc = dc;
    memcpy(c->bits, t->bits, sizeof c->bits);
    memcpy(c->symbols, t->huffval, sizeof c->symbols);
    for (uint32_t length = 1; length <= 16; length++, code <<= 1) {
        c->offset[length] = (int32_t)at - (int32_t)code;
        for (uint32_t k = 0; k < t->bits[length] && at < 256; k++, at++, code++)
            if (length <= LARDER__LOOK)
                fill(c, code, length, t->huffval[at] & (dc ? 15 : 255));
        c->limit[length] = (int32_t)(code << (16 - length));
    }
    c->made = true;
    c->leaps_made = false;
    if (!dc)
        make_pairs(c);
}

static void make_leaps(larder__codes *c) {
    if (c->leaps_made)
        return;
    for (uint32_t i = 0; i < LOOKS; i++)
        c->leaps[i] = leap_of(c, i);
    c->leaps_made = true;
}

/* ---- bits ------------------------------------------------------------------------------------ */

typedef larder__entropy_bits reader;

/* Bytes on, up to a marker: 0xff stands for itself when 0 follows. */
static void copy_plain(larder__entropy *e, const uint8_t *until) {
    while (!e->marked && e->filled < until) {
        size_t n = (size_t)(until - e->filled), there = (size_t)(e->end - e->from);
        n = n < there ? n : there;
        const uint8_t *ff = n ? memchr(e->from, 0xff, n) : NULL;
        n = ff ? (size_t)(ff - e->from) : n;
        memcpy(e->filled, e->from, n);
        e->filled += n;
        e->from += n;
        if (ff && e->end - ff >= 2 && ff[1] == 0) {
            *e->filled++ = 0xff;
            e->from += 2;
        } else if (ff || e->from == e->end) {
            e->marked = true;
        }
    }
}

/* What is left moves to the front. */
__attribute__((noinline)) static void more_plain(larder__entropy *e) {
    size_t left = e->in.at < e->filled ? (size_t)(e->filled - e->in.at) : 0;
    memmove(e->plain, e->in.at, left);
    e->in.at = e->plain;
    e->filled = e->plain + left;
    copy_plain(e, e->plain + LARDER__PLAIN);
}

/* Makes at least 56 bits: no code with its value has more than 31. What of the last byte does not
 * count yet comes again the same. */
LARDER__INLINE reader refilled(reader r) {
    uint64_t word;
    memcpy(&word, r.at, sizeof word);
    r.bits |= __builtin_bswap64(word) >> r.have;
    r.at += (63 - r.have) >> 3;
    r.have |= 56;
    return r;
}

LARDER__INLINE reader dropped(reader r, uint32_t n) {
    r.bits <<= n;
    r.have -= n;
    return r;
}

/* Bits taken beyond the last there were. */
LARDER__INLINE bool overdrawn(const larder__entropy *e) {
    return (e->in.at - e->filled) * 8 > (ptrdiff_t)e->in.have;
}

/* ---- blocks ---------------------------------------------------------------------------------- */

static void next_segment(larder__entropy *e) {
    ptrdiff_t rest = (e->filled - e->in.at) * 8 + (ptrdiff_t)e->in.have;
    if (!e->marked || rest > 7 || e->end - e->from < 2 || e->from[1] != 0xd0 + e->next)
        e->fault(e);
    e->from += 2;
    e->marked = false;
    e->filled = e->plain;
    e->in = (reader){.at = e->plain};
    e->next = (e->next + 1) & 7;
    e->left = e->every;
    memset(e->last, 0, sizeof e->last);
}

LARDER__INLINE JCOEF coefficient(reader r, uint32_t shift, int16_t added) {
    return (JCOEF)((r.bits >> (shift & 63)) + (uint64_t)added);
}

/* The difference to the last mean colour. */
LARDER__INLINE reader read_dc(larder__entropy *e, reader r, const larder__codes *c, int32_t *last) {
    r = refilled(r);
    const larder__pair *p = &c->pairs[r.bits >> (64 - LARDER__LOOK)];
    if (__builtin_expect(p->by != LARDER__ODD, 1)) {
        *last = (int32_t)((uint32_t)*last + (uint32_t)coefficient(r, p->shift, p->first));
        return dropped(r, p->used);
    }
    larder__entry d = entry_of(r.bits, c);
    if (!d.used)
        e->fault(e);
    if (d.size)
        *last = (int32_t)((uint32_t)*last + (uint32_t)value_of(r.bits << d.length, d.size));
    return dropped(r, d.used);
}

/* What stands for no coefficient, or has a long code. True: the block ends. */
LARDER__INLINE bool odd_code(larder__entropy *e, reader *r, const larder__codes *c, uint32_t *k,
                             JCOEF *block) {
    *r = refilled(*r);
    larder__entry a = entry_of(r->bits, c);
    if (!a.used)
        e->fault(e);
    *k += a.run;
    if (a.size)
        block[natural[*k]] = (JCOEF)value_of(r->bits << a.length, a.size);
    *r = refilled(dropped(*r, a.used));
    *k += 1;
    if (is_end(a))
        return true;
    if (*k > 64)
        e->fault(e);
    return *k == 64;
}

/* The second of a pair is written first: where there is none, the first one takes its place.
 * False, and nothing was done: the block may end with them, or they are something else. */
LARDER__INLINE bool read_pair(reader *r, const larder__codes *c, uint32_t *k, JCOEF *block) {
    larder__pair p = c->pairs[r->bits >> (64 - LARDER__LOOK)];
    uint32_t next = *k + p.by;
    if (__builtin_expect(next > 63, 0))
        return false;
    block[natural[next - 1]] = coefficient(*r, 64u - p.used, p.last);
    block[natural[*k + p.run]] = coefficient(*r, p.shift, p.first);
    *r = dropped(*r, p.used);
    *k = next;
    return true;
}

/* A block also ends with its last coefficient, and what seems to say so is then the next one's. */
LARDER__INLINE bool ends_block(uint32_t k, uint32_t by) {
    return by >= LARDER__ENDS ? k + by - LARDER__ENDS <= 63 : k + by == 64;
}

/* What read_pair left. True: the block ends. */
LARDER__INLINE bool read_last(larder__entropy *e, reader *r, const larder__codes *c, uint32_t *k,
                              JCOEF *block) {
    larder__pair p = c->pairs[r->bits >> (64 - LARDER__LOOK)];
    if (!ends_block(*k, p.by))
        return odd_code(e, r, c, k, block);
    if (p.by < LARDER__ENDS)
        block[natural[63]] = coefficient(*r, 64u - p.used, p.last);
    block[natural[*k + p.run]] = coefficient(*r, p.shift, p.first);
    *r = dropped(*r, p.used);
    return true;
}

/* A refill is enough for two pairs, or for one and what stands before it: 50 bits at most. */
LARDER__INLINE reader read_ac(larder__entropy *e, reader r, const larder__codes *c, JCOEF *block) {
    for (uint32_t k = 1;;) {
        if (read_pair(&r, c, &k, block)) {
            r = refilled(r);
            if (read_pair(&r, c, &k, block))
                continue;
        }
        if (read_last(e, &r, c, &k, block))
            return r;
    }
}

/* The same where nobody wants the values. */
LARDER__INLINE bool skip_codes(reader *r, const larder__codes *c, uint32_t *k) {
    larder__leap leap = c->leaps[r->bits >> (64 - LARDER__LOOK)];
    if (__builtin_expect(*k + leap.by > 63, 0))
        return false;
    *r = dropped(*r, leap.used);
    *k += leap.by;
    return true;
}

LARDER__INLINE bool skip_last(larder__entropy *e, reader *r, const larder__codes *c, uint32_t *k) {
    larder__leap leap = c->leaps[r->bits >> (64 - LARDER__LOOK)];
    JCOEF nowhere[64];
    if (!ends_block(*k, leap.by))
        return odd_code(e, r, c, k, nowhere);
    *r = dropped(*r, leap.used);
    return true;
}

LARDER__INLINE reader skip_ac(larder__entropy *e, reader r, const larder__codes *c) {
    for (uint32_t k = 1;;) {
        if (skip_codes(&r, c, &k)) {
            r = refilled(r);
            if (skip_codes(&r, c, &k))
                continue;
        }
        if (skip_last(e, &r, c, &k))
            return r;
    }
}

/* Whether the library will look at the next MCU. */
LARDER__INLINE bool wanted(larder__entropy *e, j_decompress_ptr cinfo, const JBLOCKROW *to) {
    JDIMENSION at = e->column++;
    if (e->column == cinfo->MCUs_per_row)
        e->column = 0;
    return to && at >= cinfo->master->first_iMCU_col && at <= cinfo->master->last_iMCU_col;
}

LARDER__SHIFT_CLONES
static void read_blocks(larder__entropy *e, JBLOCKROW *to) {
    reader r = e->in;
    for (int b = 0; b < e->blocks; b++) {
        int32_t *last = &e->last[e->part[b]];
        r = read_dc(e, r, e->dc_of[b], last);
        to[b][0][0] = (JCOEF)*last;
        r = read_ac(e, r, e->ac_of[b], to[b][0]);
    }
    e->in = r;
}

LARDER__SHIFT_CLONES
static void skip_blocks(larder__entropy *e) {
    reader r = e->in;
    for (int b = 0; b < e->blocks; b++) {
        make_leaps(e->ac_of[b]);
        r = read_dc(e, r, e->dc_of[b], &e->last[e->part[b]]);
        r = skip_ac(e, r, e->ac_of[b]);
    }
    e->in = r;
}

static boolean decode_mcu(j_decompress_ptr cinfo, JBLOCKROW *to) {
    larder__entropy *e = cinfo->client_data;
    if (e->left == 0)
        next_segment(e);
    e->left--;
    if (!e->marked && e->filled - e->in.at < LARDER__MCU_BYTES)
        more_plain(e);
    if (wanted(e, cinfo, to))
        read_blocks(e, to);
    else
        skip_blocks(e);
    if (overdrawn(e))
        e->fault(e);
    return TRUE;
}

bool larder__entropy_take(larder__entropy *e, j_decompress_ptr cinfo) {
    if (cinfo->progressive_mode || cinfo->arith_code || cinfo->data_precision != 8 ||
        cinfo->inputctl->has_multiple_scans || cinfo->blocks_in_MCU > LARDER__BLOCKS_MAX ||
        cinfo->unread_marker)
        return false;
    for (int i = 0; i < cinfo->comps_in_scan; i++) {
        const jpeg_component_info *c = cinfo->cur_comp_info[i];
        int dc = c->dc_tbl_no, ac = c->ac_tbl_no;
        if (dc < 0 || dc > 3 || ac < 0 || ac > 3 || !cinfo->dc_huff_tbl_ptrs[dc] ||
            !cinfo->ac_huff_tbl_ptrs[ac])
            return false;
        make_codes(&e->codes[0][dc], cinfo->dc_huff_tbl_ptrs[dc], true);
        make_codes(&e->codes[1][ac], cinfo->ac_huff_tbl_ptrs[ac], false);
    }
    for (int b = 0; b < cinfo->blocks_in_MCU; b++) {
        int i = cinfo->MCU_membership[b];
        e->part[b] = (uint8_t)i;
        e->dc_of[b] = &e->codes[0][cinfo->cur_comp_info[i]->dc_tbl_no];
        e->ac_of[b] = &e->codes[1][cinfo->cur_comp_info[i]->ac_tbl_no];
    }
    e->blocks = cinfo->blocks_in_MCU;
    e->from = cinfo->src->next_input_byte;
    e->end = e->from + cinfo->src->bytes_in_buffer;
    e->marked = false;
    e->filled = e->plain;
    e->in = (reader){.at = e->plain};
    e->every = e->left = cinfo->restart_interval ? cinfo->restart_interval : UINT32_MAX;
    e->next = e->column = 0;
    memset(e->last, 0, sizeof e->last);
    cinfo->entropy->decode_mcu = decode_mcu;
    return true;
}

#else

bool larder__entropy_take(larder__entropy *e, j_decompress_ptr cinfo) {
    (void)e, (void)cinfo;
    return false;
}

#endif
#endif
