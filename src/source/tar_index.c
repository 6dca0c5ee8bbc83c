#include "source/tar_index.h"

#include "base/file.h"
#include "base/grow.h"
#include "base/hash.h"
#include "base/state.h"
#include "source/keep.h"

#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

/* ---- keys: members that share one ------------------------------------------------------------ */

/* The key ends at the first dot of the file's own name; returns the ending after it, or NULL. */
static const char *split_key(const char *path, size_t *key_size) {
    const char *dot = strchr(larder__name_in(path), '.');
    *key_size = dot ? (size_t)(dot - path) : strlen(path);
    return dot ? dot + 1 : NULL;
}

static int parse_label(larder__tar *t, const larder__tar_member *m, int32_t *out) {
    const unsigned char *text;
    size_t n = (size_t)m->bytes, i = 0;
    uint64_t v = 0;
    int rc = m->bytes == 0 || m->bytes > 64 ? LARDER_E_FORMAT
                                            : larder__tar_bytes(t, m->offset, n, &text);
    if (rc == 0) {
        while (n > 0 && isspace(text[n - 1]))
            n--;
        for (; i < n && isdigit(text[i]) && v <= INT32_MAX; i++)
            v = v * 10 + (uint64_t)(text[i] - '0');
        if (n > 0 && i == n && v <= INT32_MAX) {
            *out = (int32_t)v;
            return 0;
        }
    }
    return larder__fail(LARDER_E_FORMAT,
                        "%s: %.200s at byte %llu is not a class number of 0 to 2147483647",
                        t->label, m->path, (unsigned long long)m->header);
}

static uint32_t ending_of(larder__tar_index *x, const char *ending, int *rc) {
    enum { LONGEST = 31 };
    const char *at = x->endings.bytes;
    size_t n = ending ? strlen(ending) : 0;
    if (x->endings.count == 0)
        *rc = larder__names_add(&x->endings, "", 0);
    if (n == 0 || n > LONGEST)
        return 0;
    for (uint32_t i = 0; i < x->endings.count && at; i++, at += strlen(at) + 1)
        if (strcmp(at, ending) == 0)
            return i;
    if (x->endings.count == LARDER__TAR_ENDINGS || *rc < 0)
        return 0; /* dots in names make endings without end */
    *rc = larder__names_add(&x->endings, ending, n);
    return *rc < 0 ? 0 : (uint32_t)x->endings.count - 1;
}

static int add_key(larder__tar_index *x, const char *key, size_t n, int32_t label) {
    uint64_t i = x->keys.count;
    int rc = larder__grow(&x->labels, &x->labels_cap, i + 1, sizeof *x->labels);
    if (rc == 0)
        rc = larder__grow(&x->firsts, &x->firsts_cap, i + 2, sizeof *x->firsts);
    if (rc == 0)
        rc = larder__names_add(&x->keys, key, n);
    if (rc < 0)
        return rc;
    x->labels[i] = label;
    x->firsts[i] = x->firsts[i + 1] = x->part_count;
    return 0;
}

/* To the key that was added last. */
static int add_part(larder__tar_index *x, uint32_t block, uint32_t bytes, uint32_t ending) {
    int rc = larder__grow(&x->parts, &x->parts_cap, x->part_count + 1, sizeof *x->parts);
    if (rc < 0)
        return rc;
    x->parts[x->part_count++] = (larder__tar_part){block, bytes, ending};
    x->firsts[x->keys.count] = x->part_count;
    return 0;
}

static bool is_class(const char *ending) { return ending && strcasecmp(ending, "cls") == 0; }

static int take_member(larder__tar_index *x, larder__tar *t, const larder__tar_member *m,
                       const char *ending) {
    int rc = 0;
    int32_t *label = &x->labels[x->keys.count - 1];
    if (m->offset / LARDER__TAR_BLOCK > UINT32_MAX)
        return larder__fail(LARDER_E_FORMAT, "%s: a shard of more than 2 TiB", t->label);
    if (is_class(ending)) {
        if (*label >= 0)
            return larder__fail(LARDER_E_FORMAT, "%s: %.200s is there twice, again at byte %llu",
                                t->label, m->path, (unsigned long long)m->header);
        rc = parse_label(t, m, label);
    }
    uint32_t number = rc == 0 ? ending_of(x, ending, &rc) : 0;
    return rc < 0 ? rc
                  : add_part(x, (uint32_t)(m->offset / LARDER__TAR_BLOCK),
                             m->bytes < UINT32_MAX ? (uint32_t)m->bytes : UINT32_MAX, number);
}

