#include "unix/server_inside.h"

#include "base/err.h"
#include "base/limit.h"
#include "base/mem.h"
#include "base/world.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    OWN = 12 << 20 /* bytes of memory beside the cache: clients, and what they say */
};

/* ---- serving --------------------------------------------------------------------------------- */

int larder__server_run(larder__server *s) {
    int rc;
    while ((rc = larder__server_turn(s, -1)) == 1) {
    }
    return rc;
}

uint32_t larder__server_clients(const larder__server *s) { return s->count; }

void larder__server_stop(larder__server *s) {
    uint64_t one = 1;
    ssize_t n = write(s->stop, &one, sizeof one);
    (void)n;
}

/* ---- opening and closing --------------------------------------------------------------------- */

int larder__server_watch(larder__server *s, int *fd) {
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = fd};
    return epoll_ctl(s->epoll, EPOLL_CTL_ADD, *fd, &e);
}

/* Whoever holds the lock beside the socket is the daemon; the lock goes with the process. */
static int take_lock(larder__server *s) {
    char path[sizeof s->path + 8];
    snprintf(path, sizeof path, "%s.lock", s->path);
    s->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (s->lock < 0)
        return larder__fail(larder__code_of_errno(errno), "%s: %s", path, strerror(errno));
    if (flock(s->lock, LOCK_EX | LOCK_NB) < 0)
        return larder__fail(LARDER_E_STATE, "%s: another daemon serves there already", s->path);
    return 0;
}

static int bind_socket(larder__server *s) {
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    memcpy(a.sun_path, s->path, sizeof a.sun_path);
    struct stat there;
    if (lstat(s->path, &there) == 0) {
        if (!S_ISSOCK(there.st_mode))
            return larder__fail(LARDER_E_ARGS, "%s is there and is no socket", s->path);
        unlink(s->path); /* of a daemon that was killed: we hold the lock */
    }
    s->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    mode_t old = umask(0777); /* nobody gets in before the permissions are right */
    int rc = s->listener < 0 ? -1 : bind(s->listener, (struct sockaddr *)&a, sizeof a);
    umask(old);
    if (rc == 0)
        larder__frame_refuse_fds(s->listener);
    if (rc < 0 || chmod(s->path, s->conf.mode) < 0 || listen(s->listener, LARDER__BACKLOG) < 0)
        return larder__fail(larder__code_of_errno(errno), "%s: %s", s->path, strerror(errno));
    return 0;
}

/* A connection is a descriptor, with pins and a tray two more; a data set has four. */
static uint32_t fitting_clients(uint32_t asked) {
    struct rlimit most;
    enum { OURS = 64 + 4 * LARDER__SETS };
    if (getrlimit(RLIMIT_NOFILE, &most) < 0 || most.rlim_cur == RLIM_INFINITY)
        return asked;
    uint64_t fit = most.rlim_cur > OURS + 3 ? (most.rlim_cur - OURS) / 3 : 1;
    return fit < asked ? (uint32_t)fit : asked;
}

int larder__server_open(larder__server **out, const larder__server_conf *conf) {
    *out = NULL;
    if (conf->cache > larder__memory_limit())
        return larder__fail(LARDER_E_RANGE,
                            "a cache of %llu MiB, but this process may use %llu MiB",
                            (unsigned long long)(conf->cache >> 20),
                            (unsigned long long)(larder__memory_limit() >> 20));
    larder__server *s = larder__calloc(1, sizeof *s);
    if (!s)
        return LARDER_E_NOMEM;
    s->conf = *conf;
    s->conf.clients = fitting_clients(conf->clients);
    s->listener = s->lock = s->epoll = s->stop = -1;
    s->started = larder__world_now();
    s->purse =
        (larder__purse){.most = conf->cache + OWN, .more = larder__pages_yield, .arg = &s->pages};
    larder__inbox_init(&s->idle);
    int rc = 0;
    if (strlen(conf->socket) >= sizeof s->path)
        rc = larder__fail(LARDER_E_ARGS, "%.40s…: a socket's path has at most %zu bytes",
                          conf->socket, sizeof s->path - 1);
    else
        memcpy(s->path, conf->socket, strlen(conf->socket));
    if (rc == 0 && larder__world_chance(&s->secret, sizeof s->secret) < 0)
        rc = larder__fail(LARDER_E_IO, "no chance for questions to jobs from the system");
    if (rc == 0)
        rc = take_lock(s);
    if (rc == 0)
        rc = bind_socket(s);
    if (rc == 0 &&
        ((s->epoll = epoll_create1(EPOLL_CLOEXEC)) < 0 ||
         (s->stop = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) < 0 ||
         larder__server_watch(s, &s->listener) < 0 || larder__server_watch(s, &s->stop) < 0))
        rc = larder__fail(LARDER_E_IO, "epoll: %s", strerror(errno));
    if (rc == 0) {
        s->seen = larder__server_shown_open(s->path);
        s->stale = true;
    }
    if (rc == 0 && s->conf.clients < conf->clients)
        larder__server_say(s, "descriptors (ulimit -n) are enough for %u connections, not %u",
                           s->conf.clients, conf->clients);
    if (rc < 0)
        larder__server_close(&s);
    *out = s;
    return rc;
}

void larder__server_close(larder__server **ps) {
    larder__server *s = *ps;
    *ps = NULL;
    if (!s)
        return;
    larder__server_shown_close(&s->seen);
    larder__purse *before = larder__mem_charge(&s->purse);
    s->ending = true;
    while (s->clients)
        larder__server_drop(s, s->clients, NULL);
    for (size_t i = 0; i < LARDER__SETS; i++)
        larder__served_close(&s->sets[i]);
    larder__pages_end(&s->pages);
    if (s->listener >= 0) {
        close(s->listener);
        unlink(s->path);
    }
    if (s->lock >= 0) {
        char path[sizeof s->path + 8];
        snprintf(path, sizeof path, "%s.lock", s->path);
        if (s->listener >= 0)
            unlink(path);
        close(s->lock);
    }
    if (s->epoll >= 0)
        close(s->epoll);
    if (s->stop >= 0)
        close(s->stop);
    larder__writer_free(&s->body);
    larder__writer_free(&s->room);
    larder__inbox_free(&s->idle);
    larder__mem_charge(before);
    larder__free(s);
}
