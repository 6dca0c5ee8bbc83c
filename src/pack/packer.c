#include "pack/packer.h"

#include "base/err.h"
#include "base/file.h"
#include "base/grow.h"
#include "base/hash.h"
#include "base/limit.h"
#include "base/mem.h"
#include "base/threads.h"
#include "pack/shard_writer.h"
#include "source/source.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { AT_ONCE_LEAST = 8, AT_ONCE_MOST = 64, BATCH = 512, BATCH_BYTES = 64 << 20, JOBS_MAX = 256 };
static const uint64_t default_shard = (uint64_t)256 << 20;

typedef struct made { /* one sample on its way through a batch */
    larder__transcoded is;
    unsigned char *bytes; /* copies of what the transcoder lent */
    uint16_t *lengths;
    int32_t label;
} made;

typedef struct packer {
    const larder__pack_conf *conf;
    larder__pack_result *out;
    larder__data *data;
    uint64_t *firsts; /* id of each shard's first sample, and the count at the end */
    size_t firsts_cap;
    uint64_t plan;
    int lock; /* on the folder; -1: none */
    uint32_t jobs;
    larder__transcoder *transcoders[JOBS_MAX];
    made *batch;
    uint64_t batch_first;
    size_t batch_size;
    _Atomic size_t next; /* of the batch, not yet taken by a thread */
    pthread_mutex_t fault_lock;
    int fault; /* the first failure of any thread, and its sentence */
    char why[512];
    uint64_t done;
} packer;

static int shard_path(char *out, size_t cap, const char *folder, uint64_t i) {
    int n = snprintf(out, cap, "%s/shard-%06llu.tar", folder, (unsigned long long)i);
    return n > 0 && (size_t)n < cap
               ? 0
               : larder__fail(LARDER_E_ARGS, "the path is too long: %.200s", folder);
}

/* ---- what goes where ------------------------------------------------------------------------- */

static int add_first(packer *p, uint64_t id) {
    int rc = larder__grow(&p->firsts, &p->firsts_cap, p->out->shards + 2, sizeof *p->firsts);
    if (rc == 0)
        p->firsts[p->out->shards++] = id;
    return rc;
}

static int plan_shards(packer *p) {
    const larder_dataset *about = larder__data_about(p->data);
    uint64_t most = p->conf->shard_bytes ? p->conf->shard_bytes : default_shard, bytes = most;
    int rc = 0;
    for (uint64_t i = 0; rc == 0 && i < about->count; i++) {
        larder_sample s;
        if ((rc = larder__data_stat(p->data, i, &s)) < 0)
            break;
        if (bytes >= most) {
            rc = add_first(p, i);
            bytes = 0;
        }
        bytes += s.bytes;
    }
    if (rc == 0)
        p->firsts[p->out->shards] = about->count;
    return rc;
}

/* Changes with everything that changes a byte of what is written. */
static uint64_t plan_of(const packer *p) {
    const larder__transcode_conf *h = &p->conf->how;
    const larder_dataset *about = larder__data_about(p->data);
    uint64_t parts[] = {1,          about->fingerprint, about->count, p->conf->shard_bytes,
                        h->restart, h->strip,           h->quality,   h->max_side};
    return larder__hash_bytes(0, parts, sizeof parts);
}

/* ---- the folder ------------------------------------------------------------------------------ */