int larder__tar_index_build(larder__tar_index *x, larder__tar *t) {
    larder__tar_member *m = larder__malloc(sizeof *m);
    char *key = larder__malloc(LARDER__TAR_PATH);
    size_t size = SIZE_MAX; /* of the key: there is none yet */
    int rc = m && key ? 0 : LARDER_E_NOMEM;
    while (rc == 0 && (rc = larder__tar_next(t, m)) > 0) {
        size_t n;
        const char *ending = split_key(m->path, &n);
        rc = 0;
        if (size != n || memcmp(key, m->path, n) != 0) {
            memcpy(key, m->path, n);
            size = n;
            rc = add_key(x, key, n, -1);
        }
        if (rc == 0)
            rc = take_member(x, t, m, ending);
    }
    larder__free(m);
    larder__free(key);
    return rc;
}

int larder__tar_index_append(larder__tar_index *to, const larder__tar_index *from) {
    uint32_t endings[LARDER__TAR_ENDINGS];
    int rc = 0;
    for (uint64_t i = 0; i < from->endings.count; i++)
        endings[i] = ending_of(to, larder__names_get(&from->endings, i), &rc);
    for (uint64_t k = 0; rc == 0 && k < from->keys.count; k++) {
        const char *key = larder__names_get(&from->keys, k);
        rc = add_key(to, key, strlen(key), from->labels[k]);
        for (uint64_t i = from->firsts[k]; rc == 0 && i < from->firsts[k + 1]; i++)
            rc = add_part(to, from->parts[i].block, from->parts[i].bytes,
                          endings[from->parts[i].ending]);
    }
    return rc;
}

static void free_keys(larder__tar_index *x) {
    larder__names_free(&x->keys);
    larder__free(x->labels);
    larder__free(x->firsts);
    larder__free(x->parts);
    x->labels = NULL;
    x->firsts = NULL;
    x->parts = NULL;
    x->labels_cap = x->firsts_cap = x->parts_cap = 0;
    x->part_count = 0;
}

void larder__tar_index_free(larder__tar_index *x) {
    free_keys(x);
    for (size_t i = 0; i < x->wanted_count; i++)
        larder__free(x->wanted[i]);
    larder__names_free(&x->endings);
    larder__free(x->entries);
    larder__names_free(&x->names);
    *x = (larder__tar_index){0};
}

/* ---- samples --------------------------------------------------------------------------------- */

static int add_entry(larder__tar_index *x, const larder__tar_entry *e, const char *name, size_t n) {
    int rc = larder__grow(&x->entries, &x->cap, x->count + 1, sizeof *x->entries);
    if (rc == 0)
        rc = larder__names_add(&x->names, name, n);
    if (rc == 0)
        x->entries[x->count++] = *e;
    return rc;
}

typedef struct sort_of { /* of an ending, asked once */
    bool picture, label;
} sort_of;

/* A key with a picture is a sample, whatever else it has; one without (a README, a .json alone) is
 * none. */
static int choose_picture(larder__tar_index *x, uint64_t k, const char *key, const sort_of *sorts) {
    const larder__tar_part *image = NULL;
    char path[2 * LARDER__TAR_PATH];
    for (uint64_t i = x->firsts[k]; i < x->firsts[k + 1]; i++) {
        const larder__tar_part *p = &x->parts[i];
        if (sorts[p->ending].picture && !image)
            image = p; /* of two forms of an image the first counts */
        else if (!sorts[p->ending].label)
            larder__found_unused(&x->found, key, larder__names_get(&x->endings, p->ending));
    }
    if (!image)
        return x->labels[k] < 0
                   ? 0
                   : larder__fail(LARDER_E_FORMAT,
                                  "%.200s has a .cls and no image; fields= takes other members",
                                  key);
    int n =
        snprintf(path, sizeof path, "%s.%s", key, larder__names_get(&x->endings, image->ending));
    if (image->bytes == UINT32_MAX)
        return larder__fail(LARDER_E_FORMAT, "%.200s: 4 GiB or more is no sample", path);
    larder__tar_entry e = {(uint64_t)image->block * LARDER__TAR_BLOCK, image->bytes, x->labels[k]};
    larder__found_sample(&x->found, path);
    return add_entry(x, &e, path, (size_t)n);
}

