#include "base/err.h"
#include "base/mem.h"
#include "base/spec.h"
#include "base/world.h"
#include "unix/connection.h"
#include "unix/lent_memory.h"
#include "unix/rank_link_inside.h"

#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

/* The daemon promises memory before it answers the first rank, which takes a while. */
static const double JOIN_SECONDS = 60;
static const double RETRY = 0.2, BYE_SECONDS = 1;
enum { NAP_MS = 100 };

void larder__unix_ranks_ring(int wake) {
    uint64_t one = 1;
    ssize_t n = write(wake, &one, sizeof one);
    (void)n;
}

void larder__unix_ranks_wake(larder__unix_ranks_link *l) {
    if (!l->woken)
        larder__unix_ranks_ring(l->wake);
    l->woken = true;
}

/* ---- memory ---------------------------------------------------------------------------------- */

void larder__unix_ranks_map_unref(larder__unix_ranks_map **pm) {
    larder__unix_ranks_map *m = *pm;
    *pm = NULL;
    if (!m || atomic_fetch_sub(&m->refs, 1) != 1)
        return;
    if (m->arena)
        munmap(m->arena, m->bytes);
    if (m->socket >= 0)
        close(m->socket);
    pthread_mutex_destroy(&m->lock);
    larder__free(m->released);
    larder__free(m);
}

static int map_new(larder__unix_ranks_map **out, larder__unix_ranks_link *l,
                   const larder__joined *j, int fd) {
    larder__unix_ranks_map *m = larder__calloc(1, sizeof *m);
    *out = m;
    if (!m)
        return LARDER_E_NOMEM;
    atomic_init(&m->refs, 1);
    pthread_mutex_init(&m->lock, NULL);
    m->link = l;
    m->socket = -1;
    m->bytes = j->arena_bytes;
    m->arena = larder__lent_map(fd, m->bytes, PROT_READ | PROT_WRITE, "arena");
    if (!m->arena) {
        larder__unix_ranks_map_unref(out);
        return larder__fail_in(LARDER_E_FORMAT, "%s", l->door.path);
    }
    madvise(m->arena, m->bytes, MADV_HUGEPAGE);
    return 0;
}

/* ---- attaching ------------------------------------------------------------------------------- */

static bool stopped(larder__unix_ranks_link *l) {
    pthread_mutex_lock(&l->lock);
    bool stop = l->stop;
    pthread_mutex_unlock(&l->lock);
    return stop;
}

/* Whoever waits for other ranks meanwhile does not wait for ever. */
static int await_answer(larder__unix_ranks_link *l, bool again) {
    double until = larder__world_now() + JOIN_SECONDS;
    struct pollfd on = {.fd = l->fd, .events = POLLIN};
    while (poll(&on, 1, NAP_MS) == 0) {
        if (!larder__await_still(l->opening))
            return larder__await_given_up();
        if (larder__world_now() > until || stopped(l))
            return larder__fail(LARDER_E_IO, "%s: the daemon does not answer", l->door.path);
        if (again)
            larder__unix_ranks_relay_judge(l, false, l->note);
    }
    return 0;
}

static int greet(larder__unix_ranks_link *l, larder__joined *j, bool again) {
    larder_reader body;
    larder_writer w = {0};
    larder__join_write(&l->join, &w);
    int rc = w.code;
    if (rc == 0)
        rc = larder__frame_send(l->fd, LARDER__MSG_JOIN, w.bytes, w.size, NULL, 0);
    larder__writer_free(&w);
    if (larder__daemon_may_say(rc))
        rc = await_answer(l, again);
    if (rc == 0)
        rc = larder__daemon_hear(l->fd, &l->in, LARDER__MSG_JOINED, &body);
    return rc < 0 ? rc : larder__joined_read(j, &body);
}

/* The rank that came first has decided for all. */
static void compare(const larder__unix_ranks_link *l, const larder__joined *j) {
    const larder__budget asked = {.bytes = l->join.want};
    char holds[32], wants[32];
    uint64_t want = larder__budget_bytes(&asked, l->join.payload, l->join.pixels);
    if (l->join.want != UINT64_MAX && want != j->budget)
        larder__note(l->stats,
                     "this job's cache in the daemon holds %s, as its rank asked that came first, "
                     "and not the %s that rank %u asks for",
                     larder__print_bytes((double)j->budget, holds),
                     larder__print_bytes((double)want, wants), l->join.rank);
}

