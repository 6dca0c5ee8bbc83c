/* How larder's own engines of the signal `graph` are set up, and which one `auto` takes. */
#ifndef LARDER_SIGNAL_GRAPH_ENGINE_H
#define LARDER_SIGNAL_GRAPH_ENGINE_H

#include <larder/plugin.h>

typedef struct larder__graph_conf {
    uint64_t n;       /* samples of the data set, below 2^32 */
    uint32_t dim;     /* of the embeddings, at most 4096 */
    uint32_t threads; /* that share the counting of one batch */
    uint32_t project; /* strata: dimensions of the short codes; at least dim: none are short */
    uint32_t budget;  /* strata: rows looked at for a query */
    uint32_t learn;   /* strata: rows that a class's frame is learnt from; 0: by n */
    uint64_t seed;
} larder__graph_conf;

extern const larder_engine larder__engine_exact, larder__engine_strata;

/* A batch of 256 that `exact` would need longer for than this goes to `strata`. */
#define LARDER__GRAPH_EXACT_SECONDS 0.06
/* From what a multiply-add costs on this machine's kernel. */
const larder_engine *larder__graph_engine_auto(uint64_t n, uint32_t dim);

#endif
