#include "daemon/server.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/limit.h"
#include "base/mem.h"
#include "base/spec.h"
#include "daemon/shelf.h"
#include "daemon/status.h"
#include "wire/frame.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum { EVENTS = 64, BACKLOG = 128, REPLY_MOST = 64 << 20, WATCH_MS = 250, TABLES_FREE = 64 << 20 };

typedef struct client {
    struct client *next;
    int fd;
    bool leaving; /* what is left to send, then goodbye */
    larder__inbox in;
    larder_writer out; /* not yet taken by the socket */
    size_t sent;
    larder__client_about about; /* shelf is NULL before HELLO */
} client;

struct larder__server {
    larder__server_conf conf;
    char path[sizeof((struct sockaddr_un *)0)->sun_path];
    int listener, lock, epoll, stop;
    client *clients;
    uint32_t count;
    larder__shelf *shelves[LARDER__SHELVES];
    uint64_t promised; /* bytes of budget given to shelves */
    larder_writer body, room;
    double started, watch_at;
    bool making; /* something was being made when we last looked */
};

__attribute__((format(printf, 2, 3))) static void say(larder__server *s, const char *format, ...) {
    char line[512];
    va_list args;
    if (!s->conf.say)
        return;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    s->conf.say(s->conf.arg, line);
}

/* ---- sending --------------------------------------------------------------------------------- */

