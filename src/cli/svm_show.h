/* How SVM training shows itself: a line that it is alive, and its figures as JSON. */
#ifndef LARDER_CLI_SVM_SHOW_H
#define LARDER_CLI_SVM_SHOW_H

#include <larder/svm.h>
#include <stdio.h>

typedef struct larder__svm_show {
    FILE *to; /* NULL: silent */
    bool live, drawn;
    double next;
} larder__svm_show;

/* A terminal gets one line drawn over itself, anything else a plain line every few seconds. */
void larder__svm_show_open(larder__svm_show *, FILE *to);
void larder__svm_show_progress(larder__svm_show *, const larder_svm_progress *, double now);
void larder__svm_show_clear(larder__svm_show *);
typedef struct larder__svm_scores { /* of predictions against targets */
    size_t right, n;
    double error, sp, st, spp, stt, spt;
} larder__svm_scores;

void larder__svm_score(larder__svm_scores *, double predicted, double target);
/* LIBSVM's lines of svm-predict, and of svm-train -v. */
void larder__svm_print_scores(const larder__svm_scores *, larder_svm_task);
void larder__svm_print_cross(const larder__svm_scores *, larder_svm_task);
int larder__svm_show_stats(const larder_svm_stats *, const char *path);

#endif
