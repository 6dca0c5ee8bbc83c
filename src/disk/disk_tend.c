/* What `larder disk` does with a folder: looks, checks, makes smaller, removes. */
#include "base/err.h"
#include "base/file.h"
#include "base/mem.h"
#include "disk/disk.h"
#include "disk/disk_folder.h"
#include "disk/disk_span.h"
#include "shared/value.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- list: by reading the files, without a lock ---------------------------------------------- */

static int read_head(const char *folder, int dir, larder__disk_head *h) {
    memset((void *)h, 0, sizeof *h);
    int file = openat(dir, "head", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (file < 0)
        return larder__fail(larder__code_of_errno(errno), "%s: is no folder of larder's (head: %s)",
                            folder, strerror(errno));
    int err = larder__disk_read_at(file, h, sizeof *h, 0);
    close(file);
    larder__disk_verdict v = err ? LARDER__DISK_TORN : larder__disk_head_judge(h, sizeof *h);
    return v == LARDER__DISK_FINE
               ? 0
               : larder__fail(LARDER_E_STATE, "%s/head: %s", folder,
                              v == LARDER__DISK_OTHER  ? "was written by another version of larder"
                              : v == LARDER__DISK_TORN ? "is damaged"
                                                       : "was not written by larder");
}

/* Answers 0 also for what is no index. */
static int read_index(int dir, const char *name, uint64_t limit, larder__disk_set *out) {
    struct stat st;
    larder__disk_index_head h;
    *out = (larder__disk_set){0};
    int file = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (file < 0)
        return 0;
    if (fstat(file, &st) != 0 || larder__disk_read_at(file, &h, sizeof h, 0) ||
        larder__disk_index_judge(&h, sizeof h, (uint64_t)st.st_size) != LARDER__DISK_FINE) {
        close(file);
        return 0;
    }
    out->identity = h.identity;
    out->keys = h.keys;
    out->used_at = atomic_load(&h.used_at);
    memcpy(out->name, h.name, sizeof out->name);
    enum { AT_ONCE = 8192 };
    uint64_t *words = larder__malloc(AT_ONCE * sizeof *words);
    for (uint64_t k = 0; words && k < h.keys; k += AT_ONCE) {
        size_t n = h.keys - k < AT_ONCE ? (size_t)(h.keys - k) : AT_ONCE;
        if (larder__disk_read_at(file, words, n * sizeof *words,
                                 (off_t)(LARDER__DISK_BLOCK + k * sizeof *words)))
            break;
        for (size_t i = 0; i < n; i++)
            if (larder__disk_word_fits(words[i], h.id, k + i, limit)) {
                out->entries++;
                out->bytes += (uint64_t)larder__disk_blocks(words[i]) * LARDER__DISK_BLOCK;
            }
    }
    close(file);
    int rc = words ? 0 : LARDER_E_NOMEM;
    larder__free(words);
    return rc;
}

static bool is_index(const char *name) {
    size_t n = strlen(name);
    return n == 22 && strcmp(name + 16, ".index") == 0;
}

int larder__disk_list(const char *folder, larder__disk_figures *figures,
                      void (*each)(void *arg, const larder__disk_set *), void *arg) {
    larder__disk_head h;
    *figures = (larder__disk_figures){0};
    int dir = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0)
        return larder__fail_errno(folder, "cannot be opened");
    int rc = read_head(folder, dir, &h);
    DIR *d = rc == 0 ? fdopendir(dir) : NULL;
    if (!d) {
        close(dir);
        return rc < 0 ? rc : larder__fail_errno(folder, "cannot be read");
    }
    figures->budget = h.budget;
    for (const struct dirent *e; rc == 0 && (e = readdir(d));) {
        larder__disk_set s;
        if (!is_index(e->d_name))
            continue;
        rc = read_index(dirfd(d), e->d_name, atomic_load(&h.limit), &s);
        if (rc == 0 && s.keys) {
            figures->entries += s.entries;
            figures->used_bytes += s.bytes;
            if (each)
                each(arg, &s);
        }
    }
    closedir(d);
    return rc;
}

/* ---- check ----------------------------------------------------------------------------------- */

typedef struct checking {
    larder__disk_pool *pool;
    uint64_t *sound, *damaged, done, all;
    bool (*progress)(void *arg, uint64_t done, uint64_t all);
    void *arg;
    int rc;
} checking;

static bool is_sound(const larder__disk_folder *f, const larder__disk_index *x, uint64_t key,
                     uint64_t word, checking *c) {
    size_t bytes = (size_t)larder__disk_blocks(word) * LARDER__DISK_BLOCK;
    if (!larder__disk_word_fits(word, x->id, key, atomic_load(&f->head->limit)))
        return false;
    larder__disk_span *s = larder__disk_span_get(c->pool, larder__disk_blocks(word));
    if (!s) {
        c->rc = LARDER_E_NOMEM;
        return true;
    }
    int err = larder__disk_read_at(f->data_file, s->bytes, bytes,
                                   (off_t)(larder__disk_place(word) * LARDER__DISK_BLOCK));
    uint64_t size = larder__value_size(s->bytes);
    larder__value v = {.id = key, .mark = x->id, .size = UINT32_MAX, .held = LARDER__ANY_FORM};
    v.form = s->bytes[5];
    bool sound = !err && larder__disk_value_bytes(size) == bytes &&
                 larder__value_fits(s->bytes, &v, size) &&
                 larder__value_sound(s->bytes, s->bytes + LARDER__VALUE_HEAD, size);
    larder__disk_span_back(s);
    return sound;
}

