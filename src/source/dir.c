/* A folder per class, with the ids and labels that torchvision's ImageFolder gives. Ten million
 * files take a stat each at open. */
#include "base/err.h"
#include "base/grow.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/spec.h"
#include "source/file_set.h"
#include "source/folder_walk.h"
#include "source/ranges.h"
#include "source/split.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct dir {
    larder__file_set set; /* first; names are below the class folder */
    char **classes;       /* sorted */
    uint64_t *firsts;     /* first id of each class, and the count at the end */
    size_t class_count, classes_cap;
    char io[16];
    bool all;                   /* files of any name, not those of pictures alone */
    larder__file_groups groups; /* fields: files that are a sample together */
} dir;

/* ---- listing --------------------------------------------------------------------------------- */

static int by_text(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static int list_classes(dir *d) {
    DIR *folder = opendir(d->set.root);
    if (!folder)
        return larder__fail(larder__code_of_errno(errno), "%s: %s", d->set.root, strerror(errno));
    int rc = 0;
    for (struct dirent *e; rc == 0 && (e = readdir(folder));) {
        char path[PATH_MAX];
        int n = snprintf(path, sizeof path, "%s/%s", d->set.root, e->d_name);
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 || n < 0 ||
            (size_t)n >= sizeof path)
            continue;
        if (e->d_type == DT_REG || !larder__is_folder(path)) { /* of no class */
            larder__found_unused(&d->set.found, e->d_name, larder__ending(e->d_name), 1);
            continue;
        }
        rc = larder__grow(&d->classes, &d->classes_cap, d->class_count + 1, sizeof *d->classes);
        if (rc == 0 && !(d->classes[d->class_count] = larder__strdup(e->d_name)))
            rc = LARDER_E_NOMEM;
        d->class_count += rc == 0;
    }
    closedir(folder);
    if (rc == 0 && d->class_count == 0)
        return larder__fail(LARDER_E_NOTFOUND,
                            "%s holds no class folders: pictures lie in a folder per class, as "
                            "cat/1.jpg, or a manifest (list:) names them",
                            d->set.root);
    if (rc == 0)
        qsort(d->classes, d->class_count, sizeof *d->classes, by_text);
    return rc;
}

static int add_file(dir *d, const larder__walk *w, size_t i) {
    char path[2 * PATH_MAX];
    int n = larder__walk_path(w, i, path, sizeof path);
    uint32_t bytes = larder__walk_bytes(w, i);
    if (n < 0 || n >= PATH_MAX)
        return larder__fail(LARDER_E_FORMAT, "%s: the path \"%.60s…\" is too long", d->set.root,
                            path);
    d->set.fingerprint = larder__hash_bytes(d->set.fingerprint ^ bytes, path, (size_t)n);
    return larder__file_set_add(&d->set, path, (size_t)n, bytes, larder__walk_stamp(w, i));
}

/* Other files are no accident: it is said how they are taken. */
static int without_images(const dir *d, const larder__walk *w, size_t c) {
    larder__found_says says = {0};
    const char *there = larder__found_note(&w->found, "files", 0, &says);
    return larder__fail(
        LARDER_E_NOTFOUND, "%s/%s: a class folder without %s%s%s%s", d->set.root, d->classes[c],
        w->groups ? "files of these fields" : "images", there ? "; " : "", there ? there : "",
        there && !w->groups ? " (fields=wav takes those, ?files=all any file)" : "");
}

typedef struct group_file {
    dir *d;
    const larder__walk *w;
} group_file;

static int put_grouped(void *arg, size_t i) {
    const group_file *g = arg;
    return add_file(g->d, g->w, i);
}

/* The files of a class, sample by sample. */
static int add_groups(dir *d, const larder__walk *w) {
    char path[2 * PATH_MAX];
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < w->files_used; i++) {
        larder__walk_path(w, i, path, sizeof path);
        rc = larder__file_groups_add(&d->groups, path, i);
    }
    return rc < 0 ? rc : larder__file_groups_end(&d->groups, put_grouped, &(group_file){d, w});
}

