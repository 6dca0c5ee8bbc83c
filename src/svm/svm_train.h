/* Training inside the library: one data set, shared threads, all decision functions of a task. */
#ifndef LARDER_SVM_SVM_TRAIN_H
#define LARDER_SVM_SVM_TRAIN_H

#include "svm/model.h"
#include "svm/svm_seen.h"
#include "svm/team.h"

#include <pthread.h>

/* What every call that trains is inside of: whatever it begins it ends, also where it fails. */
typedef struct larder__svm_job {
    larder_svm_conf conf; /* as the caller has it, but progress passes through `seen` */
    larder_svm_stats stats;
    larder__team *team;
    larder__svm_seen seen;
    double start;
} larder__svm_job;
int larder__svm_job_begin(larder__svm_job *, const larder_svm_data *, const larder_svm_conf *given,
                          const larder_svm_stats *wanted /* or NULL */);
/* Says what is not as asked and hands the figures out; answers rc or what went wrong here. */
int larder__svm_job_end(larder__svm_job *, int rc, larder_svm_stats *out /* or NULL */);
/* E_ARGS with a sentence when a parameter makes no sense for this data. */
int larder__svm_check(const larder_svm_data *, const larder_svm_conf *);
/* As larder_svm_train, with threads that are there already; adds to `stats`. `rows`: which rows of
 * the data take part, NULL: all. */
int larder__svm_train(larder_svm_model **out, const larder_svm_data *, const uint32_t *rows,
                      size_t n, const larder_svm_conf *, larder__team *, larder_svm_stats *stats);

/* The same in steps, for several values of C on one kernel: samples, kernel and kept rows stay, and
 * each solution is where the next begins. */
typedef struct larder__svm_session larder__svm_session;
int larder__svm_session_open(larder__svm_session **, const larder_svm_data *, const uint32_t *rows,
                             size_t n, const larder_svm_conf *, larder__team *,
                             larder_svm_stats *stats);
int larder__svm_session_run(larder__svm_session *, double c, larder_svm_model **out);
/* The same with the rows dealt to folds (a number each), any of which can be left out; NULL is
 * given where that would share nothing: rows are not kept, or a class is in one fold alone. */
int larder__svm_session_folds(larder__svm_session **, const larder_svm_data *, const uint32_t *rows,
                              size_t n, const uint32_t *fold_of_row, size_t folds,
                              const larder_svm_conf *, larder__team *, larder_svm_stats *stats);
/* The next run leaves this fold out and begins afresh. */
void larder__svm_session_leave_out(larder__svm_session *, size_t fold);
/* Another that shares what the first has laid out, so that folds can be trained side by side; where
 * it can. The lock is of progress, prints and stats; a silent one warns of nothing. */
bool larder__svm_session_forks(const larder__svm_session *);
int larder__svm_session_fork(larder__svm_session **, const larder__svm_session *of, larder__team *,
                             pthread_mutex_t *lock, larder_svm_stats *stats, bool silent);
/* As larder__svm_decide for a model of this session and rows of its data, where only what follows
 * for labels (or targets) matters. */
int larder__svm_session_decide(const larder__svm_session *, const larder_svm_model *,
                               const uint32_t *rows, size_t n, larder__team *, double *out);
void larder__svm_session_close(larder__svm_session **); /* adds to the stats what was found kept */

#endif
