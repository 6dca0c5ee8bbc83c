/* Pages that servers make of a folder. HTML is read for its links alone, so that nginx, Apache and
 * Python's server will do; nginx also says sizes. */
#include "source/web/listed.h"

#include "base/err.h"
#include "base/object.h"
#include "source/web/web_text.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

/* ---- HTML ------------------------------------------------------------------------------------ */

enum { NEAR = 8192 }; /* bytes behind a link in which its end and size are looked for */

/* Where `word` begins in [at, end), whatever its case; NULL: nowhere. */
static char *find_word(char *at, const char *end, const char *word) {
    size_t n = strlen(word);
    for (; at < end && (size_t)(end - at) >= n; at++)
        if (strncasecmp(at, word, n) == 0)
            return at;
    return NULL;
}

/* A size in bytes at the end of what follows a link, as nginx writes it: "15-Nov-2026 14:25  1234".
 * Rounded ones ("12K") do not help. */
static uint64_t size_after(const char *at, const char *end) {
    while (at < end && isspace((unsigned char)end[-1]))
        end--;
    const char *digits = end;
    uint64_t v = 0;
    while (digits > at && isdigit((unsigned char)digits[-1]))
        digits--;
    if (digits == end || end - digits > 18 || digits == at || !isspace((unsigned char)digits[-1]))
        return LARDER__BYTES_UNKNOWN;
    for (; digits < end; digits++)
        v = v * 10 + (uint64_t)(*digits - '0');
    return v;
}

/* A link to something in this folder: no other site, no way up, no order of the columns. */
static bool lies_here(const char *name, size_t n) {
    const char *slash = memchr(name, '/', n), *colon = memchr(name, ':', n);
    if (n == 0 || n >= LARDER__KEY_MAX || strchr("?#/", name[0]) || memchr(name, 0, n))
        return false;
    if (colon && colon[1] == '/' && slash == colon + 1)
        return false;
    if (slash && slash != name + n - 1)
        return false;
    return strncmp(name, "./", n) != 0 && strncmp(name, "../", n) != 0;
}

static int parse_html(char *bytes, size_t n, larder__listed_fn fn, void *arg) {
    const char *end = bytes + n;
    int rc = 0;
    for (char *at = bytes; rc == 0 && (at = find_word(at, end, "href=\""));) {
        char *name = at + 6, *quote = memchr(name, '"', (size_t)(end - name));
        if (!quote)
            break;
        size_t size = larder__text_unentity(name, (size_t)(quote - name));
        size_t cut = 0; /* a query or fragment is not part of the name */
        while (cut < size && name[cut] && (cut == 0 || !strchr("?#", name[cut])))
            cut++;
        size = larder__text_unescape(name, cut, false);
        bool mine = lies_here(name, size);
        const char *near = end - quote < NEAR ? end : quote + NEAR;
        char *close = find_word(quote, near, "</a>");
        const char *line = close ? memchr(close, '\n', (size_t)(near - close)) : NULL;
        if (mine) {
            larder__listed l = {.name = name,
                                .n = size,
                                .folder = name[size - 1] == '/',
                                .bytes = LARDER__BYTES_UNKNOWN,
                                .label = -1};
            if (close && !l.folder)
                l.bytes = size_after(close + 4, line ? line : near);
            rc = fn(arg, &l);
        }
        at = quote + 1;
    }
    return rc;
}

/* ---- JSON ------------------------------------------------------------------------------------ */

typedef struct member {
    char name[256 + 1];
    bool folder, known; /* known: a file or a folder */
    uint64_t bytes;
} member;

static int take_member(void *arg, const char *key, const larder__object_value *v) {
    member *m = arg;
    if (v->is_text && strcmp(key, "name") == 0) {
        memcpy(m->name, v->text, strlen(v->text) + 1);
    } else if (v->is_text && strcmp(key, "type") == 0) {
        m->folder = strcmp(v->text, "directory") == 0;
        m->known = m->folder || strcmp(v->text, "file") == 0;
    } else if (!v->is_text && v->is_integer && strcmp(key, "size") == 0) {
        m->bytes = v->whole;
    }
    return 0;
}

/* Behind the object that begins at `at`; NULL: it does not end. */
static char *object_end(char *at, const char *end) {
    bool text = false;
    for (; at < end; at++) {
        if (text && *at == '\\')
            at++;
        else if (*at == '"')
            text = !text;
        else if (!text && *at == '}')
            return at + 1;
    }
    return NULL;
}

static int parse_json(char *bytes, size_t n, larder__listed_fn fn, void *arg) {
    const char *end = bytes + n;
    int rc = 0;
    for (char *at = bytes; rc == 0 && (at = memchr(at, '{', (size_t)(end - at)));) {
        char *stop = object_end(at, end);
        if (!stop || stop == end) /* an array must end behind it */
            return larder__fail(LARDER_E_FORMAT, "the page of a folder is cut short");
        char kept = *stop;
        member m = {.bytes = LARDER__BYTES_UNKNOWN};
        *stop = 0;
        rc = larder__object_parse(at, "the page of a folder", take_member, &m);
        *stop = kept;
        at = stop;
        if (rc < 0 || !m.known || !m.name[0] || strchr(m.name, '/'))
            continue;
        if (m.folder)
            memcpy(m.name + strlen(m.name), "/", 2);
        larder__listed l = {.name = m.name,
                            .n = strlen(m.name),
                            .folder = m.folder,
                            .bytes = m.folder ? LARDER__BYTES_UNKNOWN : m.bytes,
                            .label = -1};
        rc = fn(arg, &l);
    }
    return rc;
}

bool larder__page_is_whole(const char *bytes, size_t n) {
    static const char end[] = "</html";
    size_t at = 0;
    while (at < n && isspace((unsigned char)bytes[at]))
        at++;
    while (n > at && isspace((unsigned char)bytes[n - 1]))
        n--;
    if (at < n && bytes[at] == '[')
        return bytes[n - 1] == ']';
    for (size_t last = n; last > at && n - last < NEAR; last--)
        if (n - last >= sizeof end - 1 && strncasecmp(bytes + last, end, sizeof end - 1) == 0)
            return true;
    return false;
}

int larder__page_parse(char *bytes, size_t n, larder__listed_fn fn, void *arg) {
    size_t at = 0;
    while (at < n && isspace((unsigned char)bytes[at]))
        at++;
    if (at < n && bytes[at] == '[')
        return parse_json(bytes, n, fn, arg);
    if (!find_word(bytes, bytes + n, "href=\""))
        return larder__fail(LARDER_E_FORMAT, "this is no page of a folder: it has no links");
    return parse_html(bytes, n, fn, arg);
}
