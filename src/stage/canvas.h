/* Pixels that stages change: laid out with padding and flips done, in one of two blocks of the
 * scratch, so that a stage writes into the other one. */
#ifndef LARDER_STAGE_CANVAS_H
#define LARDER_STAGE_CANVAS_H

#include "stage/codec.h"
#include "stage/scratch.h"

struct larder__recolours;

typedef struct larder__canvas {
    larder_canvas is; /* inside: this struct */
    larder__scratch *scratch;
    struct larder__recolours *noted; /* not NULL: see recolour.h */
} larder__canvas;

/* Of c channels; without pixels so far. */
void larder__canvas_start(larder__canvas *, larder__scratch *, uint32_t c, bool mask);
/* The view's window of a picture, whose `at` is the first visible pixel (or NULL: nothing is). With
 * `last` it may stay where it lies. Masks take their first channel. */
int larder__canvas_lay(larder__canvas *, const larder__picture *, const larder_view *, bool last);

/* ---- for stages ------------------------------------------------------------------------------ */

/* Every channel c of every pixel becomes table[c][value]. */
void larder__canvas_look_up(const larder_canvas *, uint8_t table[LARDER_CHANNELS_MAX][256]);
/* Working memory of the stage that runs. */
void *larder__canvas_work(const larder_canvas *, size_t bytes);

#endif
