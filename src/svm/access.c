#include "svm/access.h"

#include "base/err.h"
#include "base/file.h"
#include "base/grow.h"
#include "base/mem.h"
#include "base/versions.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char magic[8] = "LARDROWS";
enum { HEAD_BYTES = 16 };
enum { END = 0, ROUND = 1, LEFT = 2, SOLVER = 3, SCORES = 4 };

/* ---- writing --------------------------------------------------------------------------------- */

struct larder__access_log {
    larder__fresh file;
    uint64_t rows, count, seen_count;
    uint8_t *seen;        /* by row: asked for so far? */
    unsigned char *bytes; /* one record */
    size_t size, cap;
};

static int reserve(larder__access_log *w, size_t bytes) {
    w->size = 0;
    return larder__room(&w->bytes, &w->cap, bytes, 1);
}

static void put_le(larder__access_log *w, uint64_t v, size_t n) {
    for (size_t i = 0; i < n; i++)
        w->bytes[w->size++] = (unsigned char)(v >> (8 * i));
}

static void put_count(larder__access_log *w, uint64_t v) {
    for (; v >= 0x80; v >>= 7)
        w->bytes[w->size++] = (unsigned char)(v | 0x80);
    w->bytes[w->size++] = (unsigned char)v;
}

static int flush(larder__access_log *w) {
    if (fwrite(w->bytes, 1, w->size, w->file.to) == w->size)
        return 0;
    int err = errno;
    return larder__fail(larder__code_of_errno(err), "%s: cannot be written: %s", w->file.path,
                        strerror(err));
}

int larder__access_log_open(larder__access_log **out, const char *path, uint64_t rows) {
    *out = NULL;
    if (rows >= UINT32_MAX)
        return larder__fail(LARDER_E_RANGE, "%s: %llu rows are too many", path,
                            (unsigned long long)rows);
    larder__access_log *w = larder__calloc(1, sizeof *w);
    if (!w)
        return LARDER_E_NOMEM;
    w->rows = rows;
    w->seen = larder__calloc(rows + 1, 1);
    int rc = w->seen ? larder__fresh_open(&w->file, path) : LARDER_E_NOMEM;
    if (rc == 0 && (rc = reserve(w, HEAD_BYTES)) == 0) {
        memcpy(w->bytes, magic, sizeof magic);
        w->size = sizeof magic;
        put_le(w, LARDER__ROWS_VERSION, 4);
        put_le(w, rows, 4);
        rc = flush(w);
    }
    if (rc < 0)
        larder__access_log_close(&w, rc);
    *out = w;
    return rc;
}

static int check_ids(const larder__access_log *w, const uint32_t *ids, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (ids[i] >= w->rows)
            return larder__fail(LARDER_E_RANGE, "%s: row %u of %llu", w->file.path, ids[i],
                                (unsigned long long)w->rows);
    return 0;
}

int larder__access_log_round(larder__access_log *w, const uint32_t *ids, size_t n,
                             uint32_t length) {
    int rc = check_ids(w, ids, n);
    if (rc < 0 || (rc = reserve(w, 16 + 5 * n)) < 0)
        return rc;
    w->bytes[w->size++] = ROUND;
    put_count(w, length);
    put_count(w, n);
    for (size_t i = 0; i < n; i++) {
        put_count(w, ids[i]);
        w->seen_count += !w->seen[ids[i]];
        w->seen[ids[i]] = 1;
    }
    w->count += n;
    return flush(w);
}

static int refuse(const larder__access_log *w, uint64_t row) {
    return larder__fail(LARDER_E_ARGS, "%s: row %llu: its distance is no number", w->file.path,
                        (unsigned long long)row);
}

int larder__access_log_leave(larder__access_log *w, const uint32_t *ids, const float *dist,
                             size_t n) {
    int rc = check_ids(w, ids, n);
    if (rc < 0 || (rc = reserve(w, 11 + 9 * n)) < 0)
        return rc;
    w->bytes[w->size++] = LEFT;
    put_count(w, n);
    for (size_t i = 0; i < n; i++) {
        uint32_t bits;
        if (isnan(dist[i]))
            return refuse(w, ids[i]);
        memcpy(&bits, &dist[i], sizeof bits);
        put_count(w, ids[i]);
        put_le(w, bits, 4);
    }
    return flush(w);
}

