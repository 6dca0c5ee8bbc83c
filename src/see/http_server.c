#include "see/http_server.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "see/board.h"
#include "see/http_request.h"
#include "see/page.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum { CONNECTIONS = 256, BACKLOG = 256, TOKEN_BYTES = 16, ANSWER_HEAD = 1280 };
enum { LATE = 2 << 20 };    /* bytes of texts of earlier looks that somebody has not taken yet */
enum { UNSENT = 64 << 10 }; /* bytes that the system keeps of one visitor's answer, by our count */
static const double look_every = 1, head_within = 10, idle_for = 30, send_within = 30; /* seconds */
static const double ask_within = 1; /* seconds; where places are rare */

/* Made once, sent to many. It goes with the last who is sent it, but for those of the last look. */
typedef struct text {
    char *at;
    size_t size, held; /* held: by so many visitors */
    bool late;         /* of an earlier look */
    struct text *older;
} text;

typedef struct visitor {
    int fd; /* -1: nobody */
    char in[LARDER__HTTP_HEAD];
    size_t got;
    /* What is sent: a head, a body that is not its own, and perhaps the end of an event. `size`
     * bytes in all, 0: nothing, of which `sent` have gone. */
    char head[ANSWER_HEAD];
    size_t head_size, body_size, size, sent;
    const char *body;
    text *of;      /* the body's, or NULL */
    uint64_t came; /* the how manieth */
    double moved;  /* when it came, asked or took something */
    bool asked;    /* something, ever */
    bool known;    /* by the token, where there is one */
    bool live;     /* gets every new state */
    bool leaving;  /* closed once everything is sent */
    double until;  /* it has to have said or taken something by then */
} visitor;

struct larder__http {
    int listener, stop;
    int places; /* for visitors */
    bool local;
    bool lacking; /* since the last look: there was no descriptor for who came */
    char token[80], url[256];
    larder__board *board;
    text *state, *history, *metrics; /* as of the last look, made when first asked for */
    text *late;                      /* the newest first */
    size_t late_bytes;
    double looked, next_look;
    uint64_t arrivals;
    visitor visitors[CONNECTIONS];
};

/* ---- opening --------------------------------------------------------------------------------- */

typedef union address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
} address;

static int wrong_address(const char *said) {
    return larder__fail(LARDER_E_ARGS,
                        "\"%.60s\" is no address to serve at: 127.0.0.1:7433, [::1]:7433 or "
                        "localhost:7433, and port 0 for any that is free",
                        said);
}

/* Numbers only: no name is looked up anywhere. */
static int parse_address(const char *said, address *out, socklen_t *size, bool *local) {
    char host[64], *end;
    const char *colon = strrchr(said, ':');
    size_t n = colon ? (size_t)(colon - said) : 0;
    if (!colon || n == 0 || n >= sizeof host || !isdigit((unsigned char)colon[1]))
        return wrong_address(said);
    unsigned long port = strtoul(colon + 1, &end, 10);
    if (*end || port > 65535)
        return wrong_address(said);
    memcpy(host, said, n);
    host[n] = 0;
    if (strcmp(host, "localhost") == 0)
        snprintf(host, sizeof host, "127.0.0.1");
    memset(out, 0, sizeof *out);
    if (host[0] == '[' && host[n - 1] == ']') {
        host[n - 1] = 0;
        out->v6.sin6_family = AF_INET6;
        out->v6.sin6_port = htons((uint16_t)port);
        *size = sizeof out->v6;
        if (inet_pton(AF_INET6, host + 1, &out->v6.sin6_addr) != 1)
            return wrong_address(said);
        *local = IN6_IS_ADDR_LOOPBACK(&out->v6.sin6_addr);
        return 0;
    }
    out->v4.sin_family = AF_INET;
    out->v4.sin_port = htons((uint16_t)port);
    *size = sizeof out->v4;
    if (inet_pton(AF_INET, host, &out->v4.sin_addr) != 1)
        return wrong_address(said);
    *local = ntohl(out->v4.sin_addr.s_addr) >> 24 == 127;
    return 0;
}

