/* The binary files of CIFAR-10 and CIFAR-100, plain or packed: records of one or two label bytes
 * and then 1024 red, 1024 green and 1024 blue ones. */
#include "base/err.h"
#include "base/grow.h"
#include "base/mem.h"
#include "base/spec.h"
#include "source/records.h"
#include "source/split.h"
#include "source/unpack.h"

#include <stdio.h>

enum { PIXELS = 3072, MOST_RECORDS = 1 << 20, NAME_BYTES = 40 };

typedef struct flavour {
    uint32_t classes, labels; /* label bytes in front; the last one counts */
    const char *train[6], *test[2], *names;
} flavour;

static const flavour cifar10 = {10,
                                1,
                                {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin",
                                 "data_batch_4.bin", "data_batch_5.bin"},
                                {"test_batch.bin"},
                                "batches.meta.txt"};
static const flavour cifar100 = {100, 2, {"train.bin"}, {"test.bin"}, "fine_label_names.txt"};

typedef struct cifar {
    larder__records records; /* first: the operations of records take this state */
    const flavour *is;
    size_t labels_cap;
    bool named;
    char names[100][NAME_BYTES];
} cifar;

/* ---- labels ---------------------------------------------------------------------------------- */

static int take_labels(cifar *c, const char *path, uint64_t index, const unsigned char *record) {
    larder__records *r = &c->records;
    uint64_t at = r->count + index;
    const unsigned fine = record[c->is->labels - 1];
    if (fine >= c->is->classes || (c->is->labels == 2 && record[0] >= 20))
        return larder__fail(LARDER_E_FORMAT, "%s: record %llu has label %u; there are %u classes",
                            path, (unsigned long long)index,
                            fine >= c->is->classes ? fine : record[0],
                            fine >= c->is->classes ? c->is->classes : 20);
    int rc = larder__grow(&r->labels, &c->labels_cap, at + 1, 1);
    if (rc == 0)
        r->labels[at] = (unsigned char)fine;
    return rc;
}

/* One name a line; without the file there are just no names. */
static void read_names(cifar *c, const char *where) {
    char path[4096], line[256];
    int n = snprintf(path, sizeof path, "%s/%s", where, c->is->names);
    FILE *f = n > 0 && (size_t)n < sizeof path ? fopen(path, "re") : NULL;
    uint32_t i = 0;
    while (f && i < c->is->classes && fgets(line, sizeof line, f)) {
        line[strcspn(line, "\r\n")] = 0;
        if (line[0])
            snprintf(c->names[i++], NAME_BYTES, "%.*s", NAME_BYTES - 1, line);
    }
    c->named = i == c->is->classes;
    if (f)
        fclose(f);
}

static const char *class_name(void *st, uint32_t label) {
    const cifar *c = st;
    return c->named && label < c->is->classes ? c->names[label] : NULL;
}

/* ---- files ----------------------------------------------------------------------------------- */

/* What was read at once: the labels of its records, and the records themselves when it was packed.
 */
static int take_records(cifar *c, const larder__unpack *u, const char *path,
                        const unsigned char *some, size_t records, unsigned char **kept,
                        size_t *cap, uint64_t *count) {
    size_t stride = c->records.stride;
    int rc = 0;
    if (!larder__unpack_is_plain(u))
        rc = larder__grow(kept, cap, (*count + records) * stride, 1);
    for (size_t i = 0; rc == 0 && i < records; i++) {
        if (*count + i == MOST_RECORDS)
            return larder__fail(LARDER_E_FORMAT, "%s: more than %d records", path, MOST_RECORDS);
        rc = take_labels(c, path, *count + i, some + i * stride);
    }
    if (rc == 0 && *kept)
        memcpy(*kept + *count * stride, some, records * stride);
    *count += records;
    return rc;
}

