/* Some of a data set's bytes, hashed: enough to tell twins apart that have the same names, sizes
 * and labels, and few enough to be read whenever it is opened. Places follow from the sizes alone,
 * so that copies of a data set have the same hash wherever they lie. */
#ifndef LARDER_SOURCE_CONTENT_H
#define LARDER_SOURCE_CONTENT_H

#include <stddef.h>
#include <stdint.h>

enum {
    LARDER__CONTENT_PLACES = 64,
    LARDER__CONTENT_BYTES = 4096, /* of a place */
    LARDER__CONTENT_FILES = 16    /* that a place reaches into, where they are tiny */
};

typedef struct larder__content {
    uint64_t hash;
    uint64_t total, at; /* bytes in all, and of the files that have come */
    uint32_t place, files;
} larder__content;

/* n bytes at an offset of a file; 0 or negative. */
typedef int (*larder__content_read)(void *arg, void *out, size_t n, uint64_t at);

/* The files of a data set, one after the other, have so many bytes. */
void larder__content_begin(larder__content *, uint64_t total);
/* The next of them. What cannot be read is no reason to stop: reading it as a sample will say so.
 */
void larder__content_add(larder__content *, uint64_t size, larder__content_read, void *arg);

#endif
