/* Parts of bench_http.sh: a wire with latency and bandwidth between this machine and itself, and a
 * reader that times a source.
 *
 *     bench_http wire LISTEN TARGET DELAY_MS BYTES_A_SECOND     until it is killed
 *     bench_http read URI AT_ONCE COUNT order|shuffled THREADS  ids of a call, samples to read
 *
 * The wire relays TCP: every piece is held back for DELAY_MS in each direction, and all that comes
 * from the target passes at BYTES_A_SECOND (0: no limit) in the order of its arrival. */
#include "base/clock.h"
#include "source/source.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

/* ---- the wire -------------------------------------------------------------------------------- */

enum { PIECE = 64 << 10, HELD = 8 << 20, MOST = 1024 };

typedef struct piece {
    struct piece *next;
    double due;
    size_t n, sent;
    char bytes[];
} piece;

typedef struct way { /* from one end to the other */
    piece *first, *last;
    size_t held;
    bool over, closed; /* no more comes; said so to the other end */
} way;

typedef struct pairing { /* [0] client to server, [1] server to client */
    int fd[2];           /* client, server */
    way ways[2];
} pairing;

static double delay, rate, rate_end;

static int end_of(int which, struct sockaddr_in *to, uint16_t port) {
    int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    *to = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(port)};
    to->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (which == 0)
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    return fd;
}

/* Takes what came at fd[i]. */
static void take(pairing *l, int i) {
    way *w = &l->ways[i];
    piece *p = malloc(sizeof *p + PIECE);
    ssize_t n = p ? read(l->fd[i], p->bytes, PIECE) : 0;
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        free(p);
        return;
    }
    if (n <= 0) {
        free(p);
        w->over = true;
        return;
    }
    double now = larder__now();
    if (i == 1 && rate > 0) {
        rate_end = (rate_end > now ? rate_end : now) + (double)n / rate;
        p->due = rate_end + delay;
    } else
        p->due = now + delay;
    p->n = (size_t)n;
    p->sent = 0;
    p->next = NULL;
    if (w->last)
        w->last->next = p;
    else
        w->first = p;
    w->last = p;
    w->held += p->n;
}

/* Gives to fd[1 - i] what is due. */
static void give(pairing *l, int i) {
    way *w = &l->ways[i];
    while (w->first && w->first->due <= larder__now()) {
        piece *p = w->first;
        ssize_t n = send(l->fd[1 - i], p->bytes + p->sent, p->n - p->sent, MSG_NOSIGNAL);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (n < 0)
            w->over = true;
        p->sent = n < 0 ? p->n : p->sent + (size_t)n;
        if (p->sent < p->n)
            return;
        w->held -= p->n;
        w->first = p->next;
        w->last = w->first ? w->last : NULL;
        free(p);
    }
    if (w->over && !w->first && !w->closed) {
        shutdown(l->fd[1 - i], SHUT_WR);
        w->closed = true;
    }
}

