/* Where classes lie: the running mean of each, and which are nearest to a sample. */
#ifndef LARDER_SIGNAL_GRAPH_CENTRES_H
#define LARDER_SIGNAL_GRAPH_CENTRES_H

#include <larder/plugin.h>

/* With more classes than this, finding the nearest would cost more than it saves. */
enum { LARDER__CENTRES_MAX = 4096 };

typedef struct larder__graph_centres {
    uint32_t dim, count;
    float *mean;    /* count x dim */
    uint32_t *seen; /* rows, up to the length of the running mean */
    float *square;  /* of the means */
    float *scale;   /* and the means again, as graph_project.h wants them */
    int8_t *matrix;
} larder__graph_centres;

void larder__graph_centres_free(larder__graph_centres *);
/* Makes room for classes 0..count-1, if they are few enough. */
int larder__graph_centres_grow(larder__graph_centres *, uint32_t count);
void larder__graph_centres_follow(larder__graph_centres *, uint32_t class, const float *row);
/* Of four rows, out[r x stride + class] = squared distance less the row's own square. */
void larder__graph_centres_compare(const larder__graph_centres *, const float *const *rows,
                                   float *out);
size_t larder__graph_centres_stride(const larder__graph_centres *);
size_t larder__graph_centres_bytes(const larder__graph_centres *);
void larder__graph_centres_save(const larder__graph_centres *, larder_writer *);
int larder__graph_centres_load(larder__graph_centres *, larder_reader *);

#endif
