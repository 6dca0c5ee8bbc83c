/* The files of src/gpu/code/, as they are in the tree: the build turns them into C
 * (tools/embed.c). */
#ifndef LARDER_GPU_CODE_H
#define LARDER_GPU_CODE_H

#include <stddef.h>

typedef struct larder__code_file {
    const char *name; /* "rows.cu" */
    const unsigned char *bytes;
    size_t size;
} larder__code_file;

extern const larder__code_file larder__code_files[]; /* ends with a NULL name */

#endif
