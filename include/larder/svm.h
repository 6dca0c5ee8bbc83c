/* Support vector machines over larder's row cache: LIBSVM's tasks, files and models, trained with
 * many kernel rows a step.
 *
 *     larder_svm_conf conf = {.size = sizeof conf};
 *     larder_svm_defaults(&conf);              // C-SVC, RBF, C = 1, gamma = 1 / features
 *     larder_svm_data *data = NULL;
 *     larder_svm_model *model = NULL;
 *     if (larder_svm_read(&data, "a9a", 0) < 0 || larder_svm_train(&model, data, &conf, NULL) < 0)
 *         die(larder_errmsg());
 *     larder_svm_save(model, "a9a.model");     // LIBSVM's svm-predict reads it
 *     larder_svm_predict(model, data, labels, NULL, NULL); // one label a row
 *     larder_svm_model_close(&model);
 *     larder_svm_data_close(&data);
 *
 * Calls return 0 or a negative code of LARDER_ERRORS; larder_errmsg() then holds a sentence.
 * Structs begin with their size (larder.h). Data and models do not change once made and may be used
 * by several threads at once.
 */
#ifndef LARDER_SVM_H
#define LARDER_SVM_H

#include <larder/larder.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct larder_svm_data larder_svm_data;
typedef struct larder_svm_model larder_svm_model;

/* ---- data ------------------------------------------------------------------------------------ */

enum {
    LARDER_SVM_INDEX_ZERO = 1, /* rows begin with 0:serial, as precomputed kernels want */
    LARDER_SVM_MULTI_LABEL = 2 /* labels are lists such as 1,4,7; an empty list is "," */
};

/* LIBSVM text, plain or .xz or .gz. The sentence of a failure names line and column. */
int larder_svm_read(larder_svm_data **out, const char *path, unsigned flags);
/* From memory; copied. */
typedef struct larder_svm_matrix {
    size_t size;
    size_t rows;
    /* Row i is index/value[start[i] .. start[i + 1]), indices ascending from 1. Without `start` the
     * values are rows x features, row after row, zeros to be left out: column j is index j + 1, or
     * j with LARDER_SVM_INDEX_ZERO. */
    const uint64_t *start;
    const uint32_t *index;
    const double *value;
    const double *label;
    const double *weight; /* of rows, 0 or more: C of a row is weight times C; NULL: all are 1 */
    size_t features;
    uint64_t flags;
} larder_svm_matrix;
int larder_svm_copy(larder_svm_data **out, const larder_svm_matrix *);
/* What a data set holds, with `start` and `index`; valid as long as the data. */
int larder_svm_view(const larder_svm_data *, larder_svm_matrix *out);
void larder_svm_data_close(larder_svm_data **);
/* One a row (the first of a list, NAN of an empty one), and how many rows there are. */
const double *larder_svm_labels(const larder_svm_data *, size_t *rows);

/* ---- training -------------------------------------------------------------------------------- */

typedef enum { /* numbers as LIBSVM's -s */
               LARDER_SVM_C_SVC,
               LARDER_SVM_NU_SVC,
               LARDER_SVM_ONE_CLASS,
               LARDER_SVM_EPSILON_SVR,
               LARDER_SVM_NU_SVR
} larder_svm_task;

typedef enum { /* as LIBSVM's -t */
               LARDER_SVM_LINEAR,
               LARDER_SVM_POLY,
               LARDER_SVM_RBF,
               LARDER_SVM_SIGMOID,
               LARDER_SVM_PRECOMPUTED
} larder_svm_kernel;

typedef struct larder_svm_weight { /* C of this class is weight times C */
    int label;
    double weight;
} larder_svm_weight;

typedef struct larder_svm_progress { /* where a solver stands, between two rounds */
    size_t size;
    size_t problem, problems; /* of the task: pairs of classes, labels, folds */
    uint64_t rounds, iterations;
    double gap, tolerance; /* largest violation of the optimality conditions, and where it ends */
    double objective, seconds, seconds_left; /* left: NAN while nothing can be said */
    double hits;                             /* share of rows found in the cache; NAN: no cache */
    uint64_t rows_asked, rows_hit;           /* of the cache so far; without one, of this problem */
} larder_svm_progress;

