/* Short codes of a class: its members as coordinates along the directions in which they differ
 * most (principal components, learnt from some of them), eight bits each. What lies outside of
 * these directions is kept as its length alone: of two members these parts are nearly at right
 * angles, so their squared lengths add to the squared distance; as neighbours lean the same way a
 * little, nine tenths of them do. A stranger's part outside is its own: all of it adds, and any
 * sample can be a query in any frame.
 *
 * With y the coordinates, e what rounding them left and r the part outside:
 * d^2 = |code - code'|^2 - |e|^2 - |e'|^2 + 0.9 (|r|^2 + |r'|^2), all but the first belong to the
 * row or to the query alone (graph_kernel.h). */
#ifndef LARDER_SIGNAL_GRAPH_FRAME_H
#define LARDER_SIGNAL_GRAPH_FRAME_H

#include <larder/plugin.h>

typedef struct larder__graph_frame {
    float *mean;   /* dim */
    float *scale;  /* dims: brings directions to unit length */
    int8_t *basis; /* the directions (graph_project.h) */
    float step;    /* coordinate = step x (code - 128) */
    float outside; /* share of |x - mean|^2 outside, of rows coded soon after it was learnt */
    float lately;  /* the same, running mean of what was coded since */
} larder__graph_frame;

typedef struct larder__graph_space { /* what all frames have in common */
    uint32_t dim, dims, padded;      /* of embeddings, of codes, of codes as the store pads them */
} larder__graph_space;

/* From count rows of dim floats, which it overwrites. */
int larder__graph_frame_learn(larder__graph_frame *out, const larder__graph_space *, float *rows,
                              size_t count, uint64_t seed);
void larder__graph_frame_free(larder__graph_frame *);
size_t larder__graph_frame_bytes(const larder__graph_space *);
/* Codes at most 4 rows, members or strangers: padded codes and a constant each, and the share
 * outside (may be NULL). */
void larder__graph_frame_code(const larder__graph_frame *, const larder__graph_space *, bool member,
                              const float *const *rows, size_t count, uint8_t *codes,
                              int32_t *row_consts, float *outside);

/* Half the squared radius in units of the codes. */
int32_t larder__graph_frame_half(const larder__graph_frame *, double radius);

/* The way of codes from one frame to the next of the same class. */
typedef struct larder__graph_turn {
    float *turn;         /* dims x dims */
    float *shift, *lean; /* dims: new coordinates of the old mean; of the way between means */
    double apart;        /* squared distance of the means */
    float from, to;      /* steps */
} larder__graph_turn;

int larder__graph_turn_make(larder__graph_turn *, const larder__graph_space *,
                            const larder__graph_frame *from, const larder__graph_frame *to);
void larder__graph_turn_free(larder__graph_turn *);
void larder__graph_turn_code(const larder__graph_turn *, const larder__graph_space *,
                             uint8_t *codes, int32_t *row_const);

void larder__graph_frame_save(const larder__graph_frame *, const larder__graph_space *,
                              larder_writer *);
int larder__graph_frame_load(larder__graph_frame *, const larder__graph_space *, larder_reader *);

#endif
