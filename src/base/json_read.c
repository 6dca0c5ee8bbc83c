#include "base/json_read.h"

#include "base/err.h"

#include <stdlib.h>
#include <string.h>

enum { DEEPEST = 64 };

typedef struct scan {
    const char *at, *end;
} scan;

static int broken(const scan *s) {
    return larder__fail(LARDER_E_FORMAT, "this is no JSON from \"%.*s\" on",
                        (int)(s->end - s->at < 24 ? s->end - s->at : 24), s->at);
}

static void skip_blanks(scan *s) {
    while (s->at < s->end && (*s->at == ' ' || *s->at == '\n' || *s->at == '\t' || *s->at == '\r'))
        s->at++;
}

static bool take(scan *s, char c) {
    skip_blanks(s);
    if (s->at >= s->end || *s->at != c)
        return false;
    s->at++;
    return true;
}

static int skip_text(scan *s) {
    if (!take(s, '"'))
        return broken(s);
    for (; s->at < s->end && *s->at != '"'; s->at++)
        if (*s->at == '\\' && ++s->at >= s->end)
            break;
    if (s->at >= s->end)
        return broken(s);
    s->at++;
    return 0;
}

static bool skip_word(scan *s, const char *word) {
    size_t n = strlen(word);
    if ((size_t)(s->end - s->at) < n || memcmp(s->at, word, n) != 0)
        return false;
    s->at += n;
    return true;
}

static bool skip_number(scan *s) {
    const char *from = s->at;
    while (s->at < s->end && *s->at && strchr("+-0123456789.eE", *s->at))
        s->at++;
    return s->at > from;
}

/* Past one value, without calling itself: brackets are kept in a row of bits. */
static int skip_value(scan *s, larder__json_value *out) {
    uint64_t objects = 0;
    unsigned depth = 0;
    skip_blanks(s);
    larder__json_value v = {LARDER__JSON_NULL, s->at, 0};
    for (bool first = true;; first = false) {
        larder__json_type type;
        skip_blanks(s);
        char c = s->at < s->end ? *s->at : 0;
        bool opened = false;
        if (c == '{' || c == '[') {
            type = c == '{' ? LARDER__JSON_OBJECT : LARDER__JSON_ARRAY;
            s->at++;
            if (depth == DEEPEST)
                return larder__fail(LARDER_E_FORMAT, "JSON deeper than %d brackets", DEEPEST);
            objects = objects << 1 | (c == '{');
            depth++;
            opened = !take(s, c == '{' ? '}' : ']');
            if (!opened) {
                depth--;
                objects >>= 1;
            }
        } else if (c == '"') {
            type = LARDER__JSON_TEXT;
            if (skip_text(s) < 0)
                return LARDER_E_FORMAT;
        } else if (skip_word(s, "true") || skip_word(s, "false"))
            type = LARDER__JSON_BOOL;
        else if (skip_word(s, "null") || skip_word(s, "NaN") || skip_word(s, "Infinity"))
            type = LARDER__JSON_NULL; /* Python writes the last two */
        else if (skip_number(s))
            type = LARDER__JSON_NUMBER;
        else
            return broken(s);
        if (first)
            v.type = type;
        while (depth && !opened) {
            if (take(s, ','))
                break;
            if (!take(s, objects & 1 ? '}' : ']'))
                return broken(s);
            depth--;
            objects >>= 1;
        }
        if (depth == 0)
            break;
        if ((objects & 1) && (skip_text(s) < 0 || !take(s, ':')))
            return broken(s);
    }
    v.n = (size_t)(s->at - v.at);
    *out = v;
    return 0;
}

/* ---- a path ---------------------------------------------------------------------------------- */

/* The first step of a path as it is, and where the next begins. */
static const char *next_step(const char *path, char *out, size_t cap) {
    size_t n = 0;
    while (*path && *path != '.') {
        path += path[0] == '\\' && path[1] == '.';
        if (n + 1 < cap)
            out[n++] = *path;
        path++;
    }
    out[n] = 0;
    return path + (*path == '.');
}

static bool key_is(const larder__json_value *key, const char *step) {
    char name[256];
    size_t n;
    if (key->n < 2 || key->n > sizeof name)
        return false;
    return larder__json_unescape(key, name, &n) == 0 && strlen(step) == n &&
           memcmp(name, step, n) == 0;
}

