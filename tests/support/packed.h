/* Writes files packed as .gz or .xz, by the libraries that larder unpacks with. */
#ifndef LARDER_TEST_PACKED_H
#define LARDER_TEST_PACKED_H

#include <stdbool.h>
#include <stddef.h>

/* By the ending of the path; any other is written as it is. False when this build lacks the
 * library, and nothing was written. */
bool packed_write(const char *path, const void *bytes, size_t size);

#endif
