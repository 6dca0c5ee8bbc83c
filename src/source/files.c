#include "source/files.h"

#include "base/err.h"
#include "base/mem.h"
#include "source/answer.h"
#include "source/folder_walk.h"
#include "source/pread_full.h"
#include "source/ring.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum { MOST_RINGS = 64 }; /* more threads than that at once read plainly */

struct larder__files {
    char *folder;
    int fd;
    bool numbered; /* files keep their inode */
    bool ready;    /* the lock is there */
    bool batches;
    pthread_mutex_t lock;
    larder__ring *idle[MOST_RINGS]; /* rings no thread uses now; guarded by lock */
    size_t idle_used;
};

/* ---- one file -------------------------------------------------------------------------------- */

static int failed(const larder__files *f, const char *path, int err) {
    return larder__fail(larder__code_of_errno(err), "%s/%s: %s", f->folder, path, strerror(err));
}

static int changed(const larder__files *f, const larder__file_want *want, int64_t now) {
    if (now > (int64_t)want->bytes)
        return larder__fail(LARDER_E_CHANGED, "%s/%s: had %u bytes and has more now; start again",
                            f->folder, want->path, want->bytes);
    return larder__fail(LARDER_E_CHANGED, "%s/%s: had %u bytes and has %lld now; start again",
                        f->folder, want->path, want->bytes, (long long)now);
}

/* What was read counts only if the file is what it was when it was listed. */
static int check_key(const larder__files *f, const larder__file_want *want, const struct stat *st) {
    char path[PATH_MAX];
    larder__stamp now = larder__stamp_of(st);
    if (!f->numbered)
        now.inode = 0;
    if (larder__stamp_key(&now) == want->key)
        return 0;
    snprintf(path, sizeof path, "%s/%s", f->folder, want->path);
    return larder__file_changed(path);
}

/* One byte beyond the end is asked for as well: that it does not come proves that the file did not
 * grow, for less than a second call costs. */
static int read_fd(const larder__files *f, int fd, const larder__file_want *want, char *into) {
    int64_t got = 0, all = (int64_t)want->bytes + 1;
    char beyond;
    while (got < all) {
        struct iovec pieces[2] = {{into + got, want->bytes - (size_t)got}, {&beyond, 1}};
        ssize_t n =
            got < all - 1 ? preadv(fd, pieces, 2, (off_t)got) : pread(fd, &beyond, 1, (off_t)got);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return failed(f, want->path, errno);
        got += n;
        if (n == 0 || got == all - 1)
            break;
    }
    return got == all - 1 ? 0 : changed(f, want, got);
}

