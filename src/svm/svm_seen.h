/* A training that can be looked at from outside (larder top, larder dash): it stands between the
 * solver and who wants to hear of its progress, and keeps what was said last. */
#ifndef LARDER_SVM_SVM_SEEN_H
#define LARDER_SVM_SVM_SEEN_H

#include "see/expose.h"

#include <larder/svm.h>
#include <pthread.h>

typedef struct larder__svm_seen {
    larder__exposed exposed;
    larder_svm_conf conf; /* as given, but progress passes here first: train with this one */
    int (*progress)(void *arg, const larder_svm_progress *);
    void *progress_arg;
    size_t rows;
    double opened;
    bool shown;
    pthread_mutex_t lock; /* of what follows */
    larder_svm_progress last;
    bool any;
} larder__svm_seen;

/* For a configuration that was checked; not to be moved until its end. */
void larder__svm_seen_begin(larder__svm_seen *, const larder_svm_conf *, size_t rows);
void larder__svm_seen_end(larder__svm_seen *); /* also of a zeroed one */

#endif
