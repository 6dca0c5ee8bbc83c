#include "redis/conn.h"

#include "base/err.h"
#include "base/mem.h"
#include "base/world.h"
#include "redis/slots.h"

#if LARDER_HAVE_HIREDIS
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

enum {
    ANSWER_MOST = 256 << 20, /* bytes of one answer to larder__conn_ask, */
    LIST_MOST = 1 << 22      /* and elements of a list in it */
};

static redisContext *context(const larder__conn *c) { return c->context; }

static struct timeval timeval_of(double seconds) {
    return (struct timeval){.tv_sec = (time_t)seconds,
                            .tv_usec = (suseconds_t)((seconds - (double)(time_t)seconds) * 1e6)};
}

/* ---- bytes ----------------------------------------------------------------------------------- */

static int read_some(void *arg, struct iovec *to, int count) {
    larder__conn *c = arg;
    if (c->tls)
        return larder__tls_read(c->tls, to->iov_base, to->iov_len, c->until);
    for (;;) {
        if (larder__world_now() > c->until)
            return larder__fail(LARDER_E_IO, "%s does not answer", c->name);
        struct msghdr m = {.msg_iov = to, .msg_iovlen = (size_t)count};
        ssize_t n = larder__world_receive(context(c)->fd, &m, 0);
        if (n > 0)
            return (int)n;
        if (n == 0)
            return larder__fail(LARDER_E_IO, "%s has closed the connection", c->name);
        if (errno != EINTR && errno != EAGAIN && errno != EWOULDBLOCK)
            return larder__fail(LARDER_E_IO, "%s: %s", c->name, strerror(errno));
    }
}

static int send_tls(larder__conn *c, const struct iovec *iov, int count) {
    int rc = 0;
    for (int i = 0; i < count && rc == 0; i++)
        rc = larder__tls_write(c->tls, iov[i].iov_base, iov[i].iov_len, c->timeout);
    return rc;
}

int larder__conn_send(larder__conn *c, struct iovec *iov, int count) {
    enum { AT_ONCE = 512 };
    if (c->tls)
        return send_tls(c, iov, count);
    double until = larder__world_now() + c->timeout;
    while (count > 0) {
        struct msghdr m = {.msg_iov = iov,
                           .msg_iovlen = (size_t)(count < AT_ONCE ? count : AT_ONCE)};
        ssize_t n = larder__world_send(context(c)->fd, &m, MSG_NOSIGNAL);
        if (n < 0 && errno != EINTR && errno != EAGAIN && errno != EWOULDBLOCK)
            return larder__fail(LARDER_E_IO, "%s: %s", c->name, strerror(errno));
        if (n > 0)
            until = larder__world_now() + c->timeout;
        else if (larder__world_now() > until)
            return larder__fail(LARDER_E_IO, "%s takes nothing any more", c->name);
        for (size_t left = n > 0 ? (size_t)n : 0; count > 0;) {
            size_t take = left < iov->iov_len ? left : iov->iov_len;
            iov->iov_base = (char *)iov->iov_base + take;
            iov->iov_len -= take;
            left -= take;
            if (iov->iov_len)
                break;
            iov++;
            count--;
        }
    }
    return 0;
}

void larder__conn_expect(larder__conn *c, double more) {
    c->until = larder__world_now() + c->timeout + more;
}

/* ---- questions ------------------------------------------------------------------------------- */

#if HIREDIS_MAJOR < 1
typedef int elements;
#else
typedef size_t elements;
#endif

typedef struct makers { /* hiredis' functions, and ours in place of one of them */
    redisReplyObjectFunctions all, plain;
} makers;

/* hiredis makes room for as many elements as a server says it will send. */
static void *make_list(const redisReadTask *t, elements n) {
    const makers *m = t->privdata;
    return n > LIST_MOST ? NULL : m->plain.createArray(t, n);
}

static redisReader *open_reader(makers *m) {
    redisReader *r = redisReaderCreate();
    if (!r)
        return NULL;
    m->all = m->plain = *r->fn;
    m->all.createArray = make_list;
    r->fn = &m->all;
    r->privdata = m;
    return r;
}

