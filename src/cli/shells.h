/* The files of src/cli/shells/, as they are in the tree: the build turns them into C
 * (tools/embed.c). */
#ifndef LARDER_CLI_SHELLS_H
#define LARDER_CLI_SHELLS_H

#include <stddef.h>

typedef struct larder__shells_file {
    const char *name; /* "complete.bash" */
    const unsigned char *bytes;
    size_t size;
} larder__shells_file;

extern const larder__shells_file larder__shells_files[]; /* ends with a NULL name */

#endif
