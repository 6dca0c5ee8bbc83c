#include "pack/labels.h"

#include "base/err.h"
#include "base/file.h"
#include "source/manifest.h"

#include <limits.h>
#include <stdio.h>

static bool same_text(const char *a, const char *b) { return a && b ? strcmp(a, b) == 0 : a == b; }

static bool same_sample(larder__data *a, larder__data *b, const larder__names *names, uint64_t id) {
    char name[PATH_MAX];
    larder_sample x, y;
    return larder__data_stat(a, id, &x) == 0 && larder__data_stat(b, id, &y) == 0 &&
           x.label == y.label && larder__data_name(b, id, name, sizeof name) == 0 &&
           strcmp(name, larder__names_get(names, id)) == 0;
}

/* Class folders that are all there is to know. */
static bool folders_tell(larder__data *from, const larder__names *names, const char *folder) {
    char uri[PATH_MAX + 8];
    larder__data *d = NULL;
    snprintf(uri, sizeof uri, "dir:%s", folder);
    bool same = larder__data_open(&d, uri) == 0;
    const larder_dataset *a = larder__data_about(from), *b = same ? larder__data_about(d) : NULL;
    same = same && a->count == b->count && a->classes == b->classes;
    for (uint32_t c = 0; same && c < a->classes; c++)
        same = same_text(larder__data_class(from, c), larder__data_class(d, c));
    for (uint64_t id = 0; same && id < a->count; id++)
        same = same_sample(from, d, names, id);
    larder__data_close(&d);
    return same;
}

static void write_name(FILE *to, const char *text) {
    for (; *text; text++) /* a tab or a newline would end it */
        putc((unsigned char)*text < 0x20 ? '_' : *text, to);
}

/* A name for every class or for none. */
static void write_classes(FILE *to, larder__data *from) {
    uint32_t classes = larder__data_about(from)->classes, named = 0;
    while (named < classes && larder__data_class(from, named))
        named++;
    for (uint32_t c = 0; named == classes && c < classes; c++) {
        fputs(LARDER__MANIFEST_CLASS, to);
        write_name(to, larder__data_class(from, c));
        putc('\n', to);
    }
}

static int write_samples(FILE *to, larder__data *from, const larder__names *names) {
    int rc = 0;
    for (uint64_t id = 0; rc == 0 && id < names->count; id++) {
        larder_sample s = {.label = -1};
        const char *name = larder__names_get(names, id);
        rc = larder__data_stat(from, id, &s);
        fputs(name[0] == '#' ? "./" : "", to); /* else it would be a comment */
        write_name(to, name);
        fprintf(to, s.label >= 0 ? "\t%u\t%d\n" : "\t%u\n", s.bytes, s.label);
    }
    return rc;
}

int larder__labels_keep(larder__data *from, const larder__names *names, const char *folder,
                        bool *wrote) {
    char path[PATH_MAX];
    larder__fresh f;
    bool ours = larder__manifest_find(folder, path, sizeof path);
    *wrote = ours || !folders_tell(from, names, folder);
    if (!*wrote)
        return 0;
    int rc = larder__fresh_open(&f, path);
    if (rc < 0)
        return rc;
    fputs(LARDER__MANIFEST_HEAD, f.to);
    write_classes(f.to, from);
    rc = write_samples(f.to, from, names);
    return larder__fresh_close(&f, rc);
}
