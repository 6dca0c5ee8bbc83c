#include "source/web/listed.h"

#include "base/err.h"
#include "base/spec.h"

#include <string.h>

static int wrong(const char *label, uint64_t line, const char *what) {
    return larder__fail(LARDER_E_FORMAT, "%s: line %llu %s", label, (unsigned long long)line, what);
}

static int take_line(const char *label, uint64_t line, const char *text, size_t n,
                     larder__listed_fn fn, void *arg) {
    larder__listed l = {.name = text, .n = n, .bytes = LARDER__BYTES_UNKNOWN, .label = -1};
    const char *end = text + n, *tab = memchr(text, '\t', n);
    if (tab) {
        const char *size = tab + 1, *next = memchr(size, '\t', (size_t)(end - size));
        size_t size_n = (size_t)((next ? next : end) - size);
        l.n = (size_t)(tab - text);
        if (!(size_n == 1 && size[0] == '-') &&
            (!larder__parse_digits(size, size_n, &l.bytes) || l.bytes == LARDER__BYTES_UNKNOWN))
            return wrong(label, line, "has a size that is no number of bytes");
        uint64_t class;
        if (next && (!larder__parse_digits(next + 1, (size_t)(end - next - 1), &class) ||
                     class > INT32_MAX))
            return wrong(label, line, "has a class that is no number of 0 to 2147483647");
        if (next)
            l.label = (int32_t) class;
    }
    if (l.n == 0 || l.n >= LARDER__KEY_MAX || memchr(text, 0, l.n))
        return wrong(label, line, "has no name, one that is too long or one with a zero byte");
    if (memmem(text, l.n, "://", 3))
        return wrong(label, line, "names another site; paths are relative to the manifest");
    return fn(arg, &l);
}

int larder__manifest_parse(char *bytes, size_t n, const char *label, larder__listed_fn fn,
                           void *arg) {
    const char *end = bytes + n;
    uint64_t line = 1;
    int rc = 0;
    for (const char *at = bytes; rc == 0 && at < end; line++) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        size_t size = (size_t)((stop ? stop : end) - at);
        if (size && at[size - 1] == '\r')
            size--;
        if (size && at[0] != '#')
            rc = take_line(label, line, at, size, fn, arg);
        at = stop ? stop + 1 : end;
    }
    return rc;
}

bool larder__stays_below(const char *path) {
    if (path[0] == '/')
        return false;
    for (const char *at = path; at; at = strchr(at, '/'), at = at ? at + 1 : NULL)
        if (at[0] == '.' && at[1] == '.' && (at[2] == '/' || !at[2]))
            return false;
    return true;
}