static bool open_link(pairing *l, int listener, uint16_t target) {
    struct sockaddr_in to;
    int one = 1;
    *l = (pairing){.fd = {accept(listener, NULL, NULL), end_of(1, &to, target)}};
    if (l->fd[0] < 0 || connect(l->fd[1], (struct sockaddr *)&to, sizeof to) != 0)
        return false;
    for (int i = 0; i < 2; i++) {
        setsockopt(l->fd[i], IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        fcntl(l->fd[i], F_SETFL, O_NONBLOCK);
    }
    return true;
}

/* Milliseconds until the next piece is due. */
static int next_due(const pairing *links, size_t n) {
    double wait = 1, now = larder__now();
    for (size_t k = 0; k < 2 * n; k++) {
        const piece *p = links[k / 2].ways[k % 2].first;
        if (p && p->due - now < wait && p->sent == 0)
            wait = p->due - now;
    }
    return wait < 0 ? 0 : (int)(wait * 1000) + 1;
}

static void poll_links(pairing *links, size_t n, struct pollfd *fds) {
    for (size_t k = 0; k < 2 * n; k++) {
        const way *in = &links[k / 2].ways[k % 2], *out = &links[k / 2].ways[1 - k % 2];
        bool due = out->first && out->first->due <= larder__now();
        fds[k + 1] = (struct pollfd){.fd = links[k / 2].fd[k % 2]};
        fds[k + 1].events =
            (short)((in->held < HELD && !in->over ? POLLIN : 0) | (due ? POLLOUT : 0));
        if (!fds[k + 1].events)
            fds[k + 1].fd = -1; /* or a closed end would wake us all the time */
    }
}

static int run_wire(uint16_t port, uint16_t target) {
    static pairing links[MOST];
    static struct pollfd fds[2 * MOST + 1];
    struct sockaddr_in at;
    size_t n = 0;
    int listener = end_of(0, &at, port);
    if (bind(listener, (struct sockaddr *)&at, sizeof at) != 0 || listen(listener, MOST) != 0) {
        perror("bench_http: wire");
        return 1;
    }
    for (;;) {
        fds[0] = (struct pollfd){.fd = n < MOST ? listener : -1, .events = POLLIN};
        poll_links(links, n, fds);
        poll(fds, 2 * n + 1, next_due(links, n));
        for (size_t k = 0; k < 2 * n; k++) {
            if (fds[k + 1].revents & (POLLIN | POLLHUP | POLLERR))
                take(&links[k / 2], k % 2);
            give(&links[k / 2], k % 2);
        }
        for (size_t k = 0; k < n; k++)
            if (links[k].ways[0].closed && links[k].ways[1].closed) {
                close(links[k].fd[0]);
                close(links[k].fd[1]);
                links[k--] = links[--n];
            }
        if ((fds[0].revents & POLLIN) && open_link(&links[n], listener, target))
            n++;
    }
}

/* ---- the reader ------------------------------------------------------------------------------ */

typedef struct reading { /* by several threads, as a loader's readers do */
    larder__data *data;
    uint64_t *order, count;
    size_t at_once;
    _Atomic uint64_t next, bytes;
    _Atomic bool failed;
} reading;

static void *read_some(void *arg) {
    reading *r = arg;
    larder_read *out = malloc(r->at_once * sizeof *out);
    for (uint64_t at; out && (at = atomic_fetch_add(&r->next, r->at_once)) < r->count;) {
        size_t n = r->count - at < r->at_once ? (size_t)(r->count - at) : r->at_once;
        r->failed |= larder__data_read(r->data, r->order + at, n, out) < 0;
        for (size_t i = 0; !r->failed && i < n; i++) {
            if (out[i].code < 0)
                fprintf(stderr, "bench_http: %s\n", out[i].why);
            r->failed |= out[i].code < 0;
            r->bytes += out[i].buf ? larder_buf_size(out[i].buf) : 0;
            larder_buf_unref(&out[i].buf);
        }
    }
    free(out);
    return NULL;
}

static void choose_order(uint64_t *order, uint64_t n, bool shuffled) {
    larder_rng rng;
    larder_rng_seed(&rng, 1, 1);
    for (uint64_t i = 0; i < n; i++)
        order[i] = i;
    for (uint64_t i = n - 1; shuffled && i > 0; i--) {
        uint64_t k = larder_rng_below(&rng, (uint32_t)i + 1), t = order[i];
        order[i] = order[k];
        order[k] = t;
    }
}

static int run_read(const char *uri, size_t at_once, uint64_t count, bool shuffled, int threads) {
    reading r = {.at_once = at_once};
    pthread_t others[64];
    if (larder__data_open(&r.data, uri) < 0) {
        fprintf(stderr, "bench_http: %s\n", larder_errmsg());
        return 1;
    }
    uint64_t n = larder__data_about(r.data)->count;
    r.count = count < n ? count : n;
    if (!(r.order = malloc(n * sizeof *r.order)))
        return 1;
    choose_order(r.order, n, shuffled);
    double begun = larder__now(), cpu = larder__cpu_seconds();
    int started = 0;
    while (started + 1 < threads && started < 64 &&
           pthread_create(&others[started], NULL, read_some, &r) == 0)
        started++;
    read_some(&r);
    while (started > 0)
        pthread_join(others[--started], NULL);
    printf("%.4f %llu %llu %.3f\n", larder__now() - begun, (unsigned long long)r.count,
           (unsigned long long)r.bytes, larder__cpu_seconds() - cpu);
    larder__data_close(&r.data);
    free(r.order);
    return r.failed ? 1 : 0;
}

int main(int argc, char **argv) {
    if (argc == 6 && strcmp(argv[1], "wire") == 0) {
        delay = atof(argv[4]) / 1000;
        rate = atof(argv[5]);
        return run_wire((uint16_t)atoi(argv[2]), (uint16_t)atoi(argv[3]));
    }
    if (argc == 7 && strcmp(argv[1], "read") == 0)
        return run_read(argv[2], (size_t)atoll(argv[3]), (uint64_t)atoll(argv[4]),
                        strcmp(argv[5], "shuffled") == 0, atoi(argv[6]));
    fprintf(stderr, "bench_http: run bench/bench_http.sh\n");
    return 2;
}
