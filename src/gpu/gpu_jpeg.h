/* JPEGs decoded by a GPU, through CUDA's nvJPEG, which is opened at run time: by the engine for it
 * where the card has one (A100, H100 and later), else by kernels. Either into RGB, of which the
 * engine does all, or into planes of Y, Cb and Cr as the file has them, whose colour larder's own
 * code widens (gpu_levels.h). RGB of whole colours (4:4:4) is the host's to the bit. Halved colours
 * the engine repeats, so that pixels are the host's only by way of planes. nvJPEG copies these one
 * by one, by calls that wait beside training: a third of the rate (smoothing by its own kernels is
 * no faster, and what the engine calls NV12 is no picture). Files are plain ones
 * (larder__jpeg_is_plain). */
#ifndef LARDER_GPU_GPU_JPEG_H
#define LARDER_GPU_GPU_JPEG_H

#include "gpu/gpu_levels.h"

/* nvJPEG itself: $LARDER_NVJPEG, or where CUDA's libraries lie. */
int larder__jpegs_library(void **out);

typedef struct larder__jpegs larder__jpegs; /* of one thread and one stream */
/* With $LARDER_NVJPEG_KERNELS without the engine. */
int larder__jpegs_open(larder__jpegs **, larder__gpu *, bool exact); /* as the host's */
void larder__jpegs_close(larder__jpegs **);
bool larder__jpegs_engine(const larder__jpegs *); /* by the card's own engine, not by kernels */
int larder__jpegs_refused(const larder__jpegs *); /* nvJPEG's code for the last refusal; 0: none */

enum { LARDER__JPEGS_AT_ONCE = 64 };

typedef struct larder__jpeg_order {
    const uint8_t *bytes; /* until the stream has come past it */
    size_t size;
    larder__levels_picture *to; /* planes are laid out, see below */
    bool failed;                /* nvJPEG would not; the others are there */
    /* Chosen, see below: how it comes; sides of the file's picture, and where the part begins. */
    int format;
    int32_t w, h, x, y;
    void *part;
} larder__jpeg_order;

/* How an order is decoded whose picture has the sides, place and colour of the file's: what it will
 * have. The engine makes no more of it than what is looked at, if it comes as RGB. */
void larder__jpegs_choose(const larder__jpegs *, larder__jpeg_order *,
                          const larder__levels_reach *);

/* Bytes that the planes of a picture of this colour take; `at` not 0: they lie there. */
size_t larder__jpeg_planes(larder__levels_picture *, larder__gpu_ptr at);
/* At most LARDER__JPEGS_AT_ONCE. Negative: none is there, whatever the reason (E_NOMEM: the device
 * has too little memory). The stream must have come to the end of the decode before. */
int larder__jpegs_decode(larder__jpegs *, larder__jpeg_order *, size_t n, larder__gpu_stream);

#endif
