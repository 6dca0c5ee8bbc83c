/* Huffman decoding of baseline JPEGs. libjpeg-turbo has a quick decoder, which it does not use for
 * pictures with restart markers, as packed ones have, and which reads what nobody wants as
 * carefully as the rest. This one takes its place: it knows that all bytes are in memory, looks
 * codes and their values up together, and leaps over blocks outside of the columns and rows that
 * are wanted, several codes at a time.
 *
 * It only knows data without any fault. At the first thing out of order it says so, and the caller
 * decodes the picture again without it: what is an error and what is not, the library alone
 * decides. For files that include jpeglib.h first. */
#ifndef LARDER_STAGE_JPEG_ENTROPY_H
#define LARDER_STAGE_JPEG_ENTROPY_H

#include <stdbool.h>
#include <stdint.h>

enum {
    LARDER__LOOK = 10, /* bits that a table is asked with */
    LARDER__BLOCKS_MAX = 10,
    /* No MCU has more: every coefficient a code of 16 bits and a value of 15. And two words, since
     * bits are taken in before they are used. */
    LARDER__MCU_BYTES = LARDER__BLOCKS_MAX * 64 * 31 / 8 + 16,
    LARDER__PLAIN = 8192,
};

typedef struct larder__entry { /* what the next bits mean */
    uint8_t used, length;      /* bits of code and value (0: a longer code, or none); of the code */
    uint8_t size, run;         /* bits of the value; coefficients of 0 before it */
} larder__entry;

/* One coefficient or two that follow each other; of one alone the second is the first once more. A
 * value is what lies before its end, and a number that takes away what stands before it and makes
 * it negative where it is. So its first bit is among those that were looked at. */
typedef struct larder__pair {
    uint8_t used;        /* bits of both, with their codes: the second ends there */
    uint8_t by;          /* coefficients; or one of the below */
    uint8_t run;         /* zeros before the first */
    uint8_t shift;       /* bits behind the first, of a word */
    int16_t first, last; /* to be added */
} larder__pair;

enum {
    LARDER__ODD = 64,  /* something else, or a longer code */
    LARDER__ENDS = 128 /* more than it goes by: the block ends. Without any, the first is 0 */
};

typedef struct larder__leap { /* the same for all codes that lie in what was looked at */
    uint8_t used, by;
} larder__leap;

typedef struct larder__codes {
    larder__entry entries[1 << LARDER__LOOK];
    larder__pair pairs[1 << LARDER__LOOK]; /* of DC tables: one, whatever it is */
    larder__leap leaps[1 << LARDER__LOOK]; /* of AC tables, made when first wanted */
    bool dc, made, leaps_made;
    uint8_t bits[17], symbols[256]; /* as the library has them */
    int32_t limit[17];              /* codes of this length, filled up to 16 bits, are below */
    int32_t offset[17]; /* of a code of this length: its place among the symbols less itself */
} larder__codes;

typedef struct larder__entropy_bits {
    uint64_t bits; /* the next ones, from the top */
    const uint8_t *at;
    uint64_t have; /* bits that are there */
} larder__entropy_bits;

typedef struct larder__entropy {
    larder__codes codes[2][4];  /* DC, AC */
    larder__entropy_bits in;    /* in plain */
    const uint8_t *from, *end;  /* of the file: what is not in plain yet */
    uint8_t *filled;            /* end of what is in plain */
    bool marked;                /* a marker or the end comes next in the file */
    uint32_t every, left, next; /* MCUs a segment, and to the end of this; number of its marker */
    uint32_t column;            /* of the next MCU */
    int32_t last[4];            /* DC of each component */
    int blocks;                 /* of an MCU: components and tables */
    uint8_t part[LARDER__BLOCKS_MAX];
    larder__codes *dc_of[LARDER__BLOCKS_MAX], *ac_of[LARDER__BLOCKS_MAX];
    /* Bytes of the scan, without the zeros after each 0xff; and room to read over the end. */
    uint8_t plain[LARDER__PLAIN + LARDER__MCU_BYTES + 16];
    /* Called when something is out of order; does not return. */
    void (*fault)(struct larder__entropy *);
} larder__entropy;

/* Takes over the decoding of a picture that was just started. False: it is not for it, and nothing
 * has changed. cinfo->client_data points to a struct that begins with `e`, whose fault is set. */
bool larder__entropy_take(larder__entropy *e, j_decompress_ptr cinfo);

#endif
