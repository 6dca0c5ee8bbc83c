/* One thread's working memory: blocks that grow to what the largest sample so far needed, and the
 * decoders' own state. After a giant sample the block is given back (see larder__scratch_trim). */
#ifndef LARDER_STAGE_SCRATCH_H
#define LARDER_STAGE_SCRATCH_H

#include "stage/elsewhere.h"
#include "stage/pipeline.h"

typedef enum {
    LARDER__BLOCK_SPLICED,  /* a small JPEG made of parts */
    LARDER__BLOCK_DECODED,  /* pixels from the decoder */
    LARDER__BLOCK_REPACKED, /* raw pixels made 4 bytes each */
    LARDER__BLOCK_RESIZED,  /* pixels after resampling */
    LARDER__BLOCK_CANVAS,   /* pixels that stages change, */
    LARDER__BLOCK_BESIDE,   /* and what these become; the two change places */
    LARDER__BLOCK_PACKED,   /* for stages from outside: without spare bytes */
    LARDER__BLOCK_WORK,     /* of one stage while it runs */
    LARDER__BLOCK_ROWS,     /* between the two passes of a sharp filter */
    LARDER__BLOCK_TAPS_X,
    LARDER__BLOCK_TAPS_Y,
    LARDER__BLOCK_LINE,    /* one row between the two passes of resampling */
    LARDER__BLOCK_ENCODED, /* a JPEG that is being written */
    LARDER__BLOCK_VALUE,   /* of a column: unpacked, or read out of a text */
    LARDER__BLOCK_FIELDS,  /* of a sample */
    LARDER__BLOCK_CELLS,   /* of a row: where its columns go */
    LARDER__BLOCKS
} larder__block;

typedef struct larder__png_bytes {
    const uint8_t *at, *end;
    size_t left; /* of the chunk at hand */
} larder__png_bytes;

struct larder__scratch {
    void *block[LARDER__BLOCKS];
    size_t cap[LARDER__BLOCKS];
    void *jpeg;        /* opened by the first JPEG */
    void *jpeg_writer; /* by the first one written */
    void *png;         /* open only between head and pixels */
    larder__png_bytes png_bytes;
    void *sound;  /* the change of rates used last */
    bool indices; /* of a picture with a palette the numbers are wanted, not the colours */
    bool timed;   /* what decoding takes is added up */
    double decode_seconds;
    larder__elsewhere *elsewhere; /* where encoded bytes go; NULL: to the codecs, here */
};

/* At least this many bytes, 64-byte aligned, contents undefined; NULL when out of memory. */
void *larder__scratch_take(larder__scratch *, larder__block, size_t bytes);
/* Frees blocks above 32 MiB, so that one giant sample does not stay in every thread's memory. */
void larder__scratch_trim(larder__scratch *);

void larder__jpeg_close(larder__scratch *);
void larder__jpeg_writer_close(larder__scratch *);
void larder__png_close(larder__scratch *);
void larder__sound_close(larder__scratch *);

#endif
