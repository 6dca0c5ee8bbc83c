#include "source/shards.h"

#include "base/err.h"
#include "base/mem.h"
#include "source/split.h"

#include <ctype.h>
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST_SHARDS = 1000000 };

/* ---- one pattern without braces -------------------------------------------------------------------------- */

static int add(larder__names *out, const char *path) {
    if (out->count == MOST_SHARDS)
        return larder__fail(LARDER_E_RANGE, "the pattern means more than %d shards", MOST_SHARDS);
    return larder__names_add(out, path, strlen(path));
}

static const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* The files of a folder may be parts by name: train-0.tar beside val-0.tar. */
static int add_part(larder__names *out, const char *folder, const glob_t *g, const char *split) {
    size_t words[4] = {0};
    for (size_t i = 0; i < g->gl_pathc; i++)
        words[larder__split_word(base_name(g->gl_pathv[i]))]++;
    bool parts = words[1] && (words[2] || words[3]);
    int want = !parts || strcmp(split, "auto") == 0 || strcmp(split, "train") == 0 ? 1
               : strcmp(split, "test") == 0                                        ? (words[2] ? 2 : 3)
                                                                                   : (words[3] ? 3 : 2);
    if (!parts && strcmp(split, "auto") != 0)
        return larder__fail(LARDER_E_NOTFOUND, "%s: its shards are not named as train and test parts",
                            folder);
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < g->gl_pathc; i++)
        if (!parts || larder__split_word(base_name(g->gl_pathv[i])) == want)
            rc = add(out, g->gl_pathv[i]);
    return rc;
}

static int glob_code(int rc, const char *pattern) {
    if (rc == GLOB_NOMATCH)
        return larder__fail(LARDER_E_NOTFOUND, "no shard matches \"%.200s\"", pattern);
    return larder__fail(rc == GLOB_NOSPACE ? LARDER_E_NOMEM : LARDER_E_IO, "%.200s: cannot be listed",
                        pattern);
}

static int add_folder(larder__names *out, const char *where, const char *split) {
    char root[PATH_MAX], part[PATH_MAX], pattern[2 * PATH_MAX];
    glob_t g = {0};
    if (strpbrk(where, "*?["))
        return larder__fail(LARDER_E_ARGS, "%.200s: the folder's name reads as a pattern; write %.200s/*.tar",
                            where, where);
    snprintf(root, sizeof root, "%.*s", (int)sizeof root - 1, where);
    bool inside = larder__split_folder(where, split, part, sizeof part) == 0 && strcmp(part, where) != 0;
    const char *folder = inside ? part : root;
    snprintf(pattern, sizeof pattern, "%s/*.tar", folder);
    int rc = glob(pattern, 0, NULL, &g);
    rc = rc ? glob_code(rc, pattern) : add_part(out, folder, &g, inside ? "auto" : split);
    globfree(&g);
    return rc;
}

static int add_plain(larder__names *out, const char *path, const char *split) {
    if (larder__is_folder(path))
        return add_folder(out, path, split);
    if (!strpbrk(path, "*?[") || larder__is_file(path))
        return add(out, path);
    glob_t g = {0};
    int rc = glob(path, 0, NULL, &g);
    if (rc)
        rc = glob_code(rc, path);
    for (size_t i = 0; rc == 0 && i < g.gl_pathc; i++)
        rc = add(out, g.gl_pathv[i]);
    globfree(&g);
    return rc;
}

/* ---- braces ------------------------------------------------------------------------------------------------ */

static int expand(larder__names *out, const char *pattern, const char *split);

/* PATTERN with text[0..n) in place of its first braces. */
static int with(larder__names *out, const char *pattern, size_t open, size_t close, const char *text,
                size_t n, const char *split) {
    size_t rest = strlen(pattern + close + 1);
    if (open + n + rest >= PATH_MAX)
        return larder__fail(LARDER_E_ARGS, "\"%.100s…\" is too long", pattern);
    char *one = larder__malloc(open + n + rest + 1);
    if (!one)
        return LARDER_E_NOMEM;
    memcpy(one, pattern, open);
    memcpy(one + open, text, n);
    memcpy(one + open + n, pattern + close + 1, rest + 1);
    int rc = expand(out, one, split);
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

static int expand(larder__names *out, const char *pattern, const char *split) {
    size_t open = strcspn(pattern, "{"), close = open + strcspn(pattern + open, "}");
    if (!pattern[open])
        return add_plain(out, pattern, split);
    const char *text = pattern + open + 1;
    uint64_t from, to;
    int width, rc = 0;
    if (!pattern[close] || memchr(text, '{', close - open - 1))
        return larder__fail(LARDER_E_ARGS, "\"%.200s\": a brace is not closed, or lies in another", pattern);
    if (parse_range(text, close - open - 1, &from, &to, &width)) {
        if (to < from || to - from >= MOST_SHARDS)
            return larder__fail(LARDER_E_ARGS, "\"%.200s\": the range runs backwards or is over %d long",
                                pattern, MOST_SHARDS);
        for (uint64_t i = from; rc == 0 && i <= to; i++) {
            char number[32];
            int n = snprintf(number, sizeof number, "%0*llu", width, (unsigned long long)i);
            rc = with(out, pattern, open, close, number, (size_t)n, split);
        }
        return rc;
    }
    for (size_t at = 0, n; rc == 0 && at <= close - open - 1; at += n + 1) {
        n = strcspn(text + at, ",}");
        rc = with(out, pattern, open, close, text + at, n, split);
    }
    return rc;
}

int larder__shards_expand(larder__names *out, const char *patterns, const char *split) {
    char *copy = larder__strdup(patterns);
    int rc = copy ? 0 : LARDER_E_NOMEM, depth = 0;
    char *start = copy;
    for (char *c = copy; rc == 0 && c; c++) {
        depth += (*c == '{') - (*c == '}');
        if (*c && (*c != ',' || depth > 0))
            continue;
        bool last = !*c;
        *c = 0;
        rc = *start ? expand(out, start, split)
                    : larder__fail(LARDER_E_ARGS, "\"%.200s\": a shard's name is empty", patterns);
        start = c + 1;
        if (last)
            break;
    }
    larder__free(copy);
    return rc;
}