static int hear(larder__conn *c, redisReply **out) {
    makers m;
    redisReader *reader = open_reader(&m);
    void *reply = NULL;
    size_t heard = 0;
    int rc = reader ? 0 : LARDER_E_NOMEM;
    larder__conn_expect(c, 0);
    while (rc == 0) {
        size_t have = c->in.end - c->in.at;
        if (have) {
            heard += have;
            int fed = redisReaderFeed(reader, (char *)c->in.buf + c->in.at, have);
            c->in.at = c->in.end;
            if (fed != REDIS_OK || redisReaderGetReply(reader, &reply) != REDIS_OK)
                rc = larder__fail(LARDER_E_FORMAT, "%s answers with something else", c->name);
            if (rc < 0 || reply)
                break;
            if (heard > ANSWER_MOST)
                rc = larder__fail(LARDER_E_FORMAT, "%s does not stop answering", c->name);
            if (have > 4096) /* it is at it: a long answer may take its time */
                larder__conn_expect(c, 0);
        }
        struct iovec to = {c->in.buf, LARDER__RESP_BUFFER};
        int n = rc == 0 ? read_some(c, &to, 1) : rc;
        c->in.at = 0;
        c->in.end = n > 0 ? (size_t)n : 0;
        rc = n < 0 ? n : rc;
    }
    if (reader)
        redisReaderFree(reader);
    *out = reply;
    return rc;
}

int larder__conn_ask(larder__conn *c, redisReply **out, int argc, const char *const *argv,
                     const size_t *lengths) {
    char *command = NULL;
    *out = NULL;
    long long n = redisFormatCommandArgv(&command, argc, (const char **)(uintptr_t)argv, lengths);
    if (n < 0)
        return LARDER_E_NOMEM;
    int rc = larder__conn_send(c, &(struct iovec){command, (size_t)n}, 1);
    redisFreeCommand(command);
    if (rc == 0)
        rc = hear(c, out);
    if (rc < 0 || !*out || (*out)->type != REDIS_REPLY_ERROR)
        return *out || rc < 0 ? rc : LARDER_E_IO;
    larder__moved to;
    c->elsewhere =
        larder__redis_moved((*out)->str, &to) || strncmp((*out)->str, "READONLY", 8) == 0;
    rc = larder__fail(LARDER_E_STATE, "%s: %.160s", c->name, (*out)->str);
    freeReplyObject(*out);
    *out = NULL;
    return rc;
}

/* ---- opening --------------------------------------------------------------------------------- */

static int say(larder__conn *c, int argc, const char *const *argv) {
    redisReply *reply;
    int rc = larder__conn_ask(c, &reply, argc, argv, NULL);
    if (rc == 0)
        freeReplyObject(reply);
    if (rc != LARDER_E_STATE || !strstr(larder_errmsg(), "LOADING"))
        return rc;
    c->loading = true;
    return 0;
}

static int introduce(larder__conn *c, const larder__redis_conf *r, bool replica) {
    int rc = 0;
    if (r->password[0]) {
        const char *argv[] = {"AUTH", r->user[0] ? r->user : r->password, r->password};
        rc = say(c, r->user[0] ? 3 : 2, argv);
        if (rc == LARDER_E_STATE)
            return larder__fail(LARDER_E_ARGS, "%s does not accept %s%s%s", c->name,
                                r->user[0] ? "the password of user \"" : "this password", r->user,
                                r->user[0] ? "\"" : "");
    }
    char db[16];
    snprintf(db, sizeof db, "%u", r->db);
    if (rc == 0 && r->db)
        rc = say(c, 2, (const char *const[]){"SELECT", db});
    if (rc == 0 && replica)
        rc = say(c, 1, (const char *const[]){"READONLY"});
    if (rc == 0 && !c->loading)
        rc = say(c, 1, (const char *const[]){"PING"});
    if (rc == LARDER_E_STATE && strstr(larder_errmsg(), "NOAUTH"))
        return larder__fail(LARDER_E_ARGS,
                            "%s wants a password: set LARDER_REDIS_PASSWORD, or write "
                            "user:password@ before the host",
                            c->name);
    return rc;
}

