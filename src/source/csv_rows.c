/* csv: a sample a line. Columns of numbers are together x, a vector of f32 (an empty cell is NaN);
 * columns of anything else are texts by their names; the target column is the class where it has
 * whole numbers or names, else y. The file is read once when it is opened, to see what its columns
 * are and that its lines are whole; then a line is read when it is wanted. */
#include "base/csv.h"
#include "base/err.h"
#include "base/file.h"
#include "base/grow.h"
#include "base/mem.h"
#include "base/parcel.h"
#include "base/spec.h"
#include "source/answer.h"
#include "source/content.h"
#include "source/label_column.h"
#include "source/pread_full.h"

#include <stdio.h>
#include <strings.h>

#define MOST_BYTES ((size_t)4 << 30)

typedef enum { UNUSED, NUMBER, TEXT, TARGET } use;

typedef struct column {
    char *name;
    use use;
    bool numbers; /* every cell so far is one */
} column;

typedef struct line {
    uint64_t at;
    uint32_t n;     /* bytes of text */
    uint32_t bytes; /* of the sample */
} line;

typedef struct csv_rows {
    char *path;
    int fd;
    bool opened; /* fd is one */
    larder__stamp stamp;
    column *columns;
    size_t column_count;
    size_t vector; /* elements of x */
    line *lines;
    size_t lines_cap;
    uint64_t count, bytes;
    bool target, named; /* there is one; the first line has names */
    char separator;
    larder__label_column labels;
} csv_rows;

static int probe(const char *where) {
    size_t n = strlen(where);
    return n > 4 && strcasecmp(where + n - 4, ".csv") == 0 ? 50 : 0;
}

/* ---- columns --------------------------------------------------------------------------------- */

/* Is this one of a/b/c? */
static bool among(const char *name, const char *names) {
    size_t n = strlen(name);
    for (const char *at = names; *at; at += strcspn(at, "/"), at += *at == '/')
        if (strcspn(at, "/") == n && strncmp(at, name, n) == 0)
            return true;
    return false;
}

static int name_columns(csv_rows *c, const larder__csv *text) {
    c->columns = larder__calloc(text->count, sizeof *c->columns);
    if (!c->columns)
        return LARDER_E_NOMEM;
    if (text->count > LARDER__PARCEL_FIELDS - 2)
        return larder__fail(LARDER_E_RANGE, "%s: %zu columns are more than %d", c->path,
                            text->count, LARDER__PARCEL_FIELDS - 2);
    for (; c->column_count < text->count; c->column_count++) {
        column *col = &c->columns[c->column_count];
        char name[LARDER__PARCEL_NAME + 1];
        if (c->named)
            snprintf(name, sizeof name, "%.255s", text->fields[c->column_count]);
        else
            snprintf(name, sizeof name, "%zu", c->column_count + 1);
        col->numbers = true;
        if (!(col->name = larder__strdup(name)))
            return LARDER_E_NOMEM;
    }
    return 0;
}

static int no_column(const csv_rows *c, const char *what, const char *name) {
    char all[160] = "";
    size_t at = 0;
    for (size_t i = 0; i < c->column_count && at < sizeof all - 1; i++)
        at +=
            (size_t)snprintf(all + at, sizeof all - at, "%s%s", i ? ", " : "", c->columns[i].name);
    return larder__fail(LARDER_E_ARGS, "%s has no column \"%.60s\" for %s=; it has %s", c->path,
                        name, what, all);
}

static int use_columns(csv_rows *c, const char *wanted, const char *target) {
    size_t found = 0, asked = wanted[0] ? 1 : 0;
    for (const char *at = wanted; (at = strchr(at, '/')); at++)
        asked++;
    for (size_t i = 0; i < c->column_count; i++) {
        column *col = &c->columns[i];
        bool in = among(col->name, wanted);
        col->use = !wanted[0] || in ? NUMBER : UNUSED;
        found += in;
        if (target[0] && strcmp(col->name, target) == 0) {
            col->use = TARGET;
            c->target = true;
        }
    }
    if (found < asked) {
        for (const char *at = wanted; *at; at += strcspn(at, "/"), at += *at == '/') {
            char one[80];
            bool there = false;
            snprintf(one, sizeof one, "%.*s", (int)strcspn(at, "/"), at);
            for (size_t i = 0; i < c->column_count; i++)
                there |= strcmp(c->columns[i].name, one) == 0;
            if (!there)
                return no_column(c, "columns", one);
        }
    }
    return target[0] && !c->target ? no_column(c, "target", target) : 0;
}