typedef struct larder_svm_conf {
    size_t size;
    larder_svm_task task;
    larder_svm_kernel kernel;
    int degree;
    double gamma; /* 0: 1 / features */
    double coef0, c, nu, epsilon /* of the loss of SVR */, tolerance;
    const larder_svm_weight *weights;
    size_t weight_count;
    /* Steps of a problem; 0: LIBSVM's limit of 10,000,000 or more; UINT64_MAX: none. */
    uint64_t most_iterations;
    bool shrinking; /* LIBSVM's -h: points that stay at a bound are left out, where rows are not
                       kept */
    bool probability;
    bool sorted_classes;    /* classes by rising label; else as they first appear, +1 before -1 */
    bool one_vs_all;        /* several classes by one solver a class, not one a pair */
    bool merge;             /* equal vectors with equal labels become one of higher bound */
    uint32_t threads;       /* 0: as many as cores */
    uint64_t seed;          /* of folds */
    uint64_t cache_bytes;   /* for kernel rows */
    uint64_t cache_rows;    /* counts instead of cache_bytes where not 0 */
    const char *policy;     /* of the cache, "hcst" or with parameters; NULL: chosen */
    bool cache_always;      /* also where making a row again is measured to be cheaper */
    bool separate_rows;     /* each pair of classes and each fold keeps rows of its own */
    const char *access_log; /* file for the sequence of rows asked for; NULL: none */
    const char *checkpoint; /* model file written now and then and when interrupted; NULL: none */
    double checkpoint_seconds;
    /* Called between rounds, at most once a millisecond, by one thread at a time but any of them;
     * not 0 ends training with LARDER_E_CANCELLED. */
    int (*progress)(void *arg, const larder_svm_progress *);
    void *progress_arg;
    /* Lines of LIBSVM's summary, with their newlines; NULL: quiet. */
    void (*print)(void *arg, const char *line);
    void *print_arg;
    /* Sentences without a newline about what went otherwise than asked: a tolerance that was not
     * reached, a weight of a class that is not there. NULL: nobody is told; `unreached` of the
     * stats counts the former. */
    void (*warn)(void *arg, const char *sentence);
    void *warn_arg;
    /* "cpu" (or NULL), "cuda" for the first GPU or "cuda:1" for the second, or "auto": a GPU where
     * there is one that can and enough to do. cache_bytes and cache_rows are of its memory then. */
    const char *device;
} larder_svm_conf;

typedef struct larder_svm_switch { /* a change of mind of the cache's policy (hcst) */
    uint64_t round;                /* the cache's, of all problems together */
    char to[16];                   /* the rule it follows from there on */
    double was, other;             /* hits of the window: its own, and the other rule's */
} larder_svm_switch;
enum { LARDER_SVM_SWITCHES = 64 };

typedef struct larder_svm_stats { /* of one training, all its problems together */
    size_t size;
    uint64_t problems, rounds, iterations;
    uint64_t points, rows;                /* distinct vectors, and rows of the data */
    uint64_t rows_asked, rows_hit;        /* through the cache */
    uint64_t rows_made, values;           /* kernel rows and values computed */
    double seconds, kernel_seconds;       /* whole, and computing kernel values */
    double cache_seconds, select_seconds; /* keeping rows; choosing the working set */
    double solve_seconds, update_seconds; /* steps inside the working set; the gradient */
    double make_us, keep_us; /* measured: to make one row again, to keep and fetch one */
    bool cache_on;           /* false: making is cheaper, or no room */
    char engine[24];         /* how values are computed: "bits", "dense", "sparse", "table" */
    char policy[64];
    double objective, gap; /* of the last problem */
    uint64_t exact;        /* problems whose kernel values were doubles in the end */
    uint64_t unreached;    /* problems that ended above the tolerance */
    uint64_t ran_out;      /* of these, those that ran out of steps */
    double worst_gap;      /* of these, the largest */
    uint32_t threads;
    size_t switches; /* of the policy; the first LARDER_SVM_SWITCHES of them are in `switched` */
    larder_svm_switch switched[LARDER_SVM_SWITCHES];
    char device[256];     /* "cuda: its name", "cpu", or "cpu: why" where another was asked for */
    double start_seconds; /* of the GPU's context and code, once a process */
} larder_svm_stats;

