#include "base/json.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>

static void quoted(FILE *to, const char *s) {
    fputc('"', to);
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;
        if (c == '"' || c == '\\')
            fprintf(to, "\\%c", c);
        else if (c < 0x20 || c == 0x7f)
            fprintf(to, "\\u%04x", c);
        else
            fputc(c, to);
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
