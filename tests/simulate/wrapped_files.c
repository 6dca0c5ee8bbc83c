/* What larder's code asks of the system about files by their names, answered by the made disk; as
 * wrapped.c. */
#include "open_files.h"
#include "platter.h"
#include "worlds.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WRAP(type, name, ...)                                                                      \
    type __real_##name(__VA_ARGS__);                                                               \
    type __wrap_##name(__VA_ARGS__);                                                               \
    type __wrap_##name(__VA_ARGS__)

static bool inside(void) { return actors_current() != NULL; }

#define WRAP_OPENAT(name)                                                                          \
    WRAP(int, name, int dir, const char *path, int flags, ...) {                                   \
        va_list args;                                                                              \
        va_start(args, flags);                                                                     \
        unsigned mode = flags & O_CREAT ? va_arg(args, unsigned) : 0;                              \
        va_end(args);                                                                              \
        if (!open_file_is(dir))                                                                    \
            return __real_##name(dir, path, flags, mode);                                          \
        return platter_open(strcmp(path, ".") == 0 ? NULL : path, flags);                          \
    }
WRAP_OPENAT(openat)
WRAP_OPENAT(openat64)

WRAP(int, mkdir, const char *path, mode_t mode) {
    return inside() ? platter_mkdir() : __real_mkdir(path, mode);
}

#define WRAP_FSTATAT(name)                                                                         \
    WRAP(int, name, int dir, const char *path, struct stat *out, int flags) {                      \
        return open_file_is(dir) ? platter_stat_name(path, out)                                    \
                                 : __real_##name(dir, path, out, flags);                           \
    }
WRAP_FSTATAT(fstatat)
WRAP_FSTATAT(fstatat64)

WRAP(int, faccessat, int dir, const char *path, int how, int flags) {
    struct stat st;
    return open_file_is(dir) ? platter_stat_name(path, &st)
                             : __real_faccessat(dir, path, how, flags);
}

WRAP(int, linkat, int dir, const char *from, int to_dir, const char *to, int flags) {
    return open_file_is(dir) ? platter_link(from, to, false)
                             : __real_linkat(dir, from, to_dir, to, flags);
}

WRAP(int, renameat, int dir, const char *from, int to_dir, const char *to) {
    return open_file_is(dir) ? platter_link(from, to, true)
                             : __real_renameat(dir, from, to_dir, to);
}

WRAP(int, unlinkat, int dir, const char *path, int flags) {
    return open_file_is(dir) ? platter_unlink(path) : __real_unlinkat(dir, path, flags);
}

#define WRAP_PREAD(name)                                                                           \
    WRAP(ssize_t, name, int fd, void *to, size_t n, off_t at) {                                    \
        return open_file_is(fd) ? platter_read(fd, to, n, at) : __real_##name(fd, to, n, at);      \
    }
WRAP_PREAD(pread)
WRAP_PREAD(pread64)

/* ---- listing --------------------------------------------------------------------------------- */

typedef struct listing { /* in the place of the system's own */
    int fd;
    uint32_t count, next;
    char names[24][PLATTER_NAME];
    struct dirent now;
} listing;

WRAP(DIR *, fdopendir, int fd) {
    if (!open_file_is(fd))
        return __real_fdopendir(fd);
    listing *l = calloc(1, sizeof *l);
    l->fd = fd;
    l->count = platter_names(l->names, 24);
    return (DIR *)(void *)l;
}

WRAP(DIR *, opendir, const char *path) {
    int fd = inside() ? platter_open(NULL, O_RDONLY) : -1;
    return !inside() ? __real_opendir(path) : fd < 0 ? NULL : __wrap_fdopendir(fd);
}

WRAP(int, dirfd, DIR *d) { return inside() ? ((listing *)(void *)d)->fd : __real_dirfd(d); }

static struct dirent *next_of(DIR *d) {
    listing *l = (listing *)(void *)d;
    if (l->next == l->count)
        return NULL;
    memcpy(l->now.d_name, l->names[l->next++], PLATTER_NAME);
    if (actors_one_in(8))
        actors_yield();
    return &l->now;
}

WRAP(struct dirent *, readdir, DIR *d) { return inside() ? next_of(d) : __real_readdir(d); }
WRAP(struct dirent *, readdir64, DIR *d) { return inside() ? next_of(d) : __real_readdir64(d); }

WRAP(int, closedir, DIR *d) {
    if (!inside())
        return __real_closedir(d);
    int rc = open_file_close(((listing *)(void *)d)->fd);
    free(d);
    return rc;
}
