/* WebDataset shards: tar files in which members of the same key make a sample. Any sample can be
 * read at once, by an index that is built when a shard is first seen and kept for the next run,
 * which maps it: samples then take no memory. */
#include "base/err.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/spec.h"
#include "source/answer.h"
#include "source/chain.h"
#include "source/content.h"
#include "source/fd_pool.h"
#include "source/pread_full.h"
#include "source/shards.h"
#include "source/split.h"
#include "source/tar_index.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct tar {
    larder__names paths; /* of the shards */
    larder__stamp *stamps;
    larder__tar_index index; /* of all shards, one after the other */
    larder__fd_pool *pool;
    bool keep;
    larder__found_says says;
} tar;

/* ---- the index of one shard ------------------------------------------------------------------ */

static int build(larder__tar_block *out, const char *label, int fd, const char *path,
                 const larder__stamp *stamp) {
    struct stat after;
    larder__tar *scan = larder__malloc(sizeof *scan);
    if (!scan)
        return LARDER_E_NOMEM;
    larder__tar_begin_fd(scan, label, fd, stamp->size);
    int rc = stamp->size ? larder__tar_block_scan(out, scan, path, stamp)
                         : larder__fail(LARDER_E_FORMAT, "%s is empty", label);
    larder__free(scan);
    if (rc == 0 && (fstat(fd, &after) != 0 || !larder__stamp_holds(stamp, &after)))
        rc = larder__fail(LARDER_E_CHANGED, "%s changed while it was indexed", label);
    if (rc < 0)
        larder__tar_block_free(out);
    return rc;
}

static int add_shard(tar *t, uint64_t i) {
    const char *label = larder__names_get(&t->paths, i);
    larder__stamp *stamp = &t->stamps[i];
    larder__tar_block block = {0};
    char path[PATH_MAX] = "", kept[LARDER__TAR_KEPT] = "";
    int fd = larder__open_plain(label, stamp), rc = 0;
    if (fd < 0)
        return fd;
    if (t->keep && realpath(label, path))
        larder__tar_block_name(path, kept);
    if (!kept[0] || !larder__tar_block_load(&block, kept, path, stamp)) {
        rc = build(&block, label, fd, path, stamp);
        if (rc == 0 && kept[0])
            larder__tar_block_keep(&block, kept, path, stamp);
    }
    close(fd);
    return rc < 0 ? rc : larder__tar_index_add(&t->index, &block);
}

/* ---- open and close -------------------------------------------------------------------------- */

static int tar_open(void *st, const char *where, const larder_args *args) {
    tar *t = st;
    t->keep = strcmp(larder_args_text(args, "index"), "keep") == 0;
    int rc = larder__shards_expand(&t->paths, where, larder_args_text(args, "split"));
    if (rc < 0)
        return rc;
    t->stamps = larder__calloc(t->paths.count, sizeof *t->stamps);
    if (!t->stamps)
        return LARDER_E_NOMEM;
    rc = larder__tar_index_open(&t->index, t->paths.count);
    for (uint64_t i = 0; rc == 0 && i < t->paths.count; i++)
        rc = add_shard(t, i);
    return rc < 0 ? rc : larder__fd_pool_open(&t->pool, (uint32_t)t->paths.count);
}

static const char *label_of(void *st, uint64_t shard) {
    return larder__names_get(&((const tar *)st)->paths, shard);
}

static int choose(void *st, const char *const *names, size_t n) {
    tar *t = st;
    int rc = larder__tar_index_choose(&t->index, names, n, label_of, t);
    if (rc == 0 && larder__tar_index_count(&t->index) == 0) {
        const char *there = larder__found_note(&t->index.found, "members", 0, &t->says);
        rc = larder__fail(LARDER_E_NOTFOUND, "%s: holds no samples%s%s", label_of(t, 0),
                          there ? "; " : "", there ? there : "");
    }
    return rc;
}

static const char *field(void *st, size_t i) {
    return larder__tar_index_field(&((tar *)st)->index, i);
}

static void tar_close(void *st) {
    tar *t = st;
    larder__fd_pool_close(&t->pool);
    larder__tar_index_free(&t->index);
    larder__names_free(&t->paths);
    larder__free(t->stamps);
}

static int probe(const char *where) {
    if (larder__is_shard_name(where))
        return larder__is_folder(where) ? 0 : 50;
    larder__names found = {0};
    int rc = larder__is_folder(where) ? larder__shards_expand(&found, where, "auto") : -1;
    larder__names_free(&found);
    return rc == 0 ? 30 : 0;
}

