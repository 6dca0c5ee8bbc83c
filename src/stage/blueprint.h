/* What is to be done to a picture, said instead of done: for a machine beside the processors (a
 * GPU) that has the decoded pixels and makes the row of them. Stages run as ever, with the same
 * chance, so that what is drawn is the same wherever a row is made; only their pixels are not
 * there. */
#ifndef LARDER_STAGE_BLUEPRINT_H
#define LARDER_STAGE_BLUEPRINT_H

#include "stage/gather.h"
#include "stage/recolour.h"

typedef struct larder__blueprint {
    larder__window window; /* in pixels of the picture, never shrunk by the decoder */
    larder__rect filled; /* the part of the row that has pixels, before it is flipped; the rest: */
    uint8_t fill[LARDER_CHANNELS_MAX];
    bool flipped, upended; /* left and right, up and down change places */
    larder__recolours colours;
} larder__blueprint;

/* The first stage that blueprints have no words for; NULL: there is none. */
const char *larder__pipeline_unsayable(const larder__pipeline *);
/* Of a picture of w x h that stages take for one of seen_w x seen_h. 1, or 0: for this one there
 * are no words (or it is an error, which running the stages will say). */
int larder__pipeline_blueprint(const larder__pipeline *, uint32_t w, uint32_t h, uint32_t seen_w,
                               uint32_t seen_h, uint64_t seed, larder__blueprint *out);

/* An encoded sample as a JPEG that any decoder reads: plain (baseline, eight bits, one scan, its
 * colours Y or YCbCr of a common sampling) and whole, down to the mark at its end. */
typedef enum {
    LARDER__GREY,
    LARDER__WHOLE,      /* 4:4:4 */
    LARDER__HALF_WIDTH, /* 4:2:2 */
    LARDER__HALF_BOTH,  /* 4:2:0 */
    LARDER__HALF_HEIGHT /* 4:4:0 */
} larder__colour;

typedef struct larder__plain_jpeg {
    uint32_t w, h;
    larder__colour colour;
} larder__plain_jpeg;
/* False: it is another sort of file, or a broken one. Looks at all of its bytes, decodes none. */
bool larder__jpeg_is_plain(const uint8_t *bytes, size_t size, larder__plain_jpeg *out);

#endif
