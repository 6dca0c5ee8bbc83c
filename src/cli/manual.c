#include "cli/manual.h"

#include "cli/variables.h"

#include <ctype.h>
#include <larder/larder.h>
#include <string.h>

/* ---- roff ------------------------------------------------------------------------------------ */

/* One line of text that roff takes for nothing else: a hyphen is a minus, as is typed, and a line
 * that begins with a point or a quote is no request. */
static void put(FILE *to, const char *text, size_t n) {
    if (n > 0 && (text[0] == '.' || text[0] == '\''))
        fputs("\\&", to);
    for (size_t i = 0; i < n; i++)
        if (text[i] == '\\')
            fputs("\\e", to);
        else if (text[i] == '-')
            fputs("\\-", to);
        else
            fputc(text[i], to);
}

/* The argument of a macro, which stands in quotes. */
static void put_quoted(FILE *to, const char *text) {
    fputc('"', to);
    for (; *text; text++)
        if (*text == '"')
            fputs("\\(dq", to);
        else
            put(to, text, 1);
    fputc('"', to);
}

static void put_line(FILE *to, const char *text) {
    put(to, text, strlen(text));
    fputc('\n', to);
}

/* Lines that stay as they are. */
static void put_plain(FILE *to, const char *text) {
    fputs(".nf\n", to);
    while (*text) {
        size_t n = strcspn(text, "\n");
        put(to, text, n);
        fputc('\n', to);
        text += n + (text[n] == '\n');
    }
    fputs(".fi\n", to);
}

/* Prose: an empty line parts paragraphs, and an indented one stands by itself. */
static void put_prose(FILE *to, const char *text) {
    bool plain = false;
    while (*text) {
        size_t n = strcspn(text, "\n");
        bool indented = n > 0 && text[0] == ' ';
        if (indented != plain)
            fputs(indented ? ".nf\n" : ".fi\n", to);
        plain = indented;
        if (n == 0)
            fputs(".PP", to);
        put(to, text, n);
        fputc('\n', to);
        text += n + (text[n] == '\n');
    }
    if (plain)
        fputs(".fi\n", to);
}

/* ---- pages ----------------------------------------------------------------------------------- */

static void put_head(FILE *to, const char *command, const char *about) {
    char name[64];
    snprintf(name, sizeof name, "larder%s%s", command ? "-" : "", command ? command : "");
    fputs(".TH ", to);
    for (const char *c = name; *c; c++)
        *c == '-' ? fputs("\\-", to) : fputc(toupper((unsigned char)*c), to);
    fprintf(to, " 1 \"\" \"larder %s\" \"larder\"\n.SH NAME\n", larder_version());
    put(to, name, strlen(name));
    fputs(" \\- ", to);
    put_line(to, about);
}

static void put_options(FILE *to, const larder__option *o) {
    if (!o || !o->name)
        return;
    fputs(".SH OPTIONS\n", to);
    for (; o->name; o++) {
        if (!o->help) /* one that is no more */
            continue;
        fputs(".TP\n.B ", to);
        fputs(strlen(o->name) == 1 ? "\\-" : "\\-\\-", to);
        put(to, o->name, strlen(o->name));
        if (o->value) {
            fputs(" \\fI", to);
            put(to, o->value, strlen(o->value));
            fputs("\\fR", to);
        }
        fputc('\n', to);
        put_line(to, o->help);
    }
}

static void put_exits(FILE *to) {
    fputs(".SH EXIT STATUS\n.TP\n.B 0\nAll went well.\n.TP\n.B 1\nSomething failed; a sentence on "
          "standard error says what.\n.TP\n.B 2\nThe command was called wrongly.\n.TP\n.B 130\n"
          "It was interrupted.\n",
          to);
}

static void put_command(void *arg, const larder__command *c) {
    FILE *to = arg;
    fputs(".SH SYNOPSIS\n", to);
    put_plain(to, c->usage);
    fputs(".SH DESCRIPTION\n", to);
    put_prose(to, c->about);
    put_options(to, c->options);
    if (c->examples) {
        fputs(".SH EXAMPLES\n", to);
        put_plain(to, c->examples);
    }
    put_exits(to);
    fputs(".SH SEE ALSO\n.BR larder (1)\n", to);
}

static void put_variables(FILE *to) {
    fputs(".SH ENVIRONMENT\n", to);
    for (const larder__variable *v = larder__variables; v->name; v++) {
        fputs(v->opens ? ".SS " : ".TP\n.B ", to);
        put_line(to, v->name);
        if (!v->opens)
            put_line(to, v->about);
    }
}

static void put_program(FILE *to) {
    const larder__entry *e;
    put_head(to, NULL, "a cache, sampler and loader that keeps a training job fed");
    fputs(".SH SYNOPSIS\n.B larder\n[\\fB\\-\\-plugin\\fR \\fIFILE\\fR]\n.I COMMAND\n"
          "[\\fIoptions\\fR]\n.br\n.B larder help\n.I COMMAND\n.br\n.B larder \\-\\-version\n"
          "[\\fB\\-\\-json\\fR]\n.SH DESCRIPTION\n",
          to);
    put_prose(to, "Training reads the same data again and again from storage that is too slow. "
                  "larder listens to the\ntraining and reads from storage only what it must. "
                  "Each command below has a page of its own.\n\n--plugin loads policies, samplers, "
                  "signals, sources, stages and recipes from a shared object.\n");
    fputs(".SH COMMANDS\n", to);
    for (size_t i = 0; (e = larder__command_nth(i)); i++) {
        fputs(".TP\n.BR ", to);
        char page[64];
        snprintf(page, sizeof page, "larder-%s", e->name);
        put_quoted(to, page);
        fputs(" (1)\n", to);
        put_line(to, e->about);
    }
    put_variables(to);
    put_exits(to);
}

void larder__manual_print(FILE *to, const larder__entry *e) {
    fputs(".\\\" Written by larder --man from the tables that --help reads.\n", to);
    if (!e) {
        put_program(to);
        return;
    }
    put_head(to, e->name, e->about);
    larder__command_shown(e, put_command, to);
}