static int choose_token(larder__http *h, const char *given) {
    unsigned char chance[TOKEN_BYTES];
    if (given) {
        size_t n = strlen(given);
        for (size_t i = 0; i < n; i++)
            if (!isalnum((unsigned char)given[i]) && !strchr("-_.", given[i]))
                n = 0;
        if (n < 8 || n >= sizeof h->token)
            return larder__fail(LARDER_E_ARGS, "a token has 8 to %zu letters, digits, - _ and .",
                                sizeof h->token - 1);
        memcpy(h->token, given, n + 1);
        return 0;
    }
    if (h->local)
        return 0;
    if (getrandom(chance, sizeof chance, 0) != sizeof chance)
        return larder__fail(LARDER_E_IO, "no chance for a token: %s", strerror(errno));
    for (size_t i = 0; i < sizeof chance; i++)
        snprintf(h->token + 2 * i, 3, "%02x", chance[i]);
    return 0;
}

static int bind_listener(larder__http *h, const char *said, address *a, socklen_t size) {
    const int on = 1, unsent = UNSENT;
    h->listener = socket(a->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (h->listener < 0)
        return larder__fail(LARDER_E_IO, "%s: %s", said, strerror(errno));
    setsockopt(h->listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    /* Visitors' sockets have it from here: the system holds little for who does not read. */
    setsockopt(h->listener, SOL_SOCKET, SO_SNDBUF, &unsent, sizeof unsent);
    if (bind(h->listener, &a->any, size) < 0 || listen(h->listener, BACKLOG) < 0)
        return larder__fail(errno == EADDRINUSE ? LARDER_E_STATE : LARDER_E_IO, "%s: %s%s", said,
                            strerror(errno),
                            errno == EADDRINUSE ? "; another port, or 0 for any that is free" : "");
    return getsockname(h->listener, &a->any, &size) < 0
               ? larder__fail(LARDER_E_IO, "%s: %s", said, strerror(errno))
               : 0;
}

static void write_url(larder__http *h, const address *a) {
    char host[INET6_ADDRSTRLEN] = "";
    bool six = a->any.sa_family == AF_INET6;
    inet_ntop(a->any.sa_family, six ? (const void *)&a->v6.sin6_addr : &a->v4.sin_addr, host,
              sizeof host);
    snprintf(h->url, sizeof h->url, "http://%s%s%s:%u/%s%s", six ? "[" : "", host, six ? "]" : "",
             ntohs(six ? a->v6.sin6_port : a->v4.sin_port), h->token[0] ? "?token=" : "", h->token);
}

/* Of a process's descriptors most are for others than visitors: for a daemon's jobs, and to look.
 */
static int count_places(void) {
    struct rlimit most;
    if (getrlimit(RLIMIT_NOFILE, &most) != 0 || most.rlim_cur / 4 >= CONNECTIONS)
        return CONNECTIONS;
    return most.rlim_cur < 8 ? 2 : (int)(most.rlim_cur / 4);
}

int larder__http_open(larder__http **out, const larder__http_server_conf *conf) {
    address a;
    socklen_t size;
    *out = NULL;
    larder__http *h = larder__calloc(1, sizeof *h);
    if (!h)
        return LARDER_E_NOMEM;
    h->listener = h->stop = -1;
    h->places = count_places();
    for (int i = 0; i < CONNECTIONS; i++)
        h->visitors[i].fd = -1;
    int rc = parse_address(conf->address, &a, &size, &h->local);
    if (rc == 0)
        rc = choose_token(h, conf->token);
    if (rc == 0)
        rc = bind_listener(h, conf->address, &a, size);
    if (rc == 0)
        rc = larder__board_open(&h->board);
    if (rc == 0 && (h->stop = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) < 0)
        rc = larder__fail(LARDER_E_IO, "eventfd: %s", strerror(errno));
    if (rc < 0) {
        larder__http_close(&h);
        return rc;
    }
    write_url(h, &a);
    *out = h;
    return 0;
}

const char *larder__http_url(const larder__http *h) { return h->url; }

void larder__http_stop(larder__http *h) {
    const uint64_t one = 1;
    ssize_t n = write(h->stop, &one, sizeof one);
    (void)n;
}

/* ---- what is sent ---------------------------------------------------------------------------- */

static const char event_end[] = "\n\n";

static void free_text(text *t) {
    if (t)
        free(t->at); /* of open_memstream */
    larder__free(t);
}

/* NULL: no memory. */
static text *make_text(larder__http *h, text **made,
                       void (*write_it)(FILE *, const larder__board *)) {
    text *t = *made;
    if (t || !(t = larder__calloc(1, sizeof *t)))
        return t;
    FILE *to = open_memstream(&t->at, &t->size);
    if (to)
        write_it(to, h->board);
    if (!to || fclose(to) != 0) {
        free_text(t);
        return NULL;
    }
    return *made = t;
}

/* There is a newer one: this one stays for those who are being sent it. */
static void retire(larder__http *h, text **made) {
    text *t = *made;
    *made = NULL;
    if (!t || t->held == 0) {
        free_text(t);
        return;
    }
    t->late = true;
    t->older = h->late;
    h->late = t;
    h->late_bytes += t->size;
}

static void let_go(larder__http *h, visitor *v) {
    text *t = v->of;
    v->of = NULL;
    if (!t || --t->held > 0 || !t->late)
        return;
    text **at = &h->late;
    while (*at != t)
        at = &(*at)->older;
    *at = t->older;
    h->late_bytes -= t->size;
    free_text(t);
}

/* What is to be sent behind the head that lies there. `of`: whose bytes these are, or NULL for
 * those that stay anyway. */
static void set_body(visitor *v, const char *body, size_t size, text *of) {
    v->body = body;
    v->body_size = size;
    v->of = of;
    if (of)
        of->held++;
    v->size = v->head_size + size + (v->live ? sizeof event_end - 1 : 0);
    v->sent = 0;
}

static const char *reason(int status) {
    static const struct {
        int status;
        const char *text;
    } all[] = {{200, "OK"},
               {204, "No Content"},
               {400, "Bad Request"},
               {401, "Unauthorized"},
               {403, "Forbidden"},
               {404, "Not Found"},
               {405, "Method Not Allowed"},
               {413, "Content Too Large"},
               {431, "Request Header Fields Too Large"},
               {501, "Not Implemented"},
               {503, "Service Unavailable"},
               {505, "HTTP Version Not Supported"}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i].status == status)
            return all[i].text;
    return "Error";
}

/* Nothing but our own files is run or loaded, no page may frame us, no answer is kept. */
static const char always[] = "Content-Security-Policy: default-src 'none'; script-src 'self'; "
                             "style-src 'self'; connect-src 'self'; img-src 'self'; "
                             "base-uri 'none'; form-action 'none'; frame-ancestors 'none'\r\n"
                             "X-Content-Type-Options: nosniff\r\n"
                             "Referrer-Policy: no-referrer\r\n"
                             "Cross-Origin-Resource-Policy: same-origin\r\n"
                             "Cache-Control: no-store\r\n";

static void answer(visitor *v, const larder__http_request *r, int status, const char *type,
                   const char *body, size_t size, text *of) {
    v->leaving |= !r->again;
    v->head_size = (size_t)snprintf(v->head, sizeof v->head,
                                    "HTTP/1.1 %d %s\r\n%sContent-Type: %s\r\n"
                                    "Content-Length: %zu\r\n%sConnection: %s\r\n\r\n",
                                    status, reason(status), always, type, size,
                                    status == 405   ? "Allow: GET, HEAD\r\n"
                                    : status == 401 ? "WWW-Authenticate: Bearer\r\n"
                                                    : "",
                                    v->leaving ? "close" : "keep-alive");
    set_body(v, body, r->head ? 0 : size, r->head ? NULL : of);
}

/* The sentence is put behind the head: it is nobody else's. */
static void refuse(visitor *v, const larder__http_request *r, int status, const char *why) {
    char body[256];
    size_t n = (size_t)snprintf(body, sizeof body, "%d %s%s%s\n", status, reason(status),
                                *why ? ": " : "", why);
    answer(v, r, status, "text/plain; charset=utf-8", "", n, NULL);
    if (!r->head)
        memcpy(v->head + v->head_size, body, n);
    v->head_size += r->head ? 0 : n;
    set_body(v, NULL, 0, NULL);
}

static const char *type_of(const char *name) {
    const char *dot = strrchr(name, '.');
    return !dot                        ? "application/octet-stream"
           : strcmp(dot, ".html") == 0 ? "text/html; charset=utf-8"
           : strcmp(dot, ".js") == 0   ? "text/javascript; charset=utf-8"
           : strcmp(dot, ".css") == 0  ? "text/css; charset=utf-8"
           : strcmp(dot, ".svg") == 0  ? "image/svg+xml"
                                       : "application/octet-stream";
}

static bool answer_file(visitor *v, const larder__http_request *r) {
    const char *name = strcmp(r->path, "/") == 0 ? "index.html" : r->path + 1;
    for (const larder__carried *f = larder__page_files; f->name; f++)
        if (strcmp(f->name, name) == 0) {
            answer(v, r, 200, type_of(name), (const char *)f->bytes, f->size, NULL);
            return true;
        }
    return false;
}

/* Behind `head_size` bytes of a head that may lie there already. */
static void add_event(larder__http *h, visitor *v) {
    static const char begins[] = "data: ";
    text *state = make_text(h, &h->state, larder__board_state);
    memcpy(v->head + v->head_size, begins, sizeof begins - 1);
    v->head_size += sizeof begins - 1;
    set_body(v, state ? state->at : "{}", state ? state->size : 2, state);
}

static void begin_events(larder__http *h, visitor *v, const larder__http_request *r) {
    v->head_size = (size_t)snprintf(v->head, sizeof v->head,
                                    "HTTP/1.1 200 OK\r\n%sContent-Type: text/event-stream\r\n"
                                    "Connection: close\r\n\r\nretry: 1000\n\n",
                                    always);
    v->live = !r->head;
    v->leaving = r->head;
    if (v->live)
        add_event(h, v);
    else
        set_body(v, NULL, 0, NULL);
}

/* Data, as opposed to the page's own files, which are no secret. */
static bool answer_data(larder__http *h, visitor *v, const larder__http_request *r) {
    static const char json[] = "application/json";
    const struct {
        const char *path, *type;
        text **made;
        void (*write_it)(FILE *, const larder__board *);
    } all[] = {{"/state.json", json, &h->state, larder__board_state},
               {"/history.json", json, &h->history, larder__board_history},
               {"/metrics", "text/plain; version=0.0.4; charset=utf-8", &h->metrics,
                larder__board_metrics}};
    bool events = strcmp(r->path, "/events") == 0;
    size_t i = 0, count = sizeof all / sizeof *all;
    while (i < count && strcmp(r->path, all[i].path) != 0)
        i++;
    if (i == count && !events)
        return false;
    if (!v->known) {
        refuse(v, r, 401, "the address that larder printed has the token in it");
        return true;
    }
    if (events) {
        begin_events(h, v, r);
        return true;
    }
    text *t = make_text(h, all[i].made, all[i].write_it);
    if (t)
        answer(v, r, 200, all[i].type, t->at, t->size, t);
    else
        refuse(v, r, 503, "no memory");
    return true;
}

static void respond(larder__http *h, visitor *v, const larder__http_request *r) {
    v->known = !h->token[0] || larder__token_equal(r->token, h->token);
    if (h->local && !h->token[0] && r->named && !larder__http_host_is_local(r->host))
        refuse(v, r, 403, "this page is served under the names of this machine alone");
    else if (!answer_data(h, v, r) && !answer_file(v, r))
        refuse(v, r, 404, "");
}

/* ---- visitors -------------------------------------------------------------------------------- */

static void hang_up(larder__http *h, visitor *v) {
    close(v->fd);
    let_go(h, v);
    memset(v, 0, sizeof *v);
    v->fd = -1;
}

static const char *next_piece(const visitor *v, size_t *n) {
    size_t at = v->sent, end = v->head_size;
    if (at < end) {
        *n = end - at;
        return v->head + at;
    }
    at -= end;
    if (at < v->body_size) {
        *n = v->body_size - at;
        return v->body + at;
    }
    *n = v->size - v->sent;
    return event_end + (at - v->body_size);
}

/* What the socket takes now. False: it is gone. */
static bool flush(larder__http *h, visitor *v, double now) {
    while (v->sent < v->size) {
        size_t most;
        const char *piece = next_piece(v, &most);
        int more = v->sent + most < v->size ? MSG_MORE : 0;
        ssize_t n = send(v->fd, piece, most, MSG_NOSIGNAL | more);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return errno == EAGAIN || errno == EWOULDBLOCK;
        v->sent += (size_t)n;
        v->moved = now;
        v->until = now + send_within;
    }
    let_go(h, v);
    v->head_size = v->body_size = v->sent = v->size = 0;
    return !v->leaving;
}

/* Answers what has been said whole, one request at a time: the next when the answer has gone.
 * False: the end. */
static bool converse(larder__http *h, visitor *v, double now) {
    larder__http_request r;
    size_t used = 0;
    int status;
    while (!v->leaving && !v->live && v->size == 0 &&
           (status = larder__http_parse(&r, v->in, v->got, &used)) != 0) {
        if (status == 200) {
            respond(h, v, &r);
        } else {
            r.again = false;
            refuse(v, &r, status, "");
            used = v->got;
        }
        v->got -= used;
        memmove(v->in, v->in + used, v->got);
        v->asked = true;
        v->moved = now;
        v->until = now + idle_for;
        if (!flush(h, v, now))
            return false;
    }
    return true;
}

static bool listen_to(larder__http *h, visitor *v, double now) {
    char waste[256]; /* who gets events has nothing more to say */
    char *to = v->live ? waste : v->in + v->got;
    ssize_t n = recv(v->fd, to, v->live ? sizeof waste : sizeof v->in - v->got, 0);
    if (n <= 0)
        return n < 0 && (errno == EAGAIN || errno == EINTR);
    if (v->live)
        return true;
    if (v->got == 0)
        v->until = now + head_within;
    v->got += (size_t)n;
    return converse(h, v, now);
}

/* ---- the loop -------------------------------------------------------------------------------- */

/* Texts that wait for somebody are few, however many visitors do not read: of those that are too
 * many, the oldest go, with whoever has not taken them. One may be as large as it is. */
static void drop_late(larder__http *h) {
    while (h->late_bytes > LATE && h->late->older) {
        const text *oldest = h->late;
        while (oldest->older)
            oldest = oldest->older;
        for (size_t held = oldest->held, i = 0; held > 0 && i < CONNECTIONS; i++)
            if (h->visitors[i].of == oldest) {
                hang_up(h, &h->visitors[i]);
                held--;
            }
    }
}

/* A failed look (no memory) leaves an empty page until the next one. */
static void look(larder__http *h, double now) {
    larder__board_look(h->board, now);
    retire(h, &h->state);
    retire(h, &h->history);
    retire(h, &h->metrics);
    drop_late(h);
    h->lacking = false;
    h->looked = now;
    h->next_look = now + look_every;
    for (visitor *v = h->visitors; v < h->visitors + CONNECTIONS; v++)
        if (v->fd >= 0 && v->live && v->size == 0) { /* who is slow misses some */
            add_event(h, v);
            if (!flush(h, v, now))
                hang_up(h, v);
        }
}

static void attend(larder__http *h, visitor *v, short events, double now) {
    bool stays = true;
    if (events & POLLOUT)
        stays = flush(h, v, now) && converse(h, v, now);
    if (stays && events & (POLLIN | POLLHUP | POLLERR) && (v->live || v->size == 0))
        stays = listen_to(h, v, now);
    if (!stays || (events & POLLERR))
        hang_up(h, v);
}

static visitor *free_place(larder__http *h) {
    for (visitor *v = h->visitors; v < h->visitors + h->places; v++)
        if (v->fd < 0)
            return v;
    return NULL;
}

/* Who came and left again since the last turn still has a place: those go before anybody is sent
 * away. Three looks each: what was said, the answer that cannot go, the end. */
static void drop_gone(larder__http *h, double now) {
    for (visitor *v = h->visitors; v < h->visitors + CONNECTIONS; v++)
        for (int look = 0; look < 3 && v->fd >= 0; look++) {
            struct pollfd p = {.fd = v->fd, .events = POLLIN};
            if (poll(&p, 1, 0) > 0)
                attend(h, v, p.revents, now);
        }
}

/* Who goes first where there is no place: who has come and says nothing, who shows no token. */
static int rank(const larder__http *h, const visitor *v, double now) {
    if (!v->asked)
        return now - v->moved > ask_within ? 0 : 2;
    return h->token[0] && !v->known ? 1 : 2;
}

/* Of those alike, who has been idle for longest. Who takes each state is as idle as the last look
 * is old, and of these the last to come goes: a crowd does not push out who was there before it. */
static bool goes_before(const larder__http *h, const visitor *a, const visitor *b, double now) {
    int rank_a = rank(h, a, now), rank_b = rank(h, b, now);
    bool takes_a = a->live && a->size == 0, takes_b = b->live && b->size == 0;
    double idle_a = takes_a ? h->looked : a->moved, idle_b = takes_b ? h->looked : b->moved;
    if (rank_a != rank_b)
        return rank_a < rank_b;
    if (idle_a < idle_b || idle_b < idle_a)
        return idle_a < idle_b;
    if (takes_a != takes_b)
        return takes_a;
    return takes_a ? a->came > b->came : a->came < b->came;
}

/* Whoever comes gets a place: otherwise those who hold all of them would keep everybody out. */
static visitor *make_place(larder__http *h, double now) {
    visitor *v = free_place(h);
    if (!v) {
        drop_gone(h, now);
        v = free_place(h);
    }
    if (v)
        return v;
    v = h->visitors;
    for (visitor *other = v + 1; other < h->visitors + h->places; other++)
        if (goes_before(h, other, v, now))
            v = other;
    hang_up(h, v);
    return v;
}

/* As many as may be waiting, and no more: who comes faster does not keep it from others. */
static void welcome(larder__http *h, double now) {
    const int on = 1;
    int fd;
    for (int i = 0; i < BACKLOG; i++) {
        if ((fd = accept4(h->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) < 0) {
            /* No descriptor or no memory: who comes stays in the queue. */
            h->lacking = errno != EAGAIN && errno != EINTR && errno != ECONNABORTED;
            return;
        }
        visitor *v = make_place(h, now);
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        v->fd = fd;
        v->came = ++h->arrivals;
        v->moved = now;
        v->until = now + head_within;
    }
}

static int turn(larder__http *h) {
    struct pollfd p[CONNECTIONS + 2];
    visitor *who[CONNECTIONS + 2];
    nfds_t n = 2;
    double now = larder__now();
    p[0] = (struct pollfd){.fd = h->stop, .events = POLLIN};
    p[1] = (struct pollfd){.fd = h->listener, .events = h->lacking ? 0 : POLLIN};
    for (visitor *v = h->visitors; v < h->visitors + CONNECTIONS; v++) {
        if (v->fd < 0)
            continue;
        who[n] = v;
        p[n++] = (struct pollfd){.fd = v->fd, .events = v->size ? POLLIN | POLLOUT : POLLIN};
        if (v->size && !v->live)
            p[n - 1].events = POLLOUT;
    }
    double left = h->next_look - now;
    int ready = poll(p, n, left > 0 ? (int)(left * 1e3) + 1 : 0);
    if (ready < 0 && errno != EINTR)
        return larder__fail(LARDER_E_IO, "waiting for visitors: %s", strerror(errno));
    if (ready > 0 && p[0].revents)
        return 0;
    now = larder__now();
    for (nfds_t i = 2; ready > 0 && i < n; i++)
        if (p[i].revents)
            attend(h, who[i], p[i].revents, now);
    for (visitor *v = h->visitors; v < h->visitors + CONNECTIONS; v++)
        if (v->fd >= 0 && now > v->until) /* after what lay there: it may be us who stood still */
            hang_up(h, v);
    if (ready > 0 && p[1].revents)
        welcome(h, now);
    if (now >= h->next_look)
        look(h, now);
    return 1;
}

int larder__http_run(larder__http *h) {
    int rc;
    look(h, larder__now());
    while ((rc = turn(h)) == 1) {
    }
    return rc;
}

void larder__http_close(larder__http **ph) {
    larder__http *h = *ph;
    *ph = NULL;
    if (!h)
        return;
    for (visitor *v = h->visitors; v < h->visitors + CONNECTIONS; v++)
        if (v->fd >= 0)
            hang_up(h, v);
    if (h->listener >= 0)
        close(h->listener);
    if (h->stop >= 0)
        close(h->stop);
    free_text(h->state);
    free_text(h->history);
    free_text(h->metrics);
    larder__board_close(&h->board);
    larder__free(h);
}
