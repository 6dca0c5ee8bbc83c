/* Packed shards on a site: of a picture, what a crop needs is asked for, by one range as a rule.
 * The index beside each shard is fetched whole at open and kept in the user's cache folder; from
 * then on it is a file like any other. */
#include "source/web/web_data.h"

#include "base/err.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/keep.h"
#include "base/mem.h"
#include "source/fd_pool.h"
#include "source/pack_plan.h"
#include "source/pread_full.h"
#include "source/ranges.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/mman.h>

enum { GAP_IN_PART = 64 }; /* bytes of a part that are kept although no crop needs them */

typedef struct web_pack {
    larder__pack_file index;
    char *label;   /* for sentences */
    char kept[48]; /* name among the kept files; "": `fd` holds it */
    int fd;        /* -1: it is a kept file */
} web_pack;

struct larder__web_packs {
    web_pack *shards;
    uint64_t count;
    larder__pack_entry *entries;
    larder__fd_pool *pool;
};

typedef struct hand { /* the index that a call has open */
    uint64_t shard;
    int fd;
    larder__pack_plan plan;
} hand;

/* ---- indexes --------------------------------------------------------------------------------- */

static int open_kept(const char *kept) {
    char path[PATH_MAX];
    int rc = larder__keep_path(kept, path, sizeof path);
    return rc < 0 ? rc : open(path, O_RDONLY | O_CLOEXEC);
}

/* As a kept file where that works out, else as one in memory. */
static int put_down(larder__web_data *d, web_pack *s, const larder__text *t) {
    if (d->keep && s->kept[0] && larder__keep_store(s->kept, t->at, t->n) == 0)
        return 0;
    s->kept[0] = 0;
    s->fd = memfd_create("larder-index", MFD_CLOEXEC);
    return s->fd >= 0 && larder__write_all(s->fd, t->at, t->n)
               ? 0
               : larder__fail(LARDER_E_NOMEM, "no memory for an index of %zu bytes: %s", t->n,
                              strerror(errno));
}

static int download(larder__web_data *d, const larder__web_objects *beside, uint64_t i) {
    char *key = larder__web_objects_key(beside, i);
    if (!key)
        return LARDER_E_NOMEM;
    larder__web_request r = {.key = key,
                             .bytes = beside->bytes[i],
                             .object = beside->bytes[i],
                             .tag = d->check ? beside->tags[i] : 0,
                             .most = (size_t)beside->bytes[i]};
    larder__web_run(d->web, &r, 1);
    int rc = r.code < 0  ? larder__fail(r.code, "%s", r.why)
             : r.text.at ? put_down(d, &d->packs->shards[i], &r.text)
                         : larder__fail(LARDER_E_FORMAT, "%s is empty", d->packs->shards[i].label);
    larder__text_free(&r.text);
    larder__free(key);
    return rc;
}

static int head_of(web_pack *s) {
    int fd = s->fd >= 0 ? s->fd : open_kept(s->kept);
    if (fd < 0)
        return larder__fail(LARDER_E_NOTFOUND, "%s is not kept here", s->label);
    int rc = larder__pack_file_begin(&s->index, s->label, fd);
    if (fd != s->fd)
        close(fd);
    return rc;
}

/* Its head; from a kept file if there is one that holds. */
static int open_index(larder__web_data *d, const larder__web_objects *beside, uint64_t i) {
    web_pack *s = &d->packs->shards[i];
    const char *shown = larder__web_shown(d);
    const char *name = larder__names_get(&beside->names, i);
    size_t n = strlen(shown) + strlen(beside->root) + strlen(name) + 1;
    s->fd = -1;
    s->label = larder__malloc(n);
    if (!s->label)
        return LARDER_E_NOMEM;
    snprintf(s->label, n, "%s%s%s", shown, beside->root, name);
    uint64_t stamp[3] = {larder__web_object_id(d, beside, i), beside->bytes[i], beside->tags[i]};
    if (beside->tags[i])
        snprintf(s->kept, sizeof s->kept, "web-pack-%016llx",
                 (unsigned long long)larder__hash_bytes(3, stamp, sizeof stamp));
    if (d->keep && s->kept[0] && head_of(s) == 0 &&
        s->index.at[LARDER__PACK_SECTIONS] == beside->bytes[i])
        return 0;
    int rc = download(d, beside, i);
    return rc < 0 ? rc : head_of(s);
}

