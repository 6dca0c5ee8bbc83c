#include "source/web/xml_scan.h"

#include "base/err.h"
#include "source/web/web_text.h"

#include <string.h>

enum { KEPT = 8, DEEPEST = 64 };

void larder__xml_begin(larder__xml *x, char *bytes, size_t n) {
    *x = (larder__xml){.at = bytes, .end = bytes + n};
}

static bool named(const larder__xml *x, unsigned level, const char *name) {
    return level >= 1 && level <= KEPT && level <= x->depth &&
           x->path_size[level - 1] == strlen(name) &&
           memcmp(x->path[level - 1], name, x->path_size[level - 1]) == 0;
}

bool larder__xml_is(const larder__xml *x, const char *name) { return named(x, x->depth, name); }

bool larder__xml_within(const larder__xml *x, const char *name) {
    return x->depth > 1 && named(x, x->depth - 1, name);
}

static int wrong(const char *what) { return larder__fail(LARDER_E_FORMAT, "XML with %s", what); }

static bool begins(const larder__xml *x, const char *with) {
    return (size_t)(x->end - x->at) >= strlen(with) && memcmp(x->at, with, strlen(with)) == 0;
}

/* Behind `closing`, from here on. */
static int skip_past(larder__xml *x, const char *closing) {
    char *found = memmem(x->at, (size_t)(x->end - x->at), closing, strlen(closing));
    if (!found)
        return wrong("no end");
    x->at = found + strlen(closing);
    return 0;
}

static int open_element(larder__xml *x, const char *name, size_t n) {
    const char *colon = memchr(name, ':', n);
    if (x->depth >= DEEPEST)
        return wrong("too many elements in each other");
    if (colon) {
        n -= (size_t)(colon + 1 - name);
        name = colon + 1;
    }
    if (x->depth < KEPT) {
        x->path[x->depth] = name;
        x->path_size[x->depth] = n;
    }
    x->depth++;
    x->leaf = true;
    x->text = x->at;
    return LARDER__XML_OPEN;
}

/* At '<' of a tag that opens or closes an element. */
static int take_tag(larder__xml *x) {
    char *tag = x->at + 1;
    char *end = memchr(tag, '>', (size_t)(x->end - tag));
    if (!end)
        return wrong("a tag that does not end");
    if (*tag == '/') {
        if (x->depth == 0)
            return wrong("an end that has no beginning");
        x->text_size = x->leaf && x->text
                           ? larder__text_unentity((char *)x->text, (size_t)(x->at - x->text))
                           : 0;
        x->leaf = false;
        x->closing = true;
        x->at = end + 1;
        return LARDER__XML_CLOSE;
    }
    size_t n = 0;
    while (tag + n < end && !strchr(" \t\r\n/", tag[n]))
        n++;
    if (n == 0)
        return wrong("a tag without a name");
    x->at = end + 1;
    x->empty = end > tag && end[-1] == '/';
    return open_element(x, tag, n);
}

int larder__xml_next(larder__xml *x) {
    static const struct { const char *begin, *end; } skipped[] = {{"<?", "?>"}, {"<!--", "-->"}};
    if (x->empty) {
        x->empty = false;
        x->leaf = false;
        x->closing = true;
        x->text_size = 0;
        return LARDER__XML_CLOSE;
    }
    if (x->closing) { /* the element stays the last of `path` until the next call */
        x->depth--;
        x->closing = false;
    }
    for (;;) {
        char *next = memchr(x->at, '<', (size_t)(x->end - x->at));
        if (!next)
            return x->depth == 0 ? LARDER__XML_END : wrong("an element that does not end");
        x->at = next;
        bool other = false;
        for (size_t i = 0; i < 2; i++)
            if (begins(x, skipped[i].begin)) {
                int rc = skip_past(x, skipped[i].end);
                if (rc < 0)
                    return rc;
                x->leaf = false;
                other = true;
                break;
            }
        if (other)
            continue;
        if (begins(x, "<!"))
            return wrong("a declaration of its own, which is not read");
        return take_tag(x);
    }
}
