/* Features, and targets if wanted, brought to a range: LIBSVM's svm-scale and its range files. */
#ifndef LARDER_SVM_SVM_SCALE_H
#define LARDER_SVM_SVM_SCALE_H

#include "svm/svm_data.h"

#include <stdio.h>

typedef struct larder__scale {
    double lower, upper;     /* where features go */
    bool targets;            /* labels too */
    double y_lower, y_upper; /* where targets go */
    double y_min, y_max;     /* where they come from */
    uint32_t features;       /* indices 1..features */
    double *least, *most;    /* by index; least > most: not known */
} larder__scale;

/* Finds the ranges; what a row does not mention is 0. lower, upper, targets and the y limits are
 * set by the caller. */
int larder__scale_find(larder__scale *, const larder_svm_data *);
int larder__scale_save(const larder__scale *, const char *path);
int larder__scale_load(larder__scale *, const char *path);
void larder__scale_close(larder__scale *);
/* The scaled rows as LIBSVM text. */
int larder__scale_write(const larder__scale *, const larder_svm_data *, FILE *to);

#endif