static int read_entries(larder__web_data *d, uint64_t i) {
    web_pack *s = &d->packs->shards[i];
    int fd = s->fd >= 0 ? s->fd : open_kept(s->kept);
    if (fd < 0)
        return larder__fail(LARDER_E_CHANGED, "%s: its copy among the kept files is gone",
                            s->label);
    int rc = larder__pack_file_entries(&s->index, fd, d->packs->entries + d->firsts[i]);
    if (rc == 0 && i == 0)
        rc = larder__pack_file_classes(&s->index, fd, &d->classes);
    if (fd != s->fd)
        close(fd);
    return rc;
}

/* ---- open and close -------------------------------------------------------------------------- */

static int open_shard(larder__web_data *d, const larder__web_objects *beside, uint64_t i) {
    int rc = open_index(d, beside, i);
    if (rc < 0)
        return rc;
    const larder__pack_file *f = &d->packs->shards[i].index;
    if (d->objects.bytes[i] != f->shard_bytes)
        return larder__fail(
            LARDER_E_CHANGED, "%s speaks of a shard of %llu bytes, beside it lies one of %llu",
            f->label, (unsigned long long)f->shard_bytes, (unsigned long long)d->objects.bytes[i]);
    d->firsts[i] = d->about.count;
    d->about.count += f->count;
    d->about.fingerprint = larder__mix64(d->about.fingerprint ^ f->own_sum);
    return 0;
}

static int summarise(larder__web_data *d) {
    int32_t highest = -1;
    for (uint64_t i = 0; i < d->about.count; i++) {
        const larder__pack_entry *e = &d->packs->entries[i];
        d->about.bytes += e->bytes;
        highest = e->label > highest ? e->label : highest;
    }
    d->about.classes = (uint32_t)highest + 1;
    if (d->classes.count > d->about.classes)
        d->about.classes = (uint32_t)d->classes.count;
    return d->about.count ? 0
                          : larder__fail(LARDER_E_NOTFOUND, "%s: there are no samples",
                                         d->packs->shards[0].label);
}

static void close_packs(larder__web_data *d) {
    struct larder__web_packs *p = d->packs;
    d->packs = NULL;
    if (!p)
        return;
    larder__fd_pool_close(&p->pool);
    for (uint64_t i = 0; p->shards && i < p->count; i++) {
        if (p->shards[i].label && p->shards[i].fd >= 0)
            close(p->shards[i].fd);
        larder__free(p->shards[i].label);
    }
    larder__free(p->shards);
    larder__free(p->entries);
    larder__free(p);
}

/* ---- questions ------------------------------------------------------------------------------- */

static int stat_one(larder__web_data *d, uint64_t id, larder_sample *out) {
    const larder__pack_entry *e = &d->packs->entries[id];
    *out = (larder_sample){.bytes = e->bytes, .label = e->label};
    return 0;
}

static void drop(larder__web_data *d, hand *h) {
    web_pack *s = &d->packs->shards[h->shard];
    if (h->fd >= 0 && h->fd != s->fd)
        larder__fd_pool_give(d->packs->pool, (uint32_t)h->shard, h->fd);
    h->fd = -1;
}

static int hold(larder__web_data *d, hand *h, uint64_t shard) {
    char path[PATH_MAX];
    web_pack *s = &d->packs->shards[shard];
    if (h->fd >= 0 && h->shard == shard)
        return 0;
    drop(d, h);
    h->shard = shard;
    if (s->fd >= 0) {
        h->fd = s->fd;
        return 0;
    }
    int rc = larder__keep_path(s->kept, path, sizeof path);
    h->fd = rc < 0 ? rc : larder__fd_pool_take(d->packs->pool, (uint32_t)shard, path);
    return h->fd < 0 ? h->fd : 0;
}

static int name(larder__web_data *d, uint64_t id, char *out, size_t cap) {
    hand h = {.fd = -1};
    uint64_t shard = larder__range_of(d->firsts, d->packs->count, id);
    int rc = hold(d, &h, shard);
    if (rc == 0)
        rc = larder__pack_file_name(&d->packs->shards[shard].index, h.fd, id - d->firsts[shard],
                                    out, cap);
    drop(d, &h);
    return rc;
}

int larder__web_packs_extent(larder__web_data *d, uint64_t id, uint32_t *w, uint32_t *h) {
    const larder__pack_entry *e = &d->packs->entries[id];
    *w = e->data_at ? e->grid.w : 0;
    *h = e->data_at ? e->grid.h : 0;
    return 0;
}

