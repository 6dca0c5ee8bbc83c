/* Sequential minimal optimisation inside a working set whose kernel rows lie at hand, or are made
 * when a step first wants them.
 *
 * A variable is beta = y alpha with bounds lo <= beta <= hi, so all tasks look alike: minimise
 * 1/2 beta' K beta + linear' beta with the sum of beta fixed (within each group where there are
 * two). `f` is the gradient, K beta + linear. One step raises the beta of smallest f that can rise
 * and lowers the one that gains most by second order (Fan, Chen, Lin 2005). */
#ifndef LARDER_SVM_SMO_H
#define LARDER_SVM_SMO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    LARDER__WS = 1024,           /* variables of a round */
    LARDER__WHOLE = 2048,        /* up to so many are one round: rows nobody wants are not made */
    LARDER__WHOLE_AT_HAND = 4096 /* the same where rows are copied, not made */
};

struct larder__smo_part;

typedef struct larder__smo {
    size_t n;        /* slots in use or not, a multiple of 16 */
    unsigned groups; /* 1 or 2 */
    float *k;        /* n rows, `stride` apart: slot i's is number place[i] */
    uint32_t *place;
    size_t stride;              /* n and a line more: rows fall on different cache sets */
    double *f, *beta, *lo, *hi; /* a slot each; unused slots have lo = hi = beta = 0 */
    float *diagonal;
    uint8_t *up, *low;                    /* bits: may rise, may fall; kept by larder__smo_run */
    uint8_t *in_group[2];                 /* bits: members, unused slots in none */
    double lowest[2], highest[2];         /* of each group: f of those who may rise, who may fall */
    bool *made;                           /* a slot each: its row is at hand; NULL: all are */
    void (*make)(void *arg, size_t slot); /* this row, and others that may be wanted next */
    void *make_arg;
    struct larder__smo_part *part; /* room to leave slots out for a while; NULL: none */
} larder__smo;

/* Most slots of a problem soon stand at a bound and stay there. Steps then look at the others, in
 * rows and arrays that hold those alone; what the rest missed is added before the end. */
typedef struct larder__smo_part {
    larder__smo smo; /* of the slots that are looked at; its rows are copies */
    size_t room;     /* slots it can have, a multiple of 16 */
    uint32_t *slot;  /* of each: which it is among all */
    double *before;  /* of each: beta when the others were left out */
    uint32_t placed; /* rows that were copied */
    uint8_t *wanted; /* bits of all slots: work */
} larder__smo_part;

/* The share of all slots there is room for. */
static inline size_t larder__smo_part_room(size_t slots) { return slots * 3 / 8 / 16 * 16; }

static inline float *larder__smo_row(const larder__smo *s, size_t slot) {
    return s->k + s->place[slot] * s->stride;
}
static inline void larder__smo_want(larder__smo *s, size_t slot) {
    if (s->made && !s->made[slot])
        s->make(s->make_arg, slot);
}

/* Steps until the largest violation is below `tolerance`, or `most` steps. Returns the number. */
uint64_t larder__smo_run(larder__smo *, double tolerance, double share, uint64_t most);

#endif
