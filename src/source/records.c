#include "source/records.h"

#include "base/err.h"
#include "base/hash.h"
#include "base/mem.h"
#include "source/answer.h"
#include "source/pread_full.h"

#include <fcntl.h>

static int add_part(larder__records *r, const char *path, uint64_t count, larder__part **out) {
    if (r->used == LARDER__RECORD_PARTS)
        return larder__fail(LARDER_E_RANGE, "%s: one file too many", path);
    larder__part *p = &r->parts[r->used++];
    *p = (larder__part){.first = r->count, .count = count, .fd = -1, .path = larder__strdup(path)};
    r->count += count;
    *out = p;
    return p->path ? 0 : LARDER_E_NOMEM;
}

int larder__records_add_plain(larder__records *r, const char *path, uint64_t head, uint64_t count) {
    larder__part *p = NULL;
    struct stat st;
    int rc = add_part(r, path, count, &p);
    if (rc < 0)
        return rc;
    p->head = head;
    p->fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (p->fd < 0 || fstat(p->fd, &st) != 0)
        return larder__fail(larder__code_of_errno(errno), "%s: %s", path, strerror(errno));
    p->stamp = larder__stamp_of(&st);
    if (p->stamp.size != head + count * r->stride)
        return larder__fail(LARDER_E_CHANGED, "%s changed while it was opened", path);
    return 0;
}

int larder__records_add_bytes(larder__records *r, const char *path, unsigned char *bytes,
                              uint64_t count) {
    larder__part *p = NULL;
    int rc = add_part(r, path, count, &p);
    if (rc < 0)
        larder__free(bytes);
    else
        p->bytes = bytes;
    return rc;
}

void larder__records_free(larder__records *r) {
    for (uint32_t i = 0; i < r->used; i++) {
        larder__free(r->parts[i].path);
        larder__free(r->parts[i].bytes);
        if (r->parts[i].fd >= 0)
            close(r->parts[i].fd);
    }
    larder__free(r->labels);
    *r = (larder__records){0};
}

void larder__records_close(void *st) { larder__records_free(st); }

static const larder__part *part_of(const larder__records *r, uint64_t id) {
    uint32_t i = 0;
    while (id >= r->parts[i].first + r->parts[i].count)
        i++;
    return &r->parts[i];
}

/* The labels stand for the content: the same for plain and packed files, wherever they lie. */
int larder__records_describe(void *st, larder_dataset *out) {
    const larder__records *r = st;
    uint32_t shape[3] = {r->raw.h, r->raw.w, r->raw.c};
    *out = (larder_dataset){.count = r->count,
                            .bytes = r->count * r->bytes,
                            .classes = r->classes,
                            .raw = r->raw,
                            .layout = r->layout};
    uint64_t h = larder__hash_bytes(0x1dc5, shape, sizeof shape);
    out->fingerprint = larder__hash_bytes(h, r->labels, r->count);
    return 0;
}

int larder__records_stat(void *st, uint64_t id, larder_sample *out) {
    const larder__records *r = st;
    *out = (larder_sample){.bytes = r->bytes, .label = r->labels[id]};
    return 0;
}

int larder__records_name(void *st, uint64_t id, char *out, size_t cap) {
    const larder__part *p = part_of(st, id);
    const char *slash = strrchr(p->path, '/');
    snprintf(out, cap, "%s#%llu", slash ? slash + 1 : p->path, (unsigned long long)(id - p->first));
    return 0;
}

/* A joint read looks once at each file it touches whether that is still what it was; a read that
 * comes short shows a file that was cut in between. */
typedef struct looks {
    bool fine[LARDER__RECORD_PARTS];
} looks;

static int look_at(const larder__part *p, bool *fine) {
    int rc = *fine ? 0 : larder__fd_unchanged(p->fd, p->path, &p->stamp);
    *fine = rc == 0;
    return rc;
}

static int read_one(const larder__records *r, uint64_t id, void *out, looks *l) {
    const larder__part *p = part_of(r, id);
    uint64_t at = (id - p->first) * r->stride + r->skip;
    if (p->bytes) {
        memcpy(out, p->bytes + at, r->bytes);
        return 0;
    }
    int rc = look_at(p, &l->fine[p - r->parts]);
    if (rc == 0)
        rc = larder__pread_full(p->fd, p->path, out, r->bytes, p->head + at);
    return rc < 0 ? larder__fail_in(rc, "sample %llu", (unsigned long long)id) : 0;
}

int larder__records_read(void *st, const uint64_t *ids, size_t n, larder_read *out) {
    const larder__records *r = st;
    looks l = {0};
    for (size_t i = 0; i < n; i++) {
        larder_buf *buf = larder_buf_new(r->bytes);
        int rc = buf ? read_one(r, ids[i], larder_buf_data(buf), &l) : LARDER_E_NOMEM;
        if (rc < 0) {
            larder_buf_unref(&buf);
            larder__answer_failure(&out[i], rc);
        } else {
            larder__answer_buf(&out[i], buf);
        }
    }
    return 0;
}