/* ---- lines ----------------------------------------------------------------------------------- */

static int look_at(csv_rows *c, const larder__csv *text) {
    double v;
    if (text->count != c->column_count)
        return larder__fail(LARDER_E_FORMAT, "%s line %llu: %zu cells where there are %zu columns",
                            c->path, (unsigned long long)text->line, text->count, c->column_count);
    for (size_t i = 0; i < text->count; i++) {
        column *col = &c->columns[i];
        if (col->use == NUMBER && col->numbers)
            col->numbers = larder__text_number(text->fields[i], &v);
        if (col->use != TARGET)
            continue;
        int rc = larder__label_column_add(&c->labels, text->fields[i]);
        if (rc < 0)
            return rc;
    }
    return 0;
}

/* The fields of a sample; numbers are left to be written. */
static size_t fields_of(const csv_rows *c, char *const *cells, larder__field *out) {
    size_t n = 0;
    if (c->vector)
        out[n++] = (larder__field){.kind = LARDER__FIELD_ARRAY,
                                   .dtype = LARDER_F32,
                                   .ndim = 1,
                                   .shape = {c->vector},
                                   .name = "x",
                                   .name_bytes = 1,
                                   .bytes = c->vector * sizeof(float)};
    if (c->target && c->labels.are == LARDER__LABELS_FLOATS)
        out[n++] = (larder__field){.kind = LARDER__FIELD_ARRAY,
                                   .dtype = LARDER_F32,
                                   .name = "y",
                                   .name_bytes = 1,
                                   .bytes = sizeof(float)};
    for (size_t i = 0; i < c->column_count; i++)
        if (c->columns[i].use == TEXT)
            out[n++] = (larder__field){.kind = LARDER__FIELD_TEXT,
                                       .name = c->columns[i].name,
                                       .name_bytes = strlen(c->columns[i].name),
                                       .data = (const unsigned char *)cells[i],
                                       .bytes = strlen(cells[i])};
    return n;
}

static int first_pass(csv_rows *c, larder__csv *text, const char *wanted, const char *target) {
    for (bool first = true;; first = false) {
        size_t from = text->at;
        int rc = larder__csv_next(text);
        if (rc <= 0)
            return rc;
        if (first && (rc = name_columns(c, text)) < 0)
            return rc;
        if (first && (rc = use_columns(c, wanted, target)) < 0)
            return rc;
        if (first && c->named)
            continue;
        rc = look_at(c, text);
        if (rc == 0)
            rc = larder__grow(&c->lines, &c->lines_cap, c->count + 1, sizeof *c->lines);
        if (rc < 0)
            return rc;
        c->lines[c->count++] = (line){from, (uint32_t)(text->at - from), 0};
    }
}

static void decide_columns(csv_rows *c) {
    for (size_t i = 0; i < c->column_count; i++) {
        if (c->columns[i].use == NUMBER && !c->columns[i].numbers)
            c->columns[i].use = TEXT;
        c->vector += c->columns[i].use == NUMBER;
    }
}

/* ---- one line -------------------------------------------------------------------------------- */

typedef struct cut { /* a line taken apart */
    char *text;      /* a byte longer than the longest line */
    larder__csv csv;
    larder__field *fields; /* of all columns, and x and y */
} cut;

static int cut_begin(cut *k, const csv_rows *c, size_t longest) {
    *k = (cut){.text = larder__malloc(longest + 1)};
    k->fields = larder__malloc((c->column_count + 2) * sizeof *k->fields);
    return k->text && k->fields ? 0 : LARDER_E_NOMEM;
}

static void cut_end(cut *k) {
    larder__csv_free(&k->csv);
    larder__free(k->text);
    larder__free(k->fields);
}

/* How many fields there are, or negative. */
static int cut_fields(cut *k, const csv_rows *c, size_t n) {
    char **cells = k->csv.fields;
    size_t cap = k->csv.cap;
    larder__csv_begin(&k->csv, c->path, k->text, n);
    k->csv.fields = cells;
    k->csv.cap = cap;
    k->csv.separator = c->separator;
    int rc = larder__csv_next(&k->csv);
    if (rc == 1 && k->csv.count == c->column_count)
        return (int)fields_of(c, k->csv.fields, k->fields);
    return rc < 0 ? rc : larder__file_changed(c->path);
}

