/* The files of src/see/page/, as they are in the tree: the build turns them into C
 * (tools/embed.c). */
#ifndef LARDER_SEE_PAGE_H
#define LARDER_SEE_PAGE_H

#include <stddef.h>

typedef struct larder__page_file {
    const char *name; /* "index.html" */
    const unsigned char *bytes;
    size_t size;
} larder__page_file;

extern const larder__page_file larder__page_files[]; /* ends with a NULL name */

#endif
