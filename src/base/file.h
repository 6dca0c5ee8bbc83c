/* Whole files: read into memory with a bound, written so that readers see all of it or nothing. */
#ifndef LARDER_BASE_FILE_H
#define LARDER_BASE_FILE_H

#include <stddef.h>
#include <stdint.h>

/* Reads all of a regular file of at most `max` bytes; one zero byte is put behind it. Free with
 * larder__free. */
int larder__file_read(const char *path, size_t max, unsigned char **bytes, size_t *size);
/* Writes beside the path, syncs, renames. On failure nothing is left behind. */
int larder__file_write(const char *path, const void *bytes, size_t size);

#endif
