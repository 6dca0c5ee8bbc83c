#include "cli/options.h"

#include "base/escape.h"
#include "base/near.h"
#include "base/spec.h"
#include "cli/command_table.h"

#include <stdio.h>
#include <string.h>

static struct {
    void (*see)(void *arg, const larder__command *);
    void *arg;
} shown;

void larder__options_show_to(void (*see)(void *arg, const larder__command *), void *arg) {
    shown.see = see;
    shown.arg = arg;
}

static void print_help(const larder__command *c) {
    printf("usage: %s\n\n%s\n", c->usage, c->about);
    if (c->options && c->options[0].name)
        printf("\noptions:\n");
    for (const larder__option *o = c->options; o && o->name; o++) {
        char left[64];
        if (!o->help) /* an option that is no more and has a sentence to say so */
            continue;
        snprintf(left, sizeof left, "%s%s%s%s", strlen(o->name) == 1 ? "-" : "--", o->name,
                 o->value ? " " : "", o->value ? o->value : "");
        printf("  %-22s %s\n", left, o->help);
    }
    if (c->examples)
        printf("\nexamples:\n%s\n", c->examples);
}

static const larder__option *find(const larder__command *c, const char *name, size_t len) {
    for (const larder__option *o = c->options; o && o->name; o++)
        if (strlen(o->name) == len && memcmp(o->name, name, len) == 0)
            return o;
    return NULL;
}

static int complain(const larder__command *c, const char *what, const char *which) {
    fprintf(stderr, "larder %s: %s", c->name, what);
    larder__shown_print(stderr, which); /* a shell's * brings names of files */
    fprintf(stderr, "; larder %s --help tells more\n", c->name);
    return -1;
}

int larder__wrong_usage(const char *command, const char *why) {
    return complain(&(larder__command){.name = command}, why, "");
}

int larder__exit_code(const char *command, int rc) {
    if (rc < 0)
        fprintf(stderr, "larder %s: %s\n", command, larder_errmsg());
    return rc == 0 ? 0 : rc == LARDER_E_ARGS ? 2 : 1;
}

/* ---- an option that is not there ------------------------------------------------------------- */

typedef struct wanted {
    const char *name;
    size_t len;
    char owners[200];
} wanted;

static void look_up(void *arg, const larder__command *c) {
    wanted *w = arg;
    size_t at = strlen(w->owners);
    if (find(c, w->name, w->len))
        snprintf(w->owners + at, sizeof w->owners - at, "%slarder %s", at ? ", " : "", c->name);
}

static void find_owners(wanted *w) {
    const larder__entry *e;
    for (size_t i = 0; w->len > 1 && (e = larder__command_nth(i)); i++)
        larder__command_shown(e, look_up, w);
}

static int unknown(const larder__command *c, const char *given, const char *name, size_t len) {
    wanted others = {.name = name, .len = len};
    char word[128];
    snprintf(word, sizeof word, "%.*s", (int)(name - given + (ptrdiff_t)len), given);
    find_owners(&others);
    larder__near near;
    larder__near_begin(&near, name, len);
    for (const larder__option *o = c->options; o && o->name; o++)
        if (strlen(o->name) > 1)
            larder__near_try(&near, o->name, strlen(o->name));
    larder__near_try(&near, "help", 4);
    fprintf(stderr, "larder %s: no option ", c->name);
    larder__shown_print(stderr, word);
    if (larder__near_found(&near))
        fprintf(stderr, "; did you mean --%s?", larder__near_found(&near));
    else if (others.owners[0])
        fprintf(stderr, "; it is one of %s", others.owners);
    fprintf(stderr, "%s larder %s --help tells more\n", larder__near_found(&near) ? "" : ";",
            c->name);
    return -1;
}

/* ---- parsing --------------------------------------------------------------------------------- */

static int assign(const larder__command *c, const larder__option *o, const char *value) {
    char what[64];
    int rc = 0;
    snprintf(what, sizeof what, "--%s", o->name);
    switch (o->kind) {
    case LARDER__TEXT:
        *(const char **)o->to = value;
        break;
    case LARDER__NUMBER:
        rc = larder__parse_u64(what, value, UINT64_MAX, o->to);
        break;
    case LARDER__REAL:
        rc = larder__parse_f64(what, value, o->to);
        break;
    case LARDER__FLAG:
        *(bool *)o->to = true;
        break;
    case LARDER__TEXTS: {
        larder__texts *t = o->to;
        if (t->count == sizeof t->at / sizeof *t->at)
            return complain(c, "too many of ", what);
        t->at[t->count++] = value;
        break;
    }
    }
    return rc < 0 ? complain(c, larder_errmsg(), "") : 0;
}

int larder__options_parse(const larder__command *c, int argc, char **argv, const char **words,
                          size_t max, size_t *count) {
    uint64_t given;
    return larder__options_parse_noting(c, argc, argv, words, max, count, &given);
}

int larder__options_parse_noting(const larder__command *c, int argc, char **argv,
                                 const char **words, size_t max, size_t *count, uint64_t *given) {
    *count = 0;
    *given = 0;
    if (shown.see) {
        shown.see(shown.arg, c);
        return 1;
    }
    bool only_words = false;
    for (int i = 1; i < argc; i++) {
        const char *a = argv[i];
        if (only_words || a[0] != '-' || a[1] == 0) {
            if (*count == max)
                return complain(c, "one word too many: ", a);
            words[(*count)++] = a;
            continue;
        }
        if (strcmp(a, "--") == 0) {
            only_words = true;
            continue;
        }
        if (strcmp(a, "--help") == 0 || strcmp(a, "-h") == 0) {
            print_help(c);
            return 1;
        }
        const char *name = a + (a[1] == '-' ? 2 : 1), *equals = strchr(name, '=');
        size_t len = equals ? (size_t)(equals - name) : strlen(name);
        const larder__option *o = find(c, name, len);
        if (!o)
            return unknown(c, a, name, len);
        const char *value = equals ? equals + 1 : NULL;
        if (o->kind == LARDER__FLAG && value)
            return complain(c, "takes no value: ", a);
        if (o->kind != LARDER__FLAG && !value) {
            if (i + 1 == argc)
                return complain(c, "a value is missing after ", a);
            value = argv[++i];
        }
        *given |= (uint64_t)1 << (o - c->options);
        if (assign(c, o, value) < 0)
            return -1;
    }
    return 0;
}
