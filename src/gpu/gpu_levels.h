/* Rows of batches on a GPU: from the planes that a decoder left in its memory to levels (u8), and
 * from levels, wherever they were made, to what training wants. The code is code/levels.cu, whose
 * structs these are. Streams order the calls; nothing here waits. */
#ifndef LARDER_GPU_GPU_LEVELS_H
#define LARDER_GPU_GPU_LEVELS_H

#include "gpu/gpu.h"

typedef struct larder__levels_axis { /* as larder__axis of stage/resample.h */
    double in0, in1;
    int64_t lo, hi, full, first, last;
    int32_t filter, aliased;
} larder__levels_axis;

typedef struct larder__levels_picture { /* Y, or Y, Cb and Cr */
    larder__gpu_ptr plane[3];
    int32_t pitch[3];
    int32_t colour; /* as larder__colour of stage/blueprint.h, or LARDER__LEVELS_RGB: one plane */
    int32_t w, h, cw, ch;
    int32_t left, top; /* of its first pixel, in the coordinates of axes */
} larder__levels_picture;

/* Pixels of the file's picture that rows look at; none: nobody knows. */
typedef struct larder__levels_reach {
    int32_t x0, y0, x1, y1;
} larder__levels_reach;

enum { LARDER__LEVELS_RECOLOURS = 16, LARDER__LEVELS_CONTRAST = 1, LARDER__LEVELS_RGB = 5 };

/* How a row comes about: pixels as they are; by weights, down first; the same, kept within 0..255;
 * across first, each rounded; the nearest one. */
enum {
    LARDER__LEVELS_PLAIN,
    LARDER__LEVELS_SMOOTH,
    LARDER__LEVELS_SMOOTH_WITHIN,
    LARDER__LEVELS_SHARP,
    LARDER__LEVELS_NEAREST
};

typedef struct larder__levels_job { /* one row */
    larder__levels_picture from;
    larder__levels_axis x, y;
    larder__gpu_ptr taps_x, taps_y; /* larder__levels_make sets these, */
    int32_t width_x, width_y;       /* and these */
    int32_t how, flipped, upended;
    int32_t plain_x, plain_y;
    int32_t reach[2]; /* columns that are looked at */
    int32_t filled[4];
    uint8_t fill[4];
    int32_t recolours;
    struct {
        int32_t op;
        float by;
    } recolour[LARDER__LEVELS_RECOLOURS];
    larder__gpu_ptr sums; /* and this */
    larder__gpu_ptr out;
} larder__levels_job;

typedef struct larder__levels_shape {
    int32_t w, h, packed; /* of a row; packed: channels last */
} larder__levels_shape;

typedef struct larder__levels_worth {
    larder__gpu_ptr levels, out;
    larder__gpu_ptr slots;    /* int32_t of each row: which one of `levels` it is */
    larder__gpu_ptr partners; /* the same of what it is mixed with; 0: nothing is */
    int64_t row;              /* elements of one */
    int32_t w, h, c, packed, dtype;
    float scale[4], bias[4];
    float own;
    int32_t pasted, x0, y0, x1, y1;
} larder__levels_worth;

/* Columns of a picture that a row may look at, where they are resampled. */
enum { LARDER__LEVELS_LINE = 4096 };

typedef struct larder__levels larder__levels;
int larder__levels_open(larder__levels **, larder__gpu *);
void larder__levels_close(larder__levels **);

/* A piece of the device's memory that grows; of one thread and one stream. */
typedef struct larder__gpu_piece {
    larder__gpu_ptr at;
    size_t bytes;
} larder__gpu_piece;
/* What was in it is lost when it grows, after the stream has come to an end. */
int larder__gpu_piece_grow(larder__gpu *, larder__gpu_piece *, size_t bytes, const char *what,
                           larder__gpu_stream);
void larder__gpu_piece_free(larder__gpu *, larder__gpu_piece *);

/* Rows into memory of the device; `work` is for what lies between. */
int larder__levels_make(larder__levels *, larder__levels_job *, size_t n, larder__levels_shape,
                        larder__gpu_piece *work, larder__gpu_stream);
int larder__levels_values(larder__levels *, const larder__levels_worth *, size_t rows,
                          larder__gpu_stream);

#endif
