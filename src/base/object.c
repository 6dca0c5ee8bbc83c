#include "base/object.h"

#include "base/err.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { KEY_MAX = 64 };

typedef struct cursor {
    const char *at, *where;
    char *room; /* for strings; NULL: they go into the value itself */
    size_t cap;
} cursor;

static void skip_space(cursor *c) { c->at += strspn(c->at, " \t\r\n"); }

static int reject(const cursor *c, const char *why) {
    return larder__fail(LARDER_E_FORMAT, "%s: %s", c->where, why);
}

static int take(cursor *c, char want) {
    skip_space(c);
    if (*c->at != want)
        return reject(c, "not an object of plain values");
    c->at++;
    return 0;
}

static int hex4(const char *s) {
    int v = 0;
    for (int i = 0; i < 4; i++) {
        const char *digits = "0123456789abcdef0123456789ABCDEF";
        const char *d = s[i] ? strchr(digits, s[i]) : NULL;
        if (!d)
            return -1;
        v = v * 16 + (int)((d - digits) % 16);
    }
    return v;
}

/* The bytes of \uXXXX. \udcXX is the byte that our writer could not write otherwise; what we never
 * write (zero, other halves of pairs) becomes '?'. */
static size_t bytes_of(int code, char out[4]) {
    bool byte = code >= 0xdc80 && code <= 0xdcff, half = code >= 0xd800 && code < 0xe000;
    if (byte || half || code < 0x80) {
        out[0] = (half && !byte) || code == 0 ? '?' : (char)(code & 0xff);
        return 1;
    }
    size_t n = code < 0x800 ? 2 : 3;
    out[0] = (char)(n == 2 ? 0xc0 | code >> 6 : 0xe0 | code >> 12);
    out[1] = (char)(0x80 | (n == 2 ? code & 0x3f : code >> 6 & 0x3f));
    out[2] = (char)(0x80 | (code & 0x3f));
    return n;
}

/* One escape behind its backslash; its 1 to 3 bytes. */
static int unescape(cursor *c, char out[4], size_t *n) {
    *n = 1;
    if (*c->at == 'u') {
        int code = hex4(c->at + 1);
        if (code < 0)
            return reject(c, "a broken \\u in a string");
        c->at += 5;
        *n = bytes_of(code, out);
        return 0;
    }
    static const char names[] = "\"\\/nrtbf", values[] = "\"\\/\n\r\t\b\f";
    const char *p = *c->at ? strchr(names, *c->at) : NULL;
    if (!p)
        return reject(c, "an unknown escape in a string");
    *out = values[p - names];
    c->at++;
    return 0;
}

static int parse_text(cursor *c, char *out, size_t cap) {
    int rc = take(c, '"');
    size_t n = 0;
    while (rc == 0 && *c->at != '"') {
        char bytes[4] = {*c->at};
        size_t more = 1;
        if (bytes[0] == '\0')
            return reject(c, "a string without its end");
        c->at++;
        if (bytes[0] == '\\' && (rc = unescape(c, bytes, &more)) < 0)
            return rc;
        if (n + more >= cap)
            return reject(c, "a string that is too long");
        memcpy(out + n, bytes, more);
        n += more;
    }
    out[n] = '\0';
    if (rc == 0)
        c->at++;
    return rc;
}

static int parse_number(cursor *c, larder__object_value *v) {
    size_t n = strspn(c->at, "+-0123456789.eE");
    char copy[64], *end;
    if (n == 0 || n >= sizeof copy)
        return reject(c, "something that is neither number nor string");
    memcpy(copy, c->at, n);
    copy[n] = '\0';
    c->at += n;
    v->number = strtod(copy, &end);
    if (*end || !isfinite(v->number))
        return reject(c, "a malformed number");
    if (strspn(copy, "0123456789") == n) {
        errno = 0;
        v->whole = strtoull(copy, NULL, 10);
        v->is_integer = errno == 0;
    }
    return 0;
}

static int parse_value(cursor *c, larder__object_value *v) {
    static const struct {
        const char *word;
        double number;
    } words[] = {{"null", NAN}, {"true", 1}, {"false", 0}};
    *v = (larder__object_value){0};
    skip_space(c);
    if (*c->at == '"') {
        v->is_text = true;
        v->long_text = c->room;
        return parse_text(c, c->room ? c->room : v->text, c->room ? c->cap : sizeof v->text);
    }
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strncmp(c->at, words[i].word, strlen(words[i].word)) == 0) {
            c->at += strlen(words[i].word);
            v->number = words[i].number;
            return 0;
        }
    return parse_number(c, v);
}

static int parse_member(cursor *c, larder__member_fn member, void *arg) {
    char key[KEY_MAX];
    larder__object_value v;
    int rc;
    if ((rc = parse_text(c, key, sizeof key)) < 0 || (rc = take(c, ':')) < 0 ||
        (rc = parse_value(c, &v)) < 0)
        return rc;
    return member(arg, key, &v);
}

int larder__object_parse_long(const char *text, const char *where, char *room, size_t cap,
                              larder__member_fn member, void *arg) {
    cursor c = {text, where, room, cap};
    int rc = take(&c, '{');
    skip_space(&c);
    for (bool first = true; rc == 0 && *c.at != '}'; first = false) {
        if (!first && (rc = take(&c, ',')) < 0)
            break;
        rc = parse_member(&c, member, arg);
        skip_space(&c);
    }
    if (rc == 0) {
        c.at++;
        skip_space(&c);
        if (*c.at)
            rc = reject(&c, "more behind the object");
    }
    return rc;
}

int larder__object_parse(const char *text, const char *where, larder__member_fn member, void *arg) {
    return larder__object_parse_long(text, where, NULL, 0, member, arg);
}
