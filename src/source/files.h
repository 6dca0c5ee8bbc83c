/* Whole small files, many at a time. One opened set belongs to one source; any thread may read
 * through it. */
#ifndef LARDER_SOURCE_FILES_H
#define LARDER_SOURCE_FILES_H

#include <larder/plugin.h>

typedef struct larder__files larder__files;

typedef struct larder__file_want {
    const char *path; /* below the folder */
    uint32_t bytes;   /* what it must have */
    uint32_t key;     /* larder__stamp_key of what it must be, once it is read */
} larder__file_want;

/* `folder` is copied, and kept open. io: "plain" (open, read, close), "uring" (batches in the
 * kernel; E_UNSUPPORTED where it cannot be) or "auto" (the faster one that works). */
int larder__files_open(larder__files **out, const char *folder, const char *io);
void larder__files_close(larder__files **);
void larder__files_read(larder__files *, const larder__file_want *, size_t n, larder_read *out);
/* n bytes at an offset of a file, whatever it is. */
int larder__files_peek(const larder__files *, const char *path, void *out, size_t n, uint64_t at);

#endif