/* The parts that the wanted fields are; NULL where there is none. Returns how many there are. */
static size_t find_parts(const larder__tar_index *x, uint64_t k, const larder__tar_part **out) {
    size_t found = 0;
    for (size_t w = 0; w < x->wanted_count; w++) {
        uint8_t best = 0;
        out[w] = NULL;
        for (uint64_t i = x->firsts[k]; i < x->firsts[k + 1]; i++) {
            uint8_t rank = x->rank[w][x->parts[i].ending];
            if (rank && (!best || rank < best)) {
                best = rank;
                out[w] = &x->parts[i];
            }
        }
        found += best != 0;
    }
    return found;
}

/* Those that are there, moved together; returns how many. */
static size_t name_fields(const larder__tar_index *x, const larder__tar_part **parts,
                          larder__field *out) {
    size_t n = 0;
    for (size_t w = 0; w < x->wanted_count; w++) {
        if (!parts[w])
            continue;
        out[n] = (larder__field){.kind = LARDER__FIELD_BYTES,
                                 .dtype = LARDER_U8,
                                 .name = x->wanted[w],
                                 .name_bytes = strlen(x->wanted[w]),
                                 .bytes = parts[w]->bytes};
        parts[n++] = parts[w];
    }
    return n;
}

static int choose_fields(larder__tar_index *x, uint64_t k, const char *key) {
    const larder__tar_part *parts[LARDER__TAR_WANTED];
    larder__field fields[LARDER__TAR_WANTED];
    char path[2 * LARDER__TAR_PATH];
    size_t found = find_parts(x, k, parts);
    for (uint64_t i = x->firsts[k]; i < x->firsts[k + 1]; i++) {
        bool used = false;
        for (size_t w = 0; w < x->wanted_count; w++)
            used |= parts[w] == &x->parts[i];
        if (!used)
            larder__found_unused(&x->found, key,
                                 larder__names_get(&x->endings, x->parts[i].ending));
    }
    if (found == 0)
        return 0;
    uint64_t bytes = larder__parcel_bytes(fields, name_fields(x, parts, fields));
    if (!bytes)
        return larder__fail(LARDER_E_FORMAT, "%.200s: 4 GiB or more is no sample", key);
    int n =
        snprintf(path, sizeof path, "%s.%s", key, larder__names_get(&x->endings, parts[0]->ending));
    return add_entry(x, &(larder__tar_entry){k, (uint32_t)bytes, x->labels[k]}, path, (size_t)n);
}

/* Which endings will do for "jpg|png", the first one best. */
static void rank_endings(larder__tar_index *x, size_t w) {
    uint8_t rank = 1;
    for (const char *at = x->wanted[w]; at[0] && rank < UINT8_MAX; rank++) {
        size_t n = strcspn(at, "|");
        for (uint64_t i = 1; i < x->endings.count; i++) {
            const char *ending = larder__names_get(&x->endings, i);
            if (strlen(ending) == n && strncasecmp(ending, at, n) == 0 && !x->rank[w][i])
                x->rank[w][i] = rank;
        }
        at += n + (at[n] == '|');
    }
}

static int want_fields(larder__tar_index *x, const char *const *names, size_t n) {
    if (n > LARDER__TAR_WANTED)
        return larder__fail(LARDER_E_ARGS, "%zu fields; at most %d members make a sample", n,
                            LARDER__TAR_WANTED);
    for (size_t w = 0; w < n; w++) {
        if (!(x->wanted[w] = larder__strdup(names[w])))
            return LARDER_E_NOMEM;
        size_t length = strlen(names[w]);
        x->optional[w] = length > 1 && names[w][length - 1] == '?';
        if (x->optional[w])
            x->wanted[w][length - 1] = 0;
        x->wanted_count++;
        rank_endings(x, w);
    }
    return 0;
}

int larder__tar_index_choose(larder__tar_index *x, const char *const *names, size_t n,
                             uint64_t *shards, uint64_t shard_count, larder__tar_label_fn label,
                             void *arg) {
    sort_of sorts[LARDER__TAR_ENDINGS] = {0};
    const char *key = x->keys.bytes;
    int rc = want_fields(x, names, n);
    for (uint64_t i = 0; i < x->endings.count; i++) {
        const char *ending = larder__names_get(&x->endings, i);
        sorts[i] = (sort_of){larder__is_picture(ending), is_class(ending)};
    }
    for (uint64_t s = 0; rc == 0 && s < shard_count; s++) {
        uint64_t from = shards[s], to = shards[s + 1];
        shards[s] = x->count;
        for (uint64_t k = from; rc == 0 && k < to; k++, key += strlen(key) + 1)
            rc = n ? choose_fields(x, k, key) : choose_picture(x, k, key, sorts);
        if (rc < 0)
            return larder__fail_in(rc, "%s", label(arg, s));
    }
    shards[shard_count] = x->count;
    if (rc == 0 && n == 0)
        free_keys(x);
    return rc;
}

