#include "loader/fill/packages.h"

#include "base/err.h"
#include "base/grow.h"
#include "base/hash.h"
#include "base/mem.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef enum { PROMISED, THERE, ABSENT } crate_state;

struct larder__package {
    uint64_t number, offset, bytes, hash;
    uint32_t users;
    bool dropped;
    crate_state state;
    size_t count;
    uint64_t *ids;  /* count of them, as they lie */
    uint64_t *ends; /* where each ends, counted from the package's beginning; one block with ids */
};

struct larder__packages {
    pthread_mutex_t lock;
    pthread_cond_t settled;
    int fd;                           /* -1: no usable folder */
    char folder_why[256];             /* why not */
    uint64_t end, held, stuck, limit; /* bytes: of the file, of packages, of dropped ones that the
                                         file system does not take back */
    larder__package **packs;          /* by rising number */
    size_t count, cap;
    uint64_t refused;
    char why[256];
};

static const char prefix[] = "larder-scratch-";

/* ---- the file -------------------------------------------------------------------------------- */

/* Names left by somebody who was killed between making and unlinking one. Whoever is just there
 * has his file open and loses nothing. */
static void sweep(const char *folder) {
    DIR *d = opendir(folder);
    if (!d)
        return;
    for (struct dirent *e; (e = readdir(d));)
        if (strncmp(e->d_name, prefix, sizeof prefix - 1) == 0)
            unlinkat(dirfd(d), e->d_name, 0);
    closedir(d);
}

/* Where the file system has no files without a name. */
static int open_named(const char *folder) {
    char path[4200];
    sweep(folder);
    if ((size_t)snprintf(path, sizeof path, "%s/%sXXXXXX", folder, prefix) >= sizeof path) {
        errno = ENAMETOOLONG;
        return -1;
    }
    int fd = mkostemp(path, O_CLOEXEC);
    if (fd >= 0)
        unlink(path);
    return fd;
}

static int open_file(const char *folder) {
    int fd = -1;
#ifdef O_TMPFILE
    fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL))
        return fd;
#endif
    return open_named(folder);
}

int larder__packages_open(larder__packages **out, const char *folder, uint64_t limit) {
    larder__packages *s = *out = larder__calloc(1, sizeof *s);
    if (!s)
        return LARDER_E_NOMEM;
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->settled, NULL);
    s->limit = limit;
    s->fd = open_file(folder);
    if (s->fd < 0)
        snprintf(s->folder_why, sizeof s->folder_why, "scratch folder %.150s: %s", folder,
                 strerror(errno));
    return 0;
}

static void crate_free(larder__package *p) {
    if (p)
        larder__free(p->ids);
    larder__free(p);
}

void larder__packages_close(larder__packages **ps) {
    larder__packages *s = *ps;
    *ps = NULL;
    if (!s)
        return;
    for (size_t i = 0; i < s->count; i++)
        crate_free(s->packs[i]);
    larder__free(s->packs);
    if (s->fd >= 0)
        close(s->fd);
    pthread_cond_destroy(&s->settled);
    pthread_mutex_destroy(&s->lock);
    larder__free(s);
}

/* With the lock held. */
static void refuse(larder__packages *s, const char *why) {
    s->refused++;
    snprintf(s->why, sizeof s->why, "%s", why);
}

uint64_t larder__packages_refused(larder__packages *s, char *why, size_t cap) {
    pthread_mutex_lock(&s->lock);
    uint64_t n = s->refused;
    snprintf(why, cap, "%s", s->why);
    pthread_mutex_unlock(&s->lock);
    return n;
}

/* ---- finding packages ------------------------------------------------------------------------ */

/* Its place, or where it would be. */
static size_t place_of(const larder__packages *s, uint64_t number) {
    size_t from = 0, to = s->count;
    while (from < to) {
        size_t mid = from + (to - from) / 2;
        if (s->packs[mid]->number < number)
            from = mid + 1;
        else
            to = mid;
    }
    return from;
}

static bool is_at(const larder__packages *s, size_t at, uint64_t number) {
    return at < s->count && s->packs[at]->number == number;
}

