#include "pack/inspect.h"

#include "base/err.h"
#include "base/grow.h"
#include "base/mem.h"
#include "source/pread_full.h"
#include "source/shards.h"
#include "source/tar_scan.h"

#include <stdio.h>
#include <strings.h>

typedef struct inspection {
    const larder__inspect_conf *conf;
    larder__pack_tally *out;
    uint64_t all;     /* samples of all shards */
    const char *path; /* the shard at hand, and its parts */
    char beside[4200];
    int tar, index;
    larder__pack_file file;
    larder__pack_entry *entries;
    uint64_t *sums;
    larder__tar *scan;
    larder__tar_member *member;
    unsigned char *bytes; /* of one sample */
    size_t bytes_cap;
    uint16_t *lengths;
    size_t lengths_cap;
} inspection;

/* ---- opening a shard ------------------------------------------------------------------------- */

static void close_shard(inspection *x) {
    if (x->tar >= 0)
        close(x->tar);
    if (x->index >= 0)
        close(x->index);
    x->tar = x->index = -1;
    larder__free(x->entries);
    larder__free(x->sums);
    x->entries = NULL;
    x->sums = NULL;
}

static int open_shard(inspection *x) {
    larder__stamp tar = {0}, index = {0};
    int rc = larder__pack_path(x->beside, sizeof x->beside, x->path);
    if (rc == 0 && (x->tar = larder__open_plain(x->path, &tar)) < 0)
        rc = x->tar;
    if (rc == 0 && (x->index = larder__open_plain(x->beside, &index)) < 0)
        rc = x->index;
    if (rc == 0)
        rc = larder__pack_file_begin(&x->file, x->beside, x->index);
    if (rc == 0 && tar.size != x->file.shard_bytes)
        rc = larder__fail(LARDER_E_CHANGED, "%s: has %llu bytes, its index speaks of %llu", x->path,
                          (unsigned long long)tar.size, (unsigned long long)x->file.shard_bytes);
    if (rc < 0)
        return rc;
    x->out->shards++;
    x->out->shard_bytes += tar.size;
    x->out->index_bytes += index.size;
    x->entries = larder__malloc(x->file.count * sizeof *x->entries + 1);
    x->sums = larder__malloc(x->file.count * sizeof *x->sums + 1);
    if (!x->entries || !x->sums)
        return LARDER_E_NOMEM;
    rc = larder__pack_file_entries(&x->file, x->index, x->entries);
    return rc < 0 ? rc : larder__pack_file_sums(&x->file, x->index, x->sums);
}

static int tally_shard(inspection *x) {
    larder__pack_tally *t = x->out;
    for (uint64_t i = 0; i < x->file.count; i++) {
        const larder__pack_entry *e = &x->entries[i];
        char name[LARDER__PACK_NAME];
        t->samples++;
        t->bytes += e->bytes;
        t->kinds[e->kind % LARDER__PACK_KIND_END]++;
        t->segments += e->data_at ? larder__grid_segments(&e->grid) : 0;
        if (e->kind < LARDER__PACK_NOT_JPEG || !x->conf->passed)
            continue;
        int rc = larder__pack_file_name(&x->file, x->index, i, name, sizeof name);
        if (rc < 0)
            return rc;
        x->conf->passed(x->conf->arg, x->file.first + i, e->kind, name);
    }
    return 0;
}

/* ---- every byte ------------------------------------------------------------------------------ */

static int make_room(inspection *x, const larder__pack_entry *e) {
    int rc = larder__room(&x->bytes, &x->bytes_cap, e->bytes, 1);
    if (rc == 0 && e->data_at)
        rc = larder__room(&x->lengths, &x->lengths_cap, larder__grid_segments(&e->grid),
                          sizeof *x->lengths);
    return rc;
}

/* The next member that is a sample: is it this one? */
static int check_member(inspection *x, const larder__pack_entry *e) {
    int rc;
    while ((rc = larder__tar_next(x->scan, x->member)) > 0) {
        size_t n = strlen(x->member->path);
        if (n < 4 || strcmp(x->member->path + n - 4, ".cls") != 0)
            break;
    }
    if (rc < 0)
        return rc;
    return rc == 0 || x->member->offset != e->offset || x->member->bytes != e->bytes
               ? larder__fail(LARDER_E_FORMAT, "lies elsewhere in the tar than its index says")
               : 0;
}