static int list_files(dir *d) {
    larder__walk w = {.groups = d->groups.wanted_count ? &d->groups : NULL, .all = d->all};
    int rc = 0;
    d->firsts = larder__calloc(d->class_count + 1, sizeof *d->firsts);
    if (!d->firsts)
        return LARDER_E_NOMEM;
    for (size_t c = 0; rc == 0 && c < d->class_count; c++) {
        d->firsts[c] = d->set.names.count;
        d->set.fingerprint =
            larder__hash_bytes(d->set.fingerprint, d->classes[c], strlen(d->classes[c]));
        rc = larder__walk_class(&w, d->set.root, d->classes[c]);
        if (rc == 0 && w.files_used == 0)
            rc = without_images(d, &w, c);
        if (rc == 0 && w.groups)
            rc = add_groups(d, &w);
        for (size_t i = 0; rc == 0 && !w.groups && i < w.files_used; i++)
            rc = add_file(d, &w, i);
    }
    d->firsts[d->class_count] = d->set.names.count;
    larder__found_add(&d->set.found, &w.found);
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
    if (rc == 0)
        rc = larder__file_set_begin(&d->set, root);
    if (rc == 0)
        rc = list_classes(d);
    snprintf(d->io, sizeof d->io, "%s", larder_args_text(args, "io"));
    d->all = strcmp(larder_args_text(args, "files"), "all") == 0;
    return rc;
}

static int choose(void *st, const char *const *names, size_t n) {
    dir *d = st;
    int rc = larder__file_groups_want(&d->groups, names, n);
    if (rc == 0)
        rc = list_files(d);
    return rc < 0 ? rc : larder__file_set_end(&d->set, d->io);
}

static void dir_close(void *st) {
    dir *d = st;
    for (size_t i = 0; i < d->class_count; i++)
        larder__free(d->classes[i]);
    larder__free(d->classes);
    larder__free(d->firsts);
    larder__file_groups_free(&d->groups);
    larder__file_set_free(&d->set);
}

/* ---- questions ------------------------------------------------------------------------------- */

static size_t class_of(const dir *d, uint64_t id) {
    return (size_t)larder__range_of(d->firsts, d->class_count, id);
}

/* The first file of a sample. */
static uint64_t file_of(const dir *d, uint64_t id) {
    return d->groups.wanted_count ? d->groups.firsts[id] : id;
}

static int stat_one(void *st, uint64_t id, larder_sample *out) {
    const dir *d = st;
    uint64_t file = file_of(d, id);
    uint64_t bytes = d->groups.wanted_count ? larder__file_groups_bytes(&d->groups, &d->set, id)
                                            : larder__file_set_bytes(d, id);
    *out = (larder_sample){(uint32_t)bytes, (int32_t)class_of(d, file)};
    return 0;
}

static int file_name(void *st, uint64_t id, char *out, size_t cap) {
    const dir *d = st;
    snprintf(out, cap, "%s/%s", d->classes[class_of(d, id)], larder__names_get(&d->set.names, id));
    return 0;
}

static int name(void *st, uint64_t id, char *out, size_t cap) {
    return file_name(st, file_of(st, id), out, cap);
}

static const char *class_name(void *st, uint32_t label) {
    const dir *d = st;
    return label < d->class_count ? d->classes[label] : NULL;
}

static int describe(void *st, larder_dataset *out) {
    dir *d = st;
    int rc = larder__file_set_describe(st, file_name, (uint32_t)d->class_count, out);
    if (rc < 0 || !d->groups.wanted_count)
        return rc;
    out->parcels = true;
    out->count = d->groups.count;
    out->bytes = 0;
    for (uint64_t i = 0; i < out->count; i++)
        out->bytes += larder__file_groups_bytes(&d->groups, &d->set, i);
    return 0;
}

static int dir_read(void *st, const uint64_t *ids, size_t n, larder_read *out) {
    dir *d = st;
    return d->groups.wanted_count ? larder__file_groups_read(&d->groups, st, file_name, ids, n, out)
                                  : larder__file_set_read(st, file_name, ids, n, out);
}

static const larder_param params[] = {LARDER__SPLIT_PARAM,
                                      LARDER__IO_PARAM,
                                      {"files", "pictures|all", "pictures",
                                       "which are samples: those ImageFolder takes, or all", 0, 0},
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
    .note = larder__file_set_note,
    .choose = choose,
};
