#include "source/tar_index.h"

#include "base/file.h"
#include "base/grow.h"
#include "base/hash.h"
#include "base/state.h"
#include "source/keep.h"

#include <ctype.h>
#include <limits.h>
#include <stdlib.h>
#include <strings.h>

/* ---- samples: members that share a key ------------------------------------------------------- */

typedef struct sample { /* the one being put together */
    char key[LARDER__TAR_PATH];
    char image[LARDER__TAR_PATH];
    uint64_t offset, bytes;
    int32_t label;
    bool begun, has_image, has_label;
} sample;

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

static int add_entry(larder__tar_index *x, const larder__tar_entry *e, const char *name, size_t n) {
    int rc = larder__grow(&x->entries, &x->cap, x->count + 1, sizeof *x->entries);
    if (rc == 0)
        rc = larder__names_add(&x->names, name, n);
    if (rc < 0)
        return rc;
    x->entries[x->count++] = *e;
    larder__found_sample(&x->found, name);
    return 0;
}

/* Members without an image or label (a README, a .json alone) make no sample. */
static int finish_sample(larder__tar_index *x, const larder__tar *t, sample *s) {
    bool image = s->has_image, label = s->has_label;
    s->begun = false;
    if (label && !image)
        return larder__fail(LARDER_E_FORMAT, "%s: %.200s has a .cls and no image", t->label,
                            s->key);
    if (!image)
        return 0;
    larder__tar_entry e = {s->offset, (uint32_t)s->bytes, label ? s->label : -1};
    return add_entry(x, &e, s->image, strlen(s->image));
}

static int take_member(larder__tar_index *x, larder__tar *t, const larder__tar_member *m,
                       const char *ending, sample *s) {
    if (ending && strcasecmp(ending, "cls") == 0) {
        if (s->has_label)
            return larder__fail(LARDER_E_FORMAT, "%s: %.200s is there twice, again at byte %llu",
                                t->label, m->path, (unsigned long long)m->header);
        s->has_label = true;
        return parse_label(t, m, &s->label);
    }
    if (!larder__is_picture(ending) ||
        s->has_image) { /* of two forms of an image the first counts */
        larder__found_unused(&x->found, m->path, ending);
        return 0;
    }
    if (m->bytes >= UINT32_MAX)
        return larder__fail(LARDER_E_FORMAT, "%s: %.200s: 4 GiB or more is no sample", t->label,
                            m->path);
    s->has_image = true;
    s->offset = m->offset;
    s->bytes = m->bytes;
    memcpy(s->image, m->path, strlen(m->path) + 1);
    return 0;
}

int larder__tar_index_build(larder__tar_index *x, larder__tar *t) {
    larder__tar_member *m = larder__malloc(sizeof *m);
    sample *s = larder__calloc(1, sizeof *s);
    int rc = m && s ? 0 : LARDER_E_NOMEM;
    while (rc == 0 && (rc = larder__tar_next(t, m)) > 0) {
        size_t n;
        const char *ending = split_key(m->path, &n);
        rc = 0;
        if (s->begun && (strlen(s->key) != n || memcmp(s->key, m->path, n) != 0))
            rc = finish_sample(x, t, s);
        if (rc == 0 && !s->begun) {
            *s = (sample){.begun = true};
            memcpy(s->key, m->path, n);
        }
        if (rc == 0)
            rc = take_member(x, t, m, ending, s);
    }
    if (rc == 0 && s->begun)
        rc = finish_sample(x, t, s);
    larder__free(m);
    larder__free(s);
    return rc;
}

void larder__tar_index_free(larder__tar_index *x) {
    larder__free(x->entries);
    larder__names_free(&x->names);
    *x = (larder__tar_index){0};
}

/* ---- as bytes -------------------------------------------------------------------------------- */

static const char magic[8] = "LARDTAR2";
enum { CHECKED_FROM = 0x7a5 };

static void write_unused(larder_writer *w, const larder__tally *t) {
    for (int i = 0; i < LARDER__ENDINGS; i++) {
        larder_write_bytes(w, t->ending[i], sizeof t->ending[i]);
        larder_write_u64(w, t->count[i]);
    }
    larder_write_u64(w, t->others);
}

