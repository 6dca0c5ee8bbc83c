/* What larder's code asks of the system, answered by the made world. The linker brings every such
 * call of the program here (--wrap, wrapped.list); what is not asked by a process of that world
 * goes on to the system. */
#include "wrapped.h"
#include "actors.h"
#include "base/limit.h"
#include "descriptors.h"
#include "open_files.h"
#include "passed_memory.h"
#include "platter.h"
#include "player.h"
#include "unix/message.h"
#include "unix/resident_table.h"
#include "unix/server_shown.h"
#include "waits.h"
#include "wires.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

/* The linker's names for the call as it was, and as it is here. */
#define WRAP(type, name, ...)                                                                      \
    type __real_##name(__VA_ARGS__);                                                               \
    type __wrap_##name(__VA_ARGS__);                                                               \
    type __wrap_##name(__VA_ARGS__)

static bool inside(void) { return actors_current() != NULL; }

/* ---- memory ---------------------------------------------------------------------------------- */

WRAP(void *, malloc, size_t n) {
    return inside() ? actor_alloc(actors_current()->heap, n) : __real_malloc(n);
}

WRAP(void *, calloc, size_t n, size_t m) {
    if (!inside())
        return __real_calloc(n, m);
    void *p = actor_alloc(actors_current()->heap, n * m);
    return p ? memset(p, 0, n * m) : NULL;
}

WRAP(void, free, void *p) {
    if (p && actor_owns(p))
        actor_release(p);
    else
        __real_free(p);
}

WRAP(void *, realloc, void *old, size_t n) {
    if (!inside() && !(old && actor_owns(old)))
        return __real_realloc(old, n);
    void *p = actor_alloc(actors_current()->heap, n);
    if (p && old) {
        memcpy(p, old, actor_size(old) < n ? actor_size(old) : n);
        actor_release(old);
    }
    return p;
}

/* More than 64 is asked for by who reads past the page cache: the made disk takes any. */
WRAP(void *, aligned_alloc, size_t align, size_t n) {
    return inside() ? actor_alloc(actors_current()->heap, n) : __real_aligned_alloc(align, n);
}

WRAP(size_t, malloc_usable_size, void *p) {
    return p && actor_owns(p) ? actor_size(p) : __real_malloc_usable_size(p);
}

void *outside_alloc(size_t n) { return __real_malloc(n); }
void *outside_zeroed(size_t n) { return __real_calloc(1, n); }
void *outside_resize(void *old, size_t n) { return __real_realloc(old, n); }
void outside_free(void *p) { __real_free(p); }

/* ---- time and chance ------------------------------------------------------------------------- */

static double seconds_of(const struct timespec *t) {
    return (double)t->tv_sec + (double)t->tv_nsec * 1e-9;
}

WRAP(int, clock_gettime, clockid_t id, struct timespec *out) {
    if (!inside())
        return __real_clock_gettime(id, out);
    double now = actors_now();
    out->tv_sec = (time_t)now;
    out->tv_nsec = (long)((now - (double)out->tv_sec) * 1e9);
    return 0;
}

/* The date, which somebody may set; clocks of larder's do not follow it. */
double wrapped_date;
WRAP(time_t, time, time_t *out) {
    return inside() ? (time_t)(actors_now() + wrapped_date) : __real_time(out);
}

WRAP(int, clock_nanosleep, clockid_t id, int flags, const struct timespec *t,
     struct timespec *left) {
    if (!inside())
        return __real_clock_nanosleep(id, flags, t, left);
    actors_sleep(seconds_of(t) + 1e-9 + (flags & TIMER_ABSTIME ? 0 : actors_now()));
    return 0;
}

WRAP(int, nanosleep, const struct timespec *t, struct timespec *left) {
    if (!inside())
        return __real_nanosleep(t, left);
    actors_sleep(actors_now() + seconds_of(t));
    return 0;
}

WRAP(ssize_t, getrandom, void *out, size_t n, unsigned flags) {
    if (!inside())
        return __real_getrandom(out, n, flags);
    for (size_t i = 0; i < n; i++)
        ((unsigned char *)out)[i] = (unsigned char)actors_chance(256);
    return (ssize_t)n;
}

