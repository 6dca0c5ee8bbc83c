#include "base/spec.h"

#include "base/err.h"
#include "base/mem.h"
#include "base/near.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

int larder__spec_name(const char *spec, char *name, size_t cap, const char **rest) {
    size_t n = strcspn(spec, ":");
    if (n == 0 || n >= cap)
        return larder__fail(LARDER_E_ARGS, "\"%.60s\" does not start with a name", spec);
    memcpy(name, spec, n);
    name[n] = 0;
    *rest = spec[n] ? spec + n + 1 : spec + n;
    return 0;
}

/* ---- numbers --------------------------------------------------------------------------------- */

/* strtod alone takes hex, "nan" and "inf", and leading blanks; people never mean these. */
static int plain_number(const char *text, double *out, const char **end) {
    if (!isdigit((unsigned char)text[0]) && text[0] != '.' && text[0] != '-')
        return -1;
    if (text[strspn(text, "0123456789.-")] == 'x' || text[strspn(text, "0123456789.-")] == 'X')
        return -1;
    char *stop;
    errno = 0;
    *out = strtod(text, &stop);
    *end = stop;
    return stop == text || !isfinite(*out) ? -1 : 0;
}

int larder__parse_f64(const char *what, const char *text, double *out) {
    const char *end;
    if (plain_number(text, out, &end) < 0 || *end)
        return larder__fail(LARDER_E_ARGS, "%s: \"%.60s\" is not a number", what, text);
    return 0;
}

bool larder__parse_digits(const char *text, size_t n, uint64_t *out) {
    *out = 0;
    for (size_t i = 0; i < n; i++) {
        if (text[i] < '0' || text[i] > '9' || *out > (UINT64_MAX - 9) / 10)
            return false;
        *out = *out * 10 + (uint64_t)(text[i] - '0');
    }
    return n > 0;
}

int larder__parse_u64(const char *what, const char *text, uint64_t max, uint64_t *out) {
    char *end;
    errno = 0;
    if (!isdigit((unsigned char)text[0]))
        return larder__fail(LARDER_E_ARGS, "%s: \"%.60s\" is not a whole number", what, text);
    unsigned long long v = strtoull(text, &end, 10);
    if (*end)
        return larder__fail(LARDER_E_ARGS, "%s: \"%.60s\" is not a whole number", what, text);
    if (errno == ERANGE || v > max)
        return larder__fail(LARDER_E_ARGS, "%s: %.60s is more than %llu", what, text,
                            (unsigned long long)max);
    *out = v;
    return 0;
}

int larder__parse_bytes(const char *text, uint64_t *out) {
    static const struct {
        const char *name;
        double factor;
    } units[] = {{"", 1},        {"B", 1},         {"K", 1024},     {"KiB", 1024}, {"KB", 1e3},
                 {"M", 1048576}, {"MiB", 1048576}, {"MB", 1e6},     {"G", 0x1p30}, {"GiB", 0x1p30},
                 {"GB", 1e9},    {"T", 0x1p40},    {"TiB", 0x1p40}, {"TB", 1e12}};
    const char *unit;
    double v;
    if (plain_number(text, &v, &unit) < 0)
        return larder__fail(LARDER_E_ARGS, "\"%.60s\" is not a size such as 64MiB or 8GB", text);
    while (*unit == ' ')
        unit++;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (strcasecmp(unit, units[i].name) != 0)
            continue;
        v *= units[i].factor;
        if (v < 0)
            return larder__fail(LARDER_E_ARGS, "\"%.60s\": a size cannot be negative", text);
        if (v > 0x1p62)
            return larder__fail(LARDER_E_ARGS, "\"%.60s\": more than any machine has", text);
        *out = (uint64_t)v;
        return 0;
    }
    return larder__fail(LARDER_E_ARGS, "\"%.60s\": unknown unit \"%.20s\"; use KiB, MiB, GiB, KB …",
                        text, unit);
}

/* A number without a unit. */
static bool is_bare(const char *text) {
    const char *end;
    double v;
    return plain_number(text, &v, &end) == 0 && !*end;
}