const char *larder__tar_index_field(const larder__tar_index *x, size_t i) {
    return i + 1 < x->endings.count ? larder__names_get(&x->endings, i + 1) : NULL;
}

int larder__tar_index_parts(const larder__tar_index *x, uint64_t id, larder__field *fields,
                            const larder__tar_part **parts, size_t *n) {
    size_t found = find_parts(x, x->entries[id].offset, parts);
    for (size_t w = 0; found < x->wanted_count && w < x->wanted_count; w++)
        if (!parts[w] && !x->optional[w])
            return larder__fail(LARDER_E_NOTFOUND, "%.120s has no member \"%.60s\"",
                                larder__names_get(&x->names, id), x->wanted[w]);
    *n = name_fields(x, parts, fields);
    return 0;
}

/* ---- as bytes -------------------------------------------------------------------------------- */

static const char magic[8] = "LARDTAR3";
enum { CHECKED_FROM = 0x7a5 };

static int write_index(const larder__tar_index *x, uint64_t first, const char *path,
                       const larder__stamp *stamp, larder_writer *w) {
    larder_write_bytes(w, magic, sizeof magic);
    larder__write_text(w, path);
    larder_write_u64(w, stamp->size);
    larder_write_u64(w, stamp->mtime_ns);
    larder_write_u64(w, stamp->ctime_ns);
    larder_write_u64(w, stamp->inode);
    larder_write_u32(w, (uint32_t)x->endings.count);
    for (uint64_t i = 0; i < x->endings.count; i++)
        larder__write_text(w, larder__names_get(&x->endings, i));
    larder_write_u64(w, x->keys.count - first);
    for (uint64_t k = first; k < x->keys.count; k++) {
        larder__write_text(w, larder__names_get(&x->keys, k));
        larder_write_u32(w, (uint32_t)x->labels[k]);
        larder_write_u32(w, (uint32_t)(x->firsts[k + 1] - x->firsts[k]));
        for (uint64_t i = x->firsts[k]; i < x->firsts[k + 1]; i++) {
            larder_write_u32(w, x->parts[i].block);
            larder_write_u32(w, x->parts[i].bytes);
            larder_write_u32(w, x->parts[i].ending);
        }
    }
    if (w->code == 0)
        larder_write_u64(w, larder__hash_bytes(CHECKED_FROM, w->bytes, w->size));
    return w->code;
}

static int check_origin(larder_reader *r, const char *path, const larder__stamp *stamp) {
    char start[sizeof magic], told[LARDER__TAR_PATH];
    larder_read_bytes(r, start, sizeof start);
    if (memcmp(start, magic, sizeof magic) != 0)
        return larder_read_reject(r, "this is no index of a tar file");
    larder__read_text(r, told, sizeof told);
    larder__stamp then = {.size = larder_read_u64(r)};
    then.mtime_ns = larder_read_u64(r);
    then.ctime_ns = larder_read_u64(r);
    then.inode = larder_read_u64(r);
    int rc = larder_read_status(r);
    if (rc == 0 && (strcmp(told, path) != 0 || !larder__stamp_same(&then, stamp)))
        rc = larder__fail(LARDER_E_CHANGED, "%s changed since it was indexed", path);
    return rc;
}

/* Endings of the kept index, as the index that it is added to numbers them. */
static int read_endings(larder__tar_index *x, larder_reader *r, uint32_t *out, uint32_t *count) {
    int rc = 0;
    *count = larder_read_u32(r);
    if (*count > LARDER__TAR_ENDINGS)
        return larder_read_reject(r, "more endings than there can be");
    for (uint32_t i = 0; rc == 0 && i < *count; i++) {
        char ending[64];
        larder__read_text(r, ending, sizeof ending);
        rc = larder_read_status(r);
        if (rc == 0)
            out[i] = ending_of(x, ending, &rc);
    }
    return rc;
}

