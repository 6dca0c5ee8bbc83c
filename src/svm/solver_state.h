/* What the parts of the solver share: solver.c (rounds, the gradient, memory), survey.c (looking at
 * all variables, choosing the working set), small_problem.c (the working set itself) and
 * float_doubt.c (are floats enough, and doubles where they are not). */
#ifndef LARDER_SVM_SOLVER_STATE_H
#define LARDER_SVM_SOLVER_STATE_H

#include "svm/exact.h"
#include "svm/held_rows.h"
#include "svm/shrink.h"
#include "svm/smo_exact.h"
#include "svm/solver.h"
#include "svm/working_set.h"

enum {
    LARDER__HALF_WS = LARDER__WS / 2,
    LARDER__TILE_ROWS = 16,  /* rows of the small problem that a thread makes at a time */
    LARDER__FIRST_BATCH = 4, /* rows that are made when the first is wanted */
    LARDER__BATCH = 128,     /* and at most when another is */
    LARDER__FEW_SLOTS = 48   /* a part of fewer is not worth a problem of its own */
};
#define LARDER__NO_VARIABLE UINT32_MAX /* a slot without one */

typedef struct larder__survey { /* of some variables, or of all */
    double ends[2][2];          /* group: smallest f that may rise, largest that may fall */
    double objective;           /* their part of it */
    double free_sum[2];         /* group: gradients of variables between their bounds */
    size_t free[2];
} larder__survey;

typedef struct larder__precision {
    bool on;      /* the gradient and the small problem are in doubles */
    bool fresh;   /* the gradient was just computed from the solution */
    double added; /* since then: rows that were added to it, and their weight */
    double added_weight;
    bool open;                   /* the points are laid out */
    double stray;                /* what a value in floats may be off */
    double share, seen;          /* error measured over error feared, and what was feared then */
    bool by_points;              /* the gradient is one of `points`, which may have been moved */
    double objective;            /* the least so far, and the round that reached it */
    uint64_t best, checks;       /* checks: how often an end was looked at again */
    const larder__exact *points; /* conf's, or its own */
    larder__exact own;
    larder__smo_exact smo;
    uint32_t *everybody, *left; /* all points; work: points of variables that are not zero */
    double *weight;             /* of those */
    void **scratch;             /* a thread each */
} larder__precision;

typedef struct larder__solver {
    larder__qp *qp;
    const larder__kernel *kernel;
    const larder__panel *all;
    const larder__solver_conf *conf;
    larder__solved *out;
    double *f;       /* a point each: K beta */
    float *diagonal; /* a point each */
    float *scores;   /* a point each, where somebody listens: the least distance of its variables */
    bool *inside;    /* a variable each: in the working set */
    uint16_t *held;  /* a point each: its variables in the working set */
    larder__candidate *up, *low; /* a variable each: work */
    larder__survey *surveys;     /* a piece of the variables each, and all at last */
    size_t *found;               /* a piece each: work, two figures */
    size_t pieces;
    larder__survey seen; /* of all variables, by the last survey */
    uint32_t *var;       /* of each slot, LARDER__NO_VARIABLE: none */
    uint32_t *points;    /* as many: work, some points */
    uint32_t *fresh;     /* the same: new variables, or slots */
    uint32_t *seated;    /* points of slots */
    uint32_t *columns;   /* the same: where they lie in rows of more points */
    float *dist;
    double *far;               /* a slot each: work */
    double *before, *weight;   /* beta when the round began; work */
    larder__panel left, right; /* some points, all points of the working set */
    larder__smo smo;
    larder__smo_part smo_part;
    larder__held held_rows;               /* where rows are kept */
    larder__shrunk shrunk;                /* where they are not */
    struct larder__kept_rows *rows;       /* conf's, as long as floats are enough */
    struct larder__device_rounds *device; /* NULL: rounds are here */
    larder__precision precision;
    double sums[2];         /* of beta, a group each, as it was given */
    larder__gram_run *runs; /* of conf's gram: the points of this problem */
    size_t run_count;
    void **scratch;         /* a thread each */
    double *tile;           /* the same: rows of the small problem while they are made */
    void *zeroed, *written; /* the blocks that the arrays are parts of */
    size_t left_rows;       /* room of `left` */
    bool as_seated;         /* slot after slot, points are those of `all` */
    size_t batch;           /* rows of it to be made next */
    uint32_t placed;        /* rows of it that have a place */
    double making;          /* seconds of its solution that went into rows */
    unsigned threads;
    size_t slots;       /* WS, or as many as there are variables */
    bool begun;         /* the slots have variables */
    unsigned half;      /* which half of the slots is replaced next */
    double target;      /* the gap to reach: the tolerance, then what is beyond it */
    uint64_t last_step; /* no iteration after this one */
} larder__solver;

