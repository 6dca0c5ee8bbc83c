/* A folder per class, with the ids and labels that torchvision's ImageFolder gives. Ten million
 * files take a stat each at open, and 9 bytes and the name in memory. */
#include "base/err.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/spec.h"
#include "source/content.h"
#include "source/files.h"
#include "source/folder_walk.h"
#include "source/grow.h"
#include "source/ranges.h"
#include "source/split.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct dir {
    char *root;
    char **classes;   /* sorted */
    uint64_t *firsts; /* first id of each class, and the count at the end */
    size_t class_count, classes_cap;
    uint32_t *sizes, *keys; /* of each file: bytes, and of its stamp */
    size_t sizes_cap, keys_cap;
    larder__names names; /* below the class folder */
    uint64_t count, bytes, fingerprint, stamps;
    bool numbered;   /* files keep their inode */
    uint64_t volume; /* of the file system */
    larder__files *files;
    larder__found found;
    larder__found_says says;
} dir;

/* ---- listing --------------------------------------------------------------------------------- */

static int by_text(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static int list_classes(dir *d) {
    DIR *folder = opendir(d->root);
    if (!folder)
        return larder__fail(larder__code_of_errno(errno), "%s: %s", d->root, strerror(errno));
    int rc = 0;
    for (struct dirent *e; rc == 0 && (e = readdir(folder));) {
        char path[PATH_MAX];
        int n = snprintf(path, sizeof path, "%s/%s", d->root, e->d_name);
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 || n < 0 ||
            (size_t)n >= sizeof path)
            continue;
        if (e->d_type == DT_REG || !larder__is_folder(path)) { /* of no class */
            larder__found_unused(&d->found, e->d_name, larder__ending(e->d_name));
            continue;
        }
        rc = larder__grow(&d->classes, &d->classes_cap, d->class_count + 1, sizeof *d->classes);
        if (rc == 0 && !(d->classes[d->class_count] = larder__strdup(e->d_name)))
            rc = LARDER_E_NOMEM;
        d->class_count += rc == 0;
    }
    d->numbered = larder__inodes_last(dirfd(folder));
    d->volume = larder__volume_of(dirfd(folder));
    closedir(folder);
    if (rc == 0 && d->class_count == 0)
        return larder__fail(LARDER_E_NOTFOUND,
                            "%s holds no class folders: pictures lie in a folder per class, as "
                            "cat/1.jpg, or a manifest (list:) names them",
                            d->root);
    if (rc == 0)
        qsort(d->classes, d->class_count, sizeof *d->classes, by_text);
    return rc;
}

static int add_file(dir *d, const larder__walk *w, size_t i) {
    char path[2 * PATH_MAX];
    int n = larder__walk_path(w, i, path, sizeof path);
    uint32_t bytes = larder__walk_bytes(w, i);
    if (n < 0 || n >= PATH_MAX)
        return larder__fail(LARDER_E_FORMAT, "%s: the path \"%.60s…\" is too long", d->root, path);
    int rc = larder__grow(&d->sizes, &d->sizes_cap, d->count + 1, sizeof *d->sizes);
    if (rc == 0)
        rc = larder__grow(&d->keys, &d->keys_cap, d->count + 1, sizeof *d->keys);
    if (rc == 0)
        rc = larder__names_add(&d->names, path, (size_t)n);
    if (rc < 0)
        return rc;
    larder__found_sample(&d->found, path);
    larder__stamp stamp = larder__walk_stamp(w, i);
    if (!d->numbered)
        stamp.inode = 0;
    stamp.volume = d->volume;
    d->keys[d->count] = larder__stamp_key(&stamp);
    d->stamps = larder__stamp_hash(d->stamps, &stamp);
    d->sizes[d->count++] = bytes;
    d->bytes += bytes == LARDER__NO_SIZE ? 0 : bytes;
    d->fingerprint = larder__hash_bytes(d->fingerprint ^ bytes, path, (size_t)n);
    return 0;
}

static int list_files(dir *d) {
    larder__walk w = {0};
    int rc = 0;
    d->firsts = larder__calloc(d->class_count + 1, sizeof *d->firsts);
    if (!d->firsts)
        return LARDER_E_NOMEM;
    for (size_t c = 0; rc == 0 && c < d->class_count; c++) {
        d->firsts[c] = d->count;
        d->fingerprint = larder__hash_bytes(d->fingerprint, d->classes[c], strlen(d->classes[c]));
        rc = larder__walk_class(&w, d->root, d->classes[c]);
        if (rc == 0 && w.files_used == 0)
            rc = larder__fail(LARDER_E_NOTFOUND, "%s/%s: a class folder without images", d->root,
                              d->classes[c]);
        for (size_t i = 0; rc == 0 && i < w.files_used; i++)
            rc = add_file(d, &w, i);
    }
    d->firsts[d->class_count] = d->count;
    larder__found_add(&d->found, &w.found);
    larder__walk_free(&w);
    return rc;
}

