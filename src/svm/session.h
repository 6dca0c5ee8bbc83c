/* Inside a training session: one data set and kernel, the decision functions of a task, solved one
 * after the other. Its parts are svm_train.c (the order of things), session_classes.c (what is a
 * class, what a sample) and session_model.c (from decision functions to a model). */
#ifndef LARDER_SVM_SESSION_H
#define LARDER_SVM_SESSION_H

#include "svm/access.h"
#include "svm/row_cache.h"
#include "svm/svm_train.h"
#include "svm/task.h"

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
    size_t functions, at;      /* how many decision functions, which is solved */
    larder__row_cache *cache;  /* over all points, for all decision functions; NULL: off */
    larder__row_cache *in_use; /* that one or a pair's own */
    bool keeps;                /* rows are kept */
    larder__access_log *log;   /* NULL: rows are not recorded */
    uint32_t *own_points; /* of the current problem's points: the number among all; NULL: same */
    uint32_t *ids;        /* work: points of a round */
    const larder__task *task; /* that is solved */
    double first_gap;         /* of the problem that is solved; 0: not known yet */
    double saved;             /* when the last checkpoint was written */
    double *prob_a, *prob_b;  /* a decision function each; NULL: not wanted */
    double began;
    bool stopped;
    int code; /* why a checkpoint could not be written, with its sentence; 0: it could */
    char why[512];
    double last_c;          /* of the run before, 0: none */
    larder__decision *last; /* its decision functions */
};

static inline uint32_t larder__session_row(const larder__svm_session *t, size_t i) {
    return t->rows ? t->rows[i] : (uint32_t)i;
}
/* Finds classes and samples. */
int larder__session_samples(larder__svm_session *);
/* C of each class, from the session's C and the weights. */
int larder__session_weigh(larder__svm_session *);
/* The model of the decision functions made so far. */
int larder__session_model(larder__svm_session *, larder_svm_model **out);

#endif