/* Into an object or array: leaves the scan before the value of this step. */
static int enter(scan *s, const char *step, bool *found) {
    bool object = take(s, '{');
    *found = false;
    if (!object && !take(s, '['))
        return 0;
    if (take(s, object ? '}' : ']'))
        return 0;
    char *end;
    unsigned long long want = strtoull(step, &end, 10), i = 0;
    bool numbered = !object && *step >= '0' && *step <= '9' && !*end;
    for (;; i++) {
        larder__json_value key, value;
        if (object) {
            skip_blanks(s);
            key = (larder__json_value){LARDER__JSON_TEXT, s->at, 0};
            if (skip_text(s) < 0)
                return LARDER_E_FORMAT;
            key.n = (size_t)(s->at - key.at);
            if (!take(s, ':'))
                return broken(s);
            *found = key_is(&key, step);
        } else
            *found = numbered && i == want;
        if (*found)
            return 0;
        if (skip_value(s, &value) < 0)
            return LARDER_E_FORMAT;
        if (take(s, ','))
            continue;
        return take(s, object ? '}' : ']') ? 0 : broken(s);
    }
}

int larder__json_find(const char *text, size_t n, const char *path, larder__json_value *out) {
    scan s = {text, text + n};
    for (const char *rest = path; *rest;) {
        char step[128];
        bool found;
        rest = next_step(rest, step, sizeof step);
        int rc = enter(&s, step, &found);
        if (rc < 0)
            return rc;
        if (!found)
            return larder__fail(LARDER_E_NOTFOUND, "its JSON has no \"%.100s\"", path);
    }
    int rc = skip_value(&s, out);
    skip_blanks(&s);
    return rc == 0 && !*path && s.at != s.end ? broken(&s) : rc;
}

/* ---- values ---------------------------------------------------------------------------------- */

int larder__json_number(const larder__json_value *v, double *out, int64_t *integer, bool *whole) {
    char text[64], *end;
    *whole = true;
    if (v->type == LARDER__JSON_BOOL) {
        *integer = v->at[0] == 't';
        *out = (double)*integer;
        return 0;
    }
    if (v->type != LARDER__JSON_NUMBER || v->n >= sizeof text)
        return larder__fail(LARDER_E_FORMAT, "\"%.*s\" is no number", (int)(v->n < 40 ? v->n : 40),
                            v->at);
    memcpy(text, v->at, v->n);
    text[v->n] = 0;
    *whole = strpbrk(text, ".eE") == NULL;
    errno = 0;
    *integer = *whole ? strtoll(text, &end, 10) : 0;
    *whole &= errno == 0;
    *out = strtod(text, &end);
    return *end ? larder__fail(LARDER_E_FORMAT, "\"%s\" is no number", text) : 0;
}

typedef struct numbers {
    double *out;
    int64_t *integers;
    size_t most, n;
    uint64_t *shape;
    uint32_t ndim, ndim_most;
    bool whole, known; /* the first number told how deep it goes */
} numbers;

static int take_number(scan *s, numbers *k, unsigned depth) {
    larder__json_value v;
    double d;
    int64_t i;
    bool whole;
    if (k->known && depth != k->ndim)
        return larder__fail(LARDER_E_FORMAT, "its rows are not all of one shape");
    k->known = true;
    k->ndim = depth;
    int rc = skip_value(s, &v);
    if (rc == 0)
        rc = larder__json_number(&v, &d, &i, &whole);
    if (rc < 0)
        return rc;
    k->whole &= whole;
    if (k->n < k->most) {
        k->out[k->n] = d;
        if (k->integers)
            k->integers[k->n] = i;
    }
    k->n++;
    return 0;
}

/* A bracket closes: as many elements as the others of this depth had? */
static int close_row(numbers *k, bool *seen, unsigned depth, uint64_t count) {
    if (seen[depth] && k->shape[depth] != count)
        return larder__fail(LARDER_E_FORMAT, "its rows are not all of one shape");
    seen[depth] = true;
    k->shape[depth] = count;
    return 0;
}

