#include "cli/command_table.h"

#include "cli/commands.h"

#include <pthread.h>
#include <string.h>

enum { NAME_MAX_CHARS = 24 };

static larder__entry entries[] = {
#define LARDER_COMMAND(name, about) {#name, larder__cmd_##name, about},
#include "cli/commands.def"
#undef LARDER_COMMAND
};
enum { ENTRIES = sizeof entries / sizeof *entries };

/* A command of two words is typed with a hyphen: svm_train is svm-train. */
static void write_names(void) {
    static char typed[ENTRIES][NAME_MAX_CHARS];
    for (size_t i = 0; i < ENTRIES; i++) {
        strncpy(typed[i], entries[i].name, NAME_MAX_CHARS - 1);
        for (char *c = typed[i]; (c = strchr(c, '_'));)
            *c = '-';
        entries[i].name = typed[i];
    }
}

const larder__entry *larder__command_nth(size_t i) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, write_names);
    return i < ENTRIES ? &entries[i] : NULL;
}

static bool is_same(const char *name, const char *word) {
    for (; *name && *word; name++, word++)
        if (*name != *word && !(*name == '-' && *word == '_'))
            return false;
    return *name == *word;
}

const larder__entry *larder__command_named(const char *word) {
    const larder__entry *e;
    for (size_t i = 0; (e = larder__command_nth(i)); i++)
        if (is_same(e->name, word))
            return e;
    return NULL;
}

void larder__command_shown(const larder__entry *e, larder__seer *see, void *arg) {
    char word[] = "larder", *argv[] = {word, NULL};
    larder__options_show_to(see, arg);
    e->run(1, argv);
    larder__options_show_to(NULL, NULL);
}
