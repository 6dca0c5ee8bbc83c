/* WebDataset shards on a site. Their headers are gone through once, by ranges: large ones one after
 * the other where members are small, small ones from member to member where they are large. Several
 * shards at a time, and what was found is kept for the next start. */
#include "source/web/web_data.h"

#include "base/err.h"
#include "base/file.h"
#include "base/grow.h"
#include "base/mem.h"
#include "base/threads.h"

#include <pthread.h>
#include <stdio.h>

enum {
    SCANS = 16, /* shards at a time */
    FIRST_WINDOW = 256 << 10,
    LEAST_WINDOW = 16 << 10,
    MOST_WINDOW = 4 << 20
};

/* ---- one shard ------------------------------------------------------------------------------- */

typedef struct window { /* the bytes of a shard that are at hand */
    larder__web_data *d;
    uint64_t shard, size, at;
    size_t n, wide;
    unsigned char *bytes; /* room for MOST_WINDOW */
} window;

static int fetch(void *arg, void *out, size_t n, uint64_t at) {
    window *w = arg;
    unsigned char *to = out;
    while (n > 0) {
        if (at >= w->at && at < w->at + w->n) {
            size_t have = (size_t)(w->at + w->n - at), some = n < have ? n : have;
            memcpy(to, w->bytes + (at - w->at), some);
            to += some;
            at += some;
            n -= some;
            continue;
        }
        bool near = w->n && at >= w->at && at - w->at < 2 * (uint64_t)w->wide;
        if (w->n)
            w->wide = near ? w->wide * 2 : w->wide / 2;
        w->wide = w->wide < LEAST_WINDOW  ? LEAST_WINDOW
                  : w->wide > MOST_WINDOW ? MOST_WINDOW
                                          : w->wide;
        w->n = 0;
        size_t all = w->size - at < w->wide ? (size_t)(w->size - at) : w->wide;
        int rc = larder__web_get(w->d, &w->d->objects, w->shard, w->bytes, all, at);
        if (rc < 0)
            return rc;
        w->at = at;
        w->n = all;
    }
    return 0;
}

static void label_of(larder__web_data *d, uint64_t shard, char *out, size_t cap) {
    snprintf(out, cap, "%s%s%s", larder__web_shown(d), d->objects.root,
             larder__names_get(&d->objects.names, shard));
}

static larder__stamp stamp_of(const larder__web_data *d, uint64_t shard) {
    return (larder__stamp){.size = d->objects.bytes[shard],
                           .mtime_ns = larder__web_objects_tag(&d->objects, shard)};
}

static int scan(larder__web_data *d, uint64_t shard, larder__tar_block *out, const char *label,
                const larder__stamp *stamp) {
    window w = {.d = d, .shard = shard, .size = d->objects.bytes[shard], .wide = FIRST_WINDOW};
    larder__tar *t = larder__malloc(sizeof *t);
    w.bytes = larder__malloc(MOST_WINDOW);
    int rc = t && w.bytes ? 0 : LARDER_E_NOMEM;
    if (rc == 0) {
        larder__tar_begin_fetch(t, label, fetch, &w, w.size);
        rc = w.size ? larder__tar_block_scan(out, t, label, stamp)
                    : larder__fail(LARDER_E_FORMAT, "%s is empty", label);
    }
    larder__free(t);
    larder__free(w.bytes);
    return rc;
}

static int index_shard(larder__web_data *d, uint64_t shard, larder__tar_block *out) {
    char label[LARDER__KEY_MAX], kept[40];
    larder__stamp stamp = stamp_of(d, shard);
    label_of(d, shard, label, sizeof label);
    snprintf(kept, sizeof kept, "web-tar-%016llx",
             (unsigned long long)larder__web_object_id(d, &d->objects, shard));
    bool keep = d->keep && stamp.mtime_ns; /* without a tag there is no telling */
    if (keep && larder__tar_block_load(out, kept, label, &stamp))
        return 0;
    int rc = scan(d, shard, out, label, &stamp);
    if (rc == 0 && keep)
        larder__tar_block_keep(out, kept, label, &stamp);
    return rc;
}

/* ---- all of them ----------------------------------------------------------------------------- */

typedef struct scans {
    larder__web_data *d;
    larder__tar_block *blocks; /* one a shard */
    pthread_mutex_t lock;      /* guards the rest */
    uint64_t next;
    int code;
    char why[512];
} scans;

static void work(void *arg, uint32_t number) {
    scans *c = arg;
    (void)number;
    pthread_mutex_lock(&c->lock);
    while (c->code == 0 && c->next < c->d->objects.names.count) {
        uint64_t shard = c->next++;
        pthread_mutex_unlock(&c->lock);
        int rc = index_shard(c->d, shard, &c->blocks[shard]);
        pthread_mutex_lock(&c->lock);
        if (rc < 0 && c->code == 0) {
            c->code = rc;
            snprintf(c->why, sizeof c->why, "%s", larder_errmsg());
        }
    }
    pthread_mutex_unlock(&c->lock);
}

