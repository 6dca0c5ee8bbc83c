/* A file of the tree that the program carries along: the build turns the files of a folder into C
 * (tools/embed.c), as an array that ends with a NULL name. */
#ifndef LARDER_BASE_CARRIED_H
#define LARDER_BASE_CARRIED_H

#include <stddef.h>

typedef struct larder__carried {
    const char *name; /* without folders: "index.html" */
    const unsigned char *bytes;
    size_t size;
} larder__carried;

#endif
