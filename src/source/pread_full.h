/* A regular file, opened; its bytes at an offset, whole or with a sentence; is it still the same?
 */
#ifndef LARDER_SOURCE_PREAD_FULL_H
#define LARDER_SOURCE_PREAD_FULL_H

#include "base/err.h"
#include "source/stamp.h"

#include <larder/plugin.h>

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

/* Never waits for the other end of a pipe. A negative code: it cannot be opened, or is no file. */
static inline int larder__open_plain(const char *path, larder__stamp *stamp) {
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0)
        return larder__fail(larder__code_of_errno(errno), "%s: %s", path, strerror(errno));
    if (larder__stamp_fd(fd, &st, stamp) && S_ISREG(st.st_mode))
        return fd;
    close(fd);
    return larder__fail(LARDER_E_FORMAT, "%s is not a regular file", path);
}

/* All of `want` bytes; a file that ends before is E_CHANGED, since its size was checked at open. */
static inline int larder__pread_full(int fd, const char *path, void *out, size_t want,
                                     uint64_t at) {
    larder_note_requests(1);
    for (size_t got = 0; got < want;) {
        ssize_t n = pread(fd, (char *)out + got, want - got, (off_t)(at + got));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return larder__fail(larder__code_of_errno(errno), "%s: %s at byte %llu", path,
                                strerror(errno), (unsigned long long)(at + got));
        if (n == 0)
            return larder__fail(LARDER_E_CHANGED,
                                "%s: ends at byte %llu now; it was cut while in use: start again",
                                path, (unsigned long long)(at + got));
        got += (size_t)n;
    }
    return 0;
}

static inline int larder__file_changed(const char *path) {
    return larder__fail(LARDER_E_CHANGED,
                        "%s was changed, replaced or removed while in use; start again to train on "
                        "what is there now",
                        path);
}

/* E_CHANGED unless the open file is what it was at `then`. Asked after a read, it says that what
 * was read is of that time: whoever writes moves the time of modification first. */
static inline int larder__fd_unchanged(int fd, const char *path, const larder__stamp *then) {
    struct stat now;
    if (fstat(fd, &now) != 0)
        return larder__fail(LARDER_E_IO, "%s: %s", path, strerror(errno));
    return larder__stamp_holds(then, &now) ? 0 : larder__file_changed(path);
}

#endif
