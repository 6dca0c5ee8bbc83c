/* LIBSVM's model text, both ways. What it has no word for (one-vs-all, label sets) is told by a
 * line that LIBSVM refuses, so that it does not predict nonsense. */
#include "base/err.h"
#include "base/file.h"
#include "base/grow.h"
#include "base/limit.h"
#include "base/mem.h"
#include "source/unpack.h"
#include "svm/model.h"
#include "svm/svm_text.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *const task_names[] = {"c_svc", "nu_svc", "one_class", "epsilon_svr", "nu_svr"};
static const char *const kernel_names[] = {"linear", "polynomial", "rbf", "sigmoid", "precomputed"};

/* ---- writing --------------------------------------------------------------------------------- */

static void write_doubles(FILE *to, const char *name, const double *x, size_t n,
                          const char *format) {
    if (!x)
        return;
    fputs(name, to);
    for (size_t i = 0; i < n; i++) {
        putc(' ', to);
        fprintf(to, format, x[i]);
    }
    putc('\n', to);
}

static void write_head(FILE *to, const larder_svm_model *m) {
    const larder__kernel_conf *k = &m->kernel;
    fprintf(to, "svm_type %s\nkernel_type %s\n", task_names[m->task], kernel_names[k->type]);
    if (m->one_vs_all)
        fprintf(to, "larder %s\n", m->multi_label ? "multi_label" : "one_vs_all");
    if (k->type == LARDER_SVM_POLY)
        fprintf(to, "degree %d\n", k->degree);
    if (k->type == LARDER_SVM_POLY || k->type == LARDER_SVM_RBF || k->type == LARDER_SVM_SIGMOID)
        fprintf(to, "gamma %.17g\n", k->gamma);
    if (k->type == LARDER_SVM_POLY || k->type == LARDER_SVM_SIGMOID)
        fprintf(to, "coef0 %.17g\n", k->coef0);
    fprintf(to, "nr_class %zu\ntotal_sv %zu\n", m->classes, larder__model_vectors(m));
    write_doubles(to, "rho", m->rho, m->values, "%.17g");
    write_doubles(to, "label", m->label, m->classes, "%.0f");
    bool regression = !larder__task_has_classes(m->task);
    write_doubles(to, "probA", m->prob_a, regression ? 1 : m->values, "%.17g");
    write_doubles(to, "probB", m->prob_b, m->values, "%.17g");
    if (m->class_vectors) {
        fputs("nr_sv", to);
        for (size_t i = 0; i < m->classes; i++)
            fprintf(to, " %llu", (unsigned long long)m->class_vectors[i]);
        putc('\n', to);
    }
    fputs("SV\n", to);
}

/* As printf writes a whole number; most values and coefficients at a bound are one. */
static void put_whole(FILE *to, uint64_t x) {
    char text[24], *at = text + sizeof text;
    do
        *--at = (char)('0' + x % 10);
    while (x /= 10);
    fwrite_unlocked(at, 1, (size_t)(text + sizeof text - at), to);
}

/* x to `digits` significant digits, and a blank. */
static void put_number(FILE *to, double x, int digits) {
    char text[24];
    double size = fabs(x);
    size_t n;
    if (size < 1e7 && size == rint(size) && (x != 0 || !signbit(x))) {
        if (x < 0)
            putc_unlocked('-', to);
        put_whole(to, (uint64_t)size);
    } else if (digits == 8 && (n = larder__text_short(text, x)) > 0) {
        fwrite_unlocked(text, 1, n, to);
    } else {
        fprintf(to, "%.*g", digits, x);
    }
    putc_unlocked(' ', to);
}

static void write_vectors(FILE *to, const larder_svm_model *m) {
    const larder_svm_data *v = m->vectors;
    bool given = m->kernel.type == LARDER_SVM_PRECOMPUTED;
    for (size_t i = 0; v && i < v->rows; i++) {
        for (size_t c = 0; c < m->coefs; c++)
            put_number(to, m->coef[c * v->rows + i], 17);
        for (uint64_t p = v->start[i]; p < v->start[i + 1]; p++) {
            put_whole(to, given ? 0 : v->index[p]);
            putc_unlocked(':', to);
            put_number(to, v->value[p], given ? 17 : 8);
        }
        putc_unlocked('\n', to);
    }
}

