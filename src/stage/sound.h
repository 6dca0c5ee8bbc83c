/* Sounds: a window of a recording at a rate of our choice. Of long recordings no more is decoded
 * than the window needs; what is shorter is followed by silence.
 *
 * Rates are changed by a windowed sinc of 64 zero crossings: frequencies up to 0.8 of the lower
 * rate's half pass within a thousandth, what lies above its half is gone to as much. */
#ifndef LARDER_STAGE_SOUND_H
#define LARDER_STAGE_SOUND_H

#include "stage/pipeline.h"

typedef struct larder__sound {
    uint32_t rate, channels, frames; /* of what is wanted */
} larder__sound;

enum { LARDER__SOUND_FRAMES = 1 << 24, LARDER__SOUND_CHANNELS = 64 };

/* out has channels x frames. `where`: 0 the beginning, 1 the end, in between what lies there. */
int larder__sound_window(const larder__sound *, larder__scratch *, const void *bytes, size_t size,
                         double where, float *out);

/* ---- its resampler, for who tests it --------------------------------------------------------- */

typedef struct larder__resampler {
    uint32_t from, to; /* rates */
    uint32_t up, down; /* the same without common divisors */
    uint32_t half;     /* taps on either side */
    float *taps;       /* up x 2 half */
} larder__resampler;

int larder__resampler_open(larder__resampler *, uint32_t from, uint32_t to);
void larder__resampler_close(larder__resampler *);
/* Sample i of the output lies at i x down/up of the input, which has `before` samples before its
 * first one at `in[before]`, and must reach `half` beyond the last that is asked for. */
void larder__resampler_run(const larder__resampler *, const float *in, size_t before, float *out,
                           size_t n);

#endif