/* Goes through one file. One record is less than a call of the system is worth: many at once. */
static int read_file(cifar *c, larder__unpack *u, const char *path, unsigned char **kept,
                     uint64_t *count) {
    enum { AT_ONCE = 64 };
    size_t cap = 0, stride = c->records.stride, got = 1;
    unsigned char *some = larder__malloc(AT_ONCE * stride);
    int rc = some ? 0 : LARDER_E_NOMEM;
    for (*count = 0; rc == 0 && got > 0;) {
        rc = larder__unpack_read(u, some, AT_ONCE * stride, &got);
        if (rc == 0)
            rc = take_records(c, u, path, some, got / stride, kept, &cap, count);
        if (rc == 0 && got % stride)
            rc =
                larder__fail(LARDER_E_FORMAT, "%s: ends inside record %llu, after %zu of %zu bytes",
                             path, (unsigned long long)*count, got % stride, stride);
    }
    larder__free(some);
    if (rc < 0)
        return rc;
    return *count ? 0 : larder__fail(LARDER_E_FORMAT, "%s is empty", path);
}

static int add_file(cifar *c, const char *where, const char *name) {
    char path[4096];
    larder__unpack *u;
    unsigned char *kept = NULL;
    larder__stamp seen;
    uint64_t count;
    if (!larder__unpack_find(where, name, path, sizeof path))
        return larder__fail(LARDER_E_NOTFOUND, "%.200s holds no %s, plain, .gz or .xz", where,
                            name);
    int rc = larder__unpack_open(&u, path);
    if (rc < 0)
        return rc;
    rc = read_file(c, u, path, &kept, &count);
    if (rc == 0)
        rc = larder__unpack_stamp(u, &seen);
    if (rc < 0)
        larder__free(kept);
    else if (larder__unpack_is_plain(u))
        rc = larder__records_add_plain(&c->records, path, &seen, 0, count);
    else
        rc = larder__records_add_bytes(&c->records, path, &seen, kept, count);
    larder__unpack_close(&u);
    return rc;
}

static int open_flavour(cifar *c, const char *where, const larder_args *args, const flavour *is) {
    const char *split = larder_args_text(args, "split");
    bool train = strcmp(split, "auto") == 0 || strcmp(split, "train") == 0;
    c->is = is;
    c->records.skip = is->labels;
    c->records.bytes = PIXELS;
    c->records.stride = is->labels + PIXELS;
    c->records.classes = is->classes;
    c->records.raw = (larder_shape){32, 32, 3};
    c->records.layout = LARDER_NCHW;
    const char *const *names = train ? is->train : is->test;
    int rc = 0;
    for (size_t i = 0; rc == 0 && names[i]; i++)
        rc = add_file(c, where, names[i]);
    if (rc == 0)
        read_names(c, where);
    return rc;
}

/* The file that tells which flavour a folder is. */
static int probe_for(const char *where, const flavour *is) {
    char path[4096];
    bool found = larder__unpack_find(where, is->test[0], path, sizeof path) ||
                 larder__unpack_find(where, is->train[0], path, sizeof path);
    return found ? 40 : 0;
}

static int open10(void *st, const char *where, const larder_args *args) {
    return open_flavour(st, where, args, &cifar10);
}
static int open100(void *st, const char *where, const larder_args *args) {
    return open_flavour(st, where, args, &cifar100);
}
static int probe10(const char *where) { return probe_for(where, &cifar10); }
static int probe100(const char *where) { return probe_for(where, &cifar100); }

static const larder_param params[] = {LARDER__SPLIT_PARAM, {0}};

#define CIFAR(digits)                                                                              \
    const larder_source larder__source_cifar##digits = {                                           \
        .plugin = {.name = "cifar" #digits,                                                        \
                   .summary = "the binary files of CIFAR-" #digits ", plain or .xz",               \
                   .params = params,                                                               \
                   .state_size = sizeof(cifar)},                                                   \
        .probe = probe##digits,                                                                    \
        .open = open##digits,                                                                      \
        .close = larder__records_close,                                                            \
        .describe = larder__records_describe,                                                      \
        .stat = larder__records_stat,                                                              \
        .name = larder__records_name,                                                              \
        .class_name = class_name,                                                                  \
        .read = larder__records_read,                                                              \
        .file = larder__records_file,                                                              \
    };
CIFAR(10)
CIFAR(100)
