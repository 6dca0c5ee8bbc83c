#include "unix/connection.h"

#include "base/err.h"
#include "base/grow.h"
#include "base/mem.h"
#include "base/spec.h"
#include "base/world.h"
#include "unix/lent_memory.h"

#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

static const double RETRY_FIRST = 1, RETRY_MOST = 30;
enum { SIZES_AT_ONCE = 1 << 14 }; /* 64 KiB: a daemon keeps what has come of many jobs at once */

/* ---- memory ---------------------------------------------------------------------------------- */

void larder__mapping_unref(larder__mapping **pm) {
    larder__mapping *m = *pm;
    *pm = NULL;
    if (!m || atomic_fetch_sub(&m->refs, 1) != 1)
        return;
    if (m->arena)
        munmap(m->arena, m->arena_bytes);
    if (m->table)
        munmap(m->table, m->table_bytes);
    if (m->pins)
        munmap(m->pins, sizeof *m->pins);
    if (m->tray)
        munmap(m->tray, sizeof *m->tray);
    if (m->socket >= 0)
        close(m->socket);
    larder__free(m->heads);
    larder__free(m);
}

larder__mapping *larder__mapping_ref(larder__mapping *m) {
    atomic_fetch_add(&m->refs, 1);
    return m;
}

static int map_new(larder__mapping **out, larder__connection *a, const larder__welcome *w,
                   const int fds[LARDER__FRAME_FDS]) {
    larder__mapping *m = larder__calloc(1, sizeof *m);
    *out = m;
    if (!m)
        return LARDER_E_NOMEM;
    atomic_init(&m->refs, 1);
    m->socket = -1;
    m->owner = a;
    m->keys = w->about.keys;
    m->arena_bytes = w->arena_bytes;
    m->table_bytes = larder__table_bytes(w->about.keys);
    enum { WRITE = PROT_READ | PROT_WRITE };
    m->pin_limit = w->pins < LARDER__PINS ? w->pins : LARDER__PINS;
    m->sealed = w->sealed != 0;
    if (!(m->arena =
              larder__lent_map(fds[0], m->arena_bytes, m->sealed ? PROT_READ : WRITE, "arena")) ||
        !(m->table = larder__lent_map(fds[1], m->table_bytes, PROT_READ, "table")) ||
        (w->pins && !(m->pins = larder__lent_map(fds[2], sizeof *m->pins, WRITE, "pins"))) ||
        (w->tray &&
         !(m->tray = larder__lent_map(fds[w->pins ? 3 : 2], sizeof *m->tray, WRITE, "tray")))) {
        larder__mapping_unref(out);
        return larder__fail_in(LARDER_E_FORMAT, "%s", a->door.path);
    }
    if (m->pins && !(m->heads = larder__malloc(m->pin_limit * sizeof *m->heads))) {
        larder__mapping_unref(out);
        return LARDER_E_NOMEM;
    }
    madvise(m->arena, m->arena_bytes, MADV_HUGEPAGE);
    return 0;
}

/* ---- talking --------------------------------------------------------------------------------- */

/* E_IO: nobody is there, and somebody may come. Not so where there is no folder for a socket (but
 * for the one that a daemon makes), where something else lies in its place, and where we may not.
 */
static int code_of_connect(const larder__door *door, int err) {
    struct stat st;
    char folder[108];
    const char *path = door->path, *slash = strrchr(path, '/');
    snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - path + 1) : 1,
             slash ? path : ".");
    if (err == ENOENT)
        return door->usual || stat(folder, &st) == 0 ? LARDER_E_IO : LARDER_E_NOTFOUND;
    if (err == EACCES || err == EPERM || err == ENOTDIR || err == ENOTSOCK ||
        (err == ECONNREFUSED && stat(path, &st) == 0 && !S_ISSOCK(st.st_mode)))
        return LARDER_E_ARGS;
    return larder__code_of_errno(err);
}