/* How long every sample is. */
static int measure(csv_rows *c, const char *text) {
    cut k;
    uint32_t longest = 0;
    for (uint64_t i = 0; i < c->count; i++)
        longest = c->lines[i].n > longest ? c->lines[i].n : longest;
    int rc = cut_begin(&k, c, longest);
    for (uint64_t i = 0; rc >= 0 && i < c->count; i++) {
        line *l = &c->lines[i];
        memcpy(k.text, text + l->at, l->n);
        rc = cut_fields(&k, c, l->n);
        uint64_t bytes = rc < 0 ? 0 : larder__parcel_bytes(k.fields, (size_t)rc);
        if (rc >= 0 && bytes == 0)
            rc =
                larder__fail_in(LARDER_E_FORMAT, "%s, sample %llu", c->path, (unsigned long long)i);
        l->bytes = (uint32_t)bytes;
        c->bytes += bytes;
    }
    cut_end(&k);
    return rc < 0 ? rc : 0;
}

/* Lines are cut apart where they stand, so that what comes second needs a copy. */
static int read_all(csv_rows *c, char *text, size_t size, const char *wanted, const char *target) {
    larder__csv csv = {0};
    char *copy = larder__malloc(size + 1);
    int rc = copy ? 0 : LARDER_E_NOMEM;
    if (rc == 0) {
        memcpy(copy, text, size);
        larder__csv_begin(&csv, c->path, text, size);
        c->separator = csv.separator;
        rc = first_pass(c, &csv, wanted, target);
    }
    larder__csv_free(&csv);
    if (rc == 0 && c->count == 0)
        rc = larder__fail(LARDER_E_NOTFOUND, "%s holds no samples", c->path);
    if (rc == 0)
        rc = larder__label_column_end(&c->labels);
    if (rc == 0) {
        decide_columns(c);
        rc = measure(c, copy);
    }
    larder__free(copy);
    return rc;
}

static int csv_open(void *st, const char *where, const larder_args *args) {
    csv_rows *c = st;
    unsigned char *text = NULL;
    size_t size = 0;
    larder__label_column_begin(&c->labels);
    c->named = strcmp(larder_args_text(args, "header"), "yes") == 0;
    if (!(c->path = larder__strdup(where)))
        return LARDER_E_NOMEM;
    int rc = c->fd = larder__open_plain(where, &c->stamp);
    c->opened = rc >= 0;
    if (rc >= 0)
        rc = larder__file_read(where, MOST_BYTES, &text, &size);
    if (rc == 0 && size != c->stamp.size)
        rc = larder__file_changed(where);
    if (rc == 0)
        rc = read_all(c, (char *)text, size, larder_args_text(args, "columns"),
                      larder_args_text(args, "target"));
    larder__free(text);
    return rc;
}

static void csv_close(void *st) {
    csv_rows *c = st;
    if (c->opened)
        close(c->fd);
    for (size_t i = 0; i < c->column_count; i++)
        larder__free(c->columns[i].name);
    larder__free(c->columns);
    larder__free(c->lines);
    larder__free(c->path);
    larder__label_column_free(&c->labels);
}

/* ---- questions ------------------------------------------------------------------------------- */

static int read_file(void *arg, void *out, size_t n, uint64_t at) {
    const csv_rows *c = arg;
    return larder__pread_full(c->fd, c->path, out, n, at);
}

static int describe(void *st, larder_dataset *out) {
    csv_rows *c = st;
    larder__content content;
    *out = (larder_dataset){.count = c->count,
                            .bytes = c->bytes,
                            .classes = c->labels.classes,
                            .parcels = true,
                            .identity = larder__stamp_hash(0, &c->stamp)};
    out->fingerprint = larder__hash_bytes(0xc57, &c->count, sizeof c->count);
    for (size_t i = 0; i < c->column_count; i++) {
        const column *col = &c->columns[i];
        out->fingerprint =
            larder__hash_bytes(out->fingerprint + (uint64_t)col->use, col->name, strlen(col->name));
    }
    if (c->target && c->labels.labels)
        out->fingerprint = larder__hash_bytes(out->fingerprint, c->labels.labels,
                                              c->count * sizeof *c->labels.labels);
    larder__content_begin(&content, c->stamp.size);
    larder__content_add(&content, c->stamp.size, read_file, c);
    out->content = content.hash;
    return 0;
}