static int read_plain(const larder__files *f, const larder__file_want *want, void *into) {
    int fd = openat(f->fd, want->path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    struct stat st;
    larder_note_requests(1);
    if (fd < 0)
        return failed(f, want->path, errno);
    int rc = read_fd(f, fd, want, into);
    if (rc == 0)
        rc = fstat(fd, &st) == 0 ? check_key(f, want, &st) : failed(f, want->path, errno);
    close(fd);
    return rc;
}

int larder__files_peek(const larder__files *f, const char *path, void *out, size_t n, uint64_t at) {
    int fd = openat(f->fd, path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0)
        return failed(f, path, errno);
    int rc = larder__pread_full(fd, path, out, n, at);
    close(fd);
    return rc;
}

/* The ring has closed the file, so it is asked for by its name: whoever put another one there
 * meanwhile has changed it too. */
static int check_named(const larder__files *f, const larder__file_want *want) {
    struct stat st;
    return fstatat(f->fd, want->path, &st, 0) == 0 ? check_key(f, want, &st)
                                                   : failed(f, want->path, errno);
}

/* What could not be listed with a size: says why, now. */
static int no_file(const larder__files *f, const char *path) {
    struct stat st;
    if (fstatat(f->fd, path, &st, 0) != 0)
        return failed(f, path, errno);
    if (!S_ISREG(st.st_mode))
        return larder__fail(LARDER_E_FORMAT, "%s/%s is not a regular file", f->folder, path);
    if ((uint64_t)st.st_size >= LARDER__NO_SIZE)
        return larder__fail(LARDER_E_FORMAT, "%s/%s: 4 GiB or more is no sample", f->folder, path);
    return larder__fail(LARDER_E_CHANGED, "%s/%s was no file when the folder was opened", f->folder,
                        path);
}

static void answer(larder_read *out, larder_buf *buf, int rc) {
    if (rc == 0) {
        larder__answer_buf(out, buf);
        return;
    }
    larder_buf_unref(&buf);
    larder__answer_failure(out, rc);
}

static void read_one(const larder__files *f, const larder__file_want *want, larder_read *out) {
    if (want->bytes == LARDER__NO_SIZE) {
        larder__answer_failure(out, no_file(f, want->path));
        return;
    }
    larder_buf *buf = larder_buf_new(want->bytes);
    answer(out, buf, buf ? read_plain(f, want, larder_buf_data(buf)) : LARDER_E_NOMEM);
}

/* ---- many files ------------------------------------------------------------------------------ */

static larder__ring *take_ring(larder__files *f) {
    larder__ring *r = NULL;
    pthread_mutex_lock(&f->lock);
    if (f->idle_used)
        r = f->idle[--f->idle_used];
    pthread_mutex_unlock(&f->lock);
    if (!r)
        larder__ring_open(&r); /* without one the files are read one by one */
    return r;
}

static void give_ring(larder__files *f, larder__ring *r) {
    pthread_mutex_lock(&f->lock);
    if (f->idle_used < MOST_RINGS) {
        f->idle[f->idle_used++] = r;
        r = NULL;
    }
    pthread_mutex_unlock(&f->lock);
    larder__ring_close(&r);
}

/* At most LARDER__RING_FILES, all with sizes. */
static bool read_batch(larder__files *f, larder__ring *r, const larder__file_want *wants, size_t n,
                       larder_read *out) {
    larder_buf *bufs[LARDER__RING_FILES];
    void *into[LARDER__RING_FILES];
    int64_t results[LARDER__RING_FILES];
    size_t k = 0;
    for (; k < n; k++) {
        if (!(bufs[k] = larder_buf_new(wants[k].bytes)))
            break;
        into[k] = larder_buf_data(bufs[k]);
    }
    larder_note_requests(k);
    bool fine = k == 0 || larder__ring_read(r, f->fd, wants, into, k, results);
    for (size_t i = 0; i < k; i++) {
        int rc = 0;
        if (results[i] == INT64_MIN || results[i] == -ECANCELED || results[i] == -EINTR ||
            (results[i] >= 0 && results[i] < (int64_t)wants[i].bytes))
            rc = read_plain(f, &wants[i], into[i]); /* never tried, or cut short: once more */
        else if (results[i] < 0)
            rc = failed(f, wants[i].path, (int)-results[i]);
        else if (results[i] != (int64_t)wants[i].bytes)
            rc = changed(f, &wants[i], results[i]);
        else
            rc = check_named(f, &wants[i]);
        answer(&out[i], bufs[i], rc);
    }
    for (size_t i = k; i < n; i++)
        read_one(f, &wants[i], &out[i]);
    return fine;
}

void larder__files_read(larder__files *f, const larder__file_want *wants, size_t n,
                        larder_read *out) {
    larder__ring *r = f->batches && n > 1 ? take_ring(f) : NULL;
    for (size_t at = 0; at < n;) {
        size_t run = 0;
        while (r && run < LARDER__RING_FILES && at + run < n &&
               wants[at + run].bytes != LARDER__NO_SIZE)
            run++;
        if (run < 2) {
            read_one(f, &wants[at], &out[at]);
            at++;
            continue;
        }
        if (!read_batch(f, r, wants + at, run, out + at))
            larder__ring_close(&r);
        at += run;
    }
    if (r)
        give_ring(f, r);
}

/* ---- open and close -------------------------------------------------------------------------- */

static int choose(larder__files *f, const char *io) {
    if (strcmp(io, "plain") == 0)
        return 0;
    larder__ring *r = NULL;
    int rc = larder__ring_open(&r);
    if (rc == 0) {
        f->batches = true;
        give_ring(f, r);
    }
    return strcmp(io, "auto") == 0 && rc == LARDER_E_UNSUPPORTED ? 0 : rc;
}

int larder__files_open(larder__files **out, const char *folder, const char *io) {
    *out = NULL;
    larder__files *f = larder__calloc(1, sizeof *f);
    if (!f)
        return LARDER_E_NOMEM;
    f->fd = -1;
    f->ready = pthread_mutex_init(&f->lock, NULL) == 0;
    f->folder = larder__strdup(folder);
    int rc = f->ready && f->folder ? 0 : LARDER_E_NOMEM;
    if (rc == 0 && (f->fd = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC)) < 0)
        rc = larder__fail(larder__code_of_errno(errno), "%s: %s", folder, strerror(errno));
    if (rc == 0)
        f->numbered = larder__inodes_last(f->fd);
    if (rc == 0)
        rc = choose(f, io);
    if (rc < 0) {
        larder__files_close(&f);
        return rc;
    }
    *out = f;
    return 0;
}

void larder__files_close(larder__files **pf) {
    larder__files *f = *pf;
    *pf = NULL;
    if (!f)
        return;
    while (f->idle_used)
        larder__ring_close(&f->idle[--f->idle_used]);
    if (f->ready)
        pthread_mutex_destroy(&f->lock);
    if (f->fd >= 0)
        close(f->fd);
    larder__free(f->folder);
    larder__free(f);
}
