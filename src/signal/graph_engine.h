/* What finds neighbours: the engines of the signal `graph` behind one interface. An engine holds
 * the latest embedding of every sample in some form and says how many of them lie within a radius,
 * of the same class and of others. Called by one thread at a time; what it answers depends on the
 * sequence of updates alone, never on its number of threads. */
#ifndef LARDER_SIGNAL_GRAPH_ENGINE_H
#define LARDER_SIGNAL_GRAPH_ENGINE_H

#include <larder/plugin.h>

typedef struct larder__graph_conf {
    uint64_t n;            /* samples of the data set, below 2^32 */
    uint32_t dim;          /* of the embeddings, at most 4096 */
    uint32_t threads;      /* that share the counting of one batch */
    uint32_t project;      /* strata: dimensions of the short codes; at least dim: none are short */
    uint32_t budget;       /* strata: rows looked at for a query */
    uint32_t learn;        /* strata: rows that a class's frame is learnt from; 0: by n */
    uint32_t k, ef, links; /* hnsw: neighbours asked for, width of the search, links a node */
    uint32_t pq;           /* hnswpq: bytes of a code */
    uint64_t seed;
} larder__graph_conf;

typedef struct larder__graph_rows { /* a batch; ids differ, all values are finite */
    size_t n;
    uint64_t epoch;
    const uint32_t *ids, *classes;
    const float *x; /* n x dim */
} larder__graph_rows;

typedef struct larder__graph_count { /* neighbours within the radius, self excluded */
    float same, other;               /* estimates need not be whole numbers */
} larder__graph_count;

typedef struct larder__graph_engine {
    const char *name;
    int (*available)(void); /* NULL: always; else 0, or a code and what is missing */
    /* Half-open engines are closed by the caller. */
    int (*open)(void **out, const larder__graph_conf *);
    void (*close)(void *);
    /* Enters the batch. LARDER__GRAPH_LEARNING: not enough seen yet to count. */
    int (*update)(void *, const larder__graph_rows *);
    /* Counts for rows that were just entered; radius is the distance, not its square. */
    int (*count)(void *, const larder__graph_rows *, double radius, larder__graph_count *out);
    /* The nearest neighbours of the same class of a row just entered: at most cap of those within
     * the radius, nearest first. */
    size_t (*nearest)(void *, const larder__graph_rows *, size_t row, double radius, uint64_t *ids,
                      size_t cap);
    uint64_t (*rows)(const void *);  /* samples entered */
    uint64_t (*bytes)(const void *); /* memory held */
    double (*recall)(const void *);  /* measured share of true neighbours found; NULL: all */
    void (*save)(const void *, larder_writer *);
    int (*load)(void *, larder_reader *); /* follows open */
} larder__graph_engine;

enum { LARDER__GRAPH_LEARNING = 1 };

extern const larder__graph_engine larder__graph_exact, larder__graph_strata, larder__graph_hnsw,
    larder__graph_hnswpq;

/* A batch of 256 that `exact` would need longer for than this goes to `strata`. */
#define LARDER__GRAPH_EXACT_SECONDS 0.06
const larder__graph_engine *larder__graph_engine_named(const char *name);
/* The one that `auto` takes, from what a multiply-add costs on this machine's kernel. */
const larder__graph_engine *larder__graph_engine_auto(uint64_t n, uint32_t dim);

#endif