/* ---- threads and locks ----------------------------------------------------------------------- */

typedef struct lock { /* in the place of pthread's own */
    actor_thread *owner;
} lock;
_Static_assert(sizeof(lock) <= sizeof(pthread_mutex_t), "it fits");
_Static_assert(sizeof(pthread_t) >= sizeof(actor_thread *), "it fits");

static lock *lock_of(pthread_mutex_t *m) { return (lock *)(void *)m; }

WRAP(int, pthread_create, pthread_t *out, const pthread_attr_t *attr, void *(*main)(void *),
     void *arg) {
    if (!inside())
        return __real_pthread_create(out, attr, main, arg);
    *out = (pthread_t)(uintptr_t)actors_spawn(main, arg);
    return 0;
}

WRAP(int, pthread_join, pthread_t t, void **out) {
    if (!inside())
        return __real_pthread_join(t, out);
    actors_join((actor_thread *)(uintptr_t)t);
    return 0;
}

WRAP(int, pthread_detach, pthread_t t) {
    if (!inside())
        return __real_pthread_detach(t);
    actors_let_go((actor_thread *)(uintptr_t)t);
    return 0;
}

WRAP(int, pthread_mutex_init, pthread_mutex_t *m, const pthread_mutexattr_t *a) {
    if (!inside())
        return __real_pthread_mutex_init(m, a);
    *lock_of(m) = (lock){NULL};
    return 0;
}

WRAP(int, pthread_mutex_destroy, pthread_mutex_t *m) {
    if (!inside())
        return __real_pthread_mutex_destroy(m);
    if (lock_of(m)->owner)
        actors_complain("a lock is destroyed while somebody holds it");
    return 0;
}

WRAP(int, pthread_mutex_trylock, pthread_mutex_t *m) {
    if (!inside())
        return __real_pthread_mutex_trylock(m);
    if (lock_of(m)->owner)
        return EBUSY;
    lock_of(m)->owner = actors_thread();
    return 0;
}

static void take(pthread_mutex_t *m) {
    if (lock_of(m)->owner == actors_thread())
        actors_complain("a thread locks what it has locked");
    while (lock_of(m)->owner)
        actors_wait(m, ACTOR_NEVER);
    lock_of(m)->owner = actors_thread();
}

static void give(pthread_mutex_t *m) {
    if (lock_of(m)->owner != actors_thread())
        actors_complain("a thread unlocks what it has not locked");
    lock_of(m)->owner = NULL;
    actors_wake_one(m);
}

WRAP(int, pthread_mutex_lock, pthread_mutex_t *m) {
    if (!inside())
        return __real_pthread_mutex_lock(m);
    if (actors_one_in(32))
        actors_yield();
    take(m);
    return 0;
}

WRAP(int, pthread_mutex_unlock, pthread_mutex_t *m) {
    if (!inside())
        return __real_pthread_mutex_unlock(m);
    give(m);
    return 0;
}

WRAP(int, pthread_cond_init, pthread_cond_t *c, const pthread_condattr_t *a) {
    return inside() ? 0 : __real_pthread_cond_init(c, a);
}

WRAP(int, pthread_cond_destroy, pthread_cond_t *c) {
    return inside() ? 0 : __real_pthread_cond_destroy(c);
}

static bool wait_on(pthread_cond_t *c, pthread_mutex_t *m, double until) {
    give(m);
    bool woken = actors_wait(c, until);
    take(m);
    return woken;
}

WRAP(int, pthread_cond_wait, pthread_cond_t *c, pthread_mutex_t *m) {
    if (!inside())
        return __real_pthread_cond_wait(c, m);
    wait_on(c, m, ACTOR_NEVER);
    return 0;
}

WRAP(int, pthread_cond_timedwait, pthread_cond_t *c, pthread_mutex_t *m,
     const struct timespec *until) {
    if (!inside())
        return __real_pthread_cond_timedwait(c, m, until);
    return wait_on(c, m, seconds_of(until) + 1e-9) ? 0 : ETIMEDOUT;
}

