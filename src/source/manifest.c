/* Files that a manifest names, in its order and with its labels: one a line, as http: takes them
 * too. What larder unpack writes beside files whose folders do not tell their classes. */
#include "source/manifest.h"

#include "base/err.h"
#include "base/file.h"
#include "base/grow.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/spec.h"
#include "source/file_set.h"
#include "source/split.h"
#include "source/web/listed.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <strings.h>
#include <sys/stat.h>

#define MOST_BYTES ((size_t)4 << 30)

typedef struct list {
    larder__file_set set; /* first; its root is the manifest's folder */
    char *path;           /* of the manifest */
    larder__names classes;
    int32_t *labels; /* -1: none */
    size_t labels_cap;
    uint32_t class_count;
} list;

/* ---- the lines ------------------------------------------------------------------------------- */

/* Of a file whose size the manifest says, reading will tell that it is not there. */
static int ask_file(const list *l, const char *name, uint64_t *bytes, larder__stamp *out) {
    char path[2 * PATH_MAX];
    struct stat st;
    bool unsaid = *bytes == LARDER__BYTES_UNKNOWN;
    *out = (larder__stamp){0};
    snprintf(path, sizeof path, "%s/%s", l->set.root, name);
    if (stat(path, &st) != 0)
        return unsaid ? larder__fail(larder__code_of_errno(errno), "%s: %s: %s", l->path, name,
                                     strerror(errno))
                      : 0;
    if (unsaid && !S_ISREG(st.st_mode))
        return larder__fail(LARDER_E_FORMAT, "%s: %s is not a regular file", l->path, name);
    *bytes = unsaid ? (uint64_t)st.st_size : *bytes;
    *out = larder__stamp_of(&st);
    return 0;
}

static int take_line(void *st, const larder__listed *line) {
    list *l = st;
    char name[LARDER__KEY_MAX];
    uint64_t bytes = line->bytes, k = l->set.names.count;
    size_t skip = line->n > 2 && memcmp(line->name, "./", 2) == 0 ? 2 : 0, n = line->n - skip;
    memcpy(name, line->name + skip, n);
    name[n] = 0;
    if (!larder__stays_below(name))
        return larder__fail(LARDER_E_FORMAT,
                            "%s: %s: paths are relative to the manifest and stay below its folder",
                            l->path, name);
    larder__stamp stamp;
    int rc = ask_file(l, name, &bytes, &stamp);
    if (rc == 0 && bytes >= UINT32_MAX)
        rc = larder__fail(LARDER_E_FORMAT, "%s: %s: 4 GiB or more is no sample", l->path, name);
    if (rc < 0 || (rc = larder__grow(&l->labels, &l->labels_cap, k + 1, sizeof *l->labels)) < 0 ||
        (rc = larder__file_set_add(&l->set, name, n, (uint32_t)bytes, stamp)) < 0)
        return rc;
    l->labels[k] = line->label;
    if (line->label >= 0 && (uint32_t)line->label >= l->class_count)
        l->class_count = (uint32_t)line->label + 1;
    l->set.fingerprint = larder__hash_bytes(
        l->set.fingerprint ^ larder__mix64(bytes << 32 | (uint32_t)line->label), name, n);
    return 0;
}

/* "#class", a tab, and the name of the next class, from 0 on; other readers take it for a comment.
 */
static int take_classes(list *l, const char *text) {
    static const char mark[] = LARDER__MANIFEST_CLASS;
    int rc = 0;
    for (const char *at = text; rc == 0 && at; at = strchr(at, '\n'), at = at ? at + 1 : NULL)
        if (strncmp(at, mark, sizeof mark - 1) == 0)
            rc = larder__names_add(&l->classes, at + sizeof mark - 1,
                                   strcspn(at + sizeof mark - 1, "\r\n"));
    if (l->class_count < l->classes.count)
        l->class_count = (uint32_t)l->classes.count;
    return rc;
}

/* ---- open and close -------------------------------------------------------------------------- */

