/* A file read from front to end, unpacked on the way when its name ends in .gz or .xz. The caller
 * says how much it wants, so a small file that unpacks to something huge does no harm. One thread
 * at a time. */
#ifndef LARDER_SOURCE_UNPACK_H
#define LARDER_SOURCE_UNPACK_H

#include "source/stamp.h"

#include <stddef.h>

typedef struct larder__unpack larder__unpack;

int larder__unpack_open(larder__unpack **out, const char *path);
void larder__unpack_close(larder__unpack **);
bool larder__unpack_is_plain(const larder__unpack *);
/* What the file, packed as it is, was when it was opened; E_CHANGED if it no longer is. */
int larder__unpack_stamp(const larder__unpack *, larder__stamp *out);
/* *got < want only at the end of the file. */
int larder__unpack_read(larder__unpack *, void *out, size_t want, size_t *got);
/* All of `want` bytes, or E_FORMAT with the byte where the file ended. */
int larder__unpack_exact(larder__unpack *, void *out, size_t want);
/* E_FORMAT unless the file ends here. */
int larder__unpack_end(larder__unpack *);
/* Exactly `want` bytes into fresh memory that grows as they come: a lie in a header costs
 * nothing. larder__free(*out). */
int larder__unpack_all(larder__unpack *, uint64_t want, unsigned char **out);

/* FOLDER/NAME, plain or with .gz or .xz, whichever is there first. */
bool larder__unpack_find(const char *folder, const char *name, char *out, size_t cap);

#endif
