/* From the bytes of a sample to the pixels that a view wants of it. */
#ifndef LARDER_STAGE_GATHER_H
#define LARDER_STAGE_GATHER_H

#include "stage/codec.h"
#include "stage/resample.h"
#include "stage/scratch.h"

typedef struct larder__origin { /* where pixels come from */
    const uint8_t *bytes;
    size_t size;
    const larder__codec *codec; /* NULL: raw pixels */
    uint32_t w, h, c;           /* of the source; c of raw pixels alone */
    uint32_t seen_w, seen_h;    /* what stages take it for: the size it had before it was shrunk */
    larder_layout layout;       /* of raw pixels */
    uint32_t step;              /* of raw pixels: bytes each, 0: c */
    uint32_t denominator;       /* the decoder shrinks both sides by this */
} larder__origin;

/* Codec and size of an encoded picture. */
int larder__origin_head(larder__origin *, larder__scratch *);
/* At least `want`, in pixels of the picture shrunk to 1/denominator; with `repack` 4 bytes each. */
int larder__origin_decode(const larder__origin *, larder__scratch *, bool repack, larder__rect want,
                          larder__picture *out);
/* The visible part of the view as pixels; `at` inside *out is its first one. `whole`: all of the
 * picture is decoded, whatever is wanted. */
int larder__gather(bool whole, larder__origin *, larder__scratch *, const larder_view *,
                   larder__picture *out);
/* What has to be decoded for the visible part of a view: `rect` in pixels of the picture shrunk to
 * 1/denominator, and how these are resampled unless they stay as they are. */
typedef struct larder__window {
    uint32_t denominator;
    larder__rect rect;
    bool resampled;
    larder__axis x, y;
} larder__window;
larder__window larder__gather_window(const larder_view *, const larder__origin *,
                                     uint32_t max_denominator);
/* The pixels of a picture of w x h that this looks at. */
larder_rect larder__gather_reach(const larder_view *, uint32_t w, uint32_t h);

#endif