int larder_svm_save(const larder_svm_model *m, const char *path) {
    larder__fresh file;
    int rc = larder__fresh_open(&file, path);
    if (rc < 0)
        return rc;
    file.brief = m->brief;
    write_head(file.to, m);
    write_vectors(file.to, m);
    if (ferror(file.to))
        rc = larder__fail(larder__code_of_errno(errno), "%s: %s", path, strerror(errno));
    return larder__fresh_close(&file, rc);
}

/* ---- reading --------------------------------------------------------------------------------- */

typedef struct head {
    int task, kernel; /* -1: not said */
    larder__kernel_conf conf;
    bool one_vs_all, multi_label, got_rho, got_labels;
    double classes, total, degree;
    size_t n_rho, n_label, n_a, n_b, n_vectors;
    double *rho, *label, *a, *b, *vectors;
} head;

static void free_head(head *h) {
    larder__free(h->rho);
    larder__free(h->label);
    larder__free(h->a);
    larder__free(h->b);
    larder__free(h->vectors);
}

static bool word(larder__line *l, const char **at, size_t *n) {
    if (!larder__line_more(l))
        return false;
    *at = l->at;
    while (l->at<l->end && * l->at> ' ')
        l->at++;
    *n = (size_t)(l->at - *at);
    return *n > 0;
}

static bool is(const char *at, size_t n, const char *text) {
    return strlen(text) == n && memcmp(at, text, n) == 0;
}

static int one_of(larder__line *l, const char *const *names, int count, int *out,
                  const char *what) {
    const char *at;
    size_t n;
    if (word(l, &at, &n))
        for (int i = 0; i < count; i++)
            if (is(at, n, names[i])) {
                *out = i;
                return 0;
            }
    return larder__line_fail(l, l->at, what);
}

/* All numbers of the rest of the line. */
static int numbers(larder__line *l, double **out, size_t *count, const char *what) {
    size_t room = 0;
    int rc = 0;
    if (*out)
        return larder__line_fail(l, l->begin, "this line once");
    while (rc == 0 && larder__line_more(l)) {
        if (larder__grow(out, &room, *count + 1, sizeof **out) < 0)
            return larder__fail(LARDER_E_NOMEM, "%s: no memory", l->name);
        rc = larder__line_number(l, &(*out)[*count], what);
        if (rc == 0 && l->at < l->end && *l->at == ',')
            rc = larder__line_fail(l, l->at, "a blank");
        *count += rc == 0;
    }
    return rc;
}

static int one_number(larder__line *l, double *out, double least, double most, const char *what) {
    if (!larder__line_more(l))
        return larder__line_fail(l, l->at, what);
    const char *at = l->at;
    int rc = larder__line_number(l, out, what);
    if (rc == 0 && !(*out >= least && *out <= most))
        return larder__line_fail(l, at, what);
    return rc;
}

static int extension(larder__line *l, head *h) {
    static const char *const words[] = {"one_vs_all", "multi_label"};
    int which = 0;
    int rc = one_of(l, words, 2, &which, "one_vs_all or multi_label");
    h->one_vs_all = true;
    h->multi_label = which == 1;
    return rc;
}

static int head_line(larder__line *l, head *h, bool *last) {
    const char *at;
    size_t n;
    if (!word(l, &at, &n))
        return larder__line_fail(l, l->at, "a word such as rho, or SV");
    if (is(at, n, "svm_type"))
        return one_of(l, task_names, 5, &h->task,
                      "c_svc, nu_svc, one_class, epsilon_svr or nu_svr");
    if (is(at, n, "kernel_type"))
        return one_of(l, kernel_names, 5, &h->kernel,
                      "linear, polynomial, rbf, sigmoid or precomputed");
    if (is(at, n, "larder"))
        return extension(l, h);
    if (is(at, n, "degree"))
        return one_number(l, &h->degree, 0, 1000, "a degree of 0 to 1000");
    if (is(at, n, "gamma"))
        return one_number(l, &h->conf.gamma, -INFINITY, INFINITY, "a number");
    if (is(at, n, "coef0"))
        return one_number(l, &h->conf.coef0, -INFINITY, INFINITY, "a number");
    if (is(at, n, "nr_class"))
        return one_number(l, &h->classes, 1, 65536, "1 to 65536 classes");
    if (is(at, n, "total_sv"))
        return one_number(l, &h->total, 0, 4294967294.0, "a number of support vectors");
    if (is(at, n, "rho"))
        return numbers(l, &h->rho, &h->n_rho, "a number");
    if (is(at, n, "label"))
        return numbers(l, &h->label, &h->n_label, "a label that is a number");
    if (is(at, n, "probA"))
        return numbers(l, &h->a, &h->n_a, "a number");
    if (is(at, n, "probB"))
        return numbers(l, &h->b, &h->n_b, "a number");
    if (is(at, n, "nr_sv"))
        return numbers(l, &h->vectors, &h->n_vectors, "a number of support vectors");
    if (is(at, n, "SV")) {
        *last = true;
        return 0;
    }
    return larder__line_fail(l, at,
                             "svm_type, kernel_type, degree, gamma, coef0, nr_class, "
                             "total_sv, rho, label, probA, probB, nr_sv or SV");
}

