/* table: samples that lie anywhere in any files, as a table says: file, offset, length, and perhaps
 * a label. Paths are relative to the table. Every one is looked at when it is opened, so that no
 * line points past the end of its file. */
#include "base/csv.h"
#include "base/err.h"
#include "base/file.h"
#include "base/grow.h"
#include "base/hash.h"
#include "base/mem.h"
#include "source/answer.h"
#include "source/content.h"
#include "source/fd_pool.h"
#include "source/label_column.h"
#include "source/pread_full.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>

#define MOST_BYTES ((size_t)4 << 30)
enum { FILE_, OFFSET, LENGTH, LABEL, COLUMNS, NONE = 255 };

typedef struct row {
    uint64_t offset;
    uint32_t length, file;
} row;

typedef struct one_file {
    char *path;
    larder__stamp stamp;
    uint64_t hash; /* of its path */
} one_file;

typedef struct table {
    char *path;
    uint8_t at[COLUMNS]; /* which cell is which, or NONE */
    row *rows;
    size_t rows_cap;
    uint64_t count, bytes;
    one_file *files;
    size_t files_cap;
    uint32_t file_count;
    uint32_t *buckets; /* files by the hash of their path, a power of two of them; 0: empty */
    size_t bucket_count;
    larder__fd_pool *pool;
    larder__label_column labels;
} table;

/* ---- files ----------------------------------------------------------------------------------- */

static int grow_buckets(table *t) {
    if (t->file_count * 2 < t->bucket_count)
        return 0;
    size_t n = t->bucket_count ? t->bucket_count * 2 : 64;
    uint32_t *fresh = larder__calloc(n, sizeof *fresh);
    if (!fresh)
        return LARDER_E_NOMEM;
    for (uint32_t i = 0; i < t->file_count; i++) {
        size_t at = t->files[i].hash & (n - 1);
        while (fresh[at])
            at = (at + 1) & (n - 1);
        fresh[at] = i + 1;
    }
    larder__free(t->buckets);
    t->buckets = fresh;
    t->bucket_count = n;
    return 0;
}

static int look_at(one_file *f) {
    int fd = larder__open_plain(f->path, &f->stamp);
    if (fd >= 0)
        close(fd);
    return fd < 0 ? fd : 0;
}

static int file_named(table *t, const char *name, uint32_t *out) {
    const char *own = larder__name_in(t->path);
    uint64_t hash = larder__hash_bytes(7, name, strlen(name));
    char path[PATH_MAX];
    int k = snprintf(path, sizeof path, "%.*s%s", name[0] == '/' ? 0 : (int)(own - t->path),
                     t->path, name);
    if (k < 0 || (size_t)k >= sizeof path)
        return larder__fail(LARDER_E_FORMAT, "the path \"%.60s…\" is too long", path);
    int rc = grow_buckets(t);
    if (rc < 0)
        return rc;
    size_t at = hash & (t->bucket_count - 1);
    for (; t->buckets[at]; at = (at + 1) & (t->bucket_count - 1)) {
        *out = t->buckets[at] - 1;
        if (t->files[*out].hash == hash && strcmp(t->files[*out].path, path) == 0)
            return 0;
    }
    rc = larder__grow(&t->files, &t->files_cap, t->file_count + (size_t)1, sizeof *t->files);
    if (rc < 0)
        return rc;
    one_file *f = &t->files[t->file_count];
    *f = (one_file){.path = larder__strdup(path), .hash = hash};
    if (!f->path)
        return LARDER_E_NOMEM;
    *out = t->file_count++;
    t->buckets[at] = *out + 1;
    return look_at(f);
}

/* ---- lines ----------------------------------------------------------------------------------- */