int larder__daemon_connect(const larder__door *door) {
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    memcpy(to.sun_path, door->path, strlen(door->path));
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct timeval t = {.tv_sec = (time_t)LARDER__ANSWER_SECONDS};
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof t) < 0 ||
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &t, sizeof t) < 0 ||
        connect(fd, (struct sockaddr *)&to, sizeof to) < 0) {
        int err = errno;
        if (fd >= 0)
            close(fd);
        return larder__fail(
            code_of_connect(door, err), "%s: %s%s", door->path, strerror(err),
            err == ENOENT || err == ECONNREFUSED ? "; is larder serve running there?" : "");
    }
    int rc = larder__door_check(fd, door->path, door->owner);
    if (rc < 0)
        close(fd);
    return rc < 0 ? rc : fd;
}

/* Until something can be read, for as many seconds. Those in which this process stood still do not
 * count: the daemon may have stood still with it, or the answer lies there. */
static int await_bytes(int fd, double *left, const larder__await *opening) {
    enum { SLICE_MS = 50 };
    struct pollfd on = {.fd = fd, .events = POLLIN};
    double now, since = larder__world_now();
    for (; poll(&on, 1, SLICE_MS) <= 0; since = now) {
        if (!larder__await_still(opening))
            return larder__await_given_up();
        now = larder__world_now();
        *left -= fmin(now - since, SLICE_MS * 1e-3);
        if (*left < 0)
            return larder__fail(LARDER_E_IO, "the daemon does not answer");
    }
    return 0;
}

/* The next frame that says something. */
static int hear_any(int fd, larder__inbox *in, uint16_t *type, larder_reader *body,
                    const larder__patience *p) {
    double left = p->sign;
    int rc = 0;
    *type = LARDER__MSG_COMING;
    while (rc >= 0 && *type == LARDER__MSG_COMING) {
        if ((rc = larder__inbox_next(in, type, body)) != 0)
            continue;
        rc = await_bytes(fd, &left, p->opening);
        if (rc == 0 && (rc = larder__inbox_read(in, fd)) > 0)
            left = p->answer;
    }
    if (rc < 0)
        return rc;
    return *type == LARDER__MSG_REFUSED ? larder__refused_read(body) : 0;
}

int larder__daemon_hear_for(int fd, larder__inbox *in, uint16_t want, larder_reader *body,
                            const larder__patience *p) {
    uint16_t type;
    int rc = hear_any(fd, in, &type, body, p);
    if (rc < 0)
        return rc;
    return type == want
               ? 0
               : larder__fail(LARDER_E_FORMAT, "the daemon answers something else (%u)", type);
}

int larder__daemon_hear(int fd, larder__inbox *in, uint16_t want, larder_reader *body) {
    const larder__patience usual = {.sign = LARDER__ANSWER_SECONDS,
                                    .answer = LARDER__ANSWER_SECONDS};
    return larder__daemon_hear_for(fd, in, want, body, &usual);
}

static int send_out(larder__connection *a) {
    int rc = larder__frames_send(a->fd, &a->out);
    a->out.size = a->touched = 0;
    a->out.code = 0;
    return rc;
}

/* Reads what the daemon names and says what it came to, or nothing where that cannot be done. */
static int prove(larder__connection *a, larder_reader *body) {
    larder__prove asked;
    uint64_t came_to[LARDER__WITNESSES];
    int rc = larder__prove_read(&asked, body);
    bool can = a->prove != NULL;
    for (uint32_t i = 0; rc == 0 && i < asked.count; i++)
        can = can && asked.keys[i] < a->hello.about.keys;
    can =
        rc == 0 && can && a->prove(a->size_arg, asked.keys, asked.count, asked.nonce, came_to) == 0;
    return rc < 0 ? rc
                  : larder__frame_send(a->fd, LARDER__MSG_PROOF, came_to,
                                       can ? asked.count * sizeof *came_to : 0, NULL, 0);
}

static int hear_welcome(larder__connection *a, larder_reader *body) {
    const larder__patience patience = {.sign = LARDER__ANSWER_SECONDS,
                                       .answer = LARDER__ATTACH_SECONDS(a->hello.about.keys),
                                       .opening = a->opening};
    uint16_t type;
    int rc = hear_any(a->fd, &a->in, &type, body, &patience);
    if (rc == 0 && type == LARDER__MSG_PROVE && (rc = prove(a, body)) == 0)
        rc = hear_any(a->fd, &a->in, &type, body, &patience);
    if (rc < 0 || type == LARDER__MSG_WELCOME)
        return rc;
    return larder__fail(LARDER_E_FORMAT, "the daemon answers something else (%u)", type);
}

