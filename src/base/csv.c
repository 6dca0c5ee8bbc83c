#include "base/csv.h"

#include "base/err.h"
#include "base/grow.h"

void larder__csv_begin(larder__csv *c, const char *path, char *text, size_t size) {
    *c = (larder__csv){.path = path, .text = text, .size = size, .next = 1, .separator = ','};
    text[size] = 0;
    if (size >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
        c->at = 3;
    size_t first = strcspn(text + c->at, "\r\n");
    if (!memchr(text + c->at, ',', first) && memchr(text + c->at, '\t', first))
        c->separator = '\t';
}

void larder__csv_free(larder__csv *c) {
    larder__free(c->fields);
    c->fields = NULL;
}

/* From the quote on; leaves `at` behind the closing one. */
static int take_quoted(larder__csv *c, char **out) {
    char *to = *out = c->text + c->at + 1;
    for (size_t at = c->at + 1; at < c->size; at++) {
        if (c->text[at] == '"' && c->text[at + 1] != '"') {
            c->at = at + 1;
            *to = 0;
            return 0;
        }
        at += c->text[at] == '"';
        c->next += c->text[at] == '\n';
        *to++ = c->text[at];
    }
    return larder__fail(LARDER_E_FORMAT, "%s line %llu: a quote is not closed", c->path,
                        (unsigned long long)c->line);
}

/* One field, and whether its line goes on. */
static int take_field(larder__csv *c, bool *more) {
    char *field = c->text + c->at;
    int rc = larder__grow(&c->fields, &c->cap, c->count + 1, sizeof *c->fields);
    if (rc == 0 && *field == '"')
        rc = take_quoted(c, &field);
    else
        while (c->at < c->size && c->text[c->at] != c->separator && c->text[c->at] != '\n')
            c->at++;
    if (rc < 0)
        return rc;
    char *end = c->text + c->at;
    if (*end == '\r' && c->at + 1 <= c->size && end[1] == '\n')
        end++, c->at++;
    if (c->at < c->size && *end != c->separator && *end != '\n')
        return larder__fail(LARDER_E_FORMAT, "%s line %llu: something follows a closing quote",
                            c->path, (unsigned long long)c->line);
    *more = c->at < c->size && *end == c->separator;
    c->next += c->at < c->size && *end == '\n';
    *end = 0;
    if (end > field && end[-1] == '\r')
        end[-1] = 0;
    c->at += c->at < c->size;
    c->fields[c->count++] = field;
    return 0;
}

int larder__csv_next(larder__csv *c) {
    if (c->line == 0 && memchr(c->text + c->at, 0, c->size - c->at)) /* once */
        return larder__fail(LARDER_E_FORMAT, "%s line %llu: a zero byte, this is no text", c->path,
                            (unsigned long long)c->next);
    while (c->at < c->size) {
        bool more = true;
        c->count = 0;
        c->line = c->next;
        for (int rc; more;)
            if ((rc = take_field(c, &more)) < 0)
                return rc;
        if (c->count > 1 || c->fields[0][0])
            return 1;
    }
    return 0;
}