static int attach(larder__unix_ranks_link *l, bool again) {
    larder__joined j = {0};
    larder__unix_ranks_map *m = NULL;
    l->fd = larder__daemon_connect(&l->door);
    if (l->fd < 0)
        return l->fd;
    larder__inbox_init(&l->in);
    int rc = greet(l, &j, again);
    int memory = rc == 0 ? larder__inbox_take_fd(&l->in) : -1;
    if (rc == 0 && l->budget && j.budget != l->budget)
        rc = larder__fail(
            LARDER_E_CHANGED, "%s: the daemon gives this job %llu bytes of cache, no longer %llu",
            l->door.path, (unsigned long long)j.budget, (unsigned long long)l->budget);
    if (rc == 0)
        rc = map_new(&m, l, &j, memory);
    if (memory >= 0)
        close(memory);
    if (rc < 0) {
        close(l->fd);
        l->fd = -1;
        larder__inbox_free(&l->in);
        return rc;
    }
    compare(l, &j);
    if (!l->budget)
        l->join.want = l->budget = j.budget; /* another daemon has to give as much */
    pthread_mutex_lock(&l->lock);
    l->map = m;
    l->there = true;
    l->out.size = 0;
    l->out.code = 0;
    pthread_mutex_unlock(&l->lock);
    larder__unix_ranks_relay_attached(l);
    return 0;
}

/* The daemon is gone, or counts as gone. */
static void lose(larder__unix_ranks_link *l) {
    pthread_mutex_lock(&l->lock);
    larder__unix_ranks_map *m = l->map;
    l->map = NULL;
    l->there = false;
    pthread_mutex_unlock(&l->lock);
    if (m) {
        pthread_mutex_lock(&m->lock);
        m->link = NULL;
        m->releases = 0;
        m->socket = l->fd;
        pthread_mutex_unlock(&m->lock);
    } else if (l->fd >= 0)
        close(l->fd);
    larder__unix_ranks_map_unref(&m);
    larder__unix_ranks_depot_lost(l);
    if (l->fd >= 0)
        larder__inbox_free(&l->in);
    l->fd = -1;
    l->going.size = l->gone = 0;
    l->going.code = 0;
    l->retry_at = larder__world_now() + RETRY;
}

static void note_trouble(larder__unix_ranks_link *l) {
    pthread_mutex_lock(&l->lock);
    snprintf(l->note, sizeof l->note, "%s", larder_errmsg());
    pthread_mutex_unlock(&l->lock);
}

static void look_again(larder__unix_ranks_link *l) {
    if (larder__world_now() < l->retry_at)
        return;
    if (attach(l, true) < 0) {
        note_trouble(l);
        l->retry_at = larder__world_now() + RETRY;
    } else if (l->stats)
        larder__stat_add(l->stats, l->found, 1);
}

/* ---- talking --------------------------------------------------------------------------------- */

/* What there is to say joins what has not gone yet. */
static void collect(larder__unix_ranks_link *l) {
    pthread_mutex_lock(&l->lock);
    l->woken = false;
    if (l->out.code < 0)
        l->going.code = l->out.code;
    larder_write_bytes(&l->going, l->out.bytes, l->out.size);
    l->out.size = 0;
    pthread_mutex_unlock(&l->lock);
    larder__unix_ranks_depot_write(l, &l->going);
    larder__unix_ranks_relay_write(l, &l->going);
}

