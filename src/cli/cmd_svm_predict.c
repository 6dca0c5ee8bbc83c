/* larder svm-predict: LIBSVM's svm-predict. */
#include "base/err.h"
#include "base/file.h"
#include "base/mem.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/svm_show.h"
#include "svm/model.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

typedef struct options {
    const char *words[3]; /* data, model, output */
    uint64_t probability;
    bool quiet, values, multi_label;
    const char *device;
} options;

static const char about[] = "Predicts the rows of FILE (LIBSVM text, also .xz or .gz) with MODEL, "
                            "of larder or LIBSVM, writes\n"
                            "one label a line to OUTPUT, and says how many are right (classes), or "
                            "how far off (regression).";
static const char examples[] = "  larder svm-predict a9a.t a9a.model labels.txt\n"
                               "  larder svm-predict -b 1 heart_scale heart.model labels.txt";

static int read_options(options *o, int argc, char **argv) {
    size_t words;
    *o = (options){0};
    const larder__option table[] = {
        {"b", LARDER__NUMBER, &o->probability, "0|1", "also probabilities (0)"},
        {"q", LARDER__FLAG, &o->quiet, NULL, "print nothing"},
        {"values", LARDER__FLAG, &o->values, NULL, "decision values behind the label"},
        {"multi-label", LARDER__FLAG, &o->multi_label, NULL, "labels are lists such as 1,4,7"},
        {"device", LARDER__TEXT, &o->device, "WHERE",
         "cpu, cuda, cuda:1, or auto: a GPU where there is one (cpu)"},
        {0}};
    larder__command command = {"svm-predict", "larder svm-predict [options] FILE MODEL OUTPUT",
                               about, examples, table};
    int rc = larder__options_parse(&command, argc, argv, o->words, 3, &words);
    if (rc == 0 && words != 3)
        return larder__wrong_usage("svm-predict", "name the data, the model and the output");
    return rc;
}

static bool has_classes(const larder_svm_model *m) { return larder__task_has_classes(m->task); }

static double label_of(const larder_svm_model *m, size_t class) {
    return m->label ? m->label[class] : (double)class;
}

/* All labels whose decision value is above zero; "," when there is none. */
static void write_list(FILE *to, const larder_svm_model *m, const double *values) {
    size_t n = 0;
    for (size_t c = 0; c < m->classes; c++)
        if (values[c] > 0)
            fprintf(to, "%s%g", n++ ? "," : "", label_of(m, c));
    if (n == 0)
        putc(',', to);
}

/* `width` numbers behind each label; LIBSVM's probabilities have the labels in a first line. */
static int write_labels(const options *o, const larder_svm_model *m, const larder_svm_data *d,
                        const double *labels, const double *values, size_t width) {
    larder__fresh file;
    int rc = larder__fresh_open(&file, o->words[2]);
    if (rc < 0)
        return rc;
    if (o->probability && values) {
        fputs("labels", file.to);
        for (size_t c = 0; c < width; c++)
            fprintf(file.to, " %g", label_of(m, c));
        putc('\n', file.to);
    }
    for (size_t i = 0; i < d->rows; i++) {
        if (o->multi_label && values)
            write_list(file.to, m, values + i * width);
        else
            fprintf(file.to, has_classes(m) ? "%g" : "%.17g", labels[i]);
        for (size_t v = 0; values && v < width && (o->probability || o->values); v++)
            fprintf(file.to, o->probability ? " %g" : " %.17g", values[i * width + v]);
        putc('\n', file.to);
    }
    if (ferror(file.to))
        rc = larder__fail(larder__code_of_errno(errno), "%s: %s", o->words[2], strerror(errno));
    return larder__fresh_close(&file, rc);
}

/* Rows whose whole set is right, and single labels that are wrong. */
static void print_sets(const larder_svm_model *m, const larder_svm_data *d, const double *values) {
    size_t rows = d->rows, classes = m->classes, right = 0, wrong = 0;
    for (size_t i = 0; i < rows; i++) {
        size_t before = wrong;
        for (size_t c = 0; c < classes; c++)
            wrong += (values[i * classes + c] > 0) != larder__svm_data_has(d, i, label_of(m, c));
        right += wrong == before;
    }
    printf("Exact sets = %g%% (%zu/%zu), Hamming loss = %g (multi-label)\n",
           100 * (double)right / (double)rows, right, rows,
           (double)wrong / ((double)rows * (double)classes));
}

static void print_quality(const options *o, const larder_svm_model *m, const larder_svm_data *d,
                          const double *labels, const double *values) {
    larder__svm_scores s = {0};
    if (o->quiet)
        return;
    if (o->multi_label) {
        print_sets(m, d, values);
        return;
    }
    for (size_t i = 0; i < d->rows; i++)
        larder__svm_score(&s, labels[i], d->label[i]);
    larder__svm_print_scores(&s, m->task);
}

static int predict(const options *o, const larder_svm_model *m, const larder_svm_data *d) {
    size_t rows = d->rows;
    bool likely = o->probability && has_classes(m);
    size_t width = likely ? m->classes : o->values || o->multi_label ? m->values : 0;
    double *labels = larder__malloc((rows + 1) * sizeof *labels);
    double *values = width ? larder__malloc((rows * width + 1) * sizeof *values) : NULL;
    int rc = labels && (values || !width)
                 ? 0
                 : larder__fail(LARDER_E_NOMEM, "no memory for %zu rows", rows);
    if (rc == 0)
        rc = larder_svm_predict_on(m, d, o->device, labels, likely ? NULL : values,
                                   likely ? values : NULL);
    if (rc == 0 && (rc = write_labels(o, m, d, labels, values, width)) == 0)
        print_quality(o, m, d, labels, values);
    larder__free(labels);
    larder__free(values);
    return rc;
}

int larder__cmd_svm_predict(int argc, char **argv) {
    options o;
    larder_svm_model *model = NULL;
    larder_svm_data *data = NULL;
    int rc = read_options(&o, argc, argv);
    if (rc != 0)
        return rc > 0 ? 0 : 2;
    rc = larder_svm_load(&model, o.words[1]);
    if (rc == 0)
        rc = larder_svm_read(&data, o.words[0],
                             LARDER_SVM_INDEX_ZERO | (o.multi_label ? LARDER_SVM_MULTI_LABEL : 0u));
    if (rc == 0)
        rc = predict(&o, model, data);
    larder_svm_data_close(&data);
    larder_svm_model_close(&model);
    return larder__exit_code("svm-predict", rc);
}