static int greet(larder__connection *a, larder__welcome *w) {
    larder_reader body;
    size_t frame = larder__frame_begin(&a->out, LARDER__MSG_HELLO);
    larder__hello_write(&a->hello, &a->out);
    larder__frame_end(&a->out, frame);
    int rc = send_out(a);
    if (larder__daemon_may_say(rc))
        rc = hear_welcome(a, &body);
    if (rc == LARDER_E_IO)
        return larder__fail_in(rc, "%s", a->door.path);
    if (rc == 0)
        rc = larder__welcome_read(w, &body);
    if (rc == 0 && w->about.keys != a->hello.about.keys)
        rc = larder__fail(LARDER_E_CHANGED, "the daemon's data set is another one");
    return rc;
}

/* Both lists belong to the memory they came with: after that is gone nobody wants them back. */
void larder__connection_forget(larder__connection *a) {
    pthread_mutex_lock(&a->lists);
    larder__mapping *old = a->map;
    a->map = NULL;
    a->releases = a->makes = 0;
    pthread_mutex_unlock(&a->lists);
    larder__resident_table_show(&a->window, -1);
    larder__mapping_unref(&old);
}

/* A piece at a time; each is to be taken in as long as attaching may take, since the daemon may be
 * at somebody else's. */
static int send_sizes(larder__connection *a) {
    double seconds = LARDER__ATTACH_SECONDS(a->hello.about.keys);
    struct timeval often = {.tv_sec = (time_t)seconds},
                   usual = {.tv_sec = (time_t)LARDER__ANSWER_SECONDS};
    int rc = 0;
    setsockopt(a->fd, SOL_SOCKET, SO_SNDTIMEO, &often, sizeof often);
    for (uint64_t from = 0; rc == 0 && from < a->hello.about.keys; from += SIZES_AT_ONCE) {
        size_t frame = larder__frame_begin(&a->out, LARDER__MSG_OP + LARDER__OP_SIZES);
        larder_write_u64(&a->out, from);
        for (uint64_t i = from; i < a->hello.about.keys && i < from + SIZES_AT_ONCE; i++)
            larder_write_u32(&a->out, a->size_of(a->size_arg, i));
        larder__frame_end(&a->out, frame);
        rc = send_out(a);
    }
    setsockopt(a->fd, SOL_SOCKET, SO_SNDTIMEO, &usual, sizeof usual);
    return rc;
}

static bool other_shares(const larder__connection *a, const larder__welcome *w) {
    bool other = false;
    for (int f = 0; a->hello.about.forms_id && f < LARDER_FORMS; f++)
        other |= fabs(a->hello.about.share[f] - w->about.share[f]) > 0.005;
    return other;
}

/* Who came first has decided for all: what differs from what this job asks for is said. */
static void compare(const larder__connection *a, const larder__welcome *w) {
    const larder__hello *h = &a->hello;
    larder__budget b;
    char holds[32];
    if (w->apart)
        larder__note(a->stats,
                     "another user's jobs have this data set in the daemon, and this job does not "
                     "share with them: it reads other bytes than they do, or one of both could not "
                     "show what it reads (it may not, or reads parts of pictures); larder serve "
                     "--share-data shares all the same");
    if (strcmp(h->about.policy, w->about.policy) != 0)
        larder__note(a->stats,
                     "this data set's cache in the daemon is ruled by %.120s, as the job asked "
                     "that came first, and not by %.120s",
                     w->about.policy, h->about.policy);
    if (h->budget[0] && larder__parse_budget(h->budget, &b) == 0 &&
        larder__budget_bytes(&b, h->payload, h->about.forms_id != 0) != w->about.budget)
        larder__note(a->stats,
                     "this data set's cache in the daemon holds %s, as the job asked that came "
                     "first, and not the %s that this one asks for",
                     larder__print_bytes((double)w->about.budget, holds), h->budget);
    if (other_shares(a, w))
        larder__note(a->stats,
                     "this data set's cache in the daemon is split %.0f/%.0f/%.0f, as the job "
                     "asked that came first, and not as this one asks",
                     100 * w->about.share[0], 100 * w->about.share[1], 100 * w->about.share[2]);
}

