/* Inside a training session: one data set and kernel, the decision functions of a task, solved one
 * after the other or side by side. Its parts are svm_train.c (the order of things),
 * session_classes.c (what is a class, what a sample), session_rows.c (which rows are kept, which
 * recorded), session_solve.c (one decision function) and session_model.c (from decision functions
 * to a model). */
#ifndef LARDER_SVM_SESSION_H
#define LARDER_SVM_SESSION_H

#include "svm/access.h"
#include "svm/kept_rows.h"
#include "svm/svm_device.h"
#include "svm/svm_train.h"
#include "svm/task.h"

#include <pthread.h>
#include <stdatomic.h>

struct larder__svm_session {
    const larder_svm_data *data;
    larder_svm_conf own;         /* a copy, whose C changes */
    const larder_svm_conf *conf; /* that copy */
    const uint32_t *rows;        /* that take part */
    size_t n;
    larder__team *team;
    larder_svm_stats *stats;
    larder__kernel kernel;
    larder__samples samples;
    larder__panel panel; /* all points */
    size_t classes, class_room;
    double *label;          /* a class each */
    double *weighted;       /* C of each class */
    uint32_t *class_of;     /* a sample each */
    larder__decision *made; /* a decision function each */
    uint32_t **members;     /* of each decision function: its samples */
    size_t *member_count;
    size_t functions, at;        /* how many decision functions, how many are solved */
    larder__kept_rows *kept;     /* over all points, for all decision functions; NULL: not so */
    bool keeps;                  /* rows are kept, by all decision functions or by each its own */
    bool looks;                  /* that is decided when some of them are solved */
    const uint32_t *fold_of_row; /* a row of the list each: folds to leave out; NULL: none */
    size_t folds, left_out;      /* 1 and SIZE_MAX where there are none */
    uint32_t *cell;              /* a sample each, where points lie in cells; else NULL */
    size_t cells, *cell_start;   /* 1 and NULL where they do not */
    larder__access_log *log;     /* NULL: rows are not recorded */
    uint32_t *ids;               /* work: points of a round */
    double saved;                /* when the last checkpoint was written */
    larder__svm_shared *shared;  /* points and values on a GPU; NULL: not so */
    larder__gram gram;           /* values of all points; k is NULL: not so */
    larder__exact exact;         /* all points, where problems are several; else no kernel */
    bool forked;                 /* what is laid out and the lock are another session's */
    pthread_mutex_t *lock;       /* of progress, prints, stats and what follows */
    pthread_mutex_t own_lock;    /* its own, if it is */
    size_t printed;              /* decision functions of which the lines are out */
    size_t finished;
    bool *done;              /* a decision function each */
    double *prob_a, *prob_b; /* a decision function each; NULL: not wanted */
    double began, heard;     /* heard: when progress was last told */
    _Atomic bool stopped;
    int code; /* why a checkpoint could not be written, with its sentence; 0: it could */
    char why[512];
    bool fresh;             /* the run before was on other samples */
    double last_c;          /* of the run before, 0: none */
    larder__decision *last; /* its decision functions */
};

static inline uint32_t larder__session_row(const larder__svm_session *t, size_t i) {
    return t->rows ? t->rows[i] : (uint32_t)i;
}
/* One decision function while it is solved. */
typedef struct larder__solving {
    struct larder__svm_session *t;
    size_t at; /* its number */
    larder__team *team;
    larder__svm_task task;
    uint32_t *point;
    double *count, *y;
    uint32_t *own_points;    /* of its points: the number among all; NULL: same */
    uint32_t *own_rows;      /* of its points: the row of the data; NULL: as of all */
    larder__panel own;       /* those points, where there are others too */
    larder__kept_rows *kept; /* all functions' or its own; NULL: rows are not kept */
    larder__row_part *parts;
    size_t part_count;
    double first_gap; /* 0: not known yet */
} larder__solving;

/* Solves decision function `at`: all classes against class a, or the pair a, b, or all there is. */
int larder__session_solve(larder__svm_session *, size_t at, size_t a, size_t b, larder__team *);
/* All points, laid out for an engine, or on the GPU that the session is to use. */
int larder__session_points(larder__svm_session *);
/* Points in the order of classes and folds, where there are several. */
int larder__session_sort(larder__svm_session *);
/* Will rows be kept, and over which points? Or are all values computed now? */
int larder__session_decide_rows(larder__svm_session *);
/* The same, where some functions were to be solved first. By counts, so that any number of threads
 * decides alike. */
int larder__session_decide_again(larder__svm_session *);
/* Which rows this function uses, and its own cache where it has one. */
int larder__solving_rows(larder__solving *);
void larder__solving_count(larder__solving *);     /* hits of a cache of its own */
void larder__session_count(larder__svm_session *); /* hits of the one for all */
int larder__session_open_log(larder__svm_session *);
int larder__solving_log(larder__solving *, larder__solver_conf *);
/* Samples of a class (SIZE_MAX: all), without those of a fold that is left out; returns how many.
 */
size_t larder__session_members(const larder__svm_session *, size_t a, uint32_t *out);
/* Finds classes and samples. */
int larder__session_samples(larder__svm_session *);
/* C of each class, from the session's C and the weights. */
int larder__session_weigh(larder__svm_session *);
/* The model of the decision functions made so far. */
int larder__session_model(larder__svm_session *, larder_svm_model **out);

#endif