int larder__parse_amount(const char *what, const char *text, uint64_t *out) {
    int rc = larder__parse_bytes(text, out);
    if (rc < 0)
        return larder__fail_in(rc, "%s", what);
    if (is_bare(text) && *out < 65536 && strtod(text, NULL) > 0)
        return larder__fail(LARDER_E_ARGS,
                            "%s \"%.20s\": %.20s bytes? Write %.20sMiB or %.20sGiB, or %.20sB if "
                            "bytes are meant",
                            what, text, text, text, text, text);
    return 0;
}

int larder__parse_seconds(const char *text, double *out) {
    static const struct {
        const char *name;
        double factor;
    } units[] = {{"", 1}, {"s", 1}, {"ms", 1e-3}, {"us", 1e-6}, {"ns", 1e-9}};
    const char *unit;
    double v;
    if (plain_number(text, &v, &unit) < 0 || v < 0)
        return larder__fail(LARDER_E_ARGS, "\"%.60s\" is not a time such as 5ms or 2s", text);
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (strcmp(unit, units[i].name) == 0) {
            *out = v * units[i].factor;
            return 0;
        }
    return larder__fail(LARDER_E_ARGS, "\"%.60s\": unknown unit \"%.20s\"; use s, ms or us", text,
                        unit);
}

int larder__parse_split(const char *text, double share[LARDER_FORMS]) {
    double v, sum = 0;
    const char *at = text;
    memset(share, 0, LARDER_FORMS * sizeof *share);
    for (int f = 0; f < LARDER__SPLIT_FORMS; f++, at++) {
        const char *end;
        if (plain_number(at, &v, &end) < 0 || v < 0 || v > 100 ||
            *end != (f < LARDER__SPLIT_FORMS - 1 ? '/' : 0))
            return larder__fail(
                LARDER_E_ARGS,
                "split \"%.60s\" is not three percentages such as 58/42/0: encoded, "
                "decoded, augmented",
                text);
        share[f] = v / 100;
        sum += v;
        at = end;
    }
    if (fabs(sum - 100) > 1e-6)
        return larder__fail(LARDER_E_ARGS, "split \"%.60s\" comes to %g, not 100 percent", text,
                            sum);
    return 0;
}

static int parse_size(const char *text, larder__budget *out) {
    const char *end;
    double v = 0;
    if (plain_number(text, &v, &end) == 0 && *end == '%') {
        if (end[1])
            return larder__fail(LARDER_E_ARGS, "cache \"%.60s\": \"%.20s\" after the percent sign",
                                text, end + 1);
        /* Of the encoded bytes: pixels and rows of a batch may need several times as much. */
        double most = out->split && out->share[LARDER_ENCODED] < 1 ? 1e6 : 100;
        if (v < 0 || v > most)
            return larder__fail(LARDER_E_ARGS, "cache \"%.60s\": a percentage is 0 to %g", text,
                                most);
        out->relative = true;
        out->fraction = v / 100;
        return 0;
    }
    int rc = larder__parse_bytes(text, &out->bytes);
    if (rc < 0)
        return larder__fail_in(rc, "cache");
    if (is_bare(text) && v > 0 && v <= 100)
        return larder__fail(
            LARDER_E_ARGS,
            "cache \"%.20s\": %.20s %% or %.20s bytes? Write %.20s%% for a share of "
            "the data, %.20sMiB or %.20sGiB for a size, %.20sB for bytes",
            text, text, text, text, text, text, text);
    return 0;
}

int larder__parse_budget(const char *text, larder__budget *out) {
    *out = (larder__budget){.share = {1}};
    const char *colon = strchr(text, ':');
    char size[64];
    if (!colon)
        return parse_size(text, out);
    if ((size_t)(colon - text) >= sizeof size)
        return larder__fail(LARDER_E_ARGS, "cache \"%.60s\": too long for a size", text);
    memcpy(size, text, (size_t)(colon - text));
    size[colon - text] = 0;
    out->split = true;
    int rc = larder__parse_split(colon + 1, out->share);
    return rc < 0 ? larder__fail_in(rc, "cache") : parse_size(size, out);
}

uint64_t larder__budget_bytes(const larder__budget *b, uint64_t payload, bool pixels) {
    uint64_t want = b->relative ? (uint64_t)(b->fraction * (double)payload) : b->bytes;
    return want > payload && !pixels ? payload : want;
}

