/* The quadratic programme behind every task, solved by working sets:
 *
 *     min 1/2 beta' K beta + linear' beta,  lo <= beta <= hi,  sum of beta fixed in each group
 *
 * A round takes a thousand variables, half of them new, solves that small problem with SMO, and
 * adds the rows of those that changed to the gradient. The gradient lies on points, not on
 * variables: variables of one point (both sides of a regression, equal vectors of two classes)
 * share it. Rounds are decided by one thread; the others compute kernel values. */
#ifndef LARDER_SVM_SOLVER_H
#define LARDER_SVM_SOLVER_H

#include "svm/exact.h"
#include "svm/gram.h"

typedef struct larder__qp {
    size_t n;
    const uint32_t *point; /* of each variable, a number in the panel */
    const double *lo, *hi, *linear;
    const uint8_t *group; /* 0 or 1 of each variable; NULL: all in one */
    double *beta;         /* in: where to start, feasible; out: the solution */
    double *f;            /* NULL, or a point each: K beta, in and out where it is known */
    bool knows_f;
} larder__qp;

typedef struct larder__solver_times {
    double kernel, cache, select, solve, update;
} larder__solver_times;

typedef struct larder__solved {
    double objective, gap; /* gap: the largest violation of the optimality conditions */
    double rho[2];         /* of each group: the multiplier of its sum */
    uint64_t rounds, iterations;
    uint64_t rows_asked, rows_made, values; /* entering rows; rows and values computed */
    uint64_t rows_hit;                      /* of those asked, found in device memory */
    unsigned shrunk;                        /* how often points were left out */
    larder__solver_times times;
    bool stopped; /* by `watch` */
    bool ran_out; /* of steps */
    bool exact; /* kernel values were doubles in the end: floats could not tell the gap, or crept */
} larder__solved;

typedef struct larder__solver_conf {
    double tolerance;
    /* 0, or a smaller gap to go on to, for at most so many times the steps that the tolerance took;
     * so many are given in any case. */
    double beyond;
    unsigned beyond_share;
    uint64_t beyond_least;
    uint64_t most_iterations; /* 0: no limit */
    bool shrinking;           /* leave out points that stay at their bounds */
    size_t whole;             /* 0, or up to so many variables are one round */
    larder__team *team;
    /* Where the points come from, a row each: the solver looks there whether floats are enough, and
     * goes on in doubles where they are not. NULL: floats have to do. */
    const larder_svm_data *data;
    const uint32_t *data_row;
    /* Over points of which `all_of` (NULL: same) says which are this problem's, or NULL: values of
     * all of them, which are then computed no more; and the same points laid out for doubles. */
    const larder__gram *gram;
    const larder__exact *exact;
    const uint32_t *all_of;
    /* NULL: rows are computed each time they are wanted. Else which parts of them are meant. */
    struct larder__kept_rows *rows;
    const struct larder__row_part *parts;
    size_t part_count;
    /* NULL, or a GPU that has all points, of which `device_of` (NULL: same) are this problem's: it
     * runs the rounds, as long as floats are enough. */
    struct larder__svm_shared *device;
    const uint32_t *device_of;
    /* Optional: what the solver asks for, see svm/access.h. */
    int (*leave)(void *arg, const uint32_t *points, const float *dist, size_t n);
    int (*enter)(void *arg, const uint32_t *points, size_t n);
    int (*scores)(void *arg, const float *dist); /* of all points, each round */
    void *arg;
    /* Optional, between rounds: not 0 ends it. */
    int (*watch)(void *arg, const larder__qp *, const larder__solved *);
    void *watch_arg;
} larder__solver_conf;

/* `all` holds the points. */
int larder__solve(larder__qp *, const larder__kernel *, const larder__panel *all,
                  const larder__solver_conf *, larder__solved *);

#endif
