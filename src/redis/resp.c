#include "redis/resp.h"

#include "base/err.h"
#include "base/mem.h"

#include <stdbool.h>
#include <string.h>

int larder__resp_open(larder__resp *r, larder__resp_read_fn read, void *arg) {
    *r = (larder__resp){.read = read, .arg = arg, .buf = larder__malloc(LARDER__RESP_BUFFER)};
    return r->buf ? 0 : LARDER_E_NOMEM;
}

void larder__resp_close(larder__resp *r) {
    larder__free(r->buf);
    *r = (larder__resp){0};
}

static int refill(larder__resp *r) {
    if (r->at == r->end)
        r->at = r->end = 0;
    if (r->end == LARDER__RESP_BUFFER) {
        memmove(r->buf, r->buf + r->at, r->end - r->at);
        r->end -= r->at;
        r->at = 0;
    }
    struct iovec to = {r->buf + r->end, LARDER__RESP_BUFFER - r->end};
    if (to.iov_len == 0)
        return larder__fail(LARDER_E_FORMAT, "Redis answers with a line that does not end");
    int n = r->read(r->arg, &to, 1);
    if (n > 0)
        r->end += (size_t)n;
    return n;
}

/* A line without its end: *line points into the buffer. */
static int take_line(larder__resp *r, const char **line, size_t *n) {
    enum { LINE_MOST = 4096 };
    for (size_t seen = 0;;) {
        const unsigned char *from = r->buf + r->at;
        size_t have = r->end - r->at;
        const unsigned char *end = have > seen ? memchr(from + seen, '\n', have - seen) : NULL;
        if (end) {
            *n = (size_t)(end - from);
            if (*n < 2 || from[*n - 1] != '\r')
                return larder__fail(LARDER_E_FORMAT, "Redis answers with something else");
            *line = (const char *)from;
            *n -= 1;
            r->at += *n + 2;
            return 0;
        }
        if (have > LINE_MOST)
            return larder__fail(LARDER_E_FORMAT, "Redis answers with a line that does not end");
        seen = have;
        int rc = refill(r);
        if (rc < 0)
            return rc;
    }
}

static bool read_number(const char *text, size_t n, int64_t *out) {
    bool minus = n && text[0] == '-';
    uint64_t v = 0;
    size_t i = minus;
    if (n == i || n > 18)
        return false;
    for (; i < n; i++) {
        if (text[i] < '0' || text[i] > '9')
            return false;
        v = v * 10 + (uint64_t)(text[i] - '0');
    }
    *out = minus ? -(int64_t)v : (int64_t)v;
    return true;
}

int larder__resp_next(larder__resp *r, larder__resp_reply *out) {
    const char *line;
    size_t n;
    int rc = take_line(r, &line, &n);
    if (rc < 0)
        return rc;
    *out = (larder__resp_reply){.type = line[0]};
    if (line[0] == '+' || line[0] == '-') {
        size_t keep = n - 1 < sizeof out->text - 1 ? n - 1 : sizeof out->text - 1;
        memcpy(out->text, line + 1, keep);
        return 0;
    }
    bool known = line[0] == ':' || line[0] == '$' || line[0] == '*';
    if (!known || !read_number(line + 1, n - 1, &out->number) ||
        (line[0] != ':' && (out->number < -1 || out->number > INT32_MAX)))
        return larder__fail(LARDER_E_FORMAT, "Redis answers with something else");
    return 0;
}

int larder__resp_bytes(larder__resp *r, void *to, size_t n) {
    unsigned char *at = to;
    while (n > 0) {
        size_t have = r->end - r->at;
        size_t take = have < n ? have : n;
        if (take) {
            memcpy(at, r->buf + r->at, take);
            r->at += take;
        } else { /* into its place, and what follows it into the buffer */
            r->at = r->end = 0;
            struct iovec iov[2] = {{at, n}, {r->buf, LARDER__RESP_BUFFER}};
            int got = r->read(r->arg, iov, 2);
            if (got < 0)
                return got;
            take = (size_t)got < n ? (size_t)got : n;
            r->end = (size_t)got - take;
        }
        at += take;
        n -= take;
    }
    return 0;
}

int larder__resp_skip(larder__resp *r, uint64_t n) {
    while (n > 0) {
        size_t have = r->end - r->at;
        if (have == 0) {
            int rc = refill(r);
            if (rc < 0)
                return rc;
            continue;
        }
        size_t take = have < n ? have : (size_t)n;
        r->at += take;
        n -= take;
    }
    return 0;
}

int larder__resp_tail(larder__resp *r) {
    unsigned char end[2];
    int rc = larder__resp_bytes(r, end, 2);
    if (rc < 0)
        return rc;
    return end[0] == '\r' && end[1] == '\n'
               ? 0
               : larder__fail(LARDER_E_FORMAT, "Redis answers with something else");
}
