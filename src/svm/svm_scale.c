#include "svm/svm_scale.h"

#include "base/err.h"
#include "base/file.h"
#include "base/mem.h"
#include "svm/svm_text.h"

#include <errno.h>
#include <math.h>
#include <string.h>

enum { MOST_BYTES = 1 << 30, MOST_FEATURES = 1 << 27 };

void larder__scale_close(larder__scale *s) {
    larder__free(s->least);
    larder__free(s->most);
    s->least = s->most = NULL;
}

static int make_room(larder__scale *s, uint32_t features) {
    size_t n = (size_t)features + 1;
    if (features > MOST_FEATURES)
        return larder__fail(LARDER_E_RANGE, "index %u: features are scaled up to index %d",
                            features, MOST_FEATURES);
    double *least = larder__realloc(s->least, n * sizeof *least);
    s->least = least ? least : s->least;
    double *most = larder__realloc(s->most, n * sizeof *most);
    s->most = most ? most : s->most;
    if (!least || !most)
        return larder__fail(LARDER_E_NOMEM, "no memory for %u features", features);
    for (size_t i = s->features ? s->features + 1 : 0; i < n; i++)
        s->least[i] = INFINITY, s->most[i] = -INFINITY;
    s->features = features;
    return 0;
}

static void widen(double *least, double *most, double x) {
    *least = fmin(*least, x);
    *most = fmax(*most, x);
}

int larder__scale_find(larder__scale *s, const larder_svm_data *d) {
    int rc = make_room(s, d->features);
    uint32_t *seen = rc == 0 ? larder__calloc((size_t)d->features + 1, sizeof *seen) : NULL;
    if (rc < 0 || !seen)
        return rc < 0 ? rc : larder__fail(LARDER_E_NOMEM, "no memory for %u features", d->features);
    s->y_min = INFINITY, s->y_max = -INFINITY;
    for (size_t i = 0; i < d->rows; i++) {
        widen(&s->y_min, &s->y_max, d->label[i]);
        for (uint64_t p = d->start[i]; p < d->start[i + 1]; p++) {
            widen(&s->least[d->index[p]], &s->most[d->index[p]], d->value[p]);
            seen[d->index[p]]++;
        }
    }
    for (uint32_t f = 1; f <= d->features; f++)
        if (seen[f] < d->rows)
            widen(&s->least[f], &s->most[f], 0);
    larder__free(seen);
    return 0;
}

/* ---- range files ----------------------------------------------------------------------------- */

int larder__scale_save(const larder__scale *s, const char *path) {
    larder__fresh file;
    int rc = larder__fresh_open(&file, path);
    if (rc < 0)
        return rc;
    if (s->targets)
        fprintf(file.to, "y\n%.17g %.17g\n%.17g %.17g\n", s->y_lower, s->y_upper, s->y_min,
                s->y_max);
    fprintf(file.to, "x\n%.17g %.17g\n", s->lower, s->upper);
    for (uint32_t f = 1; f <= s->features; f++)
        if (s->least[f] < s->most[f])
            fprintf(file.to, "%u %.17g %.17g\n", f, s->least[f], s->most[f]);
    if (ferror(file.to))
        rc = larder__fail(larder__code_of_errno(errno), "%s: %s", path, strerror(errno));
    return larder__fresh_close(&file, rc);
}

typedef struct reading {
    const char *at, *end, *path;
    size_t line;
} reading;

static int numbers(reading *r, double *out, size_t n, const char *what) {
    const char *newline = memchr(r->at, '\n', (size_t)(r->end - r->at));
    larder__line l = {.at = r->at,
                      .begin = r->at,
                      .end = newline ? newline : r->end,
                      .name = r->path,
                      .number = ++r->line};
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < n; i++) {
        if (!larder__line_more(&l))
            return larder__line_fail(&l, l.at, what);
        rc = larder__line_number(&l, &out[i], what);
    }
    if (rc == 0 && larder__line_more(&l))
        rc = larder__line_fail(&l, l.at, "the end of the line");
    r->at = newline ? newline + 1 : r->end;
    return rc;
}