/* What the socket takes now; the rest when it is ready again. */
static int flush(larder__server *s, client *c) {
    while (c->sent < c->out.size) {
        ssize_t n =
            send(c->fd, c->out.bytes + c->sent, c->out.size - c->sent, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            break;
        if (n < 0)
            return larder__fail(LARDER_E_IO, "%s", strerror(errno));
        c->sent += (size_t)n;
    }
    bool all = c->sent == c->out.size;
    if (all)
        c->out.size = c->sent = 0;
    struct epoll_event e = {.events = all ? EPOLLIN : EPOLLIN | EPOLLOUT, .data.ptr = c};
    epoll_ctl(s->epoll, EPOLL_CTL_MOD, c->fd, &e);
    return 0;
}

static int reply(larder__server *s, client *c, larder__message type) {
    larder__frame_head head = {.bytes = (uint32_t)s->body.size, .type = (uint16_t)type};
    if (s->body.code < 0)
        return s->body.code;
    if (c->out.size - c->sent + s->body.size > REPLY_MOST)
        return larder__fail(LARDER_E_FULL, "it does not read its answers");
    larder_write_bytes(&c->out, &head, sizeof head);
    larder_write_bytes(&c->out, s->body.bytes, s->body.size);
    return c->out.code < 0 ? c->out.code : flush(s, c);
}

/* Says why and hangs up once that is sent. */
static int refuse(larder__server *s, client *c, int code) {
    s->body.size = 0;
    larder__refused_write(&s->body, code, larder_errmsg());
    c->leaving = true;
    return reply(s, c, LARDER__MSG_REFUSED);
}

/* ---- shelves --------------------------------------------------------------------------------- */

static void close_shelf(larder__server *s, size_t i) {
    s->promised -= larder__shelf_about(s->shelves[i])->budget;
    larder__shelf_close(&s->shelves[i]);
}

/* Data sets nobody trains on make room for one that somebody does. */
static void drop_idle(larder__server *s, uint64_t want) {
    for (size_t i = 0; i < LARDER__SHELVES && s->conf.cache - s->promised < want; i++) {
        larder__shelf_figures f;
        if (!s->shelves[i])
            continue;
        larder__shelf_read_figures(s->shelves[i], &f);
        if (f.jobs == 0) {
            say(s, "data set %016llx is forgotten: nobody trains on it",
                (unsigned long long)larder__shelf_about(s->shelves[i])->fingerprint);
            close_shelf(s, i);
        }
    }
}

static int budget_of(larder__server *s, const larder__hello *h, uint64_t *out) {
    larder__budget b = {.bytes = UINT64_MAX};
    int rc = h->budget[0] ? larder__parse_budget(h->budget, &b) : 0;
    if (rc < 0)
        return rc;
    uint64_t want = b.relative ? (uint64_t)(b.fraction * (double)h->payload) : b.bytes;
    if (want > h->payload && h->forms_id == 0)
        want = h->payload; /* more than everything is never of use */
    drop_idle(s, want);
    uint64_t left = s->conf.cache - s->promised;
    if (h->budget[0] && want > left)
        return larder__fail(LARDER_E_FULL,
                            "%s of cache are wanted, the daemon has %llu MiB left; "
                            "start it with a larger --cache",
                            h->budget, (unsigned long long)(left >> 20));
    *out = want < left ? want : left;
    if (*out == 0)
        return larder__fail(LARDER_E_FULL, "the daemon has no cache left for another data set");
    return 0;
}

static int open_shelf(larder__server *s, const larder__hello *h, larder__shelf **out) {
    size_t i = 0;
    while (i < LARDER__SHELVES && s->shelves[i])
        i++;
    if (i == LARDER__SHELVES) {
        drop_idle(s, UINT64_MAX);
        for (i = 0; i < LARDER__SHELVES && s->shelves[i]; i++) {
        }
    }
    if (i == LARDER__SHELVES)
        return larder__fail(LARDER_E_FULL, "%d data sets are in use, and that is the most",
                            LARDER__SHELVES);
    larder__shelf_conf conf = {.fingerprint = h->fingerprint,
                               .keys = h->keys,
                               .seed = h->seed,
                               .policy = h->policy,
                               .forms_id = h->forms_id,
                               .forms = {.decoded_ratio = h->decoded_ratio,
                                         .decoded_bytes = h->decoded_bytes,
                                         .row_bytes = h->row_bytes}};
    memcpy(conf.forms.share, h->share, sizeof conf.forms.share);
    int rc = budget_of(s, h, &conf.budget);
    /* Heads and rounding of the blocks, and what jobs still read of evicted entries. */
    uint64_t mean = h->keys ? h->payload / h->keys + 1 : 1;
    conf.spare = conf.budget / 8 + (8 << 20) + (conf.budget / mean + 1) * 96;
    /* As much as a job may hold of what it has asked for. */
    uint64_t pins = (conf.budget + conf.spare / 2) / mean;
    conf.pins = pins < LARDER__PINS ? (uint32_t)pins : LARDER__PINS;
    if (rc == 0)
        rc = larder__shelf_open(&s->shelves[i], &conf);
    if (rc == 0) {
        s->promised += conf.budget;
        *out = s->shelves[i];
    }
    return rc;
}

/* Of one data set, and of one way to make pixels and rows of it. */
static int find_shelf(larder__server *s, const larder__hello *h, larder__shelf **out) {
    for (size_t i = 0; i < LARDER__SHELVES; i++) {
        const larder__shelf_conf *a = s->shelves[i] ? larder__shelf_about(s->shelves[i]) : NULL;
        if (!a || a->fingerprint != h->fingerprint || a->forms_id != h->forms_id)
            continue;
        if (a->keys != h->keys)
            return larder__fail(LARDER_E_CHANGED,
                                "the data set has %llu samples here and %llu "
                                "there",
                                (unsigned long long)a->keys, (unsigned long long)h->keys);
        *out = s->shelves[i];
        return 0;
    }
    return open_shelf(s, h, out);
}

/* ---- messages -------------------------------------------------------------------------------- */

/* The descriptors go with the first bytes of the answer, so that one is sent at once. */
static int welcome(larder__server *s, client *c) {
    larder__shelf *shelf = c->about.shelf;
    larder__welcome m = {.version = LARDER__WIRE_VERSION,
                         .job = c->about.job,
                         .arena_bytes = larder__shelf_arena_bytes(shelf),
                         .keys = larder__shelf_about(shelf)->keys,
                         .budget = larder__shelf_about(shelf)->budget,
                         .wants_sizes = larder__shelf_wants_sizes(shelf)};
    m.streaming = larder__shelf_streaming(shelf, &m.stream);
    int pins = larder__shelf_pins_fd(shelf, c->about.job);
    m.pins = pins >= 0 ? larder__shelf_about(shelf)->pins : 0;
    int fds[] = {larder__shelf_arena_fd(shelf), larder__shelf_table_fd(shelf), pins};
    s->body.size = 0;
    larder__welcome_write(&m, &s->body);
    if (s->body.code < 0)
        return s->body.code;
    return larder__frame_send(c->fd, LARDER__MSG_WELCOME, s->body.bytes, s->body.size, fds,
                              pins >= 0 ? 3 : 2);
}

static int hello(larder__server *s, client *c, larder_reader *r) {
    larder__hello h;
    larder__shelf *shelf = NULL;
    if (c->about.shelf)
        return larder__fail(LARDER_E_STATE, "it says hello twice");
    int rc = larder__hello_read(&h, r);
    if (rc == 0)
        rc = find_shelf(s, &h, &shelf);
    if (rc == 0)
        rc = larder__shelf_join(shelf, s->conf.quota, h.again == 1, &c->about.job);
    larder_stream stream;
    if (rc == 0 && !h.again && !larder__shelf_streaming(shelf, &stream)) { /* its order, if any */
        stream = (larder_stream){.seed = h.seed};
        larder__shelf_stream(shelf, &stream);
    }
    if (rc == 0 && h.size)
        larder__shelf_one_size(shelf, h.size);
    if (rc < 0) {
        say(s, "refused %s (pid %u): %s", h.name, h.pid, larder_errmsg());
        return refuse(s, c, rc);
    }
    c->about.shelf = shelf;
    c->about.pid = h.pid;
    c->about.since = larder__now();
    memcpy(c->about.name, h.name, sizeof c->about.name);
    say(s, "job %u joined: %s (pid %u), %llu samples", c->about.job, h.name, h.pid,
        (unsigned long long)h.keys);
    return welcome(s, c);
}

/* What was made and given back since the last batch. */
static int returns(larder__server *s, client *c, larder_reader *r, larder__claim *m) {
    int rc = larder__claim_read(m, r, &s->room);
    if (rc < 0)
        return rc;
    for (uint32_t i = 0; i < m->makes; i++)
        larder__shelf_made(c->about.shelf, c->about.job, m->made[i].lease, m->made[i].code);
    for (uint32_t i = 0; i < m->releases; i++)
        larder__shelf_release(c->about.shelf, c->about.job, m->released[i]);
    return 0;
}

/* Room for n answers behind `head` bytes, in the body. */
static larder__wire_ticket *ticket_room(larder__server *s, size_t head, size_t n) {
    s->body.size = 0;
    larder__write_space(&s->body, head + n * sizeof(larder__wire_ticket));
    return s->body.code < 0 ? NULL : (larder__wire_ticket *)(void *)(s->body.bytes + head);
}

static int claim(larder__server *s, client *c, larder_reader *r) {
    larder__claim m;
    int rc = returns(s, c, r, &m);
    if (rc < 0)
        return rc;
    larder__wire_ticket *out = ticket_room(s, 0, m.n);
    if (!out)
        return s->body.code;
    rc = larder__shelf_claim(c->about.shelf, c->about.job, m.accesses, m.n, out);
    if (rc < 0)
        return rc;
    larder__client_count(&c->about, out, m.n);
    return reply(s, c, LARDER__MSG_TICKETS);
}

/* The answer: how many rows, how many entries besides, then both. */
static int exchange(larder__server *s, client *c, larder_reader *r) {
    enum { FETCH_MOST = 4096, HEAD = 8 };
    larder__claim m;
    size_t fetched = 0;
    int rc = returns(s, c, r, &m);
    if (rc < 0)
        return rc;
    size_t most = m.fetch < FETCH_MOST ? m.fetch : FETCH_MOST;
    larder__wire_ticket *out = ticket_room(s, HEAD, m.n + most);
    if (!out)
        return s->body.code;
    rc = larder__shelf_exchange(c->about.shelf, c->about.job, m.accesses, m.n, most, out, &fetched);
    if (rc < 0)
        return rc;
    uint32_t counts[2] = {m.n, (uint32_t)fetched};
    memcpy(s->body.bytes, counts, HEAD);
    s->body.size = HEAD + (m.n + fetched) * sizeof *out;
    larder__client_count(&c->about, out, m.n);
    for (size_t i = 0; i < fetched; i++)
        c->about.background += out[m.n + i].kind == LARDER_MISS;
    return reply(s, c, LARDER__MSG_EXCHANGED);
}

/* Nothing, or a bit for every sample that this job will not ask for in this epoch. */
static int epoch(larder__server *s, client *c, larder_reader *r) {
    c->about.epoch = larder_read_u64(r);
    size_t bytes = larder__read_left(r);
    uint64_t keys = larder__shelf_about(c->about.shelf)->keys, words = keys / 64 + 1;
    if (larder_read_status(r) < 0 || (bytes && bytes != words * 8))
        return larder__fail(LARDER_E_FORMAT, "an epoch in which %zu bytes of samples are seen",
                            bytes);
    s->room.size = 0;
    larder__write_space(&s->room, bytes);
    if (s->room.code < 0)
        return s->room.code;
    larder_read_bytes(r, s->room.bytes, bytes);
    larder__shelf_epoch(c->about.shelf, c->about.job, c->about.epoch,
                        bytes ? (const uint64_t *)(const void *)s->room.bytes : NULL);
    return 0;
}

static int sizes(larder__server *s, client *c, larder_reader *r) {
    uint32_t from = larder_read_u32(r);
    size_t n = larder__read_left(r) / sizeof(uint32_t);
    s->room.size = 0;
    larder__write_space(&s->room, n * sizeof(uint32_t));
    if (s->room.code < 0)
        return s->room.code;
    larder_read_bytes(r, s->room.bytes, n * sizeof(uint32_t));
    if (larder_read_status(r) < 0)
        return larder__fail(LARDER_E_FORMAT, "sizes that begin nowhere");
    return larder__shelf_sizes(c->about.shelf, from, (const uint32_t *)(const void *)s->room.bytes,
                               n);
}

static int stream(client *c, larder_reader *r) {
    larder_stream at = {.seed = larder_read_u64(r), .sweep = larder_read_u64(r)};
    at.at = larder_read_u64(r);
    if (larder_read_status(r) == 0)
        larder__shelf_stream(c->about.shelf, &at);
    return larder_read_status(r);
}

/* Batches of residents that were taken without asking. */
static int touched(larder__server *s, client *c, larder_reader *r) {
    while (larder__read_left(r)) {
        uint32_t n = larder_read_u32(r);
        uint64_t bytes = (uint64_t)n * sizeof(larder__touch);
        if (larder_read_status(r) < 0 || bytes > larder__read_left(r))
            return larder__fail(LARDER_E_FORMAT, "a batch of hits that is shorter than it says");
        s->room.size = 0;
        larder__write_space(&s->room, (size_t)bytes);
        if (s->room.code < 0)
            return s->room.code;
        larder_read_bytes(r, s->room.bytes, (size_t)bytes);
        int rc = larder__shelf_touch(c->about.shelf, c->about.job,
                                     (const larder__touch *)(const void *)s->room.bytes, n);
        if (rc < 0)
            return rc;
        c->about.requests += n;
        c->about.hits += n;
    }
    return 0;
}

static int scores(client *c, larder_reader *r) {
    enum { AT_ONCE = 256 };
    uint32_t keys[AT_ONCE];
    float values[AT_ONCE];
    int rc = 0;
    while (rc == 0 && larder__read_left(r) >= 8) {
        size_t n = 0;
        for (; n < AT_ONCE && larder__read_left(r) >= 8; n++) {
            keys[n] = larder_read_u32(r);
            uint32_t bits = larder_read_u32(r);
            memcpy(&values[n], &bits, sizeof bits);
        }
        rc = larder__shelf_score(c->about.shelf, c->about.job, keys, values, n);
    }
    return rc;
}

static int picks(larder__server *s, client *c, larder_reader *r) {
    uint32_t want = larder_read_u32(r);
    uint64_t seed = larder_read_u64(r);
    larder_rng rng;
    larder_rng_seed(&rng, seed, c->about.job);
    s->body.size = 0;
    for (uint32_t i = 0; i < want && i < 65536; i++) {
        uint64_t key;
        larder__wire_pick p = {0};
        if (!larder__cache_pick(larder__shelf_cache(c->about.shelf), &rng, &key, &p.share))
            break;
        p.key = (uint32_t)key;
        larder_write_bytes(&s->body, &p, sizeof p);
    }
    return reply(s, c, LARDER__MSG_PICKED);
}

static int fetch(larder__server *s, client *c, larder_reader *r) {
    uint32_t want = larder_read_u32(r);
    uint64_t keys[1024];
    size_t n =
        larder__cache_fetch(larder__shelf_cache(c->about.shelf), keys, want < 1024 ? want : 1024);
    s->body.size = 0;
    for (size_t i = 0; i < n; i++)
        larder_write_u32(&s->body, (uint32_t)keys[i]);
    return reply(s, c, LARDER__MSG_FETCHED);
}

static int status(larder__server *s, client *c) {
    larder__status_conf conf = {.shelves = s->shelves,
                                .cache = s->conf.cache,
                                .promised = s->promised,
                                .uptime = larder__now() - s->started};
    size_t n = 0;
    const larder__client_about **all = larder__calloc(s->count + 1, sizeof *all);
    if (!all)
        return LARDER_E_NOMEM;
    for (const client *o = s->clients; o; o = o->next)
        if (o->about.shelf)
            all[n++] = &o->about;
    conf.clients = all;
    conf.count = n;
    s->body.size = 0;
    int rc = larder__status_write(&conf, &s->body);
    larder__free(all);
    return rc < 0 ? rc : reply(s, c, LARDER__MSG_STATUS_IS);
}

static int handle(larder__server *s, client *c, uint16_t type, larder_reader *r) {
    if (type == LARDER__MSG_HELLO)
        return hello(s, c, r);
    if (type == LARDER__MSG_STATUS)
        return status(s, c);
    if (!c->about.shelf)
        return larder__fail(LARDER_E_STATE, "it did not say hello");
    switch (type) {
    case LARDER__MSG_CLAIM:
        return claim(s, c, r);
    case LARDER__MSG_EXCHANGE:
        return exchange(s, c, r);
    case LARDER__MSG_RETURNS:
        return returns(s, c, r, &(larder__claim){0});
    case LARDER__MSG_TOUCHED:
        return touched(s, c, r);
    case LARDER__MSG_SIZES:
        return sizes(s, c, r);
    case LARDER__MSG_STREAM:
        return stream(c, r);
    case LARDER__MSG_SCORES:
        return scores(c, r);
    case LARDER__MSG_ACCURACY:
        larder__cache_accuracy(larder__shelf_cache(c->about.shelf), larder_read_f64(r));
        return 0;
    case LARDER__MSG_EPOCH:
        return epoch(s, c, r);
    case LARDER__MSG_PICKS:
        return picks(s, c, r);
    case LARDER__MSG_FETCH:
        return fetch(s, c, r);
    default:
        return larder__fail(LARDER_E_FORMAT, "message %u is unknown", type);
    }
}

/* ---- clients --------------------------------------------------------------------------------- */

static void drop(larder__server *s, client *c, const char *why) {
    client **at = &s->clients;
    while (*at != c)
        at = &(*at)->next;
    *at = c->next;
    s->count--;
    if (c->about.shelf) {
        say(s, "job %u left: %s (pid %u)%s%s", c->about.job, c->about.name, c->about.pid,
            why ? ": " : "", why ? why : "");
        larder__shelf_leave(c->about.shelf, c->about.job);
    }
    close(c->fd);
    larder__inbox_free(&c->in);
    larder__writer_free(&c->out);
    larder__free(c);
}

void larder__server_adopt(larder__server *s, int fd) {
    client *c = s->count < s->conf.clients ? larder__calloc(1, sizeof *c) : NULL;
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = c};
    if (!c || epoll_ctl(s->epoll, EPOLL_CTL_ADD, fd, &e) < 0) {
        s->body.size = 0;
        larder__refused_write(&s->body, LARDER_E_FULL, "too many connections to the daemon");
        if (s->body.code == 0)
            larder__frame_send(fd, LARDER__MSG_REFUSED, s->body.bytes, s->body.size, NULL, 0);
        larder__free(c);
        close(fd);
        return;
    }
    c->fd = fd;
    larder__inbox_init(&c->in);
    c->next = s->clients;
    s->clients = c;
    s->count++;
}

