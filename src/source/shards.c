#include "source/shards.h"

#include "base/err.h"
#include "base/file.h"
#include "base/mem.h"
#include "source/braces.h"
#include "source/split.h"

#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- one pattern without braces -------------------------------------------------------------- */

static int too_many(void) {
    return larder__fail(LARDER_E_RANGE, "the pattern means more than %d shards",
                        LARDER__MOST_SHARDS);
}

static int add(larder__names *out, const char *path) {
    if (out->count == LARDER__MOST_SHARDS)
        return too_many();
    return larder__names_add(out, path, strlen(path));
}

static int add_part(larder__names *out, const char *folder, const glob_t *g, const char *split) {
    size_t words[4] = {0};
    for (size_t i = 0; i < g->gl_pathc; i++)
        words[larder__split_word(larder__name_in(g->gl_pathv[i]))]++;
    int want = larder__split_wanted(words, split, folder), rc = want < 0 ? want : 0;
    for (size_t i = 0; rc == 0 && i < g->gl_pathc; i++)
        if (want == 0 || larder__split_word(larder__name_in(g->gl_pathv[i])) == want)
            rc = add(out, g->gl_pathv[i]);
    return rc;
}

static int glob_code(int rc, const char *pattern) {
    if (rc == GLOB_NOMATCH)
        return larder__fail(LARDER_E_NOTFOUND, "no shard matches \"%.200s\"", pattern);
    return larder__fail(rc == GLOB_NOSPACE ? LARDER_E_NOMEM : LARDER_E_IO,
                        "%.200s: cannot be listed", pattern);
}

static int add_folder(larder__names *out, const char *where, const char *split) {
    char root[PATH_MAX], part[PATH_MAX], pattern[2 * PATH_MAX];
    glob_t g = {0};
    if (strpbrk(where, "*?["))
        return larder__fail(LARDER_E_ARGS,
                            "%.200s: the folder's name reads as a pattern; write %.200s/*.tar",
                            where, where);
    snprintf(root, sizeof root, "%.*s", (int)sizeof root - 1, where);
    bool inside =
        larder__split_folder(where, split, part, sizeof part) == 0 && strcmp(part, where) != 0;
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

/* ---- many patterns --------------------------------------------------------------------------- */

typedef struct shards {
    larder__names *out;
    const char *split;
} shards;

static int count_pattern(void *arg, const char *pattern) {
    (void)pattern;
    return ++*(size_t *)arg > LARDER__MOST_SHARDS ? too_many() : 0;
}

static int take_pattern(void *arg, const char *pattern) {
    const shards *s = arg;
    return add_plain(s->out, pattern, s->split);
}

int larder__shards_expand(larder__names *out, const char *patterns, const char *split) {
    shards s = {out, split};
    size_t count = 0; /* first: a million looks at the disk take seconds */
    int rc = larder__braces_expand(patterns, count_pattern, &count);
    return rc ? rc : larder__braces_expand(patterns, take_pattern, &s);
}