static bool letter(reading *r, char which) {
    size_t left = (size_t)(r->end - r->at);
    size_t n = left > 1 && r->at[1] == '\r' ? 3 : 2;
    if (left < n || r->at[0] != which || r->at[n - 1] != '\n')
        return false;
    r->at += n;
    r->line++;
    return true;
}

static int read_features(larder__scale *s, reading *r) {
    double v[3] = {0};
    while (r->at < r->end) {
        int rc = numbers(r, v, 3, "an index and its smallest and largest value");
        if (rc < 0)
            return rc;
        if (!(v[0] >= 1 && v[0] <= INT32_MAX && v[0] == rint(v[0])) || !(v[1] < v[2]))
            return larder__fail(LARDER_E_FORMAT,
                                "%s: line %zu: expected an index and its smallest and largest "
                                "value, the first below the second",
                                r->path, r->line);
        uint32_t f = (uint32_t)v[0];
        /* Indices ascend, so the table grows no faster than the file unless it lies. */
        if (f > s->features && (rc = make_room(s, f)) < 0)
            return rc;
        s->least[f] = v[1], s->most[f] = v[2];
    }
    return 0;
}

int larder__scale_load(larder__scale *s, const char *path) {
    unsigned char *bytes = NULL;
    size_t size = 0;
    double v[2] = {0};
    int rc = larder__file_read(path, MOST_BYTES, &bytes, &size);
    if (rc < 0)
        return rc;
    reading r = {(const char *)bytes, (const char *)bytes + size, path, 0};
    if ((s->targets = letter(&r, 'y'))) {
        if ((rc = numbers(&r, v, 2, "where targets go")) == 0)
            s->y_lower = v[0], s->y_upper = v[1];
        if (rc == 0 && (rc = numbers(&r, v, 2, "where targets come from")) == 0)
            s->y_min = v[0], s->y_max = v[1];
    }
    if (rc == 0 && !letter(&r, 'x'))
        rc =
            larder__fail(LARDER_E_FORMAT, "%s: line %zu: expected a line with x", path, r.line + 1);
    if (rc == 0 && (rc = numbers(&r, v, 2, "where features go")) == 0)
        s->lower = v[0], s->upper = v[1];
    if (rc == 0)
        rc = make_room(s, s->features);
    if (rc == 0)
        rc = read_features(s, &r);
    larder__free(bytes);
    return rc;
}

/* ---- scaling --------------------------------------------------------------------------------- */

/* The ends are met exactly. */
static double moved(double x, double least, double most, double lower, double upper) {
    if (x == least)
        return lower;
    if (x == most)
        return upper;
    return lower + (upper - lower) * (x - least) / (most - least);
}

/* Features of one value, or of which nothing is known, are left out, as are zeros. */
static void write_value(const larder__scale *s, uint32_t f, double x, FILE *to) {
    if (f > s->features || !(s->least[f] < s->most[f]))
        return;
    double y = moved(x, s->least[f], s->most[f], s->lower, s->upper);
    if (y != 0)
        fprintf(to, "%u:%g ", f, y);
}

static void write_row(const larder__scale *s, const larder_svm_data *d, size_t i, FILE *to) {
    double y = d->label[i];
    uint32_t f = 1;
    if (s->targets)
        y = moved(y, s->y_min, s->y_max, s->y_lower, s->y_upper);
    fprintf(to, "%.17g ", y);
    for (uint64_t p = d->start[i]; p < d->start[i + 1]; p++) {
        for (; f < d->index[p]; f++)
            write_value(s, f, 0, to);
        write_value(s, f++, d->value[p], to);
    }
    for (; f <= s->features; f++)
        write_value(s, f, 0, to);
    putc('\n', to);
}

int larder__scale_write(const larder__scale *s, const larder_svm_data *d, FILE *to) {
    for (size_t i = 0; i < d->rows && !ferror(to); i++)
        write_row(s, d, i, to);
    return ferror(to) || fflush(to) != 0 ? larder__fail(larder__code_of_errno(errno),
                                                        "writing scaled rows: %s", strerror(errno))
                                         : 0;
}