/* ---- open and close -------------------------------------------------------------------------- */

static int probe(const char *where) { return larder__is_folder(where) ? 10 : 0; }

static int dir_open(void *st, const char *where, const larder_args *args) {
    dir *d = st;
    char root[PATH_MAX];
    if (!larder__is_folder(where))
        return larder__fail(LARDER_E_NOTFOUND, "there is no folder \"%.200s\"", where);
    int rc = larder__split_folder(where, larder_args_text(args, "split"), root, sizeof root);
    if (rc == 0 && !(d->root = larder__strdup(root)))
        rc = LARDER_E_NOMEM;
    if (rc == 0)
        rc = list_classes(d);
    if (rc == 0)
        rc = list_files(d);
    if (rc == 0)
        rc = larder__files_open(&d->files, d->root, larder_args_text(args, "io"));
    if (rc == 0)
        larder__names_trim(&d->names);
    return rc;
}

static void dir_close(void *st) {
    dir *d = st;
    larder__files_close(&d->files);
    for (size_t i = 0; i < d->class_count; i++)
        larder__free(d->classes[i]);
    larder__free(d->classes);
    larder__free(d->firsts);
    larder__free(d->sizes);
    larder__free(d->keys);
    larder__free(d->root);
    larder__names_free(&d->names);
}

/* ---- questions ------------------------------------------------------------------------------- */

static size_t class_of(const dir *d, uint64_t id) {
    return (size_t)larder__range_of(d->firsts, d->class_count, id);
}

static int stat_one(void *st, uint64_t id, larder_sample *out) {
    const dir *d = st;
    out->bytes = d->sizes[id] == LARDER__NO_SIZE ? 0 : d->sizes[id];
    out->label = (int32_t)class_of(d, id);
    return 0;
}

static int name(void *st, uint64_t id, char *out, size_t cap) {
    const dir *d = st;
    snprintf(out, cap, "%s/%s", d->classes[class_of(d, id)], larder__names_get(&d->names, id));
    return 0;
}

static const char *class_name(void *st, uint32_t label) {
    const dir *d = st;
    return label < d->class_count ? d->classes[label] : NULL;
}

static const char *note(void *st, size_t i) {
    dir *d = st;
    return larder__found_note(&d->found, "files", i, &d->says);
}

/* ---- what it is ------------------------------------------------------------------------------ */

typedef struct file_bytes {
    dir *d;
    uint64_t id;
} file_bytes;

static int read_file(void *arg, void *out, size_t n, uint64_t at) {
    const file_bytes *f = arg;
    char path[2 * PATH_MAX];
    name(f->d, f->id, path, sizeof path);
    return larder__files_peek(f->d->files, path, out, n, at);
}

static int describe(void *st, larder_dataset *out) {
    dir *d = st;
    larder__content c;
    larder__content_begin(&c, d->bytes);
    for (uint64_t i = 0; i < d->count; i++)
        larder__content_add(&c, d->sizes[i] == LARDER__NO_SIZE ? 0 : d->sizes[i], read_file,
                            &(file_bytes){.d = d, .id = i});
    *out = (larder_dataset){.count = d->count,
                            .bytes = d->bytes,
                            .classes = (uint32_t)d->class_count,
                            .fingerprint = d->fingerprint,
                            .identity = d->stamps,
                            .content = c.hash};
    return 0;
}

/* ---- reading --------------------------------------------------------------------------------- */

enum { AT_ONCE = 64, PATHS = 8192 }; /* files in one go, and bytes for their paths */

/* Takes as many ids as fit, at least one. */
static size_t read_some(dir *d, const uint64_t *ids, size_t n, larder_read *out) {
    larder__file_want wants[AT_ONCE];
    char paths[PATHS + 2 * PATH_MAX];
    size_t at = 0, k = 0;
    for (; k < n && k < AT_ONCE && at < PATHS; k++) {
        wants[k] = (larder__file_want){paths + at, d->sizes[ids[k]], d->keys[ids[k]]};
        name(d, ids[k], paths + at, sizeof paths - at);
        at += strlen(paths + at) + 1;
    }
    larder__files_read(d->files, wants, k, out);
    return k;
}

static int dir_read(void *st, const uint64_t *ids, size_t n, larder_read *out) {
    for (size_t at = 0; at < n;)
        at += read_some(st, ids + at, n - at, out + at);
    return 0;
}

static const larder_param params[] = {
    LARDER__SPLIT_PARAM,
    {"io", "auto|uring|plain", "auto", "how several files are read at once", 0, 0},
    {0}};

const larder_source larder__source_dir = {
    .plugin = {.name = "dir",
               .summary = "a folder of images per class, in the order of torchvision's ImageFolder",
               .params = params,
               .state_size = sizeof(dir)},
    .probe = probe,
    .open = dir_open,
    .close = dir_close,
    .describe = describe,
    .stat = stat_one,
    .name = name,
    .class_name = class_name,
    .read = dir_read,
    .note = note,
};
