#include "base/file.h"

#include "base/err.h"
#include "base/limit.h"
#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int read_all(int fd, const char *path, unsigned char *to, size_t size) {
    for (size_t at = 0; at < size;) {
        ssize_t got = read(fd, to + at, size - at);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return larder__fail_errno(path, "cannot be read");
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
        return larder__fail_errno(path, "cannot be opened");
    struct stat st;
    int rc = 0;
    if (fstat(fd, &st) < 0)
        rc = larder__fail_errno(path, "cannot be looked at");
    else if (!S_ISREG(st.st_mode))
        rc = larder__fail(LARDER_E_FORMAT, "%s: not a plain file", path);
    else if ((uint64_t)st.st_size > max)
        rc = larder__fail(LARDER_E_FORMAT, "%s: %lld bytes are more than the %zu it may have", path,
                          (long long)st.st_size, max);
    else if (larder__memory_allows((uint64_t)st.st_size) < 0)
        rc = larder__fail_in(LARDER_E_NOMEM, "%s", path);
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

ssize_t larder__read_some(int fd, void *to, size_t n) {
    size_t at = 0;
    while (at < n) {
        ssize_t got = read(fd, (char *)to + at, n - at);
        if (got < 0 && errno != EINTR)
            return -1;
        if (got == 0)
            break;
        at += got > 0 ? (size_t)got : 0;
    }
    return (ssize_t)at;
}

bool larder__file_begins(const char *path, const void *with, size_t n) {
    unsigned char head[16];
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    bool does = fd >= 0 && n <= sizeof head && larder__read_some(fd, head, n) == (ssize_t)n &&
                memcmp(head, with, n) == 0;
    if (fd >= 0)
        close(fd);
    return does;
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
            return larder__fail_errno(part, "cannot be made");
    }
    return 0;
}
