/* Packed shards: WebDataset tars with an index beside each, as `larder pack` writes them. What a
 * crop needs of a picture is read, and no more: the index tells which bytes these are. */
#include "base/err.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/spec.h"
#include "source/answer.h"
#include "source/chain.h"
#include "source/content.h"
#include "source/fd_pool.h"
#include "source/pack_plan.h"
#include "source/pread_full.h"
#include "source/ranges.h"
#include "source/shards.h"
#include "source/split.h"

#include <limits.h>
#include <stdio.h>

typedef struct shard {
    char *index_path;
    larder__pack_file index;
    larder__stamp tar, beside; /* of the two files */
} shard;

typedef struct pack {
    larder__names paths;
    shard *shards;
    uint64_t *firsts;            /* id of each shard's first sample */
    larder__pack_entry *entries; /* of all shards */
    larder__names classes;
    larder__fd_pool *pool; /* file 2 i is shard i's tar, 2 i + 1 its index */
    uint64_t count, bytes, fingerprint;
    uint32_t class_count;
    uint32_t margin, gap;
    bool verify;
} pack;

/* ---- open and close -------------------------------------------------------------------------- */

static int open_index(shard *s, const char *path) {
    char beside[PATH_MAX];
    int rc = larder__pack_path(beside, sizeof beside, path);
    if (rc < 0)
        return rc;
    s->index_path = larder__strdup(beside);
    if (!s->index_path)
        return LARDER_E_NOMEM;
    int fd = larder__open_plain(s->index_path, &s->beside);
    if (fd == LARDER_E_NOTFOUND)
        return larder__fail(fd, "%s: has no index %s beside it; tar:%s reads it without", path,
                            s->index_path, path);
    if (fd < 0)
        return fd;
    rc = larder__pack_file_begin(&s->index, s->index_path, fd);
    close(fd);
    return rc;
}

/* The head of each index, and is the tar beside it the one it speaks of? */
static int open_shard(pack *p, uint64_t i) {
    shard *s = &p->shards[i];
    const char *path = larder__names_get(&p->paths, i);
    int rc = open_index(s, path);
    int fd = rc < 0 ? rc : larder__open_plain(path, &s->tar);
    if (fd < 0)
        return fd;
    close(fd);
    if (s->tar.size != s->index.shard_bytes)
        return larder__fail(
            LARDER_E_CHANGED, "%s: has %llu bytes, its index speaks of %llu; pack it again", path,
            (unsigned long long)s->tar.size, (unsigned long long)s->index.shard_bytes);
    p->firsts[i] = p->count;
    p->count += s->index.count;
    p->fingerprint = larder__mix64(p->fingerprint ^ s->index.own_sum);
    return 0;
}

static int read_entries(pack *p, uint64_t i) {
    shard *s = &p->shards[i];
    int fd = larder__open_plain(s->index_path, &s->beside);
    if (fd < 0)
        return fd;
    int rc = larder__pack_file_entries(&s->index, fd, p->entries + p->firsts[i]);
    if (rc == 0 && i == 0)
        rc = larder__pack_file_classes(&s->index, fd, &p->classes);
    close(fd);
    return rc;
}

static int summarise(pack *p) {
    int32_t highest = -1;
    for (uint64_t i = 0; i < p->count; i++) {
        p->bytes += p->entries[i].bytes;
        highest = p->entries[i].label > highest ? p->entries[i].label : highest;
    }
    p->class_count = (uint32_t)highest + 1;
    if (p->classes.count > p->class_count)
        p->class_count = (uint32_t)p->classes.count;
    return p->count ? 0
                    : larder__fail(LARDER_E_NOTFOUND, "%s: holds no samples",
                                   larder__names_get(&p->paths, 0));
}

static int pack_open(void *st, const char *where, const larder_args *args) {
    pack *p = st;
    p->margin = (uint32_t)larder_args_number(args, "margin");
    double gap = larder_args_number(args, "gap");
    p->gap = gap < UINT32_MAX ? (uint32_t)gap : UINT32_MAX;
    p->verify = larder_args_number(args, "verify") != 0;
    int rc = larder__shards_expand(&p->paths, where, larder_args_text(args, "split"));
    if (rc < 0)
        return rc;
    p->shards = larder__calloc(p->paths.count, sizeof *p->shards);
    p->firsts = larder__calloc(p->paths.count, sizeof *p->firsts);
    if (!p->shards || !p->firsts)
        return LARDER_E_NOMEM;
    for (uint64_t i = 0; rc == 0 && i < p->paths.count; i++)
        rc = open_shard(p, i);
    if (rc == 0 && !(p->entries = larder__calloc(p->count + 1, sizeof *p->entries)))
        rc = LARDER_E_NOMEM;
    for (uint64_t i = 0; rc == 0 && i < p->paths.count; i++)
        rc = read_entries(p, i);
    if (rc == 0)
        rc = summarise(p);
    return rc < 0 ? rc : larder__fd_pool_open(&p->pool, (uint32_t)p->paths.count * 2);
}

