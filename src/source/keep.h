/* Small files that are kept between runs in the user's cache folder: $LARDER_CACHE_DIR, or
 * $XDG_CACHE_HOME/larder, or ~/.cache/larder. Written whole or not at all. Losing one only costs
 * the time to make it again, so nothing here is worth stopping a run for. */
#ifndef LARDER_SOURCE_KEEP_H
#define LARDER_SOURCE_KEEP_H

#include <stddef.h>

/* The file's bytes, or E_NOTFOUND and the like. larder__free(*bytes). */
int larder__keep_load(const char *name, unsigned char **bytes, size_t *size);
int larder__keep_store(const char *name, const void *bytes, size_t size);

/* Where it is or would be. */
int larder__keep_path(const char *name, char *out, size_t cap);

#endif
