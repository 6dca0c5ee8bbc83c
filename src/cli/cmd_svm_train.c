/* larder svm-train: LIBSVM's svm-train, option for option and line for line. */
#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "cli/commands.h"
#include "cli/libsvm_args.h"
#include "cli/stoppable.h"
#include "cli/svm_show.h"

#include "svm/svm_data.h"
#include <stdio.h>
#include <string.h>

#define NO_FOLDS UINT64_MAX /* a model is wanted */

typedef struct options {
    larder__svm_args svm;
    const char *words[2]; /* training file, model file */
    size_t count;
    const char *record, *stats, *checkpoint;
    uint64_t probability, folds;
    char model[4096];
} options;

static const char about[] =
    "Trains a support vector machine on FILE (LIBSVM text, also .xz or .gz) and writes MODEL, "
    "which\n"
    "LIBSVM's svm-predict reads. Options and summary are LIBSVM's; what is larder's own is long.\n"
    "Ctrl-C ends training and leaves the model as far as it got.";

static const char examples[] = "  larder svm-train -c 100 -g 0.5 a9a a9a.model\n"
                               "  larder svm-train -s 3 -c 10 abalone_scale\n"
                               "  larder svm-train -v 5 heart_scale";

static int read_options(options *o, int argc, char **argv) {
    larder__svm_args *a = &o->svm;
    larder__svm_args_defaults(a);
    o->probability = 0;
    o->folds = NO_FOLDS;
    o->record = o->stats = o->checkpoint = NULL;
    const larder__option table[] = {
        LARDER__SVM_OPTIONS(a),
        {"b", LARDER__NUMBER, &o->probability, "0|1", "train for probabilities (0)"},
        {"v", LARDER__NUMBER, &o->folds, "N", "N-fold cross validation instead of a model"},
        {"checkpoint", LARDER__TEXT, &o->checkpoint, "FILE",
         "write the model as it stands there every minute"},
        {"stats", LARDER__TEXT, &o->stats, "FILE", "leave times and counts there, as JSON"},
        {"record", LARDER__TEXT, &o->record, "FILE", "leave the sequence of kernel rows there"},
        {0}};
    larder__command command = {"svm-train", "larder svm-train [options] FILE [MODEL]", about,
                               examples, table};
    if (larder__svm_args_rewrite(a, "svm-train", &argc, argv) < 0)
        return -1;
    int rc = larder__options_parse(&command, argc, argv, o->words, 2, &o->count);
    if (rc != 0)
        return rc;
    if (o->count == 0)
        return larder__wrong_usage("svm-train", "name the file to train on");
    if (o->folds < 2) {
        fprintf(stderr, "larder svm-train: -v is 2 folds or more, not %d\n", (int)o->folds);
        return -1;
    }
    if (o->probability > 1) {
        fprintf(stderr, "larder svm-train: -b is 0 or 1\n");
        return -1;
    }
    a->conf.access_log = o->record;
    a->conf.checkpoint = o->checkpoint;
    a->conf.probability = o->probability != 0;
    return larder__svm_args_settle(a, "svm-train");
}

/* LIBSVM's: the file's name without its folder, and .model behind it. */
static const char *model_name(options *o) {
    if (o->count == 2)
        return o->words[1];
    const char *slash = strrchr(o->words[0], '/');
    snprintf(o->model, sizeof o->model, "%.4000s.model", slash ? slash + 1 : o->words[0]);
    return o->model;
}

static void print_line(void *arg, const char *line) {
    (void)arg;
    fputs(line, stdout);
    fflush(stdout);
}

typedef struct session {
    larder__stop *stop;
    larder__svm_show show;
} session;

static int progress(void *arg, const larder_svm_progress *p) {
    session *s = arg;
    larder__svm_show_progress(&s->show, p, larder__now());
    return larder__stop_code(s->stop);
}

static int cross(const options *o, const larder_svm_data *data, larder_svm_stats *stats) {
    size_t rows = data->rows;
    larder__svm_scores s = {0};
    double *labels = larder__malloc((rows + 1) * sizeof *labels);
    int rc = labels ? larder_svm_cross(data, &o->svm.conf, o->folds, labels, stats)
                    : larder__fail(LARDER_E_NOMEM, "no memory for %zu rows", rows);
    for (size_t i = 0; rc == 0 && i < rows; i++)
        larder__svm_score(&s, labels[i], data->label[i]);
    if (rc == 0)
        larder__svm_print_cross(&s, o->svm.conf.task);
    larder__free(labels);
    return rc;
}

static int run(void *arg, larder__stop *stop) {
    options *o = arg;
    larder_svm_data *data = NULL;
    larder_svm_model *model = NULL;
    larder_svm_stats stats = {.size = sizeof stats};
    session s = {.stop = stop};
    larder_svm_conf *c = &o->svm.conf;
    unsigned flags = (c->kernel == LARDER_SVM_PRECOMPUTED ? LARDER_SVM_INDEX_ZERO : 0u) |
                     (o->svm.multi_label ? LARDER_SVM_MULTI_LABEL : 0u);
    c->print = o->svm.quiet ? NULL : print_line;
    c->progress = progress;
    c->progress_arg = &s;
    larder__svm_show_open(&s.show, o->svm.quiet ? NULL : stderr);
    int rc = larder_svm_read(&data, o->words[0], flags);
    if (rc == 0)
        rc = o->folds != NO_FOLDS ? cross(o, data, &stats)
                                  : larder_svm_train(&model, data, c, &stats);
    c->progress_arg = NULL;
    larder__svm_show_clear(&s.show);
    if (model) {
        int saved = larder_svm_save(model, model_name(o));
        rc = saved < 0 ? saved : rc;
    }
    if (o->stats && (rc == 0 || rc == LARDER_E_CANCELLED)) {
        int saved = larder__svm_show_stats(&stats, o->stats);
        rc = saved < 0 ? saved : rc;
    }
    larder_svm_model_close(&model);
    larder_svm_data_close(&data);
    return rc;
}

int larder__cmd_svm_train(int argc, char **argv) {
    static options o;
    int rc = read_options(&o, argc, argv);
    if (rc != 0)
        return rc > 0 ? 0 : 2;
    char stopped[512];
    if (o.folds != NO_FOLDS)
        snprintf(stopped, sizeof stopped, "stopped; cross validation leaves no model");
    else
        snprintf(stopped, sizeof stopped, "stopped; %.400s is as far as training got",
                 model_name(&o));
    return larder__stoppable_run(&(larder__stoppable){.name = "svm-train",
                                                      .run = run,
                                                      .options = &o,
                                                      .may_finish = true,
                                                      .looks = true,
                                                      .stopped = stopped});
}
