#include "failing_calls.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>

#define CALLS(X)                                                                                   \
    X(open)                                                                                        \
    X(openat)                                                                                      \
    X(read)                                                                                        \
    X(pread)                                                                                       \
    X(write)                                                                                       \
    X(pwrite)                                                                                      \
    X(stat)                                                                                        \
    X(lstat)                                                                                       \
    X(fstat)                                                                                       \
    X(fstatat)                                                                                     \
    X(close)                                                                                       \
    X(fsync)                                                                                       \
    X(syncfs)                                                                                      \
    X(ftruncate)                                                                                   \
    X(renameat)                                                                                    \
    X(mkdirat)                                                                                     \
    X(mkdir)                                                                                       \
    X(unlinkat)                                                                                    \
    X(mmap)                                                                                        \
    X(memfd_create)                                                                                \
    X(eventfd)                                                                                     \
    X(socket)                                                                                      \
    X(socketpair)                                                                                  \
    X(posix_spawn)                                                                                 \
    X(pthread_create)                                                                              \
    X(getrandom)                                                                                   \
    X(fopen)                                                                                       \
    X(fdopen)                                                                                      \
    X(fclose)                                                                                      \
    X(fflush)                                                                                      \
    X(open_memstream)                                                                              \
    X(opendir)                                                                                     \
    X(fdopendir)

enum {
#define X(name) CALL_##name,
    CALLS(X)
#undef X
};
static const char *const names[] = {
#define X(name) #name,
    CALLS(X)
#undef X
};

static atomic_size_t armed = SIZE_MAX;
static atomic_uint left, every, interruptible;
static atomic_bool failed;

size_t failing_count(void) { return sizeof names / sizeof *names; }

const char *failing_name(size_t which) { return names[which]; }

void failing_arm(size_t which, unsigned at) {
    atomic_store(&armed, SIZE_MAX);
    atomic_store(&failed, false);
    atomic_store(&left, at);
    atomic_store(&armed, at ? which : SIZE_MAX);
}

bool failing_did(void) { return atomic_load(&failed); }

void failing_interrupt(unsigned n) {
    atomic_store(&interruptible, n); /* the first one gets half of its bytes */
    atomic_store(&every, n);
}

static bool fails(size_t which) {
    if (atomic_load(&armed) != which || atomic_fetch_sub(&left, 1) != 1)
        return false;
    atomic_store(&armed, SIZE_MAX);
    atomic_store(&failed, true);
    return true;
}

/* 0: not this one; 1: with EINTR; 2: with half of the bytes. */
static int cut(void) {
    unsigned n = atomic_load(&every), at = n ? atomic_fetch_add(&interruptible, 1) : 1;
    return n && at % n == 0 ? 1 + (int)(at / n % 2) : 0;
}

