/* Decoding somewhere else than in this process. A scratch that has such a place sends bytes there
 * instead of to a codec; what comes back is pixels and samples of sound, and is checked. */
#ifndef LARDER_STAGE_ELSEWHERE_H
#define LARDER_STAGE_ELSEWHERE_H

#include "stage/codec.h"
#include "stage/sound.h"

typedef struct larder__elsewhere larder__elsewhere;
struct larder__elsewhere {
    /* As of larder__codec. `pixels` follows `head` with the same bytes. `indices`: as in the
     * scratch. */
    int (*head)(larder__elsewhere *, bool indices, const uint8_t *bytes, size_t size, uint32_t *w,
                uint32_t *h);
    int (*pixels)(larder__elsewhere *, bool indices, const uint8_t *bytes, size_t size,
                  uint32_t denominator, larder__rect want, larder__picture *out);
    int (*sound)(larder__elsewhere *, const larder__sound *, const void *bytes, size_t size,
                 double where, float *out);       /* as larder__sound_window */
    double (*seconds)(const larder__elsewhere *); /* of a processor, spent there so far */
    void (*close)(larder__elsewhere *);
};

/* From now on; the scratch's close closes it. NULL: here. */
void larder__scratch_send(larder__scratch *, larder__elsewhere *);

#endif
