/* Samples that are objects of their own: a folder a class, with the ids and labels that dir: gives
 * to the same tree, or the lines of a manifest. */
#include "source/web/web_data.h"

#include "base/err.h"
#include "base/grow.h"
#include "base/hash.h"
#include "base/mem.h"
#include "source/folder_walk.h"
#include "source/web/web_walk.h"

#include <stdio.h>
#include <stdlib.h>

static int stat_one(larder__web_data *d, uint64_t id, larder_sample *out) {
    *out = (larder_sample){.bytes = (uint32_t)d->objects.bytes[id], .label = d->labels[id]};
    return 0;
}

static int name(larder__web_data *d, uint64_t id, char *out, size_t cap) {
    snprintf(out, cap, "%s", larder__names_get(&d->objects.names, id));
    return 0;
}

static int plan(larder__web_data *d, void **hand, uint64_t id, const larder_rect *rect,
                larder__web_wants *wants, size_t sample, larder_buf **out) {
    (void)hand, (void)rect;
    uint32_t bytes = (uint32_t)d->objects.bytes[id];
    *out = larder_buf_new(bytes);
    if (!*out)
        return LARDER_E_NOMEM;
    larder__web_want want = {id, 0, bytes, larder_buf_data(*out), sample};
    return bytes ? larder__web_wants_add(wants, &want) : 0;
}

static const larder__web_kind images = {.stat = stat_one, .name = name, .plan = plan};

/* ---- classes --------------------------------------------------------------------------------- */

static size_t class_size(const char *path) { return strcspn(path, "/"); }

static int by_class(const void *a, const void *b) {
    const char *x = *(const char *const *)a, *y = *(const char *const *)b;
    size_t n = class_size(x), m = class_size(y);
    int order = memcmp(x, y, n < m ? n : m);
    return order ? order : n < m ? -1 : n > m;
}

/* Sorts folder names (which may end with '/' and come twice) into the classes. */
static int take_classes(larder__web_data *d, const char **folders, size_t n) {
    int rc = 0;
    if (n)
        qsort(folders, n, sizeof *folders, by_class);
    for (size_t i = 0; rc == 0 && i < n; i++) {
        size_t size = class_size(folders[i]);
        const char *last =
            d->classes.count ? larder__names_get(&d->classes, d->classes.count - 1) : NULL;
        if (!last || strlen(last) != size || memcmp(last, folders[i], size) != 0)
            rc = larder__names_add(&d->classes, folders[i], size);
    }
    return rc;
}

/* The class of a path; -1: it lies in no folder. */
static int32_t class_of(const larder__web_data *d, const char *path) {
    size_t n = class_size(path);
    uint64_t low = 0, high = d->classes.count;
    if (!path[n])
        return -1;
    while (low < high) {
        uint64_t mid = low + (high - low) / 2;
        const char *class = larder__names_get(&d->classes, mid);
        int order = strncmp(path, class, n);
        if (order == 0 && class[n])
            order = -1;
        if (order == 0)
            return (int32_t)mid;
        if (order < 0)
            high = mid;
        else
            low = mid + 1;
    }
    return -1;
}

/* ---- the end of opening ---------------------------------------------------------------------- */

static int check_size(larder__web_data *d, uint64_t i) {
    if (d->objects.bytes[i] < LARDER__NO_SIZE)
        return 0;
    return larder__fail(LARDER_E_FORMAT, "%s%.200s: 4 GiB or more is no sample",
                        larder__web_shown(d), larder__names_get(&d->objects.names, i));
}

/* As dir: does, so that a copy of the tree is the same data set wherever it lies. */
static uint64_t fingerprint(const larder__web_data *d) {
    uint64_t h = 0;
    int32_t class = -1;
    for (uint64_t i = 0; i < d->objects.names.count; i++) {
        const char *path = larder__names_get(&d->objects.names, i);
        bool inside = d->labels[i] >= 0 && (uint64_t)d->labels[i] < d->classes.count;
        size_t n = inside ? class_size(path) : 0;
        if (d->labels[i] != class && inside)
            h = larder__hash_bytes(h, path, n);
        else if (d->labels[i] != class)
            h = larder__mix64(h ^ (uint32_t)d->labels[i]);
        class = d->labels[i];
        path += inside ? n + 1 : 0;
        h = larder__hash_bytes(h ^ (uint32_t)d->objects.bytes[i], path, strlen(path));
    }
    return h;
}

static int finish(larder__web_data *d) {
    int rc = larder__web_objects_ask(&d->objects, d->web, false, false);
    int32_t highest = -1;
    d->about = (larder_dataset){.count = d->objects.names.count};
    for (uint64_t i = 0; rc == 0 && i < d->about.count; i++) {
        rc = check_size(d, i);
        larder__found_sample(&d->found, larder__names_get(&d->objects.names, i));
        d->about.bytes += d->objects.bytes[i];
        highest = d->labels[i] > highest ? d->labels[i] : highest;
    }
    if (rc < 0)
        return rc;
    d->about.classes = (uint32_t)highest + 1;
    if (d->classes.count > d->about.classes)
        d->about.classes = (uint32_t)d->classes.count;
    d->about.fingerprint = fingerprint(d);
    d->kind = &images;
    larder__names_trim(&d->objects.names);
    return d->about.count ? 0
                          : larder__fail(LARDER_E_NOTFOUND, "%s%.200s: holds no images",
                                         larder__web_shown(d), d->objects.root);
}

