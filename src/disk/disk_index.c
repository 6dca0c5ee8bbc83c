/* The data sets of a folder: a file of words each, all of them mapped by everybody, since anybody's
 * spare values make room. */
#include "base/err.h"
#include "base/file.h"
#include "base/mapped.h"
#include "base/mem.h"
#include "disk/disk_folder.h"

#include <assert.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { ID_DIGITS = 16, NAME_BYTES = 32 };
static const char ending[] = ".index";

static void name_of(uint64_t id, char out[NAME_BYTES]) {
    snprintf(out, NAME_BYTES, "%016llx%s", (unsigned long long)id, ending);
}

/* Is it the name of an index? Then *id is which. */
static bool id_in(const char *name, uint64_t *id) {
    unsigned long long v;
    char again[NAME_BYTES];
    if (strlen(name) != ID_DIGITS + sizeof ending - 1 || sscanf(name, "%16llx", &v) != 1)
        return false;
    *id = v;
    name_of(v, again);
    return strcmp(name, again) == 0;
}

larder__disk_index *larder__disk_folder_find(larder__disk_folder *f, uint64_t id) {
    for (size_t i = 0; i < f->index_count; i++)
        if (f->indices[i]->id == id)
            return f->indices[i];
    return NULL;
}

static void index_close(larder__disk_index *x) {
    if (x)
        larder__mapped_close(x->head, x->file_bytes);
    larder__free(x);
}

void larder__disk_indices_close(larder__disk_folder *f) {
    for (size_t i = 0; i < f->index_count; i++)
        index_close(f->indices[i]);
    larder__free(f->indices);
    f->indices = NULL;
    f->index_count = 0;
}

/* LARDER_E_FORMAT: it is none of ours, or torn. */
static int map_index(larder__disk_folder *f, uint64_t id, const char *name) {
    struct stat st;
    int file = openat(f->dir, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW), rc = 0;
    larder__disk_index *x = larder__calloc(1, sizeof *x);
    larder__disk_index **more =
        larder__realloc(f->indices, (f->index_count + 1) * sizeof(larder__disk_index *));
    if (more)
        f->indices = more;
    if (!x || !more)
        rc = LARDER_E_NOMEM;
    else if (file < 0 || fstat(file, &st) != 0)
        rc = larder__fail(LARDER_E_IO, "%s/%s: cannot be opened: %s", f->path, name,
                          strerror(errno));
    else if (!S_ISREG(st.st_mode) || st.st_size < LARDER__DISK_BLOCK)
        rc = LARDER_E_FORMAT;
    if (rc == 0) {
        void *at = NULL;
        x->file_bytes = (uint64_t)st.st_size;
        rc = larder__disk_map(f, name, file, x->file_bytes, &at);
        x->head = at;
    }
    if (rc == 0 && (larder__disk_index_judge(x->head, LARDER__DISK_BLOCK, x->file_bytes) !=
                        LARDER__DISK_FINE ||
                    x->head->id != id))
        rc = LARDER_E_FORMAT;
    if (file >= 0)
        close(file);
    if (rc < 0) {
        index_close(x);
        return rc;
    }
    x->id = id;
    x->keys = x->head->keys;
    x->words = (_Atomic uint64_t *)((char *)x->head + LARDER__DISK_BLOCK);
    f->indices[f->index_count++] = x;
    return 0;
}

static bool is_empty(const larder__disk_index *x) {
    for (uint64_t k = 0; k < x->keys; k++)
        if (atomic_load_explicit(&x->words[k], memory_order_relaxed))
            return false;
    return true;
}

static int look_at(larder__disk_folder *f, const char *name, bool alone, uint64_t keep) {
    uint64_t id;
    if (!id_in(name, &id) || larder__disk_folder_find(f, id))
        return 0;
    int rc = map_index(f, id, name);
    bool useless = rc == LARDER_E_FORMAT ||
                   (rc == 0 && id != keep && is_empty(f->indices[f->index_count - 1]));
    if (!alone || !useless)
        return rc == LARDER_E_FORMAT ? 0 : rc;
    if (rc == 0)
        index_close(f->indices[--f->index_count]);
    if (unlinkat(f->dir, name, 0) != 0)
        return larder__fail(LARDER_E_IO, "%s/%s: cannot be removed: %s", f->path, name,
                            strerror(errno));
    return 0;
}