WRAP(int, pthread_cond_signal, pthread_cond_t *c) {
    if (!inside())
        return __real_pthread_cond_signal(c);
    actors_wake_one(c);
    return 0;
}

WRAP(int, pthread_cond_broadcast, pthread_cond_t *c) {
    if (!inside())
        return __real_pthread_cond_broadcast(c);
    actors_wake(c, 0);
    return 0;
}

WRAP(void, larder__word_wait, const _Atomic uint32_t *word, uint32_t is, double seconds) {
    if (!inside())
        __real_larder__word_wait(word, is, seconds);
    else if (atomic_load(word) == is)
        actors_wait((const void *)word, actors_now() + seconds);
}

WRAP(void, larder__word_wake, const _Atomic uint32_t *word) {
    if (!inside())
        __real_larder__word_wake(word);
    else
        actors_wake((const void *)word, 0);
}

/* ---- sockets --------------------------------------------------------------------------------- */

WRAP(int, socket, int domain, int type, int protocol) {
    return inside() ? wires_socket(type & SOCK_NONBLOCK) : __real_socket(domain, type, protocol);
}

static const char *path_of(const struct sockaddr *a) {
    return ((const struct sockaddr_un *)(const void *)a)->sun_path;
}

WRAP(int, bind, int fd, const struct sockaddr *a, socklen_t n) {
    return inside() ? wires_listen(fd, path_of(a)) : __real_bind(fd, a, n);
}

WRAP(int, listen, int fd, int backlog) { return inside() ? 0 : __real_listen(fd, backlog); }

WRAP(int, accept4, int fd, struct sockaddr *a, socklen_t *n, int flags) {
    return inside() ? wires_accept(fd, flags & SOCK_NONBLOCK) : __real_accept4(fd, a, n, flags);
}

WRAP(int, connect, int fd, const struct sockaddr *a, socklen_t n) {
    return inside() ? wires_connect(fd, path_of(a)) : __real_connect(fd, a, n);
}

WRAP(int, setsockopt, int fd, int level, int what, const void *value, socklen_t n) {
    if (!inside())
        return __real_setsockopt(fd, level, what, value, n);
    const struct timeval *t = value;
    bool about_time = what == SO_RCVTIMEO || what == SO_SNDTIMEO;
    double seconds = about_time ? (double)t->tv_sec + (double)t->tv_usec * 1e-6 : 0;
    wires_timeouts(fd, what == SO_RCVTIMEO ? seconds : 0, what == SO_SNDTIMEO ? seconds : 0);
    return 0;
}

/* Users: that of the daemon is not root, whoever runs this. */
static uid_t user_of(uint32_t process) { return ACTOR_USER + play_user(process); }

WRAP(uid_t, geteuid, void) {
    return inside() ? user_of(actors_current()->number) : __real_geteuid();
}

/* Whose process is at the other end. */
WRAP(int, getsockopt, int fd, int level, int what, void *value, socklen_t *n) {
    if (!inside())
        return __real_getsockopt(fd, level, what, value, n);
    *(struct ucred *)value = (struct ucred){.pid = 1, .uid = user_of(wires_peer(fd))};
    return 0;
}

WRAP(int, shutdown, int fd, int how) {
    if (!inside())
        return __real_shutdown(fd, how);
    wires_shutdown(fd);
    return 0;
}

WRAP(int, close, int fd) {
    return open_file_is(fd)    ? open_file_close(fd)
           : descriptor_is(fd) ? descriptor_close(fd)
                               : __real_close(fd);
}

WRAP(int, poll, struct pollfd *at, nfds_t n, int milliseconds) {
    if (!inside())
        return __real_poll(at, n, milliseconds);
    return waits_poll(at, n, actors_now() + milliseconds * 1e-3);
}

WRAP(ssize_t, sendmsg, int fd, const struct msghdr *m, int flags) {
    return inside() ? wires_send(fd, m, flags) : __real_sendmsg(fd, m, flags);
}

