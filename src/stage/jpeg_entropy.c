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
#include <string.h>

#include "base/clones.h"

/* Where the k-th coefficient of a block stands; a run may lead 15 beyond the last. */
static const uint8_t natural[64 + 16] = {
    0,  1,  8,  16, 9,  2,  3,  10, 17, 24, 32, 25, 18, 11, 4,  5,  12, 19, 26, 33,
    40, 48, 41, 34, 27, 20, 13, 6,  7,  14, 21, 28, 35, 42, 49, 56, 57, 50, 43, 36,
    29, 22, 15, 23, 30, 37, 44, 51, 58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54,
    47, 55, 62, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63};

/* ---- tables ---------------------------------------------------------------------------------- */

/* A value of `bits` bits: those with the top bit clear are negative. */
LARDER__INLINE int32_t extend(uint32_t value, uint32_t bits) {
    return (int32_t)value - (int32_t)(value >> (bits - 1) ? 0 : (1u << bits) - 1);
}

static void fill_dc(larder__dc_entry *to, uint32_t code, uint32_t length, uint8_t symbol) {
    uint32_t spare = LARDER__LOOK_DC - length;
    for (uint32_t i = code << spare; i < (code + 1) << spare; i++)
        to[i] = (larder__dc_entry){(uint8_t)length, symbol};
}

static void fill_ac(larder__ac_entry *to, uint32_t code, uint32_t length, uint8_t symbol) {
    uint32_t spare = LARDER__LOOK_AC - length, bits = symbol & 15, run = symbol >> 4;
    for (uint32_t i = 0; i < 1u << spare; i++) {
        larder__ac_entry *e = &to[(code << spare) + i];
        if (bits == 0 || bits > spare)
            *e = (larder__ac_entry){0, (uint8_t)length, (uint8_t)(run | bits << 4)};
        else
            *e = (larder__ac_entry){(int16_t)extend(i >> (spare - bits), bits),
                                    (uint8_t)(length + bits), (uint8_t)run};
    }
}

/* `entries`: larder__dc_entry or larder__ac_entry. The library has checked the table when it made
 * its own of it. */
static void make_codes(larder__codes *c, const JHUFF_TBL *t, bool dc, void *entries) {
    uint32_t code = 0, at = 0, look = dc ? LARDER__LOOK_DC : LARDER__LOOK_AC;
    memset(entries, 0, (dc ? sizeof(larder__dc_entry) : sizeof(larder__ac_entry)) << look);
    memcpy(c->symbols, t->huffval, sizeof c->symbols);
    for (uint32_t length = 1; length <= 16; length++, code <<= 1) {
        c->offset[length] = (int32_t)at - (int32_t)code;
        for (uint32_t k = 0; k < t->bits[length] && at < 256; k++, at++, code++) {
            if (dc && length <= look)
                fill_dc(entries, code, length, t->huffval[at]);
            else if (length <= look)
                fill_ac(entries, code, length, t->huffval[at]);
        }
        c->limit[length] = (int32_t)(code << (16 - length));
    }
}

/* ---- bits ------------------------------------------------------------------------------------ */

typedef larder__entropy_bits reader;

/* One by one up to a marker: 0xff stands for itself when 0 follows. */
__attribute__((noinline)) static void fill_slowly(reader *r, const uint8_t *end) {
    while (!r->marked && r->have <= 56) {
        if (r->at == end || (*r->at == 0xff && (end - r->at < 2 || r->at[1]))) {
            r->marked = true;
            return;
        }
        r->bits |= (uint64_t)*r->at << (56 - r->have);
        r->have += 8;
        r->at += *r->at == 0xff ? 2 : 1;
    }
}

LARDER__INLINE bool has_ff(uint64_t word) {
    const uint64_t ones = 0x0101010101010101u;
    return (~word - ones) & word & ones << 7;
}

/* Inside a block `bits` and `have` are variables of their own: through memory, every code would
 * wait for the one before to be stored. Makes at least 57 bits, or all up to the marker, of fewer
 * than 32: no code with its value has more. What of the last byte does not count yet comes again
 * the same. */
#define FILL()                                                                                     \
    do {                                                                                           \
        if (have >= 32)                                                                            \
            break;                                                                                 \
        uint64_t word = UINT64_MAX;                                                                \
        if (e->end - e->in.at >= 8)                                                                \
            memcpy(&word, e->in.at, sizeof word);                                                  \
        if (!has_ff(word)) {                                                                       \
            bits |= __builtin_bswap64(word) >> have;                                               \
            e->in.at += (63 - have) >> 3;                                                          \
            have |= 56;                                                                            \
        } else {                                                                                   \
            e->in.bits = bits;                                                                     \
            e->in.have = have;                                                                     \
            fill_slowly(&e->in, e->end);                                                           \
            bits = e->in.bits;                                                                     \
            have = e->in.have;                                                                     \
        }                                                                                          \
    } while (0)

#define DROP(n) (bits <<= (n), have -= (int)(n))

typedef struct symbol {
    uint32_t is, used; /* used 0: no code begins like this */
} symbol;

__attribute__((noinline)) static symbol long_symbol(uint64_t bits, const larder__codes *c,
                                                    uint32_t shortest) {
    int32_t code = (int32_t)(bits >> 48);
    for (uint32_t length = shortest; length <= 16; length++)
        if (code < c->limit[length]) {
            uint32_t at = (uint32_t)((code >> (16 - length)) + c->offset[length]);
            return (symbol){c->symbols[at & 255], length};
        }
    return (symbol){0, 0};
}

