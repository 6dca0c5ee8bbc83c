/* LIBSVM's command lines as larder's options table wants them: -w1 0.5 has no fixed name, and -h is
 * shrinking, not help. */
#ifndef LARDER_CLI_LIBSVM_ARGS_H
#define LARDER_CLI_LIBSVM_ARGS_H

#include "cli/options.h"

#include <larder/svm.h>

enum { LARDER__WEIGHTS = 1024 };

typedef struct larder__svm_args { /* what svm-train and svm-grid share */
    larder_svm_conf conf;
    larder_svm_weight weights[LARDER__WEIGHTS];
    uint64_t task, kernel, degree, shrinking, probability, threads, rows, seed;
    double cache_mb;   /* NAN: not given */
    double most_steps; /* of --max-iter; 0: not given */
    const char *multi_class, *policy, *cache, *device;
    bool quiet, keep_repeats, multi_label;
} larder__svm_args;

/* For conf.warn: a line on stderr; `arg` is the command's name. */
void larder__svm_args_warn(void *arg, const char *sentence);
void larder__svm_args_defaults(larder__svm_args *);
/* Takes weights out of argv and renames -h; argv is changed in place, argc may shrink. -1 when
 * wrong and said on stderr. */
int larder__svm_args_rewrite(larder__svm_args *, const char *command, int *argc, char **argv);
/* Checks what was parsed and puts it into conf. */
int larder__svm_args_settle(larder__svm_args *, const char *command);
/* Lines of the options table; `a` must be a larder__svm_args *. */
#define LARDER__SVM_OPTIONS(a)                                                                     \
    {"s", LARDER__NUMBER, &(a)->task, "TASK",                                                      \
     "0 C-SVC, 1 nu-SVC, 2 one-class, 3 epsilon-SVR, 4 nu-SVR (0)"},                               \
        {"t", LARDER__NUMBER, &(a)->kernel, "KERNEL",                                              \
         "0 linear, 1 polynomial, 2 RBF, 3 sigmoid, 4 precomputed (2)"},                           \
        {"d", LARDER__NUMBER, &(a)->degree, "D", "degree of the polynomial (3)"},                  \
        {"g", LARDER__REAL, &(a)->conf.gamma, "GAMMA", "of the kernel (1 / features)"},            \
        {"r", LARDER__REAL, &(a)->conf.coef0, "COEF0", "of the kernel (0)"},                       \
        {"c", LARDER__REAL, &(a)->conf.c, "C", "cost of C-SVC, epsilon-SVR and nu-SVR (1)"},       \
        {"n", LARDER__REAL, &(a)->conf.nu, "NU", "of nu-SVC, one-class and nu-SVR (0.5)"},         \
        {"p", LARDER__REAL, &(a)->conf.epsilon, "EPS", "of the loss of epsilon-SVR (0.1)"},        \
        {"e", LARDER__REAL, &(a)->conf.tolerance, "TOL", "where to end (0.001)"},                  \
        {"shrinking", LARDER__NUMBER, &(a)->shrinking, "0|1",                                      \
         "and -h 0|1: leave out points that stay at a bound (1)"},                                 \
        {"max-iter", LARDER__REAL, &(a)->most_steps, "N",                                          \
         "steps of a problem at most, -1: no limit (10000000, or 100 a row)"},                     \
        {"m", LARDER__REAL, &(a)->cache_mb, "MB", "memory for kernel rows (as suits)"},            \
        {"rows", LARDER__NUMBER, &(a)->rows, "N", "kernel rows to keep, instead of -m"},           \
        {"cache-policy", LARDER__TEXT, &(a)->policy, "POLICY",                                     \
         "who stays of the rows kept, see larder list (kkt)"},                                     \
        {"cache", LARDER__TEXT, &(a)->cache, "auto|on|off",                                        \
         "auto keeps rows where that is measured to be cheaper (auto)"},                           \
        {"separate-rows", LARDER__FLAG, &(a)->conf.separate_rows, NULL,                            \
         "pairs of classes and folds share no kept rows"},                                         \
        {"device", LARDER__TEXT, &(a)->device, "WHERE",                                            \
         "cpu, cuda, cuda:1, or auto: a GPU where there is one (cpu)"},                            \
        {"threads", LARDER__NUMBER, &(a)->threads, "T", "0: as many as cores (0)"},                \
        {"multi-class", LARDER__TEXT, &(a)->multi_class, "ovo|ova",                                \
         "pairs of classes as LIBSVM (ovo) or each against all (ova)"},                            \
        {"multi-label", LARDER__FLAG, &(a)->multi_label, NULL,                                     \
         "labels are lists such as 1,4,7; one decision function each"},                            \
        {"keep-repeats", LARDER__FLAG, &(a)->keep_repeats, NULL,                                   \
         "do not merge equal rows of equal label"},                                                \
        {"seed", LARDER__NUMBER, &(a)->seed, "S", "of folds (1)"}, {                               \
        "q", LARDER__FLAG, &(a)->quiet, NULL, "print nothing"                                      \
    }

#endif