static int check_head(const head *h, const char *path) {
    if (h->task < 0 || h->kernel < 0 || h->classes < 1)
        return larder__fail(LARDER_E_FORMAT, "%s: svm_type, kernel_type or nr_class is missing",
                            path);
    if (h->classes * h->classes > 2.0 * (double)h->n_rho + h->classes && !h->one_vs_all)
        return larder__fail(LARDER_E_FORMAT, "%s: %.0f classes, but %zu values of rho", path,
                            h->classes, h->n_rho);
    return 0;
}

static bool fits(const head *h, const larder_svm_model *m, bool named) {
    size_t probabilities = named ? m->values : 1;
    if (named && (h->n_label != m->classes || h->n_vectors != m->classes || (h->a && !h->b)))
        return false;
    return h->n_rho == m->values && (!h->a || h->n_a == probabilities) &&
           (!h->b || h->n_b == m->values);
}

static int take_classes(larder_svm_model *m, const head *h, const char *path) {
    double sum = 0;
    for (size_t i = 0; i < m->classes; i++) {
        m->label[i] = h->label[i];
        if (!(h->vectors[i] >= 0 && h->vectors[i] <= h->total))
            return larder__fail(LARDER_E_FORMAT, "%s: nr_sv is not a number of vectors", path);
        m->class_vectors[i] = (uint64_t)h->vectors[i];
        sum += h->vectors[i];
    }
    return h->multi_label || sum == h->total
               ? 0
               : larder__fail(LARDER_E_FORMAT, "%s: total_sv is not the sum of nr_sv", path);
}

static int settle_head(larder_svm_model **out, head *h, const char *path) {
    int rc = check_head(h, path);
    if (rc < 0)
        return rc;
    h->conf.type = (larder_svm_kernel)h->kernel;
    h->conf.degree = (int)h->degree;
    rc = larder__model_new(out, (larder_svm_task)h->task, &h->conf, (size_t)h->classes,
                           h->one_vs_all);
    if (rc < 0)
        return rc;
    larder_svm_model *m = *out;
    bool named = larder__task_has_classes(m->task);
    if (!fits(h, m, named))
        return larder__fail(LARDER_E_FORMAT,
                            "%s: rho, label, probA, probB and nr_sv do not fit %zu classes", path,
                            m->classes);
    m->multi_label = h->multi_label;
    memcpy(m->rho, h->rho, m->values * sizeof *m->rho);
    if (named && (rc = take_classes(m, h, path)) < 0)
        return rc;
    m->prob_a = h->a, m->prob_b = h->b;
    h->a = h->b = NULL;
    return 0;
}

typedef struct text {
    char *bytes; /* ours to free */
    const char *at, *end;
    size_t line;
} text;

static bool next_line(text *t, larder__line *l, const char *path) {
    if (t->at >= t->end)
        return false;
    const char *newline = memchr(t->at, '\n', (size_t)(t->end - t->at));
    *l = (larder__line){.at = t->at,
                        .begin = t->at,
                        .end = newline ? newline : t->end,
                        .stop = t->end,
                        .name = path,
                        .number = ++t->line};
    t->at = newline ? newline + 1 : t->end;
    return true;
}