/* ---- blocks ---------------------------------------------------------------------------------- */

static void next_segment(larder__entropy *e) {
    const reader *r = &e->in;
    if (r->have < 0 || r->have > 7 || e->end - r->at < 2 || r->at[0] != 0xff ||
        r->at[1] != 0xd0 + e->next)
        e->fault(e);
    e->in = (reader){.at = r->at + 2};
    e->next = (e->next + 1) & 7;
    e->left = e->every;
    memset(e->last, 0, sizeof e->last);
}

/* The difference to the last mean colour. */
LARDER__INLINE int32_t read_dc(larder__entropy *e, uint32_t table) {
    uint64_t bits = e->in.bits;
    int have = e->in.have;
    int32_t difference = 0;
    FILL();
    const larder__dc_entry d = e->dc[table][bits >> (64 - LARDER__LOOK_DC)];
    symbol s = {d.bits, d.used};
    if (!s.used)
        s = long_symbol(bits, &e->dc_codes[table], LARDER__LOOK_DC + 1);
    if (!s.used)
        e->fault(e);
    DROP(s.used);
    if (s.is &= 15) {
        difference = extend((uint32_t)(bits >> (64 - s.is)), s.is);
        DROP(s.is);
    }
    e->in.bits = bits;
    e->in.have = have;
    return difference;
}

LARDER__INLINE void read_ac(larder__entropy *e, uint32_t table, JCOEF *block) {
    const larder__ac_entry *ac = e->ac[table];
    uint64_t bits = e->in.bits;
    int have = e->in.have;
    uint32_t k = 1;
    for (; k < 64; k++) {
        FILL();
        larder__ac_entry a = ac[bits >> (64 - LARDER__LOOK_AC)];
        if (a.value) {
            k += a.more;
            DROP(a.used);
            block[natural[k]] = a.value;
            continue;
        }
        symbol s = {(uint32_t)a.more >> 4 | (a.more & 15u) << 4, a.used};
        if (!s.used)
            s = long_symbol(bits, &e->ac_codes[table], LARDER__LOOK_AC + 1);
        if (!s.used)
            e->fault(e);
        DROP(s.used);
        uint32_t run = s.is >> 4, rest = s.is & 15;
        if (rest == 0 && run != 15)
            break;
        k += run;
        if (rest) {
            block[natural[k]] = (JCOEF)extend((uint32_t)(bits >> (64 - rest)), rest);
            DROP(rest);
        }
    }
    e->in.bits = bits;
    e->in.have = have;
    if (k > 64)
        e->fault(e);
}

static boolean decode_mcu(j_decompress_ptr cinfo, JBLOCKROW *to) {
    larder__entropy *e = cinfo->client_data;
    JBLOCK unused;
    if (e->left == 0)
        next_segment(e);
    e->left--;
    for (int b = 0; b < e->blocks; b++) {
        JCOEF *block = to ? to[b][0] : unused;
        int32_t *last = &e->last[e->part[b]];
        *last = (int32_t)((uint32_t)*last + (uint32_t)read_dc(e, e->dc_of[b]));
        block[0] = (JCOEF)*last;
        read_ac(e, e->ac_of[b], block);
    }
    if (e->in.have < 0)
        e->fault(e);
    return TRUE;
}

bool larder__entropy_take(larder__entropy *e, j_decompress_ptr cinfo) {
    if (cinfo->restart_interval == 0 || cinfo->progressive_mode || cinfo->arith_code ||
        cinfo->data_precision != 8 || cinfo->inputctl->has_multiple_scans ||
        cinfo->blocks_in_MCU > LARDER__BLOCKS_MAX || cinfo->unread_marker)
        return false;
    bool made[2][4] = {{false}};
    for (int i = 0; i < cinfo->comps_in_scan; i++) {
        const jpeg_component_info *c = cinfo->cur_comp_info[i];
        int dc = c->dc_tbl_no, ac = c->ac_tbl_no;
        if (dc < 0 || dc > 3 || ac < 0 || ac > 3 || !cinfo->dc_huff_tbl_ptrs[dc] ||
            !cinfo->ac_huff_tbl_ptrs[ac])
            return false;
        if (!made[0][dc])
            make_codes(&e->dc_codes[dc], cinfo->dc_huff_tbl_ptrs[dc], true, e->dc[dc]);
        if (!made[1][ac])
            make_codes(&e->ac_codes[ac], cinfo->ac_huff_tbl_ptrs[ac], false, e->ac[ac]);
        made[0][dc] = made[1][ac] = true;
    }
    for (int b = 0; b < cinfo->blocks_in_MCU; b++) {
        int i = cinfo->MCU_membership[b];
        e->part[b] = (uint8_t)i;
        e->dc_of[b] = (uint8_t)cinfo->cur_comp_info[i]->dc_tbl_no;
        e->ac_of[b] = (uint8_t)cinfo->cur_comp_info[i]->ac_tbl_no;
    }
    e->blocks = cinfo->blocks_in_MCU;
    e->in = (reader){.at = cinfo->src->next_input_byte};
    e->end = e->in.at + cinfo->src->bytes_in_buffer;
    e->every = e->left = cinfo->restart_interval;
    e->next = 0;
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
