#include "source/file_groups.h"

#include "base/file.h"
#include "base/grow.h"
#include "base/mem.h"
#include "source/answer.h"

#include <limits.h>
#include <stdlib.h>
#include <strings.h>

struct larder__grouped {
    size_t path, stem; /* in text; bytes of it up to the ending's dot */
    size_t number;
    uint8_t which, rank;
};
typedef struct larder__grouped grouped;

/* Does the name end in one of "jpg|png"? Its place among them from 1 on, and the ending's length.
 */
static uint8_t rank_of(const char *wanted, const char *name, size_t *length) {
    size_t n = strlen(name);
    uint8_t rank = 1;
    for (const char *at = wanted; at[0] && rank < UINT8_MAX; rank++) {
        size_t m = strcspn(at, "|");
        if (m && n > m + 1 && name[n - m - 1] == '.' && strncasecmp(name + n - m, at, m) == 0) {
            *length = m;
            return rank;
        }
        at += m + (at[m] == '|');
    }
    return 0;
}

/* The field whose ending is longest: seg.png, where png is wanted too. */
static bool match(const larder__file_groups *g, const char *name, grouped *out, size_t *ending) {
    size_t longest = 0;
    for (size_t w = 0; w < g->wanted_count; w++) {
        size_t n = 0;
        uint8_t rank = rank_of(g->wanted[w], name, &n);
        if (rank && n > longest) {
            longest = n;
            out->which = (uint8_t)w;
            out->rank = rank;
        }
    }
    *ending = longest;
    return longest > 0;
}

bool larder__file_groups_take(const larder__file_groups *g, const char *name) {
    grouped unused;
    size_t ending;
    return name[0] != '.' && match(g, name, &unused, &ending);
}

int larder__file_groups_want(larder__file_groups *g, const char *const *names, size_t n) {
    if (n > LARDER__GROUP_FIELDS)
        return larder__fail(LARDER_E_ARGS, "%zu fields; at most %d files make a sample", n,
                            LARDER__GROUP_FIELDS);
    for (size_t i = 0; i < n; i++, g->wanted_count++)
        if (!(g->wanted[i] = larder__strdup(names[i])))
            return LARDER_E_NOMEM;
    return 0;
}

int larder__file_groups_add(larder__file_groups *g, const char *path, size_t number) {
    size_t n = strlen(path), ending;
    grouped f = {.path = g->text_used, .number = number};
    if (!match(g, larder__name_in(path), &f, &ending))
        return 0;
    f.stem = n - ending - 1;
    int rc = larder__grow(&g->text, &g->text_cap, g->text_used + n + 1, 1);
    if (rc == 0)
        rc = larder__grow(&g->files, &g->files_cap, g->files_used + 1, sizeof *g->files);
    if (rc < 0)
        return rc;
    memcpy(g->text + g->text_used, path, n + 1);
    g->text_used += n + 1;
    g->files[g->files_used++] = f;
    return 0;
}

static int by_stem(const grouped *a, const grouped *b, const char *text) {
    size_t n = a->stem < b->stem ? a->stem : b->stem;
    int order = memcmp(text + a->path, text + b->path, n);
    return order ? order : (a->stem > b->stem) - (a->stem < b->stem);
}

static int by_place(const void *p, const void *q, void *text) {
    const grouped *a = p, *b = q;
    int order = by_stem(a, b, text);
    if (order == 0)
        order = (a->which > b->which) - (a->which < b->which);
    return order ? order : (a->rank > b->rank) - (a->rank < b->rank);
}