static inline double larder__gradient(const larder__solver *s, size_t v) {
    return s->f[s->qp->point[v]] + s->qp->linear[v];
}
static inline bool larder__may_rise(const larder__qp *q, size_t v) { return q->beta[v] < q->hi[v]; }
static inline bool larder__may_fall(const larder__qp *q, size_t v) { return q->beta[v] > q->lo[v]; }
static inline unsigned larder__group_of(const larder__qp *q, size_t v) {
    return q->group ? q->group[v] : 0;
}
/* The number of a point among those of conf's gram. */
static inline uint32_t larder__among_all(const larder__solver *s, uint32_t point) {
    return s->conf->all_of ? s->conf->all_of[point] : point;
}
/* Left out by shrinking. */
static inline bool larder__is_idle(const larder__solver *s, size_t v) {
    return s->shrunk.on && s->shrunk.idle[s->qp->point[v]];
}

/* ---- survey.c -------------------------------------------------------------------------------- */

/* Pieces that `n` variables are surveyed in: theirs alone, so that sums do not depend on threads.
 */
size_t larder__survey_pieces(size_t n);
/* Sets s->seen. Returns the gap, NAN where values have grown beyond their numbers. */
double larder__survey_all(larder__solver *);
/* The multiplier of a group: the mean gradient of free variables, else the middle (LIBSVM's). */
double larder__survey_multiplier(const larder__solver *, unsigned group);
/* Those who violate most and are not inside yet, into `out`; marks them. */
size_t larder__survey_choose(larder__solver *, uint32_t *out, size_t want);

/* ---- float_doubt.c --------------------------------------------------------------------------- */

/* Are errors of the gradient too large to tell a gap of this size, or that of the target? `last`:
 * the answer decides whether training ends, so it is measured again. Also where memory is short. */
int larder__precision_fails(larder__solver *, double gap, bool last, bool *out);
/* Doubles from here on, and the gradient in them. The working set is empty. */
int larder__precision_begin(larder__solver *);
/* The gradient from the solution. */
void larder__precision_refresh(larder__solver *);
/* Is it as if it had just been computed: has adding rows since rounded off next to nothing? */
bool larder__precision_fresh(const larder__solver *);
/* What the gradient lies below that of the data's own points, everywhere. */
double larder__precision_moved(larder__solver *);
/* f += these rows. */
void larder__precision_add(larder__solver *, const uint32_t *points, const double *weight,
                           size_t rows);
/* Nothing was gained for some rounds: doubles have given what they can. */
bool larder__precision_stands(larder__solver *);
/* The gap as far as doubles can tell it at all, after an end in them: above the tolerance where
 * rounding of the gradient, or of the sums of beta, could hide as much. */
double larder__precision_judge(larder__solver *);
void larder__precision_close(larder__solver *);

/* ---- small_problem.c ------------------------------------------------------------------------- */

/* Variable v, or none, into a slot. */
void larder__small_seat(larder__solver *, size_t slot, uint32_t v);
/* The slots from..to are new: their rows are made when they are wanted. */
void larder__small_fill(larder__solver *, size_t from, size_t to);
/* `whole`: there are no other variables, so it is solved to the end. */
void larder__small_solve(larder__solver *, bool whole);

#endif