static int stat_one(void *st, uint64_t id, larder_sample *out) {
    const csv_rows *c = st;
    *out = (larder_sample){c->lines[id].bytes,
                           c->target && c->labels.labels ? c->labels.labels[id] : -1};
    return 0;
}

static int name(void *st, uint64_t id, char *out, size_t cap) {
    const csv_rows *c = st;
    snprintf(out, cap, "%s#%llu", larder__name_in(c->path), (unsigned long long)id);
    return 0;
}

static const char *class_name(void *st, uint32_t label) {
    const csv_rows *c = st;
    return c->labels.names && label < c->labels.classes ? c->labels.names[label] : NULL;
}

/* x, y and texts: the fields that samples have. */
static const char *field(void *st, size_t i) {
    const csv_rows *c = st;
    if (c->vector && i-- == 0)
        return "x";
    if (c->target && c->labels.are == LARDER__LABELS_FLOATS && i-- == 0)
        return "y";
    for (size_t k = 0; k < c->column_count; k++)
        if (c->columns[k].use == TEXT && i-- == 0)
            return c->columns[k].name;
    return NULL;
}

/* ---- reading --------------------------------------------------------------------------------- */

static void put_numbers(const csv_rows *c, char *const *cells, larder__field *fields) {
    unsigned char *x = c->vector ? (unsigned char *)(uintptr_t)fields[0].data : NULL;
    unsigned char *y = (unsigned char *)(uintptr_t)fields[c->vector ? 1 : 0].data;
    for (size_t i = 0, i_th = 0; i < c->column_count; i++) {
        double v;
        use u = c->columns[i].use;
        if (u != NUMBER && (u != TARGET || c->labels.are != LARDER__LABELS_FLOATS))
            continue;
        larder__text_number(cells[i], &v);
        float f = (float)v;
        if (u == TARGET)
            memcpy(y, &f, sizeof f);
        else if (x)
            memcpy(x + i_th++ * sizeof f, &f, sizeof f);
    }
}

static int read_one(const csv_rows *c, uint64_t id, larder_buf **out) {
    cut k;
    const line *l = &c->lines[id];
    int rc = cut_begin(&k, c, l->n);
    if (rc == 0)
        rc = larder__pread_full(c->fd, c->path, k.text, l->n, l->at);
    if (rc == 0 && (rc = cut_fields(&k, c, l->n)) >= 0)
        rc = larder__parcel_make(out, k.fields, (size_t)rc);
    if (rc == 0)
        put_numbers(c, k.csv.fields, k.fields);
    cut_end(&k);
    return rc < 0 ? larder__fail_in(rc, "sample %llu", (unsigned long long)id) : 0;
}

static int csv_read(void *st, const uint64_t *ids, size_t n, larder_read *out) {
    const csv_rows *c = st;
    for (size_t i = 0; i < n; i++) {
        larder_buf *buf = NULL;
        int rc = read_one(c, ids[i], &buf);
        if (rc < 0)
            larder__answer_failure(&out[i], rc);
        else
            larder__answer_buf(&out[i], buf);
    }
    if (n && larder__fd_unchanged(c->fd, c->path, &c->stamp) < 0)
        for (size_t i = 0; i < n; i++) {
            larder_buf_unref(&out[i].buf);
            larder__answer_failure(&out[i], larder__file_changed(c->path));
        }
    return 0;
}

static const larder_param params[] = {
    {"columns", "text", "", "those to take, as a/b/c; else all but the target", 0, 0},
    {"target", "text", "", "the column with classes (whole numbers or names) or with y", 0, 0},
    {"header", "yes|no", "yes", "the first line has names; else columns are 1, 2, 3 …", 0, 0},
    {0}};

const larder_source larder__source_csv = {
    .plugin = {.name = "csv",
               .summary = "a table as text: numbers of a line are x, other columns texts",
               .params = params,
               .state_size = sizeof(csv_rows)},
    .probe = probe,
    .open = csv_open,
    .close = csv_close,
    .describe = describe,
    .stat = stat_one,
    .name = name,
    .class_name = class_name,
    .read = csv_read,
    .field = field,
};
