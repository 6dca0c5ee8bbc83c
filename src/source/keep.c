#include "source/keep.h"

#include "base/err.h"
#include "base/mem.h"
#include "source/pread_full.h"

#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#define MOST_BYTES ((uint64_t)4 << 30)

static int folder_path(char *out, size_t cap) {
    const char *own = getenv("LARDER_CACHE_DIR"), *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int n = own && own[0]   ? snprintf(out, cap, "%s", own)
            : xdg && xdg[0] ? snprintf(out, cap, "%s/larder", xdg)
            : home && home[0] ? snprintf(out, cap, "%s/.cache/larder", home)
                              : -1;
    if (n < 0 || (size_t)n >= cap)
        return larder__fail(LARDER_E_NOTFOUND, "there is no cache folder: neither LARDER_CACHE_DIR nor "
                                               "XDG_CACHE_HOME nor HOME is set, or it is too long");
    return 0;
}

static int file_path(const char *name, char *out, size_t cap) {
    int rc = folder_path(out, cap);
    size_t n = rc == 0 ? strlen(out) : 0;
    if (rc == 0 && (size_t)snprintf(out + n, cap - n, "/%s", name) >= cap - n)
        rc = larder__fail(LARDER_E_ARGS, "the cache folder's path is too long");
    return rc;
}

static int failed(const char *path) {
    return larder__fail(larder__code_of_errno(errno), "%s: %s", path, strerror(errno));
}

int larder__keep_load(const char *name, void **bytes, size_t *size) {
    char path[PATH_MAX];
    struct stat st;
    *bytes = NULL;
    *size = 0;
    int rc = file_path(name, path, sizeof path);
    if (rc < 0)
        return rc;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0)
        return failed(path);
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || (uint64_t)st.st_size > MOST_BYTES)
        rc = larder__fail(LARDER_E_FORMAT, "%s is no file that larder wrote", path);
    if (rc == 0 && !(*bytes = larder__malloc((size_t)st.st_size)))
        rc = LARDER_E_NOMEM;
    if (rc == 0)
        rc = larder__pread_full(fd, path, *bytes, (size_t)st.st_size, 0);
    close(fd);
    if (rc == 0) {
        *size = (size_t)st.st_size;
        return 0;
    }
    larder__free(*bytes);
    *bytes = NULL;
    return rc;
}

/* mkdir -p; only the owner gets in. */
static void make_folders(const char *path) {
    char part[PATH_MAX];
    for (const char *slash = strchr(path + 1, '/');; slash = strchr(slash + 1, '/')) {
        snprintf(part, sizeof part, "%.*s", slash ? (int)(slash - path) : (int)strlen(path), path);
        mkdir(part, 0700);
        if (!slash)
            return;
    }
}

static int write_all(int fd, const char *path, const void *bytes, size_t size) {
    for (size_t at = 0; at < size;) {
        ssize_t n = write(fd, (const char *)bytes + at, size - at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return failed(path);
        at += (size_t)n;
    }
    return fsync(fd) == 0 ? 0 : failed(path);
}

int larder__keep_store(const char *name, const void *bytes, size_t size) {
    static _Atomic unsigned turn; /* two threads may keep the same thing at once */
    char folder[PATH_MAX], path[PATH_MAX], fresh[PATH_MAX + 64];
    int rc = folder_path(folder, sizeof folder);
    if (rc == 0)
        rc = file_path(name, path, sizeof path);
    if (rc < 0)
        return rc;
    make_folders(folder);
    snprintf(fresh, sizeof fresh, "%s.%ld.%u.part", path, (long)getpid(), atomic_fetch_add(&turn, 1));
    int fd = open(fresh, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return failed(fresh);
    rc = write_all(fd, fresh, bytes, size);
    if (close(fd) != 0 && rc == 0)
        rc = failed(fresh);
    if (rc == 0 && rename(fresh, path) != 0)
        rc = failed(path);
    if (rc < 0)
        unlink(fresh);
    return rc;
}
