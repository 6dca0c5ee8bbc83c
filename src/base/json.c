#include "base/json.h"

#include "base/escape.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>

/* A byte that is no UTF-8 becomes \udcXX, which Python's surrogateescape turns back into it. What a
 * terminal would obey is escaped as well: the text that is read back is the same. */
static void quoted(FILE *to, const char *s) {
    fputc('"', to);
    while (*s) {
        size_t n = larder__utf8_length(s);
        unsigned code = n ? larder__hidden(s, n) : 0xdc00u + (unsigned char)*s;
        if (*s == '"' || *s == '\\')
            fprintf(to, "\\%c", *s);
        else if (code)
            fprintf(to, "\\u%04x", code);
        else
            fwrite(s, 1, n, to);
        s += n ? n : 1;
    }
    fputc('"', to);
}

static void lead(larder__json *j, const char *key) {
    if (j->filled[j->depth])
        fputs(", ", j->to);
    j->filled[j->depth] = true;
    if (key) {
        quoted(j->to, key);
        fputs(": ", j->to);
    }
}

void larder__json_open(larder__json *j, const char *key, char bracket) {
    lead(j, key);
    fputc(bracket, j->to);
    j->depth++;
    assert(j->depth < 32);
    j->filled[j->depth] = false;
}

void larder__json_close(larder__json *j, char bracket) {
    j->depth--;
    fputc(bracket, j->to);
    if (j->depth == 0)
        fputc('\n', j->to);
}

void larder__json_text(larder__json *j, const char *key, const char *value) {
    lead(j, key);
    quoted(j->to, value);
}

void larder__json_u64(larder__json *j, const char *key, uint64_t value) {
    lead(j, key);
    fprintf(j->to, "%" PRIu64, value);
}

void larder__json_f64(larder__json *j, const char *key, double value) {
    lead(j, key);
    if (!isfinite(value))
        fputs("null", j->to);
    else
        fprintf(j->to, "%.9g", value);
}

void larder__json_bool(larder__json *j, const char *key, bool value) {
    lead(j, key);
    fputs(value ? "true" : "false", j->to);
}

void larder__json_begin(larder__json *j) {
    larder__json_open(j, NULL, '{');
    if (j->depth == 1)
        larder__json_u64(j, "schema", LARDER__JSON_SCHEMA);
}
