#include "source/web/web_text.h"

#include "base/grow.h"
#include "base/mem.h"

#include <stdint.h>
#include <stdlib.h>
#include <strings.h>

void larder__text_add(larder__text *t, const char *bytes, size_t n) {
    if (t->failed || larder__grow(&t->at, &t->cap, t->n + n + 1, 1) < 0) {
        t->failed = true;
        return;
    }
    if (n)
        memcpy(t->at + t->n, bytes, n);
    t->n += n;
    t->at[t->n] = 0;
}

void larder__text_put(larder__text *t, const char *text) {
    larder__text_add(t, text, strlen(text));
}

void larder__text_free(larder__text *t) {
    larder__free(t->at);
    *t = (larder__text){0};
}

static bool plain(unsigned char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '.' || c == '_' || c == '~';
}

void larder__text_escaped(larder__text *t, const char *bytes, size_t n, bool path) {
    static const char digits[] = "0123456789ABCDEF";
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)bytes[i];
        if (plain(c) || (path && c == '/')) {
            larder__text_add(t, bytes + i, 1);
        } else {
            char three[3] = {'%', digits[c >> 4], digits[c & 15]};
            larder__text_add(t, three, 3);
        }
    }
}

static int digit(char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

size_t larder__text_unescape(char *text, size_t n, bool form) {
    size_t to = 0;
    for (size_t i = 0; i < n; i++) {
        int high = text[i] == '%' && n - i > 2 ? digit(text[i + 1]) : -1;
        int low = high >= 0 ? digit(text[i + 2]) : -1;
        int c = high * 16 + low;
        if (low >= 0 && c != 0) {
            text[to++] = (char)c;
            i += 2;
        } else {
            text[to++] = form && text[i] == '+' ? ' ' : text[i];
        }
    }
    return to;
}

/* A character as UTF-8; returns its bytes, 0 for what is none. */
static size_t utf8(uint32_t c, char out[4]) {
    if (c == 0 || c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
        return 0;
    size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    static const unsigned char first[] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (size_t i = n - 1; i > 0; i--, c >>= 6)
        out[i] = (char)(0x80 | (c & 0x3f));
    out[0] = (char)(first[n] | c);
    return n;
}

/* text[0..n) begins with '&': the bytes it means, and how much of the text that is; 0: nothing
 * known. */
static size_t entity(const char *text, size_t n, char out[4], size_t *length) {
    static const struct {
        const char *name;
        char means;
    } known[] = {{"&amp;", '&'}, {"&lt;", '<'}, {"&gt;", '>'}, {"&quot;", '"'}, {"&apos;", '\''}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        *length = strlen(known[i].name);
        if (*length <= n && memcmp(text, known[i].name, *length) == 0) {
            out[0] = known[i].means;
            return 1;
        }
    }
    if (n < 4 || text[1] != '#')
        return 0;
    bool hex = text[2] == 'x' || text[2] == 'X';
    uint32_t c = 0;
    size_t at = hex ? 3 : 2, begun = at;
    for (int d; at < n && at < 12 && (d = digit(text[at])) >= 0 && (hex || d < 10); at++)
        c = c * (hex ? 16 : 10) + (uint32_t)d;
    if (at == begun || at >= n || text[at] != ';')
        return 0;
    *length = at + 1;
    return utf8(c, out);
}

size_t larder__text_unentity(char *text, size_t n) {
    size_t to = 0;
    for (size_t i = 0; i < n;) {
        char means[4];
        size_t length = 1, bytes = text[i] == '&' ? entity(text + i, n - i, means, &length) : 0;
        if (bytes) { /* never longer than what it stands for */
            memcpy(text + to, means, bytes);
            to += bytes;
            i += length;
        } else {
            text[to++] = text[i++];
        }
    }
    return to;
}