/* ---- from a walk ----------------------------------------------------------------------------- */

static size_t folder_size(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? (size_t)(slash - path) : 0;
}

/* Class, then folder by its path, then name, as torchvision's ImageFolder has it. */
static int by_folder(const void *a, const void *b, void *arg) {
    const larder__web_walk *w = arg;
    const char *x = w->text + ((const larder__web_found *)a)->name;
    const char *y = w->text + ((const larder__web_found *)b)->name;
    size_t n = folder_size(x), m = folder_size(y);
    size_t cx = class_size(x) < n ? class_size(x) : n, cy = class_size(y) < m ? class_size(y) : m;
    int order = memcmp(x, y, cx < cy ? cx : cy);
    if (order == 0 && cx != cy)
        order = cx < cy ? -1 : 1;
    if (order == 0)
        order = memcmp(x, y, n < m ? n : m);
    if (order == 0 && n != m)
        order = n < m ? -1 : 1;
    return order ? order : strcmp(x + n, y + m);
}

static int find_classes(larder__web_data *d, const larder__web_walk *w) {
    size_t n = 0;
    const char **names = larder__malloc(w->folders_used * sizeof *names);
    if (!names)
        return LARDER_E_NOMEM;
    for (size_t i = 1; i < w->folders_used; i++)
        names[n++] = w->text + w->folders[i];
    int rc = take_classes(d, names, n);
    larder__free(names);
    return rc;
}

static int check_classes(const larder__web_data *d, const larder__web_walk *w) {
    uint64_t next = 0;
    for (uint64_t i = 0; i < d->objects.names.count; i++)
        if (d->labels[i] >= 0 && (uint64_t)d->labels[i] == next)
            next++;
    if (next == d->classes.count)
        return 0;
    return larder__fail(LARDER_E_NOTFOUND, "%s%.200s%.100s: a class folder without images",
                        larder__web_shown(d), w->root, larder__names_get(&d->classes, next));
}

int larder__web_images_walked(larder__web_data *d, larder__web_walk *w) {
    size_t cap = 0;
    int rc = larder__web_walk_below(w);
    if (rc == 0)
        rc = find_classes(d, w);
    if (rc == 0 && w->files_used)
        qsort_r(w->files, w->files_used, sizeof *w->files, by_folder, w);
    if (rc == 0 && !(d->objects.root = larder__strdup(w->root)))
        rc = LARDER_E_NOMEM;
    for (size_t i = 0; rc == 0 && i < w->files_used; i++) {
        const larder__web_found *f = &w->files[i];
        const char *path = w->text + f->name;
        int32_t label = class_of(d, path);
        /* What lies beside class folders belongs to none of them. */
        if (!larder__is_image_name(path) || (d->classes.count && label < 0)) {
            larder__found_unused(&d->found, path, larder__ending(path), 1);
            continue;
        }
        uint64_t k = d->objects.names.count;
        rc = larder__grow(&d->labels, &cap, k + 1, sizeof *d->labels);
        if (rc == 0)
            rc = larder__web_objects_add(&d->objects, path, strlen(path), f->bytes, f->tag);
        if (rc == 0)
            d->labels[k] = label;
    }
    if (rc == 0)
        rc = check_classes(d, w);
    return rc < 0 ? rc : finish(d);
}

/* ---- from a manifest ------------------------------------------------------------------------- */

static int classes_of_lines(larder__web_data *d, const char *text, const larder__web_line *lines,
                            size_t n) {
    size_t used = 0;
    for (size_t i = 0; i < n; i++)
        if (lines[i].label >= 0)
            return 0; /* the manifest numbers them itself */
    const char **names = larder__malloc(n * sizeof *names);
    if (!names)
        return LARDER_E_NOMEM;
    for (size_t i = 0; i < n; i++)
        if (strchr(text + lines[i].name, '/'))
            names[used++] = text + lines[i].name;
    int rc = take_classes(d, names, used);
    larder__free(names);
    return rc;
}

int larder__web_images_listed(larder__web_data *d, const char *text, const larder__web_line *lines,
                              size_t n) {
    int rc = classes_of_lines(d, text, lines, n);
    if (rc == 0 && n && !(d->labels = larder__malloc(n * sizeof *d->labels)))
        rc = LARDER_E_NOMEM;
    for (size_t i = 0; rc == 0 && i < n; i++) {
        const char *path = text + lines[i].name;
        d->labels[i] = lines[i].label >= 0 ? lines[i].label : class_of(d, path);
        rc = larder__web_objects_add(&d->objects, path, strlen(path), lines[i].bytes, 0);
    }
    return rc < 0 ? rc : finish(d);
}
