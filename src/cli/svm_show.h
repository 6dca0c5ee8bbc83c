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
int larder__svm_show_stats(const larder_svm_stats *, const char *path);

#endif