static int plan_part(larder__web_data *d, hand *h, uint64_t id, const larder_rect *rect) {
    uint64_t shard = larder__range_of(d->firsts, d->packs->count, id);
    int rc = hold(d, h, shard);
    return rc < 0 ? rc
                  : larder__pack_plan_make(&h->plan, &d->packs->shards[shard].index, h->fd,
                                           &d->packs->entries[id], rect, d->margin, GAP_IN_PART);
}

int larder__web_packs_part_bytes(larder__web_data *d, uint64_t id, const larder_rect *rect,
                                 uint32_t *out) {
    hand h = {.fd = -1};
    if (larder__pack_part_whole(&d->packs->entries[id], rect, out))
        return 0;
    int rc = plan_part(d, &h, id, rect);
    if (rc == 0)
        *out = larder__pack_plan_size(&h.plan);
    drop(d, &h);
    larder__pack_plan_free(&h.plan);
    return rc;
}

/* ---- reading --------------------------------------------------------------------------------- */

static void let_go(larder__web_data *d, void **kept) {
    hand *h = *kept;
    *kept = NULL;
    if (!h)
        return;
    drop(d, h);
    larder__pack_plan_free(&h->plan);
    larder__free(h);
}

typedef struct placing { /* the pieces of a part in its buffer */
    larder__web_wants *wants;
    larder__web_want next;
} placing;

static int add_piece(void *arg, uint64_t at, size_t n) {
    placing *p = arg;
    p->next.at = at;
    p->next.n = n;
    int rc = n ? larder__web_wants_add(p->wants, &p->next) : 0;
    p->next.to += n;
    return rc;
}

static int plan(larder__web_data *d, void **kept, uint64_t id, const larder_rect *rect,
                larder__web_wants *wants, size_t sample, larder_buf **out) {
    const larder__pack_entry *e = &d->packs->entries[id];
    placing p = {wants,
                 {.object = larder__range_of(d->firsts, d->packs->count, id), .sample = sample}};
    if (!rect || !rect->x1 || !e->data_at) {
        if (!(*out = larder_buf_new(e->bytes)))
            return LARDER_E_NOMEM;
        p.next.to = larder_buf_data(*out);
        return add_piece(&p, e->offset, e->bytes);
    }
    hand *h = *kept;
    if (!h) {
        if (!(h = *kept = larder__calloc(1, sizeof *h)))
            return LARDER_E_NOMEM;
        h->fd = -1;
    }
    int rc = plan_part(d, h, id, rect);
    uint32_t size = rc == 0 ? larder__pack_plan_size(&h->plan) : 0;
    if (rc == 0 && (size == 0 || !(*out = larder_buf_new(size))))
        rc = LARDER_E_NOMEM;
    if (rc < 0)
        return rc;
    unsigned char *to = larder_buf_data(*out);
    p.next.to = to + larder__pack_plan_begin(&h->plan, to);
    return larder__pack_plan_pieces(&h->plan, e, add_piece, &p);
}

static int file(larder__web_data *d, uint64_t id, uint64_t *out) {
    *out = larder__range_of(d->firsts, d->packs->count, id);
    return 0;
}

static const larder__web_kind packs = {.stat = stat_one,
                                       .name = name,
                                       .plan = plan,
                                       .let_go = let_go,
                                       .close = close_packs,
                                       .file = file};

int larder__web_packs_open(larder__web_data *d, larder__web_objects *beside) {
    uint64_t n = d->objects.names.count;
    d->kind = &packs;
    d->packs = larder__calloc(1, sizeof *d->packs);
    d->firsts = larder__calloc(n + 1, sizeof *d->firsts);
    if (!d->packs || !d->firsts)
        return LARDER_E_NOMEM;
    d->packs->count = n;
    d->packs->shards = larder__calloc(n, sizeof *d->packs->shards);
    int rc = d->packs->shards ? 0 : LARDER_E_NOMEM;
    d->about = (larder_dataset){.parts = true};
    for (uint64_t i = 0; rc == 0 && i < n; i++)
        rc = open_shard(d, beside, i);
    d->firsts[n] = d->about.count;
    if (rc == 0 &&
        !(d->packs->entries = larder__calloc(d->about.count + 1, sizeof *d->packs->entries)))
        rc = LARDER_E_NOMEM;
    for (uint64_t i = 0; rc == 0 && i < n; i++)
        rc = read_entries(d, i);
    if (rc == 0)
        rc = summarise(d);
    return rc < 0 ? rc : larder__fd_pool_open(&d->packs->pool, (uint32_t)n);
}
