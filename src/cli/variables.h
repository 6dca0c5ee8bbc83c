/* The environment variables that larder looks at, as a table (variables.def). */
#ifndef LARDER_CLI_VARIABLES_H
#define LARDER_CLI_VARIABLES_H

#include <stdbool.h>

typedef struct larder__variable {
    const char *name;
    const char *about;
    bool opens; /* a group, of which `name` is the heading and `about` NULL */
} larder__variable;

extern const larder__variable larder__variables[]; /* ends with a NULL name */

/* larder help environment; `markdown`: as docs/guide/environment.md. */
void larder__variables_print(bool markdown);

#endif
