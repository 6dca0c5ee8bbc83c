/* What a pipeline is, for the files that open it and run it. */
#ifndef LARDER_STAGE_PIPELINE_INSIDE_H
#define LARDER_STAGE_PIPELINE_INSIDE_H

#include "stage/canvas.h"
#include "stage/gather.h"
#include "stage/pipeline.h"
#include "stage/stage.h"

enum { LARDER__STAGES_MOST = 16 };

typedef struct larder__step {
    const larder_stage *stage;
    void *state;
} larder__step;

struct larder__pipeline {
    larder__step steps[LARDER__STAGES_MOST];
    size_t count;
    size_t placed; /* from this step on none places any more, */
    size_t worth;  /* from this one on there are tone and late, */
    size_t mixes;  /* from this one on what is done to batches */
    larder_shape raw, shape;
    larder_layout raw_layout, layout;
    larder_dtype dtype;
    bool levels;     /* see larder__pipeline_conf */
    bool whole;      /* see larder__pipeline_conf */
    bool paints;     /* some stage changes pixels */
    bool late;       /* some stage changes finished rows */
    bool fixed_tone; /* no stage draws its tone by chance: made once, at open */
    larder_tone tone;
};

/* Chance of stage i for this sample: its own, so that stages do not disturb each other. */
larder_rng *larder__step_chance(const larder__pipeline *, size_t i, uint64_t seed, larder_rng *);
/* A leg: stages that place, then stages that change pixels. The first places the sample's own
 * pixels, any other what the one before it has made. Each half goes on from step *at, as far as it
 * can: a view cannot say everything, two resizes for example. */
int larder__leg_place(const larder__pipeline *, size_t *at, uint64_t seed, larder_view *);
/* Without pixels only size and points. */
int larder__leg_paint(const larder__pipeline *, size_t *at, uint64_t seed, larder__canvas *);
/* Without pixels: what becomes of the size of a picture of w x h, and of points. */
int larder__pipeline_walk(const larder__pipeline *, uint64_t seed, larder__canvas *);
/* The tone of the steps from `from` on, of values 0..1/unit. */
int larder__pipeline_tone(const larder__pipeline *, size_t from, double unit, uint64_t seed,
                          larder_tone *);
int larder__pipeline_head(const larder__pipeline *, larder__scratch *, larder__origin *);
/* From an origin whose head is known to its row. */
int larder__pipeline_make(const larder__pipeline *, larder__scratch *, larder__origin *,
                          uint64_t seed, void *out);

#endif
