#include "conform.h"

#include "base/err.h"
#include "base/mem.h"
#include "base/spec.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char said[1024];

bool wrong(const char *form, ...) {
    va_list args;
    va_start(args, form);
    vsnprintf(said, sizeof said, form, args);
    va_end(args);
    return false;
}

const char *wrong_said(void) { return said; }

void forget(void) { larder__errmsg_set(""); }
bool told(void) { return strcmp(larder_errmsg(), "no error") != 0; }

/* ---- names and parameters -------------------------------------------------------------------- */

typedef struct table {
    const char *kind;
    const larder_plugin *plugin;
    char separator;
} table;

static int parse(const table *t, const char *text) {
    larder_args args;
    int rc = larder__args_parse(&args, t->kind, t->plugin, text, t->separator, NULL);
    if (rc == 0)
        larder__args_free(&args);
    return rc;
}

static bool refuses(const table *t, const char *name, const char *value) {
    char text[128];
    snprintf(text, sizeof text, "%s=%s", name, value);
    forget();
    int rc = parse(t, text);
    holds(rc < 0, "takes %s, which it says it does not", text);
    holds(told(), "refuses %s without a sentence", text);
    return true;
}

static bool check_param(const table *t, const larder_param *p) {
    static const char *const types[] = {"int", "float", "bool", "size", "time"};
    bool number = false;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        number |= strcmp(p->type, types[i]) == 0;
    bool text = strcmp(p->type, "text") == 0, bounded = p->min != 0 || p->max != 0;
    holds(number || text || strchr(p->type, '|'), "parameter %s has the type \"%s\"", p->name,
          p->type);
    char value[64];
    if (!text && !refuses(t, p->name, "neither this nor that"))
        return false;
    if (!bounded || !number)
        return true;
    snprintf(value, sizeof value, "%.17g", p->min - 1);
    if (!refuses(t, p->name, value))
        return false;
    snprintf(value, sizeof value, "%.17g", p->max * 2 + 1);
    return refuses(t, p->name, value);
}

bool check_plugin(const char *kind, const larder_plugin *plugin, char separator) {
    table t = {kind, plugin, separator};
    holds(plugin->name && plugin->name[0] &&
              strspn(plugin->name, "abcdefghijklmnopqrstuvwxyz0123456789_") == strlen(plugin->name),
          "its name is not of small letters, digits and _");
    holds(plugin->summary && strlen(plugin->summary) > 10, "its summary says nothing");
    for (const larder_param *p = plugin->params; p && p->name; p++)
        holds(p->type && p->initial && p->help && p->help[0],
              "parameter %s lacks its type, initial value or help", p->name);
    holds(parse(&t, "") == 0, "its initial values are refused: %s", larder_errmsg());
    for (const larder_param *p = plugin->params; p && p->name; p++)
        if (!check_param(&t, p))
            return false;
    return refuses(&t, "no_such_parameter", "1");
}

bool check_figures(const larder_figure *f, size_t *count) {
    for (*count = 0; f && f[*count].name; ++*count) {
        holds(*count < LARDER_FIGURES, "has more than %d figures", LARDER_FIGURES);
        holds(f[*count].help && f[*count].help[0], "figure %s has no help", f[*count].name);
        holds(f[*count].unit, "figure %s has no unit, not even \"\"", f[*count].name);
    }
    return true;
}

/* ---- memory ---------------------------------------------------------------------------------- */

enum { GUARD = 4096, MARK = 0xa5 };

void *guarded_new(size_t bytes) {
    size_t all = (bytes + GUARD + 15) / 16 * 16;
    unsigned char *p = aligned_alloc(16, all);
    assert_non_null(p);
    memset(p, 0, bytes);
    memset(p + bytes, MARK, all - bytes);
    return p;
}

bool guarded_whole(const void *p, size_t bytes) {
    const unsigned char *at = (const unsigned char *)p + bytes;
    for (size_t i = 0; i < GUARD; i++)
        if (at[i] != MARK)
            return false;
    return true;
}

void guarded_free(void *p) { free(p); }

static void **lost;
static size_t lost_count;

void lose(void *p) {
    lost = realloc(lost, (lost_count + 1) * sizeof *lost);
    assert_non_null(lost);
    lost[lost_count++] = p;
}

void find_lost(void) {
    while (lost_count)
        larder__free(lost[--lost_count]);
    free(lost);
    lost = NULL;
}

static bool walk_counted(bool (*walk)(void *arg), void *arg, uint64_t at, bool beside) {
    larder__purse purse = {.most = UINT64_MAX};
    larder__purse *before = larder__mem_charge(&purse);
    bool right = walk(arg);
    larder__mem_charge(before);
    if (right && !beside)
        holds(purse.used == 0, "keeps %llu bytes after its end, with allocation %llu failing",
              (unsigned long long)purse.used, (unsigned long long)at);
    return right;
}

bool check_memory(bool (*walk)(void *arg), void *arg, bool beside) {
    enum { MOST = 20000 };
    for (int all = 0; all < 2; all++) {
        uint64_t at = 1;
        for (bool more = true; more; at += beside ? 1 + at / 8 : 1) {
            larder__mem_fail_at(at, all);
            bool right = walk_counted(walk, arg, at, beside);
            more = larder__mem_failed();
            larder__mem_fail_at(0, 0);
            if (!right)
                return false;
            holds(at < MOST, "allocates more than %d times", MOST);
        }
    }
    return walk_counted(walk, arg, 0, beside);
}

void check_wrongs(const char *kind, const char *(*try)(unsigned w), const char *const *says,
                  unsigned wrongs) {
    const char *of_none = try(0);
    if (of_none)
        fail_msg("the sound %s: %s", kind, of_none);
    for (unsigned w = 1; w < wrongs; w++) {
        const char *answer = try(w);
        if (!answer || !strstr(answer, says[w]))
            fail_msg("wrong %u: \"%s\", not \"%s\"", w, answer ? answer : "", says[w]);
    }
}
