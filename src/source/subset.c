#include "source/subset.h"

#include "base/err.h"
#include "base/file.h"
#include "base/grow.h"
#include "base/hash.h"
#include "base/mem.h"

#include <math.h>
#include <stdlib.h>

enum { NAME = 4096 };
#define MOST_BYTES ((size_t)4 << 30) /* of an index file */

void larder__subset_free(larder__subset *s) {
    larder__free(s->ids);
    *s = (larder__subset){0};
}

/* ---- take ------------------------------------------------------------------------------------ */

typedef struct taking { /* first .. first + n - 1, or n of all, spread evenly; or all but those */
    bool but, even;
    uint64_t first, n;
} taking;

static int no_take(const char *take, uint64_t count) {
    return larder__fail(LARDER_E_ARGS,
                        "take=%.40s is no part of %llu samples: first:last (last not included), a "
                        "number, a share as 10%%, or - and one of these for all others",
                        take, (unsigned long long)count);
}

static bool read_range(const char *text, uint64_t count, taking *t) {
    char *end = NULL;
    const char *colon = strchr(text, ':');
    uint64_t last = count;
    if (text != colon) {
        t->first = strtoull(text, &end, 10);
        if (end != colon)
            return false;
    }
    if (colon[1]) {
        last = strtoull(colon + 1, &end, 10);
        if (*end)
            return false;
    }
    t->n = last > t->first ? last - t->first : 0;
    return last <= count && t->n > 0;
}

static bool read_share(const char *text, uint64_t count, taking *t) {
    char *end = NULL;
    t->even = true;
    if (strchr(text, '%')) {
        double share = strtod(text, &end);
        t->n = share > 0 && share <= 100 ? (uint64_t)llround(share / 100 * (double)count) : 0;
        return strcmp(end, "%") == 0 && t->n > 0;
    }
    t->n = strtoull(text, &end, 10);
    return !*end && t->n > 0 && t->n <= count;
}

static int read_take(const char *text, uint64_t count, taking *t) {
    *t = (taking){.but = text[0] == '-', .n = count};
    const char *rest = text + t->but;
    /* Numbers only: strtoull and strtod would take signs, blanks and words as well. */
    bool fine = rest[0] && strspn(rest, "0123456789.:%") == strlen(rest) &&
                (strchr(rest, ':') ? read_range(rest, count, t) : read_share(rest, count, t));
    return fine && (!t->but || t->n < count) ? 0 : no_take(text, count);
}

static uint64_t place_of(const taking *t, uint64_t count, uint64_t i) {
    return t->even ? i * count / t->n : t->first + i;
}

/* The places among `count` that are left, in order. */
static int take_places(const taking *t, uint64_t count, larder__subset *out) {
    out->count = t->but ? count - t->n : t->n;
    out->ids = larder__malloc(out->count * sizeof *out->ids);
    if (!out->ids)
        return LARDER_E_NOMEM;
    uint64_t k = 0, at = 0;
    for (uint64_t i = 0; i < t->n; i++) {
        uint64_t place = place_of(t, count, i);
        for (; t->but && at < place; at++)
            out->ids[k++] = at;
        at = place + 1;
        if (!t->but)
            out->ids[k++] = place;
    }
    for (; t->but && at < count; at++)
        out->ids[k++] = at;
    return 0;
}

/* ---- ids ------------------------------------------------------------------------------------- */

typedef struct named {
    uint64_t hash, id;
} named;

typedef struct lookup { /* ids by their names; made for the first line that is no number */
    const larder_source *source;
    void *st;
    uint64_t count;
    named *all;
} lookup;

static int by_hash(const void *a, const void *b) {
    const named *x = a, *y = b;
    return x->hash < y->hash ? -1 : x->hash > y->hash;
}

static int make_lookup(lookup *l) {
    l->all = larder__malloc(l->count * sizeof *l->all);
    if (!l->all)
        return LARDER_E_NOMEM;
    for (uint64_t id = 0; id < l->count; id++) {
        char name[NAME];
        int rc = l->source->name(l->st, id, name, sizeof name);
        if (rc < 0)
            return rc;
        l->all[id] = (named){larder__hash_bytes(0, name, strlen(name)), id};
    }
    qsort(l->all, l->count, sizeof *l->all, by_hash);
    return 0;
}

