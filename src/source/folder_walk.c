#include "source/folder_walk.h"

#include "base/grow.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct larder__walk_folder {
    size_t path;     /* in text; "" for the class folder itself */
    uint32_t parent; /* UINT32_MAX for the class folder */
    uint32_t rank;   /* place among all folders, once sorted */
    dev_t device;
    ino_t inode;
};
struct larder__walk_file {
    size_t name; /* in text */
    uint32_t folder, bytes;
    larder__stamp stamp;
};
typedef struct larder__walk_folder folder;
typedef struct larder__walk_file file;

bool larder__is_image_name(const char *name) { return larder__is_picture(larder__ending(name)); }

static int add_text(larder__walk *w, size_t *at, const char *a, const char *b) {
    size_t n = strlen(a), m = strlen(b), slash = n > 0 && m > 0;
    int rc = larder__grow(&w->text, &w->text_cap, w->text_used + n + m + 2, 1);
    if (rc < 0)
        return rc;
    *at = w->text_used;
    memcpy(w->text + *at, a, n);
    if (slash)
        w->text[*at + n] = '/';
    memcpy(w->text + *at + n + slash, b, m + 1);
    w->text_used += n + slash + m + 1;
    return 0;
}

/* A link back to a folder above would never end. */
static int check_loop(const larder__walk *w, const char *root, uint32_t parent,
                      const struct stat *st) {
    for (uint32_t i = parent; i != UINT32_MAX; i = w->folders[i].parent)
        if (w->folders[i].device == st->st_dev && w->folders[i].inode == st->st_ino)
            return larder__fail(LARDER_E_FORMAT, "%s: \"%s\" contains a link back to itself", root,
                                w->text + w->folders[i].path);
    return 0;
}

static int add_folder(larder__walk *w, const char *root, uint32_t parent, const char *name,
                      const struct stat *st) {
    char above[PATH_MAX] = "";
    int rc = check_loop(w, root, parent, st);
    if (rc == 0)
        rc = larder__grow(&w->folders, &w->folders_cap, w->folders_used + 1, sizeof(folder));
    if (rc < 0)
        return rc;
    if (parent != UINT32_MAX)
        snprintf(above, sizeof above, "%s", w->text + w->folders[parent].path);
    if (strlen(above) + strlen(name) + 2 > PATH_MAX || w->folders_used >= UINT32_MAX - 1)
        return larder__fail(LARDER_E_FORMAT, "%s: \"%.60s…\" is too deep", root, above);
    folder *f = &w->folders[w->folders_used];
    *f = (folder){.parent = parent, .device = st->st_dev, .inode = st->st_ino};
    rc = add_text(w, &f->path, above, name);
    w->folders_used += rc == 0;
    return rc;
}

static int add_file(larder__walk *w, uint32_t in, const char *name, const struct stat *st) {
    int rc = larder__grow(&w->files, &w->files_cap, w->files_used + 1, sizeof(file));
    if (rc < 0)
        return rc;
    file *f = &w->files[w->files_used];
    bool fits = st && S_ISREG(st->st_mode) && (uint64_t)st->st_size < LARDER__NO_SIZE;
    *f = (file){.folder = in, .bytes = fits ? (uint32_t)st->st_size : LARDER__NO_SIZE};
    if (fits)
        f->stamp = larder__stamp_of(st);
    rc = add_text(w, &f->name, "", name);
    w->files_used += rc == 0;
    return rc;
}

static int take_entry(larder__walk *w, const char *root, int fd, uint32_t in,
                      const struct dirent *e) {
    const char *name = e->d_name;
    struct stat st;
    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
        return 0;
    bool image = w->groups ? larder__file_groups_take(w->groups, name)
                           : (w->all && name[0] != '.') || larder__is_image_name(name);
    bool there = false;
    if (image || e->d_type != DT_REG) {
        there = fstatat(fd, name, &st, 0) == 0;
        if (there && S_ISDIR(st.st_mode))
            return add_folder(w, root, in, name, &st);
    }
    if (image)
        return add_file(w, in, name, there ? &st : NULL);
    larder__found_unused(&w->found, name, larder__ending(name), 1);
    return 0;
}

static int scan_folder(larder__walk *w, const char *root, uint32_t i) {
    char path[2 * PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", root, w->text + w->folders[i].path);
    DIR *d = opendir(path);
    int rc = 0;
    for (struct dirent *e; d && rc == 0;) {
        errno = 0;
        e = readdir(d);
        if (!e && errno)
            rc = larder__fail(LARDER_E_IO, "%s: %s", path, strerror(errno));
        if (!e)
            break;
        rc = take_entry(w, root, dirfd(d), i, e);
    }
    if (!d)
        return larder__fail(larder__code_of_errno(errno), "%s: %s", path, strerror(errno));
    closedir(d);
    return rc;
}

/* ---- order ----------------------------------------------------------------------------------- */

typedef struct ranked {
    const char *path;
    uint32_t index;
} ranked;

static int by_path(const void *a, const void *b) {
    return strcmp(((const ranked *)a)->path, ((const ranked *)b)->path);
}

static int rank_folders(larder__walk *w) {
    ranked *order = larder__malloc(w->folders_used * sizeof *order);
    if (!order)
        return LARDER_E_NOMEM;
    for (size_t i = 0; i < w->folders_used; i++)
        order[i] = (ranked){w->text + w->folders[i].path, (uint32_t)i};
    qsort(order, w->folders_used, sizeof *order, by_path);
    for (size_t i = 0; i < w->folders_used; i++)
        w->folders[order[i].index].rank = (uint32_t)i;
    larder__free(order);
    return 0;
}

static int by_place(const void *a, const void *b, void *arg) {
    const larder__walk *w = arg;
    const file *x = a, *y = b;
    uint32_t rx = w->folders[x->folder].rank, ry = w->folders[y->folder].rank;
    if (rx != ry)
        return rx < ry ? -1 : 1;
    return strcmp(w->text + x->name, w->text + y->name);
}

int larder__walk_class(larder__walk *w, const char *root, const char *name) {
    char path[PATH_MAX];
    struct stat st;
    w->text_used = w->folders_used = w->files_used = 0;
    int n = snprintf(path, sizeof path, "%s/%s", root, name);
    if (n < 0 || (size_t)n >= sizeof path)
        return larder__fail(LARDER_E_FORMAT, "%.200s: a path in it is too long", root);
    if (stat(path, &st) != 0)
        return larder__fail(larder__code_of_errno(errno), "%s: %s", path, strerror(errno));
    int rc = add_folder(w, path, UINT32_MAX, "", &st);
    for (uint32_t i = 0; rc == 0 && i < w->folders_used; i++)
        rc = scan_folder(w, path, i);
    if (rc == 0)
        rc = rank_folders(w);
    if (rc == 0 && w->files_used)
        qsort_r(w->files, w->files_used, sizeof *w->files, by_place, w);
    return rc;
}

int larder__walk_path(const larder__walk *w, size_t i, char *out, size_t cap) {
    const char *above = w->text + w->folders[w->files[i].folder].path;
    return snprintf(out, cap, "%s%s%s", above, above[0] ? "/" : "", w->text + w->files[i].name);
}

uint32_t larder__walk_bytes(const larder__walk *w, size_t i) { return w->files[i].bytes; }
larder__stamp larder__walk_stamp(const larder__walk *w, size_t i) { return w->files[i].stamp; }

void larder__walk_free(larder__walk *w) {
    larder__free(w->text);
    larder__free(w->folders);
    larder__free(w->files);
    *w = (larder__walk){0};
}