static int check_index(larder__disk_folder *f, larder__disk_index *x, checking *c) {
    for (uint64_t k = 0; k < x->keys && c->rc == 0; k++) {
        uint64_t word = atomic_load(&x->words[k]);
        if (!word)
            continue;
        bool sound = is_sound(f, x, k, word, c);
        if (sound)
            ++*c->sound;
        else if ((c->rc = larder__disk_giving(f, 10)) == 0) {
            *c->damaged += larder__disk_drop(f, x, k, word); /* else it has changed meanwhile */
            larder__disk_given(f);
        }
        if (c->rc == 0 && c->progress && !c->progress(c->arg, ++c->done, c->all))
            c->rc = larder__fail(LARDER_E_CANCELLED, "%s: not checked to the end", f->path);
    }
    return c->rc;
}

int larder__disk_check(const char *folder, uint64_t *sound, uint64_t *damaged,
                       bool (*progress)(void *arg, uint64_t done, uint64_t all), void *arg) {
    larder__disk_folder *f;
    *sound = *damaged = 0;
    int rc = larder__disk_folder_open(&f, folder, &(larder__disk_ask){0});
    if (rc < 0)
        return rc;
    checking c = {.pool = larder__disk_pool_new(),
                  .sound = sound,
                  .damaged = damaged,
                  .all = atomic_load(&f->head->entries),
                  .progress = progress,
                  .arg = arg};
    if (!c.pool)
        rc = LARDER_E_NOMEM;
    for (size_t i = 0; rc == 0 && i < f->index_count; i++)
        rc = check_index(f, f->indices[i], &c);
    if (rc == 0)
        rc = larder__disk_whole(f);
    larder__disk_pool_unref(&c.pool);
    larder__disk_folder_close(&f);
    return rc;
}

/* ---- trim and remove ------------------------------------------------------------------------- */

static bool drop_spare(larder__disk_folder *f, larder__disk_index *x, uint64_t key, uint64_t word,
                       void *arg) {
    (void)arg;
    if (larder__disk_is_spare(f, word))
        larder__disk_drop(f, x, key, word);
    return true;
}

static uint64_t bytes_of(const char *folder) {
    uint64_t sum = 0;
    DIR *d = opendir(folder);
    struct stat st;
    for (const struct dirent *e; d && (e = readdir(d));)
        if (fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode))
            sum += (uint64_t)st.st_blocks * 512;
    if (d)
        closedir(d);
    return sum;
}

int larder__disk_trim(const char *folder, uint64_t budget, uint64_t *freed) {
    larder__disk_folder *f;
    uint64_t before = bytes_of(folder);
    *freed = 0;
    int rc = larder__disk_folder_open(&f, folder, &(larder__disk_ask){.budget = budget});
    if (rc < 0)
        return rc;
    if (budget && f->head->budget != budget)
        rc = larder__fail(LARDER_E_STATE,
                          "%s: jobs use it with a budget of %llu bytes; end them first", folder,
                          (unsigned long long)f->head->budget);
    if (rc == 0)
        rc = larder__disk_giving(f, 10);
    if (rc == 0) {
        if (!budget)
            larder__disk_each(f, drop_spare, NULL);
        larder__disk_punch(f);
        larder__disk_given(f);
        uint64_t after = bytes_of(folder);
        *freed = before > after ? before - after : 0;
        rc = larder__disk_whole(f);
    }
    larder__disk_folder_close(&f);
    return rc;
}

/* Of any version, and damaged ones: who asks for it wants them gone. But no one else's files. */
static int check_ours(const char *folder, int dir, int file) {
    char begin[16] = {0};
    if (larder__disk_read_at(file, begin, sizeof begin, 0) ||
        larder__disk_head_judge(begin, sizeof begin) == LARDER__DISK_FOREIGN)
        return larder__fail(LARDER_E_STATE,
                            "%s/head: was not written by larder, nothing is removed", folder);
    (void)dir;
    return 0;
}

static int remove_files(const char *folder, int dir) {
    int again = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), rc = 0;
    DIR *d = again >= 0 ? fdopendir(again) : NULL;
    if (!d)
        return larder__fail_errno(folder, "cannot be read");
    for (const struct dirent *e; (e = readdir(d));) {
        const char *n = e->d_name;
        bool ours =
            strcmp(n, "data") == 0 || strcmp(n, "space") == 0 || is_index(n) || larder__temp_is(n);
        if (ours && unlinkat(dir, n, 0) != 0)
            rc = larder__fail_errno(folder, n);
    }
    closedir(d);
    if (rc == 0 && unlinkat(dir, "head", 0) != 0) /* last: until then it says whose they are */
        rc = larder__fail_errno(folder, "head cannot be removed");
    return rc;
}

int larder__disk_remove(const char *folder) {
    int dir = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0)
        return larder__fail_errno(folder, "cannot be opened");
    int file = openat(dir, "head", O_RDWR | O_CLOEXEC | O_NOFOLLOW), rc = 0;
    if (file < 0)
        rc = larder__fail(larder__code_of_errno(errno), "%s: is no folder of larder's (head: %s)",
                          folder, strerror(errno));
    if (rc == 0)
        rc = check_ours(folder, dir, file);
    struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 2};
    if (rc == 0 && fcntl(file, F_OFD_SETLK, &l) != 0) /* DOOR and ATTACHED */
        rc = larder__fail(LARDER_E_STATE, "%s: jobs use it; end them first", folder);
    if (rc == 0)
        rc = remove_files(folder, dir);
    if (file >= 0)
        close(file);
    close(dir);
    return rc;
}
