#include "cli/complete.h"

#include "cli/command_table.h"
#include "cli/offers.h"
#include "plugins.h"

#include <string.h>

/* The `number`-th word that is no option in a line of usage, as "[MODEL]"; the last one again where
 * it says that it may come again. NULL: there is none. */
static const char *usage_word(const char *usage, size_t number, size_t *len) {
    const char *at = usage, *found = NULL;
    size_t seen = 0, end = strcspn(usage, "\n");
    for (int skip = 2; at < usage + end; at += strspn(at, " ")) { /* "larder NAME" */
        size_t n = strcspn(at, " \n");
        if (skip > 0)
            skip--;
        else if (at[0] == '-')
            skip = 1;
        else if (strncmp(at, "[-", 2) == 0 || strncmp(at, "[options", 8) == 0)
            n = strcspn(at, "]\n") + 1;
        else if (seen++ <= number) {
            found = at[0] == '[' ? at + 1 : at;
            *len = n - (size_t)(found - at);
        }
        at += n;
    }
    bool again = found && memmem(found, *len, "...", 3);
    return seen > number || again ? found : NULL;
}

static void offer_options(const larder__answer *a, const larder__option *o) {
    for (; o && o->name; o++) {
        char name[64];
        snprintf(name, sizeof name, "%s%s", strlen(o->name) == 1 ? "-" : "--", o->name);
        if (o->help)
            larder__offer_word(a, name, "", o->help);
    }
    larder__offer_word(a, "--help", "", "what this command does and takes");
}

typedef struct line { /* of a command that is being typed */
    larder__answer a;
    int count;
    char **words; /* the command first, the word of the larder__answer last */
} line;

static const larder__option *option_named(const larder__command *c, const char *word, size_t len) {
    const char *name = word + (len > 1 && word[1] == '-' ? 2 : 1);
    size_t n = len - (size_t)(name - word);
    for (const larder__option *o = c->options; o && o->name; o++)
        if (strlen(o->name) == n && memcmp(o->name, name, n) == 0)
            return o;
    return NULL;
}

static bool takes_value(const larder__option *o) { return o && o->kind != LARDER__FLAG; }

static void offer_after_equals(const larder__answer *a, const larder__command *c,
                               const char *equals) {
    const larder__option *o = option_named(c, a->word, (size_t)(equals - a->word));
    larder__answer value = larder__offer_after(a, equals + 1);
    if (takes_value(o) && o->value)
        larder__offer_kinds(&value, o->value, strlen(o->value));
}

/* With the table of the command at hand. */
static void see_command(void *arg, const larder__command *c) {
    const line *l = arg;
    const larder__option *pending = NULL;
    size_t words = 0, len = 0;
    bool only_words = false;
    for (int i = 1; i + 1 < l->count; i++) {
        const char *w = l->words[i];
        if (pending || only_words || w[0] != '-' || !w[1]) {
            words += !pending;
            pending = NULL;
        } else if (strcmp(w, "--") == 0)
            only_words = true;
        else if (!strchr(w, '=')) {
            const larder__option *o = option_named(c, w, strlen(w));
            pending = takes_value(o) ? o : NULL;
        }
    }
    const char *equals = strchr(l->a.word, '='), *kind;
    if (pending && pending->value)
        larder__offer_kinds(&l->a, pending->value, strlen(pending->value));
    else if (!pending && !only_words && l->a.word[0] == '-' && equals)
        offer_after_equals(&l->a, c, equals);
    else if (!pending && !only_words && l->a.word[0] == '-')
        offer_options(&l->a, c->options);
    else if (!pending && (kind = usage_word(c->usage, words, &len)))
        larder__offer_kinds(&l->a, kind, len);
}

static void offer_first(const larder__answer *a) {
    larder__offer_commands(a);
    larder__offer_word(a, "help", "", "what a command does and takes");
    if (a->word[0] != '-')
        return;
    larder__offer_word(a, "--help", "", "all commands");
    larder__offer_word(a, "--version", "", "what this build can do");
    larder__offer_word(a, "--plugin", "", "a shared object with plug-ins of your own");
    larder__offer_word(a, "--man", "", "the man page of a command");
}

/* --plugin FILE before the last word: loaded, so that what is in it is offered; a file that does
 * not load is for the command itself to complain of. Returns how many words are left. */
static int take_plugins(int count, char **words) {
    int kept = 0;
    larder__plugins_from_env();
    for (int i = 0; i < count; i++)
        if (i + 2 < count && strcmp(words[i], "--plugin") == 0)
            larder_load_plugin(words[++i]);
        else if (i + 1 < count && strncmp(words[i], "--plugin=", 9) == 0)
            larder_load_plugin(words[i] + 9);
        else
            words[kept++] = words[i];
    return kept;
}

int larder__complete(FILE *to, int count, char **words) {
    if (count < 1)
        return 2;
    count = take_plugins(count, words);
    larder__answer a = {.to = to, .word = words[count - 1]};
    const char *before = count > 1 ? words[count - 2] : "";
    if (strcmp(before, "--plugin") == 0)
        larder__offer_files(&a);
    else if (count == 1)
        offer_first(&a);
    else if (count == 2 && (strcmp(before, "help") == 0 || strcmp(before, "--man") == 0)) {
        larder__offer_commands(&a);
        if (before[0] != '-')
            larder__offer_word(&a, "environment", "", "the variables that larder looks at");
    } else {
        const larder__entry *e = larder__command_named(words[0]);
        line l = {.a = a, .count = count, .words = words};
        if (e)
            larder__command_shown(e, see_command, &l);
    }
    return 0;
}
