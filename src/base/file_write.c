#include "base/file.h"

#include "base/err.h"

#include <fcntl.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
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

/* ---- a file in place of another -------------------------------------------------------------- */

const char *larder__name_in(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* A folder that may be written but not listed opens by O_PATH, and cannot be synced then. */
static int open_folder(const char *path) {
    char folder[4096] = ".";
    size_t n = (size_t)(larder__name_in(path) - path);
    if (n >= sizeof folder) {
        errno = ENAMETOOLONG;
        return -1;
    }
    if (n > 0) {
        memcpy(folder, path, n);
        folder[n] = 0;
    }
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd >= 0 || errno != EACCES ? fd : open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

/* Whoever has put a link there chooses where it leads. Root's lead to devices. */
typedef enum link_kind { NO_LINK, OUR_LINK, STRANGE_LINK } link_kind;
static link_kind link_at(const char *path, uid_t *owner) {
    struct stat st;
    if (lstat(path, &st) != 0 || !S_ISLNK(st.st_mode))
        return NO_LINK;
    *owner = st.st_uid;
    return st.st_uid == geteuid() || st.st_uid == 0 ? OUR_LINK : STRANGE_LINK;
}

/* "-o /dev/stdout >file": the shell has opened it already. */
static bool is_standard(const struct stat *st) {
    struct stat out;
    for (int fd = STDOUT_FILENO; fd <= STDERR_FILENO; fd++)
        if (fstat(fd, &out) == 0 && out.st_dev == st->st_dev && out.st_ino == st->st_ino)
            return true;
    return false;
}

/* Whose rights the new file gets: those of what is replaced. Behind a link that is another's
 * choice, so it can only take rights away. A group that cannot be kept has none. */
static int keep_rights(int fd, const char *path) {
    struct stat was, target, now;
    if (lstat(path, &was) != 0)
        return 0;
    if (fstat(fd, &now) != 0)
        return -1;
    mode_t mode = was.st_mode & 0777;
    if (!S_ISREG(was.st_mode))
        mode = stat(path, &target) == 0 ? now.st_mode & target.st_mode & 0777 : now.st_mode & 0777;
    else if ((was.st_uid != now.st_uid || was.st_gid != now.st_gid) &&
             fchown(fd, was.st_uid, was.st_gid) != 0 && was.st_gid != now.st_gid &&
             fchown(fd, (uid_t)-1, was.st_gid) != 0)
        mode &= ~(mode_t)070;
    return fchmod(fd, mode);
}

static int open_beside(larder__fresh *f) {
    int fd = -1, err;
    if (*larder__name_in(f->path) == 0) {
        errno = *f->path ? EISDIR : ENOENT;
        return -1;
    }
    f->folder = open_folder(f->path);
    if (f->folder >= 0 && (fd = larder__temp_open(f->folder, f->beside)) < 0)
        f->beside[0] = 0;
    if (fd >= 0 && keep_rights(fd, f->path) == 0)
        return fd;
    err = errno;
    if (fd >= 0)
        close(fd);
    errno = err;
    return -1;
}

int larder__fresh_open(larder__fresh *f, const char *path) {
    struct stat st;
    *f = (larder__fresh){.path = path, .folder = -1};
    uid_t owner;
    link_kind link = link_at(path, &owner);
    bool there = link != STRANGE_LINK && stat(path, &st) == 0;
    bool as_is = there && (!S_ISREG(st.st_mode) || is_standard(&st));
    int flags = O_WRONLY | O_APPEND | O_CLOEXEC | O_NOCTTY | (link == NO_LINK ? O_NOFOLLOW : 0);
    int fd = as_is ? open(path, flags) : open_beside(f);
    if (fd >= 0 && !(f->to = fdopen(fd, "w")))
        close(fd);
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
    uid_t owner;
    flags |= O_CREAT | O_CLOEXEC | O_NOCTTY;
    *fd = open(path, flags | O_NOFOLLOW, 0666);
    if (*fd < 0 && errno == ELOOP && link_at(path, &owner) == STRANGE_LINK)
        return larder__fail(LARDER_E_ARGS,
                            "%s: is a link of another user (%u), and is not followed", path,
                            (unsigned)owner);
    if (*fd < 0 && errno == ELOOP)
        *fd = open(path, flags, 0666);
    return *fd >= 0 ? 0 : larder__fail_errno(path, "cannot be written");
}