int larder__json_numbers(const larder__json_value *v, double *out, int64_t *integers, size_t most,
                         size_t *n, uint64_t *shape, uint32_t *ndim, uint32_t ndim_most,
                         bool *whole) {
    scan s = {v->at, v->at + v->n};
    numbers k = {out, integers, most, 0, shape, 0, ndim_most, true, false};
    uint64_t counts[16] = {0};
    bool seen[16] = {false};
    unsigned depth = 0, deepest = 0;
    int rc = 0;
    if (v->type != LARDER__JSON_ARRAY || ndim_most > 16)
        return larder__fail(LARDER_E_FORMAT, "it is no array of numbers");
    do {
        if (take(&s, '[')) {
            if (depth == ndim_most || (k.known && depth == k.ndim))
                return larder__fail(LARDER_E_FORMAT, "its rows are not all of one shape");
            counts[depth++] = 0;
            deepest = depth > deepest ? depth : deepest;
            if (!take(&s, ']'))
                continue;
        } else if (depth < deepest) /* beside a number lies an array, be it empty */
            return larder__fail(LARDER_E_FORMAT, "its rows are not all of one shape");
        else if ((rc = take_number(&s, &k, depth)) < 0)
            return rc;
        else {
            counts[depth - 1]++;
            if (take(&s, ','))
                continue;
            if (!take(&s, ']'))
                return broken(&s);
        }
        /* One bracket is closed; more may follow. */
        for (;;) {
            depth--;
            if ((rc = close_row(&k, seen, depth, counts[depth])) < 0)
                return rc;
            if (depth == 0)
                break;
            counts[depth - 1]++;
            if (take(&s, ','))
                break;
            if (!take(&s, ']'))
                return broken(&s);
        }
    } while (depth > 0);
    *ndim = k.known ? k.ndim : deepest;
    *n = k.n;
    *whole = k.whole && k.known;
    return 0;
}

static unsigned hex4(const char *at) {
    unsigned v = 0;
    for (int i = 0; i < 4; i++) {
        char c = at[i];
        unsigned d = c >= '0' && c <= '9'   ? (unsigned)(c - '0')
                     : c >= 'a' && c <= 'f' ? (unsigned)(c - 'a') + 10
                     : c >= 'A' && c <= 'F' ? (unsigned)(c - 'A') + 10
                                            : 16;
        if (d == 16)
            return UINT32_MAX;
        v = v << 4 | d;
    }
    return v;
}

static size_t put_utf8(char *out, unsigned c) {
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    size_t n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (size_t i = n - 1; i > 0; i--, c >>= 6)
        out[i] = (char)(0x80 | (c & 0x3f));
    out[0] = (char)((n == 2 ? 0xc0 : n == 3 ? 0xe0 : 0xf0) | c);
    return n;
}

/* After "\u": a pair of surrogates is one character; half of one is none, and becomes U+FFFD. */
static const char *take_unicode(const char *at, const char *end, unsigned *out) {
    unsigned c = end - at >= 4 ? hex4(at) : UINT32_MAX;
    if (c == UINT32_MAX)
        return NULL;
    at += 4;
    if (c >= 0xd800 && c < 0xdc00 && end - at >= 6 && at[0] == '\\' && at[1] == 'u') {
        unsigned low = hex4(at + 2);
        if (low >= 0xdc00 && low < 0xe000) {
            *out = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
            return at + 6;
        }
    }
    *out = c >= 0xd800 && c < 0xe000 ? 0xfffd : c;
    return at;
}

int larder__json_unescape(const larder__json_value *v, char *out, size_t *n) {
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    if (v->type != LARDER__JSON_TEXT || v->n < 2)
        return larder__fail(LARDER_E_FORMAT, "it is no text");
    const char *at = v->at + 1, *end = v->at + v->n - 1;
    *n = 0;
    while (at < end) {
        if (*at != '\\') {
            out[(*n)++] = *at++;
            continue;
        }
        const char *known = at + 1 < end && at[1] ? strchr(from, at[1]) : NULL;
        unsigned c;
        if (known) {
            out[(*n)++] = to[known - from];
            at += 2;
        } else if (end - at >= 2 && at[1] == 'u' && (at = take_unicode(at + 2, end, &c)))
            *n += put_utf8(out + *n, c);
        else
            return larder__fail(LARDER_E_FORMAT, "an escape in its text is none of JSON's");
    }
    return 0;
}