/* Names in any order, or none: then file, offset, length and label. */
static int read_head(table *t, const larder__csv *c, bool *named) {
    static const char *const names[COLUMNS] = {"file", "offset", "length", "label"};
    double v;
    *named = c->count < 2 || !c->fields[1][0] || !larder__text_number(c->fields[1], &v);
    for (size_t k = 0; k < COLUMNS; k++) {
        t->at[k] = *named ? NONE : (uint8_t)(k < c->count ? k : NONE);
        for (size_t i = 0; *named && i < c->count && i < NONE; i++)
            if (strcmp(c->fields[i], names[k]) == 0)
                t->at[k] = (uint8_t)i;
        if (k != LABEL && t->at[k] == NONE)
            return larder__fail(LARDER_E_FORMAT,
                                "%s: no column \"%s\": it has to have file, offset and length, and "
                                "may have label",
                                t->path, names[k]);
    }
    return 0;
}

static bool whole(const char *text, double most, uint64_t *out) {
    double v;
    if (!larder__text_number(text, &v) || !(v >= 0 && v <= most) || v != floor(v))
        return false;
    *out = (uint64_t)v;
    return true;
}

static int read_row(table *t, const larder__csv *c, row *r) {
    uint64_t length = 0;
    for (size_t k = 0; k < COLUMNS; k++)
        if (t->at[k] != NONE && t->at[k] >= c->count)
            return larder__fail(LARDER_E_FORMAT, "only %zu cells", c->count);
    const char *file = c->fields[t->at[FILE_]];
    if (!whole(c->fields[t->at[OFFSET]], 9e15, &r->offset) ||
        !whole(c->fields[t->at[LENGTH]], UINT32_MAX - 1.0, &length))
        return larder__fail(LARDER_E_FORMAT, "offset or length is no whole number, or too large");
    r->length = (uint32_t)length;
    if (!file[0])
        return larder__fail(LARDER_E_FORMAT, "no file");
    int rc = file_named(t, file, &r->file);
    if (rc < 0)
        return rc;
    const one_file *f = &t->files[r->file];
    if (r->offset > f->stamp.size || length > f->stamp.size - r->offset)
        return larder__fail(LARDER_E_FORMAT, "%llu bytes from %llu on, but %s has %llu",
                            (unsigned long long)length, (unsigned long long)r->offset, f->path,
                            (unsigned long long)f->stamp.size);
    return t->at[LABEL] == NONE ? 0 : larder__label_column_add(&t->labels, c->fields[t->at[LABEL]]);
}

static int read_rows(table *t, larder__csv *c) {
    bool named = false;
    for (bool first = true;; first = false) {
        int rc = larder__csv_next(c);
        if (rc <= 0)
            return rc;
        if (first && (rc = read_head(t, c, &named)) < 0)
            return rc;
        if (first && named)
            continue;
        rc = larder__grow(&t->rows, &t->rows_cap, t->count + 1, sizeof *t->rows);
        if (rc < 0)
            return rc;
        rc = read_row(t, c, &t->rows[t->count]);
        if (rc < 0)
            return larder__fail_in(rc, "%s line %llu", t->path, (unsigned long long)c->line);
        t->bytes += t->rows[t->count++].length;
    }
}

static int table_open(void *st, const char *where, const larder_args *args) {
    table *t = st;
    unsigned char *text = NULL;
    size_t size;
    (void)args;
    larder__label_column_begin(&t->labels);
    if (!(t->path = larder__strdup(where)))
        return LARDER_E_NOMEM;
    int rc = larder__file_read(where, MOST_BYTES, &text, &size);
    if (rc == 0) {
        larder__csv csv;
        larder__csv_begin(&csv, where, (char *)text, size);
        rc = read_rows(t, &csv);
        larder__csv_free(&csv);
    }
    larder__free(text);
    if (rc == 0 && t->count == 0)
        rc = larder__fail(LARDER_E_NOTFOUND, "%s holds no samples", where);
    if (rc == 0)
        rc = larder__label_column_end(&t->labels);
    if (rc == 0 && t->labels.are == LARDER__LABELS_FLOATS)
        rc = larder__fail(LARDER_E_FORMAT, "%s: labels are neither whole numbers nor names", where);
    return rc < 0 ? rc : larder__fd_pool_open(&t->pool, t->file_count);
}

