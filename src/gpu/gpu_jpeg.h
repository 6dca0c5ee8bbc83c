/* JPEGs decoded by a GPU, through CUDA's nvJPEG, which is opened at run time: by the engine for it
 * where the card has one (A100, H100 and later), else by kernels. Either into planes of Y, Cb and
 * Cr as the file has them, whose colour larder's own code widens (gpu_levels.h), so that pixels are
 * the host's; or into RGB, of which the engine does all, colour that the file has halved being
 * repeated: three to four times the rate, since nvJPEG copies planes one by one (and smoothing
 * by its own kernels is no faster than planes). Files are plain ones (larder__jpeg_is_plain). */
#ifndef LARDER_GPU_GPU_JPEG_H
#define LARDER_GPU_GPU_JPEG_H

#include "gpu/gpu_levels.h"

/* nvJPEG itself: $LARDER_NVJPEG, or where CUDA's libraries lie. */
int larder__jpegs_library(void **out);

typedef struct larder__jpegs larder__jpegs; /* of one thread and one stream */
/* With $LARDER_NVJPEG_KERNELS without the engine. */
int larder__jpegs_open(larder__jpegs **, larder__gpu *, bool planes);
void larder__jpegs_close(larder__jpegs **);
bool larder__jpegs_planes(const larder__jpegs *);
bool larder__jpegs_engine(const larder__jpegs *); /* by the card's own engine, not by kernels */
int larder__jpegs_refused(const larder__jpegs *); /* nvJPEG's code for the last refusal; 0: none */

typedef struct larder__jpeg_order {
    const uint8_t *bytes; /* until the stream has come past it */
    size_t size;
    larder__levels_picture *to; /* w, h and colour are given; planes are laid out, see below */
    bool failed;                /* nvJPEG would not; the others are there */
} larder__jpeg_order;

/* Bytes that the planes of a picture of this colour take; `at` not 0: they lie there. */
size_t larder__jpeg_planes(larder__levels_picture *, larder__gpu_ptr at);
/* Negative: none is there, whatever the reason (E_NOMEM: the device has too little memory). The
 * stream must have come to the end of the decode before. */
int larder__jpegs_decode(larder__jpegs *, larder__jpeg_order *, size_t n, larder__gpu_stream);

#endif
