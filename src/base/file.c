#include "base/file.h"

#include "base/err.h"
#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int fail_errno(const char *path, const char *what) {
    int err = errno;
    return larder__fail(larder__code_of_errno(err), "%s: %s: %s", path, what, strerror(err));
}

static int read_all(int fd, const char *path, unsigned char *to, size_t size) {
    for (size_t at = 0; at < size;) {
        ssize_t got = read(fd, to + at, size - at);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return fail_errno(path, "cannot be read");
        if (got == 0)
            return larder__fail(LARDER_E_CHANGED, "%s: became shorter while it was read", path);
        at += (size_t)got;
    }
    return 0;
}

int larder__file_read(const char *path, size_t max, unsigned char **bytes, size_t *size) {
    *bytes = NULL;
    *size = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK); /* not waiting for pipes */
    if (fd < 0)
        return fail_errno(path, "cannot be opened");
    struct stat st;
    int rc = 0;
    if (fstat(fd, &st) < 0)
        rc = fail_errno(path, "cannot be looked at");
    else if (!S_ISREG(st.st_mode))
        rc = larder__fail(LARDER_E_FORMAT, "%s: not a plain file", path);
    else if ((uint64_t)st.st_size > max)
        rc = larder__fail(LARDER_E_FORMAT, "%s: %lld bytes are more than the %zu it may have", path,
                          (long long)st.st_size, max);
    if (rc == 0) {
        *size = (size_t)st.st_size;
        *bytes = larder__malloc(*size + 1);
        rc = *bytes ? read_all(fd, path, *bytes, *size) : LARDER_E_NOMEM;
    }
    close(fd);
    if (rc == 0)
        (*bytes)[*size] = 0;
    else {
        larder__free(*bytes);
        *bytes = NULL;
    }
    return rc;
}

/* ---- writing --------------------------------------------------------------------------------- */

int larder__fresh_open(larder__fresh *f, const char *path) {
    struct stat st;
    f->to = NULL;
    f->path = path;
    f->beside[0] = 0;
    bool whole = stat(path, &st) != 0 || S_ISREG(st.st_mode); /* a device has nothing beside it */
    static _Atomic unsigned count; /* two threads may write the same file */
    int wrote = snprintf(f->beside, sizeof f->beside, "%s.%ld-%u.tmp", path, (long)getpid(),
                         atomic_fetch_add(&count, 1));
    if (wrote < 0 || (size_t)wrote >= sizeof f->beside)
        return larder__fail(LARDER_E_ARGS, "the path is too long: %.200s", path);
    if (!whole)
        f->beside[0] = 0;
    f->to = fopen(whole ? f->beside : path, "we");
    return f->to ? 0 : fail_errno(path, "cannot be written");
}

static int flush(FILE *to, const char *path, bool sync) {
    if (fflush(to) != 0 || ferror(to))
        return fail_errno(path, "cannot be written");
    return sync && fsync(fileno(to)) != 0 ? fail_errno(path, "cannot be synced") : 0;
}

int larder__fresh_close(larder__fresh *f, int rc) {
    if (!f->to)
        return rc;
    if (rc == 0)
        rc = flush(f->to, f->path, f->beside[0]);
    if (fclose(f->to) != 0 && rc == 0)
        rc = fail_errno(f->path, "cannot be closed");
    f->to = NULL;
    if (rc == 0 && f->beside[0] && rename(f->beside, f->path) != 0)
        rc = fail_errno(f->path, "cannot be put in place");
    if (rc < 0 && f->beside[0])
        unlink(f->beside);
    return rc;
}

int larder__file_write(const char *path, const void *bytes, size_t size) {
    larder__fresh f;
    int rc = larder__fresh_open(&f, path);
    if (rc == 0 && size && fwrite(bytes, 1, size, f.to) != size)
        rc = fail_errno(path, "cannot be written");
    return larder__fresh_close(&f, rc);
}

int larder__folder_make(const char *path, unsigned mode) {
    char part[PATH_MAX];
    size_t n = strlen(path);
    if (n == 0 || n >= sizeof part)
        return larder__fail(LARDER_E_ARGS, "the name of a folder is empty or too long");
    for (size_t i = 1; i <= n; i++) {
        if (i < n && path[i] != '/')
            continue;
        memcpy(part, path, i);
        part[i] = '\0';
        if (mkdir(part, (mode_t)mode) != 0 && errno != EEXIST)
            return fail_errno(part, "cannot be made");
    }
    return 0;
}