int larder__access_log_scores(larder__access_log *w, const float *dist) {
    int rc = reserve(w, 1 + 2 * w->seen_count);
    if (rc < 0)
        return rc;
    w->bytes[w->size++] = SCORES;
    for (uint64_t row = 0; row < w->rows; row++) {
        uint32_t bits;
        if (!w->seen[row])
            continue;
        if (isnan(dist[row]))
            return refuse(w, row);
        memcpy(&bits, &dist[row], sizeof bits);
        put_le(w, bits >> 16, 2); /* towards 0, so that infinity stays the only infinity */
    }
    return flush(w);
}

int larder__access_log_solver(larder__access_log *w, uint32_t number) {
    int rc = reserve(w, 8);
    if (rc < 0)
        return rc;
    w->bytes[w->size++] = SOLVER;
    put_count(w, number);
    return flush(w);
}

int larder__access_log_close(larder__access_log **pw, int rc) {
    larder__access_log *w = *pw;
    *pw = NULL;
    if (!w)
        return rc;
    if (rc == 0 && (rc = reserve(w, 9)) == 0) {
        w->bytes[w->size++] = END;
        put_le(w, w->count, 8);
        rc = flush(w);
    }
    rc = larder__fresh_close(&w->file, rc);
    larder__free(w->seen);
    larder__free(w->bytes);
    larder__free(w);
    return rc;
}

/* ---- reading --------------------------------------------------------------------------------- */

typedef struct cursor {
    const unsigned char *begin, *at, *end;
    const char *where;
    int code; /* sticky: after the first failure everything reads as 0 */
} cursor;

static uint64_t spoil(cursor *c, const char *why) {
    if (c->code == 0)
        c->code = larder__fail(LARDER_E_FORMAT, "%s: byte %zu: %s", c->where,
                               (size_t)(c->at - c->begin), why);
    c->at = c->end;
    return 0;
}

static uint64_t get_le(cursor *c, size_t n) {
    if ((size_t)(c->end - c->at) < n)
        return spoil(c, "the file ends too early");
    uint64_t v = 0;
    for (size_t i = 0; i < n; i++)
        v |= (uint64_t)c->at[i] << (8 * i);
    c->at += n;
    return v;
}

/* Below 2^32, in at most five bytes. */
static uint64_t get_count(cursor *c) {
    uint64_t v = 0;
    for (unsigned shift = 0; shift < 35; shift += 7) {
        if (c->at == c->end)
            return spoil(c, "the file ends too early");
        unsigned char b = *c->at++;
        v |= (uint64_t)(b & 0x7f) << shift;
        if (b < 0x80)
            return v > UINT32_MAX ? spoil(c, "a number is too large") : v;
    }
    return spoil(c, "a number is too long");
}

/* How many follow, at least `bytes` each: never more than the file can hold. */
static uint64_t get_many(cursor *c, size_t bytes) {
    uint64_t n = get_count(c);
    return n > (size_t)(c->end - c->at) / bytes ? spoil(c, "more is promised than there is") : n;
}

static uint32_t get_id(cursor *c, uint64_t rows) {
    uint64_t id = get_count(c);
    return (uint32_t)(id < rows || c->code ? id : spoil(c, "a row that there is not"));
}

typedef struct walker { /* counts at first; keeps when the arrays are there */
    cursor c;
    larder__accesses *to;
    uint8_t *seen; /* a bit a row: asked for so far? Pages are committed as they are touched */
    uint32_t *seen_rows;         /* them, as many as there are accesses at most */
    uint64_t seen_count, sorted; /* `sorted`: how many of them stand by rising id */
    larder__access_round next;
    bool fill;
} walker;

static void get_round(walker *w) {
    larder__accesses *to = w->to;
    larder__access_round *r = &w->next;
    r->length = (uint32_t)get_count(&w->c);
    uint64_t n = get_many(&w->c, 1);
    r->begin = to->count;
    for (uint64_t i = 0; i < n && w->c.code == 0; i++, to->count++) {
        uint32_t id = get_id(&w->c, to->rows);
        if (w->c.code == 0 && !(w->seen[id / 8] & 1u << id % 8)) {
            w->seen[id / 8] |= (uint8_t)(1u << id % 8);
            w->seen_rows[w->seen_count++] = id;
        }
        if (w->fill)
            to->ids[to->count] = id;
    }
    r->end = to->count;
    r->left_end = to->left.count;
    r->scored_end = to->scored.count;
    if (w->fill)
        to->round[to->rounds] = *r;
    to->rounds++;
    r->left_begin = r->left_end;
    r->scored_begin = r->scored_end;
}

static void keep_note(walker *w, larder__access_notes *to, uint32_t id, uint32_t bits) {
    float dist;
    memcpy(&dist, &bits, sizeof dist);
    if (isnan(dist))
        spoil(&w->c, "a distance that is no number");
    if (w->fill) {
        to->ids[to->count] = id;
        to->dist[to->count] = dist;
    }
    to->count++;
}