/* Everything as LIBSVM has it unless said; for a struct whose size is set. */
int larder_svm_defaults(larder_svm_conf *);
/* Training stopped by `progress` answers LARDER_E_CANCELLED and still gives a model. */
int larder_svm_train(larder_svm_model **out, const larder_svm_data *, const larder_svm_conf *,
                     larder_svm_stats *stats /* or NULL */);
/* Predictions of `folds`-fold cross validation, one a row. */
int larder_svm_cross(const larder_svm_data *, const larder_svm_conf *, size_t folds, double *out,
                     larder_svm_stats *stats /* or NULL */);

/* Cross validation over a grid: score[g * cs + c] is the accuracy in percent, or the mean squared
 * error of regressions. C ascends; on one kernel each solution starts from the one before, and
 * kernel values are shared by all folds. `told` (or NULL) hears the points of a gamma when they are
 * done, gammas in their order; not 0 ends it. */
typedef struct larder_svm_grid {
    size_t size;
    const double *c, *gamma; /* gamma: NULL with gammas = 1 for conf's */
    size_t cs, gammas, folds;
    double *score;
    int (*told)(void *arg, double c, double gamma, double score);
    void *arg;
    const uint32_t *fold_of; /* a row each, below `folds`; NULL: dealt by class from conf's seed */
    double *labels;          /* (g * cs + c) * rows + row: what was said of it; NULL: not wanted */
} larder_svm_grid;
int larder_svm_search(const larder_svm_data *, const larder_svm_conf *, const larder_svm_grid *,
                      larder_svm_stats *stats /* or NULL */);

/* ---- models ---------------------------------------------------------------------------------- */

int larder_svm_load(larder_svm_model **out, const char *path);
int larder_svm_save(const larder_svm_model *, const char *path);
void larder_svm_model_close(larder_svm_model **);
/* A model's parts, valid as long as the model; and a model from its parts (a pickled estimator
 * wakes up), which are copied. Signs and order are LIBSVM's. */
typedef struct larder_svm_parts {
    size_t size;
    larder_svm_task task;
    larder_svm_kernel kernel;
    int degree;
    bool one_vs_all;
    double gamma, coef0;
    size_t classes;                /* 2 for regression and one-class */
    const double *label;           /* a class each; NULL for regression and one-class */
    const uint64_t *class_vectors; /* support vectors of each class; the same */
    const double *coef;            /* line after line, a support vector each */
    const double *rho;             /* one a decision value */
    /* Of pairs of classes; NULL: no probabilities. Of regressions `a` is the scale of errors and
     * `b` NULL. */
    const double *sigmoid_a, *sigmoid_b;
    const larder_svm_data
        *vectors; /* with a precomputed kernel 0:serial alone; NULL: there is none */
    /* From a model alone; a model from parts counts them itself. */
    size_t vector_count;
    size_t coef_lines; /* classes - 1, classes of one-vs-all, or 1 */
    size_t values;     /* decision values a row: pairs of classes, classes of one-vs-all, or 1 */
    /* Of each support vector: its row in the data the model was trained on (the first of equal
     * ones). NULL: the model was read from a file or made of parts. */
    const uint32_t *support;
    const uint64_t *iterations; /* of each decision value: the solver's steps; NULL: the same */
} larder_svm_parts;
int larder_svm_disassemble(const larder_svm_model *, larder_svm_parts *out);
int larder_svm_assemble(larder_svm_model **out, const larder_svm_parts *);
/* Any of the three may be NULL: labels, one a row; decision values, `values` a row; probabilities,
 * one a class and row (E_STATE without such), with which labels are the likeliest. */
int larder_svm_predict(const larder_svm_model *, const larder_svm_data *, double *labels,
                       double *values, double *probabilities);
/* The same on a device, named as in larder_svm_conf. */
int larder_svm_predict_on(const larder_svm_model *, const larder_svm_data *, const char *device,
                          double *labels, double *values, double *probabilities);

#ifdef __cplusplus
}
#endif
#endif
