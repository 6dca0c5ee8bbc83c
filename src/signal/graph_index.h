/* What the engines `exact` and `strata` keep: the codes of all samples. `exact` keeps every
 * dimension in eight bits, and so does `strata` of classes with few rows; of the others it keeps
 * short codes, each class in a frame of its own (graph_frame.h).
 *
 * A frame is learnt when a class has enough rows, from these. When training has moved the class so
 * far that more than before lies outside of its frame, the next rows are kept whole once more, and
 * when they are enough the frame is learnt anew and the codes are turned into it. All of this goes
 * by the rows entered, not by time, so that a run repeats.
 *
 * A row that lies between two classes is outside of its own class's frame in the very direction of
 * the other, and a query from there would not see how near it is. Such a row is a guest of the
 * class whose centre is nearest: it has a code in the frame of that class too, and the queries of
 * that class count it there. For queries of other classes it is hidden in its own. */
#ifndef LARDER_SIGNAL_GRAPH_INDEX_H
#define LARDER_SIGNAL_GRAPH_INDEX_H

#include "signal/graph_centres.h"
#include "signal/graph_engine.h"
#include "signal/graph_frame.h"
#include "signal/graph_order.h"
#include "signal/graph_project.h"
#include "signal/graph_scale.h"

enum { LARDER__HEAD_SHORT = 2 }; /* eighths of a short code: the strongest directions come first */

typedef struct larder__graph_part { /* a class of strata */
    larder__graph_frame frame;
    bool framed;    /* its rows have short codes */
    bool collect;   /* rows are kept whole as well, to learn from */
    uint32_t coded; /* rows since the frame was learnt, up to a limit */
} larder__graph_part;

typedef struct larder__graph_waiting { /* rows whose host is still to be found, a few together */
    uint32_t count;
    uint32_t ids[LARDER__PROJECT_ROWS], classes[LARDER__PROJECT_ROWS];
    float *x;         /* 4 x dim */
    float *distances; /* to all centres */
    size_t room;      /* of distances */
} larder__graph_waiting;

typedef struct larder__graph_index {
    larder__graph_conf conf;                   /* budget 0: exact, neither centres nor parts */
    larder__graph_store whole, shorts, guests; /* a guest's class is its host */
    larder__graph_scale scale;                 /* of the whole rows */
    larder__graph_order order;                 /* exact: of their dimensions */
    bool frames;                               /* false: shorts and guests are not in use */
    larder__graph_space space;
    larder__graph_part *parts;
    uint32_t part_count;
    larder__graph_centres centres;
    float *values; /* room for the values of a batch */
    size_t room;
    larder__graph_waiting waiting;
} larder__graph_index;

/* Half-open ones are closed by the caller. */
int larder__graph_index_open(larder__graph_index *, const larder__graph_conf *, bool frames);
void larder__graph_index_close(larder__graph_index *);
int larder__graph_index_enter(larder__graph_index *, const larder_engine_rows *);
uint64_t larder__graph_index_rows(const larder__graph_index *);
uint64_t larder__graph_index_bytes(const larder__graph_index *);
void larder__graph_index_save(const larder__graph_index *, larder_writer *);
int larder__graph_index_load(larder__graph_index *, larder_reader *); /* into an empty one */

static inline bool larder__graph_framed(const larder__graph_index *s, uint32_t class) {
    return s->frames && class < s->part_count && s->parts[class].framed;
}
/* Where a class is counted. */
static inline const larder__graph_store *larder__graph_store_of(const larder__graph_index *s,
                                                                uint32_t class) {
    return larder__graph_framed(s, class) ? &s->shorts : &s->whole;
}
/* The class of a sample is the one it came with first. */
static inline uint32_t larder__graph_class_of(const larder__graph_index *s, uint32_t id,
                                              uint32_t given) {
    if (s->frames && larder__graph_store_holds(&s->shorts, id))
        return larder__graph_store_class(&s->shorts, id);
    return larder__graph_store_holds(&s->whole, id) ? larder__graph_store_class(&s->whole, id)
                                                    : given;
}

#endif
