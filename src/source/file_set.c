#include "source/file_set.h"

#include "base/grow.h"
#include "base/mem.h"
#include "source/content.h"
#include "source/folder_walk.h"

#include <fcntl.h>
#include <limits.h>
#include <unistd.h>

int larder__file_set_begin(larder__file_set *s, const char *root) {
    int fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    s->numbered = fd < 0 || larder__inodes_last(fd);
    s->volume = fd < 0 ? 0 : larder__volume_of(fd);
    if (fd >= 0)
        close(fd);
    return (s->root = larder__strdup(root)) ? 0 : LARDER_E_NOMEM;
}

int larder__file_set_add(larder__file_set *s, const char *name, size_t n, uint32_t bytes,
                         larder__stamp stamp) {
    uint64_t i = s->names.count;
    int rc = larder__grow(&s->sizes, &s->sizes_cap, i + 1, sizeof *s->sizes);
    if (rc == 0)
        rc = larder__grow(&s->keys, &s->keys_cap, i + 1, sizeof *s->keys);
    if (rc == 0)
        rc = larder__names_add(&s->names, name, n);
    if (rc < 0)
        return rc;
    if (!s->numbered)
        stamp.inode = 0;
    stamp.volume = s->volume;
    s->sizes[i] = bytes;
    s->keys[i] = larder__stamp_key(&stamp);
    s->stamps = larder__stamp_hash(s->stamps, &stamp);
    s->bytes += larder__file_set_bytes(s, i);
    larder__found_sample(&s->found, name);
    return 0;
}

int larder__file_set_end(larder__file_set *s, const char *io) {
    int rc = larder__files_open(&s->files, s->root, io);
    if (rc == 0)
        larder__names_trim(&s->names);
    return rc;
}

void larder__file_set_free(larder__file_set *s) {
    larder__files_close(&s->files);
    larder__names_free(&s->names);
    larder__free(s->sizes);
    larder__free(s->keys);
    larder__free(s->root);
}

uint32_t larder__file_set_bytes(const void *st, uint64_t id) {
    const larder__file_set *s = st;
    return s->sizes[id] == LARDER__NO_SIZE ? 0 : s->sizes[id];
}

const char *larder__file_set_note(void *st, size_t i) {
    larder__file_set *s = st;
    return larder__found_note(&s->found, "files", i, &s->says);
}

/* ---- what it is ------------------------------------------------------------------------------ */

typedef struct file_bytes {
    larder__file_set *set;
    larder__file_path path;
    uint64_t id;
} file_bytes;

static int read_file(void *arg, void *out, size_t n, uint64_t at) {
    const file_bytes *f = arg;
    char path[2 * PATH_MAX];
    f->path(f->set, f->id, path, sizeof path);
    return larder__files_peek(f->set->files, path, out, n, at);
}

int larder__file_set_describe(void *st, larder__file_path path, uint32_t classes,
                              larder_dataset *out) {
    larder__file_set *s = st;
    larder__content c;
    larder__content_begin(&c, s->bytes);
    for (uint64_t i = 0; i < s->names.count; i++)
        larder__content_add(&c, larder__file_set_bytes(s, i), read_file, &(file_bytes){s, path, i});
    *out = (larder_dataset){.count = s->names.count,
                            .bytes = s->bytes,
                            .classes = classes,
                            .fingerprint = s->fingerprint,
                            .identity = s->stamps,
                            .content = c.hash};
    return 0;
}

/* ---- reading --------------------------------------------------------------------------------- */

enum { AT_ONCE = 64, PATHS = 8192 }; /* files in one go, and bytes for their paths */

/* Takes as many ids as fit, at least one. */
static size_t read_some(larder__file_set *s, larder__file_path path, const uint64_t *ids, size_t n,
                        larder_read *out) {
    larder__file_want wants[AT_ONCE];
    char paths[PATHS + 2 * PATH_MAX];
    size_t at = 0, k = 0;
    for (; k < n && k < AT_ONCE && at < PATHS; k++) {
        wants[k] = (larder__file_want){paths + at, s->sizes[ids[k]], s->keys[ids[k]]};
        path(s, ids[k], paths + at, sizeof paths - at);
        at += strlen(paths + at) + 1;
    }
    larder__files_read(s->files, wants, k, out);
    return k;
}

int larder__file_set_read(void *st, larder__file_path path, const uint64_t *ids, size_t n,
                          larder_read *out) {
    for (size_t at = 0; at < n;)
        at += read_some(st, path, ids + at, n - at, out + at);
    return 0;
}