static int read_part(larder__tar_index *x, larder_reader *r, const uint32_t *endings,
                     uint32_t count, uint64_t shard_bytes) {
    uint32_t block = larder_read_u32(r), bytes = larder_read_u32(r), ending = larder_read_u32(r);
    uint64_t offset = (uint64_t)block * LARDER__TAR_BLOCK;
    if (offset > shard_bytes || bytes > shard_bytes - offset)
        larder_read_reject(r, "a member lies outside its shard");
    if (ending >= count)
        larder_read_reject(r, "a member has no known ending");
    int rc = larder_read_status(r);
    return rc < 0 ? rc : add_part(x, block, bytes, endings[ending]);
}

static int read_key(larder__tar_index *x, larder_reader *r, const uint32_t *endings, uint32_t count,
                    uint64_t shard_bytes) {
    char key[LARDER__TAR_PATH];
    larder__read_text(r, key, sizeof key);
    uint32_t label = larder_read_u32(r), parts = larder_read_u32(r);
    if (label > INT32_MAX && label != UINT32_MAX)
        larder_read_reject(r, "a label is out of range");
    int rc = larder_read_status(r);
    if (rc == 0)
        rc = add_key(x, key, strlen(key), label == UINT32_MAX ? -1 : (int32_t)label);
    for (uint32_t i = 0; rc == 0 && i < parts; i++)
        rc = read_part(x, r, endings, count, shard_bytes);
    return rc;
}

/* What was added by a kept index that turned out to be none. */
static void take_back(larder__tar_index *x, uint64_t keys, uint64_t parts) {
    if (x->keys.count > keys)
        x->keys.size = (size_t)(larder__names_get(&x->keys, keys) - x->keys.bytes);
    x->keys.count = keys;
    x->part_count = parts;
    if (x->firsts)
        x->firsts[keys] = parts;
}

int larder__tar_index_parse(larder__tar_index *out, const char *path, const larder__stamp *stamp,
                            const void *bytes, size_t size) {
    uint64_t told, keys = out->keys.count, parts = out->part_count;
    uint32_t endings[LARDER__TAR_ENDINGS], count = 0;
    if (size < sizeof magic + 8)
        return larder__fail(LARDER_E_FORMAT, "an index of %zu bytes is none", size);
    const unsigned char *end = (const unsigned char *)bytes + size - 8;
    larder_reader last = {end, end + 8, 0}, r = {bytes, end, 0};
    told = larder_read_u64(&last);
    int rc = check_origin(&r, path, stamp);
    if (rc == 0 && told != larder__hash_bytes(CHECKED_FROM, bytes, size - 8))
        rc = larder__fail(LARDER_E_FORMAT, "the index of %s is damaged", path);
    if (rc == 0)
        rc = read_endings(out, &r, endings, &count);
    uint64_t n = rc == 0 ? larder_read_u64(&r) : 0;
    for (uint64_t i = 0; rc == 0 && i < n; i++)
        rc = read_key(out, &r, endings, count, stamp->size);
    if (rc == 0 && larder__read_left(&r) != 0)
        rc = larder_read_reject(&r, "bytes are left over");
    if (rc < 0)
        take_back(out, keys, parts);
    return rc;
}

/* ---- kept for the next run ------------------------------------------------------------------- */

bool larder__tar_index_load(larder__tar_index *out, const char *kept, const char *path,
                            const larder__stamp *stamp) {
    unsigned char *bytes;
    size_t size;
    int rc = larder__keep_load(kept, &bytes, &size);
    if (rc == 0)
        rc = larder__tar_index_parse(out, path, stamp, bytes, size);
    larder__free(bytes);
    return rc == 0;
}

void larder__tar_index_keep(const larder__tar_index *x, uint64_t first, const char *kept,
                            const char *path, const larder__stamp *stamp) {
    larder_writer w = {0};
    if (write_index(x, first, path, stamp, &w) == 0)
        larder__keep_store(kept, w.bytes, w.size);
    larder__writer_free(&w);
}

larder_dataset larder__tar_index_about(const larder__tar_index *x) {
    larder_dataset about = {.count = x->count, .parcels = x->wanted_count > 0};
    int32_t highest = -1;
    uint64_t h = x->count;
    for (uint64_t i = 0; i < x->count; i++) {
        const larder__tar_entry *e = &x->entries[i];
        about.bytes += e->bytes;
        highest = e->label > highest ? e->label : highest;
        /* Which fields are read of them does not make other samples of them. */
        h = larder__mix64(h ^
                          ((uint64_t)(about.parcels ? 0 : e->bytes) << 32 | (uint32_t)e->label));
    }
    about.fingerprint = larder__hash_bytes(h, x->names.bytes, x->names.size);
    about.classes = (uint32_t)highest + 1; /* 0 when there are no labels */
    return about;
}
