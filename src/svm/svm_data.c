#include "svm/svm_data.h"

#include "base/err.h"
#include "base/limit.h"
#include "base/mem.h"
#include "source/unpack.h"
#include "svm/svm_text.h"

#include <math.h>
#include <string.h>

enum { FIRST_CHUNK = 1 << 16, CHUNK = 1 << 20 };

/* ---- memory ---------------------------------------------------------------------------------- */

static int resize(void *at, size_t count, size_t bytes) {
    void *fresh, *old;
    memcpy(&old, at, sizeof old);
    if (count > SIZE_MAX / bytes || !(fresh = larder__realloc(old, count * bytes)))
        return larder__fail(LARDER_E_NOMEM, "no memory for %zu entries of a data set", count);
    memcpy(at, &fresh, sizeof fresh);
    return 0;
}

static uint64_t doubled(uint64_t room, uint64_t want) {
    uint64_t next = room ? room + room / 2 : 1024;
    return next > want ? next : want;
}

int larder__svm_data_grow(larder_svm_data *d, size_t rows, uint64_t pairs, uint64_t labels) {
    int rc = 0;
    if (rows > d->row_room || !d->start) {
        size_t room = doubled(d->row_room, rows);
        rc = resize(&d->start, room + 1, sizeof *d->start);
        rc = rc < 0 ? rc : resize(&d->label, room, sizeof *d->label);
        if (rc == 0 && d->list_start)
            rc = resize(&d->list_start, room + 1, sizeof *d->list_start);
        if (rc < 0)
            return rc;
        d->start[0] = 0;
        d->row_room = room;
    }
    if (pairs > d->pair_room) {
        uint64_t room = doubled(d->pair_room, pairs);
        rc = resize(&d->index, room, sizeof *d->index);
        rc = rc < 0 ? rc : resize(&d->value, room, sizeof *d->value);
        if (rc < 0)
            return rc;
        d->pair_room = room;
    }
    if (labels > d->list_room) {
        uint64_t room = doubled(d->list_room, labels);
        if ((rc = resize(&d->list, room, sizeof *d->list)) < 0)
            return rc;
        d->list_room = room;
    }
    return 0;
}

int larder__svm_data_new(larder_svm_data **out, bool lists) {
    larder_svm_data *d = larder__calloc(1, sizeof *d);
    if (!d)
        return larder__fail(LARDER_E_NOMEM, "no memory for a data set");
    *out = d;
    if (lists && !(d->list_start = larder__calloc(1, sizeof *d->list_start)))
        return larder__fail(LARDER_E_NOMEM, "no memory for a data set");
    return larder__svm_data_grow(d, 0, 0, 0);
}

void larder_svm_data_close(larder_svm_data **data) {
    larder_svm_data *d = *data;
    if (!d)
        return;
    larder__free(d->start);
    larder__free(d->index);
    larder__free(d->value);
    larder__free(d->label);
    larder__free(d->weight);
    larder__free(d->list_start);
    larder__free(d->list);
    larder__free(d);
    *data = NULL;
}

const double *larder_svm_labels(const larder_svm_data *d, size_t *rows) {
    *rows = d->rows;
    return d->label;
}

bool larder__svm_data_has(const larder_svm_data *d, size_t row, double label) {
    if (!d->list_start)
        return d->label[row] == label;
    for (uint64_t p = d->list_start[row]; p < d->list_start[row + 1]; p++)
        if (d->list[p] == label)
            return true;
    return false;
}

/* ---- one line -------------------------------------------------------------------------------- */

static int read_labels(larder_svm_data *d, larder__line *l, uint64_t *labels) {
    d->label[d->rows] = NAN;
    if (*l->at == ',') { /* the empty list */
        l->at++;
        return 0;
    }
    for (bool first = true;; first = false) {
        double x;
        int rc = larder__line_number(l, &x, "a label that is a number");
        rc = rc < 0 ? rc : larder__svm_data_grow(d, 0, 0, *labels + 1);
        if (rc < 0)
            return rc;
        d->list[(*labels)++] = x;
        if (first)
            d->label[d->rows] = x;
        if (l->at == l->end || *l->at != ',')
            return 0;
        l->at++;
    }
}

static int read_label(larder_svm_data *d, larder__line *l) {
    int rc = larder__line_number(l, &d->label[d->rows], "a label that is a number");
    if (rc == 0 && l->at < l->end && *l->at == ',')
        return larder__line_fail(l, l->at, "one label (lists of labels want --multi-label)");
    return rc;
}

int larder__svm_data_pairs(larder_svm_data *d, larder__line *l, uint32_t first, uint64_t *pairs) {
    int64_t last = -1;
    uint64_t at = *pairs;
    int rc = d->pair_room ? 0 : larder__svm_data_grow(d, 0, 1, 0);
    if (rc < 0)
        return rc;
    for (;;) {
        at += larder__line_plain_pairs(l, &last, first, d->index + at, d->value + at,
                                       (size_t)(d->pair_room - at));
        if (!larder__line_more(l))
            break;
        if (at == d->pair_room && (rc = larder__svm_data_grow(d, 0, at + 1, 0)) < 0)
            return rc;
        if ((rc = larder__line_pair(l, last, first, &d->index[at], &d->value[at])) < 0)
            return rc;
        last = d->index[at++];
    }
    if (last > (int64_t)d->features)
        d->features = (uint32_t)last;
    *pairs = at;
    return 0;
}