WRAP(ssize_t, recvmsg, int fd, struct msghdr *m, int flags) {
    return inside() ? wires_receive(fd, m, flags) : __real_recvmsg(fd, m, flags);
}

WRAP(int, epoll_create1, int flags) {
    return inside() ? waits_epoll() : __real_epoll_create1(flags);
}

WRAP(int, epoll_ctl, int epoll, int what, int fd, struct epoll_event *about) {
    return inside() ? waits_epoll_ctl(epoll, what, fd, about)
                    : __real_epoll_ctl(epoll, what, fd, about);
}

WRAP(int, epoll_wait, int epoll, struct epoll_event *out, int most, int milliseconds) {
    return inside() ? waits_epoll_wait(epoll, out, most, milliseconds)
                    : __real_epoll_wait(epoll, out, most, milliseconds);
}

WRAP(int, eventfd, unsigned first, int flags) {
    return inside() ? waits_event() : __real_eventfd(first, flags);
}

/* Of events alone. */
WRAP(ssize_t, write, int fd, const void *bytes, size_t n) {
    if (!descriptor_is(fd))
        return __real_write(fd, bytes, n);
    waits_ring(fd);
    return (ssize_t)n;
}

WRAP(ssize_t, read, int fd, void *to, size_t n) {
    if (!descriptor_is(fd))
        return __real_read(fd, to, n);
    if (waits_rung(fd))
        return (ssize_t)n;
    errno = EAGAIN;
    return -1;
}

/* ---- shared memory --------------------------------------------------------------------------- */

WRAP(int, memfd_create, const char *name, unsigned flags) {
    return inside() ? passed_create() : __real_memfd_create(name, flags);
}

#define WRAP_SIZE(name)                                                                            \
    WRAP(int, name, int fd, off_t size) {                                                          \
        return inside() ? passed_resize(fd, (size_t)size) : __real_##name(fd, size);               \
    }
WRAP_SIZE(ftruncate)
WRAP_SIZE(ftruncate64)

#define WRAP_FALLOCATE(name)                                                                       \
    WRAP(int, name, int fd, int mode, off_t from, off_t size) {                                    \
        if (!inside())                                                                             \
            return __real_##name(fd, mode, from, size);                                            \
        return 0;                                                                                  \
    }
WRAP_FALLOCATE(fallocate)
WRAP_FALLOCATE(fallocate64)

/* Of the disk: locks, and another of the same. Of memory: seals, which are all there. */
static int about_file(int fd, int what, const void *arg) {
    if (open_file_is(fd))
        return what == F_DUPFD_CLOEXEC ? open_file_again(fd) : platter_lock(fd, arg);
    return what == F_GET_SEALS ? F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL | F_SEAL_FUTURE_WRITE
                               : 0;
}

#define WRAP_FCNTL(name)                                                                           \
    WRAP(int, name, int fd, int what, ...) {                                                       \
        va_list args;                                                                              \
        va_start(args, what);                                                                      \
        void *arg = va_arg(args, void *);                                                          \
        va_end(args);                                                                              \
        return inside() ? about_file(fd, what, arg) : __real_##name(fd, what, arg);                \
    }
WRAP_FCNTL(fcntl)
WRAP_FCNTL(fcntl64)

#define WRAP_MMAP(name)                                                                            \
    WRAP(void *, name, void *at, size_t n, int prot, int flags, int fd, off_t from) {              \
        if (!inside() || (!descriptor_is(fd) && !open_file_is(fd)))                                \
            return __real_##name(at, n, prot, flags, fd, from);                                    \
        void *got = open_file_is(fd) ? platter_map(fd, n) : passed_map(fd, n, prot & PROT_WRITE);  \
        return got ? got : MAP_FAILED;                                                             \
    }
WRAP_MMAP(mmap)
WRAP_MMAP(mmap64)

WRAP(int, munmap, void *at, size_t n) {
    if (!inside())
        return __real_munmap(at, n);
    return platter_unmap(at) ? 0 : passed_unmap(at);
}

