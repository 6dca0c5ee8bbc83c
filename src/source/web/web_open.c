/* What the name of a data set on a site means: shards by name, a manifest, or a folder. */
#include "base/err.h"
#include "base/file.h"
#include "base/grow.h"
#include "base/mem.h"
#include "source/braces.h"
#include "source/folder_walk.h"
#include "source/split.h"
#include "source/web/web_data.h"
#include "source/web/web_walk.h"

#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

static bool is_manifest(const char *key) {
    const char *ending = larder__ending(key);
    return ending && (strcasecmp(ending, "txt") == 0 || strcasecmp(ending, "tsv") == 0 ||
                      strcasecmp(ending, "manifest") == 0);
}

/* ---- shards ---------------------------------------------------------------------------------- */

static int add_shard(void *arg, const char *key) {
    larder__web_data *d = arg;
    if (!larder__is_shard_name(key))
        return larder__fail(LARDER_E_ARGS,
                            "%s%.200s: braces and commas are for shards, whose names end in .tar",
                            larder__web_shown(d), key);
    if (d->objects.names.count == LARDER__MOST_SHARDS)
        return larder__fail(LARDER_E_RANGE, "the pattern means more than %d shards",
                            LARDER__MOST_SHARDS);
    return larder__web_objects_add(&d->objects, key, strlen(key), LARDER__BYTES_UNKNOWN, 0);
}

static int open_named_shards(larder__web_data *d, const char *key, const char *split) {
    d->objects.root = larder__strdup("");
    int rc = d->objects.root ? larder__braces_expand(key, add_shard, d) : LARDER_E_NOMEM;
    if (rc == 0 && strcmp(split, "auto") != 0)
        rc = larder__fail(LARDER_E_NOTFOUND, "%s%.200s: shards named one by one have no %s part",
                          larder__web_shown(d), key, split);
    return rc < 0 ? rc : larder__web_shards_open(d);
}

typedef struct tar_file {
    char *name;
    uint64_t bytes, tag;
} tar_file;

static int by_name(const void *a, const void *b) {
    return strcmp(((const tar_file *)a)->name, ((const tar_file *)b)->name);
}

static int take_shards(larder__web_data *d, tar_file *tars, size_t n, const char *split,
                       const char *where) {
    size_t words[4] = {0};
    for (size_t i = 0; i < n; i++)
        words[larder__split_word(larder__name_in(tars[i].name))]++;
    int want = larder__split_wanted(words, split, where), rc = want < 0 ? want : 0;
    for (size_t i = 0; rc == 0 && i < n; i++)
        if (want == 0 || larder__split_word(larder__name_in(tars[i].name)) == want)
            rc = larder__web_objects_add(&d->objects, tars[i].name, strlen(tars[i].name),
                                         tars[i].bytes, tars[i].tag);
    return rc < 0 ? rc : larder__web_shards_open(d);
}

/* The shards that lie in the folder itself; *n is 0 when there are none. */
static int shards_of_walk(larder__web_walk *w, tar_file **out, size_t *n) {
    *n = 0;
    *out = larder__malloc((w->files_used + 1) * sizeof **out);
    if (!*out)
        return LARDER_E_NOMEM;
    for (size_t i = 0; i < w->files_used; i++)
        if (larder__is_shard_name(w->text + w->files[i].name))
            (*out)[(*n)++] =
                (tar_file){w->text + w->files[i].name, w->files[i].bytes, w->files[i].tag};
    if (*n)
        qsort(*out, *n, sizeof **out, by_name);
    return 0;
}

/* ---- folders --------------------------------------------------------------------------------- */

static int open_folder(larder__web_data *d, const char *key, const char *split) {
    larder__web_walk w = {0};
    tar_file *tars = NULL;
    size_t n = 0;
    bool parted;
    int rc = larder__web_walk_begin(&w, d->web, key, split, &parted);
    if (rc == 0)
        rc = shards_of_walk(&w, &tars, &n);
    if (rc == 0 && n) {
        d->objects.root = larder__strdup(w.root);
        rc = d->objects.root ? take_shards(d, tars, n, parted ? "auto" : split, w.root)
                             : LARDER_E_NOMEM;
    } else if (rc == 0 && !parted && strcmp(split, "auto") != 0) {
        rc = larder__fail(LARDER_E_NOTFOUND,
                          "%s%.200s has no %s part: there is no folder \"%s\" in it",
                          larder__web_shown(d), key, split, larder__split_names(split)[0]);
    } else if (rc == 0 && w.files_used == 0 && w.folders_used == 1) { /* the folder itself */
        rc = larder__fail(
            LARDER_E_NOTFOUND, "%s%.200s: there is nothing %s", larder__web_shown(d), key,
            larder__web_site_is_s3(larder__web_site_of(d->web)) ? "whose name begins so"
                                                                : "in this folder");
    } else if (rc == 0) {
        rc = larder__web_images_walked(d, &w);
    }
    larder__free(tars);
    larder__web_walk_free(&w);
    return rc;
}

