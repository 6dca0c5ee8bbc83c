#include "base/file.h"

#include "base/err.h"
#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
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
    int fd = open(path, O_RDONLY | O_CLOEXEC);
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

static int write_all(int fd, const char *path, const unsigned char *from, size_t size) {
    for (size_t at = 0; at < size;) {
        ssize_t put = write(fd, from + at, size - at);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return fail_errno(path, "cannot be written");
        at += (size_t)put;
    }
    return fsync(fd) < 0 ? fail_errno(path, "cannot be synced") : 0;
}

int larder__file_write(const char *path, const void *bytes, size_t size) {
    char beside[4096];
    int wrote = snprintf(beside, sizeof beside, "%s.%ld.tmp", path, (long)getpid());
    if (wrote < 0 || (size_t)wrote >= sizeof beside)
        return larder__fail(LARDER_E_ARGS, "the path is too long: %.200s", path);
    int fd = open(beside, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0)
        return fail_errno(beside, "cannot be created");
    int rc = write_all(fd, path, bytes, size);
    if (close(fd) < 0 && rc == 0)
        rc = fail_errno(path, "cannot be closed");
    if (rc == 0 && rename(beside, path) < 0)
        rc = fail_errno(path, "cannot be put in place");
    if (rc < 0)
        unlink(beside);
    return rc;
}