static void greet(larder__server *s) {
    int fd = accept4(s->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd >= 0)
        larder__server_adopt(s, fd);
}

/* One piece of what it sent, so that nobody is served for long while others wait. */
static int listen_to(larder__server *s, client *c) {
    larder_reader body;
    uint16_t type;
    int rc = larder__inbox_read(&c->in, c->fd);
    if (rc <= 0)
        return rc;
    while ((rc = larder__inbox_next(&c->in, &type, &body)) == 1) {
        rc = handle(s, c, type, &body);
        s->body.code = s->room.code = 0; /* no memory for one answer: the next may be smaller */
        if (rc < 0 || c->leaving)
            break;
    }
    return rc;
}

static void serve(larder__server *s, client *c, uint32_t events) {
    int rc = 0;
    if (events & EPOLLOUT)
        rc = flush(s, c);
    if (rc == 0 && !c->leaving && events & (EPOLLIN | EPOLLHUP | EPOLLERR))
        rc = listen_to(s, c);
    bool gone = rc == LARDER_E_IO;
    if (rc < 0 && !gone)
        refuse(s, c, rc);
    if (rc < 0 || (c->leaving && c->out.size == 0))
        drop(s, c, rc < 0 && !gone ? larder_errmsg() : NULL);
}

/* ---- the loop -------------------------------------------------------------------------------- */