const char *larder__print_bytes(double bytes, char out[32]) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    size_t u = 0;
    for (; bytes >= 1024 && u < 4; u++)
        bytes /= 1024;
    snprintf(out, 32, u ? "%.1f %s" : "%.0f %s", bytes, units[u]);
    return out;
}

/* ---- arguments of a plug-in ------------------------------------------------------------------ */

static size_t params_count(const larder_param *p) {
    size_t n = 0;
    while (p && p[n].name)
        n++;
    return n;
}

static ptrdiff_t params_find(const larder_param *p, const char *name, size_t len) {
    for (size_t i = 0; p && p[i].name; i++)
        if (strlen(p[i].name) == len && memcmp(p[i].name, name, len) == 0)
            return (ptrdiff_t)i;
    return -1;
}

static int check_choice(const char *what, const char *choices, const char *text) {
    char hint[LARDER__NEAR_CHARS + 32];
    size_t n = strlen(text);
    larder__near near;
    larder__near_begin(&near, text, n);
    for (const char *c = choices; *c; c += *c == '|') {
        size_t len = strcspn(c, "|");
        if (len == n && memcmp(c, text, n) == 0)
            return 0;
        larder__near_try(&near, c, len);
        c += len;
    }
    return larder__fail(LARDER_E_ARGS, "%s: \"%.60s\" is none of %s%s", what, text, choices,
                        larder__near_hint(&near, hint));
}

static int check_value(const char *kind, const larder_plugin *p, const larder_param *q,
                       const char *text, double *number) {
    char what[128];
    snprintf(what, sizeof what, "%s %s: %s", kind, p->name, q->name);
    *number = 0;
    if (strcmp(q->type, "text") == 0)
        return 0;
    if (strchr(q->type, '|'))
        return check_choice(what, q->type, text);
    if (strcmp(q->type, "bool") == 0) {
        *number = strcmp(text, "1") == 0 || strcmp(text, "true") == 0;
        return *number != 0 || strcmp(text, "0") == 0 || strcmp(text, "false") == 0
                   ? 0
                   : larder__fail(LARDER_E_ARGS, "%s: \"%.60s\" is neither 0 nor 1", what, text);
    }
    if (strcmp(q->type, "size") == 0) {
        uint64_t bytes = 0;
        int rc = larder__parse_bytes(text, &bytes);
        *number = (double)bytes;
        return rc < 0 ? larder__fail_in(rc, "%s", what) : 0;
    }
    if (strcmp(q->type, "time") == 0) {
        int rc = larder__parse_seconds(text, number);
        return rc < 0 ? larder__fail_in(rc, "%s", what) : 0;
    }
    int rc = larder__parse_f64(what, text, number);
    if (rc < 0)
        return rc;
    if (strcmp(q->type, "int") == 0 && *number != floor(*number))
        return larder__fail(LARDER_E_ARGS, "%s: \"%.60s\" is not a whole number", what, text);
    if ((q->min != 0 || q->max != 0) && (*number < q->min || *number > q->max))
        return larder__fail(LARDER_E_RANGE, "%s: %.60s is not within %g and %g", what, text, q->min,
                            q->max);
    return 0;
}

/* The lists one after the other, cut between two names where they do not fit. */
static void say_known(char *out, size_t cap, const larder_param *const *lists) {
    static const char cut[] = ", … (larder list shows all)";
    size_t at = 0;
    for (; *lists; lists++)
        for (const larder_param *q = *lists; q->name; q++) {
            size_t need = strlen(q->name) + (at ? 2 : 0);
            bool fits = at + need + sizeof cut <= cap;
            snprintf(out + at, cap - at, "%s%s", fits && at ? ", " : "", fits ? q->name : cut);
            if (!fits)
                return;
            at += need;
        }
}

static int unknown_key(const char *kind, const char *name, const char *key, size_t len,
                       const larder_param *const *lists) {
    char known[320] = "", hint[LARDER__NEAR_CHARS + 32];
    larder__near near;
    larder__near_begin(&near, key, len);
    for (size_t k = 0; lists[k]; k++)
        for (const larder_param *q = lists[k]; q->name; q++)
            larder__near_try(&near, q->name, strlen(q->name));
    larder__near_hint(&near, hint);
    say_known(known, sizeof known, lists);
    return larder__fail(LARDER_E_ARGS, "%s %s has no parameter \"%.*s\"%s%s%s", kind, name,
                        (int)(len < 60 ? len : 60), key, hint,
                        !known[0] ? ""
                        : hint[0] ? " It has "
                                  : "; it has ",
                        known);
}

