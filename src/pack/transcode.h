/* One JPEG made into one that can be read in parts: the same coefficients, entropy-coded again with
 * restart markers, so that its pixels are those of the original to the last bit. What cannot be
 * cut stays as it is, and it is said why. */
#ifndef LARDER_PACK_TRANSCODE_H
#define LARDER_PACK_TRANSCODE_H

#include "source/pack_index.h"

typedef struct larder__transcoder larder__transcoder; /* one thread's */

typedef struct larder__transcode_conf {
    uint32_t restart;  /* MCUs a segment; 0: as many as make segments of about 180 bytes */
    bool strip;        /* leave out comments, EXIF, colour profiles */
    bool verify;       /* decode both and compare every pixel */
    uint32_t quality;  /* 1..100: encode again with it; 0: never */
    uint32_t max_side; /* larger pictures are made smaller; 0: never */
} larder__transcode_conf;

typedef struct larder__transcoded {
    const unsigned char *bytes; /* the transcoder's until its next run, or the input itself */
    size_t size;
    uint8_t kind;
    uint8_t jfif;
    larder__grid grid;
    uint32_t head_at, data_at; /* as in larder__pack_entry */
    const uint16_t *lengths;
    char why[160]; /* what kept it from being cut; "" */
} larder__transcoded;

int larder__transcoder_open(larder__transcoder **out, const larder__transcode_conf *);
void larder__transcoder_close(larder__transcoder **);
/* Negative only when memory is short or this build has no JPEG: any sample gives an answer. */
int larder__transcode(larder__transcoder *, const void *bytes, size_t size,
                      larder__transcoded *out);

#endif
