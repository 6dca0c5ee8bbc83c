#include "loader/fill/targets.h"

#include "base/csv.h"
#include "base/err.h"
#include "base/file.h"
#include "base/grow.h"
#include "base/mem.h"
#include "base/spec.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { MOST_VALUES = 4096 };

typedef struct line {
    const char *key;
    char **values; /* `width` of them */
    uint64_t number;
} line;

struct larder__targets {
    larder__given given;
    char path[PATH_MAX];
    char *text; /* of the file, cut into fields */
    line *lines;
    size_t count, cap;
    char **cells; /* of all lines, `width` each */
    size_t cells_cap;
    size_t key, *columns, width; /* which column the key is, and which the values */
    bool rest;                   /* all but the key */
    const char **classes;
    uint32_t class_count;
    uint64_t missing;
    unsigned char *values, *known;
};

bool larder__targets_meant(const char *target) { return strncmp(target, "csv:", 4) == 0; }

static const larder_param params[] = {
    {"key", "text", "", "the column with names; the first", 0, 0},
    {"value", "text", "", "the columns with values, a/b/c; the second, * all but the key", 0, 0},
    {0}};
static const larder_plugin plugin = {.name = "csv", .params = params};

/* ---- the file -------------------------------------------------------------------------------- */

/* As it is named, in the data's folder, or beside it. */
static int find_file(larder__targets *t, const char *name, const char *uri) {
    char place[PATH_MAX];
    snprintf(t->path, sizeof t->path, "%s", name);
    if (name[0] == '/' || access(t->path, R_OK) == 0)
        return 0;
    const char *colon = strrchr(uri, ':');
    snprintf(place, sizeof place, "%s", colon ? colon + 1 : uri);
    char *mark = strrchr(place, '?');
    if (mark)
        *mark = 0;
    for (int up = 0; up < 2; up++) {
        if ((size_t)snprintf(t->path, sizeof t->path, "%s/%s", place[0] ? place : ".", name) <
                sizeof t->path &&
            access(t->path, R_OK) == 0)
            return 0;
        size_t n = strlen(place);
        while (n > 0 && place[n - 1] == '/')
            place[--n] = 0;
        char *slash = strrchr(place, '/');
        if (slash)
            *slash = 0;
        else
            place[0] = 0;
    }
    return larder__fail(LARDER_E_NOTFOUND, "there is no file \"%.100s\", nor in or beside %.100s",
                        name, uri);
}

static int column_named(const larder__csv *c, const char *name, size_t n, size_t *out) {
    char all[200] = "";
    for (size_t i = 0, at = 0; i < c->count; i++) {
        if (strlen(c->fields[i]) == n && memcmp(c->fields[i], name, n) == 0) {
            *out = i;
            return 0;
        }
        if (at < sizeof all)
            at +=
                (size_t)snprintf(all + at, sizeof all - at, "%s%.40s", i ? ", " : "", c->fields[i]);
    }
    return larder__fail(LARDER_E_ARGS, "%s: there is no column \"%.*s\"; there are %s", c->path,
                        (int)(n < 60 ? n : 60), name, all);
}

/* The first line names the columns. */
static int choose_columns(larder__targets *t, const larder__csv *c, const larder_args *args) {
    const char *key = larder_args_text(args, "key"), *value = larder_args_text(args, "value");
    int rc = key[0] ? column_named(c, key, strlen(key), &t->key) : 0;
    if (rc < 0)
        return rc;
    if (c->count < 2)
        return larder__fail(LARDER_E_FORMAT, "%s: its first line has no two columns", c->path);
    if (!(t->columns = larder__calloc(c->count + 1, sizeof *t->columns)))
        return LARDER_E_NOMEM;
    if (strcmp(value, "*") == 0) {
        for (size_t i = 0; i < c->count; i++)
            if (i != t->key)
                t->columns[t->width++] = i;
    } else if (!value[0])
        t->columns[t->width++] = t->key == 1 ? 0 : 1;
    for (const char *at = value; rc == 0 && at[0] && strcmp(value, "*") != 0;) {
        size_t n = strcspn(at, "/");
        if (t->width == c->count)
            return larder__fail(LARDER_E_ARGS, "value= names more columns than there are");
        rc = column_named(c, at, n, &t->columns[t->width++]);
        at += n + (at[n] == '/');
    }
    t->given.ndim = t->width > 1 || strcmp(value, "*") == 0;
    t->given.width = t->width;
    return rc == 0 && t->width > MOST_VALUES ? larder__fail(LARDER_E_RANGE, "too many values") : rc;
}

