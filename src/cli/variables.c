#include "cli/variables.h"

#include <stdio.h>

const larder__variable larder__variables[] = {
#define LARDER_VARIABLES(title) {title, NULL, true},
#define LARDER_VARIABLE(name, about) {name, about, false},
#include "cli/variables.def"
#undef LARDER_VARIABLE
#undef LARDER_VARIABLES
    {0}};

void larder__variables_print(bool markdown) {
    if (markdown)
        printf("# Environment variables\n\nAll that larder looks at. Made by `make docs`; `larder "
               "help environment` prints the same, and\n`larder doctor` says which are set.\n");
    for (const larder__variable *v = larder__variables; v->name; v++)
        if (v->opens)
            printf(markdown ? "\n## %s\n\n| variable | what it does |\n|---|---|\n" : "%s\n",
                   v->name);
        else
            printf(markdown ? "| `%s` | %s |\n" : "  %s\n      %s\n", v->name, v->about);
}