/* The next "key=value" of a text: how long it is, and its key. */
static int next_pair(const char *kind, const char *name, const char *at, char separator,
                     size_t *len, size_t *key) {
    char stops[2] = {separator, 0};
    *len = strcspn(at, stops);
    *key = strcspn(at, "=");
    return *key<*len && * key> 0 ? 0
                                 : larder__fail(LARDER_E_ARGS, "%s %s: \"%.*s\" is not key=value",
                                                kind, name, (int)(*len < 60 ? *len : 60), at);
}

const larder_param *const larder__args_any[] = {NULL};

static bool is_in(const larder_param *const *lists, const char *key, size_t len) {
    bool found = lists == larder__args_any;
    for (; lists && *lists; lists++)
        found |= params_find(*lists, key, len) >= 0;
    return found;
}

int larder__args_check(const char *kind, const char *name, const char *text, char separator,
                       const larder_param *const *lists) {
    for (const char *at = text; at && *at;) {
        size_t len, key;
        int rc = next_pair(kind, name, at, separator, &len, &key);
        if (rc < 0)
            return rc;
        if (!is_in(lists, at, key))
            return unknown_key(kind, name, at, key, lists);
        at += len + (at[len] != 0);
    }
    return 0;
}

static int set_value(larder_args *a, const char *kind, const larder_plugin *p, size_t i,
                     const char *value, size_t len) {
    char *copy = larder__malloc(len + 1);
    if (!copy)
        return LARDER_E_NOMEM;
    memcpy(copy, value, len);
    copy[len] = 0;
    larder__free(a->texts[i]);
    a->texts[i] = copy;
    return check_value(kind, p, &p->params[i], copy, &a->numbers[i]);
}

int larder__args_parse(larder_args *out, const char *kind, const larder_plugin *p, const char *text,
                       char separator, const larder_param *const *others) {
    *out = (larder_args){.params = p->params, .count = params_count(p->params)};
    out->texts = larder__calloc(out->count, sizeof *out->texts);
    out->numbers = larder__calloc(out->count, sizeof *out->numbers);
    int rc = out->texts && out->numbers ? 0 : LARDER_E_NOMEM;
    for (size_t i = 0; rc == 0 && i < out->count; i++)
        rc = set_value(out, kind, p, i, p->params[i].initial, strlen(p->params[i].initial));
    const larder_param *const own[] = {p->params, NULL};
    for (const char *at = text; rc == 0 && at && *at;) {
        size_t len = 0, key = 0;
        if ((rc = next_pair(kind, p->name, at, separator, &len, &key)) < 0)
            break;
        ptrdiff_t i = params_find(p->params, at, key);
        if (i >= 0)
            rc = set_value(out, kind, p, (size_t)i, at + key + 1, len - key - 1);
        else if (!is_in(others, at, key))
            rc = unknown_key(kind, p->name, at, key, own);
        at += len + (at[len] != 0);
    }
    if (rc < 0)
        larder__args_free(out);
    return rc;
}

void larder__args_free(larder_args *a) {
    for (size_t i = 0; a->texts && i < a->count; i++)
        larder__free(a->texts[i]);
    larder__free(a->texts);
    larder__free(a->numbers);
    *a = (larder_args){0};
}

int larder__args_set_text(larder_args *a, const char *name, const char *text) {
    ptrdiff_t i = params_find(a->params, name, strlen(name));
    char *copy = i < 0 ? NULL : larder__strdup(text);
    if (!copy)
        return i < 0 ? larder__fail(LARDER_E_ARGS, "no parameter %s", name) : LARDER_E_NOMEM;
    larder__free(a->texts[i]);
    a->texts[i] = copy;
    return 0;
}

double larder_args_number(const larder_args *a, const char *name) {
    ptrdiff_t i = params_find(a->params, name, strlen(name));
    return i < 0 ? 0 : a->numbers[i];
}

const char *larder_args_text(const larder_args *a, const char *name) {
    ptrdiff_t i = params_find(a->params, name, strlen(name));
    return i < 0 ? "" : a->texts[i];
}