static void read_unused(larder_reader *r, larder__tally *t) {
    for (int i = 0; i < LARDER__ENDINGS; i++) {
        larder_read_bytes(r, t->ending[i], sizeof t->ending[i]);
        t->ending[i][sizeof t->ending[i] - 1] = 0;
        t->count[i] = larder_read_u64(r);
    }
    t->others = larder_read_u64(r);
}

static int write_index(const larder__tar_index *x, uint64_t first, const char *path,
                       const larder__stamp *stamp, larder_writer *w) {
    larder_write_bytes(w, magic, sizeof magic);
    larder__write_text(w, path);
    larder_write_u64(w, stamp->size);
    larder_write_u64(w, stamp->mtime_ns);
    larder_write_u64(w, stamp->ctime_ns);
    larder_write_u64(w, stamp->inode);
    write_unused(w, &x->found.unused);
    larder_write_u64(w, x->count - first);
    for (uint64_t i = first; i < x->count; i++) {
        larder_write_u64(w, x->entries[i].offset);
        larder_write_u32(w, x->entries[i].bytes);
        larder_write_u32(w, (uint32_t)x->entries[i].label);
        larder__write_text(w, larder__names_get(&x->names, i));
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

static int read_entry(larder__tar_index *x, larder_reader *r, uint64_t shard_bytes) {
    char name[LARDER__TAR_PATH];
    larder__tar_entry e = {.offset = larder_read_u64(r)};
    e.bytes = larder_read_u32(r);
    uint32_t label = larder_read_u32(r);
    larder__read_text(r, name, sizeof name);
    if (e.offset > shard_bytes || e.bytes > shard_bytes - e.offset)
        larder_read_reject(r, "a sample lies outside its shard");
    if (label > INT32_MAX && label != UINT32_MAX)
        larder_read_reject(r, "a label is out of range");
    e.label = label == UINT32_MAX ? -1 : (int32_t)label;
    int rc = larder_read_status(r);
    return rc < 0 ? rc : add_entry(x, &e, name, strlen(name));
}

int larder__tar_index_parse(larder__tar_index *out, const char *path, const larder__stamp *stamp,
                            const void *bytes, size_t size) {
    uint64_t told, before = out->count;
    if (size < sizeof magic + 8)
        return larder__fail(LARDER_E_FORMAT, "an index of %zu bytes is none", size);
    const unsigned char *end = (const unsigned char *)bytes + size - 8;
    larder_reader last = {end, end + 8, 0}, r = {bytes, end, 0};
    told = larder_read_u64(&last);
    int rc = check_origin(&r, path, stamp);
    if (rc == 0 && told != larder__hash_bytes(CHECKED_FROM, bytes, size - 8))
        rc = larder__fail(LARDER_E_FORMAT, "the index of %s is damaged", path);
    larder__found found = out->found;
    if (rc == 0)
        read_unused(&r, &out->found.unused);
    uint64_t n = rc == 0 ? larder_read_u64(&r) : 0;
    for (uint64_t i = 0; rc == 0 && i < n; i++)
        rc = read_entry(out, &r, stamp->size);
    if (rc == 0 && larder__read_left(&r) != 0)
        rc = larder_read_reject(&r, "bytes are left over");
    if (rc < 0)
        out->found = found;
    if (rc < 0 && out->count > before) {
        /* names are cut back with the entries; the next build starts where this one did */
        out->names.size = (size_t)(larder__names_get(&out->names, before) - out->names.bytes);
        out->names.count = out->count = before;
    }
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
    larder_dataset about = {.count = x->count};
    int32_t highest = -1;
    uint64_t h = x->count;
    for (uint64_t i = 0; i < x->count; i++) {
        const larder__tar_entry *e = &x->entries[i];
        about.bytes += e->bytes;
        highest = e->label > highest ? e->label : highest;
        h = larder__mix64(h ^ ((uint64_t)e->bytes << 32 | (uint32_t)e->label));
    }
    about.fingerprint = larder__hash_bytes(h, x->names.bytes, x->names.size);
    about.classes = (uint32_t)highest + 1; /* 0 when there are no labels */
    return about;
}
