/* From the bytes of one sample to its place in a batch: decode, geometry, pixels, in one go.
 *
 * A pipeline is opened once from a text such as "rrc:size=224|flip|normalize:preset=imagenet" and
 * is read-only afterwards: any number of threads run it, each with a scratch of its own. Chance
 * comes in as a seed per sample, so a sample's augmentation repeats exactly. */
#ifndef LARDER_STAGE_PIPELINE_H
#define LARDER_STAGE_PIPELINE_H

#include <larder/plugin.h>

typedef struct larder__pipeline larder__pipeline;
typedef struct larder__scratch larder__scratch; /* one thread's working memory; grows as needed */

typedef struct larder__pipeline_conf {
    const char *spec;         /* NULL or "": decode only */
    larder_shape raw;         /* h > 0: every sample is raw u8 pixels of this shape */
    larder_layout raw_layout; /* of raw samples */
    larder_dtype dtype;       /* of the output; u8 refuses normalize */
    larder_layout layout;     /* of the output */
    bool levels; /* rows are u8 all the same, without tone: larder__pipeline_worth has it */
    bool whole;  /* decode all of every picture, whatever is wanted of it: to compare with */
} larder__pipeline_conf;

int larder__pipeline_open(larder__pipeline **out, const larder__pipeline_conf *);
void larder__pipeline_close(larder__pipeline **);
larder_shape larder__pipeline_shape(const larder__pipeline *);
size_t larder__pipeline_bytes(const larder__pipeline *); /* of one output sample */

int larder__scratch_open(larder__scratch **out);
void larder__scratch_close(larder__scratch **);
/* From now on (or no more) the seconds inside decoders are added up, from 0. */
void larder__scratch_time(larder__scratch *, bool on);
double larder__scratch_decoding(const larder__scratch *);
/* Seconds of a processor so far, of this thread and of what decodes for it elsewhere. */
double larder__scratch_seconds(const larder__scratch *);

#define LARDER__NO_CHANCE UINT64_MAX /* as a seed: random stages do the middle of what they may */

/* One sample. Hostile bytes give a negative code and a sentence, never more memory than the limit
 * on pixels allows. `out` has larder__pipeline_bytes bytes. */
int larder__pipeline_run(const larder__pipeline *, larder__scratch *, const void *bytes,
                         size_t size, uint64_t seed, void *out);

/* What belongs to a picture of w x h (0: the mask's own size) and goes through the same chance:
 * a mask, another picture whose numbers are names, which geometry moves by nearest pixel and
 * nothing else changes: u8, h x w of larder__pipeline_shape. Of pictures with a palette the
 * numbers. */
int larder__pipeline_run_mask(const larder__pipeline *, larder__scratch *, const void *bytes,
                              size_t size, uint32_t w, uint32_t h, uint64_t seed, void *out);
/* Points, pairs x, y in pixels from the picture's corner; they may come to lie outside. */
int larder__pipeline_move(const larder__pipeline *, uint32_t w, uint32_t h, uint64_t seed,
                          double *points, size_t count);
/* n boxes x0 y0 x1 y1: what encloses their corners, cut off at the edge; outside: of no area. */
int larder__pipeline_boxes(const larder__pipeline *, uint32_t w, uint32_t h, uint64_t seed,
                           float *boxes, size_t n);
/* The size of a sample's picture; looks at the head alone. */
int larder__pipeline_extent(const larder__pipeline *, larder__scratch *, const void *bytes,
                            size_t size, uint32_t *w, uint32_t *h);

/* Batch stages: what becomes of a batch whose rows have this type, once all are there. */
bool larder__pipeline_mixes(const larder__pipeline *); /* are there any? */
int larder__pipeline_mix(const larder__pipeline *, uint64_t seed, larder_mixing *out);

/* Decoded samples: all pixels at native size, u8. Of raw ones that is what they are anyway; of
 * others 3 bytes a pixel and the size in front. */

/* How many bytes that is; looks at the head alone. */
int larder__pipeline_measure(const larder__pipeline *, larder__scratch *, const void *bytes,
                             size_t size, uint64_t *decoded);
/* One reference to the decoded sample, or NULL and 0: it would have more than `limit` bytes. */
int larder__pipeline_decode(const larder__pipeline *, larder__scratch *, larder_buf *encoded,
                            size_t limit, larder_buf **out);
/* Where the pixels lie in one, and their shape; out->buf is left as it is. */
int larder__pipeline_pixels(const larder__pipeline *, larder_buf *decoded, larder_item *out);
/* As larder__pipeline_run. The same row, bit by bit, unless the decoder could shrink the picture on
 * its way (jpeg, much larger than what is made of it): then less than a level apart on average. */
int larder__pipeline_run_decoded(const larder__pipeline *, larder__scratch *, const void *bytes,
                                 size_t size, uint64_t seed, void *out);

/* Shrunk samples: the picture as a JPEG, its shorter side no more than `side`, so that it takes a
 * fraction of the bytes. Stages see it in the size it had, so that they draw the same part of it;
 * but its pixels are others than those of the file. */
typedef struct larder__shrink {
    uint32_t side;    /* of the shorter side, in pixels; 0: as many as it has */
    uint32_t quality; /* of the JPEG */
} larder__shrink;

/* The shorter side that these stages make use of: what they resize to, and 10/7 of that where they
 * resize parts of it (at equal bytes more pixels and less quality are nearer to the file). 0: they
 * resize nothing, or not in proportion, and have use for all pixels there are. */
uint32_t larder__pipeline_side(const larder__pipeline *);
/* One reference to the shrunk sample, or NULL and 0: it is not a tenth smaller than it was. The
 * same bytes every time. */
int larder__pipeline_shrink(const larder__pipeline *, larder__scratch *, larder_buf *encoded,
                            const larder__shrink *, larder_buf **out);
/* As larder__pipeline_run, of a shrunk sample. */
int larder__pipeline_run_shrunk(const larder__pipeline *, larder__scratch *, const void *bytes,
                                size_t size, uint64_t seed, void *out);
/* What one of the 255 levels of a pixel comes to in this channel of the output. */
double larder__pipeline_level(const larder__pipeline *, uint32_t channel);

/* What a level of each channel is worth in the output: scale * level + bias. */
const larder_tone *larder__pipeline_worth(const larder__pipeline *);
/* Can rows travel as levels? NULL, or the stage that changes finished rows or what each is worth.
 */
const char *larder__pipeline_levelless(const larder__pipeline *);

larder_dtype larder__pipeline_dtype(const larder__pipeline *);
larder_layout larder__pipeline_layout(const larder__pipeline *);

/* Which pixels of an encoded picture of w x h the same call would look at: known from the seed,
 * before there are any bytes. */
int larder__pipeline_reach(const larder__pipeline *, uint32_t w, uint32_t h, uint64_t seed,
                           larder_rect *out);

#endif