static bool is_ours(const char *path) {
    char start[sizeof LARDER__MANIFEST_HEAD] = "";
    FILE *f = larder__is_file(path) ? fopen(path, "re") : NULL;
    size_t n = f ? fread(start, 1, sizeof start - 1, f) : 0;
    if (f)
        fclose(f);
    return n == sizeof start - 1 && strcmp(start, LARDER__MANIFEST_HEAD) == 0;
}

bool larder__manifest_find(const char *folder, char *out, size_t cap) {
    int n = snprintf(out, cap, "%s/%s", folder, LARDER__MANIFEST_NAME);
    return n > 0 && (size_t)n < cap && is_ours(out);
}

static int probe(const char *where) {
    char path[PATH_MAX];
    const char *ending = larder__ending(where);
    if (larder__is_folder(where))
        return larder__manifest_find(where, path, sizeof path) ? 45 : 0;
    bool named = ending && (strcasecmp(ending, "tsv") == 0 || strcasecmp(ending, "manifest") == 0);
    return named && larder__is_file(where) ? 20 : 0;
}

static int open_place(list *l, const char *where) {
    char path[PATH_MAX];
    int n = snprintf(path, sizeof path, "%s", where);
    if (larder__is_folder(where))
        n = snprintf(path, sizeof path, "%s/%s", where, LARDER__MANIFEST_NAME);
    if (n < 0 || (size_t)n >= sizeof path)
        return larder__fail(LARDER_E_ARGS, "\"%.60s…\" is too long for a path", where);
    if (!(l->path = larder__strdup(path)))
        return LARDER_E_NOMEM;
    char *slash = strrchr(path, '/');
    if (!slash)
        snprintf(path, sizeof path, ".");
    else
        slash[slash == path] = 0; /* "/list.tsv" lies in "/" */
    return larder__file_set_begin(&l->set, path);
}

static int list_open(void *st, const char *where, const larder_args *args) {
    list *l = st;
    unsigned char *text = NULL;
    size_t size;
    int rc = open_place(l, where);
    if (rc == 0)
        rc = larder__file_read(l->path, MOST_BYTES, &text, &size);
    if (rc == 0)
        rc = larder__manifest_parse((char *)text, size, l->path, take_line, l);
    if (rc == 0)
        rc = take_classes(l, (const char *)text);
    larder__free(text);
    if (rc == 0 && l->set.names.count == 0)
        rc = larder__fail(LARDER_E_NOTFOUND, "%s: names no files", l->path);
    return rc < 0 ? rc : larder__file_set_end(&l->set, larder_args_text(args, "io"));
}

static void list_close(void *st) {
    list *l = st;
    larder__file_set_free(&l->set);
    larder__names_free(&l->classes);
    larder__free(l->labels);
    larder__free(l->path);
}

/* ---- questions ------------------------------------------------------------------------------- */

static int stat_one(void *st, uint64_t id, larder_sample *out) {
    const list *l = st;
    *out = (larder_sample){.bytes = l->set.sizes[id], .label = l->labels[id]};
    return 0;
}

static int name(void *st, uint64_t id, char *out, size_t cap) {
    snprintf(out, cap, "%s", larder__names_get(&((const list *)st)->set.names, id));
    return 0;
}

static const char *class_name(void *st, uint32_t label) {
    const list *l = st;
    return label < l->classes.count ? larder__names_get(&l->classes, label) : NULL;
}

static int describe(void *st, larder_dataset *out) {
    return larder__file_set_describe(st, name, ((list *)st)->class_count, out);
}

static int list_read(void *st, const uint64_t *ids, size_t n, larder_read *out) {
    return larder__file_set_read(st, name, ids, n, out);
}

static const larder_param params[] = {LARDER__IO_PARAM, {0}};

const larder_source larder__source_list = {
    .plugin = {.name = "list",
               .summary = "files that a manifest names: a line with path, size or -, and class; "
                          "tabs between",
               .params = params,
               .state_size = sizeof(list)},
    .probe = probe,
    .open = list_open,
    .close = list_close,
    .describe = describe,
    .stat = stat_one,
    .name = name,
    .class_name = class_name,
    .read = list_read,
    .note = larder__file_set_note,
};