WRAP(int, madvise, void *at, size_t n, int advice) {
    if (inside() && advice == MADV_REMOVE) /* shared memory: whoever maps it sees that */
        memset(at, 0, n);
    return inside() ? 0 : __real_madvise(at, n, advice);
}

#define WRAP_FSTAT(name)                                                                           \
    WRAP(int, name, int fd, struct stat *out) {                                                    \
        if (!inside())                                                                             \
            return __real_##name(fd, out);                                                         \
        if (open_file_is(fd))                                                                      \
            return platter_stat(fd, out);                                                          \
        *out = (struct stat){.st_mode = S_IFREG | 0600, .st_uid = geteuid()};                      \
        out->st_size = (off_t)passed_bytes(fd);                                                    \
        return 0;                                                                                  \
    }
WRAP_FSTAT(fstat)
WRAP_FSTAT(fstat64)

#define WRAP_FSTATFS(name)                                                                         \
    WRAP(int, name, int fd, struct statfs *out) {                                                  \
        if (!inside())                                                                             \
            return __real_##name(fd, out);                                                         \
        *out = (struct statfs){.f_type = 0x01021994}; /* tmpfs */                                  \
        return 0;                                                                                  \
    }
WRAP_FSTATFS(fstatfs)
WRAP_FSTATFS(fstatfs64)

/* The table of residents is shown in one place, by mapping another over it; here the place moves.
 */
WRAP(int, larder__resident_table_show, larder__resident_table *t, int fd) {
    if (!inside())
        return __real_larder__resident_table_show(t, fd);
    void *at = passed_map(fd < 0 ? t->nothing : fd, t->bytes, false);
    if (!at)
        return LARDER_E_NOMEM;
    if (t->table)
        passed_unmap(t->table);
    t->table = at;
    return 0;
}

WRAP(int, larder__resident_table_open, larder__resident_table *t, uint64_t keys) {
    if (!inside())
        return __real_larder__resident_table_open(t, keys);
    *t = (larder__resident_table){.bytes = sizeof *t->table + keys * sizeof(larder_slot)};
    t->nothing = passed_create();
    if (passed_resize(t->nothing, t->bytes) < 0)
        return LARDER_E_NOMEM;
    if (__wrap_larder__resident_table_show(t, -1) < 0)
        return LARDER_E_NOMEM;
    memset(t->table + 1, 0xff, keys * sizeof(larder_slot));
    return 0;
}

/* ---- files ----------------------------------------------------------------------------------- */

/* The folder of the made disk, the daemon's lock, or what a descriptor stands for, once more. */
static int open_inside(const char *path, int flags) {
    static const char again[] = "/proc/self/fd/";
    if (platter_is_below(path))
        return platter_open(NULL, O_RDONLY);
    if (strncmp(path, again, sizeof again - 1) == 0)
        return descriptor_again(atoi(path + sizeof again - 1), (flags & O_ACCMODE) == O_RDONLY);
    return wires_lock_file();
}

#define WRAP_OPEN(name)                                                                            \
    WRAP(int, name, const char *path, int flags, ...) {                                            \
        va_list args;                                                                              \
        va_start(args, flags);                                                                     \
        unsigned mode = flags & O_CREAT ? va_arg(args, unsigned) : 0;                              \
        va_end(args);                                                                              \
        return inside() ? open_inside(path, flags) : __real_##name(path, flags, mode);             \
    }
WRAP_OPEN(open)
WRAP_OPEN(open64)

WRAP(int, flock, int fd, int what) {
    return inside() ? (wires_lock(fd) ? 0 : -1) : __real_flock(fd, what);
}

#define WRAP_LSTAT(name)                                                                           \
    WRAP(int, name, const char *path, struct stat *out) {                                          \
        if (!inside())                                                                             \
            return __real_##name(path, out);                                                       \
        errno = ENOENT;                                                                            \
        return -1;                                                                                 \
    }
WRAP_LSTAT(lstat)
WRAP_LSTAT(lstat64)