static larder__package *add_crate(larder__packages *s, size_t at, uint64_t number) {
    bool room = larder__grow(&s->packs, &s->cap, s->count + 1, sizeof *s->packs) == 0;
    larder__package *p = room ? larder__calloc(1, sizeof *p) : NULL;
    if (!p)
        return NULL;
    p->number = number;
    memmove(s->packs + at + 1, s->packs + at, (s->count - at) * sizeof *s->packs);
    s->packs[at] = p;
    s->count++;
    return p;
}

larder__package *larder__packages_find(larder__packages *s, uint64_t number, bool *writes) {
    pthread_mutex_lock(&s->lock);
    size_t at = place_of(s, number);
    larder__package *p = is_at(s, at, number) ? s->packs[at] : NULL;
    /* Not while somebody may still wait for a promise that was broken: he would wait again. */
    *writes = !p || (p->state == ABSENT && !p->users);
    if (!p && !(p = add_crate(s, at, number)))
        refuse(s, "no memory to remember a package");
    if (p) {
        p->users++;
        p->dropped = false;
        if (*writes)
            p->state = PROMISED;
    }
    pthread_mutex_unlock(&s->lock);
    return p;
}

/* With the lock held: a dropped package that nobody uses gives its bytes back. */
static void settle_drop(larder__packages *s, larder__package *p) {
    if (!p->dropped || p->users)
        return;
    if (p->state == THERE) {
        int rc = fallocate(s->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)p->offset,
                           (off_t)p->bytes);
        s->held -= p->bytes;
        s->stuck += rc < 0 ? p->bytes : 0;
    }
    size_t at = place_of(s, p->number);
    memmove(s->packs + at, s->packs + at + 1, (--s->count - at) * sizeof *s->packs);
    crate_free(p);
}

void larder__package_leave(larder__packages *s, larder__package **pp) {
    larder__package *p = *pp;
    *pp = NULL;
    if (!p)
        return;
    pthread_mutex_lock(&s->lock);
    p->users--;
    if (p->state == PROMISED && !p->users) /* abandoned */
        p->state = ABSENT;
    settle_drop(s, p);
    pthread_mutex_unlock(&s->lock);
}

void larder__packages_drop(larder__packages *s, uint64_t number) {
    pthread_mutex_lock(&s->lock);
    size_t at = place_of(s, number);
    if (is_at(s, at, number)) {
        s->packs[at]->dropped = true;
        settle_drop(s, s->packs[at]);
    }
    pthread_mutex_unlock(&s->lock);
}

/* ---- laying down ----------------------------------------------------------------------------- */

/* One block with all samples, and the list of what lies where. NULL: no memory. */
static unsigned char *gather(larder__package *p, const uint64_t *ids, larder_buf *const *bytes,
                             size_t n) {
    p->count = 0;
    p->bytes = 0;
    for (size_t i = 0; i < n; i++)
        p->bytes += bytes[i] ? larder_buf_size(bytes[i]) : 0;
    larder__free(p->ids);
    p->ids = larder__malloc(2 * n * sizeof *p->ids);
    unsigned char *block = p->ids ? larder__malloc(p->bytes + 1) : NULL;
    if (!block)
        return NULL;
    p->ends = p->ids + n;
    uint64_t at = 0;
    for (size_t i = 0; i < n; i++) {
        if (!bytes[i])
            continue;
        memcpy(block + at, larder_buf_data(bytes[i]), larder_buf_size(bytes[i]));
        at += larder_buf_size(bytes[i]);
        p->ids[p->count] = ids[i];
        p->ends[p->count++] = at;
    }
    return block;
}

