#include "source/braces.h"

#include "base/err.h"
#include "base/mem.h"

#include <ctype.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct taker {
    larder__pattern_fn fn;
    void *arg;
} taker;

static int expand(const taker *to, const char *pattern);

/* PATTERN with text[0..n) in place of its first braces. */
static int with(const taker *to, const char *pattern, size_t open, size_t close, const char *text,
                size_t n) {
    size_t rest = strlen(pattern + close + 1);
    if (open + n + rest >= PATH_MAX)
        return larder__fail(LARDER_E_ARGS, "\"%.100s…\" is too long", pattern);
    char *one = larder__malloc(open + n + rest + 1);
    if (!one)
        return LARDER_E_NOMEM;
    memcpy(one, pattern, open);
    memcpy(one + open, text, n);
    memcpy(one + open + n, pattern + close + 1, rest + 1);
    int rc = expand(to, one);
    larder__free(one);
    return rc;
}

/* "000..009" within the braces; 0 when it is not of that form. */
static int parse_range(const char *text, size_t n, uint64_t *from, uint64_t *to, int *width) {
    size_t a = 0, b;
    while (a < n && isdigit((unsigned char)text[a]))
        a++;
    if (a == 0 || a > 18 || a + 2 >= n || text[a] != '.' || text[a + 1] != '.')
        return 0;
    for (b = a + 2; b < n && isdigit((unsigned char)text[b]);)
        b++;
    if (b != n || b - a - 2 > 18)
        return 0;
    *from = strtoull(text, NULL, 10);
    *to = strtoull(text + a + 2, NULL, 10);
    *width = text[0] == '0' ? (int)a : 0;
    return 1;
}

static int expand(const taker *to, const char *pattern) {
    size_t open = strcspn(pattern, "{"), close = open + strcspn(pattern + open, "}");
    if (!pattern[open])
        return to->fn(to->arg, pattern);
    const char *text = pattern + open + 1;
    uint64_t from, last;
    int width, rc = 0;
    if (!pattern[close] || memchr(text, '{', close - open - 1))
        return larder__fail(LARDER_E_ARGS, "\"%.200s\": a brace is not closed, or lies in another",
                            pattern);
    if (parse_range(text, close - open - 1, &from, &last, &width)) {
        if (last < from || last - from >= LARDER__MOST_SHARDS)
            return larder__fail(LARDER_E_ARGS,
                                "\"%.200s\": the range runs backwards or is over %d long", pattern,
                                LARDER__MOST_SHARDS);
        for (uint64_t i = from; rc == 0 && i <= last; i++) {
            char number[32];
            int n = snprintf(number, sizeof number, "%0*llu", width, (unsigned long long)i);
            rc = with(to, pattern, open, close, number, (size_t)n);
        }
        return rc;
    }
    for (size_t at = 0, n; rc == 0 && at <= close - open - 1; at += n + 1) {
        n = strcspn(text + at, ",}");
        rc = with(to, pattern, open, close, text + at, n);
    }
    return rc;
}

int larder__braces_expand(const char *patterns, larder__pattern_fn fn, void *arg) {
    const taker to = {fn, arg};
    char *copy = larder__strdup(patterns);
    int rc = copy ? 0 : LARDER_E_NOMEM, depth = 0;
    char *start = copy;
    for (char *c = copy; rc == 0 && c; c++) {
        depth += (*c == '{') - (*c == '}');
        if (*c && (*c != ',' || depth > 0))
            continue;
        bool last = !*c;
        *c = 0;
        rc = *start ? expand(&to, start)
                    : larder__fail(LARDER_E_ARGS, "\"%.200s\": a shard's name is empty", patterns);
        start = c + 1;
        if (last)
            break;
    }
    larder__free(copy);
    return rc;
}