static void pack_close(void *st) {
    pack *p = st;
    larder__fd_pool_close(&p->pool);
    for (uint64_t i = 0; p->shards && i < p->paths.count; i++)
        larder__free(p->shards[i].index_path);
    larder__free(p->shards);
    larder__free(p->firsts);
    larder__free(p->entries);
    larder__names_free(&p->classes);
    larder__names_free(&p->paths);
}

/* Shards whose first one has an index beside it. */
static int probe(const char *where) {
    char beside[PATH_MAX];
    bool folder = larder__is_folder(where);
    if (!folder && !larder__is_shard_name(where))
        return 0;
    larder__names found = {0};
    bool there = larder__shards_expand(&found, where, "auto") == 0 && found.count > 0 &&
                 larder__pack_path(beside, sizeof beside, larder__names_get(&found, 0)) == 0 &&
                 larder__is_file(beside);
    larder__names_free(&found);
    return there ? (folder ? 40 : 60) : 0;
}

/* ---- questions ------------------------------------------------------------------------------- */

typedef struct shard_bytes {
    pack *p;
    uint32_t shard;
} shard_bytes;

static int read_shard(void *arg, void *out, size_t n, uint64_t at) {
    shard_bytes *s = arg;
    const char *path = larder__names_get(&s->p->paths, s->shard);
    int fd = larder__fd_pool_take(s->p->pool, s->shard * 2, path);
    if (fd < 0)
        return fd;
    int rc = larder__pread_full(fd, path, out, n, at);
    larder__fd_pool_give(s->p->pool, s->shard * 2, fd);
    return rc;
}

/* The fingerprint has the checksums of all samples in it, as they were packed; a shard that was
 * written over since is told by the rest. */
static int describe(void *st, larder_dataset *out) {
    pack *p = st;
    *out = (larder_dataset){.count = p->count,
                            .bytes = p->bytes,
                            .classes = p->class_count,
                            .fingerprint = p->fingerprint,
                            .parts = true};
    larder__content c;
    uint64_t all = 0;
    for (uint64_t i = 0; i < p->paths.count; i++)
        all += p->shards[i].tar.size;
    larder__content_begin(&c, all);
    for (uint64_t i = 0; i < p->paths.count; i++) {
        const shard *s = &p->shards[i];
        larder__content_add(&c, s->tar.size, read_shard,
                            &(shard_bytes){.p = p, .shard = (uint32_t)i});
        out->identity = larder__stamp_hash(larder__stamp_hash(out->identity, &s->tar), &s->beside);
    }
    out->content = c.hash;
    return 0;
}

static int stat_one(void *st, uint64_t id, larder_sample *out) {
    const larder__pack_entry *e = &((const pack *)st)->entries[id];
    *out = (larder_sample){.bytes = e->bytes, .label = e->label};
    return 0;
}

static uint32_t shard_of(const pack *p, uint64_t id) {
    return (uint32_t)larder__range_of(p->firsts, p->paths.count, id);
}

static int file(void *st, uint64_t id, uint64_t *out) {
    *out = shard_of(st, id);
    return 0;
}

static const char *class_name(void *st, uint32_t label) {
    const pack *p = st;
    return label < p->classes.count ? larder__names_get(&p->classes, label) : NULL;
}

/* ---- files in hand --------------------------------------------------------------------------- */

typedef struct held { /* the shard that a call has in hand: checked once, not for every sample */
    uint32_t shard;
    int tar, index;         /* -1: not open */
    size_t first;           /* of the call's samples that came from it; the others follow */
    larder__pack_plan plan; /* of one sample's part */
} held;

static const held nothing_held = {.tar = -1, .index = -1};

static void let_go(pack *p, held *h) {
    if (h->tar >= 0)
        larder__fd_pool_give(p->pool, h->shard * 2, h->tar);
    if (h->index >= 0)
        larder__fd_pool_give(p->pool, h->shard * 2 + 1, h->index);
    h->tar = h->index = -1;
}

static void end_hold(pack *p, held *h) {
    let_go(p, h);
    larder__pack_plan_free(&h->plan);
}

