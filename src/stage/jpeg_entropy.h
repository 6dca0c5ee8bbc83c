/* Huffman decoding of JPEGs with restart markers. libjpeg-turbo has a quick decoder and uses it
 * only for pictures without them; with them, as packed pictures have, it goes through a slow one.
 * This one takes its place: it reads codes and values from a table together, and knows that all
 * bytes are in memory.
 *
 * It only knows data without any fault. At the first thing out of order it says so, and the caller
 * decodes the picture again without it: what is an error and what is not, the library alone
 * decides. For files that include jpeglib.h first. */
#ifndef LARDER_STAGE_JPEG_ENTROPY_H
#define LARDER_STAGE_JPEG_ENTROPY_H

#include <stdbool.h>
#include <stdint.h>

enum { LARDER__LOOK_DC = 8, LARDER__LOOK_AC = 10, LARDER__BLOCKS_MAX = 10 };

typedef struct larder__codes { /* those that are longer than what a table is asked with */
    int32_t limit[17];         /* codes of this length, filled up to 16 bits, are below */
    int32_t offset[17]; /* of a code of this length: its place among the symbols less itself */
    uint8_t symbols[256];
} larder__codes;

/* What the next bits mean. used 0: a longer code, or none. */
typedef struct larder__dc_entry {
    uint8_t used, bits; /* of the code; of the difference behind it */
} larder__dc_entry;

typedef struct larder__ac_entry {
    int16_t value; /* of the coefficient, if the bits hold all of it; else 0 */
    uint8_t used;  /* bits, of the value too if it is there */
    uint8_t more;  /* zeros before it, and times 16 the bits of a value that is not there */
} larder__ac_entry;

typedef struct larder__entropy_bits {
    uint64_t bits; /* the next ones, from the top */
    const uint8_t *at;
    int have;    /* bits that are there; below 0: more were taken than there were */
    bool marked; /* a marker or the end comes next */
} larder__entropy_bits;

typedef struct larder__entropy {
    larder__codes dc_codes[4], ac_codes[4];
    larder__dc_entry dc[4][1 << LARDER__LOOK_DC];
    larder__ac_entry ac[4][1 << LARDER__LOOK_AC];
    larder__entropy_bits in;
    const uint8_t *end;
    uint32_t every, left, next; /* MCUs a segment, and to the end of this; number of its marker */
    int32_t last[4];            /* DC of each component */
    int blocks;                 /* of an MCU: components and tables */
    uint8_t part[LARDER__BLOCKS_MAX], dc_of[LARDER__BLOCKS_MAX], ac_of[LARDER__BLOCKS_MAX];
    /* Called when something is out of order; does not return. */
    void (*fault)(struct larder__entropy *);
} larder__entropy;

/* Takes over the decoding of a picture that was just started. False: it is not for it, and nothing
 * has changed. cinfo->client_data points to a struct that begins with `e`, whose fault is set. */
bool larder__entropy_take(larder__entropy *e, j_decompress_ptr cinfo);

#endif