static int take_folder(packer *p) {
    const char *folder = p->conf->folder;
    int rc = larder__folder_make(folder, 0777);
    if (rc < 0)
        return rc;
    p->lock = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (p->lock < 0)
        return larder__fail(larder__code_of_errno(errno), "%s: %s", folder, strerror(errno));
    if (flock(p->lock, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
        return larder__fail(LARDER_E_STATE, "%s: another larder pack is writing there", folder);
    return 0;
}

/* What a killed run left half-written. We hold the folder. */
static void sweep(const packer *p) {
    DIR *d = opendir(p->conf->folder);
    for (struct dirent *e; d && (e = readdir(d));)
        if (larder__temp_is(e->d_name))
            unlinkat(p->lock, e->d_name, 0);
    if (d)
        closedir(d);
}

/* Is shard i there and of this plan? 1, 0, or E_STATE: it belongs to another packing. */
static int is_finished(const packer *p, uint64_t i, const char *path) {
    char beside[4200];
    larder__pack_file f;
    struct stat st;
    int rc = larder__pack_path(beside, sizeof beside, path);
    if (rc < 0)
        return rc;
    int fd = open(beside, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return 0;
    rc = larder__pack_file_begin(&f, beside, fd);
    close(fd);
    if (rc < 0) /* damaged: done again */
        return 0;
    if (f.plan != p->plan || f.first != p->firsts[i])
        return larder__fail(LARDER_E_STATE,
                            "%s: holds shards of another data set or other settings; choose "
                            "another folder or remove them",
                            p->conf->folder);
    return f.count == p->firsts[i + 1] - p->firsts[i] && stat(path, &st) == 0 &&
           (uint64_t)st.st_size == f.shard_bytes;
}

/* ---- one batch, by all threads --------------------------------------------------------------- */

static void note_fault(packer *p, int code, uint64_t id) {
    char name[200] = "?";
    char why[300];
    snprintf(why, sizeof why, "%s", larder_errmsg());
    larder__data_name(p->data, id, name, sizeof name);
    pthread_mutex_lock(&p->fault_lock);
    if (p->fault == 0) {
        p->fault = code;
        snprintf(p->why, sizeof p->why, "sample %llu (%.150s): %s", (unsigned long long)id, name,
                 why);
    }
    pthread_mutex_unlock(&p->fault_lock);
}

static int keep_copy(made *m) {
    uint32_t n = m->is.data_at ? larder__grid_segments(&m->is.grid) : 0;
    m->bytes = larder__malloc(m->is.size + 1);
    m->lengths = n ? larder__malloc(n * sizeof *m->lengths) : NULL;
    if (!m->bytes || (n && !m->lengths))
        return LARDER_E_NOMEM;
    memcpy(m->bytes, m->is.bytes, m->is.size);
    if (n)
        memcpy(m->lengths, m->is.lengths, n * sizeof *m->lengths);
    m->is.bytes = m->bytes;
    m->is.lengths = m->lengths;
    return 0;
}

static int make_one(packer *p, larder__transcoder *t, larder_read *r, uint64_t id) {
    made *m = &p->batch[id - p->batch_first];
    larder_sample s = {0};
    int rc = r->code < 0 ? larder__fail(r->code, "%s", r->why) : 0;
    if (rc == 0)
        rc = larder__data_stat(p->data, id, &s);
    if (rc < 0)
        return rc;
    m->label = s.label;
    rc = larder__transcode(t, larder_buf_data(r->buf), larder_buf_size(r->buf), &m->is);
    return rc < 0 ? rc : keep_copy(m);
}

/* Samples that a thread reads together: many for a store that answers late, few enough that all
 * threads of a large machine have their share of a batch. */
static size_t at_once(const packer *p) {
    size_t share = BATCH / (4 * (size_t)p->jobs);
    return share < AT_ONCE_LEAST ? AT_ONCE_LEAST : share > AT_ONCE_MOST ? AT_ONCE_MOST : share;
}

static void work(void *arg, uint32_t number) {
    packer *p = arg;
    size_t most = at_once(p);
    for (size_t from; (from = atomic_fetch_add(&p->next, most)) < p->batch_size;) {
        uint64_t ids[AT_ONCE_MOST] = {0};
        larder_read reads[AT_ONCE_MOST] = {0};
        size_t n = p->batch_size - from < most ? p->batch_size - from : most;
        for (size_t i = 0; i < n; i++)
            ids[i] = p->batch_first + from + i;
        int rc = larder__data_read(p->data, ids, n, reads);
        if (rc < 0)
            note_fault(p, rc, ids[0]);
        for (size_t i = 0; rc == 0 && i < n; i++) {
            int one = make_one(p, p->transcoders[number], &reads[i], ids[i]);
            if (one < 0)
                note_fault(p, one, ids[i]);
            larder_buf_unref(&reads[i].buf);
        }
        if (rc < 0)
            break;
    }
}

static void free_batch(packer *p) {
    for (size_t i = 0; i < p->batch_size; i++) {
        larder__free(p->batch[i].bytes);
        larder__free(p->batch[i].lengths);
        p->batch[i] = (made){0};
    }
    p->batch_size = 0;
}

static int write_batch(packer *p, larder__shard_writer *w) {
    char name[LARDER__PACK_NAME];
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < p->batch_size; i++) {
        rc = larder__data_name(p->data, p->batch_first + i, name, sizeof name);
        if (rc == 0)
            rc = larder__shard_add(w, &p->batch[i].is, p->batch[i].label, name);
    }
    return rc;
}

/* As many of the samples from `first` on as memory should hold at once. */
static size_t size_batch(packer *p, uint64_t first, uint64_t end) {
    uint64_t bytes = 0;
    size_t n = 0;
    while (first + n < end && n < BATCH && (n == 0 || bytes < BATCH_BYTES)) {
        larder_sample s = {0};
        larder__data_stat(p->data, first + n, &s);
        bytes += s.bytes;
        n++;
    }
    p->out->bytes += bytes;
    return n;
}

static int asked_to_stop(const packer *p) {
    return p->conf->stop && *p->conf->stop
               ? larder__fail(LARDER_E_CANCELLED, "interrupted; the same command goes on from here")
               : 0;
}

static void show_progress(packer *p, size_t more) {
    p->done += more;
    if (p->conf->progress)
        p->conf->progress(p->conf->arg, p->done, larder__data_about(p->data)->count, p->out->bytes);
}

/* ---- one shard ------------------------------------------------------------------------------- */

static int add_classes(packer *p, larder__names *to) {
    uint32_t classes = larder__data_about(p->data)->classes;
    int rc = 0;
    for (uint32_t c = 0; c < classes; c++)
        if (!larder__data_class(p->data, c))
            return 0; /* names for all or for none */
    for (uint32_t c = 0; rc == 0 && c < classes; c++) {
        const char *name = larder__data_class(p->data, c);
        rc = larder__names_add(to, name, strlen(name));
    }
    return rc;
}

static int fill_shard(packer *p, larder__shard_writer *w, uint64_t first, uint64_t end) {
    int rc = add_classes(p, &w->index.classes);
    for (uint64_t at = first; rc == 0 && at < end;) {
        p->batch_first = at;
        p->batch_size = size_batch(p, at, end);
        atomic_store(&p->next, 0);
        larder__threads_run(work, p, p->jobs);
        rc = asked_to_stop(p); /* what failed was perhaps interrupted */
        if (rc == 0)
            rc = p->fault ? larder__fail(p->fault, "%s", p->why) : write_batch(p, w);
        at += p->batch_size;
        show_progress(p, p->batch_size);
        free_batch(p);
    }
    return rc;
}

static int pack_shard(packer *p, uint64_t i) {
    char path[4096];
    larder__shard_writer w = {0};
    uint64_t first = p->firsts[i], end = p->firsts[i + 1];
    int rc = shard_path(path, sizeof path, p->conf->folder, i);
    if (rc == 0)
        rc = is_finished(p, i, path);
    if (rc < 0)
        return rc;
    if (rc == 1) {
        for (uint64_t at = first; at < end;) /* counted, not done */
            at += size_batch(p, at, end);
        p->out->found++;
        show_progress(p, (size_t)(end - first));
        return 0;
    }
    rc = larder__shard_begin(&w, path, p->plan, first);
    if (rc == 0)
        rc = fill_shard(p, &w, first, end);
    rc = larder__shard_end(&w, rc);
    if (rc == 0)
        fsync(p->lock); /* the names as well; a file system that cannot is not worth failing */
    return rc;
}

/* ---- the run --------------------------------------------------------------------------------- */

static int open_packer(packer *p) {
    int rc = larder__data_open(&p->data, p->conf->source);
    if (rc < 0)
        return rc;
    if (p->conf->opened)
        p->conf->opened(p->conf->arg, p->data);
    if (larder__data_about(p->data)->raw.h)
        return larder__fail(LARDER_E_UNSUPPORTED,
                            "%s: holds raw pixels, not encoded pictures; there is nothing to pack",
                            p->conf->source);
    p->jobs = p->conf->jobs ? p->conf->jobs : larder__cpu_count();
    if (p->jobs > JOBS_MAX)
        return larder__fail(LARDER_E_ARGS, "at most %d jobs", JOBS_MAX);
    for (uint32_t i = 0; rc == 0 && i < p->jobs; i++)
        rc = larder__transcoder_open(&p->transcoders[i], &p->conf->how);
    if (rc == 0 && !(p->batch = larder__calloc(BATCH, sizeof *p->batch)))
        rc = LARDER_E_NOMEM;
    if (rc == 0)
        rc = take_folder(p);
    if (rc == 0)
        rc = plan_shards(p);
    p->plan = rc == 0 ? plan_of(p) : 0;
    return rc;
}

static void close_packer(packer *p) {
    for (uint32_t i = 0; i < JOBS_MAX; i++)
        larder__transcoder_close(&p->transcoders[i]);
    if (p->lock >= 0)
        close(p->lock);
    larder__free(p->batch);
    larder__free(p->firsts);
    if (p->conf->opened)
        p->conf->opened(p->conf->arg, NULL);
    larder__data_close(&p->data);
    pthread_mutex_destroy(&p->fault_lock);
}

int larder__pack_run(const larder__pack_conf *conf, larder__pack_result *out) {
    *out = (larder__pack_result){0};
    packer *p = larder__calloc(1, sizeof *p);
    if (!p)
        return LARDER_E_NOMEM;
    p->conf = conf;
    p->out = out;
    p->lock = -1;
    pthread_mutex_init(&p->fault_lock, NULL);
    int rc = open_packer(p);
    if (rc == 0)
        sweep(p);
    if (rc == 0)
        show_progress(p, 0);
    for (uint64_t i = 0; rc == 0 && i < out->shards; i++)
        rc = pack_shard(p, i);
    if (rc == 0)
        out->samples = larder__data_about(p->data)->count;
    close_packer(p);
    larder__free(p);
    return rc;
}