/* The memory that came with WELCOME; then the daemon is told the rest, and its residents show. */
static int move_in(larder__connection *a, const larder__welcome *w, larder__mapping **out) {
    int fds[LARDER__FRAME_FDS];
    for (int i = 0; i < LARDER__FRAME_FDS; i++)
        fds[i] = larder__inbox_take_fd(&a->in);
    int rc = map_new(out, a, w, fds);
    if (rc == 0 && ((rc = w->wants_sizes && a->size_of ? send_sizes(a) : 0) < 0 ||
                    (rc = larder__resident_table_show(&a->window, fds[1])) < 0))
        larder__mapping_unref(out);
    for (int i = 0; i < LARDER__FRAME_FDS; i++)
        if (fds[i] >= 0)
            close(fds[i]);
    return rc;
}

int larder__connection_attach(larder__connection *a) {
    larder__welcome w = {0};
    larder__mapping *m = NULL;
    a->fd = larder__daemon_connect(&a->door);
    if (a->fd < 0)
        return a->fd;
    larder__inbox_init(&a->in);
    int rc = greet(a, &w);
    if (rc == 0)
        rc = move_in(a, &w, &m);
    if (rc < 0) {
        close(a->fd);
        a->fd = -1;
        larder__inbox_free(&a->in);
        return rc;
    }
    compare(a, &w);
    a->hello.again |= LARDER__HELLO_AGAIN;
    a->retry_after = RETRY_FIRST;
    a->patient_until = larder__world_now() + LARDER__ATTACH_SECONDS(a->hello.about.keys);
    pthread_mutex_lock(&a->lists);
    a->map = m;
    pthread_mutex_unlock(&a->lists);
    larder__client_joined(a->client, w.streaming == 1 ? &w.stream : NULL);
    return 0;
}

void larder__connection_part(larder__connection *a) {
    pthread_mutex_lock(&a->lists);
    larder__mapping *m = a->map;
    if (m)
        m->socket = a->fd;
    pthread_mutex_unlock(&a->lists);
    if (!m && a->fd >= 0)
        close(a->fd);
    a->fd = -1;
    larder__inbox_free(&a->in);
    larder__connection_forget(a);
}

void larder__connection_lose(larder__connection *a) {
    if (a->fd < 0)
        return;
    snprintf(a->note, sizeof a->note, "%s: the daemon went away: %s", a->door.path,
             larder_errmsg());
    larder__client_lost(a->client);
    larder__connection_part(a);
    a->out.size = a->touched = 0;
    a->out.code = 0;
    a->retry_at = larder__world_now() + a->retry_after;
    if (a->stats)
        larder__stat_add(a->stats, a->lost, 1);
}

void larder__connection_absent(larder__connection *a) {
    snprintf(a->note, sizeof a->note, "%s", larder_errmsg());
    a->retry_after = RETRY_FIRST;
    a->retry_at = larder__world_now() + RETRY_FIRST;
}

/* Is there a daemon to talk to? Looks for it now and then when there is none. */
bool larder__connection_there(larder__connection *a) {
    if (a->fd >= 0)
        return true;
    if (larder__world_now() < a->retry_at)
        return false;
    int rc = larder__connection_attach(a);
    if (rc == 0) {
        if (a->stats)
            larder__stat_add(a->stats, a->found, 1);
        return a->fd >= 0; /* what waited to be said may have found it gone again */
    }
    if (rc != LARDER_E_IO && rc != LARDER_E_NOTFOUND) /* one is there, and will not do */
        larder__note(a->stats, "samples come straight from storage: %s", larder_errmsg());
    a->retry_at = larder__world_now() + a->retry_after;
    a->retry_after = a->retry_after * 2 < RETRY_MOST ? a->retry_after * 2 : RETRY_MOST;
    return false;
}

void larder__connection_add(larder__connection *a, const larder__op *o) {
    size_t frame = larder__frame_begin(&a->out, (uint16_t)(LARDER__MSG_OP + o->type));
    larder__op_write(o, &a->out);
    larder__frame_end(&a->out, frame);
}

int larder__connection_flush(larder__connection *a) {
    int rc = a->fd >= 0 ? send_out(a) : 0;
    if (rc < 0)
        larder__connection_lose(a);
    return rc;
}