static int index_all(larder__web_data *d, larder__tar_block *blocks) {
    scans c = {.d = d, .blocks = blocks, .lock = PTHREAD_MUTEX_INITIALIZER};
    uint64_t shards = d->objects.names.count;
    larder__threads_run(work, &c, shards < SCANS ? (uint32_t)shards : SCANS);
    pthread_mutex_destroy(&c.lock);
    return c.code < 0 ? larder__fail(c.code, "%s", c.why) : 0;
}

/* ---- questions ------------------------------------------------------------------------------- */

static const char *shard_label(void *arg, uint64_t shard) {
    static _Thread_local char label[LARDER__KEY_MAX];
    label_of(arg, shard, label, sizeof label);
    return label;
}

static int stat_one(larder__web_data *d, uint64_t id, larder_sample *out) {
    larder__tar_sample s;
    int rc = larder__tar_index_sample(&d->index, id, &s);
    *out = (larder_sample){.bytes = s.bytes, .label = s.label};
    return rc < 0 ? larder__fail_in(rc, "%s", shard_label(d, s.shard)) : 0;
}

static int name(larder__web_data *d, uint64_t id, char *out, size_t cap) {
    char member[LARDER__TAR_NAME];
    uint64_t shard = larder__tar_index_shard(&d->index, id);
    larder__tar_index_name(&d->index, id, member);
    snprintf(out, cap, "%s:%s", larder__name_in(larder__names_get(&d->objects.names, shard)),
             member);
    return 0;
}

static int plan_fields(larder__web_data *d, uint64_t id, larder__web_wants *wants, size_t sample,
                       larder_buf **out) {
    larder__tar_part parts[LARDER__TAR_WANTED];
    larder__field fields[LARDER__TAR_WANTED];
    size_t n;
    int rc = larder__tar_index_parts(&d->index, id, fields, parts, &n);
    if (rc == 0)
        rc = larder__parcel_make(out, fields, n);
    uint64_t shard = larder__tar_index_shard(&d->index, id);
    for (size_t i = 0; rc == 0 && i < n; i++) {
        larder__web_want want = {shard, (uint64_t)parts[i].block * LARDER__TAR_BLOCK,
                                 parts[i].bytes, (void *)(uintptr_t)fields[i].data, sample};
        if (want.n)
            rc = larder__web_wants_add(wants, &want);
    }
    return rc;
}

static int plan(larder__web_data *d, void **hand, uint64_t id, const larder_rect *rect,
                larder__web_wants *wants, size_t sample, larder_buf **out) {
    (void)hand, (void)rect;
    if (d->index.wanted_count)
        return plan_fields(d, id, wants, sample, out);
    larder__tar_sample s;
    int rc = larder__tar_index_sample(&d->index, id, &s);
    if (rc < 0)
        return larder__fail_in(rc, "%s", shard_label(d, s.shard));
    *out = larder_buf_new(s.bytes);
    if (!*out)
        return LARDER_E_NOMEM;
    larder__web_want want = {s.shard, s.offset, s.bytes, larder_buf_data(*out), sample};
    return s.bytes ? larder__web_wants_add(wants, &want) : 0;
}

static int choose(larder__web_data *d, const char *const *names, size_t n) {
    int rc = larder__tar_index_choose(&d->index, names, n, shard_label, d);
    if (rc == 0) {
        rc = larder__tar_index_about(&d->index, &d->about);
        d->found = d->index.found;
    }
    return rc == 0 && d->about.count == 0
               ? larder__fail(LARDER_E_NOTFOUND, "%s: holds no samples", shard_label(d, 0))
               : rc;
}

static const char *field(larder__web_data *d, size_t i) {
    return larder__tar_index_field(&d->index, i);
}

static int file(larder__web_data *d, uint64_t id, uint64_t *out) {
    *out = larder__tar_index_shard(&d->index, id);
    return 0;
}

static const larder__web_kind tars = {
    .stat = stat_one, .name = name, .plan = plan, .choose = choose, .field = field, .file = file};

int larder__web_tars_open(larder__web_data *d) {
    uint64_t n = d->objects.names.count;
    larder__tar_block *blocks = larder__calloc(n, sizeof *blocks);
    int rc = blocks ? larder__tar_index_open(&d->index, n) : LARDER_E_NOMEM;
    if (rc == 0)
        rc = index_all(d, blocks);
    for (uint64_t i = 0; rc == 0 && i < n; i++)
        rc = larder__tar_index_add(&d->index, &blocks[i]);
    for (uint64_t i = 0; blocks && i < n; i++)
        larder__tar_block_free(&blocks[i]); /* what is left after a failure */
    larder__free(blocks);
    d->kind = &tars;
    return rc;
}
