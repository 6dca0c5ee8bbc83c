/* Files below a folder that are samples, as a source has found them: names, sizes, what tells
 * whether they are still the same. For sources whose state begins with it; 9 bytes and the name a
 * file. */
#ifndef LARDER_SOURCE_FILE_SET_H
#define LARDER_SOURCE_FILE_SET_H

#include "source/files.h"
#include "source/found.h"
#include "source/names.h"
#include "source/stamp.h"

#define LARDER__IO_PARAM                                                                           \
    { "io", "auto|uring|plain", "auto", "how several files are read at once", 0, 0 }

typedef struct larder__file_set {
    char *root;
    larder__names names;    /* as they were added: below the root, or below a folder of it */
    uint32_t *sizes, *keys; /* of each file: bytes or LARDER__NO_SIZE, and of its stamp */
    size_t sizes_cap, keys_cap;
    uint64_t bytes, fingerprint, stamps; /* the fingerprint is the owner's */
    bool numbered;                       /* files keep their inode */
    uint64_t volume;                     /* of the file system */
    larder__files *files;
    larder__found found;
    larder__found_says says;
} larder__file_set;

/* larder_source.name: writes the path below the root. */
typedef int larder__file_path(void *st, uint64_t id, char *out, size_t cap);

int larder__file_set_begin(larder__file_set *, const char *root);
int larder__file_set_add(larder__file_set *, const char *name, size_t n, uint32_t bytes,
                         larder__stamp);
int larder__file_set_end(larder__file_set *, const char *io);
void larder__file_set_free(larder__file_set *);

/* Operations of larder_source, of a state `st` that begins with a set. */
int larder__file_set_describe(void *st, larder__file_path, uint32_t classes, larder_dataset *out);
int larder__file_set_read(void *st, larder__file_path, const uint64_t *ids, size_t n,
                          larder_read *out);
uint32_t larder__file_set_bytes(const void *st, uint64_t id); /* 0 where it has no size */
const char *larder__file_set_note(void *st, size_t i);

#endif