/* ---- manifests ------------------------------------------------------------------------------- */

enum { MANIFEST_BYTES = 1 << 30 };

typedef struct lines {
    const char *label;
    char *text;
    size_t text_size, text_cap;
    larder__web_line *at;
    size_t used, cap;
    size_t tars;
} lines;

static int take_line(void *arg, const larder__listed *l) {
    lines *t = arg;
    int rc = larder__grow(&t->text, &t->text_cap, t->text_size + l->n + 1, 1);
    if (rc == 0)
        rc = larder__grow(&t->at, &t->cap, t->used + 1, sizeof *t->at);
    if (rc < 0)
        return rc;
    char *name = t->text + t->text_size;
    memcpy(name, l->name, l->n);
    name[l->n] = 0;
    if (!larder__stays_below(name))
        return larder__fail(LARDER_E_FORMAT, "%s: \"%.100s\" leads out of the manifest's folder",
                            t->label, name);
    t->at[t->used++] = (larder__web_line){t->text_size, l->bytes, l->label};
    t->text_size += l->n + 1;
    t->tars += larder__is_shard_name(name);
    return 0;
}

static int tars_of_lines(larder__web_data *d, const lines *t, const char *split) {
    tar_file *tars = larder__malloc((t->used + 1) * sizeof *tars);
    if (!tars)
        return LARDER_E_NOMEM;
    for (size_t i = 0; i < t->used; i++)
        tars[i] = (tar_file){t->text + t->at[i].name, t->at[i].bytes, 0};
    int rc = take_shards(d, tars, t->used, split, t->label);
    larder__free(tars);
    return rc;
}

static int open_lines(larder__web_data *d, const char *key, lines *t, const char *split) {
    if (t->used == 0)
        return larder__fail(LARDER_E_NOTFOUND, "%s names nothing", t->label);
    if (t->tars && t->tars != t->used)
        return larder__fail(LARDER_E_FORMAT, "%s names shards and other files", t->label);
    d->objects.root = larder__strdup(key);
    if (!d->objects.root)
        return LARDER_E_NOMEM;
    d->objects.root[larder__name_in(key) - key] = 0;
    if (t->tars)
        return tars_of_lines(d, t, split);
    if (strcmp(split, "auto") != 0)
        return larder__fail(LARDER_E_NOTFOUND, "%s: a manifest of images has no %s part", t->label,
                            split);
    return larder__web_images_listed(d, t->text, t->at, t->used);
}

static int open_manifest(larder__web_data *d, const char *key, const char *split) {
    char label[300];
    lines t = {.label = label};
    larder__web_request r = {.key = key,
                             .bytes = LARDER__BYTES_UNKNOWN,
                             .object = LARDER__BYTES_UNKNOWN,
                             .most = MANIFEST_BYTES};
    snprintf(label, sizeof label, "%.60s%.200s", larder__web_shown(d), key);
    larder__web_run(d->web, &r, 1);
    int rc =
        r.code < 0 ? larder__fail(r.code, "%s", r.why)
        : !r.answer.framed
            ? larder__fail(LARDER_E_IO,
                           "%s: the server does not say how long it is: it may be cut short", label)
            : larder__manifest_parse(r.text.at, r.text.n, label, take_line, &t);
    larder__text_free(&r.text);
    if (rc == 0)
        rc = open_lines(d, key, &t, split);
    larder__free(t.text);
    larder__free(t.at);
    return rc;
}

/* ---- any of them ----------------------------------------------------------------------------- */

int larder__web_data_open(larder__web_data *d, char **key, const char *split) {
    size_t n = strlen(*key);
    if (larder__is_shard_name(*key) || strchr(*key, '{'))
        return open_named_shards(d, *key, split);
    if (is_manifest(*key))
        return open_manifest(d, *key, split);
    if (larder__is_image_name(*key))
        return larder__fail(LARDER_E_ARGS,
                            "%s%.200s: a single picture is no data set; name its folder, shards "
                            "(.tar) or a manifest (.txt, .tsv)",
                            larder__web_shown(d), *key);
    if (n && (*key)[n - 1] != '/') {
        char *longer = larder__realloc(*key, n + 2);
        if (!longer)
            return LARDER_E_NOMEM;
        *key = longer;
        memcpy(longer + n, "/", 2);
    }
    return open_folder(d, *key, split);
}