/* ---- questions ------------------------------------------------------------------------------- */

typedef struct shard_bytes {
    tar *t;
    uint32_t shard;
} shard_bytes;

static int read_shard(void *arg, void *out, size_t n, uint64_t at) {
    shard_bytes *s = arg;
    const char *path = larder__names_get(&s->t->paths, s->shard);
    int fd = larder__fd_pool_take(s->t->pool, s->shard, path);
    if (fd < 0)
        return fd;
    int rc = larder__pread_full(fd, path, out, n, at);
    larder__fd_pool_give(s->t->pool, s->shard, fd);
    return rc;
}

static int describe(void *st, larder_dataset *out) {
    tar *t = st;
    int rc = larder__tar_index_about(&t->index, out);
    if (rc < 0)
        return larder__fail_in(rc, "%s", label_of(t, 0));
    larder__content c;
    uint64_t all = 0;
    for (uint64_t i = 0; i < t->paths.count; i++)
        all += t->stamps[i].size;
    larder__content_begin(&c, all);
    for (uint64_t i = 0; i < t->paths.count; i++) {
        larder__content_add(&c, t->stamps[i].size, read_shard,
                            &(shard_bytes){.t = t, .shard = (uint32_t)i});
        out->identity = larder__stamp_hash(out->identity, &t->stamps[i]);
    }
    out->content = c.hash;
    return 0;
}

static int stat_one(void *st, uint64_t id, larder_sample *out) {
    larder__tar_sample s;
    int rc = larder__tar_index_sample(&((const tar *)st)->index, id, &s);
    *out = (larder_sample){.bytes = s.bytes, .label = s.label};
    return rc < 0 ? larder__fail_in(rc, "%s", label_of(st, s.shard)) : 0;
}

static uint32_t shard_of(const tar *t, uint64_t id) {
    return (uint32_t)larder__tar_index_shard(&t->index, id);
}

static int file(void *st, uint64_t id, uint64_t *out) {
    *out = shard_of(st, id);
    return 0;
}

static int name(void *st, uint64_t id, char *out, size_t cap) {
    const tar *t = st;
    char member[LARDER__TAR_NAME];
    uint64_t shard = shard_of(t, id);
    larder__tar_index_name(&t->index, id, member);
    snprintf(out, cap, "%s:%s", larder__name_in(larder__names_get(&t->paths, shard)), member);
    return 0;
}

static const char *note(void *st, size_t i) {
    tar *t = st;
    return larder__found_note(&t->index.found, "members", i, &t->says);
}

/* ---- reading --------------------------------------------------------------------------------- */

typedef struct held { /* the shard that a call has in hand: checked once, not for every sample */
    uint32_t shard;
    int fd;       /* -1: none */
    size_t first; /* of the call's samples that came from it; the others follow */
} held;

static int blame(const tar *t, uint64_t id, int code) {
    char member[LARDER__TAR_NAME];
    larder__tar_index_name(&t->index, id, member);
    return larder__fail_in(code, "%.120s", member);
}

/* Samples [h->first, end) count only if their shard is what it was, now that they are read. */
static void let_go(tar *t, held *h, const uint64_t *ids, size_t end, larder_read *out) {
    if (h->fd < 0)
        return;
    const char *path = larder__names_get(&t->paths, h->shard);
    bool fine = larder__fd_unchanged(h->fd, path, &t->stamps[h->shard]) == 0;
    for (size_t i = h->first; !fine && i < end; i++) {
        larder_buf_unref(&out[i].buf);
        larder__answer_failure(&out[i], blame(t, ids[i], larder__file_changed(path)));
    }
    larder__fd_pool_give(t->pool, h->shard, h->fd);
    h->fd = -1;
}

static void sort_parts(size_t *order, const larder__tar_part *parts, size_t n) {
    for (size_t i = 0; i < n; i++) {
        size_t k = i;
        for (; k > 0 && parts[order[k - 1]].block > parts[i].block; k--)
            order[k] = order[k - 1];
        order[k] = i;
    }
}

/* Its fields' bytes go where its parcel has them, in the order in which they lie there. */
static bool lay_fields(tar *t, const held *h, uint64_t id, larder__chain *run, larder_buf **out) {
    larder__tar_part parts[LARDER__TAR_WANTED];
    larder__field fields[LARDER__TAR_WANTED];
    size_t order[LARDER__TAR_WANTED], n;
    if (larder__tar_index_parts(&t->index, id, fields, parts, &n) < 0 ||
        larder__parcel_make(out, fields, n) < 0)
        return false;
    sort_parts(order, parts, n);
    for (size_t i = 0; i < n; i++)
        if (!larder__chain_add(run, h->fd, (uint64_t)parts[order[i]].block * LARDER__TAR_BLOCK,
                               (void *)(uintptr_t)fields[order[i]].data, parts[order[i]].bytes))
            return false;
    return true;
}