static int start_tls(larder__conn *c, const larder__redis_conf *r, const char *host) {
    larder__tls_conf conf = {.ca = r->ca,
                             .cert = r->cert,
                             .key = r->key,
                             .name = r->tls_name[0] ? r->tls_name : host,
                             .peer = c->name};
    return larder__tls_open(&c->tls, context(c)->fd, &conf,
                            larder__world_now() + (c->timeout > 1 ? c->timeout : 1));
}

static int set_timeouts(larder__conn *c) {
    struct timeval t = timeval_of(c->timeout);
    int fd = context(c)->fd;
    if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof t) < 0 ||
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &t, sizeof t) < 0)
        return larder__fail(LARDER_E_IO, "%s: %s", c->name, strerror(errno));
    return 0;
}

/* E_IO: nobody is there, and somebody may come. Not so where there is no such host or folder, where
 * something else lies in the socket's place, and where we may not. */
static int code_of_connect(const larder__redis_conf *r, const redisContext *x) {
    int err = errno;
    struct stat st;
    char folder[sizeof r->path];
    if (x->err == REDIS_ERR_OTHER)
        return strstr(x->errstr, "emporary") ? LARDER_E_IO : LARDER_E_NOTFOUND;
    snprintf(folder, sizeof folder, "%.*s",
             r->path[0] ? (int)(strrchr(r->path, '/') - r->path + 1) : 0, r->path);
    bool odd =
        r->path[0] && err == ECONNREFUSED && stat(r->path, &st) == 0 && !S_ISSOCK(st.st_mode);
    if (odd || err == EACCES || err == EPERM || err == ENOTDIR)
        return LARDER_E_ARGS;
    return r->path[0] && err == ENOENT && stat(folder, &st) < 0 ? LARDER_E_NOTFOUND : LARDER_E_IO;
}

int larder__conn_open(larder__conn *c, const larder__redis_conf *r, const char *host, uint16_t port,
                      bool replica) {
    *c = (larder__conn){.timeout = r->timeout};
    struct timeval patience = timeval_of(r->timeout > 1 ? r->timeout : 1);
    if (r->path[0])
        snprintf(c->name, sizeof c->name, "redis %s", r->path);
    else
        snprintf(c->name, sizeof c->name, "redis %.255s:%u", host, port);
    redisContext *x = r->path[0] ? redisConnectUnixWithTimeout(r->path, patience)
                                 : redisConnectWithTimeout(host, port, patience);
    if (!x)
        return LARDER_E_NOMEM;
    c->context = x;
    int rc = x->err ? larder__fail(code_of_connect(r, x), "%s: %s", c->name, x->errstr) : 0;
    if (rc == 0)
        rc = set_timeouts(c);
    if (rc == 0 && r->tls)
        rc = start_tls(c, r, host);
    bool there = !x->err;
    if (rc == 0)
        rc = larder__resp_open(&c->in, read_some, c);
    if (rc == 0)
        rc = introduce(c, r, replica);
    if (rc == LARDER_E_IO && c->tls &&
        !r->cert[0]) { /* TLS 1.3 refuses clients after shaking hands */
        char why[200];
        snprintf(why, sizeof why, "%s", larder_errmsg());
        rc =
            larder__fail(rc, "%s (a server that wants to know who asks needs cert= and key=)", why);
    }
    if (rc == LARDER_E_IO && r->tls && there)
        rc = LARDER_E_FORMAT; /* somebody is there, and will not have us */
    if (rc < 0)
        larder__conn_close(c);
    return rc;
}

void larder__conn_close(larder__conn *c) {
    larder__tls_close(&c->tls);
    if (c->context)
        redisFree(context(c));
    c->context = NULL;
    larder__resp_close(&c->in);
}

void larder__conn_cut(larder__conn *c) {
    if (c->context)
        shutdown(context(c)->fd, SHUT_RDWR);
}
#endif