static int take_line(larder__targets *t, const larder__csv *c, size_t wide) {
    int rc = larder__grow(&t->lines, &t->cap, t->count + 1, sizeof *t->lines);
    if (rc == 0)
        rc = larder__grow(&t->cells, &t->cells_cap, (t->count + 1) * t->width, sizeof *t->cells);
    if (rc < 0)
        return rc;
    if (c->count != wide)
        return larder__fail(LARDER_E_FORMAT, "%s line %llu: %zu columns, and the first has %zu",
                            c->path, (unsigned long long)c->line, c->count, wide);
    for (size_t i = 0; i < t->width; i++) {
        char *value = c->fields[t->columns[i]];
        if (!value[0])
            return larder__fail(LARDER_E_FORMAT, "%s line %llu: a value is missing", c->path,
                                (unsigned long long)c->line);
        t->cells[t->count * t->width + i] = value;
    }
    t->lines[t->count++] = (line){.key = c->fields[t->key], .number = c->line};
    return 0;
}

static int by_key(const void *a, const void *b) {
    return strcmp(((const line *)a)->key, ((const line *)b)->key);
}

static int read_table(larder__targets *t, const larder_args *args) {
    size_t size;
    larder__csv c;
    int rc = larder__file_read(t->path, (size_t)4 << 30, (unsigned char **)&t->text, &size);
    if (rc < 0)
        return rc;
    char *more = larder__realloc(t->text, size + 1);
    if (!more)
        return LARDER_E_NOMEM;
    t->text = more;
    larder__csv_begin(&c, t->path, t->text, size);
    rc = larder__csv_next(&c);
    if (rc == 0)
        rc = larder__fail(LARDER_E_FORMAT, "%s is empty", t->path);
    size_t wide = rc > 0 ? c.count : 0;
    if (rc > 0)
        rc = choose_columns(t, &c, args);
    while (rc == 0 && (rc = larder__csv_next(&c)) > 0)
        rc = take_line(t, &c, wide);
    larder__csv_free(&c);
    for (size_t i = 0; rc == 0 && i < t->count; i++)
        t->lines[i].values = t->cells + i * t->width;
    if (rc == 0 && t->count)
        qsort(t->lines, t->count, sizeof *t->lines, by_key);
    for (size_t i = 1; rc == 0 && i < t->count; i++)
        if (by_key(&t->lines[i - 1], &t->lines[i]) == 0)
            rc = larder__fail(LARDER_E_FORMAT, "%s line %llu: \"%.100s\" is in line %llu as well",
                              t->path, (unsigned long long)t->lines[i].number, t->lines[i].key,
                              (unsigned long long)t->lines[i - 1].number);
    return rc;
}

/* ---- values ---------------------------------------------------------------------------------- */

static bool is_integer(const char *text) {
    char *end;
    errno = 0;
    strtoll(text, &end, 10);
    return errno == 0 && end != text && !*end;
}

static bool is_number(const char *text) {
    char *end;
    strtod(text, &end);
    return end != text && !*end;
}

static bool all_cells(const larder__targets *t, bool (*is)(const char *)) {
    for (size_t i = 0; i < t->count * t->width; i++)
        if (!is(t->cells[i]))
            return false;
    return true;
}