WRAP(int, unlink, const char *path) { return inside() ? 0 : __real_unlink(path); }
WRAP(int, chmod, const char *path, mode_t mode) { return inside() ? 0 : __real_chmod(path, mode); }
WRAP(int, fchmod, int fd, mode_t mode) { return inside() ? 0 : __real_fchmod(fd, mode); }
WRAP(mode_t, umask, mode_t mode) { return inside() ? 0 : __real_umask(mode); }

/* ---- what has no part in it ------------------------------------------------------------------ */

WRAP(larder__server_shown *, larder__server_shown_open, const char *socket) {
    return inside() ? NULL : __real_larder__server_shown_open(socket);
}

WRAP(uint64_t, larder__memory_limit, void) {
    return inside() ? UINT64_MAX : __real_larder__memory_limit();
}

/* ---- hiredis --------------------------------------------------------------------------------- */

#include <hiredis/hiredis.h>

WRAP(redisContext *, redisConnectWithTimeout, const char *host, int port, const struct timeval t) {
    if (!inside())
        return __real_redisConnectWithTimeout(host, port, t);
    redisContext *c = __wrap_calloc(1, sizeof *c);
    c->fd = wires_socket(false);
    if (wires_connect(c->fd, host) < 0) {
        c->err = REDIS_ERR_IO;
        strcpy(c->errstr, "Connection refused");
    }
    return c;
}

WRAP(void, redisFree, redisContext *c) {
    if (!inside()) {
        __real_redisFree(c);
        return;
    }
    descriptor_close(c->fd);
    __wrap_free(c);
}

/* What hiredis gives is not of a process's heap: it is noted, and goes with the process. */
enum { GIVEN = 256 };
static struct {
    void *what;
    void (*give_back)(void *);
    const actor_process *of;
} given[GIVEN];

static void note(void *what, void (*give_back)(void *)) {
    int i = 0;
    while (i < GIVEN && given[i].what)
        i++;
    if (i == GIVEN)
        abort();
    given[i].what = what;
    given[i].give_back = give_back;
    given[i].of = actors_current();
}

static void strike(const void *what) {
    for (int i = 0; what && i < GIVEN; i++)
        if (given[i].what == what) {
            given[i].what = NULL;
            return;
        }
}

void wrapped_crash(const actor_process *p) {
    for (int i = 0; i < GIVEN; i++)
        if (given[i].what && given[i].of == p) {
            given[i].give_back(given[i].what);
            given[i].what = NULL;
        }
}

uint32_t wrapped_open_of(const actor_process *p) {
    uint32_t n = 0;
    for (int i = 0; i < GIVEN; i++)
        n += given[i].what && given[i].of == p;
    return n;
}

static void free_reader(void *r) { redisReaderFree(r); }

WRAP(redisReader *, redisReaderCreate, void) {
    redisReader *r = __real_redisReaderCreate();
    if (inside() && r)
        note(r, free_reader);
    return r;
}

WRAP(void, redisReaderFree, redisReader *r) {
    strike(r);
    __real_redisReaderFree(r);
}

WRAP(void, freeReplyObject, void *r) {
    strike(r);
    __real_freeReplyObject(r);
}

WRAP(int, redisReaderGetReply, redisReader *r, void **out) {
    int rc = __real_redisReaderGetReply(r, out);
    if (inside() && rc == REDIS_OK && out && *out)
        note(*out, freeReplyObject);
    return rc;
}

static void free_command(void *c) { redisFreeCommand(c); }

WRAP(void, redisFreeCommand, char *c) {
    strike(c);
    __real_redisFreeCommand(c);
}

/* A number of another size in each of hiredis' versions. */
typedef __typeof__(redisFormatCommandArgv(NULL, 0, NULL, NULL)) formatted;
WRAP(formatted, redisFormatCommandArgv, char **out, int argc, const char **argv,
     const size_t *lengths) {
    formatted n = __real_redisFormatCommandArgv(out, argc, argv, lengths);
    if (inside() && n >= 0)
        note(*out, free_command);
    return n;
}
