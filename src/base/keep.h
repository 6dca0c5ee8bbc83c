/* Small files that are kept between runs in the user's cache folder: $LARDER_CACHE_DIR, or
 * $XDG_CACHE_HOME/larder, or ~/.cache/larder. Written whole or not at all. Losing one only costs
 * the time to make it again, so nothing here is worth stopping a run for: a folder or a file that
 * another user could have written is as if it were not there. */
#ifndef LARDER_BASE_KEEP_H
#define LARDER_BASE_KEEP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

typedef struct larder__keep_file {
    unsigned char *bytes; /* not to be written to */
    size_t size;
    bool mapped;
    _Atomic bool *lost; /* NULL unless mapped */
} larder__keep_file;

/* The file's bytes, or E_NOTFOUND and the like. Mapped, so that they take no memory of this
 * process, unless there are too many mappings already: then they are read. A file that is replaced
 * meanwhile stays as it was for whoever has it. */
int larder__keep_map(const char *name, larder__keep_file *out);
void larder__keep_free(larder__keep_file *);
/* Its disk has failed since, or somebody made the file shorter: what was read of it may be zero. */
static inline bool larder__keep_lost(const larder__keep_file *k) {
    return k->lost && atomic_load_explicit(k->lost, memory_order_acquire);
}
int larder__keep_store(const char *name, const void *bytes, size_t size);

/* Where it is or would be. */
int larder__keep_path(const char *name, char *out, size_t cap);

#endif