int larder__connection_ask(larder__connection *a, uint16_t answer, larder_reader *body) {
    int rc = larder__connection_flush(a);
    double left = a->patient_until - larder__world_now();
    double seconds = left > LARDER__ANSWER_SECONDS ? left : LARDER__ANSWER_SECONDS;
    const larder__patience patience = {.sign = seconds, .answer = seconds};
    if (rc == 0 && (rc = larder__daemon_hear_for(a->fd, &a->in, answer, body, &patience)) < 0)
        larder__connection_lose(a);
    if (rc == 0)
        a->patient_until = 0;
    return rc;
}

/* ---- what goes back -------------------------------------------------------------------------- */

void larder__connection_add_returns(larder__connection *a) {
    enum { AT_ONCE = 1 << 16 }; /* the newest; the others go with the next message */
    pthread_mutex_lock(&a->lists);
    size_t releases = a->releases < AT_ONCE ? a->releases : AT_ONCE;
    size_t makes = a->makes < AT_ONCE ? a->makes : AT_ONCE;
    if (a->map && releases + makes) {
        a->releases -= releases;
        a->makes -= makes;
        larder__returns m = {.released = releases ? a->released + a->releases : NULL,
                             .made = makes ? a->made + a->makes : NULL,
                             .releases = (uint32_t)releases,
                             .makes = (uint32_t)makes};
        size_t frame = larder__frame_begin(&a->out, LARDER__MSG_RETURNS);
        larder__returns_write(&m, &a->out);
        larder__frame_end(&a->out, frame);
    }
    pthread_mutex_unlock(&a->lists);
}

/* A lease that cannot be noted stays with the daemon until this job leaves. */
void larder__connection_release(larder__connection *a, const larder__mapping *m, uint32_t lease) {
    pthread_mutex_lock(&a->lists);
    if (a->map == m &&
        larder__grow(&a->released, &a->release_cap, a->releases + 1, sizeof *a->released) == 0)
        a->released[a->releases++] = lease;
    pthread_mutex_unlock(&a->lists);
}

void larder__connection_made(larder__connection *a, const larder__mapping *m, uint32_t lease,
                             int code) {
    pthread_mutex_lock(&a->lists);
    if (a->map == m && larder__grow(&a->made, &a->make_cap, a->makes + 1, sizeof *a->made) == 0)
        a->made[a->makes++] = (larder__wire_made){lease, code};
    pthread_mutex_unlock(&a->lists);
}

/* Called with the client's lock held. */
static int send_pieces(larder__connection *a, larder__wire_piece *p, const unsigned char *bytes) {
    int rc;
    do {
        size_t left = p->whole - p->at, n = left < LARDER__PIECE_BYTES ? left : LARDER__PIECE_BYTES;
        n = p->code < 0 ? 0 : n;
        rc = larder__frame_send_two(a->fd, LARDER__MSG_BYTES, p, sizeof *p,
                                    n ? bytes + p->at : NULL, n);
        p->at += (uint32_t)n;
    } while (rc == 0 && p->code == 0 && p->at < p->whole);
    return rc;
}

void larder__connection_bytes(larder__connection *a, larder__mapping *m, uint32_t lease,
                              uint8_t held, larder_buf *b, int code) {
    larder__wire_piece p = {.lease = lease,
                            .code = code,
                            .whole = code < 0 ? 0 : (uint32_t)larder_buf_size(b),
                            .held = held};
    larder__client_enter(a->client);
    if (a->fd >= 0 && a->map == m) {
        bool laid = code == 0 && m->tray &&
                    larder__tray_lay(m->tray, &m->laid, larder_buf_data(b), p.whole);
        int rc = laid ? larder__frame_send(a->fd, LARDER__MSG_LAID, &p, sizeof p, NULL, 0)
                      : send_pieces(a, &p, code < 0 ? NULL : larder_buf_data(b));
        if (rc < 0)
            larder__connection_lose(a);
        else if (!laid)
            larder__connection_release(a, m, lease);
    }
    larder__client_done(a->client);
}

void larder__mapping_done(void *arg, uint64_t lease) {
    larder__mapping *m = arg;
    larder__connection_release(m->owner, m, (uint32_t)lease);
    larder__mapping_unref(&m);
}