int larder__disk_indices_look(larder__disk_folder *f, bool alone, uint64_t keep) {
    uint64_t sets = atomic_load(&f->head->sets);
    int again = openat(f->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), rc = 0;
    DIR *d = again >= 0 ? fdopendir(again) : NULL;
    if (!d) {
        rc = larder__fail_errno(f->path, "the folder cannot be read");
        if (again >= 0)
            close(again);
        return rc;
    }
    const struct dirent *e;
    while (rc == 0 && (e = readdir(d)))
        rc = look_at(f, e->d_name, alone, keep);
    closedir(d);
    if (rc == 0)
        f->sets_seen = sets;
    return rc;
}

/* Beside its name first, so that nobody sees half of it. */
static int write_index(larder__disk_folder *f, const larder__disk_ask *ask, const char *name) {
    larder__disk_index_head h = {.identity = ask->identity, .keys = ask->keys};
    snprintf(h.name, sizeof h.name, "%s", ask->name ? ask->name : "");
    larder__disk_index_seal(&h);
    char beside[LARDER__TEMP_BYTES];
    int file = larder__temp_open(f->dir, beside), err = file < 0 ? errno : 0;
    if (err == 0) {
        err = larder__disk_io_now()->reserve(file, (off_t)larder__disk_index_bytes(ask->keys));
        if (err == 0 && fchmod(file, 0600) != 0)
            err = errno;
        if (err == 0)
            err = larder__disk_write_at(file, &h, sizeof h, 0);
        if (err == 0 && renameat(f->dir, beside, f->dir, name) != 0)
            err = errno;
        if (err)
            unlinkat(f->dir, beside, 0);
        close(file);
    }
    if (err)
        return larder__fail(larder__code_of_errno(err),
                            "%s: no index of %llu keys can be made: %s; free room on that disk or "
                            "leave it out",
                            f->path, (unsigned long long)ask->keys, strerror(err));
    return 0;
}

int larder__disk_index_add(larder__disk_folder *f, const larder__disk_ask *ask) {
    uint64_t bytes = larder__disk_index_bytes(ask->keys), before = 0;
    for (size_t i = 0; i < f->index_count; i++)
        before += f->indices[i]->file_bytes;
    uint64_t was = atomic_load(&f->head->limit);
    uint64_t limit = larder__disk_limit(f->head->budget, before + bytes);
    if (limit == 0)
        return larder__fail(LARDER_E_ARGS,
                            "%s: a budget of %llu bytes has no room beside the index of %llu keys "
                            "(%llu bytes) and %llu bytes of others; give it more",
                            f->path, (unsigned long long)f->head->budget,
                            (unsigned long long)ask->keys, (unsigned long long)bytes,
                            (unsigned long long)before);
    char name[NAME_BYTES];
    uint64_t id = larder__disk_id(ask->identity, ask->keys);
    name_of(id, name);
    int rc = limit < was ? larder__disk_shorten(f, limit) : 0;
    if (rc == 0)
        rc = write_index(f, ask, name);
    if (rc == 0)
        rc = map_index(f, id, name);
    if (rc == LARDER_E_FORMAT)
        rc = larder__fail(LARDER_E_IO, "%s/%s: is not what was written there", f->path, name);
    if (rc == 0)
        atomic_fetch_add(&f->head->sets, 1);
    return rc;
}

void larder__disk_each(larder__disk_folder *f, larder__disk_each_fn each, void *arg) {
    larder__disk_head *h = f->head;
    size_t n = f->index_count, start = 0;
    for (size_t i = 0; i < n; i++)
        if (f->indices[i]->id == h->hand_set)
            start = i;
    uint64_t begin = n && h->hand_key < f->indices[start]->keys ? h->hand_key : 0;
    /* The first one comes twice: from the hand on, and at the end up to it. */
    for (size_t turn = 0; n && turn <= n; turn++) {
        larder__disk_index *x = f->indices[(start + turn) % n];
        uint64_t to = turn == n ? begin : x->keys;
        for (uint64_t k = turn == 0 ? begin : 0; k < to; k++) {
            uint64_t word = atomic_load_explicit(&x->words[k], memory_order_acquire);
            if (word && !each(f, x, k, word, arg)) {
                h->hand_set = x->id;
                h->hand_key = k + 1;
                return;
            }
        }
    }
}
