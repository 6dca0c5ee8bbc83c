/* MNIST and its kin: a file of grey images and a file of labels, each a few big-endian numbers and
 * then bytes; plain, .gz or .xz. */
#include "base/err.h"
#include "base/mem.h"
#include "base/spec.h"
#include "source/records.h"
#include "source/split.h"
#include "source/unpack.h"

#include <stdio.h>

#define MOST_BYTES ((uint64_t)4 << 30) /* of one file, unpacked */
enum { IMAGES = 0x803, LABELS = 0x801, MOST_SIDE = 1 << 15 };

static bool find_file(const char *folder, bool train, const char *kind, char *out, size_t cap) {
    static const char *const forms[] = {"%s-%s-idx%d-ubyte", "%s-%s.idx%d-ubyte"};
    for (size_t i = 0; i < 2; i++) {
        char name[64];
        snprintf(name, sizeof name, i ? forms[1] : forms[0], train ? "train" : "t10k", kind,
                 kind[0] == 'i' ? 3 : 1);
        if (larder__unpack_find(folder, name, out, cap))
            return true;
    }
    return false;
}

static int probe(const char *where) {
    char path[4096];
    return find_file(where, true, "images", path, sizeof path) ||
                   find_file(where, false, "images", path, sizeof path)
               ? 40
               : 0;
}

static int read_numbers(larder__unpack *u, uint32_t *out, size_t n) {
    for (size_t i = 0; i < n; i++) {
        unsigned char b[4];
        int rc = larder__unpack_exact(u, b, 4);
        if (rc < 0)
            return rc;
        out[i] = (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
    }
    return 0;
}

static int check_header(const char *path, const uint32_t head[4]) {
    if (head[0] != IMAGES)
        return larder__fail(LARDER_E_FORMAT,
                            "%s: starts with %08x; a file of images starts with 00000803", path,
                            head[0]);
    if (head[1] == 0)
        return larder__fail(LARDER_E_NOTFOUND, "%s holds no samples", path);
    if (head[2] == 0 || head[2] > MOST_SIDE || head[3] == 0 || head[3] > MOST_SIDE)
        return larder__fail(LARDER_E_FORMAT, "%s: images of %u x %u pixels, more than %d or none",
                            path, head[2], head[3], MOST_SIDE);
    if ((uint64_t)head[2] * head[3] > MOST_BYTES / head[1])
        return larder__fail(LARDER_E_FORMAT, "%s: declares %u images of %u x %u, over 4 GiB", path,
                            head[1], head[2], head[3]);
    return 0;
}

static int add_plain(larder__records *r, const larder__unpack *u, const char *path,
                     const uint32_t head[4]) {
    uint64_t total = 16 + (uint64_t)head[1] * r->bytes;
    larder__stamp seen;
    int rc = larder__unpack_stamp(u, &seen);
    if (rc == 0 && seen.size != total)
        rc = larder__fail(LARDER_E_FORMAT, "%s: has %llu bytes; %u images of %u x %u make %llu",
                          path, (unsigned long long)seen.size, head[1], head[2], head[3],
                          (unsigned long long)total);
    return rc < 0 ? rc : larder__records_add_plain(r, path, &seen, 16, head[1]);
}

static int add_packed(larder__records *r, larder__unpack *u, const char *path,
                      const uint32_t head[4]) {
    unsigned char *bytes = NULL;
    larder__stamp seen = {0};
    int rc = larder__unpack_all(u, (uint64_t)head[1] * r->bytes, &bytes);
    if (rc == 0)
        rc = larder__unpack_end(u);
    if (rc == 0)
        rc = larder__unpack_stamp(u, &seen);
    if (rc == 0)
        return larder__records_add_bytes(r, path, &seen, bytes, head[1]);
    larder__free(bytes);
    return rc;
}

static int open_images(larder__records *r, const char *path) {
    larder__unpack *u;
    uint32_t head[4];
    int rc = larder__unpack_open(&u, path);
    if (rc < 0)
        return rc;
    rc = read_numbers(u, head, 4);
    if (rc == 0)
        rc = check_header(path, head);
    if (rc == 0) {
        r->raw = (larder_shape){head[2], head[3], 1};
        r->layout = LARDER_NCHW;
        r->stride = r->bytes = head[2] * head[3];
        rc =
            larder__unpack_is_plain(u) ? add_plain(r, u, path, head) : add_packed(r, u, path, head);
    }
    larder__unpack_close(&u);
    return rc;
}

static int check_labels(larder__records *r, const char *path, uint32_t limit) {
    for (uint64_t i = 0; i < r->count; i++) {
        if (limit && r->labels[i] >= limit)
            return larder__fail(LARDER_E_FORMAT, "%s: sample %llu has label %u of %u classes", path,
                                (unsigned long long)i, r->labels[i], limit);
        if (r->labels[i] >= r->classes)
            r->classes = r->labels[i] + 1u;
    }
    if (limit)
        r->classes = limit;
    return 0;
}

static int open_labels(larder__records *r, const char *path) {
    larder__unpack *u;
    uint32_t head[2];
    int rc = larder__unpack_open(&u, path);
    if (rc < 0)
        return rc;
    rc = read_numbers(u, head, 2);
    if (rc == 0 && head[0] != LABELS)
        rc = larder__fail(LARDER_E_FORMAT,
                          "%s: starts with %08x; a file of labels starts with 00000801", path,
                          head[0]);
    if (rc == 0 && head[1] != r->count)
        rc = larder__fail(LARDER_E_FORMAT, "%s: %u labels for %llu images", path, head[1],
                          (unsigned long long)r->count);
    if (rc == 0)
        rc = larder__unpack_all(u, head[1], &r->labels);
    if (rc == 0)
        rc = larder__unpack_end(u);
    larder__unpack_close(&u);
    return rc;
}

static int idx_open(void *st, const char *where, const larder_args *args) {
    larder__records *r = st;
    const char *split = larder_args_text(args, "split");
    bool train = strcmp(split, "auto") == 0 || strcmp(split, "train") == 0;
    char images[4096], labels[4096];
    if (!find_file(where, train, "images", images, sizeof images))
        return larder__fail(LARDER_E_NOTFOUND,
                            "%.200s holds no %s-images-idx3-ubyte, plain, .gz or .xz", where,
                            train ? "train" : "t10k");
    if (!find_file(where, train, "labels", labels, sizeof labels))
        return larder__fail(LARDER_E_NOTFOUND,
                            "%.200s holds no %s-labels-idx1-ubyte, plain, .gz or .xz", where,
                            train ? "train" : "t10k");
    int rc = open_images(r, images);
    if (rc == 0)
        rc = open_labels(r, labels);
    return rc < 0 ? rc : check_labels(r, labels, (uint32_t)larder_args_number(args, "classes"));
}

static const larder_param params[] = {
    LARDER__SPLIT_PARAM,
    {"classes", "int", "0", "how many classes there are; 0: the highest label and one", 0, 256},
    {0}};

const larder_source larder__source_idx = {
    .plugin = {.name = "idx",
               .summary = "MNIST and Fashion-MNIST files in a folder, plain, .gz or .xz",
               .params = params,
               .state_size = sizeof(larder__records)},
    .probe = probe,
    .open = idx_open,
    .close = larder__records_close,
    .describe = larder__records_describe,
    .stat = larder__records_stat,
    .name = larder__records_name,
    .read = larder__records_read,
    .file = larder__records_file,
};