static int read_line(larder_svm_data *d, larder__line *l, uint32_t first) {
    if (!larder__line_more(l))
        return larder__line_fail(l, l->at, "a label");
    uint64_t pairs = d->start[d->rows], labels = d->list_start ? d->list_start[d->rows] : 0;
    int rc = larder__svm_data_grow(d, d->rows + 1, 0, 0);
    if (rc == 0)
        rc = d->list_start ? read_labels(d, l, &labels) : read_label(d, l);
    if (rc == 0)
        rc = larder__svm_data_pairs(d, l, first, &pairs);
    if (rc < 0)
        return rc;
    d->rows++;
    d->start[d->rows] = pairs;
    if (d->list_start)
        d->list_start[d->rows] = labels;
    return 0;
}

/* ---- a file, in chunks of whole lines -------------------------------------------------------- */

typedef struct feed {
    larder__unpack *from;
    char *buf;
    size_t size, room, line;
    size_t blank; /* number of the first empty line after the last full one, 0: none */
    bool ended;
} feed;

static int refill(feed *f) {
    if (!f->from) { /* all of it is there */
        f->ended = true;
        return 0;
    }
    bool longer = f->room >= CHUNK; /* a line, than the buffer */
    if (f->room < CHUNK || f->room - f->size < CHUNK / 2) {
        size_t room = longer ? f->room * 2 : f->room ? CHUNK : FIRST_CHUNK;
        bool allowed = !longer || larder__memory_allows(room) == 0;
        char *fresh = allowed ? larder__realloc(f->buf, room) : NULL;
        if (!fresh)
            return larder__fail_in(LARDER_E_NOMEM, "a line of %zu bytes", f->size);
        f->buf = fresh;
        f->room = room;
    }
    size_t want = f->room - f->size, got = 0;
    int rc = larder__unpack_read(f->from, f->buf + f->size, want, &got);
    f->size += got;
    f->ended = rc == 0 && got < want;
    return rc;
}

static int take_line(larder_svm_data *d, feed *f, const char *path, const char *at, size_t n,
                     uint32_t first) {
    larder__line l = {.at = at,
                      .end = at + n,
                      .begin = at,
                      .stop = f->buf + f->size,
                      .name = path,
                      .number = ++f->line};
    if (d->rows >= UINT32_MAX - 1)
        return larder__fail(LARDER_E_RANGE, "%s: more than 4294967294 rows", path);
    if (!larder__line_more(&l)) { /* fine at the end of the file alone */
        f->blank = f->blank ? f->blank : f->line;
        return 0;
    }
    if (f->blank) {
        l.number = f->blank;
        l.at = l.end = l.begin;
        return larder__line_fail(&l, l.begin, "a label");
    }
    l.at = at;
    return read_line(d, &l, first);
}

static int read_all(larder_svm_data *d, feed *f, const char *path, uint32_t first) {
    while (!f->ended) {
        int rc = refill(f);
        if (rc < 0)
            return rc;
        const char *at = f->buf, *stop = f->buf + f->size, *newline;
        while ((newline = memchr(at, '\n', (size_t)(stop - at)))) {
            if ((rc = take_line(d, f, path, at, (size_t)(newline - at), first)) < 0)
                return rc;
            at = newline + 1;
        }
        f->size = (size_t)(stop - at);
        memmove(f->buf, at, f->size);
    }
    return f->size ? take_line(d, f, path, f->buf, f->size, first) : 0;
}

static int read_feed(larder_svm_data **out, feed *f, const char *name, unsigned flags) {
    int rc = larder__svm_data_new(out, (flags & LARDER_SVM_MULTI_LABEL) != 0);
    if (rc == 0)
        rc = read_all(*out, f, name, (flags & LARDER_SVM_INDEX_ZERO) ? 0 : 1);
    if (rc == 0 && (*out)->rows == 0)
        rc = larder__fail(LARDER_E_FORMAT, "%s: there is no row in it", name);
    larder__unpack_close(&f->from);
    larder__free(f->buf);
    if (rc < 0)
        larder_svm_data_close(out);
    return rc;
}

int larder_svm_read(larder_svm_data **out, const char *path, unsigned flags) {
    feed f = {0};
    *out = NULL;
    int rc = larder__unpack_open(&f.from, path);
    return rc < 0 ? rc : read_feed(out, &f, path, flags);
}

int larder__svm_parse(larder_svm_data **out, const void *bytes, size_t size, const char *name,
                      unsigned flags) {
    feed f = {.buf = larder__malloc(size + 1), .size = size, .room = size};
    *out = NULL;
    if (!f.buf)
        return larder__fail(LARDER_E_NOMEM, "no memory for %zu bytes", size);
    memcpy(f.buf, bytes, size);
    return read_feed(out, &f, name, flags);
}

int larder__svm_data_pick(larder_svm_data **out, const larder_svm_data *from, const uint32_t *pick,
                          size_t n) {
    uint64_t pairs = 0;
    for (size_t i = 0; i < n; i++)
        pairs += from->start[pick[i] + 1] - from->start[pick[i]];
    int rc = larder__svm_data_new(out, false);
    if (rc == 0)
        rc = larder__svm_data_grow(*out, n, pairs, 0);
    larder_svm_data *d = *out;
    if (rc < 0 || !d) {
        larder_svm_data_close(out);
        return rc;
    }
    d->features = from->features;
    for (size_t i = 0; i < n; i++) {
        uint64_t at = from->start[pick[i]], count = from->start[pick[i] + 1] - at;
        d->label[i] = from->label[pick[i]];
        if (count) {
            memcpy(d->index + d->start[i], from->index + at, count * sizeof *d->index);
            memcpy(d->value + d->start[i], from->value + at, count * sizeof *d->value);
        }
        d->start[i + 1] = d->start[i] + count;
    }
    d->rows = n;
    return 0;
}