static int by_text(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Words: their places among all words, sorted. */
static int name_classes(larder__targets *t) {
    if (!(t->classes = larder__calloc(t->count + 1, sizeof *t->classes)))
        return LARDER_E_NOMEM;
    for (size_t i = 0; i < t->count; i++)
        t->classes[i] = t->cells[i];
    qsort(t->classes, t->count, sizeof *t->classes, by_text);
    for (size_t i = 0; i < t->count; i++)
        if (i == 0 || strcmp(t->classes[i], t->classes[t->class_count - 1]) != 0)
            t->classes[t->class_count++] = t->classes[i];
    return 0;
}

/* Whole numbers from 0 on are labels; where they go further than lines do, they are none. */
static uint32_t count_classes(const larder__targets *t) {
    long long highest = -1;
    for (size_t i = 0; i < t->count; i++) {
        long long v = strtoll(t->cells[i], NULL, 10);
        if (v < 0 || v >= (long long)t->count + 1000)
            return 0;
        highest = v > highest ? v : highest;
    }
    return (uint32_t)(highest + 1);
}

static int judge_values(larder__targets *t) {
    if (t->given.ndim == 0 && all_cells(t, is_integer)) {
        t->given.dtype = LARDER_I64;
        t->class_count = count_classes(t);
    } else if (all_cells(t, is_number))
        t->given.dtype = LARDER_F32;
    else if (t->width == 1 && t->given.ndim == 0) {
        t->given.dtype = LARDER_I64;
        return name_classes(t);
    } else
        for (size_t i = 0; i < t->count; i++)
            for (size_t k = 0; k < t->width; k++)
                if (!is_number(t->lines[i].values[k]))
                    return larder__fail(LARDER_E_FORMAT, "%s line %llu: \"%.60s\" is no number",
                                        t->path, (unsigned long long)t->lines[i].number,
                                        t->lines[i].values[k]);
    return 0;
}

static void put_value(larder__targets *t, uint64_t id, const line *l) {
    for (size_t k = 0; k < t->width; k++) {
        if (t->given.dtype == LARDER_F32) {
            float f = strtof(l->values[k], NULL);
            memcpy(t->values + (id * t->width + k) * 4, &f, 4);
            continue;
        }
        int64_t v = 0;
        const char *word = l->values[k];
        if (t->classes)
            v = (const char **)bsearch(&word, t->classes, t->class_count, sizeof *t->classes,
                                       by_text) -
                t->classes;
        else
            v = strtoll(word, NULL, 10);
        memcpy(t->values + (id * t->width + k) * 8, &v, 8);
    }
}

/* ---- samples --------------------------------------------------------------------------------- */

static const line *find(const larder__targets *t, const char *key) {
    line want = {.key = key};
    return t->count ? bsearch(&want, t->lines, t->count, sizeof *t->lines, by_key) : NULL;
}

static const line *find_without(const larder__targets *t, const char *name, const char *dot) {
    char key[PATH_MAX];
    size_t n = dot ? (size_t)(dot - name) : 0;
    if (n == 0 || n >= sizeof key)
        return NULL;
    memcpy(key, name, n);
    key[n] = 0;
    return find(t, key);
}

/* "shard.tar:train/7.jpg": by all of it, train/7.jpg, 7.jpg, train/7 or 7. */
static const line *find_line(const larder__targets *t, const char *name) {
    const line *l = find(t, name);
    const char *colon = strchr(name, ':'), *path = colon ? colon + 1 : name;
    const char *file = larder__name_in(path);
    if (!l)
        l = find(t, path);
    if (!l)
        l = find(t, file);
    if (!l)
        l = find_without(t, path, strrchr(file, '.'));
    if (!l)
        l = find_without(t, file, strrchr(file, '.'));
    if (!l)
        l = find_without(t, path, strchr(file, '.'));
    return l ? l : find_without(t, file, strchr(file, '.'));
}

static int match_samples(larder__targets *t, larder__data *data) {
    uint64_t n = larder__data_about(data)->count;
    size_t row = t->width * (t->given.dtype == LARDER_F32 ? 4 : 8);
    char name[PATH_MAX];
    t->values = larder__calloc((size_t)n, row);
    t->known = larder__calloc((size_t)n, 1);
    if (!t->values || !t->known)
        return LARDER_E_NOMEM;
    for (uint64_t id = 0; id < n; id++) {
        const line *l =
            larder__data_name(data, id, name, sizeof name) < 0 ? NULL : find_line(t, name);
        if (l) {
            put_value(t, id, l);
            t->known[id] = 1;
        } else
            t->missing++;
    }
    if (n && t->missing == n) {
        larder__data_name(data, 0, name, sizeof name);
        return larder__fail(LARDER_E_NOTFOUND,
                            "%s has no line for any sample; the first is %.100s, and its keys are "
                            "such as %.60s",
                            t->path, name, t->count ? t->lines[0].key : "(none)");
    }
    t->given.from = t->path;
    t->given.values = t->values;
    t->given.known = t->known;
    return 0;
}

int larder__targets_open(larder__targets **out, const char *target, larder__data *data) {
    char name[PATH_MAX];
    larder_args args;
    const char *text = target + 4;
    size_t n = strcspn(text, "?");
    *out = NULL;
    if (n == 0 || n >= sizeof name)
        return larder__fail(LARDER_E_ARGS, "target \"%.60s\": csv:file.csv?key=name&value=label",
                            target);
    memcpy(name, text, n);
    name[n] = 0;
    int rc = larder__args_parse(&args, "target", &plugin, text[n] ? text + n + 1 : "", '&', NULL);
    if (rc < 0)
        return rc;
    larder__targets *t = *out = larder__calloc(1, sizeof *t);
    rc = t ? find_file(t, name, larder__data_uri(data)) : LARDER_E_NOMEM;
    if (rc == 0)
        rc = read_table(t, &args);
    if (rc == 0)
        rc = judge_values(t);
    if (rc == 0)
        rc = match_samples(t, data);
    larder__args_free(&args);
    if (rc < 0)
        larder__targets_close(out);
    return rc;
}

void larder__targets_close(larder__targets **pt) {
    larder__targets *t = *pt;
    *pt = NULL;
    if (!t)
        return;
    larder__free(t->text);
    larder__free(t->lines);
    larder__free(t->cells);
    larder__free(t->columns);
    larder__free(t->classes);
    larder__free(t->values);
    larder__free(t->known);
    larder__free(t);
}

const larder__given *larder__targets_given(const larder__targets *t) { return &t->given; }
int64_t larder__targets_label(const larder__targets *t, uint64_t id) {
    int64_t v = -1;
    if (t->given.dtype == LARDER_I64 && t->given.ndim == 0 && t->known[id])
        memcpy(&v, t->values + id * 8, 8);
    return v;
}
uint64_t larder__targets_missing(const larder__targets *t) { return t->missing; }
uint32_t larder__targets_classes(const larder__targets *t) { return t->class_count; }
const char *larder__targets_class(const larder__targets *t, uint32_t label) {
    return t->classes && label < t->class_count ? t->classes[label] : NULL;
}