/* Coefficients lie transposed until their number is known. */
static int vector_line(larder_svm_model *m, larder__line *l, size_t i, size_t total) {
    larder_svm_data *v = m->vectors;
    int rc = larder__svm_data_grow(v, i + 1, 0, 0);
    for (size_t c = 0; rc == 0 && c < m->coefs; c++) {
        if (!larder__line_more(l))
            return larder__line_fail(l, l->at, "a coefficient");
        rc = larder__line_number(l, &m->coef[c * total + i], "a coefficient");
    }
    uint64_t pairs = v->start[i];
    uint32_t first = m->kernel.type == LARDER_SVM_PRECOMPUTED ? 0 : 1;
    if (rc < 0 || (rc = larder__svm_data_pairs(v, l, first, &pairs)) < 0)
        return rc;
    if (first == 0 && (pairs != v->start[i] + 1 || !(v->value[pairs - 1] >= 0) ||
                       v->value[pairs - 1] > INT32_MAX))
        return larder__line_fail(l, l->at, "0:serial and nothing else");
    v->label[i] = 0;
    v->start[i + 1] = pairs;
    v->rows = i + 1;
    return 0;
}

static int read_vectors(larder_svm_model *m, text *t, size_t total, const char *path) {
    larder__line l;
    /* A coefficient is two bytes at least: a lie about total_sv costs no memory. */
    if (total > (size_t)(t->end - t->at) / (2 * m->coefs) + 1)
        return larder__fail(LARDER_E_FORMAT, "%s: shorter than its %zu support vectors", path,
                            total);
    m->vectors = larder__calloc(1, sizeof *m->vectors);
    m->coef = larder__calloc(m->coefs * total + 1, sizeof *m->coef);
    if (!m->vectors || !m->coef)
        return larder__fail(LARDER_E_NOMEM, "no memory for %zu support vectors", total);
    int rc = larder__svm_data_grow(m->vectors, 0, 0, 0);
    for (size_t i = 0; rc == 0 && i < total; i++)
        rc = next_line(t, &l, path)
                 ? vector_line(m, &l, i, total)
                 : larder__fail(LARDER_E_FORMAT, "%s: ends after %zu of %zu support vectors", path,
                                i, total);
    while (rc == 0 && next_line(t, &l, path))
        if (larder__line_more(&l))
            rc = larder__line_fail(&l, l.at, "the end of the file");
    return rc;
}

static int read_text(text *t, const char *path) {
    larder__unpack *from = NULL;
    size_t size = 0, room = 0, got = 0;
    int rc = larder__unpack_open(&from, path);
    do {
        if (rc < 0)
            break;
        if (room - size < 65536) {
            room = room ? room * 2 : 1 << 20;
            char *more = larder__memory_allows(room) == 0 ? larder__realloc(t->bytes, room) : NULL;
            if (!more) {
                rc = larder__fail_in(LARDER_E_NOMEM, "%s", path);
                break;
            }
            t->bytes = more;
        }
        rc = larder__unpack_read(from, t->bytes + size, room - size, &got);
        size += got;
    } while (rc == 0 && size == room);
    larder__unpack_close(&from);
    t->at = t->bytes, t->end = size ? t->bytes + size : t->bytes;
    return rc;
}

static int parse(larder_svm_model **out, text *t, const char *path) {
    head h = {.task = -1, .kernel = -1};
    larder__line l;
    bool last = false;
    int rc = 0;
    while (rc == 0 && !last) {
        if (!next_line(t, &l, path))
            rc = larder__fail(LARDER_E_FORMAT, "%s: ends before its support vectors", path);
        else
            rc = head_line(&l, &h, &last);
        if (rc == 0 && larder__line_more(&l))
            rc = larder__line_fail(&l, l.at, "the end of the line");
    }
    if (rc == 0)
        rc = settle_head(out, &h, path);
    if (rc == 0)
        rc = read_vectors(*out, t, (size_t)h.total, path);
    free_head(&h);
    if (rc < 0)
        larder_svm_model_close(out);
    return rc;
}

int larder_svm_load(larder_svm_model **out, const char *path) {
    text t = {0};
    *out = NULL;
    int rc = read_text(&t, path);
    if (rc == 0)
        rc = parse(out, &t, path);
    larder__free(t.bytes);
    return rc;
}

int larder__model_parse(larder_svm_model **out, const void *bytes, size_t size, const char *name) {
    text t = {.at = bytes, .end = (const char *)bytes + size};
    *out = NULL;
    return parse(out, &t, name);
}