static int check_segments(inspection *x, const larder__pack_entry *e) {
    int rc = larder__pack_file_lengths(&x->file, x->index, e, x->lengths);
    uint32_t n = larder__grid_segments(&e->grid);
    size_t at = e->data_at;
    for (uint32_t i = 0; rc == 0 && i < n; i++) {
        at += x->lengths[i];
        int marker = x->bytes[at - 2] == 0xff ? x->bytes[at - 1] : 0;
        if (marker != (i + 1 == n ? 0xd9 : (int)(0xd0 + i % 8)))
            rc = larder__fail(LARDER_E_FORMAT, "segment %u does not end where its index says", i);
    }
    return rc;
}

static int check_sample(inspection *x, uint64_t i) {
    const larder__pack_entry *e = &x->entries[i];
    int rc = make_room(x, e);
    if (rc == 0)
        rc = check_member(x, e);
    if (rc == 0)
        rc = larder__pread_full(x->tar, x->path, x->bytes, e->bytes, e->offset);
    if (rc == 0 && larder__pack_sum(x->bytes, e->bytes) != x->sums[i])
        rc = larder__fail(LARDER_E_FORMAT, "its bytes are not the ones that were packed");
    return rc == 0 && e->data_at ? check_segments(x, e) : rc;
}

static void complain(inspection *x) {
    x->out->bad++;
    if (x->conf->complain)
        x->conf->complain(x->conf->arg, larder_errmsg());
}

static int stopped(const inspection *x) {
    return x->conf->stop && *x->conf->stop ? larder__fail(LARDER_E_CANCELLED, "interrupted") : 0;
}

static int check_shard(inspection *x) {
    int rc = larder__pack_file_check(&x->file, x->index);
    if (rc < 0)
        return rc;
    uint64_t bytes = 0, before = x->out->samples - x->file.count;
    larder__tar_begin_fd(x->scan, x->path, x->tar, x->file.shard_bytes);
    for (uint64_t i = 0; i < x->file.count; i++) {
        rc = check_sample(x, i);
        if (rc == LARDER_E_NOMEM)
            return rc;
        if (rc < 0) {
            larder__fail_in(rc, "%s, sample %llu", x->path,
                            (unsigned long long)(x->file.first + i));
            complain(x);
        }
        bytes += x->entries[i].bytes;
        if (x->conf->progress && i % 16 == 0)
            x->conf->progress(x->conf->arg, before + i, x->all, bytes);
        if ((rc = stopped(x)) < 0)
            return rc;
    }
    return 0;
}

/* ---- all shards ------------------------------------------------------------------------------ */

/* For the progress line: how many samples are there in all? What cannot be opened counts as none.
 */
static uint64_t count_all(const larder__names *paths) {
    uint64_t n = 0;
    larder__stamp stamp;
    char beside[4200];
    larder__pack_file f;
    for (uint64_t i = 0; i < paths->count; i++) {
        if (larder__pack_path(beside, sizeof beside, larder__names_get(paths, i)) < 0)
            continue;
        int fd = larder__open_plain(beside, &stamp);
        if (fd < 0)
            continue;
        n += larder__pack_file_begin(&f, beside, fd) == 0 ? f.count : 0;
        close(fd);
    }
    return n;
}

static int inspect_shard(inspection *x) {
    int rc = open_shard(x);
    if (rc == 0)
        rc = tally_shard(x);
    if (rc == 0 && x->conf->deep)
        rc = check_shard(x);
    close_shard(x);
    if (rc == 0 || rc == LARDER_E_NOMEM || rc == LARDER_E_CANCELLED || !x->conf->deep)
        return rc;
    complain(x); /* the next shard may be sound */
    return 0;
}

int larder__pack_inspect(const larder__inspect_conf *conf, larder__pack_tally *out) {
    *out = (larder__pack_tally){0};
    inspection x = {.conf = conf, .out = out, .tar = -1, .index = -1};
    larder__names paths = {0};
    const char *where = strncmp(conf->where, "pack:", 5) == 0 ? conf->where + 5 : conf->where;
    int rc = larder__shards_expand(&paths, where, "auto");
    x.scan = larder__malloc(sizeof *x.scan);
    x.member = larder__malloc(sizeof *x.member);
    if (rc == 0 && (!x.scan || !x.member))
        rc = LARDER_E_NOMEM;
    x.all = rc == 0 && conf->deep ? count_all(&paths) : 0;
    for (uint64_t i = 0; rc == 0 && i < paths.count; i++) {
        x.path = larder__names_get(&paths, i);
        rc = inspect_shard(&x);
    }
    larder__free(x.scan);
    larder__free(x.member);
    larder__free(x.bytes);
    larder__free(x.lengths);
    larder__names_free(&paths);
    return rc;
}
