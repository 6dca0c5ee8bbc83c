/* larder complete: the script that a shell needs to complete larder's words. */
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/shells.h"

#include <stdio.h>
#include <string.h>

static int print_script(const char *shell) {
    for (const larder__carried *f = larder__shells_files; f->name; f++)
        if (strcmp(strchr(f->name, '.') + 1, shell) == 0) {
            fwrite(f->bytes, 1, f->size, stdout);
            return 0;
        }
    larder__wrong_usage("complete", "there are scripts for bash, zsh and fish");
    return 2;
}

int larder__cmd_complete(int argc, char **argv) {
    const char *shell = NULL;
    size_t count;
    const larder__option none[] = {{0}};
    const larder__command command = {
        "complete", "larder complete bash|zsh|fish",
        "Prints what a shell needs to complete commands, options, recipes, sources, stages and "
        "their\nparameters, those of plug-ins from outside among them. make install puts it where "
        "shells look;\notherwise it goes into the shell's own file, as below.",
        "  eval \"$(larder complete bash)\"                               # in ~/.bashrc\n"
        "  eval \"$(larder complete zsh)\"                                # in ~/.zshrc, after "
        "compinit\n"
        "  larder complete fish > ~/.config/fish/completions/larder.fish",
        none};
    int rc = larder__options_parse(&command, argc, argv, &shell, 1, &count);
    if (rc == 0 && count != 1)
        rc = larder__wrong_usage("complete", "name the shell");
    return rc < 0 ? 2 : rc > 0 ? 0 : print_script(shell);
}