/* 0, or why not. Space is asked for first, so that a full disk is not filled to the brim. */
static int write_block(int fd, const unsigned char *block, uint64_t bytes, uint64_t at) {
    if (fallocate(fd, 0, (off_t)at, (off_t)bytes) < 0 && errno != EOPNOTSUPP && errno != ENOSYS)
        return errno;
    for (uint64_t done = 0; done < bytes;) {
        ssize_t n = pwrite(fd, block + done, bytes - done, (off_t)(at + done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? errno : EIO;
        done += (uint64_t)n;
    }
    return 0;
}

/* Room in the file for the package, or why there is none; the lock is held. */
static const char *reserve(larder__packages *s, larder__package *p) {
    if (s->fd < 0)
        return s->folder_why;
    if (s->limit && s->stuck && s->held + s->stuck + p->bytes > s->limit)
        return "the limit on scratch bytes is reached, and this file system takes none back";
    p->offset = s->end;
    s->end += p->bytes;
    s->held += p->bytes;
    return NULL;
}

/* The promise is kept or not. */
static uint64_t settle_put(larder__packages *s, larder__package *p, bool reserved,
                           const char *why) {
    pthread_mutex_lock(&s->lock);
    if (why && reserved) {
        s->held -= p->bytes;
        if (fallocate(s->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)p->offset,
                      (off_t)p->bytes) < 0)
            s->stuck += p->bytes;
    }
    if (why)
        refuse(s, why);
    p->state = why ? ABSENT : THERE;
    pthread_cond_broadcast(&s->settled);
    pthread_mutex_unlock(&s->lock);
    return why ? 0 : p->bytes;
}

uint64_t larder__package_put(larder__packages *s, larder__package *p, const uint64_t *ids,
                             larder_buf *const *bytes, size_t n) {
    if (s->fd < 0)
        return settle_put(s, p, false, s->folder_why);
    unsigned char *block = n ? gather(p, ids, bytes, n) : NULL;
    if (block && p->bytes == 0) {
        larder__free(block);
        return settle_put(s, p, false, "a package without a readable sample");
    }
    if (!block)
        return settle_put(s, p, false, "no memory to lay a package down");
    pthread_mutex_lock(&s->lock);
    const char *why = reserve(s, p);
    pthread_mutex_unlock(&s->lock);
    bool reserved = !why;
    char text[128];
    int code = why ? 0 : write_block(s->fd, block, p->bytes, p->offset);
    if (code) {
        snprintf(text, sizeof text, "a package of %llu bytes: %s", (unsigned long long)p->bytes,
                 strerror(code));
        why = text;
    }
    p->hash = larder__hash_bytes(p->number, block, p->bytes);
    larder__free(block);
    return settle_put(s, p, reserved, why);
}

/* ---- reading back ---------------------------------------------------------------------------- */

static const char *read_block(int fd, const larder__package *p, unsigned char *block) {
    for (uint64_t done = 0; done < p->bytes;) {
        ssize_t n = pread(fd, block + done, p->bytes - done, (off_t)(p->offset + done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? "reading a package failed" : "a package ends before its end";
        done += (uint64_t)n;
    }
    return larder__hash_bytes(p->number, block, p->bytes) == p->hash
               ? NULL
               : "a package came back with other bytes than it was laid down with";
}

static void cut_out(const larder__package *p, const unsigned char *block, const uint64_t *ids,
                    size_t n, larder_buf **out) {
    size_t at = 0; /* both are in about the same order */
    for (size_t i = 0; i < n; i++)
        for (size_t tries = 0; tries < p->count; tries++, at++) {
            at = at < p->count ? at : 0;
            if (p->ids[at] != ids[i])
                continue;
            uint64_t from = at ? p->ends[at - 1] : 0, bytes = p->ends[at] - from;
            if ((out[i] = larder_buf_new(bytes)))
                memcpy(larder_buf_data(out[i]), block + from, bytes);
            break;
        }
}

uint64_t larder__package_take(larder__packages *s, larder__package *p, const uint64_t *ids,
                              size_t n, larder_buf **out) {
    memset(out, 0, n * sizeof *out);
    pthread_mutex_lock(&s->lock);
    while (p->state == PROMISED)
        pthread_cond_wait(&s->settled, &s->lock);
    bool there = p->state == THERE;
    s->refused += !there; /* for the reason of whoever did not lay it down */
    pthread_mutex_unlock(&s->lock);
    if (!there)
        return 0;
    unsigned char *block = larder__malloc(p->bytes);
    const char *why = block ? read_block(s->fd, p, block) : "no memory to read a package";
    if (!why)
        cut_out(p, block, ids, n, out);
    larder__free(block);
    if (!why)
        return p->bytes;
    pthread_mutex_lock(&s->lock);
    refuse(s, why);
    pthread_mutex_unlock(&s->lock);
    return 0;
}
