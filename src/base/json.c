#include "base/json.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>

/* Bytes of the UTF-8 sequence at s; 0: it is none. File names may be any bytes. */
static size_t utf8_length(const unsigned char *s) {
    size_t n = s[0] < 0x80   ? 1
               : s[0] < 0xc2 ? 0
               : s[0] < 0xe0 ? 2
               : s[0] < 0xf0 ? 3
               : s[0] < 0xf5 ? 4
                             : 0;
    for (size_t i = 1; i < n; i++)
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    bool overlong = (s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xf0 && s[1] < 0x90);
    bool surrogate = s[0] == 0xed && s[1] > 0x9f, beyond = s[0] == 0xf4 && s[1] > 0x8f;
    return overlong || surrogate || beyond ? 0 : n;
}

/* A byte that is no UTF-8 becomes \udcXX, which Python's surrogateescape turns back into it. */
static void quoted(FILE *to, const char *text) {
    fputc('"', to);
    for (const unsigned char *s = (const unsigned char *)text; *s;) {
        size_t n = utf8_length(s);
        if (*s == '"' || *s == '\\')
            fprintf(to, "\\%c", *s);
        else if (n == 0 || *s < 0x20 || *s == 0x7f)
            fprintf(to, "\\u%04x", n ? *s : 0xdc00u + *s);
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