/* As much as the socket takes. */
static int push(larder__unix_ranks_link *l) {
    if (l->going.code < 0)
        return l->going.code;
    while (l->gone < l->going.size) {
        ssize_t n = larder__world_send_bytes(l->fd, l->going.bytes + l->gone,
                                             l->going.size - l->gone, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return 0;
        if (n < 0)
            return larder__fail(LARDER_E_IO, "%s: the daemon is gone: %s", l->door.path,
                                strerror(errno));
        l->gone += (size_t)n;
    }
    l->going.size = l->gone = 0;
    return 0;
}

static int hear(larder__unix_ranks_link *l, uint16_t type, larder_reader *body) {
    switch (type) {
    case LARDER__MSG_FOUND:
        return larder__unix_ranks_found(l, body);
    case LARDER__MSG_PLACED:
        return larder__unix_ranks_placed(l, body);
    case LARDER__MSG_RANKS:
    case LARDER__MSG_HEARD:
    case LARDER__MSG_GONE:
        return larder__unix_ranks_relay_hear(l, type, body);
    case LARDER__MSG_REFUSED:
        return larder__refused_read(body);
    default:
        return larder__fail(LARDER_E_FORMAT, "the daemon says something else (%u)", type);
    }
}

static int listen_to(larder__unix_ranks_link *l) {
    larder_reader body;
    uint16_t type;
    int rc = larder__inbox_read(&l->in, l->fd);
    while (rc >= 0 && (rc = larder__inbox_next(&l->in, &type, &body)) == 1)
        rc = hear(l, type, &body);
    return rc;
}

/* A daemon that does not answer is as good as none. */
static int check_stuck(larder__unix_ranks_link *l) {
    pthread_mutex_lock(&l->lock);
    double since = larder__unix_ranks_depot_since(l);
    pthread_mutex_unlock(&l->lock);
    since = fmin(since, larder__unix_ranks_relay_since(l));
    return larder__world_now() - since < l->patience
               ? 0
               : larder__fail(LARDER_E_IO, "%s: the daemon does not answer", l->door.path);
}

/* Says and hears what there is, or waits for a moment. */
static int step(larder__unix_ranks_link *l) {
    struct pollfd on[2] = {{.fd = l->wake, .events = POLLIN}, {.fd = l->fd, .events = POLLIN}};
    uint64_t rung;
    if (l->fd >= 0 && l->gone < l->going.size)
        on[1].events |= POLLOUT;
    poll(on, l->fd >= 0 ? 2 : 1, NAP_MS);
    if (on[0].revents && read(l->wake, &rung, sizeof rung) < 0 && errno != EAGAIN)
        return larder__fail(LARDER_E_IO, "waiting for the daemon: %s", strerror(errno));
    if (l->fd < 0)
        return 0;
    int rc = on[1].revents & (POLLIN | POLLHUP | POLLERR) ? listen_to(l) : 0;
    if (rc >= 0) {
        collect(l);
        rc = push(l);
    }
    return rc < 0 ? rc : check_stuck(l);
}

static void *link_run(void *arg) {
    larder__unix_ranks_link *l = arg;
    while (!stopped(l)) {
        if (l->fd < 0)
            look_again(l);
        if (step(l) < 0) {
            note_trouble(l);
            lose(l);
            if (l->stats)
                larder__stat_add(l->stats, l->lost, 1);
        }
        larder__unix_ranks_relay_judge(l, l->fd >= 0,
                                       l->note); /* only this thread writes the note */
    }
    return NULL;
}

/* ---- opening and closing --------------------------------------------------------------------- */

static void say_bye(larder__unix_ranks_link *l) {
    double until = larder__world_now() + BYE_SECONDS;
    collect(l);
    larder__frame_end(&l->going, larder__frame_begin(&l->going, LARDER__MSG_BYE));
    while (push(l) == 0 && l->going.size && larder__world_now() < until)
        poll(&(struct pollfd){.fd = l->fd, .events = POLLOUT}, 1, NAP_MS);
}

void larder__unix_ranks_halt(larder__unix_ranks_link *l) {
    pthread_mutex_lock(&l->lock);
    l->stop = true;
    pthread_mutex_unlock(&l->lock);
    larder__unix_ranks_ring(l->wake);
    if (l->running)
        pthread_join(l->thread, NULL);
    l->running = false;
    if (l->fd >= 0)
        say_bye(l);
    lose(l);
}

void larder__unix_ranks_close(larder__unix_ranks_link **pl) {
    larder__unix_ranks_link *l = *pl;
    *pl = NULL;
    if (!l)
        return;
    larder__unix_ranks_halt(l);
    if (l->wake >= 0)
        close(l->wake);
    larder__writer_free(&l->going);
    larder__writer_free(&l->out);
    larder__writer_free(&l->drops);
    pthread_mutex_destroy(&l->lock);
    pthread_mutex_destroy(&l->relaying);
    pthread_cond_destroy(&l->came);
    larder__free(l);
}

static int open_stats(larder__unix_ranks_link *l) {
    if (!l->stats)
        return 0;
    int rc = larder__stat_counter(l->stats, &l->lost, "daemon_lost", "times",
                                  "the daemon went away and samples came straight from storage");
    return rc < 0 ? rc
                  : larder__stat_counter(l->stats, &l->found, "daemon_found", "times",
                                         "the daemon came back");
}

static int attempt(void *link) { return attach(link, false); }

int larder__unix_ranks_open(larder__unix_ranks_link **out, const larder__unix_ranks_conf *conf) {
    pthread_condattr_t monotonic;
    larder__unix_ranks_link *l = *out = larder__calloc(1, sizeof *l);
    if (!l)
        return LARDER_E_NOMEM;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&l->lock, NULL);
    pthread_mutex_init(&l->relaying, NULL);
    pthread_cond_init(&l->came, &monotonic);
    pthread_condattr_destroy(&monotonic);
    l->door = conf->door;
    l->join = conf->join;
    l->join.magic = LARDER__WIRE_MAGIC;
    l->join.version = larder__speaks.wire;
    l->join.oldest = larder__speaks.wire_oldest;
    l->join.pid = (uint32_t)getpid();
    l->patience = conf->patience;
    l->stats = conf->stats;
    l->fd = -1;
    l->last_question = &l->questions;
    l->last_put = &l->puts;
    l->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int rc = l->wake < 0 ? larder__fail(LARDER_E_IO, "eventfd: %s", strerror(errno)) : 0;
    larder__await await = conf->await;
    await.go_on = false;
    l->opening = &await;
    if (rc == 0 && (rc = open_stats(l)) == 0 &&
        (rc = larder__await_there(&await, attempt, l)) == 0) {
        l->opening = NULL;
        l->running = pthread_create(&l->thread, NULL, link_run, l) == 0;
        if (!l->running)
            rc = larder__fail(LARDER_E_NOMEM, "no thread to talk to the daemon with");
    }
    if (rc < 0)
        larder__unix_ranks_close(out);
    return rc;
}

uint64_t larder__unix_ranks_budget(const larder__unix_ranks_link *l) { return l->budget; }