#define WRAP(type, name, which, wrong, err, params, args)                                          \
    type __real_##name params;                                                                     \
    type __wrap_##name params;                                                                     \
    type __wrap_##name params {                                                                    \
        if (!fails(CALL_##which))                                                                  \
            return __real_##name args;                                                             \
        errno = err;                                                                               \
        return wrong;                                                                              \
    }

/* Those with bytes. */
#define WRAP_BYTES(name, which, err, params, args, fewer)                                          \
    ssize_t __real_##name params;                                                                  \
    ssize_t __wrap_##name params;                                                                  \
    ssize_t __wrap_##name params {                                                                 \
        int how = cut();                                                                           \
        bool no = fails(CALL_##which);                                                             \
        if (!no && how == 2 && n > 1)                                                              \
            return __real_##name fewer;                                                            \
        if (!no && how != 1)                                                                       \
            return __real_##name args;                                                             \
        errno = no ? err : EINTR;                                                                  \
        return -1;                                                                                 \
    }

/* Those that end something: that happens, and is said to have failed. */
#define WRAP_END(name, which, wrong, err, params, args)                                            \
    int __real_##name params;                                                                      \
    int __wrap_##name params;                                                                      \
    int __wrap_##name params {                                                                     \
        bool no = fails(CALL_##which);                                                             \
        int rc = __real_##name args;                                                               \
        if (no)                                                                                    \
            errno = err;                                                                           \
        return no ? wrong : rc;                                                                    \
    }

#define WRAP_SYNC(name)                                                                            \
    int __wrap_##name(int fd);                                                                     \
    int __wrap_##name(int fd) {                                                                    \
        if (!fails(CALL_##name) && fd >= 0)                                                        \
            return 0;                                                                              \
        errno = EIO;                                                                               \
        return -1;                                                                                 \
    }

#define WRAP_OPEN(name, which, params, args, last)                                                 \
    int __real_##name params;                                                                      \
    int __wrap_##name params;                                                                      \
    int __wrap_##name params {                                                                     \
        unsigned mode = 0;                                                                         \
        if (flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE) {                                 \
            va_list list;                                                                          \
            va_start(list, last);                                                                  \
            mode = va_arg(list, unsigned);                                                         \
            va_end(list);                                                                          \
        }                                                                                          \
        if (!fails(CALL_##which))                                                                  \
            return __real_##name args;                                                             \
        errno = EMFILE;                                                                            \
        return -1;                                                                                 \
    }

WRAP_OPEN(open, open, (const char *path, int flags, ...), (path, flags, mode), flags)
WRAP_OPEN(open64, open, (const char *path, int flags, ...), (path, flags, mode), flags)
WRAP_OPEN(openat, openat, (int at, const char *path, int flags, ...), (at, path, flags, mode),
          flags)
WRAP_OPEN(openat64, openat, (int at, const char *path, int flags, ...), (at, path, flags, mode),
          flags)

WRAP_BYTES(read, read, EIO, (int fd, void *to, size_t n), (fd, to, n), (fd, to, n / 2))
WRAP_BYTES(pread, pread, EIO, (int fd, void *to, size_t n, off_t at), (fd, to, n, at),
           (fd, to, n / 2, at))
WRAP_BYTES(pread64, pread, EIO, (int fd, void *to, size_t n, off_t at), (fd, to, n, at),
           (fd, to, n / 2, at))
WRAP_BYTES(write, write, ENOSPC, (int fd, const void *from, size_t n), (fd, from, n),
           (fd, from, n / 2))
WRAP_BYTES(pwrite, pwrite, ENOSPC, (int fd, const void *from, size_t n, off_t at),
           (fd, from, n, at), (fd, from, n / 2, at))
WRAP_BYTES(pwrite64, pwrite, ENOSPC, (int fd, const void *from, size_t n, off_t at),
           (fd, from, n, at), (fd, from, n / 2, at))

WRAP(int, stat, stat, -1, EACCES, (const char *path, struct stat *out), (path, out))
WRAP(int, stat64, stat, -1, EACCES, (const char *path, struct stat *out), (path, out))
WRAP(int, lstat, lstat, -1, EACCES, (const char *path, struct stat *out), (path, out))
WRAP(int, lstat64, lstat, -1, EACCES, (const char *path, struct stat *out), (path, out))
WRAP(int, fstat, fstat, -1, EIO, (int fd, struct stat *out), (fd, out))
WRAP(int, fstat64, fstat, -1, EIO, (int fd, struct stat *out), (fd, out))
WRAP(int, fstatat, fstatat, -1, EACCES, (int at, const char *path, struct stat *out, int flags),
     (at, path, out, flags))
WRAP(int, fstatat64, fstatat, -1, EACCES, (int at, const char *path, struct stat *out, int flags),
     (at, path, out, flags))
/* A disk has better to do than to keep what a test is about to remove: these only fail or not. */
WRAP_SYNC(fsync)
WRAP_SYNC(syncfs)
WRAP(int, ftruncate, ftruncate, -1, ENOSPC, (int fd, off_t n), (fd, n))
WRAP(int, ftruncate64, ftruncate, -1, ENOSPC, (int fd, off_t n), (fd, n))
WRAP(int, renameat, renameat, -1, EACCES, (int a, const char *from, int b, const char *to),
     (a, from, b, to))
WRAP(int, mkdirat, mkdirat, -1, EACCES, (int at, const char *path, mode_t mode), (at, path, mode))
WRAP(int, mkdir, mkdir, -1, EACCES, (const char *path, mode_t mode), (path, mode))
WRAP(int, unlinkat, unlinkat, -1, EACCES, (int at, const char *path, int flags), (at, path, flags))
WRAP(void *, mmap, mmap, MAP_FAILED, ENOMEM,
     (void *at, size_t n, int rights, int flags, int fd, off_t from),
     (at, n, rights, flags, fd, from))
WRAP(void *, mmap64, mmap, MAP_FAILED, ENOMEM,
     (void *at, size_t n, int rights, int flags, int fd, off_t from),
     (at, n, rights, flags, fd, from))
WRAP(int, memfd_create, memfd_create, -1, EMFILE, (const char *name, unsigned flags), (name, flags))
WRAP(int, eventfd, eventfd, -1, EMFILE, (unsigned begin, int flags), (begin, flags))
WRAP(int, socket, socket, -1, EMFILE, (int family, int type, int protocol),
     (family, type, protocol))
WRAP(int, socketpair, socketpair, -1, EMFILE, (int family, int type, int protocol, int ends[2]),
     (family, type, protocol, ends))
WRAP(int, posix_spawn, posix_spawn, EAGAIN, EAGAIN,
     (pid_t * out, const char *path, const posix_spawn_file_actions_t *files,
      const posix_spawnattr_t *how, char *const argv[], char *const with[]),
     (out, path, files, how, argv, with))
WRAP(int, pthread_create, pthread_create, EAGAIN, EAGAIN,
     (pthread_t * out, const pthread_attr_t *attr, void *(*run)(void *), void *arg),
     (out, attr, run, arg))
WRAP(ssize_t, getrandom, getrandom, -1, ENOSYS, (void *to, size_t n, unsigned flags),
     (to, n, flags))
WRAP(FILE *, fopen, fopen, NULL, EMFILE, (const char *path, const char *how), (path, how))
WRAP(FILE *, fopen64, fopen, NULL, EMFILE, (const char *path, const char *how), (path, how))
WRAP(FILE *, fdopen, fdopen, NULL, ENOMEM, (int fd, const char *how), (fd, how))
WRAP(FILE *, open_memstream, open_memstream, NULL, ENOMEM, (char **text, size_t *size),
     (text, size))
WRAP(DIR *, opendir, opendir, NULL, EMFILE, (const char *path), (path))
WRAP(DIR *, fdopendir, fdopendir, NULL, ENOMEM, (int fd), (fd))

WRAP_END(close, close, -1, EIO, (int fd), (fd))
WRAP_END(fclose, fclose, EOF, ENOSPC, (FILE * f), (f))
WRAP_END(fflush, fflush, EOF, ENOSPC, (FILE * f), (f))