typedef struct laying {
    tar *t;
    const held *h;
} laying;

static bool lay(void *arg, uint64_t id, larder__chain *run, larder_buf **out) {
    const laying *l = arg;
    larder__tar_sample s;
    if (larder__tar_index_sample(&l->t->index, id, &s) < 0 || s.shard != l->h->shard)
        return false;
    if (l->t->index.wanted_count)
        return lay_fields(l->t, l->h, id, run, out);
    *out = larder_buf_new(s.bytes);
    return *out && larder__chain_add(run, l->h->fd, s.offset, larder_buf_data(*out), s.bytes);
}

static int read_fields(tar *t, const held *h, uint64_t id, larder_buf **out) {
    larder__tar_part parts[LARDER__TAR_WANTED];
    larder__field fields[LARDER__TAR_WANTED];
    size_t n;
    int rc = larder__tar_index_parts(&t->index, id, fields, parts, &n);
    if (rc < 0 || (rc = larder__parcel_make(out, fields, n)) < 0)
        return rc == LARDER_E_IO ? larder__fail_in(rc, "%s", label_of(t, h->shard)) : rc;
    rc = h->fd < 0 ? h->fd : 0;
    for (size_t i = 0; rc == 0 && i < n; i++)
        rc = larder__pread_full(h->fd, larder__names_get(&t->paths, h->shard),
                                (void *)(uintptr_t)fields[i].data, parts[i].bytes,
                                (uint64_t)parts[i].block * LARDER__TAR_BLOCK);
    if (rc < 0)
        larder_buf_unref(out);
    return rc < 0 ? blame(t, id, rc) : 0;
}

static int read_one(tar *t, const held *h, uint64_t id, larder_buf **out) {
    if (t->index.wanted_count)
        return read_fields(t, h, id, out);
    larder__tar_sample s;
    int rc = larder__tar_index_sample(&t->index, id, &s);
    if (rc < 0)
        return larder__fail_in(rc, "%s", label_of(t, s.shard));
    *out = larder_buf_new(s.bytes);
    if (!*out)
        return LARDER_E_NOMEM;
    rc = h->fd < 0 ? h->fd
                   : larder__pread_full(h->fd, larder__names_get(&t->paths, h->shard),
                                        larder_buf_data(*out), s.bytes, s.offset);
    if (rc == 0)
        return 0;
    larder_buf_unref(out);
    return blame(t, id, rc);
}

static void answer_one(tar *t, const held *h, uint64_t id, larder_read *out) {
    larder_buf *buf;
    int rc = read_one(t, h, id, &buf);
    if (rc < 0)
        larder__answer_failure(out, rc);
    else
        larder__answer_buf(out, buf);
}

static int tar_read(void *st, const uint64_t *ids, size_t n, larder_read *out) {
    tar *t = st;
    held h = {.fd = -1};
    for (size_t i = 0; i < n;) {
        uint32_t shard = shard_of(t, ids[i]);
        if (h.fd < 0 || h.shard != shard) {
            let_go(t, &h, ids, i, out);
            h = (held){shard,
                       larder__fd_pool_take(t->pool, shard, larder__names_get(&t->paths, shard)),
                       i};
        }
        bool read;
        size_t k = larder__chain_read(lay, &(laying){t, &h}, ids + i, n - i, out + i, &read);
        for (size_t end = i + k; i < end; i++)
            if (!read)
                answer_one(t, &h, ids[i], &out[i]);
    }
    let_go(t, &h, ids, n, out);
    return 0;
}

static const larder_param params[] = {
    LARDER__SPLIT_PARAM,
    {"index", "keep|off", "keep", "keep each shard's index in the user's cache folder", 0, 0},
    {0}};

const larder_source larder__source_tar = {
    .plugin = {.name = "tar",
               .summary = "WebDataset shards: names, *, {000..009}, {a,b}, folders, commas between",
               .params = params,
               .state_size = sizeof(tar)},
    .probe = probe,
    .open = tar_open,
    .close = tar_close,
    .describe = describe,
    .stat = stat_one,
    .name = name,
    .read = tar_read,
    .note = note,
    .choose = choose,
    .field = field,
    .file = file,
};
