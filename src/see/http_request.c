#include "see/http_request.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

typedef struct piece { /* of the request, not ended by a NUL */
    const char *at;
    size_t n;
} piece;

static bool is(piece p, const char *word) {
    return p.n == strlen(word) && strncasecmp(p.at, word, p.n) == 0;
}

static bool keep(char *out, size_t cap, piece p) {
    if (p.n >= cap)
        return false;
    memcpy(out, p.at, p.n);
    out[p.n] = 0;
    return true;
}

static piece trim(piece p) {
    while (p.n && (*p.at == ' ' || *p.at == '\t'))
        p.at++, p.n--;
    while (p.n && (p.at[p.n - 1] == ' ' || p.at[p.n - 1] == '\t'))
        p.n--;
    return p;
}

/* What is in front of the first `byte`, which is passed over; all of it where there is none. */
static piece cut(piece *p, char byte) {
    const char *stop = p->n ? memchr(p->at, byte, p->n) : NULL;
    piece out = {p->at, stop ? (size_t)(stop - p->at) : p->n};
    size_t passed = out.n + (stop ? 1 : 0);
    p->at += passed;
    p->n -= passed;
    return out;
}

static void read_query(larder__http_request *r, piece query) {
    while (query.n) {
        piece pair = cut(&query, '&'), name = cut(&pair, '=');
        if (is(name, "token") && !keep(r->token, sizeof r->token, pair))
            r->token[0] = 0;
    }
}

static int read_first_line(larder__http_request *r, piece line, bool *must_name) {
    piece method = cut(&line, ' '), target = cut(&line, ' ');
    if (line.n != 8 || memcmp(line.at, "HTTP/1.", 7) != 0 || !isdigit((unsigned char)line.at[7]))
        return line.n >= 5 && memcmp(line.at, "HTTP/", 5) == 0 ? 505 : 400;
    r->again = *must_name = line.at[7] != '0';
    if (!method.n || !target.n || target.at[0] != '/')
        return 400;
    piece path = cut(&target, '?');
    if (!keep(r->method, sizeof r->method, method))
        return 501;
    r->head = strcmp(r->method, "HEAD") == 0;
    if (!r->head && strcmp(r->method, "GET") != 0)
        return 405;
    if (!keep(r->path, sizeof r->path, path))
        return 404;
    read_query(r, target);
    return 200;
}

/* What others on the way may read as another header is refused: a blank in front of the colon. */
static bool is_token(piece p) {
    for (size_t i = 0; i < p.n; i++)
        if (!isalnum((unsigned char)p.at[i]) && !strchr("!#$%&'*+-.^_`|~", p.at[i]))
            return false;
    return p.n > 0;
}

static int read_header(larder__http_request *r, piece line) {
    bool split = line.n && memchr(line.at, ':', line.n);
    piece name = cut(&line, ':'), v = trim(line);
    if (!split || !is_token(name))
        return 400;
    if (is(name, "host")) {
        bool first = !r->named;
        r->named = true;
        return first && keep(r->host, sizeof r->host, v) ? 200 : 400;
    }
    if (is(name, "connection")) {
        if (is(v, "close"))
            r->again = false;
    } else if (is(name, "authorization")) {
        piece how = cut(&v, ' ');
        if (is(how, "bearer") && !keep(r->token, sizeof r->token, trim(v)))
            r->token[0] = 0;
    } else if (is(name, "transfer-encoding") || (is(name, "content-length") && !is(v, "0")))
        return 413; /* nothing is to be sent here */
    return 200;
}

int larder__http_parse(larder__http_request *r, const char *bytes, size_t n, size_t *used) {
    const char *end = n >= 4 ? memmem(bytes, n, "\r\n\r\n", 4) : NULL;
    *r = (larder__http_request){0};
    if (!end)
        return n >= LARDER__HTTP_HEAD ? 431 : 0;
    if (memchr(bytes, 0, (size_t)(end - bytes)))
        return 400;
    piece rest = {bytes, (size_t)(end - bytes) + 1}; /* with the \r of its last line */
    *used = (size_t)(end - bytes) + 4;
    int status = 0;
    bool must_name = false;
    for (bool first = true; rest.n; first = false) {
        piece line = cut(&rest, '\n');
        if (!line.n || line.at[line.n - 1] != '\r')
            return 400;
        line.n--;
        int said = first ? read_first_line(r, line, &must_name) : read_header(r, line);
        if (status == 0 || status == 200)
            status = said;
        if (said == 400)
            return 400;
    }
    return status == 200 && must_name && !r->named ? 400 : status;
}

bool larder__http_host_is_local(const char *host) {
    const char *end = host[0] == '[' ? strchr(host, ']') : NULL;
    piece name = {host, end ? (size_t)(end + 1 - host) : strcspn(host, ":")};
    const char *port = host + name.n;
    size_t n = *port == ':' ? strspn(port + 1, "0123456789") : 0;
    if (*port && (n == 0 || port[1 + n]))
        return false;
    if (is(name, "localhost") || is(name, "[::1]"))
        return true;
    return strncmp(host, "127.", 4) == 0 && strspn(host, "0123456789.") == name.n;
}

bool larder__token_equal(const char *a, const char *b) {
    size_t n = strlen(b), m = strlen(a);
    unsigned differ = n != m;
    for (size_t i = 0; i < m; i++)
        differ |= (unsigned char)a[i] ^ (unsigned char)b[n ? i % n : 0];
    return differ == 0;
}
