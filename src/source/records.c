#include "source/records.h"

#include "base/err.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/mem.h"
#include "source/answer.h"
#include "source/chain.h"
#include "source/content.h"
#include "source/pread_full.h"

#include <fcntl.h>

static int add_part(larder__records *r, const char *path, const larder__stamp *seen, uint64_t count,
                    larder__part **out) {
    if (r->used == LARDER__RECORD_PARTS)
        return larder__fail(LARDER_E_RANGE, "%s: one file too many", path);
    larder__part *p = &r->parts[r->used++];
    *p = (larder__part){
        .first = r->count, .count = count, .fd = -1, .stamp = *seen, .path = larder__strdup(path)};
    r->count += count;
    *out = p;
    return p->path ? 0 : LARDER_E_NOMEM;
}

int larder__records_add_plain(larder__records *r, const char *path, const larder__stamp *seen,
                              uint64_t head, uint64_t count) {
    larder__part *p = NULL;
    struct stat st;
    int rc = add_part(r, path, seen, count, &p);
    if (rc < 0)
        return rc;
    p->head = head;
    p->fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (p->fd < 0 || fstat(p->fd, &st) != 0)
        return larder__fail(larder__code_of_errno(errno), "%s: %s", path, strerror(errno));
    if (!larder__stamp_holds(seen, &st) || p->stamp.size != head + count * r->stride)
        return larder__fail(LARDER_E_CHANGED, "%s changed while it was opened", path);
    return 0;
}

int larder__records_add_bytes(larder__records *r, const char *path, const larder__stamp *seen,
                              unsigned char *bytes, uint64_t count) {
    larder__part *p = NULL;
    int rc = add_part(r, path, seen, count, &p);
    if (rc < 0)
        larder__free(bytes);
    else
        p->bytes = bytes;
    return rc;
}

void larder__records_close(void *st) {
    larder__records *r = st;
    for (uint32_t i = 0; i < r->used; i++) {
        larder__free(r->parts[i].path);
        larder__free(r->parts[i].bytes);
        if (r->parts[i].fd >= 0)
            close(r->parts[i].fd);
    }
    larder__free(r->labels);
    *r = (larder__records){0};
}

static const larder__part *part_of(const larder__records *r, uint64_t id) {
    uint32_t i = 0;
    while (id >= r->parts[i].first + r->parts[i].count)
        i++;
    return &r->parts[i];
}

static int read_part(void *arg, void *out, size_t n, uint64_t at) {
    const larder__part *p = arg;
    if (!p->bytes)
        return larder__pread_full(p->fd, p->path, out, n, p->head + at);
    memcpy(out, p->bytes + at, n);
    return 0;
}

/* The labels stand for the samples: the same for plain and packed files, wherever they lie. */
int larder__records_describe(void *st, larder_dataset *out) {
    larder__records *r = st;
    uint32_t shape[3] = {r->raw.h, r->raw.w, r->raw.c};
    *out = (larder_dataset){.count = r->count,
                            .bytes = r->count * r->bytes,
                            .classes = r->classes,
                            .raw = r->raw,
                            .layout = r->layout};
    uint64_t h = larder__hash_bytes(0x1dc5, shape, sizeof shape);
    out->fingerprint = larder__hash_bytes(h, r->labels, r->count);
    larder__content c;
    larder__content_begin(&c, r->count * r->stride);
    for (uint32_t i = 0; i < r->used; i++) {
        larder__content_add(&c, r->parts[i].count * r->stride, read_part, &r->parts[i]);
        out->identity = larder__stamp_hash(out->identity, &r->parts[i].stamp);
    }
    out->content = c.hash;
    return 0;
}

int larder__records_stat(void *st, uint64_t id, larder_sample *out) {
    const larder__records *r = st;
    *out = (larder_sample){.bytes = r->bytes, .label = r->labels[id]};
    return 0;
}

int larder__records_name(void *st, uint64_t id, char *out, size_t cap) {
    const larder__part *p = part_of(st, id);
    snprintf(out, cap, "%s#%llu", larder__name_in(p->path), (unsigned long long)(id - p->first));
    return 0;
}

int larder__records_file(void *st, uint64_t id, uint64_t *out) {
    *out = (uint64_t)(part_of(st, id) - ((const larder__records *)st)->parts);
    return 0;
}

static int read_one(const larder__records *r, const larder__part *p, uint64_t id, void *out) {
    uint64_t at = (id - p->first) * r->stride + r->skip;
    if (p->bytes) {
        memcpy(out, p->bytes + at, r->bytes);
        return 0;
    }
    int rc = larder__pread_full(p->fd, p->path, out, r->bytes, p->head + at);
    return rc < 0 ? larder__fail_in(rc, "sample %llu", (unsigned long long)id) : 0;
}

/* A joint read looks once at each file it touched, when all is read: what came from one that is no
 * longer what it was counts for nothing. */
static void take_back(const larder__records *r, const larder__part *p, const uint64_t *ids,
                      size_t n, larder_read *out) {
    for (size_t i = 0; i < n; i++) {
        if (!out[i].buf || part_of(r, ids[i]) != p)
            continue;
        larder_buf_unref(&out[i].buf);
        larder__answer_failure(&out[i], larder__fail_in(larder__file_changed(p->path),
                                                        "sample %llu", (unsigned long long)ids[i]));
    }
}

static bool lay(void *arg, uint64_t id, larder__chain *run, larder_buf **out) {
    const larder__records *r = arg;
    const larder__part *p = part_of(r, id);
    uint64_t at = p->head + (id - p->first) * r->stride + r->skip;
    *out = p->fd >= 0 ? larder_buf_new(r->bytes) : NULL;
    return *out && larder__chain_add(run, p->fd, at, larder_buf_data(*out), r->bytes);
}

static void answer_one(const larder__records *r, uint64_t id, larder_read *out) {
    larder_buf *buf = larder_buf_new(r->bytes);
    int rc = buf ? read_one(r, part_of(r, id), id, larder_buf_data(buf)) : LARDER_E_NOMEM;
    if (rc < 0) {
        larder_buf_unref(&buf);
        larder__answer_failure(out, rc);
    } else {
        larder__answer_buf(out, buf);
    }
}

int larder__records_read(void *st, const uint64_t *ids, size_t n, larder_read *out) {
    larder__records *r = st;
    bool touched[LARDER__RECORD_PARTS] = {0};
    for (size_t i = 0; i < n;) {
        const larder__part *p = part_of(r, ids[i]);
        touched[p - r->parts] |= p->fd >= 0;
        bool read;
        size_t k = larder__chain_read(lay, r, ids + i, n - i, out + i, &read);
        for (size_t end = i + k; i < end; i++)
            if (!read)
                answer_one(r, ids[i], &out[i]);
    }
    for (uint32_t k = 0; k < r->used; k++) {
        const larder__part *p = &r->parts[k];
        if (touched[k] && larder__fd_unchanged(p->fd, p->path, &p->stamp) < 0)
            take_back(r, p, ids, n, out);
    }
    return 0;
}