/* What was read counts only if both files are what they were, now that it is: E_CHANGED. */
static int check_held(const pack *p, const held *h) {
    const shard *s = &p->shards[h->shard];
    int rc = h->index < 0 ? 0 : larder__fd_unchanged(h->index, s->index_path, &s->beside);
    if (rc == 0 && h->tar >= 0)
        rc = larder__fd_unchanged(h->tar, larder__names_get(&p->paths, h->shard), &s->tar);
    return rc;
}

static int hold_file(pack *p, int *fd, uint32_t which, const char *path) {
    if (*fd < 0)
        *fd = larder__fd_pool_take(p->pool, which, path);
    return *fd < 0 ? *fd : 0;
}

/* Both files of a shard, or the index alone. */
static int hold(pack *p, held *h, uint32_t i, bool tar) {
    if (h->shard != i)
        let_go(p, h);
    h->shard = i;
    int rc = hold_file(p, &h->index, i * 2 + 1, p->shards[i].index_path);
    if (rc == 0 && tar)
        rc = hold_file(p, &h->tar, i * 2, larder__names_get(&p->paths, i));
    return rc;
}

static int name(void *st, uint64_t id, char *out, size_t cap) {
    pack *p = st;
    held h = nothing_held;
    uint32_t i = shard_of(p, id);
    int rc = hold(p, &h, i, false);
    if (rc == 0)
        rc = larder__pack_file_name(&p->shards[i].index, h.index, id - p->firsts[i], out, cap);
    int held_rc = check_held(p, &h); /* it explains what was found */
    end_hold(p, &h);
    return held_rc < 0 ? held_rc : rc;
}

/* "shard: sample n" in front of what went wrong. */
static int blame(const pack *p, uint64_t id, int code) {
    const char *path = larder__names_get(&p->paths, shard_of(p, id));
    return larder__fail_in(code, "%.120s, sample %llu", larder__name_in(path),
                           (unsigned long long)id);
}

/* ---- whole samples --------------------------------------------------------------------------- */

static int check_sum(pack *p, held *h, uint64_t id, const larder_buf *buf, const void *bytes) {
    const shard *s = &p->shards[h->shard];
    unsigned char told[8];
    int rc = larder__pread_full(h->index, s->index_path, told, sizeof told,
                                s->index.at[LARDER__PACK_SUMS] + (id - p->firsts[h->shard]) * 8);
    larder_reader r = {told, told + 8, 0};
    if (rc == 0 && larder_read_u64(&r) != larder__pack_sum(bytes, larder_buf_size(buf)))
        rc = larder__fail(LARDER_E_FORMAT, "its bytes are not the ones that were packed");
    return rc;
}

static int read_whole(pack *p, held *h, uint64_t id, larder_buf **out) {
    const larder__pack_entry *e = &p->entries[id];
    uint32_t i = shard_of(p, id);
    *out = larder_buf_new(e->bytes);
    if (!*out)
        return LARDER_E_NOMEM;
    void *bytes = larder_buf_data(*out);
    int rc = hold(p, h, i, true);
    if (rc == 0)
        rc =
            larder__pread_full(h->tar, larder__names_get(&p->paths, i), bytes, e->bytes, e->offset);
    if (rc == 0 && p->verify)
        rc = check_sum(p, h, id, *out, bytes);
    if (rc == 0)
        return 0;
    larder_buf_unref(out);
    return blame(p, id, rc);
}

/* ---- parts ----------------------------------------------------------------------------------- */

static int extent(void *st, uint64_t id, uint32_t *w, uint32_t *h) {
    const larder__pack_entry *e = &((const pack *)st)->entries[id];
    *w = e->data_at ? e->grid.w : 0;
    *h = e->data_at ? e->grid.h : 0;
    return 0;
}

static int plan_part(pack *p, held *h, uint64_t id, const larder_rect *want) {
    uint32_t i = shard_of(p, id);
    int rc = hold(p, h, i, true);
    return rc < 0 ? rc
                  : larder__pack_plan_make(&h->plan, &p->shards[i].index, h->index, &p->entries[id],
                                           want, p->margin, p->gap);
}

typedef struct filling { /* of a part's buffer, from the shard */
    int fd;
    const char *path;
    unsigned char *to;
} filling;

static int read_piece(void *arg, uint64_t at, size_t n) {
    filling *f = arg;
    int rc = larder__pread_full(f->fd, f->path, f->to, n, at);
    f->to += n;
    return rc;
}