static void table_close(void *st) {
    table *t = st;
    larder__fd_pool_close(&t->pool);
    for (uint32_t i = 0; i < t->file_count; i++)
        larder__free(t->files[i].path);
    larder__free(t->files);
    larder__free(t->buckets);
    larder__free(t->rows);
    larder__free(t->path);
    larder__label_column_free(&t->labels);
}

/* ---- reading --------------------------------------------------------------------------------- */

static int read_at(table *t, const row *r, void *out, size_t n, uint64_t at) {
    const one_file *f = &t->files[r->file];
    int fd = larder__fd_pool_take(t->pool, r->file, f->path);
    if (fd < 0)
        return fd;
    int rc = larder__pread_full(fd, f->path, out, n, r->offset + at);
    if (rc == 0)
        rc = larder__fd_unchanged(fd, f->path, &f->stamp);
    larder__fd_pool_give(t->pool, r->file, fd);
    return rc;
}

static int table_read(void *st, const uint64_t *ids, size_t n, larder_read *out) {
    table *t = st;
    for (size_t i = 0; i < n; i++) {
        const row *r = &t->rows[ids[i]];
        larder_buf *buf = larder_buf_new(r->length);
        int rc = buf ? read_at(t, r, larder_buf_data(buf), r->length, 0) : LARDER_E_NOMEM;
        if (rc == 0) {
            larder__answer_buf(&out[i], buf);
            continue;
        }
        larder_buf_unref(&buf);
        larder__answer_failure(&out[i],
                               larder__fail_in(rc, "sample %llu", (unsigned long long)ids[i]));
    }
    return 0;
}

typedef struct row_bytes {
    table *t;
    const row *r;
} row_bytes;

static int peek(void *arg, void *out, size_t n, uint64_t at) {
    const row_bytes *b = arg;
    return read_at(b->t, b->r, out, n, at);
}

static int describe(void *st, larder_dataset *out) {
    table *t = st;
    larder__content c;
    *out = (larder_dataset){.count = t->count, .bytes = t->bytes, .classes = t->labels.classes};
    uint64_t h = larder__hash_bytes(0x7ab1e, &t->count, sizeof t->count);
    larder__content_begin(&c, t->bytes);
    for (uint64_t i = 0; i < t->count; i++) {
        const row *r = &t->rows[i];
        const char *own = larder__name_in(t->files[r->file].path);
        uint64_t at[] = {r->offset, r->length};
        h = larder__hash_bytes(larder__hash_bytes(h, own, strlen(own)), at, sizeof at);
        larder__content_add(&c, r->length, peek, &(row_bytes){t, r});
    }
    for (uint32_t i = 0; i < t->file_count; i++)
        out->identity = larder__stamp_hash(out->identity, &t->files[i].stamp);
    if (t->at[LABEL] != NONE)
        h = larder__hash_bytes(h, t->labels.labels, t->count * sizeof *t->labels.labels);
    out->fingerprint = h;
    out->content = c.hash;
    return 0;
}

static int stat_one(void *st, uint64_t id, larder_sample *out) {
    const table *t = st;
    *out = (larder_sample){t->rows[id].length, t->at[LABEL] == NONE ? -1 : t->labels.labels[id]};
    return 0;
}

static int name(void *st, uint64_t id, char *out, size_t cap) {
    const table *t = st;
    const row *r = &t->rows[id];
    snprintf(out, cap, "%s@%llu+%u", larder__name_in(t->files[r->file].path),
             (unsigned long long)r->offset, r->length);
    return 0;
}

static const char *class_name(void *st, uint32_t label) {
    const table *t = st;
    return t->labels.names && label < t->labels.classes ? t->labels.names[label] : NULL;
}

const larder_source larder__source_table = {
    .plugin = {.name = "table",
               .summary = "samples anywhere in files, by a .csv of file, offset, length and label",
               .state_size = sizeof(table)},
    .open = table_open,
    .close = table_close,
    .describe = describe,
    .stat = stat_one,
    .name = name,
    .class_name = class_name,
    .read = table_read,
};
