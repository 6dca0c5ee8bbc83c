#include "base/file.h"

#include "base/err.h"
#include "base/own_user.h"

#include <fcntl.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

/* ---- names that nobody can guess ------------------------------------------------------------- */

static const char temp_begin[] = ".larder-", temp_end[] = ".tmp";
enum { DIGITS = 16, BEGIN = sizeof temp_begin - 1, END = sizeof temp_end - 1 };

int larder__temp_open(int folder, char name[LARDER__TEMP_BYTES]) {
    int fd = -1;
    for (int attempt = 0; attempt < 100 && fd < 0; attempt++) {
        uint64_t random;
        if (getrandom(&random, sizeof random, 0) != (ssize_t)sizeof random)
            return -1;
        snprintf(name, LARDER__TEMP_BYTES, "%s%0*llx%s", temp_begin, DIGITS,
                 (unsigned long long)random, temp_end);
        fd = openat(folder, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
        if (fd < 0 && errno != EEXIST)
            return -1;
    }
    return fd;
}

bool larder__temp_is(const char *name) {
    return strlen(name) == BEGIN + DIGITS + END && strncmp(name, temp_begin, BEGIN) == 0 &&
           strspn(name + BEGIN, "0123456789abcdef") == DIGITS &&
           strcmp(name + BEGIN + DIGITS, temp_end) == 0;
}

/* ---- where a path leads ---------------------------------------------------------------------- */

const char *larder__name_in(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

enum { PATH_BYTES = 4096, LOOKS = 40 };
/* Of the kernel's interface; its headers are not everywhere where a C library is. The second is a
 * mount's, in f_flags. */
enum { PROC_MAGIC = 0x9fa0, NO_FOLLOWING = 0x2000 };

/* The folder that a path names a file in; `at` is where a path that is not absolute begins. */
static int open_folder(int at, const char *path, int how) {
    char folder[PATH_BYTES] = ".";
    size_t n = (size_t)(larder__name_in(path) - path);
    if (n >= sizeof folder) {
        errno = ENAMETOOLONG;
        return -1;
    }
    if (n > 0) {
        memcpy(folder, path, n);
        folder[n] = 0;
    }
    return openat(at, folder, how | O_DIRECTORY | O_CLOEXEC);
}

static int close_after(int fd, int rc) {
    int err = errno;
    if (fd >= 0)
        close(fd);
    errno = err;
    return rc;
}

/* Whoever has put a link there chooses where it leads, so only our own and root's, which lead to
 * devices, are followed. The kernel is never asked to: by then the name may be another link than
 * the one that was looked at, so each is held open, and what it says is read from there. That is
 * about the last name of a path. Its folders are found by the kernel, links or not: they are the
 * choice of whom we trust, who gave the path or put the link there. */
typedef struct place {
    int folder; /* held open as well: from call to call nothing changes but what `name` is */
    const char *name;
    char path[PATH_BYTES]; /* has the name, if a link said it */
    bool there;            /* something is, as in `st`, which is no link */
    bool in_proc; /* /proc/self/fd/1: leads to what is open, by no path, and nobody can swap it */
    struct stat st;
    int looks, links;
    bool strange; /* stopped at a link that is not to be followed, */
    uid_t owner;  /* of this user */
} place;

static int place_move(place *p, int at, const char *path) {
    int folder = open_folder(at, path, O_PATH);
    close_after(p->folder, 0);
    p->folder = folder;
    p->name = larder__name_in(path);
    if (folder >= 0 && *p->name)
        return 0;
    if (folder >= 0)
        errno = *path ? EISDIR : ENOENT;
    return -1;
}

static void place_close(place *p) { p->folder = close_after(p->folder, -1); }

/* 1: it was followed; 0: `st` is what it leads to; -1 and errno. */
static int follow_link(place *p, int link) {
    struct statfs fs;
    p->owner = p->st.st_uid;
    if (fstatfs(p->folder, &fs) != 0)
        return -1;
    p->in_proc = fs.f_type == PROC_MAGIC;
    /* There the number is enough: nobody but the kernel makes them, and it lets nobody through
     * those of another user's processes. */
    p->strange = !larder__is_own_or_root(p->owner) && !(p->in_proc && p->owner == geteuid());
    if (p->strange) {
        errno = EPERM;
        return -1;
    }
    if (p->in_proc) {
        p->there = fstatat(p->folder, p->name, &p->st, 0) == 0;
        return p->there || errno == ENOENT ? 0 : -1;
    }
    if (fs.f_flags & NO_FOLLOWING) {
        errno = ELOOP;
        return -1;
    }
    ssize_t n = readlinkat(link, "", p->path, sizeof p->path);
    if (n == (ssize_t)sizeof p->path)
        errno = ENAMETOOLONG;
    if (n < 0 || n == (ssize_t)sizeof p->path)
        return -1;
    p->path[n] = 0;
    p->links++;
    return place_move(p, p->folder, p->path) == 0 ? 1 : -1;
}

/* Until there is no link, or nothing: 0. To be asked again where it has become one since. */
static int place_look(place *p) {
    p->in_proc = false;
    while (p->looks++ < LOOKS) {
        int seen = openat(p->folder, p->name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
        p->there = seen >= 0 && fstat(seen, &p->st) == 0;
        if (!p->there && errno == ENOENT) {
            struct statfs fs;
            p->in_proc = fstatfs(p->folder, &fs) == 0 && fs.f_type == PROC_MAGIC;
            errno = ENOENT;
        }
        if (!p->there)
            return close_after(seen, seen < 0 && errno == ENOENT ? 0 : -1);
        int more = close_after(seen, S_ISLNK(p->st.st_mode) ? follow_link(p, seen) : 0);
        if (more <= 0)
            return more;
    }
    errno = ELOOP;
    return -1;
}

static int place_find(place *p, const char *path) {
    p->folder = -1;
    p->there = p->strange = false;
    p->looks = p->links = 0;
    return place_move(p, AT_FDCWD, path) == 0 ? place_look(p) : -1;
}

/* ELOOP: it has become a link. */
static int place_open(const place *p, int flags) {
    flags |= O_CLOEXEC | O_NOCTTY | (p->in_proc ? 0 : O_NOFOLLOW);
    return openat(p->folder, p->name, flags, 0666);
}

/* ---- a file in place of another -------------------------------------------------------------- */

/* "-o /dev/stdout >file": the shell has opened it already. */
static bool is_standard(const struct stat *st) {
    struct stat out;
    for (int fd = STDOUT_FILENO; fd <= STDERR_FILENO; fd++)
        if (fstat(fd, &out) == 0 && out.st_dev == st->st_dev && out.st_ino == st->st_ino)
            return true;
    return false;
}

static bool is_written_as_is(const struct stat *st) {
    return !S_ISREG(st->st_mode) || is_standard(st);
}

/* Whose rights the new file gets: those of what is replaced. Behind a link that is another's
 * choice, so it can only take rights away. A group that cannot be kept has none. */
static int keep_rights(int fd, int folder, const char *name) {
    struct stat was, target, now;
    if (fstatat(folder, name, &was, AT_SYMLINK_NOFOLLOW) != 0)
        return 0;
    if (fstat(fd, &now) != 0)
        return -1;
    mode_t mode = was.st_mode & 0777;
    if (!S_ISREG(was.st_mode))
        mode = now.st_mode & 0777 &
               (fstatat(folder, name, &target, 0) == 0 ? target.st_mode : (mode_t)0777);
    else if ((was.st_uid != now.st_uid || was.st_gid != now.st_gid) &&
             fchown(fd, was.st_uid, was.st_gid) != 0 && was.st_gid != now.st_gid &&
             fchown(fd, (uid_t)-1, was.st_gid) != 0)
        mode &= ~(mode_t)070;
    return fchmod(fd, mode);
}

static int open_beside(larder__fresh *f) {
    const char *name = larder__name_in(f->path);
    if (*name == 0) {
        errno = *f->path ? EISDIR : ENOENT;
        return -1;
    }
    f->folder = open_folder(AT_FDCWD, f->path, O_RDONLY);
    if (f->folder < 0 && errno == EACCES) /* may be written, not listed; nor synced, opened so */
        f->folder = open_folder(AT_FDCWD, f->path, O_PATH);
    int fd = f->folder >= 0 ? larder__temp_open(f->folder, f->beside) : -1;
    if (fd < 0)
        f->beside[0] = 0;
    return fd < 0 || keep_rights(fd, f->folder, name) == 0 ? fd : close_after(fd, -1);
}

/* -1 and errno 0: there is nothing of the kind, so that a file takes the name's place. That a look
 * itself failed, for want of descriptors, must not make one of /dev/stdout. */
static int open_as_is(const char *path) {
    place p;
    struct stat st;
    int fd = -1;
    if (place_find(&p, path) < 0) {
        if (p.strange || errno == ENOENT || errno == ENOTDIR || errno == ELOOP || errno == EACCES)
            errno = 0;
    } else if (!p.there && p.in_proc) { /* "-o /dev/stdout >&-": no reason to replace that */
        errno = EBADF;
    } else if (!p.there || !is_written_as_is(&p.st)) {
        errno = 0;
    } else if ((fd = place_open(&p, O_WRONLY | O_APPEND)) < 0) {
        errno = errno == ELOOP ? 0 : errno;
    } else if (fstat(fd, &st) != 0) {
        fd = close_after(fd, -1);
    } else if (!is_written_as_is(&st)) { /* it was swapped */
        fd = close_after(fd, -1);
        errno = 0;
    }
    place_close(&p);
    return fd;
}

int larder__fresh_open(larder__fresh *f, const char *path) {
    *f = (larder__fresh){.path = path, .folder = -1};
    int fd = open_as_is(path);
    if (fd < 0 && errno == 0)
        fd = open_beside(f);
    if (fd >= 0 && !(f->to = fdopen(fd, "w")))
        close_after(fd, -1);
    if (f->to)
        return 0;
    int rc = larder__fail_errno(*path ? path : "\"\"", "cannot be written");
    if (f->beside[0])
        unlinkat(f->folder, f->beside, 0);
    if (f->folder >= 0)
        close(f->folder);
    return rc;
}

static int flush(FILE *to, const char *path, bool sync) {
    if (fflush(to) != 0 || ferror(to))
        return larder__fail_errno(path, "cannot be written");
    return sync && fsync(fileno(to)) != 0 ? larder__fail_errno(path, "cannot be synced") : 0;
}

/* So that the name is there after a crash as well. Some file systems cannot. */
static int sync_folder(const larder__fresh *f) {
    if (fsync(f->folder) == 0 || errno == EINVAL || errno == EBADF || errno == ENOTSUP)
        return 0;
    return larder__fail_errno(f->path, "its folder cannot be synced");
}

int larder__fresh_close(larder__fresh *f, int rc) {
    if (!f->to)
        return rc;
    bool beside = f->beside[0] != 0;
    if (rc == 0 || ferror(f->to)) { /* of a full disk whoever wrote knows no more than that */
        int flushed = flush(f->to, f->path, beside && !f->brief);
        rc = flushed < 0 ? flushed : rc;
    }
    if (fclose(f->to) != 0 && rc == 0)
        rc = larder__fail_errno(f->path, "cannot be closed");
    f->to = NULL;
    if (rc == 0 && beside &&
        renameat(f->folder, f->beside, f->folder, larder__name_in(f->path)) != 0)
        rc = larder__fail_errno(f->path, "cannot be put in place");
    if (rc < 0 && beside)
        unlinkat(f->folder, f->beside, 0);
    else if (beside && !f->brief)
        rc = sync_folder(f);
    if (f->folder >= 0)
        close(f->folder);
    f->folder = -1;
    return rc;
}

bool larder__write_all(int fd, const void *bytes, size_t size) {
    for (size_t at = 0; at < size;) {
        ssize_t n = write(fd, (const char *)bytes + at, size - at);
        if (n < 0 && errno != EINTR)
            return false;
        at += n > 0 ? (size_t)n : 0;
    }
    return true;
}

int larder__file_write(const char *path, const void *bytes, size_t size) {
    larder__fresh f;
    int rc = larder__fresh_open(&f, path);
    if (rc == 0 && size && fwrite(bytes, 1, size, f.to) != size)
        rc = larder__fail_errno(path, "cannot be written");
    return larder__fresh_close(&f, rc);
}

/* ---- a file that grows ----------------------------------------------------------------------- */

int larder__stream_open(int *fd, const char *path, int flags) {
    place p;
    *fd = -1;
    int rc = place_find(&p, path);
    while (rc == 0 && (*fd = place_open(&p, flags | O_CREAT)) < 0 && errno == ELOOP)
        rc = place_look(&p);
    place_close(&p);
    if (*fd < 0 && p.strange)
        return larder__fail(
            LARDER_E_ARGS, "%s: %s a link of another user (%u%s), and is not followed", path,
            p.links ? "leads to" : "is", (unsigned)p.owner, larder__why_not_own(p.owner));
    return *fd >= 0 ? 0 : larder__fail_errno(path, "cannot be written");
}