static bool has_stem(const larder__file_groups *g, const grouped *want) {
    size_t low = 0, high = g->files_used;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        int order = by_stem(&g->files[mid], want, g->text);
        if (order == 0)
            return true;
        if (order < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return false;
}

/* 7.seg.png where 7.png is a sample: a field of that one which nobody asked for. */
static bool belongs(const larder__file_groups *g, const grouped *f) {
    const char *path = g->text + f->path, *name = larder__name_in(path);
    for (size_t k = (size_t)(name - path) + 1; k < f->stem; k++)
        if (path[k] == '.' && has_stem(g, &(grouped){.path = f->path, .stem = k}))
            return true;
    return false;
}

static int put_file(larder__file_groups *g, uint64_t file, const grouped *f,
                    larder__file_groups_put put, void *arg) {
    int rc = larder__grow(&g->which, &g->which_cap, file + 1, 1);
    if (rc < 0)
        return rc;
    g->which[file] = f->which;
    return put(arg, f->number);
}

int larder__file_groups_end(larder__file_groups *g, larder__file_groups_put put, void *arg) {
    int rc =
        larder__grow(&g->firsts, &g->firsts_cap, g->count + g->files_used + 1, sizeof *g->firsts);
    if (rc < 0)
        return rc;
    uint64_t file = g->count ? g->firsts[g->count] : 0;
    if (g->files_used)
        qsort_r(g->files, g->files_used, sizeof *g->files, by_place, g->text);
    for (size_t i = 0; g->files && rc == 0 && i < g->files_used; i++) {
        const grouped *f = &g->files[i], *before = i ? f - 1 : NULL;
        bool same = before && by_stem(f, before, g->text) == 0;
        if ((same && before->which == f->which) || belongs(g, f))
            continue; /* another that would do as well, or one of another sample's */
        if (!same)
            g->firsts[g->count++] = file;
        rc = put_file(g, file++, f, put, arg);
    }
    g->firsts[g->count] = file;
    g->files_used = g->text_used = 0;
    return rc;
}

void larder__file_groups_free(larder__file_groups *g) {
    for (size_t i = 0; i < g->wanted_count; i++)
        larder__free(g->wanted[i]);
    larder__free(g->firsts);
    larder__free(g->which);
    larder__free(g->files);
    larder__free(g->text);
    *g = (larder__file_groups){0};
}

/* ---- samples --------------------------------------------------------------------------------- */

/* The fields of a sample as far as there are files for them; returns how many. */
static size_t fields_of(const larder__file_groups *g, const larder__file_set *s, uint64_t id,
                        larder__field *out) {
    size_t n = 0;
    for (uint64_t f = g->firsts[id]; f < g->firsts[id + 1]; f++, n++)
        out[n] = (larder__field){.kind = LARDER__FIELD_BYTES,
                                 .dtype = LARDER_U8,
                                 .name = g->wanted[g->which[f]],
                                 .name_bytes = strlen(g->wanted[g->which[f]]),
                                 .bytes = larder__file_set_bytes(s, f)};
    return n;
}

uint64_t larder__file_groups_bytes(const larder__file_groups *g, const larder__file_set *s,
                                   uint64_t id) {
    larder__field fields[LARDER__GROUP_FIELDS];
    return larder__parcel_bytes(fields, fields_of(g, s, id, fields));
}

static int missing(const larder__file_groups *g, uint64_t id, const char *name) {
    bool there[LARDER__GROUP_FIELDS] = {false};
    for (uint64_t f = g->firsts[id]; f < g->firsts[id + 1]; f++)
        there[g->which[f]] = true;
    size_t w = 0;
    while (there[w])
        w++;
    return larder__fail(LARDER_E_NOTFOUND, "%.120s has no file \"%.60s\" beside it", name,
                        g->wanted[w]);
}

static int read_sample(const larder__file_groups *g, void *set, larder__file_path path, uint64_t id,
                       larder_buf **out) {
    larder__field fields[LARDER__GROUP_FIELDS];
    larder_read reads[LARDER__GROUP_FIELDS] = {0};
    uint64_t files[LARDER__GROUP_FIELDS] = {0};
    size_t n = fields_of(g, set, id, fields);
    if (n < g->wanted_count) {
        char name[2 * PATH_MAX];
        path(set, g->firsts[id], name, sizeof name);
        return missing(g, id, name);
    }
    for (size_t i = 0; i < n; i++)
        files[i] = g->firsts[id] + i;
    int rc = larder__file_set_read(set, path, files, n, reads);
    for (size_t i = 0; rc == 0 && i < n; i++) {
        if (reads[i].code < 0)
            rc = larder__fail(reads[i].code, "%s", reads[i].why);
        else
            fields[i].data = larder_buf_data(reads[i].buf);
    }
    if (rc == 0)
        rc = larder__parcel_make(out, fields, n);
    for (size_t i = 0; i < n; i++)
        larder_buf_unref(&reads[i].buf);
    return rc;
}

int larder__file_groups_read(const larder__file_groups *g, void *set, larder__file_path path,
                             const uint64_t *ids, size_t n, larder_read *out) {
    for (size_t i = 0; i < n; i++) {
        larder_buf *buf = NULL;
        int rc = read_sample(g, set, path, ids[i], &buf);
        if (rc < 0)
            larder__answer_failure(&out[i], rc);
        else
            larder__answer_buf(&out[i], buf);
    }
    return 0;
}