static int read_part(pack *p, held *h, uint64_t id, const larder_rect *want, larder_buf **out) {
    *out = NULL;
    int rc = plan_part(p, h, id, want);
    uint32_t size = rc == 0 ? larder__pack_plan_size(&h->plan) : 0;
    if (rc == 0 && (size == 0 || !(*out = larder_buf_new(size))))
        rc = LARDER_E_NOMEM;
    if (rc == 0) {
        unsigned char *to = larder_buf_data(*out);
        filling f = {h->tar, larder__names_get(&p->paths, h->shard),
                     to + larder__pack_plan_begin(&h->plan, to)};
        rc = larder__pack_plan_pieces(&h->plan, &p->entries[id], read_piece, &f);
    }
    if (rc == 0)
        return 0;
    larder_buf_unref(out);
    return blame(p, id, rc);
}

static int part_bytes(void *st, uint64_t id, const larder_rect *want, uint32_t *out) {
    pack *p = st;
    if (larder__pack_part_whole(&p->entries[id], want, out))
        return 0;
    held h = nothing_held;
    int rc = plan_part(p, &h, id, want);
    if (rc == 0)
        rc = check_held(p, &h);
    if (rc == 0)
        *out = larder__pack_plan_size(&h.plan);
    end_hold(p, &h);
    return rc < 0 ? blame(p, id, rc) : 0;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* Samples [h->first, end) came from what is in hand. */
static void settle(pack *p, held *h, const uint64_t *ids, size_t end, larder_read *out) {
    char why[256];
    bool fine = check_held(p, h) == 0;
    snprintf(why, sizeof why, "%s", fine ? "" : larder_errmsg());
    for (size_t i = h->first; !fine && i < end; i++) {
        larder_buf_unref(&out[i].buf);
        larder__answer_failure(&out[i],
                               blame(p, ids[i], larder__fail(LARDER_E_CHANGED, "%s", why)));
    }
    h->first = end;
}

typedef struct laying {
    const pack *p;
    const held *h;
} laying;

static bool lay(void *arg, uint64_t id, larder__chain *run, larder_buf **out) {
    const laying *l = arg;
    const larder__pack_entry *e = &l->p->entries[id];
    if (shard_of(l->p, id) != l->h->shard)
        return false;
    *out = larder_buf_new(e->bytes);
    return *out && larder__chain_add(run, l->h->tar, e->offset, larder_buf_data(*out), e->bytes);
}

/* The first of n samples, as many as lie together. Where each is checked they come one by one. */
static size_t read_run(pack *p, held *h, const uint64_t *ids, size_t n, larder_read *out,
                       bool *read) {
    *read = false;
    if (p->verify || hold(p, h, shard_of(p, ids[0]), true) < 0)
        return 1;
    return larder__chain_read(lay, &(laying){p, h}, ids, n, out, read);
}

static int read_parts(void *st, const uint64_t *ids, const larder_rect *rects, size_t n,
                      larder_read *out) {
    pack *p = st;
    held h = nothing_held;
    for (size_t i = 0; i < n;) {
        if (i && shard_of(p, ids[i]) != h.shard)
            settle(p, &h, ids, i, out);
        bool read = false;
        size_t k = rects ? 1 : read_run(p, &h, ids + i, n - i, out + i, &read);
        for (size_t end = i + k; i < end; i++) {
            larder_buf *buf;
            if (read)
                continue;
            bool part = rects && rects[i].x1 && p->entries[ids[i]].data_at;
            int rc =
                part ? read_part(p, &h, ids[i], &rects[i], &buf) : read_whole(p, &h, ids[i], &buf);
            if (rc < 0)
                larder__answer_failure(&out[i], rc);
            else
                larder__answer_buf(&out[i], buf);
        }
    }
    settle(p, &h, ids, n, out);
    end_hold(p, &h);
    return 0;
}

static int pack_read(void *st, const uint64_t *ids, size_t n, larder_read *out) {
    return read_parts(st, ids, NULL, n, out);
}

static const larder_param params[] = {
    LARDER__SPLIT_PARAM,
    {"margin", "int", "1", "pixels read around a crop, so that its edge is as in a full decode", 0,
     4096},
    {"gap", "size", "64", "read over this many bytes rather than begin another read", 0, 0},
    {"verify", "bool", "false", "compare the checksum of samples that are read whole", 0, 0},
    {0}};

const larder_source larder__source_pack = {
    .plugin = {.name = "pack",
               .summary = "shards that larder pack wrote: of a picture, what a crop needs is read",
               .params = params,
               .state_size = sizeof(pack)},
    .probe = probe,
    .open = pack_open,
    .close = pack_close,
    .describe = describe,
    .stat = stat_one,
    .name = name,
    .class_name = class_name,
    .read = pack_read,
    .extent = extent,
    .part_bytes = part_bytes,
    .read_parts = read_parts,
    .file = file,
};