static void get_left(walker *w) {
    uint64_t n = get_many(&w->c, 5);
    for (uint64_t i = 0; i < n && w->c.code == 0; i++) {
        uint32_t id = get_id(&w->c, w->to->rows);
        keep_note(w, &w->to->left, id, (uint32_t)get_le(&w->c, 4));
    }
}

static int by_id(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

static void get_scores(walker *w) {
    if (w->seen_count > (size_t)(w->c.end - w->c.at) / 2)
        spoil(&w->c, "the file ends too early");
    else if (w->sorted < w->seen_count)
        qsort(w->seen_rows, w->seen_count, sizeof *w->seen_rows, by_id);
    w->sorted = w->seen_count;
    for (uint64_t i = 0; i < w->seen_count && w->c.code == 0; i++)
        keep_note(w, &w->to->scored, w->seen_rows[i], (uint32_t)get_le(&w->c, 2) << 16);
}

static int walk_records(walker *w) {
    cursor *c = &w->c;
    w->to->count = w->to->rounds = w->to->left.count = w->to->scored.count = 0;
    for (;;) {
        uint64_t kind = get_le(c, 1);
        if (c->code < 0)
            return c->code;
        if (kind == ROUND)
            get_round(w);
        else if (kind == LEFT)
            get_left(w);
        else if (kind == SCORES)
            get_scores(w);
        else if (kind == SOLVER)
            w->next.solver = (uint32_t)get_count(c);
        else if (kind != END)
            spoil(c, "neither a round nor anything else that is known");
        else if (get_le(c, 8) != w->to->count)
            spoil(c, "the sum of accesses is another");
        else if (c->at != c->end)
            spoil(c, "something follows the end");
        if (c->code < 0 || kind == END)
            return c->code;
    }
}

static int walk(walker w) {
    uint64_t most = (uint64_t)(w.c.end - w.c.at); /* an access has a byte at least */
    w.seen = larder__calloc(w.to->rows / 8 + 1, 1);
    w.seen_rows = larder__malloc((most + 1) * sizeof *w.seen_rows);
    int rc = w.seen && w.seen_rows ? walk_records(&w) : LARDER_E_NOMEM;
    larder__free(w.seen);
    larder__free(w.seen_rows);
    return rc;
}

static int open_notes(larder__access_notes *n) {
    n->ids = larder__malloc((n->count + 1) * sizeof *n->ids);
    n->dist = larder__malloc((n->count + 1) * sizeof *n->dist);
    return n->ids && n->dist ? 0 : LARDER_E_NOMEM;
}

int larder__accesses_parse(larder__accesses *out, const unsigned char *bytes, size_t size,
                           const char *where) {
    *out = (larder__accesses){0};
    if (size < HEAD_BYTES || memcmp(bytes, magic, sizeof magic) != 0)
        return larder__fail(LARDER_E_FORMAT, "%s: no recorded row accesses", where);
    walker w = {.c = {bytes, bytes + sizeof magic, bytes + size, where, 0}, .to = out};
    int rc = larder__version_check(LARDER__FORMAT_ROWS, where, get_le(&w.c, 4));
    if (rc < 0)
        return rc;
    out->rows = get_le(&w.c, 4);
    rc = walk(w);
    w.fill = true;
    if (rc == 0) {
        out->ids = larder__malloc((out->count + 1) * sizeof *out->ids);
        out->round = larder__malloc((out->rounds + 1) * sizeof *out->round);
        rc = out->ids && out->round ? open_notes(&out->left) : LARDER_E_NOMEM;
    }
    if (rc == 0 && (rc = open_notes(&out->scored)) == 0)
        rc = walk(w);
    if (rc < 0)
        larder__accesses_free(out);
    return rc;
}

int larder__accesses_read(larder__accesses *out, const char *path) {
    unsigned char *bytes;
    size_t size;
    *out = (larder__accesses){0};
    int rc = larder__file_read(path, (size_t)1 << 34, &bytes, &size);
    if (rc == 0)
        rc = larder__accesses_parse(out, bytes, size, path);
    larder__free(bytes);
    return rc;
}

void larder__accesses_free(larder__accesses *a) {
    larder__free(a->ids);
    larder__free(a->round);
    larder__free(a->left.ids);
    larder__free(a->left.dist);
    larder__free(a->scored.ids);
    larder__free(a->scored.dist);
    *a = (larder__accesses){0};
}

bool larder__accesses_probe(const char *path) {
    return larder__file_begins(path, magic, sizeof magic);
}
