/* What a stage of the pipeline is: a plug-in that changes where pixels come from (place) or what
 * they are worth (tone). Neither touches pixels: both only describe, so that the pipeline decodes
 * no more of a picture than is wanted and passes over it once.
 *
 * A new stage is one file with a `const larder_stage larder__stage_NAME` and one line in
 * src/plugins.def. State is allocated and zeroed by the pipeline and read-only after init, so any
 * number of threads may run it. */
#ifndef LARDER_STAGE_STAGE_H
#define LARDER_STAGE_STAGE_H

#include <larder/plugin.h>

#define LARDER__MAX_SIDE 16384 /* of anything a stage is told to make, in pixels */
#define LARDER__MAX_CHANNELS 4

/* The picture as the next stage sees it: w x h pixels, some of them perhaps zeros from padding.
 * Stages change it through the calls below only. */
typedef struct larder_view {
    int64_t w, h;
    bool flipped; /* left and right change places, after everything else */
    /* How it is made: box of the source, resampled to full_w x full_h; of that the window that
     * starts at win_x, win_y; whatever lies outside vis_* is zero. */
    int64_t box_x, box_y, box_w, box_h;
    int64_t full_w, full_h, win_x, win_y;
    int64_t vis_x0, vis_y0, vis_x1, vis_y1;
    double gap; /* the decoder may shrink the box while it keeps gap x the target; 0: never */
    bool resized, padded;
} larder_view;

void larder__view_start(larder_view *, int64_t w, int64_t h);
/* A window of what is there; parts beyond the edge become zeros. */
int larder__view_crop(larder_view *, int64_t x, int64_t y, int64_t w, int64_t h);
/* Bilinear with antialias; once a pipeline, and not over padding. */
int larder__view_resize(larder_view *, int64_t w, int64_t h, double gap);

/* What a pixel becomes in f32 output: scale * value + bias, value 0..255, per channel. */
typedef struct larder_tone {
    uint32_t channels;
    double scale[LARDER__MAX_CHANNELS], bias[LARDER__MAX_CHANNELS];
} larder_tone;

typedef struct larder_stage {
    larder_plugin plugin;
    bool random; /* takes chance: the same sample gives another picture with another seed */
    int (*init)(void *st, const larder_args *);
    /* Exactly one of these two; rng is this stage's own for this sample; NULL for a random stage:
     * without chance, the middle of what it may do, in the same size. */
    int (*place)(const void *st, larder_view *, larder_rng *);
    int (*tone)(const void *st, larder_tone *, larder_rng *);
} larder_stage;

/* "a/b/c" into at most `max` numbers; `what` is for the sentence. */
int larder__numbers_parse(const char *what, const char *text, double *out, size_t max, size_t *n);

/* Stages that make h x w pixels share these parameters: size, or h and w apart. */
typedef struct larder__extent {
    int64_t h, w;
} larder__extent;
#define LARDER__EXTENT_PARAMS(help)                                                                \
    {"size", "int", "0", help, 0, LARDER__MAX_SIDE},                                               \
        {"h", "int", "0", "height in pixels, with w, instead of size", 0, LARDER__MAX_SIDE}, {     \
        "w", "int", "0", "width in pixels, with h, instead of size", 0, LARDER__MAX_SIDE           \
    }
/* Both sides from either; E_ARGS unless exactly one way is given. */
int larder__extent_read(larder__extent *, const char *stage, const larder_args *);

#endif