/* Now and then, as long as something is being made. */
static int watch_shelves(larder__server *s, int milliseconds) {
    double now = larder__now();
    if (!s->making && now < s->watch_at + WATCH_MS * 1e-3)
        return milliseconds;
    if (now >= s->watch_at + WATCH_MS * 1e-3) {
        s->watch_at = now;
        s->making = false;
        for (size_t i = 0; i < LARDER__SHELVES; i++)
            if (s->shelves[i] && larder__shelf_watch(s->shelves[i], now))
                s->making = true;
    }
    return milliseconds < 0 || milliseconds > WATCH_MS ? WATCH_MS : milliseconds;
}

int larder__server_turn(larder__server *s, int milliseconds) {
    struct epoll_event events[EVENTS];
    int n = epoll_wait(s->epoll, events, EVENTS, watch_shelves(s, milliseconds));
    if (n < 0 && errno != EINTR)
        return larder__fail(LARDER_E_IO, "waiting for clients: %s", strerror(errno));
    for (int i = 0; i < n; i++) {
        if (events[i].data.ptr == &s->stop)
            return 0;
        if (events[i].data.ptr == &s->listener)
            greet(s);
        else
            serve(s, events[i].data.ptr, events[i].events);
    }
    return 1;
}

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
    if (rc < 0 || chmod(s->path, s->conf.mode) < 0 || listen(s->listener, BACKLOG) < 0)
        return larder__fail(larder__code_of_errno(errno), "%s: %s", s->path, strerror(errno));
    return 0;
}

static int watch(larder__server *s, int *fd) {
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = fd};
    return epoll_ctl(s->epoll, EPOLL_CTL_ADD, *fd, &e);
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
    s->listener = s->lock = s->epoll = s->stop = -1;
    s->started = larder__now();
    int rc = 0;
    if (strlen(conf->socket) >= sizeof s->path)
        rc = larder__fail(LARDER_E_ARGS, "%.40s…: a socket's path has at most %zu bytes",
                          conf->socket, sizeof s->path - 1);
    else
        memcpy(s->path, conf->socket, strlen(conf->socket));
    if (rc == 0)
        rc = take_lock(s);
    if (rc == 0)
        rc = bind_socket(s);
    if (rc == 0 && ((s->epoll = epoll_create1(EPOLL_CLOEXEC)) < 0 ||
                    (s->stop = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) < 0 ||
                    watch(s, &s->listener) < 0 || watch(s, &s->stop) < 0))
        rc = larder__fail(LARDER_E_IO, "epoll: %s", strerror(errno));
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
    while (s->clients)
        drop(s, s->clients, NULL);
    for (size_t i = 0; i < LARDER__SHELVES; i++)
        larder__shelf_close(&s->shelves[i]);
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
    larder__free(s);
}