/* 0, 1: there is none, or negative. */
static int find_name(lookup *l, const char *line, size_t n, uint64_t *id) {
    char name[NAME];
    int rc = l->all ? 0 : make_lookup(l);
    if (rc < 0)
        return rc;
    uint64_t hash = larder__hash_bytes(0, line, n), low = 0, high = l->count;
    while (low < high) {
        uint64_t mid = low + (high - low) / 2;
        if (l->all[mid].hash < hash)
            low = mid + 1;
        else
            high = mid;
    }
    for (; low < l->count && l->all[low].hash == hash; low++) {
        rc = l->source->name(l->st, l->all[low].id, name, sizeof name);
        if (rc < 0)
            return rc;
        if (strlen(name) == n && memcmp(name, line, n) == 0) {
            *id = l->all[low].id;
            return 0;
        }
    }
    return 1;
}

static bool is_number(const char *line, size_t n, uint64_t *id) {
    *id = 0;
    for (size_t i = 0; i < n; i++) {
        if (line[i] < '0' || line[i] > '9' || n > 18)
            return false;
        *id = *id * 10 + (uint64_t)(line[i] - '0');
    }
    return n > 0;
}

typedef struct index_file {
    const char *path;
    larder__subset *out;
    size_t cap;
    uint8_t *seen; /* a bit an id */
    lookup names;
    uint64_t line;
} index_file;

static int add_line(index_file *f, const char *line, size_t n) {
    uint64_t id;
    int rc = is_number(line, n, &id) ? id >= f->names.count : find_name(&f->names, line, n, &id);
    if (rc > 0)
        return larder__fail(LARDER_E_NOTFOUND, "%s, line %llu: there is no sample \"%.*s\"",
                            f->path, (unsigned long long)f->line, n < 200 ? (int)n : 200, line);
    if (rc == 0 && f->seen[id / 8] >> id % 8 & 1)
        return larder__fail(LARDER_E_FORMAT, "%s, line %llu: sample %.*s has come before", f->path,
                            (unsigned long long)f->line, n < 200 ? (int)n : 200, line);
    if (rc == 0)
        rc = larder__grow(&f->out->ids, &f->cap, f->out->count + 1, sizeof *f->out->ids);
    if (rc < 0)
        return rc;
    f->seen[id / 8] |= (uint8_t)(1u << id % 8);
    f->out->ids[f->out->count++] = id;
    return 0;
}

static int read_lines(index_file *f, const char *text, size_t size) {
    int rc = 0;
    for (size_t at = 0; rc == 0 && at < size;) {
        const char *line = text + at, *end = memchr(line, '\n', size - at);
        size_t n = end ? (size_t)(end - line) : size - at;
        at += n + 1;
        f->line++;
        n -= n > 0 && line[n - 1] == '\r';
        rc = n ? add_line(f, line, n) : 0;
    }
    if (rc == 0 && f->out->count == 0)
        rc = larder__fail(LARDER_E_NOTFOUND, "%s names no sample", f->path);
    return rc;
}

static int read_index(larder__subset *out, const larder_source *source, void *st, uint64_t count,
                      const char *path) {
    index_file f = {.path = path, .out = out, .names = {source, st, count, NULL}};
    unsigned char *text = NULL;
    size_t size;
    int rc = larder__file_read(path, MOST_BYTES, &text, &size);
    if (rc == 0 && !(f.seen = larder__calloc(count / 8 + 1, 1)))
        rc = LARDER_E_NOMEM;
    if (rc == 0)
        rc = read_lines(&f, (const char *)text, size);
    larder__free(text);
    larder__free(f.seen);
    larder__free(f.names.all);
    return rc;
}

int larder__subset_make(larder__subset *s, const larder_source *source, void *st, uint64_t count,
                        const char *take, const char *ids) {
    larder__subset listed = {0};
    taking t;
    *s = (larder__subset){0};
    int rc = ids[0] ? read_index(&listed, source, st, count, ids) : 0;
    uint64_t among = listed.count ? listed.count : count;
    if (rc == 0 && !take[0]) {
        *s = listed;
        return 0;
    }
    if (rc == 0)
        rc = read_take(take, among, &t);
    if (rc == 0)
        rc = take_places(&t, among, s);
    for (uint64_t i = 0; rc == 0 && listed.count && i < s->count; i++)
        s->ids[i] = listed.ids[s->ids[i]];
    larder__subset_free(&listed);
    if (rc < 0)
        larder__subset_free(s);
    return rc;
}
