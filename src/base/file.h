/* Whole files: read into memory with a bound, written so that readers see all of it or nothing. */
#ifndef LARDER_BASE_FILE_H
#define LARDER_BASE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Reads all of a regular file of at most `max` bytes; one zero byte is put behind it. Free with
 * larder__free. */
int larder__file_read(const char *path, size_t max, unsigned char **bytes, size_t *size);

/* A file that is there whole or not at all: written beside its path, synced and renamed by close,
 * which unlinks it instead when `rc` is negative. What is no plain file (a device, a pipe) is
 * written to as it is. */
typedef struct larder__fresh {
    FILE *to;
    const char *path; /* the caller's */
    char beside[4096];
} larder__fresh;
int larder__fresh_open(larder__fresh *, const char *path);
int larder__fresh_close(larder__fresh *, int rc); /* rc, or why it could not be put in place */

/* A folder with all that lead to it, as mkdir -p makes them; `mode` of those that were not there.
 */
int larder__folder_make(const char *path, unsigned mode);

/* All of it at once. On failure nothing is left behind. */
int larder__file_write(const char *path, const void *bytes, size_t size);

#endif
